"""What the command line shows: progress while it works, a short table when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from datassay.act.remove.summarize import KeepSet
from datassay.commands.run.findings import Findings
from datassay.commands.run.steps.plan import Plan
from datassay.commands.run.steps.projection import PROJECTION_FACTS
from datassay.data.samples import SampleSet
from datassay.report import page as page_parts
from datassay.report.page import Page, Row
from datassay.report.wording import number

N_SHOWN = 5
N_ISSUES_SHOWN = 10
SECONDS_BETWEEN_LINES = 30.0


class _RateColumn(ProgressColumn):
    """Units a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.{0 if speed >= 10 else 1}f}/s" if speed else "", style="cyan")


class ProgressDisplay:
    """A progress callback: a live line a step in a terminal, a plain line now and then in a log."""

    def __init__(self, console: Console):
        self._log = None if console.is_interactive else console
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeRemainingColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._step_started = self._last_line = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._tasks:
            self._bars.stop()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of `total` units of a step are done."""
        if self._log is not None:
            self._write_line(self._log, step, done, total)
            return
        if step not in self._tasks:
            self._tasks[step] = self._bars.add_task(step, total=total)
            self._bars.start()
        self._bars.update(self._tasks[step], completed=done, total=total)

    def _write_line(self, log: Console, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        seconds = now - self._step_started
        left = f", about {seconds * (total / done - 1):.0f} s left" if 0 < done < total else ""
        log.print(f"{step}: {done:,} of {total:,}, {seconds:.1f} s{left}", soft_wrap=True)
        self._last_line = now
        if done == total:
            self._step_started = now


def results_table(findings: Findings) -> list[RenderableType]:
    """The most and least informative samples, the likely label errors, and who won.

    Args:
        findings: one run's results.

    Returns:
        What to print, in order.
    """
    order = np.argsort(-findings.information.information, kind="stable")
    suspects = findings.issues.suspects
    shown: list[RenderableType] = [
        _samples("Most informative", findings, order[:N_SHOWN]),
        _samples("Least informative", findings, order[::-1][:N_SHOWN]),
        Text("No likely label errors."),
    ]
    if len(suspects):
        title = f"Likely label errors ({len(suspects):,} in all)"
        shown[-1] = _samples(title, findings, suspects[:N_ISSUES_SHOWN])
    lines = [Text(f"{c.measure}: {c.verdict}") for c in findings.contests]
    lines += [Text(f"{n}: {findings.facts[n]}") for n in PROJECTION_FACTS if n in findings.facts]
    return [*shown, *lines, *warned(findings.warnings)]


def _samples(title: str, findings: Findings, positions: np.ndarray) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("id", "label", "suggested"):
        table.add_column(name)
    for name in ("information, nats", "label issue score"):
        table.add_column(name, justify="right")
    for i in positions:
        table.add_row(
            plain_text(str(findings.samples.ids[i])),
            _label(findings.samples, findings.samples.y[i]),
            _label(findings.samples, findings.issues.suggested_label[i]),
            number(float(findings.information.information[i])),
            f"{findings.issues.score[i]:+.2f}",
        )
    return table


def _label(samples: SampleSet, value) -> Text:
    if samples.class_names:
        return plain_text(samples.class_names[int(value)])
    return Text(", ".join(number(float(v)) for v in np.atleast_1d(value)))


def plain_text(text: str) -> Text:
    """The user's own text without what a terminal would take as a command.

    Args:
        text: any text.

    Returns:
        The same, unprintable characters replaced.
    """
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def kept_table(
    train: SampleSet, kept: KeepSet, warnings: Iterable[str] = ()
) -> list[RenderableType]:
    """How many samples to keep, in all and of each class.

    Args:
        train: the samples.
        kept: which to keep.
        warnings: what the reader must know.

    Returns:
        What to print, in order.
    """
    lines = [Text(f"Keep {len(kept.keep):,} of {len(train):,} samples."), *warned(warnings)]
    if not train.is_classification:
        return [*lines]
    table = Table()
    table.add_column("class")
    for name in ("samples", "to keep"):
        table.add_column(name, justify="right")
    for c in np.unique(train.y):
        counts = (int((y == c).sum()) for y in (train.y, train.y[kept.keep]))
        table.add_row(_label(train, c), *(f"{n:,}" for n in counts))
    return [table, *lines]


def page_lines(page: Page) -> list[RenderableType]:
    """A page in short: the tables and views that it marks, its answer, and the warnings.

    Args:
        page: of a command.

    Returns:
        What to print, in order.
    """
    shown: list[RenderableType] = []
    for block in page.blocks:
        if isinstance(block, page_parts.Table) and block.in_terminal:
            shown.append(rows_table(block.columns, block.rows))
        elif isinstance(block, page_parts.Gallery):
            shown += [_cards(block, view) for view in block.views if view.in_terminal]
    return [*shown, *(plain_text(line) for line in page.answer), *warned(page.warnings)]


def _cards(gallery: page_parts.Gallery, view: page_parts.View) -> Table:
    """The first cards of a view, a line each."""
    cards = [c for c in gallery.cards if isinstance(c, page_parts.Card) and view.value in c.views]
    if view.sort:
        sign = -1 if view.descending else 1
        cards.sort(key=lambda card: sign * card.keys[view.sort])
    title = f"{view.label[:1].upper()}{view.label[1:]}"
    table = Table(title=title, title_justify="left")
    for name in ("id", "label", "suggested"):
        table.add_column(name)
    for _, name in cards[0].figures if cards else ():
        table.add_column(name, justify="right")
    for card in cards[: view.in_terminal]:
        texts = (plain_text(t) for t in (card.id, card.label, card.suggested or card.label))
        table.add_row(*texts, *(text for text, _ in card.figures))
    return table


def rows_table(columns: Sequence[str], rows: Iterable[Row]) -> Table:
    """A table of the page as the terminal shows it.

    Args:
        columns: its headings; the first is of the rows' names.
        rows: its lines.

    Returns:
        Names to the left, figures to the right.
    """
    table = Table()
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(plain_text(row.name), *row.cells)
    return table


def warned(warnings: Iterable[str]) -> list[Text]:
    """Warnings as lines.

    Args:
        warnings: what the reader must know.

    Returns:
        One line each.
    """
    return [Text(f"Warning: {w}", style="yellow") for w in warnings]


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
    fits = "fits" if plan.fits else "does NOT fit"
    sentence = (
        f"About {total:.0f} s; peak {plan.peak_bytes / 1e9:.2f} GB, of which the program and its "
        f"samples take {plan.program_bytes / 1e9:.2f} GB. The rest {fits} in the "
        f"{plan.available_bytes / 1e9:.1f} GB free. Nothing was run."
    )
    return [table, Text(sentence)]
