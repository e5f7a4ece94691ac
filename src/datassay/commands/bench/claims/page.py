"""The page and files of `datassay bench`."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.bench.claims.cases import Measured
from datassay.commands.bench.claims.job import BenchFindings
from datassay.report.page import Page, Row, Section, Table, Text
from datassay.report.tables import standard_json
from datassay.report.wording import count, number

FILES = {"bench.parquet": "every case", "summary.json": "the figures above"}
COLUMNS = ("case", "ours, s", "plain, s", "times as fast", "answers")


def page(findings: BenchFindings) -> Page:
    """Seconds beside the rival's, and how the answers compare."""
    rows = tuple(Row(name, _cells(measured)) for name, measured in findings.cases.items())
    cases = tuple(f"{name}: {m.what}, against {m.rival}" for name, m in findings.cases.items())
    facts = (f"{name}: {value}" for name, value in findings.facts.items() if name != "Command")
    table = Table("Cases", COLUMNS, rows, in_terminal=True)
    return Page(
        brand="datassay bench · what the library claims, measured here",
        title="The library against the plain way",
        lead=f"{count(len(rows), 'case')}, each done twice and the answers compared",
        facts=findings.facts,
        sections=(Section("cases", "Cases", "Cases", (table, *map(Text, cases))),),
        files=FILES,
        answer=(*cases, *facts),
    )


def files(findings: BenchFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    rows = [
        {"case": name, **asdict(measured), "ratio": measured.ratio}
        for name, measured in findings.cases.items()
    ]
    summary = standard_json({**page.head, "cases": rows})
    return {"bench.parquet": pa.Table.from_pylist(rows), "summary.json": summary}


def _cells(measured: Measured) -> tuple[str, ...]:
    seconds = (measured.seconds, measured.rival_seconds, measured.ratio)
    answers = f"{measured.figure} {number(measured.value)}"
    if measured.rival_value is not None:
        answers += f" against {number(measured.rival_value)}"
    return (*map(number, seconds), answers)
