"""What to do next, in plain words: each sentence follows from figures that the page shows."""

from __future__ import annotations

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import label_advice
from datassay.commands.run.redundancy import Redundancy, redundancy
from datassay.report.advice import Advice
from datassay.report.wording import count, number, p_value, percent, score_change

MAX_P = 0.01
MIN_RATIO = 1.5
NAMED = 5  # classes in a sentence, beside the first


def advice(findings: Findings) -> tuple[Advice, ...]:
    """Label errors, redundant samples, unusual classes, then the winner of each contest."""
    return (
        label_advice(findings),
        redundancy_advice(findings),
        *class_advice(findings),
        *contest_advice(findings),
    )


def redundancy_advice(findings: Findings) -> Advice:
    """How many samples can go, and whether the ranking is what makes that possible."""
    curve = findings.removal_curve
    best = None if curve is None else redundancy(curve)
    if best is None:
        return Advice(
            kind="redundancy",
            severity="look",
            headline="Redundancy was not measured",
            sentence=(
                "No network was retrained on fewer samples, so nothing is said here about how "
                "many can go. Low information alone does not prove a sample redundant."
            ),
        )
    if not best.fraction:
        return Advice(
            kind="redundancy",
            severity="fine",
            headline="No redundant samples found",
            sentence=(
                f"Removing even {percent(best.tried)} of the samples, {best.ranking}, "
                f"{_cost(best)}, more than {_tolerance(best)}.{_random_sentence(best)}"
            ),
        )
    n_redundant = round(best.fraction * len(findings.samples))
    return Advice(
        kind="redundancy",
        severity="look" if best.random_does_as_well else "act",
        headline=f"About {count(n_redundant, 'redundant sample')} ({percent(best.fraction)})",
        sentence=(
            f"Removing {percent(best.fraction)} of the samples, {best.ranking}, and retraining "
            f"{_cost(best)} (mean of {count(best.n_seeds, 'seed')})"
            f"{f', within {_tolerance(best)}' if best.change <= 0 else ''}."
            f"{_random_sentence(best)}"
        ),
    )


def _cost(best: Redundancy) -> str:
    return _costs(best.change, best.metric)


def _costs(change: float, metric: str) -> str:
    return f"{'costs' if change <= 0 else 'gains'} {score_change(change, metric)}"


def _tolerance(best: Redundancy) -> str:
    reason = "one standard error of the full set's score"
    size = score_change(best.tolerance, best.metric)
    return f"{reason} ({size})" if best.tolerance_is_error else f"the {size} tolerated"


def _random_sentence(best: Redundancy) -> str:
    if best.random_change is None:
        return ""
    rival = _costs(best.random_change, best.metric)
    if best.random_does_as_well:
        return f" Removing as many at random {rival}, no more: here the ranking buys nothing."
    return f" Removing as many at random {rival}."


def class_advice(findings: Findings) -> tuple[Advice, ...]:
    """Classes whose samples carry unusually much information.

    Returns:
        One piece that names them, or that says there is none; empty for regression.

    Source: one-sided Mann–Whitney U test, class against the rest, Bonferroni over classes.
    """
    samples = findings.samples
    if not samples.is_classification:
        return ()
    unusual = []
    for index, name in enumerate(samples.class_names):
        p, ratio = _excess(findings.information.information, samples.y == index)
        p = min(1.0, p * samples.n_classes)
        if p < MAX_P and ratio >= MIN_RATIO:
            unusual.append((ratio, p, name))
    if unusual:
        return (_unusual_classes(sorted(unusual, key=lambda one: -one[0])),)
    sentence = (
        f"No class has both a median at least {MIN_RATIO} times that of the rest and "
        f"p < {MAX_P} (one-sided Mann–Whitney test, Bonferroni correction)."
    )
    return (Advice("classes", "fine", "No class stands out in information", sentence),)


def _unusual_classes(unusual: list[tuple[float, float, str]]) -> Advice:
    """One or several classes: (ratio of medians, p value, name), the most informative first."""
    (ratio, _, name), *others = unusual
    more = [f"one of {other} {number(r)} times" for r, _, other in others if np.isfinite(r)]
    also = "".join(f", {text}" for text in more[:NAMED]) + ", …" * (len(more) > NAMED)
    p = p_value(max(p for _, p, _ in unusual))
    sentence = (
        f"The median sample of class {name} carries {_times(ratio)}{also} (one-sided "
        f"Mann–Whitney test{'s' * bool(others)}, {p} after Bonferroni correction). A rare or "
        "varied class, or wrong labels in it, look like this: see its most informative samples, "
        "and collect more if it is rare."
    )
    which = f"{len(unusual)} classes carry" if others else f"Class {name} carries"
    return Advice("classes", "look", f"{which} unusually much information", sentence)


def _times(ratio: float) -> str:
    if np.isfinite(ratio):
        return f"{number(ratio)} times the information of the median other sample"
    return "information, the median other sample none"


def _excess(information: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    """One-sided p value and ratio of medians of a class against the rest."""
    from scipy.stats import mannwhitneyu  # scipy.stats costs 0.5 s to import

    if inside.all() or not inside.any():
        return 1.0, 1.0
    ours, rest = information[inside], information[~inside]
    p = float(mannwhitneyu(ours, rest, alternative="greater").pvalue)
    low, high = float(np.median(rest)), float(np.median(ours))
    if low == 0:
        return p, float("inf") if high > 0 else 1.0
    return p, high / low


def contest_advice(findings: Findings) -> tuple[Advice, ...]:
    """Who won each contest: "look" where a rival did better than ours."""
    return tuple(
        Advice(
            kind="contest",
            severity="look" if contest.outcome == "lost" else "fine",
            headline=contest.measure[:1].upper() + contest.measure[1:],
            sentence=contest.verdict,
        )
        for contest in findings.contests
    )
