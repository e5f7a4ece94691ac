"""What a purification says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import math

import numpy as np

from datassay.act.purify.result import Purification
from datassay.commands.purify.findings import Foreign, PurifyFindings, foreign
from datassay.report.advice import N_CHECK_FIRST, Advice
from datassay.report.wording import count, number, percent, score_change

# A class that loses this many times the share that the whole set loses is worth a look.
UNEVEN = 2.0


def purify_advice(findings: PurifyFindings) -> tuple[Advice, ...]:
    """What to do next, most urgent first.

    Args:
        findings: one purification.

    Returns:
        What was removed, whether that was right where it is known, whether the score gained, the
        classes that lost most, and the rival.
    """
    truth = foreign(findings)
    told = [_removal(findings)]
    if truth is not None and len(findings.found.removed):
        told.append(_rightness(findings, truth))
    if len(findings.found.removed):
        told += [_gain(findings), *_classes(findings)]
    if findings.rival is not None:
        told.append(_contest(findings, findings.rival, truth))
    return tuple(told)


def _removal(findings: PurifyFindings) -> Advice:
    found, n = findings.found, len(findings.samples)
    trace, steps = found.trace, found.steps
    if not len(found.removed):
        return Advice("foreign samples", "fine", "Nothing to remove", _nothing(found))
    sentence = (
        f"Train without {count(len(found.removed), 'sample')} of {n:,} "
        f"({percent(round(len(found.removed) / n, 3))}), taken out in {count(steps, 'step')}: the "
        f"variance of influence falls from {number(float(trace.variance[0]))} to "
        f"{number(float(trace.variance[steps]))}. purified.parquet names them by id. Look at the "
        "first of them before you delete anything: rare samples go too."
    )
    return Advice(
        kind="foreign samples",
        severity="act",
        headline=f"{count(len(found.removed), 'sample')} to remove",
        sentence=sentence,
        ids=tuple(str(i) for i in found.ids[found.removed[:N_CHECK_FIRST]]),
    )


def _nothing(found: Purification) -> str:
    if found.rule != "held_out":
        return f"The rule {found.rule} keeps all samples."
    if len(found.trace.removed) == 1:
        return "No sample may go: the classes are at their minimum or max-fraction is too small."
    first = float(np.nanmean(found.trace.surprise[1:4]))
    return (
        f"A model that never saw the first batches gives their labels {number(first)} nats of "
        f"surprise, less than the threshold of {number(found.threshold)}: they are hard, not "
        "foreign, and stay."
    )


def _rightness(findings: PurifyFindings, truth: Foreign) -> Advice:
    removed = findings.found.removed
    hits, total = int(truth.mask[removed].sum()), int(truth.mask.sum())
    base = float(truth.mask.mean())
    precision = truth.precision(removed)
    caught = f", and {hits:,} of all {total:,} were found (recall {hits / total:.2f})"
    return Advice(
        kind="truth",
        severity="fine" if precision > max(0.5, base) else "look",
        headline=f"{percent(round(precision, 3))} of the removed are {truth.many}",
        sentence=(
            f"The truth is known here: {hits:,} of the {len(removed):,} removed are {truth.many} "
            f"(precision {precision:.2f}; at random {base:.2f})"
            f"{caught if total else ''}."
        ),
    )


def _gain(findings: PurifyFindings) -> Advice:
    found, metric = findings.found, findings.metric
    score = found.trace.validation
    change = float(score[found.steps] - score[0])
    error = _standard_error(findings, float(score[0]))
    size = score_change(change, metric)
    clear = "" if math.isnan(error) else f" (one standard error: {score_change(error, metric)})"
    who = "decided when to stop, so this is optimistic" if found.rule == "validation" else (
        "had no say in what was removed"
    )  # fmt: skip
    flawed = ""
    if findings.validation.split_off and findings.samples.true_y is None:
        flawed = (
            " They were split off the same data and hold foreign samples too, which a pure model "
            "is right to miss."
        )
    gains = change > (0 if math.isnan(error) else error)
    return Advice(
        kind="validation",
        severity="fine" if gains else "look",
        headline=f"The refitted model {'gains' if change > 0 else 'loses'} {size}",
        sentence=(
            f"Refitted without them, the model goes from {score[0]:.3f} to "
            f"{score[found.steps]:.3f} on {count(len(findings.validation), 'validation sample')}"
            f"{clear}, which {who}.{flawed}{_alone(findings)}"
        ),
    )


def _alone(findings: PurifyFindings) -> str:
    if not findings.majority:
        return ""
    test, steps = findings.found.trace.test, findings.found.steps
    return (
        f" On those from {findings.majority} alone it goes from {test[0]:.3f} to {test[steps]:.3f}."
    )


def _standard_error(findings: PurifyFindings, score: float) -> float:
    if not findings.samples.is_classification:
        return math.nan
    return math.sqrt(score * (1 - score) / len(findings.validation))


def _classes(findings: PurifyFindings) -> list[Advice]:
    samples, found = findings.samples, findings.found
    if not samples.is_classification:
        return []
    before = np.bincount(samples.y, minlength=samples.n_classes)
    lost = np.bincount(samples.y[found.removed], minlength=samples.n_classes)
    share = lost / np.maximum(before, 1)
    worst = int(share.argmax())
    overall = len(found.removed) / len(samples)
    if share[worst] < UNEVEN * overall or lost[worst] < N_CHECK_FIRST:
        return []
    return [
        Advice(
            kind="classes",
            severity="look",
            headline=f"Class {samples.class_names[worst]} loses most",
            sentence=(
                f"It gives up {lost[worst]:,} of {before[worst]:,} samples "
                f"({percent(round(float(share[worst]), 3))}; all classes together "
                f"{percent(round(overall, 3))}). Either its labels are worse than the others', or "
                "it is varied and the model is too simple for it: look at them in the gallery."
            ),
        )
    ]


def _contest(findings: PurifyFindings, rival: Purification, truth: Foreign | None) -> Advice:
    found, metric = findings.found, findings.metric
    which = "test" if findings.majority else "validation"
    ours = float(getattr(found.trace, which)[found.steps])
    theirs = float(getattr(rival.trace, which)[rival.steps])
    where = f" (validation samples from {findings.majority})" if findings.majority else ""
    error = _standard_error(findings, theirs)
    error = 0.0 if math.isnan(error) else error
    if findings.majority:
        assert findings.validation.source is not None
        inside = int((findings.validation.source == findings.majority).sum())
        error *= math.sqrt(len(findings.validation) / inside)
    figures = (
        f"{metric} {ours:.3f} against {theirs:.3f} for removing the highest training losses under "
        f"the same rule{where}, which takes out {count(len(rival.removed), 'sample')}"
    )
    if abs(ours - theirs) <= error:
        verdict = f"No clear winner: {figures}; within one standard error."
    elif ours > theirs:
        verdict = f"Influence won: {figures}."
    else:
        verdict = f"A rival won: {figures}."
    if truth is not None and len(found.removed) and len(rival.removed):
        verdict += (
            f" Precision {truth.precision(found.removed):.2f} against "
            f"{truth.precision(rival.removed):.2f}."
        )
    severity = "look" if theirs - ours > error else "fine"
    return Advice("contest", severity, "Influence against plain loss", verdict)
