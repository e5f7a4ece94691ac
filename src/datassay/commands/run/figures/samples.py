"""Figures of the samples' information."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.data.samples import wrong_labels
from datassay.report.style import BLUE, CLASS_COLOURS, VERMILION, decades, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SMALLEST_SHARE = 1e-12


def information_figure(findings: Findings) -> Figure:
    """Histogram of information on a logarithmic axis, stacked by class.

    Returns:
        Samples below 1e-12 of the largest information are counted in the first bin.
    """
    import plotly.graph_objects as go

    exponents = np.log10(_above_floor(findings.information.information))
    edges = np.linspace(*_range(exponents), 41)
    centres, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    ranges = [f"{10**a:.2g} to {10**b:.2g}" for a, b in pairwise(edges)]
    figure = go.Figure()
    for colour, (name, inside) in zip(CLASS_COLOURS, _class_groups(findings), strict=False):
        figure.add_bar(
            x=centres,
            y=np.histogram(exponents[inside], edges)[0],
            width=width,
            name=plain(name),
            customdata=ranges,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y} samples at %{customdata} nats<extra>%{fullData.name}</extra>",
        )
    style(figure, "information, nats", "samples")
    low, high = int(np.ceil(edges[0])), int(np.floor(edges[-1]))
    ticks, texts = decades(low, high)
    figure.update_xaxes(tickvals=ticks, ticktext=texts)
    figure.update_layout(barmode="stack", showlegend=findings.samples.is_classification)
    return figure


def comparison_figure(information: np.ndarray, groups: list[tuple[str, np.ndarray]]) -> Figure:
    """Histograms of information (nats) as shares of each group, so that any sizes compare.

    Returns:
        One stepped line a group, ten at most, on a logarithmic axis.
    """
    import plotly.graph_objects as go

    exponents = np.log10(_above_floor(information))
    edges = np.linspace(*_range(exponents), 31)
    colours = (BLUE, VERMILION, *CLASS_COLOURS)
    figure = go.Figure()
    for colour, (name, inside) in zip(colours, groups, strict=False):
        share = 100 * np.histogram(exponents[inside], edges)[0] / max(1, int(inside.sum()))
        figure.add_scatter(
            x=(edges[1:] + edges[:-1]) / 2,
            y=share,
            name=plain(name),
            mode="lines",
            line={"shape": "hvh", "color": colour, "width": 2},
            fill="tozeroy" if len(groups) <= 3 else None,
            hovertemplate="%{y:.1f} % of its samples<extra>%{fullData.name}</extra>",
        )
    style(figure, "information, nats", "share of the group, %")
    ticks, texts = decades(int(np.ceil(edges[0])), int(np.floor(edges[-1])))
    figure.update_xaxes(tickvals=ticks, ticktext=texts)
    figure.update_layout(showlegend=True)
    return figure


def source_groups(findings: Findings) -> list[tuple[str, np.ndarray]]:
    """Name and mask of the ten largest sources; empty where there are not two."""
    source = findings.samples.source
    if source is None:
        return []
    names, counts = np.unique(source, return_counts=True)
    if len(names) < 2:
        return []
    largest = np.sort(np.argsort(-counts, kind="stable")[: len(CLASS_COLOURS)])
    return [(str(names[g]), source == names[g]) for g in largest]


def spoiled_groups(findings: Findings) -> list[tuple[str, np.ndarray]]:
    """Name and mask of the samples as they came, of wrong labels and of adversarial inputs.

    Returns:
        Empty where nothing is known to be wrong.
    """
    wrong, adversarial = wrong_labels(findings.samples), findings.adversarial
    none = np.zeros(len(findings.samples), bool)
    wrong = none if wrong is None else wrong
    adversarial = none if adversarial is None else adversarial
    spoiled = [("label is wrong", wrong), ("input is adversarial", adversarial)]
    spoiled = [(name, inside) for name, inside in spoiled if inside.any()]
    clean = ("as it should be", ~wrong & ~adversarial)
    return [clean, *spoiled] if spoiled and clean[1].any() else []


def _above_floor(values: np.ndarray) -> np.ndarray:
    top = float(values.max())
    return np.maximum(values, top * SMALLEST_SHARE) if top > 0 else np.ones_like(values)


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _class_groups(findings: Findings) -> list[tuple[str, np.ndarray]]:
    """Name and mask of at most ten groups: the classes, the smallest ones merged."""
    samples = findings.samples
    if not samples.is_classification:
        return [("all samples", np.ones(len(samples), bool))]
    classes = np.arange(samples.n_classes)
    if len(classes) > len(CLASS_COLOURS):
        sizes = np.bincount(samples.y, minlength=samples.n_classes)
        classes = np.sort(np.argsort(-sizes, kind="stable")[: len(CLASS_COLOURS) - 1])
    groups = [(samples.class_names[c], samples.y == c) for c in classes]
    if len(classes) < samples.n_classes:
        rest = ~np.isin(samples.y, classes)
        groups.append((f"{samples.n_classes - len(classes)} other classes", rest))
    return groups
