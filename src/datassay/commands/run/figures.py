"""Figures of the page of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from datassay.act.choose.compare import EXPECTED, ActGain, ActTable
from datassay.act.remove.removal_curve import RemovalCurve
from datassay.commands.run.findings import (
    HIGHEST_FIRST,
    LOWEST_FIRST,
    RANDOM,
    SUSPECTS_FIRST,
    Findings,
)
from datassay.data.samples import wrong_labels
from datassay.report.plots import (
    Dots,
    chart,
    drawn_dots,
    equal_figure,
    label_cells,
    level,
    line,
    log_histogram,
    marks,
    stacked,
)
from datassay.report.style import (
    BLUE,
    CLASS_COLOURS,
    GREY,
    INK,
    QUIET,
    RULE,
    SKY,
    VERMILION,
    plain,
)
from datassay.report.wording import in_points
from datassay.score.compare.projection_quality import ProjectionQuality, rank_correlation
from datassay.score.compare.retraining_check import RetrainingCheck
from datassay.stats import BETTER, PERHAPS, SAME, VERDICTS, WORSE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Chances drawn, as log odds; further ones are counted at the edge. Of regression z-scores − 3.5.
FARTHEST_ODDS, FARTHEST_SCORE = 11.5, 20.0
CHANCES, MORE_CHANCES = (0.0001, 0.01, 0.5, 0.99, 0.9999), (0.1, 0.9)
MOST_DRAWN, MOST_WRITTEN, LONGEST_NAME = 30, 12, 16  # classes of the map of the noise
RIVAL_COLOURS = ("#009e73", "#cc79a7", "#b8860b", "#6a5acd", "#8a94a0", "#444444")
MODE_COLOURS = ("#08519c", "#3182bd", "#6baed6", "#9ecae1", "#bdd7e7", "#d0e1ee")
# Beside fewer samples everything informs more; a sample counts as stood in for where its own gain
# is so many times that of the median sample.
FACTOR = 3.0
VERDICT_COLOURS = {BETTER: BLUE, PERHAPS: SKY, SAME: GREY, WORSE: VERMILION}


def acts_figure(table: ActTable) -> Figure:
    """Per action its gain and interval, its name above; left of 0 it harms.

    The axis holds every gain. An interval three times as wide as the median one, which would
    flatten all others, is cut at its end, and an arrow says so.

    Args:
        table: of the actions.

    Returns:
        The figure.
    """
    acts = [act for act in table.acts if np.isfinite(act.low)][::-1]
    scale = 100 if in_points(table.metric) else 1
    least, most = (scale * end for end in _span(acts))
    height = 150 + 44 * len(acts)
    unit = f"points of {table.metric}" if in_points(table.metric) else table.metric
    figure = chart(
        f"gain over the samples as they are, {unit}", height=height, showlegend=True,
        margin={"b": 96, "l": 12}, legend={"y": -64 / (height - 120)},  # below the axis title
    )  # fmt: skip
    names = [plain(act.words, 60) for act in acts]
    for name, colour, rows in (
        *((v, VERDICT_COLOURS[v], [k for k, a in enumerate(acts) if a.verdict == v])
          for v in VERDICTS),
        ("expected, not measured", "#b5bdc6", [k for k, a in enumerate(acts) if a.how == EXPECTED]),
    ):  # fmt: skip
        if not rows:
            continue
        gain, low, high = (np.array([getattr(acts[k], n) for k in rows]) * scale
                           for n in ("gain", "low", "high"))  # fmt: skip
        ends = np.minimum(high, most), np.maximum(low, least)
        error = {"type": "data", "array": ends[0] - gain, "arrayminus": gain - ends[1]}
        error |= {"thickness": 2, "color": colour}
        hover = "%{customdata[0]}: %{x:.2f} (%{customdata[1]:.2f} to %{customdata[2]:.2f})"
        about = [[names[k], a, b] for k, a, b in zip(rows, low, high, strict=True)]
        marks(figure, gain, rows, name, colour, hover, size=10, error_x=error, customdata=about)
        for beyond, end, symbol in ((high > most, most, "right"), (low < least, least, "left")):
            cut = [k for k, is_cut in zip(rows, beyond, strict=True) if is_cut]
            if not cut:
                continue
            look = {"size": 9, "symbol": f"triangle-{symbol}", "showlegend": False}
            marks(figure, [end] * len(cut), cut, "", colour, **look)
    level(figure, x=0, colour=GREY, width=1, dash=None)
    for k, name in enumerate(names):
        look = {"xref": "paper", "xanchor": "left", "yshift": 15, "showarrow": False}
        figure.add_annotation(x=0, y=k, text=name, **look)
    figure.update_xaxes(range=[least, most])
    figure.update_yaxes(tickvals=list(range(len(acts))), showticklabels=False, ticks="",
                        range=[-0.5, len(acts) - 0.25], showgrid=True)  # fmt: skip
    return figure


def _span(acts: Sequence[ActGain]) -> tuple[float, float]:
    """Both ends of an axis that holds 0, all gains and all intervals but the widest."""
    width = np.array([act.high - act.low for act in acts])
    plain_ones = [act for act, w in zip(acts, width, strict=True) if w <= 3 * np.median(width)]
    ends = [0.0, *(act.gain for act in acts)]
    ends += [end for act in plain_ones for end in (act.low, act.high)]
    pad = 0.06 * (max(ends) - min(ends)) or 0.01
    return min(ends) - pad, max(ends) + pad


def is_cut(table: ActTable) -> bool:
    """Whether the axis of the actions cuts an interval."""
    acts = [act for act in table.acts if np.isfinite(act.low)]
    least, most = _span(acts) if acts else (0.0, 0.0)
    return any(act.low < least or act.high > most for act in acts)


def information_figure(findings: Findings) -> Figure:
    """Histogram of information by class; below 1e-12 of the largest it counts in the first bin."""
    shown = findings.samples.is_classification
    figure = chart("information, nats", "samples", showlegend=shown)
    values, groups = findings.information.information, _class_groups(findings)
    return log_histogram(figure, values, groups, "%{y} samples at %{customdata} nats")


def comparison_figure(information: np.ndarray, groups: list[tuple[str, np.ndarray]]) -> Figure:
    """Information (nats) as shares of each group, ten at most, so that any sizes compare."""
    figure = chart("information, nats", "share of the group, %", showlegend=True)
    colours = (BLUE, VERMILION, *CLASS_COLOURS)
    drawn = [(*group, colour) for group, colour in zip(groups, colours, strict=False)]
    hover = "%{y:.1f} % of its samples"
    return log_histogram(figure, information, drawn, hover, bins=30, shares=True)


def _class_groups(findings: Findings) -> list[tuple[str, np.ndarray, str]]:
    """At most ten groups: the classes, the smallest ones merged."""
    samples = findings.samples
    if not samples.is_classification:
        return [("all samples", np.ones(len(samples), bool), CLASS_COLOURS[0])]
    classes = np.arange(samples.n_classes)
    if len(classes) > len(CLASS_COLOURS):
        sizes = np.bincount(samples.y, minlength=samples.n_classes)
        classes = np.sort(np.argsort(-sizes, kind="stable")[: len(CLASS_COLOURS) - 1])
    groups = [(samples.class_names[c], samples.y == c) for c in classes]
    if len(classes) < samples.n_classes:
        rest = ~np.isin(samples.y, classes)
        groups.append((f"{samples.n_classes - len(classes)} other classes", rest))
    return [(*group, colour) for group, colour in zip(groups, CLASS_COLOURS, strict=False)]


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


def issue_figure(findings: Findings) -> Figure:
    """Label issue scores, on an axis of log odds, split by truth where known, else by suspicion."""
    issues, wrong = findings.issues, wrong_labels(findings.samples)
    score, is_odds = np.clip(issues.score, *_drawn(findings)), issues.posterior is not None
    groups = [("not suspected", ~issues.is_issue, GREY), ("suspected", issues.is_issue, VERMILION)]
    if wrong is not None:
        groups = [("label is correct", ~wrong, BLUE), ("label is wrong", wrong, VERMILION)]
    titles = "label issue score (modified z-score − 3.5)", "how likely the label is wrong"
    figure, low, high = chart(titles[is_odds], "samples"), float(score.min()), float(score.max())
    low, high = (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)
    width = (high - low) / 50  # of bins with an edge at 0, so that none straddles the cut-off
    edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    stacked(figure, score, groups, edges, "%{y} samples near %{x:.2f}")
    if is_odds:
        level(figure, x=0, text="suspected →", position="top right", yanchor="bottom")
        chances = CHANCES + MORE_CHANCES * bool(edges[-1] - edges[0] < FARTHEST_ODDS)
        ticks = [float(np.log(p / (1 - p))) for p in chances]
        texts = [f"{100 * p:g} %" for p in chances]
        figure.update_xaxes(tickvals=ticks, ticktext=texts, tickangle=0)
    return figure


def beyond(findings: Findings) -> int:
    """How many samples lie outside the drawn range and are counted at its edge."""
    low, high = _drawn(findings)
    return int(((findings.issues.score < low) | (findings.issues.score > high)).sum())


def _drawn(findings: Findings) -> tuple[float, float]:
    most = FARTHEST_SCORE if findings.issues.posterior is None else FARTHEST_ODDS
    return -most, most


def noise_figure(findings: Findings) -> Figure:
    """P(given label | true class) in per cent: confusions in colour, what is right in grey."""
    share = 100 * findings.issues.noise[0].transition
    names = [plain(name, LONGEST_NAME) for name in findings.samples.class_names]
    right = np.eye(len(names), dtype=bool)
    pairs = np.array([[f"“{a}” given as “{b}”: " for b in names] for a in names])
    height = max(220, min(760, 140 + 32 * len(names)))
    figure, top = chart("given label", "true class", height=height), float(share[~right].max())
    kinds = ((~right, [[0, "#ffffff"], [1, VERMILION]], top), (right, [[0, RULE], [1, RULE]], 100))
    for inside, colours, largest in kinds:
        figure.add_heatmap(
            z=np.where(inside, share, np.nan), zmin=0, zmax=largest, colorscale=colours,
            showscale=False, xgap=1, ygap=1, customdata=pairs,
            hovertemplate="%{customdata}%{z:.1f} %<extra></extra>",
        )  # fmt: skip
    if len(names) <= MOST_WRITTEN:
        for c, g in np.argwhere(share >= 0.5):
            figure.add_annotation(
                x=g, y=c, text=f"{share[c, g]:.0f}", showarrow=False,
                font={"color": QUIET if c == g else INK, "size": 11},
            )  # fmt: skip
    label_cells(figure, names)
    return figure


def modes_figure(findings: Findings) -> Figure:
    """The predicted share of the residual that is left, by band of modes and in all."""
    curve, left = findings.learning_curve, "step %{x:.3g}: %{y:.1%} left"
    titles = "training steps", "share of squared residual left"
    figure = chart(*titles, log_x=curve.steps, height=400)
    for i, (name, residual) in enumerate(zip(curve.groups, curve.residual, strict=True)):
        line(figure, curve.steps, residual, name, MODE_COLOURS[min(i, 5)], left)
    line(figure, curve.steps, curve.total, "all modes", INK, left, width=3.5)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    return figure


def removal_figure(curve: RemovalCurve) -> Figure:
    """Score of retrained networks against the fraction removed; bars: one deviation over seeds."""
    figure = chart(
        "training samples removed, %", f"validation {curve.metric}", height=440, showlegend=True
    )
    ours = {LOWEST_FIRST: BLUE, HIGHEST_FIRST: VERMILION, SUSPECTS_FIRST: SKY}
    rivals = [r for r in curve.rankings if r not in {*ours, RANDOM}]
    for name, score in zip(curve.rankings, curve.score, strict=True):  # [fractions, seeds]
        colour, width = ours.get(name, INK), 3.0 if name in ours else 2.0
        if name in rivals:
            colour, width = RIVAL_COLOURS[rivals.index(name) % len(RIVAL_COLOURS)], 1.5
        spread = score.std(axis=1, ddof=1) if score.shape[1] > 1 else None
        line(
            figure, 100 * curve.fractions, score.mean(axis=1), name, colour,
            "%{x:.0f} % removed: %{y:.3f}", width=width, mode="lines+markers", limit=40,
            dash="dash" if name == RANDOM else None, marker={"size": 4 + width},
            opacity=1.0 if width > 2 else 0.75,
            error_y={"array": spread, "thickness": 1, "width": 2},
        )  # fmt: skip
    figure.update_xaxes(range=[-2, 100 * curve.fractions.max() + 2])
    return figure


def projection_figure(quality: ProjectionQuality) -> Figure:
    """Rank correlations with exact scores by features, with 95 % intervals; dashed: unprojected."""
    figure = chart("features, p", "rank correlation with exact scores", height=400)
    colours, p = (BLUE, VERMILION, INK), quality.n_features
    for colour, (score, correlation) in zip(colours, quality.correlation.items(), strict=True):
        mean, unprojected = correlation.mean(1), quality.unprojected[score]
        low, high = mean - quality.low[score], quality.high[score] - mean
        error = {"array": high, "arrayminus": low, "thickness": 1}
        hover, name = "%{x:,} features: %{y:.3f}", score.replace("_", " ")
        line(figure, p, mean, name, colour, hover, mode="lines+markers", error_y=error)
        look = {"width": 1, "dash": "dash", "showlegend": False}
        hover = "unprojected: %{y:.3f}"
        line(figure, [p[0], p[-1]], [unprojected] * 2, "", colour, hover, **look)
    ticks = [int(p) for p in quality.n_features]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{p:,}" for p in ticks])
    figure.update_yaxes(range=[0, 1.03])
    return figure


def check_figure(check: RetrainingCheck) -> Figure:
    """Changes by retraining against those by the linearised network, one mark a sample."""
    return equal_figure(
        check.linearised,
        check.retrained,
        ("change of the predictions, linearised", "the same, network retrained"),
        [Dots("one sample each", np.ones(len(check.ids), bool), BLUE, size=8, opacity=1.0)],
        np.array([plain(str(i)) for i in check.ids]),
        "id %{text}<br>linearised %{x:.3g}<br>retrained %{y:.3g}",
    )


def stand_ins(findings: Findings) -> tuple[float, Int[np.ndarray, " s"]]:
    """Which samples inform little only because others stand in for them.

    Returns:
        The rank correlation of both informations, and positions of those samples, the largest gain
        first.
    """
    assert findings.average is not None
    alone, average = findings.information.information, findings.average.information
    known = (alone > 0) & (average > 0)
    gain = np.where(known, average, 1.0) / np.where(known, alone, 1.0)
    limit = FACTOR * np.median(gain[known]) if known.any() else np.inf
    order = np.argsort(-gain, kind="stable")
    return float(rank_correlation(alone, average)), order[(known & (gain > limit))[order]]


def subset_figure(findings: Findings) -> Figure:
    """Average information against information, one mark a sample, 4000 at most; log axes."""
    assert findings.average is not None
    x, y = findings.information.information, findings.average.information
    stood = np.zeros(len(x), bool)
    stood[stand_ins(findings)[1]] = True
    shown = drawn_dots(x, y, first=stood)
    return equal_figure(
        x,
        y,
        ("information beside all others, nats", "the same beside random subsets"),
        [
            Dots("sample", shown & ~stood, BLUE),
            Dots("others stand in for it", shown & stood, VERMILION),
        ],
        np.array([plain(str(i)) for i in findings.samples.ids]),
        "id %{text}<br>%{x:.3g} and %{y:.3g} nats",
    )
