"""How many labels are wrong, and which: the two lists, the bounds, and what reviews tell.

Sets and kinds of noise of `noise.py`, at most N samples each (`--set n=700`); "drawn" are tables of
classes that `draw.py` of another folder draws (`--set draws=FOLDER --seed S --repeats 40`).
Settings of ours were chosen on sets of `CHOSEN`; the cases are these, which no figure may be quoted
from, the others, which some rules followed from, and fresh tables, which none did. The rival of
flags is confident learning on five-fold logistic regression and on boosted trees, the better of
both; of the order the best of its scores of both and of nearest neighbours. Noise by people, by
regions of the inputs, by neighbours and by what a linear scorer is unsure of follows the input.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from bench import data, detectors, noise
from bench.baselines import cleanlab
from bench.frame import Case, Options, Row, Task

import datassay as da
from datassay.act import Judged, Remaining, auroc, judged, probe, remaining
from datassay.data import SampleSet

N, LEAST = 1500, 10  # samples of a set; flags of which a precision is judged
BATCH, DECISIONS, SLIPS = 24, 50, (0.0, 0.03, 0.1)  # of a review
BINS = 10  # of probabilities, over which said and true shares are compared
CHOSEN = ("digits", "mnist", "churn", "census", "breast_cancer", "sst2", "cifar10n worst")
LEFT_OUT = ("60000", "minilm", "balanced", "as shipped")  # and what --set without= names
NEAR = 0.07
FIRST = 0.003
BY_INPUT = ("cifar10n", "region", "neighbours", "input-dependent", "two columns")


def f1(wrong: np.ndarray, flagged: np.ndarray) -> float:
    return float(2 * (wrong & flagged).sum() / max(1, wrong.sum() + flagged.sum()))


def review(known: Judged, truth: np.ndarray, slips: float, seed: int) -> tuple[Remaining, int]:
    """What DECISIONS in the order of the page leave, and how many errors they found."""
    rng, said = np.random.default_rng((seed, 9)), {}
    while len(said) < min(DECISIONS, len(truth)):
        now = remaining(known, said)
        for i in now.order[: min(BATCH, DECISIONS - len(said))].tolist():
            other = known.labels[i] if truth[i] != known.labels[i] else now.suggested[i]
            said[i] = int(other if rng.random() < slips else truth[i])
    looked = list(said)
    return remaining(known, said), int((truth[looked] != known.labels[looked]).sum())


def reviews(known: Judged, truth: np.ndarray, seed: int) -> dict[str, float]:
    """Whether the interval of what is left holds it, for each rate of slips, and its width."""
    wrong, figures = truth != known.labels, {}
    for slips in SLIPS:
        said, found = review(known, truth, slips, seed)
        low, high = said.interval
        held = low <= wrong[said.order].sum() <= high
        figures |= {f"held_slips_{slips}": float(held)}
        if not slips:
            width = said.share_wrong[1] - said.share_wrong[0]
            figures |= {"width_after_50": width, "found_50": float(found)}
    return figures


def one(whole: SampleSet, case: str, seed: int) -> dict:
    """Figures of one set with known truth; NaN where there is none."""
    assert whole.true_y is not None
    samples, wrong, n = replace(whole, true_y=None), whole.y != whole.true_y, len(whole)
    lin, issues = detectors.as_run_asks(samples, seed)
    share, flagged, half = float(wrong.mean()), issues.is_issue, 0.5 / n
    low, high = issues.share_wrong
    known = judged(lin, issues)
    told = remaining(known, {int(i): int(whole.true_y[i]) for i in probe(known)}).share_wrong
    both = [of(samples, seed) for of in (detectors.logistic, detectors.trees)]
    rival = max(f1(wrong, cleanlab.flagged(samples.y, values)) for values in both)
    scores = [cleanlab.score(samples.y, values, name)
              for values in both for name in cleanlab.SCORES]  # fmt: skip
    lead = np.nan if not wrong.any() else auroc(wrong, issues.score) - max(
        auroc(wrong, detectors.neighbours(samples, seed)), *(auroc(wrong, s) for s in scores)
    )  # fmt: skip
    recall = (wrong & issues.worth_a_look).sum() / max(1, wrong.sum())
    is_ranked = wrong.any() and auroc(wrong, issues.score) >= 0.85
    is_found = share >= 0.03 and auroc(wrong, issues.score) >= 0.9
    is_judged, is_clean = flagged.sum() >= LEAST, not wrong.any()
    off = issues.expected_precision() - wrong[flagged].mean() if is_judged else np.nan
    first = max(float(wrong[np.argsort(-s, kind="stable")[:DECISIONS]].sum()) for s in scores)
    place = (issues.probability * BINS).astype(int).clip(0, BINS - 1)
    figures = reviews(known, whole.true_y, seed)
    return {
        "f1": np.nan if is_clean else f1(wrong, issues.worth_a_look),
        "rival_f1": np.nan if is_clean else rival,
        "lead": lead, "first": np.nan if is_clean else float(lead >= -FIRST),
        "lead_by_input": lead if any(word in case for word in BY_INPUT) else np.nan,
        "recall_reached": float(recall >= 0.6) if is_found else np.nan,
        "precision_near": float(abs(off) <= NEAR) if is_judged and not is_clean else np.nan,
        "clean_flagged": float(flagged.mean()) if is_clean else np.nan,
        "held": float(low - half <= share <= high + half), "width": high - low,
        "held_after_24": float(told[0] - half <= share <= told[1] + half),
        "width_after_24": told[1] - told[0],
        "empty": float(not flagged.any()) if is_ranked and share >= 0.05 else np.nan,
        **figures, "lead_50": np.nan if is_clean else figures["found_50"] - first,
        # Sums over all cells.
        "hit": (wrong & flagged).sum(), "listed": flagged.sum(), "wrong": wrong.sum(),
        "look_hit": (wrong & issues.worth_a_look).sum(), "look": issues.worth_a_look.sum(),
        "off_by_bin": np.bincount(place, issues.probability - wrong, BINS), "n": n,
    }  # fmt: skip


def part(case: str) -> str:
    """Of the cases which one has these labels."""
    return "fresh" if case.startswith("fresh") else ("reported", "chosen")[case.startswith(CHOSEN)]


def sets(which: str, options: Options) -> Iterator[tuple[str, int, SampleSet]]:
    """Case, seed and samples."""
    seeds, n = range(options.seed, options.seed + (options.repeats or 1)), options.value("n", N)
    if which == "drawn":
        sys.path.append(options.value("draws", ""))
        from draw import draw  # pyrefly: ignore[missing-import]

        for seed in seeds:
            drawn = draw(seed, n)
            if drawn.kind == "classes" and not drawn.leaks:
                table = drawn.table.drop(columns=drawn.ids or [])
                samples = da.load(table, target=drawn.target)[0]
                code = dict(zip(drawn.table[drawn.target], samples.y, strict=True))
                true = np.array([code.get(name, -1) for name in drawn.true])
                yield f"drawn {drawn.words}", seed, replace(samples, true_y=true)
        return
    left_out = {*LEFT_OUT, *options.value("without", (" as shipped",))}
    cases = [c for c in noise.CASES if part(c) == which and not any(w in c for w in left_out)]
    for case in cases:
        for seed in seeds:
            yield case, seed, data.some(noise.CASES[case](seed), n, seed)


def measured(which: str, options: Options) -> dict[str, float]:
    figures = []
    for case, seed, whole in sets(which, options):
        figures.append(one(whole, case, seed))
        said = {k: round(float(v), 3) for k, v in figures[-1].items() if np.ndim(v) == 0}
        print(case, seed, said, flush=True)
    sums = {k: sum(f.pop(k) for f in figures) for k in
            ("hit", "listed", "wrong", "look_hit", "look", "off_by_bin", "n")}  # fmt: skip
    means = {k: float(np.nanmean([f[k] for f in figures])) for k in figures[0]}
    leads = [f["lead"] for f in figures if f["lead"] == f["lead"]]
    ahead = [f["f1"] >= f["rival_f1"] for f in figures if f["f1"] == f["f1"]]
    by_input = [f["lead_by_input"] for f in figures if f["lead_by_input"] == f["lead_by_input"]]
    return {
        "cells": len(figures), "f1_ahead": float(np.mean(ahead)), **means,
        "judged": int(np.isfinite([f["precision_near"] for f in figures]).sum()),
        "clean_most": float(np.nanmax([f["clean_flagged"] for f in figures])),
        "by_input": len(by_input), "ahead_by_input": float(np.mean(np.greater(by_input, 0))),
        "lead_worst": min(leads),
        "may_be_empty": int(np.isfinite([f["empty"] for f in figures]).sum()),
        "ece": float(np.abs(sums["off_by_bin"]).sum() / sums["n"]),
        "issue_recall": float(sums["hit"] / sums["wrong"]),
        "issue_precision": float(sums["hit"] / max(1, sums["listed"])),
        "look_recall": float(sums["look_hit"] / sums["wrong"]),
        "look_precision": float(sums["look_hit"] / max(1, sums["look"])),
    }  # fmt: skip


def erring_sources(options: Options) -> dict[str, float]:
    """One annotator of four errs in half: whether named, and the order; natural columns blamed."""
    n, named, blamed, columns, ranks = options.value("n", N), [], 0, 0, []
    for seed in range(options.seed, options.seed + (options.repeats or 1)):
        for name, (package, item, target, *left_out) in data.FRESH.items():
            table = data.frame(package, item).drop(columns=["rownames", *left_out]).dropna()
            table = table[table.groupby(target)[target].transform("size") >= N // 50]
            table = table.sample(min(n, len(table)), random_state=seed).reset_index(drop=True)
            rng = np.random.default_rng((seed, 11))
            who, classes = rng.integers(4, size=len(table)), np.unique(table[target])
            code = np.searchsorted(classes, table[target])
            other = (code + rng.integers(1, len(classes), len(table))) % len(classes)
            wrong = (who == 0) & (rng.random(len(table)) < 0.5)
            spoilt = table.assign(annotator=np.array(list("ABCD"))[who])
            spoilt[target] = classes[np.where(wrong, other, code)]
            issues, clean = (
                detectors.as_run_asks(da.load(one, target=target)[0], seed)[1]
                for one in (spoilt, table)
            )
            sources = issues.sources
            named.append(sources is not None and sources.column == "annotator")
            ranks.append(auroc(wrong, issues.score))
            blamed += clean.sources is not None
            columns += 1
            print(name, seed, named[-1], round(ranks[-1], 3), clean.sources, flush=True)
    return {
        "tables": len(named), "named": float(np.mean(named)), "auroc": float(np.mean(ranks)),
        "falsely": blamed / columns,
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    found = []
    for name, sets in (("reported", "cells"), ("fresh", "cells of 17 fresh tables")):
        if (x := lines.get(f"flags/{name}")) is not None:
            found += _rows(f"{x['cells']} {sets}", x)
    return found


def _rows(sets: str, x: dict) -> list[Row]:
    return [Row(
        f"Labels worth a look, {sets}: mean F1 (confident learning's), share of them where it is "
        "not behind",
        "{f1:.2f} ({rival_f1:.2f}), {f1_ahead:.0%}".format(**x),
    ), Row(
        f"Bounds of the share of wrong labels, and those after 24 reviews, {sets}: how often they "
        "hold it, mean width",
        "{held:.0%}, {width:.2f}; {held_after_24:.0%}, {width_after_24:.2f}".format(**x),
    ), Row(
        f"Order of suspects, {sets}: first or within 0.003 of AUROC; where noise follows the input "
        f"({x['by_input']} sets) first, mean lead",
        "{first:.0%}; {ahead_by_input:.0%}, {lead_by_input:+.3f}".format(**x),
    ), Row(
        f"Labels called probably wrong, {sets}: precision within 0.07 of the stated one; clean "
        "labels flagged",
        "{precision_near:.0%}; {clean_flagged:.1%}".format(**x),
    )]  # fmt: skip


TASK = Task(
    measure="labels flagged, and how many are said to be wrong",
    cases={name: Case(partial(measured, name)) for name in ("chosen", "reported", "fresh", "drawn")}
    | {"erring sources": Case(erring_sources)},
    lines="flags/",
    rows=rows,
)
