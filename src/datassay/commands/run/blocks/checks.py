"""What is wrong with the data beside its labels: a table of issues, near duplicates by name."""

from __future__ import annotations

from datassay.commands.run.findings import Findings
from datassay.report.page import Row, Section, Table
from datassay.report.wording import count, shortened
from datassay.score.checks.data_issues import DataIssue, NearPair

MOST_PAIRS, MOST_COLUMNS = 50, 3


def section(findings: Findings) -> tuple[Section, ...]:
    """Issues, worst first, and near duplicates with the columns that differ.

    Args:
        findings: of the run.

    Returns:
        One section; none where nothing was looked for or found.
    """
    found = findings.data_issues
    if found is None or not found.issues:
        return ()
    rows = tuple(Row(one.kind, (_amount(one), one.sentence)) for one in found.issues)
    blocks = [
        Table("Issues of the data", ("issue", "count", "what"), rows, prose=True, in_terminal=True)
    ]
    if found.pairs:
        shown = found.pairs[:MOST_PAIRS]
        note = f"The first {len(shown)} of {count(len(found.pairs), 'pair')}."
        blocks.append(
            Table(
                "Near duplicates",
                ("near duplicates", "columns that differ"),
                tuple(Row(_names(pair), (_columns(pair),)) for pair in shown),
                caption="Near duplicates",
                prose=True,
                note=note if len(shown) < len(found.pairs) else "",
            )
        )
    return (Section("data", "Data", "What else is in the data", tuple(blocks)),)


def _amount(one: DataIssue) -> str:
    single = {"classes": "class"}.get(one.unit, one.unit.removesuffix("s"))
    return count(one.count, single, one.unit)


def _names(pair: NearPair) -> str:
    each = zip(pair.ids, pair.in_validation, strict=True)
    return " and ".join(name + " (validation)" * held_out for name, held_out in each)


def _columns(pair: NearPair) -> str:
    told = [
        f"{name}: {shortened(a)} / {shortened(b)}" for name, a, b in pair.columns[:MOST_COLUMNS]
    ]
    more = len(pair.columns) - len(told)
    return ", ".join([*told, *([f"{more} more"] if more > 0 else [])])
