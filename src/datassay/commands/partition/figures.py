"""Figures of a partition: how many blocks, how they differ, where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from datassay.commands.partition.findings import PartitionFindings, block_name
from datassay.report.style import BLUE, CLASS_COLOURS, GREY, INK, VERMILION, log_ticks, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_POINTS = 2000
# Colours that stay apart for colour-blind readers, and symbols for who sees none.
BLOCK_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star")


def partition_figures(
    findings: PartitionFindings, places: Float[np.ndarray, "n 2"], explained: float
) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: one partition.
        places: from `map_places`.
        explained: share of the inputs' variance that the map shows.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    found, samples = findings.found, findings.samples
    names = [block_name(k) for k in range(found.n_blocks)]
    drawn = {
        "variance": (variance_figure(findings), "Variance of influence of each block"),
        "map": (
            map_figure(places, found.block, names, explained),
            "Two principal components of the inputs, coloured by block",
        ),
        "targets": (target_figure(findings), "Labels or targets in each block"),
    }
    if len(found.held_out) > 1:
        text = "Held-out log-likelihood against the number of blocks"
        drawn["held_out"] = (held_out_figure(findings), text)
    if samples.source is not None:
        sources, place = np.unique(samples.source, return_inverse=True)
        if 1 < len(sources) <= len(BLOCK_COLOURS):
            figure = map_figure(places, place, [str(s) for s in sources], explained)
            drawn["sources"] = (figure, "The same map, coloured by source")
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}


def map_places(findings: PartitionFindings) -> tuple[Float[np.ndarray, "n 2"], float]:
    """Two principal components of the standardised inputs.

    Args:
        findings: one partition.

    Returns:
        Coordinates, and the share of the variance that they hold; zeros for a second component
        where the inputs have one column.
    """
    from sklearn.decomposition import PCA

    x = np.asarray(findings.samples.x, np.float64).reshape(len(findings.samples), -1)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if x.shape[1] == 1:
        return np.concatenate([x, np.zeros_like(x)], axis=1), 1.0
    pca = PCA(2, random_state=0).fit(x)
    return pca.transform(x), float(pca.explained_variance_ratio_.sum())


def held_out_figure(findings: PartitionFindings) -> Figure:
    """What each number of blocks predicts of samples that were left out.

    Args:
        findings: one partition that tried several.

    Returns:
        The figure, the chosen number marked.
    """
    import plotly.graph_objects as go

    found = findings.found
    counts = sorted(found.held_out)
    values = [found.held_out[k] for k in counts]
    figure = go.Figure()
    figure.add_scatter(
        x=counts,
        y=values,
        mode="lines+markers",
        line={"color": BLUE, "width": 2},
        marker={"size": 8, "color": [VERMILION if k == found.n_blocks else BLUE for k in counts]},
        hovertemplate="%{x} blocks: %{y:.3f} nats a sample<extra></extra>",
    )
    if found.n_blocks in found.held_out:
        figure.add_annotation(
            x=found.n_blocks,
            y=found.held_out[found.n_blocks],
            text="chosen",
            yanchor="top",
            yshift=-6,
            xanchor="left",
            xshift=6,
            showarrow=False,
        )
    style(figure, "number of blocks K", "held-out log-likelihood, nats a sample")
    low, high = min(values), max(values)
    room = 0.15 * (high - low or 1.0)
    figure.update_yaxes(range=[low - room, high + room])
    figure.update_xaxes(tickvals=counts)
    figure.update_layout(showlegend=False)
    return figure


def variance_figure(findings: PartitionFindings) -> Figure:
    """V of all samples under one model, and of each block under its own.

    Args:
        findings: one partition.

    Returns:
        The figure, on a logarithmic axis.
    """
    import plotly.graph_objects as go

    found = findings.found
    values = np.concatenate([[found.variance_together], found.variance])
    names = ["together", *(block_name(k) for k in range(found.n_blocks))]
    there = np.isfinite(values) & (values > 0)
    figure = go.Figure()
    figure.add_scatter(
        x=[name for name, ok in zip(names, there, strict=True) if ok],
        y=values[there],
        mode="markers",
        marker={
            "size": 14,
            "color": np.array([INK, *_cycle(BLOCK_COLOURS, found.n_blocks)])[there].tolist(),
        },
        hovertemplate="%{x}: V = %{y:.3g}<extra></extra>",
    )
    style(figure, "", "variance of influence V (log scale)")
    figure.update_yaxes(type="log", **(log_ticks(values[there]) if there.any() else {}))
    figure.update_layout(showlegend=False)
    return figure


def map_figure(
    places: Float[np.ndarray, "n 2"], group: np.ndarray, names: list[str], explained: float
) -> Figure:
    """Samples in the plane of two principal components.

    Args:
        places: their coordinates.
        group: [n], index into names.
        names: of blocks or sources.
        explained: share of the variance in the plane.

    Returns:
        The figure; of more than 2000 samples evenly spaced ones.
    """
    import plotly.graph_objects as go

    n = len(places)
    drawn = np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).round().astype(int))
    figure = go.Figure()
    for g, name in enumerate(names):
        inside = drawn[group[drawn] == g]
        figure.add_scatter(
            x=places[inside, 0].round(3),
            y=places[inside, 1].round(3),
            mode="markers",
            name=plain(name),
            marker={
                "color": BLOCK_COLOURS[g % len(BLOCK_COLOURS)],
                "symbol": SYMBOLS[g % len(SYMBOLS)],
                "size": 5.5,
                "opacity": 0.65,
            },
            hoverinfo="name",
        )
    share = f"{100 * explained:.0f} % of the variance"
    style(figure, f"first principal component ({share} in both)", "second component")
    figure.update_layout(showlegend=True, height=420)
    return figure


def target_figure(findings: PartitionFindings) -> Figure:
    """How labels, or targets, are distributed in each block.

    Args:
        findings: one partition.

    Returns:
        The figure: shares of the classes, the rarest merged, or a box of the first target a block.
    """
    import plotly.graph_objects as go

    samples, found = findings.samples, findings.found
    figure = go.Figure()
    names = [block_name(k) for k in range(found.n_blocks)]
    if not samples.is_classification:
        target = samples.y.reshape(len(samples), -1)[:, 0]
        for k, name in enumerate(names):
            colour = BLOCK_COLOURS[k % len(BLOCK_COLOURS)]
            figure.add_box(y=target[found.block == k], name=name, marker={"color": colour})
        style(figure, "", "target")
        figure.update_layout(showlegend=False)
        return figure
    sizes = np.maximum(found.sizes, 1)
    for colour, (name, inside) in zip(CLASS_COLOURS, _class_groups(findings), strict=False):
        counts = np.bincount(found.block[inside], minlength=found.n_blocks)
        figure.add_bar(
            y=names,
            x=100 * counts / sizes,
            orientation="h",
            name=plain(name),
            customdata=counts,
            marker={"color": colour, "line": {"width": 1, "color": "#fff"}},
            hovertemplate="%{customdata} samples, %{x:.1f} %<extra>%{fullData.name}</extra>",
        )
    style(figure, "share of the block, %", "")
    figure.update_xaxes(range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(
        barmode="stack", bargap=0.35, showlegend=True, height=180 + 48 * found.n_blocks
    )
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


def _cycle(colours: tuple[str, ...], n: int) -> list[str]:
    return [colours[k % len(colours)] for k in range(n)] if n else [GREY]
