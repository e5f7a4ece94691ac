"""Tables as they come: twenty of them, as shipped, by one command each, no option but --target.

Each is written to CSV as its package gives it: row names, gaps and all. "shipped": does `datassay
run` end well, how many rows are scored, how many of the rarest class are flagged compared with
confident learning; "ended": those, ten with groups or time and ten of 20 to 1000 classes, seconds
alone; "copies": planted exact and near duplicates; "groups": in groups, and the best
distance to cut at, chosen knowing the truth; "outliers": skewed regression with 1 % gross
errors; "units": 3 % of the targets in another unit; "panels": held-out scores and those of groups,
or of a time, that were never seen; "half": half of the samples kept, a tree retrained; "seconds":
12 000 and 200 000 x 11; "dialects": numbers as strings; "refused", "budget": seconds of a command
that cannot be done, and of one that may take forty.
"""

import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from bench import data, detectors
from bench.baselines import cleanlab
from bench.frame import Case, Options, Row, Task
from scipy.spatial.distance import pdist
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from datassay import assay
from datassay.data import load
from datassay.score import data_issues

# name → package (None: scikit-learn), item, target.
TABLES = {
    **{name: (None, name, "target") for name in ("iris", "wine", "breast_cancer", "diabetes")},
    **{name: data.TABLES[name] for name in ("churn", "credit", "attrition", "leaf", "hpc")},
    "telco": ("modeldata", "wa_churn", "churn"),
    "cells": ("modeldata", "cells", "class"),
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
# The same with groups or time: their columns, "time" where they are times.
PANELS = {
    "wagepan": ("wooldridge", "wagepan", "union", "nr", "groups"),
    "crime4": ("wooldridge", "crime4", "crmrte", "county", "groups"),
    "respiratory": ("HSAUR", "respiratory", "status", "subject", "groups"),
    "schools": ("mlmRev", "Exam", "normexam", "school", "groups"),
    "houses": ("ggplot2", "txhousing", "median", "date", "time"),
    "crimes": ("AER", "Guns", "violent", "year", "time"),
}
GROUPED = {name: one[:3] for name, one in PANELS.items()} | {
    "guns": ("AER", "Guns", "law"),
    "produc": ("Ecdat", "Produc", "gsp"),
    "nations": ("dslabs", "gapminder", "continent"),
    "stocks": ("ISLR", "Weekly", "Direction"),
}
MANY_CLASSES = {
    "teams": ("openintro", "mlbbat10", "team"),
    "electrodes": ("itsadug", "eeg", "Electrode"),
    "grades": ("modeldata", "lending_club", "sub_grade"),
    "states": ("AER", "Guns", "state"),
    "zips": ("modeldata", "Sacramento", "zip"),
    "freedom": ("openintro", "hfi", "countries"),
    "courses": ("openintro", "ucla_f18", "subject"),
    "pollsters": ("dslabs", "polls_us_election_2016", "pollster"),
    "artists": ("modeldata", "tate_text", "artist"),
    "companies": ("sandwich", "InstInnovation", "company"),
}
FORTY = {**TABLES, **GROUPED, **MANY_CLASSES}
# None on which the scale of the targets was chosen.
UNITS = {
    "computers": ("Ecdat", "Computers", "price"),
    "cars": ("modeldata", "car_prices", "Price"),
    "homes": ("modeldata", "Sacramento", "price"),
    "saratoga": ("mosaicData", "SaratogaHouses", "price"),
    "rooms": ("modeldata", "hotel_rates", "avg_price_per_room"),
    "rice": ("plm", "RiceFarms", "wage"),
}
WRONG_UNITS = {"/12": 1 / 12, "x10": 10.0, "x1000": 1000.0, "sign": -1.0}
CLEAN = "clean"
COPIES = ("churn", "hpc", "lending", "cells", "diamonds", "leaf")
SKEWED = ("diamonds", "ames", "Hitters", "wages", "college")
N, PLANTED = 3000, 300
# Of planted groups: rows a group, deviations of its members, columns; rows of each table.
SIZES, APART, WIDTHS = (2, 3, 5, 10, 20), (1e-6, 1e-4, 1e-3, 1e-2), (2, 3, 8, 64, 512)
N_GROUPED, GROUPS, PRECISE = 1000, 10, 0.98
FACTOR, SEEDS = 10.0, 3  # of a gross error; draws of them


# Numbers of those with so many values, at most so many columns a table, as strings.
STRINGS, MANY, PER_TABLE = ("ames", "churn", "cells", "college", "hpc"), 20, 6


def comma(text: str, group: str = ".") -> str:
    return text.replace(",", "_").replace(".", ",").replace("_", group)


DIALECTS = {
    "English": "{:,.2f}".format,
    "German": lambda v: comma(f"{v:,.2f}"),
    "French": lambda v: comma(f"{v:,.2f}", "\u202f"),
    "Swiss": lambda v: f"{v:,.2f}".replace(",", "’"),
    "dollars": lambda v: f"{'-' * (v < 0)}${abs(v):,.2f}",
    "euros": lambda v: comma(f"{v:,.2f}") + "\u00a0€",
    "code": lambda v: f"CHF {v:,.2f}".replace(",", "'"),
    "unit": "{:.2f} kg".format,
    "percent": lambda v: comma(f"{v:.2f} %"),
    "account": lambda v: f"({-v:,.2f})" if v < 0 else f"{v:,.2f}",
    "power": "{:e}".format,
    "bounds": lambda v: "<5" if abs(v) < 5 else f"{abs(v):.2f}",
}
REFUSED = tuple(tuple(line.split()) for line in (
    "run nowhere.csv", "run DATA --target c", "run DATA --steps 0", "run DATA --seed -1",
    "run DATA --groups c", "run DATA --sample-weight a", "run DATA --modell mlp",
    "score DATA --target c", "score DATA --drop c", "score nowhere.csv", "weigh DATA --target c",
    "purify DATA --target c", "purify DATA --ridge -1", "partition DATA --target c",
    "summarize DATA --target c", "weigh DATA --search 0", "sample nowhere", "explain nowhere",
    "apply nowhere", "view nowhere", "export nowhere",
))  # fmt: skip


def frame(name: str):
    """A table as its package gives it, and its target."""
    package, item, target = (FORTY | MORE | UNITS)[name]
    if package is None:
        return getattr(datasets, f"load_{item}")(as_frame=True).frame, target
    return data.frame(package, item), target


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


def shipped(name: str, options: Options) -> dict[str, object]:
    """Status, seconds, share of rows scored, share of the rarest class flagged."""
    table, target = frame(name)
    path, out = options.work / f"{name}.csv", options.work / name
    table.to_csv(path, index=False)
    figures = run("run", path, "--target", target, "--out", out)
    if figures["status"] != 0:
        return figures
    result = scores(out)
    figures |= {"rows": int(table[target].notna().sum()), "scored": len(result)}
    if "class_name" in result:
        rarest = result["class_name"].value_counts().index[-1]
        is_rare = (result["class_name"] == rarest).to_numpy()
        figures |= {
            "rarest": int(is_rare.sum()),
            "flagged": float(result["is_issue"].mean()),
            "rarest_flagged": float(result["is_issue"][is_rare].mean()),
            **confident(path, target, is_rare),
        }
    return figures


def ended(name: str, options: Options) -> dict[str, object]:
    """Status, seconds, rows and classes of a run."""
    table, target = frame(name)
    path, out = options.work / f"{name}.csv", options.work / name
    table.to_csv(path, index=False)
    classes = table[target].nunique() if name in MANY_CLASSES else 0
    return {
        "n": len(table),
        "classes": classes,
        **run("run", path, "--target", target, "--out", out),
    }


def confident(path: Path, target: str, is_rare: np.ndarray) -> dict[str, float]:
    """Confident learning's share of the rarest class: five folds, logistic regression and trees."""
    samples, results = load(path, target=target)[0], {}
    for model in (detectors.logistic, detectors.trees):
        try:
            flagged = cleanlab.flagged(samples.y, model(samples, 0))
        except ValueError as error:  # it needs more samples of each class
            print(f"{model.__name__}: {error}")
            continue
        results[f"{model.__name__}_rarest_flagged"] = float(flagged[is_rare].mean())
    return results


def copies(name: str, options: Options) -> Iterator[tuple[str, dict]]:
    """Precision and recall of planted copies: exact, and with one number changed by 3 %."""
    import pandas

    for kind in ("exact", "near"):
        table, target = frame(name)
        table = table.drop(columns="rownames", errors="ignore").dropna(subset=[target])
        draw = np.random.default_rng(1)
        table = table.iloc[draw.permutation(len(table))[: N - PLANTED]].reset_index(drop=True)
        originals = draw.permutation(len(table))[:PLANTED]
        duplicates = table.iloc[originals].reset_index(drop=True)
        inputs = [c for c in table.columns if c != target]
        natural = int(table.duplicated(inputs).sum())
        if kind == "near":
            move_one_number(duplicates, inputs, draw)
        both = pandas.concat([table, duplicates], ignore_index=True)
        both.insert(0, "key", np.arange(len(both)))
        samples, _ = load(both.iloc[draw.permutation(len(both))], target=target, ids="key")
        start = time.process_time()
        issues = data_issues(samples)
        seconds = time.process_time() - start
        pairs = zip(originals, len(table) + np.arange(PLANTED), strict=True)
        planted = {frozenset(map(int, pair)) for pair in pairs}
        named = {frozenset(map(int, pair.ids)) for pair in issues.pairs}
        if kind == "exact":
            groups = issues.duplicate_group
            named = {frozenset(samples.ids[groups == g].tolist())
                     for g in np.unique(groups[groups >= 0])}  # fmt: skip
            hits = sum(any(p <= group for group in named) for p in planted)
        else:
            hits = len(planted & named)
        yield f"copies {name} {kind}", {
            "n": len(both), "natural": natural, "recall": hits / PLANTED,
            "precision": hits / max(1, len(named)), "cpu_seconds": seconds,
        }  # fmt: skip


def move_one_number(duplicates, inputs: list[str], draw: np.random.Generator) -> None:
    numbers = [c for c in inputs if duplicates[c].dtype.kind in "if"]
    duplicates[numbers] = duplicates[numbers].astype(float)
    for row in range(len(duplicates)):
        some = [c for c in numbers if abs(duplicates.at[row, c]) > 0]
        duplicates.at[row, draw.choice(some)] *= 1.03


def groups(d: int, options: Options) -> dict[str, object]:
    """Pairs of groups of near duplicates in normal columns: recall, precision, the best cut's."""
    found, best, right, planted, named = [], [], 0, 0, 0
    for seed in range(100 + options.seed, 100 + options.seed + (options.repeats or 3)):
        for size, apart in itertools.product(SIZES, APART):
            rng = np.random.default_rng((seed, d, size))
            x, group = rng.normal(size=(N_GROUPED, d)), np.full(N_GROUPED, -1)
            members = rng.permutation(N_GROUPED)[: GROUPS * size].reshape(GROUPS, size)
            x[members[:, 1:]] = x[members[:, :1]] + apart * rng.normal(size=(GROUPS, size - 1, d))
            group[members] = np.arange(GROUPS)[:, None]
            near = data_issues((x, None)).near_group
            truth, ours = (pdist(g[:, None]) == 0 for g in (group, near))
            truth, ours = (
                same & (np.add.outer(g < 0, g < 0)[np.triu_indices(len(g), 1)] == 0)
                for same, g in ((truth, group), (ours, near))
            )
            order = np.argsort(pdist(x), kind="stable")
            hits = np.cumsum(truth[order])
            is_precise = hits / np.arange(1, len(order) + 1) >= PRECISE
            best += [hits[is_precise].max(initial=0) / truth.sum()]
            found += [(truth & ours).sum() / truth.sum()]
            right, planted = right + (truth & ours).sum(), planted + truth.sum()
            named += ours.sum()
    known = np.array(best) >= PRECISE
    return {
        "cells": len(best), "known": int(known.sum()), "precision": float(right / named),
        "recall_known": float(np.mean(np.array(found)[known])), "recall": float(np.mean(found)),
        "best_recall": float(np.mean(best)), "least_known": float(np.min(np.array(found)[known])),
    }  # fmt: skip


def outliers(name: str, options: Options) -> dict[str, object]:
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
        path, out = options.work / f"{name}.csv", options.work / name
        table.to_csv(path, index=False)
        ran = run("score", path, "--target", target, "--out", out)
        result = scores(out)
        flagged = result["is_issue"].to_numpy()
        values = (roc_auc_score(wrong, result["label_issue_score"]), int(flagged.sum()),
                  int(flagged[wrong].sum()), ran["cpu_seconds"])  # fmt: skip
        for key, value in zip(figures, values, strict=True):
            figures[key].append(value)
    return {"n": len(table), "wrong": int(wrong.sum()), **figures}


def units(name: str, options: Options) -> Iterator[tuple[str, dict]]:
    """AUROC, recall and precision where 3 % of the targets are in another unit."""
    table, target = frame(name)
    table = table.drop(columns="rownames", errors="ignore").dropna(subset=[target])
    table = table[table[target] > 0]
    draw = np.random.default_rng(0)
    table = table.iloc[np.sort(draw.permutation(len(table))[:1500])].reset_index(drop=True)
    for error, factor in {**WRONG_UNITS, CLEAN: 1.0}.items():
        wrong = np.zeros(len(table), bool)
        wrong[draw.permutation(len(table))[: round(0.03 * len(table))]] = True
        given = table.assign(**{target: table[target] * np.where(wrong, factor, 1.0)})
        path, out = options.work / f"{name}.csv", options.work / f"{name}.units"
        given.to_csv(path, index=False)
        ran = run("score", path, "--target", target, "--out", out)
        result = scores(out).sort_values("id")  # the rows of the file
        flagged = result["is_issue"].to_numpy()
        if error == CLEAN:
            yield f"units {name} {error}", {"n": len(table), "flagged": int(flagged.sum()), **ran}
            continue
        yield f"units {name} {error}", {
            "n": len(table), "auroc": roc_auc_score(wrong, result["label_issue_score"]),
            "recall": flagged[wrong].mean(), "precision": wrong[flagged].mean(), **ran,
        }  # fmt: skip


def panels(name: str, options: Options) -> dict[str, object]:
    """Scores of half of the groups, held out by rows and by groups, and on the other half."""
    *_, target, column, role = PANELS[name]
    table = frame(name)[0].drop(columns="rownames", errors="ignore").dropna(subset=[target, column])
    if len(table) > 4000:
        table = table.iloc[np.sort(np.random.default_rng(0).permutation(len(table))[:4000])]
    values = np.unique(table[column])
    order = values if role == "time" else np.random.default_rng(0).permutation(values)
    halves = [table[np.isin(table[column], p)] for p in np.array_split(order, 2)]
    own, new = halves
    rows, truth = (assay(own, target=target, val=v) for v in (None, new))
    grouped = assay(own, target=target, **{role: column})
    each = {"by_rows": rows, "by_groups": grouped, "truth": truth}
    told = any("never seen" in one for one in rows.findings.warnings)
    found = {name: one.actions.score for name, one in each.items()}
    return {"n": len(own), "told": told, **found}


def half(name: str, options: Options) -> dict[str, object]:
    """Balanced accuracy on a fifth held out of trees fitted to all, and to the half kept."""
    figures: dict[str, list[float]] = {"all": [], "random": [], "kept": [], "without_suspects": []}
    table, target = frame(name)
    samples, _ = load(table, target=target)
    for seed in range(SEEDS):
        rows = np.arange(len(samples))
        train, test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=samples.y)
        path = options.work / f"{name}.csv"
        table.iloc[train].assign(key=train).to_csv(path, index=False)

        def judged(keep, seed=seed, test=test) -> float:
            model = HistGradientBoostingClassifier(random_state=seed)
            model.fit(samples.x[keep], samples.y[keep])
            return balanced_accuracy_score(samples.y[test], model.predict(samples.x[test]))

        figures["all"] += [judged(train)]
        draw = np.random.default_rng(seed)
        figures["random"] += [judged(draw.permutation(train)[: len(train) // 2])]
        for key, more in (("kept", ("--no-drop-suspects",)), ("without_suspects", ())):
            out = options.work / f"{name}.{key}"
            line = ("summarize", path, "--target", target, "--ids", "key", "--fraction", 0.5)
            ran = run(*line, "--out", out, *more)
            assert ran["status"] == 0, ran["error"]
            kept = pq.read_table(out / "keep.parquet").to_pandas()
            figures[key] += [judged(kept["id"].to_numpy())]
    return figures


def written(path: Path, n: int) -> None:
    """A table of 11 normal columns and two classes."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(n, 11))
    y = (x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * draw.normal(size=n) > 0).astype(int)
    header = ",".join([f"c{j}" for j in range(11)] + ["label"])
    np.savetxt(path, np.column_stack([x, y]), "%.6g", ",", header=header, comments="")


def seconds(n: int, options: Options) -> Iterator[tuple[str, dict]]:
    path = options.work / f"{n}.csv"
    written(path, n)
    for command in ("score", "run"):
        out = options.work / f"{n}.{command}"
        yield f"seconds {command} {n}", {
            "n": n, **run(command, path, "--target", "label", "--out", out),
        }  # fmt: skip


def dialects(name: str, options: Options) -> Iterator[tuple[str, dict]]:
    """Numbers of a table as strings: columns read, named in a warning, silent."""
    import pandas

    table, target = frame(name)
    table = table.drop(columns="rownames", errors="ignore").dropna(subset=[target])[:1000]
    numbers = table.drop(columns=target).select_dtypes("number").dropna(axis=1)
    numbers = numbers.loc[:, numbers.nunique() >= MANY].round(2).iloc[:, :PER_TABLE]
    for kind, write in DIALECTS.items():
        given = numbers.map(write).assign(target=table[target])
        path, counts = options.work / "dialects.csv", {"read": 0, "named": 0, "silent": 0}
        given.to_csv(path, index=False)
        for source in (given, path):
            samples = load(source, target="target", keep=list(numbers))[0]
            read = pandas.DataFrame(samples.x, columns=samples.feature_names)
            for column, values in numbers.items():
                wanted = values.abs() if kind == "bounds" else values
                at_most = np.where(np.abs(wanted) < 5, 5, wanted) if kind == "bounds" else wanted
                is_read = column in read and np.allclose(
                    read[column], at_most, rtol=1e-5, atol=0.01
                )
                is_named = any(repr(column) in one for one in samples.warnings)
                counts["read" if is_read else "named" if is_named else "silent"] += 1
        yield f"dialects {name} {kind}", {"columns": numbers.shape[1], **counts}


def refused(name: str, options: Options) -> dict[str, object]:
    """The most processor seconds of commands that cannot be done."""
    path = options.work / "refused.csv"
    path.write_text("a,b\n" + "1,2\n2,1\n" * 50)
    done = {" ".join(line): run(*(path if w == "DATA" else w for w in line)) for line in REFUSED}
    assert all(one["status"] == 2 for one in done.values()), done
    seconds = {line: one["cpu_seconds"] for line, one in done.items()}
    slowest = max(seconds, key=seconds.__getitem__)
    return {"commands": len(done), "slowest": slowest, "cpu_seconds": seconds[slowest],
            "median": float(np.median([*seconds.values()]))}  # fmt: skip


def budget(clock: int, options: Options) -> dict[str, object]:
    """Seconds by the clock of a run that is given so many, on 12 000 rows."""
    path = options.work / "12000.csv"
    written(path, 12_000)
    out = options.work / "budget"
    return {
        "load": os.getloadavg()[0],
        **run("run", path, "--target", "label", "--budget", clock, "--out", out),
    }


def rows(lines: dict[str, dict]) -> list[Row]:
    def of(part: str) -> dict[str, dict]:
        start = f"tables/{part} "
        return {n.removeprefix(start): x for n, x in lines.items() if n.startswith(start)}

    well = [line for line in of("shipped").values() if line["status"] == 0]
    scored = sum(x["scored"] for x in well) / sum(x["rows"] for x in well)
    rare = {n: x for n, x in of("shipped").items() if "trees_rarest_flagged" in x}
    baselines = ("logistic_rarest_flagged", "trees_rarest_flagged")
    over = [
        f"{name} {100 * x['rarest_flagged']:.1f} ({100 * min(x[k] for k in baselines):.1f})"
        for name, x in rare.items()
        if x["rarest_flagged"] > 0
    ]
    results = [
        Row(
            f"Tables as their packages ship them, `datassay run` with --target alone: "
            f"{len(of('shipped'))} tried, ended well; rows with a label that got scores; slowest",
            f"{len(well)}; {100 * scored:.0f} %; "
            f"{max(x['cpu_seconds'] for x in well):.0f} s of processor time",
        ),
        Row(
            "% of the rarest class flagged in them, no noise added (the more cautious of "
            f"confident learning's two); 0 in the other {len(rare) - len(over)}",
            ", ".join(over),
        ),
    ]
    results += [*ended_rows(of("ended")), *units_rows(of("units")), *panels_rows(of("panels"))]
    for kind, what in (("exact", "copies"), ("near", "copies with one number changed by 3 %")):
        some = [x for name, x in of("copies").items() if name.endswith(kind)]
        least = [min(x[share] for x in some) for share in ("precision", "recall")]
        what = f"300 {what} in 3000 rows of {len(some)} tables, worst precision and recall"
        results.append(Row(what, f"{least[0]:.2f}, {least[1]:.2f}"))
    if each := of("groups"):
        results.append(Row(
            "Groups of 2 to 20 near duplicates in 1000 rows at 1e-6 to 1e-2 deviations, of "
            f"{', '.join(each)} columns: precision; mean recall where the best cut, which knows "
            "the truth, finds 98 % (cells)",
            "; ".join(", ".join(form.format(**x) for x in each.values()) for form in (
                "{precision:.3f}", "{recall_known:.3f} ({known} of {cells})")),
        ))  # fmt: skip
    each = [f"{n} {np.mean(x['auroc']):.3f}" for n, x in of("outliers").items()]
    what = "1 % of the targets ten times too large or small: AUROC"
    results.append(Row(what, ", ".join(each)))
    for name, x in of("half").items():
        names = ("kept", "without_suspects", "all", "random")
        means = (sum(x[key]) / len(x[key]) for key in names)
        what = (f"Half of {name} kept, boosted trees retrained: balanced accuracy, without "
                "suspects (all rows, a random half)")  # fmt: skip
        results.append(Row(what, "{:.3f}, {:.3f} ({:.3f}, {:.3f})".format(*means)))
    for name, x in of("seconds").items():
        command, n = name.split()
        what = f"`datassay {command}`, {n} rows of 11 columns, one thread"
        results.append(Row(what, f"{x['cpu_seconds']:.0f} s of processor time"))
    return [*results, *small_rows(of)]


def small_rows(of: Callable[[str], dict[str, dict]]) -> Iterator[Row]:
    """Of strings, refusals and the clock."""
    if each := list(of("dialects").values()):
        counts = [sum(x[key] for x in each) for key in ("read", "named", "silent")]
        yield Row(
            f"Numbers as strings in {len(DIALECTS)} dialects, frame and file, columns in all: read "
            "as they are; named in a warning; lost silently",
            "; ".join(f"{count:,}" for count in counts),
        )
    for x in of("refused").values():
        what = f"{x['commands']} commands that are refused: processor time, median; most"
        yield Row(what, f"{x['median']:.1f} s; {x['cpu_seconds']:.1f} s (`{x['slowest']}`)")
    for clock, x in of("budget").items():
        what = f"`datassay run --budget {clock}`, 12,000 rows, by the clock (load {x['load']:.1f})"
        yield Row(what, f"{x['seconds']:.0f} s")


def ended_rows(lines: dict[str, dict]) -> Iterator[Row]:
    if not lines:
        return
    well = {name: x for name, x in lines.items() if x["status"] == 0}
    few = {name: x["cpu_seconds"] for name, x in well.items() if x["n"] < 10_000}
    slow = [f"{name} {t:.0f}" for name, t in sorted(few.items(), key=lambda x: -x[1]) if t > 60]
    yield Row(
        f"`datassay run` with --target alone, {len(lines)} tables, some with groups or "
        f"many classes: ended well; of {len(few)} below 10,000 rows within 60 s; longer",
        f"{len(well)}; {len(few) - len(slow)}; {', '.join(slow) or 'none'}",
    )
    many = sorted((x["classes"], x["cpu_seconds"]) for x in well.values() if x["classes"])
    each = ", ".join(f"{k}: {t:.0f}" for k, t in many)
    yield Row("The same by classes, seconds of processor time (one thread)", each)


def units_rows(lines: dict[str, dict]) -> Iterator[Row]:
    if not lines:
        return
    clean = {name.split()[0]: x for name, x in lines.items() if name.endswith(CLEAN)}
    cells = [x for name, x in lines.items() if not name.endswith(CLEAN)]
    found = sum(x["auroc"] >= 0.99 for x in cells)
    listed = sum(x["recall"] >= 0.8 and x["precision"] >= 0.7 for x in cells)
    tables = len({name.split()[0] for name in lines})
    yield Row(
        f"3 % of the targets of {tables} tables in another unit (/12, x10, x1000, sign), as they "
        "are: AUROC at least .99; recall at least .8 at precision at least .7; worst AUROC",
        f"{found} of {len(cells)}; {listed} of {len(cells)}; {min(x['auroc'] for x in cells):.3f}",
    )
    if clean:
        each = (f"{name} {x['flagged']} of {x['n']:,}" for name, x in clean.items() if x["flagged"])
        yield Row("The same tables as they are: targets called probably wrong", ", ".join(each))


def panels_rows(lines: dict[str, dict]) -> Iterator[Row]:
    for name, x in lines.items():
        what = f"Half of {name} ({PANELS[name][3]}), score held out by rows, by {PANELS[name][4]}"
        figures = f"{x['by_rows']:.2f}, {x['by_groups']:.2f}, {x['truth']:.2f}; "
        figures += "warned" if x["told"] else "no warning"
        yield Row(f"{what}, and on the other half; warning of a run by rows", figures)


PARTS = {
    "shipped": (shipped, tuple(TABLES)),
    "ended": (ended, tuple(FORTY)),
    "copies": (copies, COPIES),
    "groups": (groups, WIDTHS),
    "outliers": (outliers, SKEWED),
    "units": (units, tuple(UNITS)),
    "panels": (panels, tuple(PANELS)),
    "half": (half, ("churn",)),
    "seconds": (seconds, (12_000, 200_000)),
    "dialects": (dialects, STRINGS),
    "refused": (refused, ("commands",)),
    "budget": (budget, (40,)),
}
TASK = Task(
    measure="tables as their packages ship them",
    cases={
        f"{part} {name}": Case(partial(measure, name))
        for part, (measure, names) in PARTS.items()
        for name in names
    },
    lines="tables/",
    rows=rows,
)
