"""The page and files of a trust check; `text/trust.md.j2` says the rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datassay.commands.bench.trust.job import TrustFindings
from datassay.report.compose import compose
from datassay.report.page import Page, Row, Table
from datassay.report.plots import chart, level, marks
from datassay.report.style import BLUE, GREY, VERMILION
from datassay.report.tables import standard_json
from datassay.report.wording import number
from datassay.score.compare.trust import (
    CARE,
    DISTRUST,
    ENOUGH,
    LITTLE,
    LOWEST_CEILING,
    PREDICTIONS,
    SAMPLES,
    TRUST,
    Estimate,
    TrustCheck,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FILES = {"bench.parquet": "every score", "summary.json": "the figures above"}
COLUMNS = ("score", "correlation", "of the ceiling", "ahead of free scores", "verdict")
ASKED = {
    PREDICTIONS: "Which samples caused a prediction",
    SAMPLES: "Which samples matter by themselves",
}
NAMES = {PREDICTIONS: "predictions", SAMPLES: "samples"}
COLOURS = {TRUST: BLUE, CARE: "#b8860b", DISTRUST: VERMILION}
FREE = "free"


def page(findings: TrustFindings) -> Page:
    """The answer, the scores of both questions, and how they were judged."""
    check = findings.check
    refused = [
        name
        for name, question, verdict, trivial in zip(
            check.score, check.question, check.verdict, check.trivial, strict=True
        )
        if verdict == DISTRUST and question == PREDICTIONS and not trivial
    ]
    beaten = [
        name
        for name, high, trivial in zip(check.score, check.ahead_high, check.trivial, strict=True)
        if not trivial and high < 0
    ]
    numbers = {
        "findings": findings,
        "answers": {NAMES[q]: answer(check, q) for q in ASKED if q in check.question},
        "questions": {NAMES[q]: title for q, title in ASKED.items()},
        "refused": _listed(refused),
        "beaten": _listed(beaten),
        "enough": ENOUGH,
        "little": LITTLE,
        "lowest_ceiling": LOWEST_CEILING,
    }
    blocks: dict[str, object] = {NAMES[q]: correlation_figure(check, q) for q in ASKED}
    blocks |= {f"table_{NAMES[q]}": _table(check, q) for q in ASKED}
    return compose(
        "trust",
        blocks,
        numbers,
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        files=FILES,
        columns=findings.samples.columns,
    )


def files(findings: TrustFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    check, table = findings.check, findings.check.to_table()
    smooth = check.smoothness
    return {
        "bench.parquet": table,
        "summary.json": standard_json({
            **page.head,
            "scores": table.to_pylist(),
            "ceiling": asdict(check.ceiling),
            "reliability": asdict(check.reliability),
            "halves": check.n_halves,
            "queries": check.n_queries,
            "smoothness": smooth and {**smooth.means, "agreement": smooth.agreement},
        }),
    }


def answer(check: TrustCheck, question: str) -> str:
    """The best score of a question, beside what costs nothing and the ceiling, in a sentence."""
    rows = [i for i, asked in enumerate(check.question) if asked == question]
    ours = [i for i in rows if not check.trivial[i]]
    best = max(ours, key=lambda i: check.correlation[i])
    free = sorted((i for i in rows if check.trivial[i]), key=lambda i: -check.correlation[i])
    beside = ", ".join(f"{check.score[i]} {_interval(check, i)}" for i in free)
    text = (
        f"{ASKED[question]}: {check.verdict[best]}. {check.score[best].capitalize()} predicts "
        f"retraining with correlation {_interval(check, best)}; free scores: {beside}"
    )
    if question == PREDICTIONS:
        text += f"; the ceiling is {_estimate(check.ceiling)}"
    if free and not check.ahead_low[best] > 0:
        better = "better" if check.ahead_high[best] < 0 else "as well"
        text += f". {check.score[free[0]].capitalize()} does {better}"
    return f"{text}."


def _table(check: TrustCheck, question: str) -> Table:
    rows = tuple(_row(check, i) for i, asked in enumerate(check.question) if asked == question)
    return Table(ASKED[question], COLUMNS, rows, in_terminal=True)


def _row(check: TrustCheck, i: int) -> Row:
    ceiling = check.ceiling.value if check.question[i] == PREDICTIONS else 1.0
    share = check.correlation[i] / ceiling if ceiling else np.nan
    ahead = "free itself" if check.trivial[i] else _difference(check, i)
    cells = (_interval(check, i), number(float(share)), ahead, check.verdict[i])
    return Row(check.score[i], cells)


def _difference(check: TrustCheck, i: int) -> str:
    low, high = float(check.ahead_low[i]), float(check.ahead_high[i])
    return f"{check.ahead[i]:+.2f} ({low:+.2f} to {high:+.2f})".replace("-", "−")


def _interval(check: TrustCheck, i: int) -> str:
    value = check.correlation[i]
    half = max(check.high[i] - value, value - check.low[i])  # one end may be cut at 1
    return f"{value:.2f} ± {half:.2f}".replace("-", "−")


def _estimate(one: Estimate) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def _listed(names: list[str]) -> str:
    """Names that may hold commas, in quotes where there are several."""
    return ", ".join(f"“{name}”" for name in names) if len(names) > 1 else "".join(names)


def correlation_figure(check: TrustCheck, question: str) -> Figure:
    """One mark a score of a question; the ceiling as a line."""
    rows = [i for i, asked in enumerate(check.question) if asked == question][::-1]
    names = [check.score[i] for i in rows]
    kind = [FREE if check.trivial[i] else check.verdict[i] for i in rows]
    height = 130 + 34 * len(rows)
    figure = chart("correlation with retraining", height=height, showlegend=True)
    for group, colour in (*COLOURS.items(), (FREE, GREY)):
        here = [j for j, one in enumerate(kind) if one == group]
        if not here:
            continue
        places = np.array([rows[j] for j in here])
        value = check.correlation[places]
        bar = {"type": "data", "symmetric": False, "color": colour, "thickness": 2}
        bar |= {"array": check.high[places] - value, "arrayminus": value - check.low[places]}
        hover, which = "%{y}: %{x:.3f}<extra></extra>", [names[j] for j in here]
        marks(figure, value, which, group, colour, hover, size=11, error_x=bar)
    if question == PREDICTIONS:
        level(figure, x=check.ceiling.value, text="ceiling", position="top")
    figure.update_yaxes(categoryorder="array", categoryarray=names)
    least = min(0.0, float(np.nanmin(check.low[rows])))
    figure.update_xaxes(range=[least - 0.03, 1.03], showgrid=True)
    return figure
