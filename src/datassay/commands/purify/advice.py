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


def advice(findings: PurifyFindings) -> tuple[Advice, ...]:
    """What was removed, whether rightly where that is known, the gain, the classes, the rival."""
    truth, removed = foreign(findings), findings.purification.removed
    pieces = [_removal(findings)]
    if truth is not None and len(removed):
        pieces.append(_rightness(truth, removed))
    if len(removed):
        pieces += [_gain(findings), *_classes(findings)]
    if findings.rival is not None:
        pieces.append(_contest(findings, findings.rival, truth))
    return tuple(pieces)


def _removal(findings: PurifyFindings) -> Advice:
    ours, n = findings.purification, len(findings.samples)
    if not len(ours.removed):
        return Advice("foreign samples", "fine", "Nothing to remove", _nothing(ours))
    before, after = (number(float(ours.trace.variance[k])) for k in (0, ours.steps))
    gone = count(len(ours.removed), "sample")
    return Advice(
        kind="foreign samples",
        severity="act",
        headline=f"{gone} to remove",
        sentence=(
            f"Train without {gone} of {n:,} ({percent(round(len(ours.removed) / n, 3))}), taken "
            f"out in {count(ours.steps, 'step')}: the variance of influence falls from {before} to "
            f"{after}. purified.parquet names them by id. Look at the first of them before you "
            "delete anything: rare samples go too."
        ),
        ids=tuple(str(i) for i in ours.ids[ours.removed[:N_CHECK_FIRST]]),
    )


def _nothing(ours: Purification) -> str:
    if ours.rule != "held_out":
        return f"The rule {ours.rule} keeps all samples."
    if len(ours.trace.removed) == 1:
        return "No sample may go: the classes are at their minimum or max-fraction is too small."
    first = float(np.nanmean(ours.trace.surprise[1:4]))
    return (
        f"A model that never saw the first batches gives their labels {number(first)} nats of "
        f"surprise, less than the threshold of {number(ours.threshold)}: they are hard, not "
        "foreign, and stay."
    )


def _rightness(truth: Foreign, removed: np.ndarray) -> Advice:
    hits, total = int(truth.mask[removed].sum()), int(truth.mask.sum())
    precision, base = truth.precision(removed), float(truth.mask.mean())
    recall = f", and {hits:,} of all {total:,} were found (recall {hits / total:.2f})"
    return Advice(
        kind="truth",
        severity="fine" if precision > max(0.5, base) else "look",
        headline=f"{percent(round(precision, 3))} of the removed are {truth.name}",
        sentence=(
            f"The truth is known here: {hits:,} of the {len(removed):,} removed are {truth.name} "
            f"(precision {precision:.2f}; at random {base:.2f}){recall if total else ''}."
        ),
    )


def _gain(findings: PurifyFindings) -> Advice:
    ours, metric, n_val = findings.purification, findings.metric, len(findings.validation)
    before, after = (float(ours.trace.validation[k]) for k in (0, ours.steps))
    change, error = after - before, _standard_error(findings, before)
    clear = ""
    if findings.samples.is_classification:
        clear = f" (one standard error: {score_change(error, metric)})"
    part = "had no say in what was removed"
    if ours.rule == "validation":
        part = "decided when to stop, so this is optimistic"
    flawed = ""
    if findings.validation.split_off and findings.samples.true_y is None:
        flawed = (
            " They were split off the same data and hold foreign samples too, which a pure model "
            "is right to miss."
        )
    return Advice(
        kind="validation",
        severity="fine" if change > error else "look",
        headline=f"The refitted model {'gains' if change > 0 else 'loses'} "
        f"{score_change(change, metric)}",
        sentence=(
            f"Refitted without them, the model goes from {before:.3f} to {after:.3f} on "
            f"{count(n_val, 'validation sample')}{clear}, which {part}.{flawed}{_alone(findings)}"
        ),
    )


def _alone(findings: PurifyFindings) -> str:
    if not findings.majority:
        return ""
    test, steps = findings.purification.trace.test, findings.purification.steps
    return (
        f" On those from {findings.majority} alone it goes from {test[0]:.3f} to {test[steps]:.3f}."
    )


def _standard_error(findings: PurifyFindings, score: float) -> float:
    """Of an accuracy on the validation samples; 0 for R², whose error is not known."""
    if not findings.samples.is_classification:
        return 0.0
    return math.sqrt(score * (1 - score) / len(findings.validation))


def _classes(findings: PurifyFindings) -> list[Advice]:
    samples = findings.samples
    if not samples.is_classification:
        return []
    before, lost = findings.lost
    share = lost / np.maximum(before, 1)
    worst = int(share.argmax())
    overall = len(findings.purification.removed) / len(samples)
    if share[worst] < UNEVEN * overall or lost[worst] < N_CHECK_FIRST:
        return []
    sentence = (
        f"It gives up {lost[worst]:,} of {before[worst]:,} samples "
        f"({percent(round(float(share[worst]), 3))}; all classes together "
        f"{percent(round(overall, 3))}). Either its labels are worse than the others', or "
        "it is varied and the model is too simple for it: look at them in the gallery."
    )
    headline = f"Class {samples.class_names[worst]} loses most"
    return [Advice("classes", "look", headline, sentence)]


def _contest(findings: PurifyFindings, rival: Purification, truth: Foreign | None) -> Advice:
    ours, majority, val = findings.purification, findings.majority, findings.validation
    which = "test" if majority else "validation"
    score, theirs = (float(getattr(one.trace, which)[one.steps]) for one in (ours, rival))
    where, error = "", _standard_error(findings, theirs)
    if majority:
        assert val.source is not None
        where = f" (validation samples from {majority})"
        error *= math.sqrt(len(val) / int((val.source == majority).sum()))
    figures = (
        f"{findings.metric} {score:.3f} against {theirs:.3f} for removing the highest training "
        f"losses under the same rule{where}, which takes out {count(len(rival.removed), 'sample')}"
    )
    if abs(score - theirs) <= error:
        verdict = f"No clear winner: {figures}; within one standard error."
    else:
        verdict = f"{'Influence' if score > theirs else 'A rival'} won: {figures}."
    if truth is not None and len(ours.removed) and len(rival.removed):
        own, other = (truth.precision(one.removed) for one in (ours, rival))
        verdict += f" Precision {own:.2f} against {other:.2f}."
    severity = "look" if theirs - score > error else "fine"
    return Advice("contest", severity, "Influence against plain loss", verdict)
