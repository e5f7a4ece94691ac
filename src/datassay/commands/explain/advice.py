"""What an explanation says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import numpy as np

from datassay.commands.explain.findings import ExplainFindings
from datassay.commands.explain.gallery import harmful
from datassay.report.advice import N_CHECK_FIRST, Advice
from datassay.report.wording import count, number, percent


def advice(findings: ExplainFindings) -> tuple[Advice, ...]:
    """Labels to look at, what is predicted wrongly, samples that harm."""
    pieces = []
    if np.isfinite(findings.self_influence).all():
        pieces.append(_labels(findings))
    if findings.n_wrong is not None:
        pieces.append(_wrong(findings, findings.n_wrong))
    if len(harm := harmful(findings)):
        pieces.append(_harm(findings, harm))
    return tuple(pieces)


def _labels(findings: ExplainFindings) -> Advice:
    samples, own = findings.samples, findings.self_influence
    first = findings.first[:N_CHECK_FIRST]
    what = "labels" if samples.is_classification else "targets"
    middle = float(np.median(own))
    times = f", {number(float(own[first[-1]]) / middle)} times the median or more" if middle else ""
    return Advice(
        kind="labels",
        severity="look",
        headline=f"Look at these {what} first",
        sentence=(
            f"The presence of these {count(len(first), 'sample')} lowers their own loss "
            f"most{times}: nothing else in the data says what they say. Wrong {what} and rare "
            "samples stand there; samples.parquet ranks all."
        ),
        ids=tuple(str(i) for i in findings.ids[first]),
    )


def _wrong(findings: ExplainFindings, n_wrong: int) -> Advice:
    m, queried = len(findings.queries), findings.predictions.queried
    if not n_wrong:
        sentence = f"All {count(m, queried)} are predicted as they are labelled."
        return Advice("predictions", "fine", "No prediction is wrong", sentence)
    return Advice(
        kind="predictions",
        severity="look",
        headline=f"{count(n_wrong, 'prediction')} {'is' if n_wrong == 1 else 'are'} wrong",
        sentence=(
            f"{n_wrong:,} of {count(m, queried)} ({percent(round(n_wrong / m, 3))}) are predicted "
            "as another class. They come first in the picker: the samples that speak against the "
            "given label are what misled the network, or the label is wrong."
        ),
    )


def _harm(findings: ExplainFindings, harm: np.ndarray) -> Advice:
    word = "raise the losses" if findings.attribution.measure == "loss" else "lower the margins"
    first = harm[:N_CHECK_FIRST]
    return Advice(
        kind="harm",
        severity="look",
        headline="These samples hurt most",
        sentence=(
            f"Together over all {count(len(findings.queries), findings.predictions.queried)} they "
            f"{word} most: without the first the sum would be "
            f"{number(abs(float(findings.attribution.total[first[0]])))} better. "
            f"{count(len(harm), 'sample')} of {len(findings.ids):,} hurt at all."
        ),
        ids=tuple(str(i) for i in findings.ids[first]),
    )
