"""What the command line shows: progress while it works, a short table when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

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

from datassay.errors import printable
from datassay.report import page as page_parts
from datassay.report.columns import columns_line
from datassay.report.page import Page, Row
from datassay.report.wording import count

SECONDS_BETWEEN_LINES = 30.0
MOST_BLOCKS = 30


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


def plain_text(text: str) -> Text:
    """The user's own text; characters that a terminal would take as commands are replaced."""
    return Text(printable(text))


def page_lines(page: Page) -> list[RenderableType]:
    """A page in short: tables and views marked for the terminal, its answer, and the warnings."""
    shown: list[RenderableType] = []
    for block in page.blocks:
        if isinstance(block, page_parts.Table) and block.in_terminal:
            shown.append(rows_table(block.columns, block.rows))
        elif isinstance(block, page_parts.Gallery):
            shown += _views(block)
    columns = [f"Data: {line}." for line in (columns_line(page.columns),) if line]
    lines = (plain_text(line) for line in (*columns, *page.answer))
    return [*shown, *lines, *warned(page.warnings)]


def _views(gallery: page_parts.Gallery) -> Iterator[Table]:
    """The first cards of each view that is to be printed, a line each; none of an empty view."""
    for view in gallery.views:
        cards = [c for c in gallery.cards if isinstance(c, page_parts.Card)]
        cards = [card for card in cards if view.value in card.views]
        if view.sort:
            sign = -1 if view.descending else 1
            cards.sort(key=lambda card, s=sign, key=view.sort: s * card.keys[key])
        some = cards[: view.in_terminal]
        if not some:
            continue
        title = f"{view.label[:1].upper()}{view.label[1:]}"
        table = Table("id", "label", "suggested", title=title, title_justify="left")
        for _, name in some[0].figures:
            table.add_column(name, justify="right")
        for card in some:
            texts = (plain_text(text) for text in (card.id, card.label, card.suggested))
            table.add_row(*texts, *(text for text, _ in card.figures))
        yield table


def rows_table(columns: Sequence[str], rows: Iterable[Row]) -> Table:
    """A table as the terminal shows it: names to the left, figures to the right."""
    table = Table()
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(plain_text(row.name), *row.cells)
    return table


def warned(warnings: Iterable[str]) -> list[Text]:
    """Warnings as lines."""
    return [Text(f"Warning: {w}", style="yellow") for w in warnings]


def block_table(
    names: np.ndarray, sizes: np.ndarray, columns: Mapping[str, Sequence[str]]
) -> list[RenderableType]:
    """A network's blocks of weights, the largest of many, and how many are left out."""
    table = Table("block", title="Blocks of weights", title_justify="left")
    for name in ("weights", *columns):
        table.add_column(name, justify="right")
    largest = np.argsort(-sizes, kind="stable")[:MOST_BLOCKS]
    for i in np.sort(largest).tolist():
        cells = [column[int(i)] for column in columns.values()]
        table.add_row(plain_text(str(names[i])), f"{sizes[i]:,}", *cells)
    more = len(names) - len(largest)
    return [table, *[f"{count(more, 'smaller block')} beside these."] * (more > 0)]
