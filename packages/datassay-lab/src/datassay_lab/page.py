"""The page of the lab: every experiment that was asked for, chapter by chapter."""

import shlex
from collections.abc import Sequence

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
    records, is_single = findings.records, len(findings.records) == 1
    n_ok, n_run = sum(r.holds for r in records), sum(r.agreement is not None for r in records)
    overview = Partial("overview.html", {"columns": COLUMNS, "rows": _rows(records)})
    measures = (f"Measured: {r.agreement.what}." for r in records if r.agreement)
    return Page(
        brand="datassay lab · why networks learn what they learn",
        title=records[0].name if is_single else "The lab",
        verdict=f"One statement of the course {_verdict(records[0])} in this run."
        if is_single
        else f"{n_ok} of {n_run} statements of the course hold in this run.",
        lead=f"{count(len(records), 'experiment')}.",
        facts=findings.facts,
        warnings=tuple(f"{r.name}: {r.problem}" for r in records if r.problem),
        sections=(
            Section("overview", "Overview", "Do the statements hold?", (overview,)),
            *_chapters(records),
        ),
        method=METHOD,
        files=FILES | KEPT,
        answer=tuple(measures) if is_single else (),
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
    for chapter, experiment in experiments():
        if experiment.name in by_name:
            article = _article(experiment, by_name[experiment.name])
            chapters.setdefault(chapter, []).append(article)
    return [
        Section(f"chapter-{index}", chapter, chapter, tuple(articles))
        for index, (chapter, articles) in enumerate(chapters.items())
    ]


def _article(experiment: Experiment, record: Record) -> Partial:
    a, agreement = record.agreement, ""
    if a is not None:
        measure = f"{a.what[:1].upper()}{a.what[1:]}"
        agreement = f"{measure}: {number(a.value)}, {a.kind} {number(a.limit)}"
    context = {
        "experiment": experiment,
        "record": record,
        "verdict": _verdict(record),
        "agreement": agreement,
        "change": " ".join(f"--set {shlex.quote(text)}" for text in experiment.what_if),
        "parameters": ", ".join(f"{n} {_value(v)}" for n, v in record.parameters.items()),
        "texts": {n: v for n, v in record.values.items() if isinstance(v, str) and "\n" in v},
    }
    figures = tuple(
        Figure(f"{record.name}-{index}", plot.figure, plot.text)
        for index, plot in enumerate(record.plots)
    )
    return Partial("experiment.html", context, figures=figures)


def _verdict(record: Record) -> str:
    if record.agreement is None:
        return "not run"
    return "holds" if record.holds else "does not hold"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value) if value != "" else "–"
