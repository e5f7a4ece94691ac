"""The tables of measured results in docs/measured.md, from what tasks declare.

`python -m bench table` writes them; a test compares them with the recorded lines.
"""

import re
from pathlib import Path

from bench import extrapolate, verdicts
from bench.frame import Row, file_of, task_named
from bench.record import kept, latest

ROOT = Path(__file__).parent.parent
MARK = re.compile(r"<!-- table: (.+?) -->")
# Name of a table → the tasks whose rows stand below it.
SECTIONS = {
    "Leave-one-out": (
        "speed/exactness", "speed/leave_one_out", "papers/s1_speed_lissa", "speed/throughput",
        "speed/memory", "speed/footprint",
    ),
    "Against networks that were really retrained": (
        "leave_one_out", "papers/s1_table1", "attribution/halves", "attribution/inserted_texts",
        "attribution/wrong_labels", "attribution/speed", "speed/influence", "attribution/trust",
        "speed/retraining",
        "peers/dattri",
    ),
    "Label errors": ("uses/advice", "labels", "uses/flags", "review", "uses/review_page"),
    "Tables as they come": ("uses/tables",),
    "A smaller training set": ("selection",),
    "Mixed data": (
        "uses/divide", "papers/s4_purify", "papers/s4_deep", "papers/s4_partition",
        "papers/s4_networks",
    ),
    "Weights and new points": (
        "speed/neighbors", "papers/s0_images", "papers/s0_table1", "papers/s0_bateman",
    ),
    "Large data and long runs": (
        "attribution/index", "speed/scale", "uses/attack", "speed/cluster", "speed/plan",
        "speed/size",
    ),
    "Readable polynomials and sample complexity": (
        "speed/polynomial", "papers/s3_grid", "uses/learning_curves",
    ),
    "The course": ("uses/lab",),
}  # fmt: skip


def sections() -> dict[str, list[Row]]:
    lines = latest()
    results = {"The suite": [r for s in ("quick", "full") for r in verdicts.rows(kept(s), s)]}
    for heading, names in SECTIONS.items():
        rows = [
            row._replace(bench=row.bench or file_of(name))
            for name in names
            for told in [task_named(name).rows(lines)]
            for row in ([told] if isinstance(told, Row) else told)
        ]
        results[heading] = sorted(rows, key=lambda row: row.order)
    return results


def tables() -> dict[str, str]:
    """Name → table: of each section, and of the suite's cases by truth."""
    named = {title: _markdown(rows) for title, rows in sections().items()}
    for size, kind in (("quick", ""), ("full", ", full")):
        head, rule, *lines = verdicts.details(kept(size))
        for truth in dict.fromkeys(line.partition(":")[0] for line in lines):
            own = [line.replace(f"{truth}:", "|") for line in lines if line.startswith(f"{truth}:")]
            named[truth.removeprefix("| ") + kind] = "\n".join([head, rule, *own])
    return named


def _markdown(rows: list[Row]) -> str:
    lines = ["| what | measured | bench |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {x.what} | {x.measured} | `{x.bench}` |" for x in rows)])


def put(page: str) -> str:
    """The page of measured results with its tables, each between marks that name it."""
    named = tables()
    assert sorted(named) == sorted(MARK.findall(page)), "each table has its place on the page"
    mark = re.compile(rf"({MARK.pattern}\n\n).*?(\n\n<!-- end -->)", re.S)
    return mark.sub(lambda match: f"{match[1]}{named[match[2]]}{match[3]}", page)


def write() -> None:
    for name, made in (("measured.md", put), ("billion-samples.md", extrapolate.put)):
        path = ROOT / "docs" / name
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")
