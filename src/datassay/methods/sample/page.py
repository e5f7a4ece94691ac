"""The page and files of a sampling; its text stands in `page.md.j2`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.commands.frame import compose_page, retype, table
from datassay.methods.sample.comparison import SamplingComparison
from datassay.methods.sample.job import MOST, SamplingFindings
from datassay.report.page import Page
from datassay.report.plots import change_chart, chart, line, marks
from datassay.report.style import BLUE, GREY, INK, QUIET, SKY, VERMILION, log_ticks, plotly_text
from datassay.report.tables import standard_json
from datassay.report.wording import number
from datassay.stats import BETTER, SAME, WORSE, Interval, mean_interval
from datassay.store.outputs import Part

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("page.md.j2")
FILES = {
    "samples.parquet": "every point, and which are new",
    "samples.npz": "the points as x and y",
    "summary.json": "the figures above",
}
SUMMED_UP = ("order", "epsilon", "derivatives", "acceptance", "tries")
# Verdict on the Taylor-based points → outcome for their error.
OUTCOMES = {BETTER: "lower", WORSE: "higher", SAME: "unclear"}
COLOURS = {"lower": BLUE, "higher": VERMILION, "unclear": GREY}
# Most cells of a side of a map, and initial points that a cell holds on average with fewer.
MOST_CELLS, POINTS_A_CELL = 24, 4
OUTPUT_COLOURS = (INK, SKY, "#009e73")


def page(findings: SamplingFindings) -> Page:
    """Return the page of `datassay sample`."""
    sample = findings.sample
    comparison = findings.comparison
    numbers: dict[str, object] = {
        "retyped": partial(retype, findings.facts),
        # A grid of d inputs stays one.
        "more": len(sample.index) * max(4, 2 ** len(findings.inputs)),
        "most": MOST["n_initial"],
        "n_components": len(sample.density.weight),
        "last_term": float(sample.terms[:, -1].sum() / sample.index.sum()),
    }
    blocks: dict[str, object] = {}
    if len(findings.inputs) > 1:
        blocks |= _plot_maps(findings)
    else:
        blocks["function"] = _plot_function(findings)
    if comparison is not None:
        mean, largest = verdicts(comparison)
        blocks["change"] = _plot_changes([mean, largest])
        numbers |= {"mean": mean, "largest": largest, "n_runs": comparison.largest.shape[1]}
        rows = [_format_row(verdict) for verdict in (largest, mean)]
        columns = ("error", "uniform", "Taylor-based", "change")
        blocks["errors"] = table("Errors", columns, rows, in_terminal=True)
    return compose_page(TEMPLATE, findings, blocks, numbers, FILES)


def verdicts(comparison: SamplingComparison) -> list[dict[str, Any]]:
    """Compare the root mean square, then the largest error, of both designs.

    Returns:
        By name: mean and half interval of each design, `uniform` and `taylor`, and of the
        `difference`, Taylor-based minus uniform run by run as a share of the uniform mean; its
        `verdict`, and as `outcome` whether Taylor-based errors are lower, higher or unclear.
    """
    results = []
    for name in ("root_mean_square", "largest"):
        uniform, taylor = getattr(comparison, name)
        change = (taylor - uniform) / (uniform.mean() or 1.0)
        means = {"uniform": uniform, "taylor": taylor, "difference": change}
        row: dict[str, Any] = {"error": name.replace("_", " ")}
        for key, values in means.items():
            interval = mean_interval(values)
            row[key] = (interval.gain, interval.half)
        verdict = mean_interval(-change).verdict
        results.append(row | {"verdict": verdict, "outcome": OUTCOMES[verdict]})
    return results


def _plot_changes(rows: list[dict[str, Any]]) -> "Figure":
    """Return a chart of each error's change by Taylor-based points, with its interval."""
    names = [f"{row['error']} error" for row in rows]
    changes = [Interval(gain, half, 1.0) for gain, half in (row["difference"] for row in rows)]
    colours = {n: COLOURS[row["outcome"]] for n, row in zip(names, rows, strict=True)}
    title = "change by the new points, % (left: smaller error)"
    return change_chart(title, list(zip(names, changes, strict=True)), 100, colours=colours)


def _interval(mean: float, half: float) -> str:
    return f"{number(float(mean))} ± {number(float(half))}"


def _format_row(verdict: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of an error: under both designs, and its change run by run."""
    change, half = (100 * value for value in verdict["difference"])
    text = f"{change:+.1f} ± {half:.1f} %".replace("-", "−")
    return verdict["error"], _interval(*verdict["uniform"]), _interval(*verdict["taylor"]), text


def files(findings: SamplingFindings, page: Page) -> dict[str, Part]:
    """Return the files; samples.parquet has a row per point, taylor_index null for new points."""
    sample = findings.sample
    density = findings.sample.density
    comparison = findings.comparison
    samples: Any = sample.to_samples(findings.name)
    compared = None
    if comparison is not None:
        compared = {
            "designs": comparison.names,
            "points": comparison.n_points,
            "test_points": comparison.n_test,
            "root_mean_square": comparison.root_mean_square,
            "largest": comparison.largest,
            "errors": verdicts(comparison),
        }
    summary = {
        "function": findings.name,
        "inputs": findings.inputs,
        "outputs": findings.outputs,
        "domain": sample.domain,
        "initial": len(sample.index),
        "new": findings.n_new,
        **{name: getattr(sample, name) for name in SUMMED_UP},
        "mixture": {
            "weight": density.weight,
            "mean": density.mean,
            "covariance": density.covariance,
            "fitted_points": density.n_fitted,
            "converged": density.converged,
        },
        "comparison": compared,
    }
    names = [*findings.inputs, *findings.outputs, "is_new", "taylor_index"]
    return {
        "samples.parquet": sample.to_table().rename_columns(names),
        "samples.npz": partial(np.savez, x=samples.x, y=samples.y, source=samples.source),
        "summary.json": standard_json(page.head | summary),
    }


def _plot_function(findings: SamplingFindings) -> "Figure":
    """Return a chart of f, its Taylor index Df, and the new points."""
    sample = findings.sample
    curve = findings.curve
    is_old = ~sample.is_new
    is_new = sample.is_new
    if curve is not None:
        x, y, index = curve
    else:  # lines through the initial points
        order = np.argsort(sample.x[is_old, 0])
        x = sample.x[is_old, 0][order]
        y = sample.y[is_old][order]
        index = sample.index[order]
    figure = chart(plotly_text(findings.inputs[0]), plotly_text(", ".join(findings.outputs), 40))
    line(
        figure, x, index, "change, right axis", BLUE, "x = %{x:.4g}: Df = %{y:.3g}<extra></extra>",
        width=1.5, dash="dash", yaxis="y2", fill="tozeroy", fillcolor="rgba(0,114,178,.10)",
    )  # fmt: skip
    values = "x = %{x:.4g}: %{y:.4g}<extra></extra>"
    for k, name in enumerate(findings.outputs[: len(OUTPUT_COLOURS)]):
        line(figure, x, y[:, k], name, OUTPUT_COLOURS[k], values, limit=28)
    outputs = y[:, : len(OUTPUT_COLOURS)]
    span = float(outputs.max() - outputs.min()) or 1.0
    floor = float(outputs.min()) - 0.09 * span
    for is_shown, name, colour, symbol in (
        (is_old, "initial points", GREY, "circle"), (is_new, "new points", VERMILION, "diamond"),
    ):  # fmt: skip
        shown_x = sample.x[is_shown, 0]
        marks(
            figure, shown_x, sample.y[is_shown, 0], name, colour, values, symbol=symbol, opacity=0.8
        )  # fmt: skip
    strokes = np.full(int(is_new.sum()), floor)
    style = {"symbol": "line-ns-open", "size": 11, "showlegend": False}
    marks(figure, sample.x[is_new, 0], strokes, "", VERMILION, **style)
    figure.update_yaxes(range=[floor - 0.05 * span, float(outputs.max()) + 0.07 * span])
    axis = {
        "overlaying": "y", "side": "right", "title": {"text": "change of f (Df)", "standoff": 8},
        "tickmode": "auto", "showgrid": False, "zeroline": False, "nticks": 5,
        "range": [0, 1.1 * float(index.max())], "tickcolor": QUIET, "ticks": "outside",
        "exponentformat": "power", "automargin": True,
    }  # fmt: skip
    figure.update_layout(margin_r=64, yaxis2=axis)
    return figure


def _plot_maps(findings: SamplingFindings) -> "dict[str, Figure]":
    """Return maps over two inputs: the largest Taylor index, and the number of new points."""
    sample = findings.sample
    x = sample.x[~sample.is_new, :2]
    box = sample.domain[:2]
    side = int(np.clip(np.sqrt(len(x) / POINTS_A_CELL), 2, MOST_CELLS))
    edges = [np.linspace(low, high, side + 1) for low, high in box]
    shares = (x - box[:, 0]) / (box[:, 1] - box[:, 0])
    cells = np.minimum((shares * side).astype(int), side - 1)  # [n, 2]
    largest = np.full((side, side), -np.inf)
    np.maximum.at(largest, tuple(cells.T), sample.index)
    is_positive = largest > 0
    logs = np.full(largest.shape, np.nan)
    logs[is_positive] = np.log10(largest[is_positive])
    index_bar = log_ticks(largest[is_positive])
    title = "log Df"
    if "tickvals" in index_bar:
        index_bar["tickvals"] = [float(np.log10(v)) for v in index_bar["tickvals"]]
        title = "Df"
    texts = np.where(is_positive, np.vectorize("{:.3g}".format)(largest), "")
    counts = np.histogram2d(*sample.x[sample.is_new, :2].T, bins=edges)[0]
    shown_counts = np.where(counts > 0, counts, np.nan)  # cells without any stay blank
    figures = {}
    count_texts = counts.astype(int).astype(str)
    for name, unit, values, text, hover, bar in (
        ("index", title, logs, texts, "Df at most %{text}", index_bar),
        ("new", "points", shown_counts, count_texts, "%{text} new", {"nticks": 5}),
    ):
        figure = chart(
            plotly_text(findings.inputs[0]), plotly_text(findings.inputs[1]), margin_r=24
        )
        bar = {"title": {"text": unit, "side": "top"}, "thickness": 12, "outlinewidth": 0, **bar}
        figure.add_heatmap(
            x=edges[0], y=edges[1], z=values.T, text=text.T, colorbar=bar, hoverongaps=False,
            hovertemplate=f"{hover}<extra></extra>",
            colorscale=[[0, "#eef5fa"], [0.5, "#3aa0d8"], [1, "#00335a"]],
        )  # fmt: skip
        figure.update_yaxes(showgrid=False)
        figures[name] = figure
    return figures
