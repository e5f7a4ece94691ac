"""What the command line shows: progress while it works, a short table when it is done."""

from __future__ import annotations

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from datassay.plan import Plan
from datassay.report.findings import Findings
from datassay.report.wording import number

N_SHOWN = 5
N_ISSUES_SHOWN = 10


class _RateColumn(ProgressColumn):
    """Units a second."""

    def render(self, task: Task) -> Text:
        return Text("" if not task.speed else f"{task.speed:,.0f}/s", style="cyan")


class ProgressDisplay:
    """A rich progress display as a progress callback: one line a step, with rate and time left."""

    def __init__(self, console: Console):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeRemainingColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of `total` units of a step are done."""
        if step not in self._tasks:
            self._tasks[step] = self._progress.add_task(step, total=total)
        self._progress.update(self._tasks[step], completed=done, total=total)  # pyright: ignore[reportArgumentType]


def results_table(findings: Findings) -> list[RenderableType]:
    """The most and least informative samples, the likely label errors, and who won.

    Args:
        findings: one run's results.

    Returns:
        What to print, in order.
    """
    order = np.argsort(-findings.information.information, kind="stable")
    issues = findings.issues
    suspects = np.flatnonzero(issues.is_issue)
    suspects = suspects[np.argsort(-issues.score[suspects], kind="stable")]
    shown = [
        _samples("Most informative", findings, order[:N_SHOWN]),
        _samples("Least informative", findings, order[::-1][:N_SHOWN]),
        _samples(
            f"Likely label errors ({len(suspects)} in all)", findings, suspects[:N_ISSUES_SHOWN]
        ),
    ]
    lines = [Text(f"{c.measure}: {c.verdict}") for c in findings.contests]
    lines += [Text(f"Warning: {w}", style="yellow") for w in findings.warnings]
    return [*shown, *lines]


def _samples(title: str, findings: Findings, positions: np.ndarray) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("id", "label", "suggested"):
        table.add_column(name)
    for name in ("information, nats", "label issue score"):
        table.add_column(name, justify="right")
    for i in positions:
        table.add_row(
            Text(str(findings.samples.ids[i])),
            _label(findings, findings.samples.y[i]),
            _label(findings, findings.issues.suggested_label[i]),
            number(float(findings.information.information[i])),
            f"{findings.issues.score[i]:+.2f}",
        )
    return table


def _label(findings: Findings, value) -> Text:
    names = findings.samples.class_names
    if names:
        return Text(names[int(value)])
    return Text(", ".join(number(float(v)) for v in np.atleast_1d(value)))


def plan_table(plan: Plan) -> list[RenderableType]:
    """The plan as a table and a sentence.

    Args:
        plan: of a run.

    Returns:
        What to print, in order.
    """
    table = Table(title="Plan", title_justify="left")
    for name in ("step", "what"):
        table.add_column(name)
    for name in ("memory", "operations", "seconds"):
        table.add_column(name, justify="right")
    for step in plan.steps:
        table.add_row(
            step.name,
            step.detail,
            f"{step.bytes / 1e9:.2f} GB",
            f"{step.flops:.1e}" if step.flops else "",
            f"{step.seconds:.1f}",
        )
    total = sum(step.seconds for step in plan.steps)
    fits = "fits" if plan.peak_bytes <= plan.available_bytes else "does NOT fit"
    sentence = (
        f"About {total:.0f} s; peak {plan.peak_bytes / 1e9:.2f} GB beyond the program itself, "
        f"which {fits} in the {plan.available_bytes / 1e9:.1f} GB free. Nothing was run."
    )
    return [table, Text(sentence)]
