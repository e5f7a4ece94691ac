"""The page of the lab: every experiment that was asked for, chapter by chapter."""

import shlex
from collections.abc import Sequence
from typing import Any

from datassay.report import Figure, Page, Partial, Row, Section, count, number, standard_json
from datassay_lab.catalog import experiments
from datassay_lab.experiment import Experiment
from datassay_lab.job import LabFindings
from datassay_lab.record import Record, summary

FILES = {"summary.json": "these figures for programs"}
COLUMNS = ("experiment", "measure of agreement", "measured", "must be", "statement", "seconds")
KEPT = {"NAME/result.npz": "an experiment's arrays", "NAME/figures.json": "its figures"}
METHOD = (
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
)


def page(findings: LabFindings) -> Page:
    """Build the page of everything that the experiments show."""
    records = findings.records
    opening = _chapters(records)
    further: dict[str, Any] = {}
    if len(records) == 1:
        (record,) = records
        e = next(e for _, e in experiments() if e.name == record.name)
        title = record.name
        what, value, limit, holds, _ = _rows(records)[0].cells
        verdict = f"{e.statement} This {holds} here."
        lead = f"Checked by one number, {what}: {value}, required: {limit}. The plots show the "
        lead += f"rest. With {', '.join(e.what_if)} {e.expected[0].lower()}{e.expected[1:]}"
        command = ("datassay", "lab", e.name, *(w for text in e.what_if for w in ("--set", text)))
        further = {"commands": (shlex.join(command),), "sections": (_exercise(e, record),)}
    else:
        n_ok = sum(r.holds for r in records)
        n_run = sum(r.agreement is not None for r in records)
        overview = Partial("overview.html", {"columns": COLUMNS, "rows": _rows(records)})
        opening.insert(0, Section("overview", "Overview", "Do the statements hold?", (overview,)))
        title = "The lab"
        verdict = f"{n_ok} of {n_run} statements hold in this run."
        lead = f"{count(len(records), 'experiment')}."
    return Page(
        brand="datassay lab · why networks learn what they learn",
        title=title,
        verdict=verdict,
        lead=lead,
        facts=findings.facts,
        warnings=tuple(f"{r.name}: {r.problem}" for r in records if r.problem),
        opening=tuple(opening),
        method=METHOD,
        files=FILES | KEPT,
        answer=(lead,),
        **further,
    )


def files(findings: LabFindings, page: Page) -> dict[str, str]:
    """Return the files written with the page; each experiment's own are in a folder of its name."""
    experiments = [summary(record) for record in findings.records]
    return {"summary.json": standard_json({**page.head, "experiments": experiments})}


def terminal_rows(records: Sequence[Record]) -> tuple[tuple[str, ...], list[Row]]:
    """Return the overview without the measures, which are too long for a terminal."""
    rows = [Row(row.name, row.cells[1:]) for row in _rows(records)]
    return (COLUMNS[0], *COLUMNS[2:]), rows


def _rows(records: Sequence[Record]) -> list[Row]:
    """Return what the experiments found, one line each, for COLUMNS."""
    rows = []
    for r in records:
        cells = ("", "", "", "not run", "")
        if (a := r.agreement) is not None:
            limit = f"{a.kind} {number(a.limit)}"
            cells = (a.what, number(a.value), limit, _verdict(r), f"{r.seconds:.1f}")
        rows.append(Row(r.name, cells))
    return rows


def _chapters(records: Sequence[Record]) -> list[Section]:
    by_name = {r.name: r for r in records}
    chapters: dict[str, list[Partial]] = {}
    for chapter, e in experiments():
        if e.name in by_name:
            article = _article(e, by_name[e.name], is_single=len(records) == 1)
            chapters.setdefault(chapter, []).append(article)
    return [
        Section(f"chapter-{index}", chapter, chapter, tuple(articles))
        for index, (chapter, articles) in enumerate(chapters.items())
    ]


def _article(e: Experiment, record: Record, *, is_single: bool = False) -> Partial:
    figures = tuple(
        Figure(f"{record.name}-{index}", plot.figure, plot.text)
        for index, plot in enumerate(record.plots)
    )
    context = {
        "experiment": e,
        "record": record,
        "is_single": is_single,
        "verdict": _verdict(record),
        "agreement": _agreement(record),
        "texts": {n: v for n, v in record.values.items() if isinstance(v, str) and "\n" in v},
        **_task(e, record),
    }
    return Partial("experiment.html", context, figures=figures)


def _exercise(e: Experiment, record: Record) -> Section:
    """Return the folded section of a single experiment's question and exercise."""
    task = Partial("exercise.html", {"experiment": e, "is_single": True, **_task(e, record)})
    line = "To answer from the figures, to change, and to derive."
    return Section("exercise", "Question", "Formula, question, exercise", (task,), line)


def _task(e: Experiment, record: Record) -> dict[str, str]:
    return {
        "change": " ".join(f"--set {shlex.quote(text)}" for text in e.what_if),
        "parameters": ", ".join(f"{n} {_value(v)}" for n, v in record.parameters.items()),
        "source": e.source.replace("S2 class", "lecture"),
    }


def _agreement(record: Record) -> str:
    """Return what was measured, and the limit that it must keep; "" if it was not run."""
    if (a := record.agreement) is None:
        return ""
    return f"{a.what[:1].upper()}{a.what[1:]}: {number(a.value)}, needs {a.kind} {number(a.limit)}."


def _verdict(record: Record) -> str:
    if record.agreement is None:
        return "not run"
    return "holds" if record.holds else "does not hold"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value) if value != "" else "–"
