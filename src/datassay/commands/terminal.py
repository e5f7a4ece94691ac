"""Output of the command line: progress while it works, a short table when it is done."""

import io
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from datassay.commands.shell import log_line
from datassay.errors import printable
from datassay.progress import Progress, silent
from datassay.report import page as page_parts
from datassay.report.page import LOOK, Page, Row
from datassay.report.wording import count

FIRST_LINE = 30.0  # seconds in a log until a line says how far a stage is; twice as long each time
REDRAWS = 1  # a second
MOST_BLOCKS, MOST_WARNINGS = 30, 3
# What a user follows, in the order of a run, and the steps of the work that it is made of, with
# the part of the stage that each is expected to take. Other steps are stages of their own.
STAGES: dict[str, dict[str, int]] = {
    "Reading the data": {"embed": 1},
    "Learning from all samples what the network reacts to": {
        "fit the curvature: sums": 1, "fit the curvature: squares": 1,
    },
    "Storing what each sample did to the network": {"keep gradients": 1},
    "Scoring samples": {
        "collect Jacobians": 40, "multiply features": 10, "compare projections": 10,
        "eigendecomposition": 10,
        "leave each sample out": 10, "estimate label noise": 5, "fit another judge": 5,
        "estimate label noise again": 4, "influence on others": 4,
        "information in random subsets": 1, "leave each group out": 1,
    },
    "Training networks": {
        "retrain networks": 10, "retrain on what is kept": 90,
    },
    "Comparing actions": {"compare actions": 98, "retrain without each sample": 2},
}  # fmt: skip


class ProgressDisplay:
    """A progress callback: the present stage in a live line, or in a log a line per stage.

    How far a stage is never shrinks, though its steps are taken again for each fold or seed: a step
    of an earlier stage counts for the present one, and once that is whole begins the next.
    """

    def __init__(self, console: Console):
        self._console = console
        self._names = list(STAGES)
        self._stage = ""
        self._done = dict[str, float]()  # stage → share of it
        self._started = time.monotonic()
        self._next_line = FIRST_LINE  # seconds after the start
        self._pause = FIRST_LINE
        self._live = Live(
            console=console,
            refresh_per_second=REDRAWS,
            transient=True,
            get_renderable=self._compose_line,
        )

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of `total` units of a step are done."""
        is_new = self._update_stage(step, done, total)
        stage = self._stage
        if self._console.is_interactive:
            if is_new:  # at once: it may be over before the next drawing
                log_line(stage)
                self._live.start()
                self._live.refresh()
            return
        if is_new:
            self._console.print(stage, soft_wrap=True)
        seconds = time.monotonic() - self._started
        if seconds > self._next_line:
            self._console.print(self._compose_line(), soft_wrap=True)
            self._pause *= 2
            self._next_line = seconds + self._pause

    def _update_stage(self, step: str, done: int, total: int) -> bool:
        """Keep the stage of a step and the share of it done; return whether the stage is new."""
        stage, share = self._find_stage(step, done / total if total else 0.0)
        is_new = stage not in self._done
        self._stage = stage
        self._done[stage] = max(share, self._done.get(stage, 0.0))
        return is_new

    def _find_stage(self, step: str, step_share: float) -> tuple[str, float]:
        """Return the stage to show for a step, and the share of it that is done."""
        stage = next((name for name, steps in STAGES.items() if step in steps), "")
        if not stage:
            return f"{step[:1].upper()}{step[1:]}", step_share
        now = max((k for k, name in enumerate(self._names) if name in self._done), default=0)
        if self._names.index(stage) < now:
            is_last = now == len(self._names) - 1
            is_whole = self._done[self._names[now]] >= 1
            if is_whole and not is_last:
                now += 1
            return self._names[now], 0.0
        shares = STAGES[stage]
        before = sum(list(shares.values())[: list(shares).index(step)])
        return stage, (before + step_share * shares[step]) / sum(shares.values())

    def _compose_line(self) -> Text:
        """Return the progress line: stage, per cent of it done, time since the start."""
        seconds = time.monotonic() - self._started
        if seconds < 120:
            spent = f"{seconds:.0f} s"
        else:
            spent = f"{seconds / 60:.0f} min"
        done = self._done.get(self._stage, 0.0)
        line = f"{self._stage}  {100 * done:.0f} %  {spent}"
        return Text(line, no_wrap=True, overflow="ellipsis")


class NotebookProgress(ProgressDisplay):
    """The same in the cell of a notebook: one line, which goes when the work is done.

    Args:
        show: `IPython.display.display`.
    """

    def __init__(self, show: Callable[..., Any]):
        super().__init__(Console(file=io.StringIO()))
        self._show = show
        self._handle = None
        self._redraw = 0.0

    def __exit__(self, *exc: object) -> None:
        """Clear the line."""
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of `total` units of a step are done."""
        seconds = time.monotonic() - self._started
        if not self._update_stage(step, done, total) and seconds < self._redraw:
            return
        self._redraw = seconds + 1 / REDRAWS
        line = {"text/plain": self._compose_line().plain}
        if self._handle is None:
            self._handle = self._show(line, raw=True, display_id=True)
        else:
            self._handle.update(line, raw=True)


def notebook_progress() -> AbstractContextManager[Progress]:
    """Return a progress callback that a notebook shows; a silent one outside of a notebook."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    if not hasattr(get_ipython(), "kernel"):
        return nullcontext(silent)
    from IPython.display import display

    return NotebookProgress(display)


def plain_text(text: str) -> Text:
    """Return a text with characters replaced that a terminal would take as commands."""
    return Text(printable(text))


def page_lines(page: Page, *, verbose: bool = False) -> list[RenderableType]:
    """Return a page in short: the verdict and first warnings; verbose: tables and all warnings."""
    if page.verdict:
        answer = (page.verdict,)
    else:
        answer = page.answer or (page.lead,)
    if verbose:
        answer = tuple(dict.fromkeys((*page.answer, *answer)))
    lines: list[RenderableType] = []
    if verbose:
        tables = (b for b in page.blocks if isinstance(b, page_parts.Table) and b.in_terminal)
        lines += [rows_table(table.columns, table.rows) for table in tables]
    lines += map(plain_text, answer)
    lines += warning_lines(page.warnings if verbose else page.warnings[:MOST_WARNINGS])
    n_hidden = 0 if verbose else len(page.warnings) - MOST_WARNINGS
    if n_hidden > 0:
        lines.append(Text(f"{count(n_hidden, 'more warning')}: --verbose shows all."))
    return lines


def next_lines(page: Page, path: Path) -> list[str]:
    """Return lines that say where the page is, and what to type next."""
    if path.suffix == ".html":
        page_line = f"Page: {path}"
    else:
        page_line = str(path)
    lines = [page_line]
    for k, command in enumerate(page.commands):
        start = page.purposes[k] or "      "
        if not k and start != LOOK:
            start = "Next: "
        lines.append(f"{start}{command}")
    return lines


class _Table(Table):
    """A table; where its words do not fit side by side, a paragraph for each row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = self.__rich_measure__(console, options.update(max_width=10_000)).minimum
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        names = [str(column.header) for column in self.columns]
        for row in zip(*(column.cells for column in self.columns), strict=True):
            heading, *cells = (str(cell) for cell in row)
            pairs = zip(names[1:], cells, strict=True)
            yield Text(f"{heading}: " + "; ".join(f"{name} {cell}" for name, cell in pairs if cell))


def rows_table(columns: Sequence[str], rows: Iterable[Row]) -> Table:
    """Return a table for the terminal: names to the left, figures to the right."""
    table = _Table()
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left")
    for row in rows:
        table.add_row(plain_text(row.name), *row.cells)
    return table


def warning_lines(warnings: Iterable[str]) -> list[Text]:
    """Return warnings as yellow lines."""
    return [Text(f"Warning: {w}", style="yellow") for w in warnings]


def block_table(
    names: np.ndarray, sizes: np.ndarray, columns: Mapping[str, Sequence[str]]
) -> list[RenderableType]:
    """Return a table of a network's largest blocks of weights, and how many are left out."""
    table = _Table("block", title="Blocks of weights", title_justify="left")
    for name in ("weights", *columns):
        table.add_column(name, justify="right")
    largest = np.argsort(-sizes, kind="stable")[:MOST_BLOCKS]
    for i in np.sort(largest).tolist():
        cells = [column[int(i)] for column in columns.values()]
        table.add_row(plain_text(str(names[i])), f"{sizes[i]:,}", *cells)
    n_hidden = len(names) - len(largest)
    if not n_hidden:
        return [table]
    return [table, f"{count(n_hidden, 'smaller block')} beside these."]
