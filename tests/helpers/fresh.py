"""Data that nobody has seen, drawn by a seed with faults planted, and what a run says of them.

    python tests/helpers/fresh.py [--seed S] [--number N]

Seven kinds in turn: classes, amounts, noise, texts, pictures, groups, several targets. A statement
is false where ids, labels, copies, leaks or what `apply` writes are not those of the data, where
more labels are wrong than is said, or fewer, and where most of what is listed is right.
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
from PIL import Image

sys.path.append(str(Path(__file__).parents[1]))
from helpers.command_line import invoke

NAMES = [
    words.split("|")
    for words in (
        "no|yes", "0|1", "low|mid|high", "NA|EU", "10 %|20 %|50 %", "Öl|Gas|Luft|Größe",
        "None|some|all", "x.y|class-01|ñandú|e’te",
    )
]  # fmt: skip
TOPICS = [words.split() for words in (
    "oven butter flour sugar recipe bake dough", "goal match team coach league cup referee",
    "court judge lawyer verdict appeal statute jury", "planet orbit star galaxy comet moon sun",
)]  # fmt: skip
COMMON = "the a of and to in it was for on with that they this have from one had but what".split()


@dataclass
class Drawn:
    """`rows` holds of each sample its id, given and true label, and the id it is a copy of."""

    kind: str
    path: Path
    options: list[str]
    rows: pd.DataFrame
    leak: str = ""
    root: pd.Series = field(init=False)

    def __post_init__(self):
        self.rows = self.rows.set_index("id")
        self.root = self.rows.of.where(self.rows.of != "", self.rows.index.to_series())

    @property
    def is_number(self):
        return self.kind in {"amounts", "targets"}


def _classes(rng, inputs, k):
    """Labels that a linear or a bent rule tells, not always surely."""
    bent = np.tanh(2 * inputs @ rng.normal(size=(inputs.shape[1], 12))) @ rng.normal(size=(12, k))
    scores = bent if rng.random() < 0.5 else inputs @ rng.normal(size=(inputs.shape[1], k))
    scores = scores / scores.std() * rng.choice([3.0, 8.0]) + rng.gumbel(size=scores.shape)
    return (scores - scores.mean(0)).argmax(1)


def _spoiled(rng, true, k):
    """The labels with up to a fifth wrong: any other class, or the first as the second."""
    one_way, wrong = rng.random() < 0.3, true.copy()
    hit = (rng.random(len(true)) < rng.choice([0, 0.03, 0.08, 0.2])) & ((true == 0) | (not one_way))
    wrong[hit] = 1 if one_way else (true[hit] + rng.integers(1, k, hit.sum())) % k
    return wrong


def _columns(rng, inputs):
    """Inputs as a user has them: numbers of any scale, whole ones, categories, dates, flags."""
    table, levels = {}, np.array(["Axa", "By", "Cz", "Dx", "Ey"])
    for j, v in enumerate(inputs.T):
        form = rng.choice(["number", "number", "whole", "category", "date", "flag"])
        form = "number" if j == 1 else form  # without one, rows are equal by chance
        days = pd.Timestamp("2019-01-01") + pd.to_timedelta((200 * v).round(), "D")
        table[f"{form}{j}"] = {
            "number": np.round(v * 10.0 ** rng.integers(-2, 4) + 3, 5),
            "whole": np.round(20 * v).astype(int),
            "category": levels[np.digitize(v, np.quantile(v, [0.2, 0.4, 0.6, 0.8]))],
            "date": days.strftime("%Y-%m-%d"),
            "flag": v > 0,
        }[form]
    return pd.DataFrame(table)


def _written(rng, kind, path, table, rows, options, leak="", n_copies=0):
    """The table with some rows twice and ids, in a drawn order, as a file."""
    n = len(table)
    keys, again = rng.permutation(9 * n)[: n + n_copies], rng.choice(n, n_copies, replace=False)
    keys = np.array([f"k{v:05d}" for v in keys])
    copies = rows.iloc[again].assign(of=keys[again])
    rows = pd.concat([rows, copies], ignore_index=True).assign(id=keys)
    table = pd.concat([table, table.iloc[again]], ignore_index=True)
    order = rng.permutation(len(table))
    table.assign(key=keys).iloc[order].to_csv(path, index=False)
    return Drawn(kind, path, [*options, "--ids", "key"], rows.iloc[order], leak)


def _table(rng, kind, folder):
    """Classes, amounts or pure noise; with groups whose rows are alike, or two targets."""
    n, d = int(rng.integers(120, 400)), int(rng.integers(3, 9))
    group, names = np.arange(n) // 4, np.array(NAMES[rng.integers(len(NAMES))])
    inputs = rng.normal(size=(n, d)) + (kind == "groups") * rng.normal(size=(n // 4 + 1, d))[group]
    table, options, leak = _columns(rng, inputs), ["--target", "target"], ""
    if kind in {"amounts", "targets"}:
        value = inputs @ rng.normal(size=d) * 10 + rng.normal(size=n) * rng.choice([1.0, 5.0]) + 50
        true = np.round(value, 3)
        given = np.where(rng.random(n) < rng.choice([0, 0.03, 0.06]), np.round(true * 10, 2), true)
    else:
        k = len(names)
        true = rng.integers(k, size=n) if kind == "noise" else _classes(rng, inputs, k)
        true, given = names[true], names[true if kind == "noise" else _spoiled(rng, true, k)]
    if kind in {"classes", "amounts"} and rng.random() < 0.25:
        leak, codes = "account", given if kind == "amounts" else pd.factorize(given, sort=True)[0]
        table[leak] = np.round(codes * 7.0 + 1, 4)
    if kind == "targets":
        table["second"] = np.round(inputs @ rng.normal(size=d) + rng.normal(size=n), 3)
        options = ["--target", "target,second"]
    if kind == "groups":
        table["household"] = [f"h{g:03d}" for g in group]
        options += ["--groups", "household"]
    if rng.random() < 0.4:
        some = table.columns[0]
        table[some] = table[some].astype(object).where(rng.random(n) > 0.07, None)
    n_copies, rows = 5 * int(rng.random() < 0.4), pd.DataFrame({"given": given, "true": true})
    table = table.assign(target=given)
    return _written(
        rng, kind, folder / "data.csv", table, rows.assign(of=""), options, leak, n_copies
    )


def _texts(rng, kind, folder):
    n, k = int(rng.integers(120, 260)), int(rng.integers(2, 5))
    true, names = rng.permutation(np.arange(n) % k), np.array(NAMES[5])
    given = _spoiled(rng, true, k)
    texts = [" ".join(rng.choice(TOPICS[t] if rng.random() < 0.5 else COMMON) for _ in range(14))
             for t in true]  # fmt: skip
    rows = pd.DataFrame({"given": names[given], "true": names[true], "of": ""})
    table, options = pd.DataFrame({"text": texts, "target": names[given]}), ["--target", "target"]
    return _written(rng, kind, folder / "texts.csv", table, rows, options, n_copies=4)


def _pictures(rng, kind, folder):
    n, names, side, root = int(rng.integers(90, 160)), ("disc", "square"), 16, folder / "photos"
    true, rows = rng.permutation(np.arange(n) % 2), []
    v, u = np.mgrid[:side, :side] - side / 2 + 0.5
    for i, (t, g) in enumerate(zip(true, _spoiled(rng, true, 2), strict=True)):
        a, b, s = *rng.uniform(-2, 2, 2), rng.uniform(4, 6)
        away = np.hypot(u - a, v - b) if t == 0 else np.maximum(abs(u - a), abs(v - b))
        grey = np.where(away < s, 190, 60) + rng.normal(0, 9, (side, side))
        path = root / names[g] / f"{i:03d} é.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(grey.clip(0, 255).astype(np.uint8)).save(path)
        rows.append((path.relative_to(root).as_posix(), names[g], names[t], ""))
    for name, g, t, _ in [rows[i] for i in rng.choice(n, 3, replace=False)]:
        rows.append((f"{g}/copy of {Path(name).name}", g, t, name))
        shutil.copy(root / name, root / rows[-1][0])
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
    ended = invoke("score", drawn.path, *drawn.options, "--out", folder / "report")
    if ended.exit_code:
        return [f"exit {ended.exit_code}: {ended.output[-400:]}"]
    summary = json.loads((folder / "report/summary.json").read_text())
    scores = pd.read_parquet(folder / "report/scores.parquet").set_index("id", drop=False)
    ids, wanted = list(scores.index), list(drawn.rows.index)
    if (ids if drawn.path.is_file() else sorted(ids)) != (
        wanted if drawn.path.is_file() else sorted(wanted)
    ):
        return [f"ids are not those of the data: {sorted(set(ids) ^ set(wanted))[:3]}"]
    drawn.rows, drawn.root = drawn.rows.loc[ids], drawn.root.loc[ids]
    return [*_of_data(drawn, scores, summary), *_of_labels(drawn, scores, summary["counts"]),
            *_of_apply(drawn, scores, folder)]  # fmt: skip


def _of_data(drawn, scores, summary):
    given = drawn.rows.given
    if drawn.kind == "amounts" and not np.allclose(scores.label.astype(float), given.astype(float)):
        yield "given targets are not those of the data"
    if not drawn.is_number and list(scores.class_name.astype(str)) != list(given):
        yield "given labels are not those of the data"
    groups = scores.duplicate_group
    for copy, of in drawn.rows.of[drawn.rows.of != ""].items():
        if not groups[copy] == groups[of]:
            yield f"{copy} equals {of}, and is not said to"
    if (drawn.root.groupby(groups).nunique() > 1).any():
        yield "different rows are called equal"
    issues = {issue["kind"]: issue["sentence"] for issue in summary["data_issues"]["issues"]}
    leaks = issues.get("leaking columns", "")
    if bool(drawn.leak) != bool(leaks) or drawn.leak not in leaks:
        yield f"leak {drawn.leak or 'of no column'}, said: {leaks or 'none'}"


def _of_labels(drawn, scores, counts):
    if drawn.leak:  # with the target among the inputs, labels cannot be judged
        return
    wrong = (drawn.rows.given != drawn.rows.true).to_numpy()
    listed, n = scores.is_issue.to_numpy(bool), wrong.sum()
    low, high = counts["wrong_at_least"], counts["wrong_at_most"]
    if low > 2 * n + 2 or high < n / 2 - 2:
        yield f"{low} to {high} are said to be wrong, {n} are"
    if drawn.kind == "noise" and (listed.any() or low):
        yield f"nothing predicts the labels, and {listed.sum()} are probably wrong"
    if listed.sum() >= 5 and (listed & wrong).sum() < listed.sum() / 2:
        yield f"{listed.sum()} are probably wrong, of them {(listed & wrong).sum()} are"
    if drawn.kind == "amounts":
        new, given = scores.suggested_label.astype(float), drawn.rows.given.astype(float)
        if new.max() > given.max() or new.min() < given.min():
            yield "a suggested target lies outside what was observed"


def _cells(path, is_number):
    """Of each sample: its label, and all else that is stored of it."""
    if path.is_dir():
        return {f.name: (f.parent.name, f.read_bytes()) for f in path.rglob("*.png")}
    table = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("key")
    labels = table.pop("target").map(float if is_number else str)
    return dict(
        zip(table.index, zip(labels, map(tuple, table.to_numpy()), strict=True), strict=True)
    )


def _of_apply(drawn, scores, folder):
    if drawn.kind == "targets":  # of several, none is suggested
        return
    sure, is_copy = scores.wrong_probability >= 0.9, scores.is_copy
    for words, chosen in (("--accept-suggested 0.9", sure), ("--drop-copies", is_copy)):
        out, wanted = folder / words[2:6], _cells(drawn.path, drawn.is_number)
        if not chosen.any():
            continue
        ended = invoke("apply", drawn.path, folder / "report", *words.split(), "--out", out)
        if ended.exit_code:
            yield f"apply {words}: exit {ended.exit_code}: {ended.output[-300:]}"
            continue
        for i in scores.index[chosen]:
            name = i if drawn.path.is_file() else Path(i).name
            _, rest = wanted.pop(name)
            if chosen is sure:
                new = scores.suggested_label[i]
                wanted[name] = float(new) if drawn.is_number else str(new), rest
        made = out / drawn.path.name if drawn.path.is_file() else out
        after = _cells(made, drawn.is_number)
        off = [k for k in {*after, *wanted} if after.get(k) != wanted.get(k)]
        if off:
            yield f"apply {words}: {len(off)} samples are not as said, such as {off[0]}"
    if missing := set(drawn.root[is_copy]) - set(drawn.root[~is_copy]):
        yield f"--drop-copies removes {len(missing)} that nothing repeats"


def main(arguments: list[str]) -> int:
    """Judge draws by the clock, or from a seed on; how many hold something false."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6, 10**9))
    parser.add_argument("--number", type=int, default=20)
    given, n_false = parser.parse_args(arguments), 0
    for seed in range(given.seed, given.seed + given.number):
        with tempfile.TemporaryDirectory() as folder:
            drawn = draw(seed, Path(folder))
            found = false(drawn, Path(folder))
        n_false += bool(found)
        words = "".join(f"\n    FALSE: {one}" for one in found)
        sys.stdout.write(f"{seed}: {drawn.kind}, {len(drawn.rows)} samples{words}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{n_false} of {given.number} draws hold something false\n")
    return n_false


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))
