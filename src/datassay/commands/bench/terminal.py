"""What `bench` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from datassay.commands.bench.findings import BenchFindings, Measured
from datassay.report.wording import number


def bench_table(findings: BenchFindings) -> list[RenderableType]:
    """Seconds beside the rival's, and how the answers compare.

    Args:
        findings: what was measured.

    Returns:
        What to print, in order.
    """
    table = Table()
    table.add_column("case")
    for name in ("ours, s", "plain, s", "times as fast"):
        table.add_column(name, justify="right")
    table.add_column("answers")
    for name, found in findings.cases.items():
        seconds = (found.seconds, found.rival_seconds, found.ratio)
        table.add_row(name, *map(number, seconds), _answers(found))
    cases = (f"{name}: {f.what}, against {f.rival}" for name, f in findings.cases.items())
    facts = (f"{name}: {value}" for name, value in findings.facts.items() if name != "Command")
    return [table, *(Text(line) for line in (*cases, *facts))]


def _answers(found: Measured) -> str:
    if found.rival_value is None:
        return f"{found.figure} {number(found.value)}"
    return f"{found.figure} {number(found.value)} against {number(found.rival_value)}"
