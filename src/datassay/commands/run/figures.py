"""Figures of the page of a run."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from datassay.commands.run.findings import Findings
from datassay.ranks import rank_correlation
from datassay.report.plots import bars, chart, log_histogram
from datassay.report.style import CLASS_COLOURS, GREY, VERMILION
from datassay.score.labels.sources import LabelSources

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# A sample informs more beside fewer others. Others stand in for it where its information grows by
# so many times the growth of the median sample.
FACTOR = 3.0


def information_figure(findings: Findings) -> "Figure":
    """Return a histogram of information; below 1e-12 of the largest it is in the first bin."""
    values = findings.information.information
    n = len(findings.samples)
    groups = [("all samples", np.ones(n, bool), CLASS_COLOURS[0])]
    figure = chart("information, nats", "samples", showlegend=False)
    return log_histogram(figure, values, groups, "%{y} samples at %{customdata} nats")


def sources_figure(sources: LabelSources) -> "Figure":
    """Draw the share of contradicted labels of each source beside the one that was expected."""
    figure = chart(sources.column, "labels contradicted, %", barmode="group", showlegend=True)
    for name, shares, colour in (
        ("contradicted", sources.contradicted, VERMILION),
        ("expected", sources.expected, GREY),
    ):
        bars(figure, list(sources.values), 100 * shares, name, colour, "%{x}: %{y:.1f} %")
    figure.update_xaxes(type="category")
    return figure


def stand_ins(findings: Findings) -> tuple[float, Int[np.ndarray, " s"]]:
    """Return the samples whose information is low only because similar samples are there.

    Returns:
        The rank correlation of information beside all samples and beside random subsets; then
        positions of those samples, the largest growth first.
    """
    assert findings.average is not None
    information = findings.information.information
    average = findings.average.information
    informs = (information > 0) & (average > 0)
    growth = np.where(informs, average, 1.0) / np.where(informs, information, 1.0)
    limit = np.inf
    if informs.any():
        limit = FACTOR * np.median(growth[informs])
    order = np.argsort(-growth, kind="stable")
    has_stand_ins = informs & (growth > limit)
    return float(rank_correlation(information, average)), order[has_stand_ins[order]]
