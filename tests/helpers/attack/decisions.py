"""Decisions given to `datassay apply`: each format against bytes or values computed here."""

import gzip
import json
import random
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from datassay.act.review.decisions import METADATA
from helpers.attack.attempt import Attempt, command
from helpers.attack.case import Case, contents
from helpers.decided import decided

WORDS = ("no", "yes", "it's", "Zürich", "a b")


def case(draw: random.Random, folder: Path) -> Case:
    """Data of one format, decisions about some rows, sometimes edited by hand, and the outcome."""
    n, k = draw.randint(9, 30), draw.randint(2, 4)
    labels = [*range(k), *range(k), *(draw.randrange(k) for _ in range(n - 2 * k))]
    kinds = {row: draw.choice(["relabel", "remove", "keep", "unsure"])
             for row in draw.sample(range(2 * k, n), draw.randint(1, n - 2 * k))}  # fmt: skip
    new = {row: (labels[row] + 1) % k for row, kind in kinds.items() if kind == "relabel"}
    stays = [row for row in range(n) if kinds.get(row) != "remove"]
    write = draw.choice([_text, _text, _text, _json_lines, _parquet, _archive, _idx, _images])
    words = [str(c) for c in range(k)] if write is _idx else draw.sample(WORDS, k)
    after = [new.get(row, label) for row, label in enumerate(labels)]
    data, ids, wanted, inputs = write(draw, folder, words, labels, after, stays)
    rows = [(ids[row], kind, words[labels[row]], words[new[row]] if row in new else "")
            for row, kind in kinds.items()]  # fmt: skip
    path = decided(folder / data, folder / "decisions.parquet", rows, **inputs)
    edit = draw.choice([*[None] * 6, *EDITS])
    if edit is not None:
        edit[1](path)
    name = f"{write.__name__.strip('_')} {data}{f' {edit[0]}' if edit else ''}"
    mine = contents(folder)

    def judge(ended: Attempt) -> str | None:
        now = contents(folder)
        if any(now.get(f) != content for f, content in mine.items()):
            return "lost: a file of the user"
        return None if ended.status else wanted(folder / "out")

    arguments = ["apply", data, "decisions.parquet", "--out", "out"]
    return Case(name, command(arguments), judge, refused=edit is not None and edit[2])


def _text(draw, folder, words, labels, after, stays):
    separator, end = draw.choice(",;\t|"), draw.choice(["\n", "\r\n"])
    quote = draw.choice(["", '"'])
    encoding = draw.choice(["utf-8", "utf-8-sig", "cp1252", "utf-16"])
    last = draw.choice([end, ""])
    zipped = draw.random() < 0.3
    values = [f"{draw.gauss(0, 3):.{draw.randint(0, 6)}f}" for _ in labels]

    def text(rows, chosen) -> bytes:
        lines = [[f"k{r:02d}", values[r], f"note {r}", words[chosen[r]]] for r in rows]
        lines = [["key", "x", "note", "label"], *lines]
        lines = [[c if i < 2 else f"{quote}{c}{quote}" for i, c in enumerate(row)] for row in lines]
        content = end.join(map(separator.join, lines)) + last
        # A file without its last row ends as the row before did.
        cut = rows is not every and rows[-1] != every[-1] and not last
        return (content + end * cut).encode(encoding)

    every = range(len(labels))
    name = f"t.{'tsv' if separator == chr(9) else 'csv'}{'.gz' * zipped}"
    pack = gzip.compress if zipped else bytes
    (folder / name).write_bytes(pack(text(every, labels)))
    wanted = text(stays, after)

    def judge(out):
        made = (out / name).read_bytes()
        made = gzip.decompress(made) if zipped else made
        return None if made == wanted else f"silent: other bytes than decided ({encoding})"

    inputs = {"target": "label", "ids": "key"}
    return name, [f"k{r:02d}" for r in every], judge, inputs


def _json_lines(draw, folder, words, labels, after, stays):
    space = draw.choice([(", ", ": "), (",", ":")])
    first = draw.random() < 0.5

    def text(rows, chosen):
        made = [{"key": r, "x": r / 7, "label": words[chosen[r]]} for r in rows]
        made = [dict(reversed(one.items())) if first else one for one in made]
        return "".join(json.dumps(one, separators=space) + "\n" for one in made).encode()

    (folder / "t.jsonl").write_bytes(text(range(len(labels)), labels))
    wanted = text(stays, after)
    return "t.jsonl", [*range(len(labels))], lambda out: (
        None if (out / "t.jsonl").read_bytes() == wanted else "silent: other bytes"
    ), {"target": "label", "ids": "key"}  # fmt: skip


def _parquet(draw, folder, words, labels, after, stays):
    x = [draw.gauss(0, 1) for _ in labels]
    table = {
        "key": [7 * r for r in range(len(labels))],
        "x": x,
        "label": [words[c] for c in labels],
    }
    pq.write_table(pa.table(table), folder / "t.parquet")
    table["label"] = [words[c] for c in after]
    wanted = pa.table(table).take(stays)
    return "t.parquet", table["key"], lambda out: (
        None if pq.read_table(out / "t.parquet").equals(wanted) else "silent: another table"
    ), {"target": "label", "ids": "key"}  # fmt: skip


def _archive(draw, folder, words, labels, after, stays):
    n = len(labels)
    arrays = {"x": np.random.default_rng(draw.randrange(99)).normal(size=(n, 3)),
              "ids": np.array([f"s{r}" for r in range(n)]), "more": np.arange(n)}  # fmt: skip
    y = np.array([words[c] for c in labels], "U20")
    np.savez(folder / "t.npz", **arrays, y=y)
    wanted = {**arrays, "y": np.array([words[c] for c in after], "U20")}

    def judge(out):
        with np.load(out / "t.npz") as made:
            same = all((made[name] == values[stays]).all() and made[name].dtype == values.dtype
                       for name, values in wanted.items())  # fmt: skip
        return None if same else "silent: other arrays"

    return "t.npz", arrays["ids"].tolist(), judge, {}


def _idx(draw, folder, words, labels, after, stays):
    pixels = np.random.default_rng(draw.randrange(99)).integers(0, 256, (len(labels), 4, 4), "u1")

    def parts(rows, chosen):
        return {
            "train-images-idx3-ubyte": struct.pack(">IIII", 0x803, len(rows), 4, 4)
            + pixels[rows].tobytes(),
            "train-labels-idx1-ubyte": struct.pack(">II", 0x801, len(rows))
            + bytes([chosen[r] for r in rows]),
        }

    (folder / "idx").mkdir()
    for name, content in parts([*range(len(labels))], labels).items():
        (folder / "idx" / name).write_bytes(content)
    return "idx", [*range(len(labels))], lambda out: _same(out, parts(stays, after)), {}


def _images(draw, folder, words, labels, after, stays):
    files = {}
    for r, c in enumerate(labels):
        path = folder / "pets" / words[c] / f"{r}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 5), (r, 9, 255 - r)).save(path)
        files[r] = path.read_bytes()
    ids = [f"{words[c]}/{r}.png" for r, c in enumerate(labels)]
    wanted = {f"{words[after[r]]}/{r}.png": files[r] for r in stays}
    return "pets", ids, lambda out: _same(out, wanted), {}


def _same(out, wanted):
    made = {f: c for f, c in contents(out).items() if not f.startswith("changelog")}
    return None if made == wanted else "silent: other files"


def _column(name, values):
    def edit(path):
        table = pq.read_table(path)
        index = table.column_names.index(name)
        pq.write_table(table.set_column(index, name, pa.array([values] * len(table))), path)

    return edit


def _about(**more):
    def edit(path):
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[METADATA]) | more
        pq.write_table(table.replace_schema_metadata({METADATA: json.dumps(about)}), path)

    return edit


def _pandas(path):
    """As pandas writes what it read: NaN for none, and its own metadata."""
    table = pq.read_table(path)
    whole = pa.Table.from_pandas(table.to_pandas(), preserve_index=False)
    pq.write_table(
        whole.replace_schema_metadata(whole.schema.metadata | table.schema.metadata), path
    )


# What a hand did to the file, and whether it must be refused.
EDITS = [
    *((f"{name} {value!r}", _column(name, value), True) for name, value in (
        ("id", True), ("id", 1.5), ("id", "nobody"), ("label", 1), ("label", {"a": 1}),
        ("label", "no class"), ("given", "no class"), ("given", 3), ("when", 5),
        ("seen_score", "x"), ("seen_score", 7.0), ("decision", "burn"), ("decision", 1))),
    ("seen_score nan", _column("seen_score", float("nan")), False),
    ("digest", _about(digest="0" * 64), True), ("class_names", _about(class_names=5), True),
    ("inputs", _about(inputs="x"), True), ("pandas", _pandas, False),
    ("target", _about(inputs={"target": "none"}), None),
    ("cut", lambda path: path.write_bytes(path.read_bytes()[:-9]), True),
]  # fmt: skip
