"""The page of the lab: every experiment that was asked for, chapter by chapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from datassay.lab.catalog import experiments
from datassay.lab.experiment import Experiment
from datassay.lab.record import Record, summary
from datassay.report.old_html import render
from datassay.report.page import Row
from datassay.report.tables import standard_json
from datassay.report.wording import count, number
from datassay.report.write import write_pages

COLUMNS = ["experiment", "measure of agreement", "measured", "must be", "statement", "seconds"]
GALLERY_FILES = ("summary.json", "index.html")


def write_gallery(records: Sequence[Record], facts: dict[str, str], out: Path) -> Path:
    """Write GALLERY_FILES into a folder, both or none.

    Args:
        records: of the experiments, in the order of the course.
        facts: name → value of what was run, command and version among them.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    page = render_gallery(records, facts)
    told = standard_json({"facts": facts, "experiments": [summary(r) for r in records]})
    return write_pages(dict(zip(GALLERY_FILES, (told, page), strict=True)), out)


def render_gallery(records: Sequence[Record], facts: dict[str, str]) -> str:
    """The experiments as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        records: of the experiments, in the order of the course.
        facts: name → value of what was run.

    Returns:
        HTML.
    """
    by_name = {r.name: r for r in records}
    chapters: dict[str, list[dict[str, object]]] = {}
    for chapter, experiment in experiments():
        if experiment.name in by_name:
            shown = _shown(experiment, by_name[experiment.name])
            chapters.setdefault(chapter, []).append(shown)
    figures = {
        f"{r.name}-{place}": (plot.figure, plot.text)
        for r in records
        for place, plot in enumerate(r.plots)
    }
    context = {
        "brand": "datassay lab · why networks learn what they learn",
        "title": "The lab" if len(records) > 1 else records[0].name,
        "lead": _lead(records),
        "facts": facts,
        "warnings": [f"{r.name}: {r.problem}" for r in records if r.problem],
        "sections": [("overview", "Overview")]
        + [(f"chapter-{i}", c) for i, c in enumerate(chapters)],
        "columns": COLUMNS,
        "rows": agreement_rows(records),
        "chapters": chapters,
        "method": _METHOD,
    }
    return render("lab.html", ("figures.js",), context, figures)


def agreement_rows(records: Sequence[Record]) -> list[Row]:
    """What the experiments found, one line each.

    Args:
        records: of the experiments.

    Returns:
        Rows for COLUMNS.
    """
    rows = []
    for r in records:
        if r.agreement is None:
            rows.append(Row(r.name, ("", "", "", "not run", "")))
            continue
        a = r.agreement
        cells = (a.what, number(a.value), f"{a.kind} {number(a.limit)}", _verdict(r))
        rows.append(Row(r.name, (*cells, f"{r.seconds:.1f}")))
    return rows


def _shown(experiment: Experiment, record: Record) -> dict[str, object]:
    a = record.agreement
    told = (
        ""
        if a is None
        else f"{a.what[:1].upper()}{a.what[1:]}: {number(a.value)}, {a.kind} {number(a.limit)}"
    )
    return {
        "name": experiment.name,
        "statement": experiment.statement,
        "formula": experiment.formula,
        "look_for": experiment.look_for,
        "source": experiment.source,
        "verdict": _verdict(record),
        "agreement": told,
        "problem": record.problem,
        "parameters": ", ".join(f"{n} {_value(v)}" for n, v in record.parameters.items()),
        "plots": [(f"{record.name}-{i}", p.title, p.wide) for i, p in enumerate(record.plots)],
        "texts": {n: v for n, v in record.values.items() if isinstance(v, str) and "\n" in v},
    }


def _verdict(record: Record) -> str:
    if record.agreement is None:
        return "not run"
    return "holds" if record.holds else "does not hold"


def _lead(records: Sequence[Record]) -> str:
    held = sum(r.holds for r in records)
    ran = sum(r.agreement is not None for r in records)
    if len(records) == 1:
        return f"One statement of the course: {_verdict(records[0])} in this run"
    return f"{count(len(records), 'experiment')}: {held} of {ran} statements hold in this run"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value) if value != "" else "–"


_METHOD = [
    ("Dashed lines", "What theory says. Marks and full lines are measured in this run."),
    (
        "Measure of agreement",
        "One number that says how far theory and measurement are apart, or how clearly an effect "
        "shows, and the limit that it must keep. The limits hold for other seeds too; the tests of "
        "the project also break each statement on purpose and see the number fail.",
    ),
    (
        "To try",
        "datassay lab NAME --set parameter=value runs one experiment with other parameters; the "
        "arrays behind every figure are in NAME/result.npz.",
    ),
]
