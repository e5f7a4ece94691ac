"""Data that nobody has seen, drawn by a seed with faults planted; what a run says of them is judged.

    python tests/helpers/fresh.py [--seed S] [--number N] [--keep FOLDER]

Seven kinds in turn: classes, amounts, pure noise, texts, pictures, groups, several targets. A
statement is false where ids, labels, copies, leaks or what `apply` writes are not those of the data,
where more labels are wrong, or fewer, than is said, and where most that is listed is right.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))
from helpers.command_line import invoke

NAMES = (("no", "yes"), ("0", "1"), ("low", "mid", "high"), ("NA", "EU"), ("10 %", "20 %", "50 %"),
         ("Öl", "Gas", "Luft", "Größe"), ("None", "some", "all"), ("x.y", "class-01", "ñandú", "e’te"))  # fmt: skip
TOPICS = ("oven butter flour sugar recipe bake dough onion soup", "goal match team coach league cup",
          "court judge lawyer verdict appeal statute jury", "planet orbit star galaxy comet moon sun")  # fmt: skip
COMMON = "the a of and to in it was for on with that they this have from one had but what".split()


@dataclass
class Drawn:
    """What was drawn: a row of `rows` a sample, in the order of the data, and what is true of it."""

    kind: str
    path: Path
    options: list[str]
    rows: pd.DataFrame  # id, given, true; of: the id of which it is a copy, or ""
    leak: str = ""
    targets: list[str] = field(default_factory=lambda: ["target"])


def _classes(rng, inputs, k):
    """Labels that a linear or a bent rule tells, not always surely."""
    bent = np.tanh(2 * inputs @ rng.normal(size=(inputs.shape[1], 12))) @ rng.normal(size=(12, k))
    scores = bent if rng.random() < 0.5 else inputs @ rng.normal(size=(inputs.shape[1], k))
    scores = scores / scores.std() * rng.choice([3.0, 8.0]) + rng.gumbel(size=scores.shape)
    return (scores - scores.mean(0)).argmax(1)


def _spoiled(rng, true, k):
    """The labels with up to a fifth wrong: any other class, or the first as the second."""
    rate, wrong = rng.choice([0, 0.03, 0.08, 0.2]), true.copy()
    one_way = rng.random() < 0.3
    hit = (rng.random(len(true)) < rate) & ((true == 0) | (not one_way))
    wrong[hit] = 1 if one_way else (true[hit] + rng.integers(1, k, hit.sum())) % k
    return wrong


def _columns(rng, inputs):
    """Inputs as a user has them: numbers of any scale, whole ones, categories, dates, flags."""
    table = {}
    for j, v in enumerate(inputs.T):
        form = rng.choice(["number", "number", "whole", "category", "date", "flag"])
        levels = np.array(["Axa", "By", "Cz", "Dx", "Ey"])
        table[f"{form}{j}"] = {
            "number": np.round(v * 10.0 ** rng.integers(-2, 4) + 3, 5),
            "whole": np.round(20 * v).astype(int),
            "category": levels[np.digitize(v, np.quantile(v, [0.2, 0.4, 0.6, 0.8]))],
            "date": (pd.Timestamp("2019-01-01") + pd.to_timedelta((200 * v).round(), "D")).strftime("%Y-%m-%d"),
            "flag": v > 0,
        }[form]  # fmt: skip
    return pd.DataFrame(table)


def _table(rng, kind, folder):
    """A table of classes, amounts or pure noise; with groups whose rows are alike, or two targets."""
    n, d = int(rng.integers(120, 400)), int(rng.integers(3, 9))
    group = np.arange(n) // 4
    inputs = rng.normal(size=(n, d)) + (kind == "groups") * rng.normal(size=(n // 4 + 1, d))[group]
    names = np.array(NAMES[rng.integers(len(NAMES))])
    table, options = _columns(rng, inputs), []
    if kind in {"amounts", "targets"}:
        value = inputs @ rng.normal(size=d) * 10 + rng.normal(size=n) * rng.choice([1.0, 5.0]) + 50
        true = np.round(value, 3)
        given = np.where(rng.random(n) < rng.choice([0, 0.03, 0.06]), np.round(true * 10, 2), true)
    else:
        true = _classes(rng, inputs, len(names))
        if kind == "noise":
            true = rng.integers(len(names), size=n)
        spoiled = true if kind == "noise" else _spoiled(rng, true, len(names))
        true, given = names[true], names[spoiled]
    rows = pd.DataFrame({"given": given, "true": true, "of": ""})
    leak = ""
    if kind in {"classes", "amounts"} and rng.random() < 0.25:
        leak, codes = "account", pd.factorize(given, sort=True)[0] if kind == "classes" else given
        table[leak] = np.round(codes * 7.0 + 1, 4)
    if kind == "targets":
        table["second"] = np.round(inputs @ rng.normal(size=d) + rng.normal(size=n), 3)
    if kind == "groups":
        table["household"], options = [f"h{g:03d}" for g in group], ["--groups", "household"]
    if rng.random() < 0.4:
        column = table.columns[0]
        table[column] = table[column].astype(object).where(rng.random(n) > 0.07, None)
    again = rng.choice(n, 5, replace=False) if rng.random() < 0.4 and kind != "noise" else []
    table["target"], keys = given, [f"k{v:05d}" for v in rng.permutation(9 * n)[: n + len(again)]]
    copies = rows.iloc[again].assign(of=[keys[i] for i in again])
    table = pd.concat([table, table.iloc[again]], ignore_index=True)
    rows = pd.concat([rows, copies], ignore_index=True).assign(id=keys)
    table.insert(0, "key", keys)
    order = rng.permutation(len(table))
    path = folder / "data.csv"
    table.iloc[order].to_csv(path, index=False)
    targets = ["target", "second"] if kind == "targets" else ["target"]
    options += ["--target", ",".join(targets), "--ids", "key"]
    return Drawn(kind, path, options, rows.iloc[order].reset_index(drop=True), leak, targets)


def _texts(rng, kind, folder):
    n, k = int(rng.integers(120, 260)), int(rng.integers(2, 5))
    names, true = np.array(NAMES[5][:k]), rng.permutation(np.arange(n) % k)
    words = [TOPICS[t].split() for t in range(k)]
    texts = [" ".join(rng.choice(words[t] if rng.random() < 0.5 else COMMON) for _ in range(14)) for t in true]
    given = _spoiled(rng, true, k)
    rows = pd.DataFrame({"given": names[given], "true": names[true], "of": ""})
    rows["id"] = [f"t{v:05d}" for v in rng.permutation(9 * n)[:n]]
    again = rng.choice(n, 4, replace=False)
    copies = rows.iloc[again].assign(of=rows.id[again], id=[f"c{i}" for i in range(4)])
    texts, rows = texts + [texts[i] for i in again], pd.concat([rows, copies], ignore_index=True)
    order, path = rng.permutation(len(rows)), folder / "texts.csv"
    rows = rows.iloc[order].reset_index(drop=True)
    table = {"key": rows.id, "text": [texts[i] for i in order], "target": rows.given}
    pd.DataFrame(table).to_csv(path, index=False)
    return Drawn(kind, path, ["--target", "target", "--ids", "key"], rows)


def _pictures(rng, kind, folder):
    from PIL import Image

    n, names, side = int(rng.integers(90, 160)), ("disc", "square"), 16
    true = rng.permutation(np.arange(n) % 2)
    given, rows, root = _spoiled(rng, true, 2), [], folder / "photos"
    v, u = np.mgrid[:side, :side] - side / 2 + 0.5
    for i, (t, g) in enumerate(zip(true, given, strict=True)):
        a, b, s = *rng.uniform(-2, 2, 2), rng.uniform(4, 6)
        radius = np.hypot(u - a, v - b) if t == 0 else np.maximum(abs(u - a), abs(v - b))
        grey = np.where(radius < s, 190, 60) + rng.normal(0, 9, (side, side))
        path = root / names[g] / f"{i:03d} é.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(grey.clip(0, 255).astype(np.uint8)).save(path)
        rows.append((path.relative_to(root).as_posix(), names[g], names[t], ""))
    for i in rng.choice(n, 3, replace=False):
        path = root / names[given[i]] / f"copy of {Path(rows[i][0]).name}"
        shutil.copy(root / rows[i][0], path)
        rows.append((path.relative_to(root).as_posix(), *rows[i][1:3], rows[i][0]))
    rows = pd.DataFrame(rows, columns=["id", "given", "true", "of"])
    return Drawn(kind, root, ["--val-fraction", "0"], rows)


KINDS = {"classes": _table, "amounts": _table, "noise": _table, "texts": _texts,
         "pictures": _pictures, "groups": _table, "targets": _table}  # fmt: skip


def draw(seed: int, folder: Path) -> Drawn:
    """Write the data of a seed; the kind is the seed's turn."""
    kind = list(KINDS)[seed % len(KINDS)]
    return KINDS[kind](np.random.default_rng([60, seed]), kind, folder)


def false(drawn: Drawn, folder: Path) -> list[str]:
    """What is said of the data that is not so."""
    out = folder / "report"
    ended = invoke("score", drawn.path, *drawn.options, "--out", out)
    if ended.exit_code:
        return [f"exit {ended.exit_code}: {ended.output[-400:]}"]
    summary = json.loads((out / "summary.json").read_text())
    scores = pd.read_parquet(out / "scores.parquet")
    scores.index = scores.id.astype(str)
    rows = drawn.rows.set_index("id")
    if sorted(scores.index) != sorted(rows.index) or (
        drawn.path.is_file() and list(scores.index) != list(rows.index)
    ):
        return [f"ids are not the rows' ids: {sorted(set(scores.index) ^ set(rows.index))[:3]}"]
    rows = rows.loc[scores.index]
    return [*_of_data(drawn, rows, scores, summary), *_of_labels(drawn, rows, scores, summary),
            *_of_apply(drawn, rows, scores, folder)]  # fmt: skip


def _of_data(drawn, rows, scores, summary):
    is_amount = drawn.kind in {"amounts", "targets"}
    if drawn.kind == "targets":
        pass
    elif is_amount:
        if not np.allclose(scores.label.astype(float), rows.given.astype(float)):
            yield "given targets are not those of the data"
    elif list(scores.class_name.astype(str)) != list(rows.given):
        yield "given labels are not those of the data"
    groups = scores.duplicate_group
    for copy, of in rows.of[rows.of != ""].items():
        if not groups[copy] == groups[of]:
            yield f"{copy} equals {of}, and is not said to"
    roots = rows.of.where(rows.of != "", rows.index.to_series())
    if (roots.groupby(groups).nunique() > 1).any():
        yield "different rows are called equal"
    issues = {issue["kind"]: issue for issue in summary["data_issues"]["issues"]}
    leaks = issues.get("leaking columns", {"sentence": ""})["sentence"]
    if bool(drawn.leak) != bool(leaks) or drawn.leak not in leaks:
        yield f"leak {drawn.leak or 'of no column'}, said: {leaks or 'none'}"


def _of_labels(drawn, rows, scores, summary):
    if drawn.leak:  # with the target among the inputs, labels cannot be judged
        return
    wrong, listed = (rows.given != rows.true).to_numpy(), scores.is_issue.to_numpy(bool)
    low, high = (summary["counts"][f"wrong_at_{end}"] for end in ("least", "most"))
    if low > 2 * wrong.sum() + 2 or high < wrong.sum() / 2 - 2:
        yield f"{low} to {high} are said to be wrong, {wrong.sum()} are"
    if drawn.kind == "noise" and (listed.any() or low):
        yield f"nothing predicts the labels, and {listed.sum()} are probably wrong"
    if listed.sum() >= 5 and (listed & wrong).sum() < listed.sum() / 2:
        yield f"{listed.sum()} are probably wrong, of them {(listed & wrong).sum()} are"
    if drawn.kind == "amounts":
        suggested, given = scores.suggested_label.astype(float), rows.given.astype(float)
        if suggested.max() > given.max() or suggested.min() < given.min():
            yield "a suggested target lies outside what was observed"


def _cells(drawn, path):
    """Of each sample: its label, and all else that is stored of it."""
    if path.is_dir():
        files = [f for f in path.rglob("*.png")]
        return {f.name: (f.parent.name, f.read_bytes()) for f in files}
    table = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("key")
    return {key: (row.pop("target"), row) for key, row in table.to_dict("index").items()}


def _of_apply(drawn, rows, scores, folder):
    if drawn.kind == "targets":  # of several, none is suggested
        return
    before, is_file = _cells(drawn, drawn.path), drawn.path.is_file()
    name = {i: i if is_file else Path(i).name for i in scores.index}
    sure, is_copy = scores.wrong_probability >= 0.9, scores.is_copy
    for option, changed in ((["--accept-suggested", "0.9"], sure), (["--drop-copies"], is_copy)):
        if not changed.any():
            continue
        out = folder / option[0].strip("-")
        ended = invoke("apply", drawn.path, folder / "report", *option, "--out", out)
        if ended.exit_code:
            yield f"apply {option[0]}: exit {ended.exit_code}: {ended.output[-300:]}"
            continue
        wanted = {key: cells for key, cells in before.items()}
        for i in scores.index[changed]:
            label, rest = wanted.pop(name[i])
            if option[0] != "--drop-copies":
                wanted[name[i]] = str(scores.suggested_label[i]), rest
        after = _cells(drawn, out / drawn.path.name if is_file else out)
        if drawn.kind == "amounts":
            wanted, after = ({k: (float(a), b) for k, (a, b) in c.items()} for c in (wanted, after))
        if after != wanted:
            off = [k for k in {*after, *wanted} if after.get(k) != wanted.get(k)]
            yield f"apply {option[0]}: {len(off)} rows are not as said, such as {off[0]}"
    lost = set(rows.of.where(rows.of != "", rows.index.to_series())[is_copy])
    if missing := lost - set(rows.of.where(rows.of != "", rows.index.to_series())[~is_copy]):
        yield f"--drop-copies removes {len(missing)} that nothing repeats"


def main(arguments: list[str]) -> int:
    """Judge draws by the clock, or by a seed; how many hold something false."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6, 10**9))
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args(arguments)
    n_false = 0
    for seed in range(given.seed, given.seed + given.number):
        with tempfile.TemporaryDirectory() as scratch:
            folder = (given.keep or Path(scratch)) / str(seed)
            folder.mkdir(parents=True)
            drawn = draw(seed, folder)
            found = false(drawn, folder)
        n_false += bool(found)
        words = "".join(f"\n    FALSE: {one}" for one in found)
        sys.stdout.write(f"{seed}: {drawn.kind}, {len(drawn.rows)} samples{words}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{n_false} of {given.number} draws hold something false\n")
    return n_false


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))
