"""What `datassay index` prints: a short table, where the index is, and how to ask it."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from datassay.commands.index.job import Built
from datassay.commands.terminal import plain_text, warned
from datassay.report.wording import count, percent
from datassay.score.index.opened import Index
from datassay.store.location import shown

# Rank correlation that an index should reach.
GOOD = 0.95


def lines(built: Built) -> list[RenderableType]:
    """The index as a table of two columns, and sentences, for the terminal."""
    found = built.index
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    for what, figure in figures(built):
        table.add_row(what, figure)
    said = []
    if built.left_out:
        said.append(
            f"Without {count(built.left_out, 'sample')} split off DATA, which datassay explain "
            "asks about; --val-fraction 0 keeps them in."
        )
    return [
        table,
        *map(plain_text, said),
        *warned(built.warnings + _warnings(found)),
        shown(found.location),
    ]


def _warnings(found: Index) -> tuple[str, ...]:
    """What to know before the index is asked."""
    told = found.rank_correlation
    if told is None or told["high"] >= GOOD:
        return found.warnings
    narrow = (
        f"its effects follow those of all coordinates at {told['mean']:.2f} only; a larger --width "
        "or --share holds more, in more bytes."
    )
    return (narrow, *found.warnings)


def figures(built: Built) -> list[tuple[str, str]]:
    """(what, how much) of an index."""
    found = built.index
    rows = [("samples", f"{len(found):,}")]
    if built.added:
        rows.append(("appended now", f"{built.added:,}"))
    if found.appended:
        share = percent(round(found.appended, 3))
        rows.append(("came after the curvature was fitted", share))
    return [
        *rows,
        ("numbers a sample", f"{found.width:,} in {found.kept['keep']}"),
        ("bytes a sample", f"{found.bytes_per_sample:,.0f}"),
        ("share of the effects", f"{found.share:.1%}"),
        ("rank correlation with all coordinates", correlation(found)),
        ("seconds", f"{built.seconds:.1f}"),
    ]


def correlation(found: Index) -> str:
    """How far its effects follow those of all coordinates, with the interval."""
    told = found.rank_correlation
    if told is None:
        return "too few samples to tell"
    return f"{told['mean']:.3f} ({told['low']:.3f} to {told['high']:.3f})"
