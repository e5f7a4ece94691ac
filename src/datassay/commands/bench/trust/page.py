"""The page of a trust check."""

from __future__ import annotations

import numpy as np

from datassay.commands.bench.trust.figures import correlation_figure
from datassay.commands.bench.trust.files import FILES
from datassay.commands.bench.trust.findings import TrustFindings
from datassay.commands.bench.trust.method import notes
from datassay.report.page import Figure, Page, Row, Section, Table, Text
from datassay.report.wording import number
from datassay.score.compare.trust import PREDICTIONS, SAMPLES, Estimate, TrustCheck

COLUMNS = ("score", "correlation", "of the ceiling", "ahead of free scores", "verdict")
ASKED = {
    PREDICTIONS: "Which samples caused a prediction",
    SAMPLES: "Which samples matter by themselves",
}
FIGURES = {PREDICTIONS: "predictions", SAMPLES: "samples"}


def page(findings: TrustFindings) -> Page:
    """The answer, the scores of both questions, and how they were judged."""
    check = findings.check
    answers = tuple(answer(check, question) for question in ASKED if question in check.question)
    return Page(
        brand="datassay bench · do scores predict retraining here",
        title=findings.samples.name,
        lead=" ".join(answers),
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        sections=tuple(_section(check, question) for question in ASKED),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        answer=answers,
    )


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


def _section(check: TrustCheck, question: str) -> Section:
    rows = tuple(_row(check, i) for i, asked in enumerate(check.question) if asked == question)
    table = Table(ASKED[question], COLUMNS, rows, in_terminal=True)
    name = FIGURES[question]
    drawn = Figure(name, correlation_figure(check, question), "Correlation of each score")
    return Section(name, name.capitalize(), ASKED[question], (
        Text(answer(check, question)), drawn, table,
    ))  # fmt: skip


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
