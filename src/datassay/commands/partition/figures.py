"""Figures of a partition: how many blocks, how they differ, where they lie."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from datassay.commands.partition.job import PartitionFindings
from datassay.report.plots import bars, chart, line, marks
from datassay.report.style import BLUE, CLASS_COLOURS, INK, VERMILION

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_POINTS = 2000
# Colours that stay apart for colour-blind readers, and symbols for who sees none.
BLOCK_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star")


def map_places(findings: PartitionFindings) -> tuple[Float[np.ndarray, "n 2"], float]:
    """[n, 2] principal components of the standardised inputs, and the variance that they hold."""
    from sklearn.decomposition import PCA

    x = np.asarray(findings.samples.x, np.float64).reshape(len(findings.samples), -1)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if x.shape[1] == 1:
        return np.concatenate([x, np.zeros_like(x)], axis=1), 1.0
    pca = PCA(2, random_state=0).fit(x)
    return pca.transform(x), float(pca.explained_variance_ratio_.sum())


def held_out_figure(findings: PartitionFindings) -> Figure:
    """What each number of blocks predicts of samples that were left out; the chosen one marked."""
    partition = findings.partition
    counts = sorted(partition.held_out)
    values = [partition.held_out[k] for k in counts]
    look = {"size": 8, "color": [VERMILION if k == partition.n_blocks else BLUE for k in counts]}
    figure = chart("number of blocks K", "held-out log-likelihood, nats a sample", showlegend=False)
    hover = "%{x} blocks: %{y:.3f} nats a sample"
    line(figure, counts, values, "", BLUE, hover, mode="lines+markers", marker=look)
    if partition.n_blocks in partition.held_out:
        figure.add_annotation(
            x=partition.n_blocks, y=partition.held_out[partition.n_blocks], text="chosen",
            yanchor="top", yshift=-6, xanchor="left", xshift=6, showarrow=False,
        )  # fmt: skip
    low, high = min(values), max(values)
    room = 0.15 * (high - low or 1.0)
    figure.update_yaxes(range=[low - room, high + room])
    figure.update_xaxes(tickvals=counts)
    return figure


def variance_figure(findings: PartitionFindings) -> Figure:
    """V of all samples under one model, and of each block under its own, on a logarithmic axis."""
    partition = findings.partition
    values = np.concatenate([[partition.variance_together], partition.variance])
    names = np.array(["together", *findings.block_names])
    colours = np.array([INK, *islice(cycle(BLOCK_COLOURS), partition.n_blocks)])
    there = np.isfinite(values) & (values > 0)
    figure = chart("", "variance of influence V (log scale)", log_y=values[there], showlegend=False)
    hover, colours = "%{x}: V = %{y:.3g}", colours[there].tolist()
    marks(figure, names[there].tolist(), values[there], "", colours, hover, size=14)
    return figure


def map_figure(
    places: Float[np.ndarray, "n 2"], group: np.ndarray, names: list[str], explained: float
) -> Figure:
    """Samples in a plane, coloured by group; of more than 2000 evenly spaced ones."""
    n = len(places)
    drawn = np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).round().astype(int))
    held = f"{100 * explained:.0f} % of the variance"
    title = f"first principal component ({held} in both)"
    figure = chart(title, "second component", showlegend=True, height=420)
    looks = zip(names, cycle(BLOCK_COLOURS), cycle(SYMBOLS), strict=False)
    for g, (name, colour, symbol) in enumerate(looks):
        x, y = places[drawn[group[drawn] == g]].round(3).T
        marks(figure, x, y, name, colour, size=5.5, symbol=symbol, opacity=0.65, hoverinfo="name")
    return figure


def target_figure(findings: PartitionFindings) -> Figure:
    """Shares of the classes in each block, the rarest merged; or a box of the first target."""
    samples, partition, names = findings.samples, findings.partition, findings.block_names
    if not samples.is_classification:
        figure = chart("", "target", showlegend=False)
        target = samples.y.reshape(len(samples), -1)[:, 0]
        for k, (name, colour) in enumerate(zip(names, cycle(BLOCK_COLOURS), strict=False)):
            figure.add_box(y=target[partition.block == k], name=name, marker={"color": colour})
        return figure
    figure = chart(
        "share of the block, %", barmode="stack", bargap=0.35, showlegend=True,
        height=180 + 48 * partition.n_blocks,
    )  # fmt: skip
    sizes, hover = np.maximum(partition.sizes, 1), "%{customdata} samples, %{x:.1f} %"
    for colour, (name, inside) in zip(CLASS_COLOURS, _class_groups(findings), strict=False):
        counts = np.bincount(partition.block[inside], minlength=partition.n_blocks)
        bars(
            figure, 100 * counts / sizes, names, name, colour, hover, edge="#fff", orientation="h",
            customdata=counts,
        )  # fmt: skip
    figure.update_xaxes(range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return figure


def _class_groups(findings: PartitionFindings) -> list[tuple[str, np.ndarray]]:
    samples = findings.samples
    counts = np.bincount(samples.y, minlength=samples.n_classes)
    most = len(CLASS_COLOURS)
    chosen = np.arange(samples.n_classes)
    if samples.n_classes > most:
        chosen = np.sort(np.argsort(-counts, kind="stable")[: most - 1])
    groups = [(samples.class_names[c], samples.y == c) for c in chosen]
    if len(chosen) < samples.n_classes:
        rest = ~np.isin(samples.y, chosen)
        groups.append((f"{samples.n_classes - len(chosen)} other classes", rest))
    return groups
