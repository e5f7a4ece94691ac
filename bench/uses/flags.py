"""How many labels are wrong, and which: the two lists, the bounds, and what 24 reviews tell.

Sets and kinds of noise of `noise.py`, at most N samples each. Settings of ours were chosen on sets
of `CHOSEN`; the cases are these, which no figure may be quoted from, the others, which some rules
followed from, and fresh tables, which none did. The rival of flags is confident learning on
five-fold logistic regression and on boosted trees, the better of
both; of the order the best of its scores of both and of nearest neighbours. Noise by people, by
regions of the inputs, by neighbours and by what a linear scorer is unsure of follows the input.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from bench import data, detectors, noise
from bench.baselines import cleanlab
from bench.frame import Case, Options, Row, Task

from datassay.act import auroc, judged, probe, remaining

N, LEAST = 1500, 10  # samples of a set; flags of which a precision is judged
CHOSEN = ("digits", "mnist", "churn", "census", "breast_cancer", "sst2", "cifar10n worst")
LEFT_OUT = ("60000", "minilm", "balanced", "as shipped")  # and what --set without= names
NEAR = 0.07
FIRST = 0.003
BY_INPUT = ("cifar10n", "region", "neighbours", "input-dependent", "two columns")


def f1(wrong: np.ndarray, flagged: np.ndarray) -> float:
    return float(2 * (wrong & flagged).sum() / max(1, wrong.sum() + flagged.sum()))


def one(case: str, seed: int) -> dict[str, float]:
    """Figures of one set and noise; NaN where there is none."""
    whole = data.some(noise.CASES[case](seed), N, seed)
    assert whole.true_y is not None
    samples, wrong, n = replace(whole, true_y=None), whole.y != whole.true_y, len(whole)
    lin, issues = detectors.as_run_asks(samples, seed)
    share, flagged, half = float(wrong.mean()), issues.is_issue, 0.5 / n
    low, high = issues.share_wrong
    known = judged(lin, issues)
    told = remaining(known, {int(i): int(whole.true_y[i]) for i in probe(known)}).share_wrong
    both = [of(samples, seed) for of in (detectors.logistic, detectors.trees)]
    rival = max(f1(wrong, cleanlab.flagged(samples.y, values)) for values in both)
    lead = np.nan if not wrong.any() else auroc(wrong, issues.score) - max(
        auroc(wrong, detectors.neighbours(samples, seed)),
        *(auroc(wrong, cleanlab.score(samples.y, values, name))
          for values in both for name in cleanlab.SCORES),
    )  # fmt: skip
    recall = (wrong & issues.worth_a_look).sum() / max(1, wrong.sum())
    is_found = share >= 0.03 and auroc(wrong, issues.score) >= 0.9
    is_judged, is_clean = flagged.sum() >= LEAST, not wrong.any()
    off = issues.expected_precision() - wrong[flagged].mean() if is_judged else np.nan
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
    }  # fmt: skip


def part(case: str) -> str:
    """Of the cases which one has these labels."""
    return "fresh" if case.startswith("fresh") else ("reported", "chosen")[case.startswith(CHOSEN)]


def measured(which: str, options: Options) -> dict[str, float]:
    left_out = {*LEFT_OUT, *options.value("without", (" as shipped",))}
    cases = [c for c in noise.CASES if part(c) == which and not any(w in c for w in left_out)]
    seeds = range(options.seed, options.seed + (options.repeats or 1))
    figures = []
    for case in cases:
        for seed in seeds:
            figures.append(one(case, seed))
            print(case, seed, {k: round(v, 3) for k, v in figures[-1].items()}, flush=True)
    means = {k: float(np.nanmean([f[k] for f in figures])) for k in figures[0]}
    ahead = [f["f1"] >= f["rival_f1"] for f in figures if f["f1"] == f["f1"]]
    by_input = [f["lead_by_input"] for f in figures if f["lead_by_input"] == f["lead_by_input"]]
    return {
        "cells": len(figures), "f1_ahead": float(np.mean(ahead)), **means,
        "judged": int(np.isfinite([f["precision_near"] for f in figures]).sum()),
        "clean_most": float(np.nanmax([f["clean_flagged"] for f in figures])),
        "by_input": len(by_input), "ahead_by_input": float(np.mean(np.greater(by_input, 0))),
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
    cases={name: Case(partial(measured, name)) for name in ("chosen", "reported", "fresh")},
    lines="flags/",
    rows=rows,
)
