"""The tables of measured results in the README and in docs/measured.md, from what tasks declare.

`python -m bench table` writes them into both files; a test compares them with the recorded lines.
"""

from pathlib import Path

from bench import extrapolate, verdicts
from bench.frame import Row, file_of, task_named
from bench.record import kept, latest

ROOT = Path(__file__).parent.parent
START, END = "<!-- results -->\n\n", "\n\n<!-- /results -->"
# Heading → the tasks whose rows stand below it.
SECTIONS = {
    "Leave-one-out": (
        "speed/exactness", "speed/leave_one_out", "papers/s1_speed_lissa", "speed/throughput",
        "speed/memory", "speed/footprint",
    ),
    "Against networks that were really retrained": (
        "leave_one_out", "papers/s1_table1", "attribution/halves", "attribution/inserted_texts",
        "attribution/wrong_labels", "attribution/speed", "attribution/trust", "speed/retraining",
    ),
    "Label errors": ("actions", "labels", "review", "uses/review_page"),
    "Tables as they come": ("uses/tables",),
    "A smaller training set": ("selection",),
    "Mixed data": ("uses/divide", "papers/s4_purify", "papers/s4_deep", "papers/s4_partition"),
    "Weights and new points": (
        "speed/neighbors", "papers/s0_images", "papers/s0_table1", "papers/s0_bateman",
    ),
    "Large data and long runs": (
        "attribution/index", "speed/scale", "uses/attack", "speed/cluster", "speed/plan",
    ),
    "Readable polynomials and sample complexity": (
        "speed/polynomial", "papers/s3_grid", "uses/learning_curves",
    ),
    "The course": ("uses/lab",),
}  # fmt: skip


def sections() -> dict[str, list[Row]]:
    lines = latest()
    found = {"The suite": [r for s in ("quick", "full") for r in verdicts.rows(kept(s), s)]}
    for heading, names in SECTIONS.items():
        rows = [
            row._replace(bench=row.bench or file_of(name))
            for name in names
            for told in [task_named(name).rows(lines)]
            for row in ([told] if isinstance(told, Row) else told)
        ]
        found[heading] = sorted(rows, key=lambda row: row.order)
    return found


def short_table() -> str:
    return _markdown([row for rows in sections().values() for row in rows if row.headline])


def full_tables() -> str:
    """All tables, each below its heading, for docs/measured.md."""
    parts = [f"## {title}\n\n{_markdown(rows)}" for title, rows in sections().items()]
    cases = [
        f"### `python -m bench{' full' * (size == 'full')}`, case by case\n\n"
        + "\n".join(verdicts.details(found))
        for size in ("quick", "full")
        if (found := kept(size))
    ]
    return "\n\n".join([parts[0], *cases, *parts[1:]])


def _markdown(rows: list[Row]) -> str:
    lines = ["| what | measured | bench |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {x.what} | {x.measured} | `{x.bench}` |" for x in rows)])


def shown(page: str) -> str:
    """The part of a page that this module writes."""
    return page.partition(START)[2].partition(END)[0]


def write() -> None:
    for name, tables in (("README.md", short_table()), ("docs/measured.md", full_tables())):
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        path.write_text(page.replace(shown(page), tables), encoding="utf-8")
    path = ROOT / "docs" / "billion-samples.md"
    path.write_text(extrapolate.put(path.read_text(encoding="utf-8")), encoding="utf-8")
