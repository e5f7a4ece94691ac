"""The tables of measured results in the README and in docs/measured.md, from results.jsonl.

`python -m bench table` writes them into both files; a test compares them with the recorded lines.
"""

from __future__ import annotations

import json
from pathlib import Path

import suite
import table_rows as rows_of
from table_rows import Row

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results.jsonl"
START, END = "<!-- results -->\n\n", "\n\n<!-- /results -->"


def latest() -> dict[str, dict]:
    """The newest line of every benchmark; sizes of one benchmark are kept apart."""
    newest = {}
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        sized = line["bench"].startswith(("speed/l", "retraining/", "scale/fashion"))
        newest[line["bench"] + (f" n={line['n']}" if sized else "")] = line
    return newest


def sections() -> dict[str, list[Row]]:
    """Every measured line, by heading."""
    r = latest()
    return {
        "The suite": [
            row for size in ("quick", "full") for row in suite.rows(suite.kept(size), size)
        ],
        "Leave-one-out": rows_of.leave_one_out(r),
        "Against networks that were really retrained": rows_of.retrained(r),
        "Label errors": rows_of.labels(r),
        "Tables as they come": rows_of.tables(r),
        "A smaller training set": rows_of.removal(r),
        "Mixed data": rows_of.mixed(r),
        "Weights and new points": rows_of.weighted(r),
        "Large data and long runs": [*rows_of.indexed(r), *rows_of.scale(r)],
        "Readable polynomials and sample complexity": rows_of.polynomials(r),
        "The course": rows_of.lab(r),
    }


def short_table() -> str:
    """The README's table."""
    return _markdown([row for rows in sections().values() for row in rows if row.headline])


def full_tables() -> str:
    """All tables, each below its heading, for docs/measured.md."""
    found = sections()
    parts = [f"## {title}\n\n{_markdown(rows)}" for title, rows in found.items()]
    return "\n\n".join([parts[0], suite_tables(), *parts[1:]])


def suite_tables() -> str:
    """Every case of the suite, for docs/measured.md."""
    parts = []
    for size in ("quick", "full"):
        if found := suite.kept(size):
            parts += [f"### `python -m bench{' full' * (size == 'full')}`, case by case"]
            parts += ["\n".join(suite.details(found))]
    return "\n\n".join(parts)


def _markdown(rows: list[Row]) -> str:
    lines = ["| what | measured | bench |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {x.what} | {x.measured} | `{x.bench}` |" for x in rows)])


def shown(page: str) -> str:
    """The part of a page that this script writes."""
    return page.partition(START)[2].partition(END)[0]


def write() -> None:
    """Into README.md and docs/measured.md."""
    for name, tables in (("README.md", short_table()), ("docs/measured.md", full_tables())):
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        path.write_text(page.replace(shown(page), tables), encoding="utf-8")


if __name__ == "__main__":
    write()
