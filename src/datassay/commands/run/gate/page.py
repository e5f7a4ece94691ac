"""Page and files of `datassay check`: those of `score`, with the conditions before all."""

from dataclasses import replace

from datassay.commands.run import files as run_files
from datassay.commands.run import page as run_page
from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.conditions import FAILED, INCONCLUSIVE, PASSED
from datassay.commands.run.gate.formats import junit_xml
from datassay.report.page import Page, Row, Section, Table
from datassay.store.outputs import Part

JUNIT = "junit.xml"
FILES = {**run_files.FILES, JUNIT: "the conditions, as a build system reads them"}


def page(findings: Findings) -> Page:
    """Return the page of a run, which opens with a table of the conditions."""
    rows = tuple(Row(o.condition, (o.status, o.sentence)) for o in findings.outcomes)
    columns = ("condition", "outcome", "what was found")
    table = Table("Conditions", columns, rows, prose=True)
    run = run_page.page(findings)
    section = Section("conditions", "Conditions", "Conditions", (table,))
    files = {**run.files, JUNIT: FILES[JUNIT]}
    by_status = {status: [] for status in (FAILED, INCONCLUSIVE, PASSED)}
    for outcome in findings.outcomes:
        by_status[outcome.status] += [outcome.condition]
    sentences = (f"{status.capitalize()}: {', '.join(c)}." for status, c in by_status.items() if c)
    head = {"brand": "datassay check · does the data pass", "verdict": " ".join(sentences)}
    return replace(run, **head, lead=run.verdict, opening=(section, *run.opening), files=files)


def files(findings: Findings, page: Page) -> dict[str, Part]:
    """Return the files of a run, and the conditions as JUnit XML."""
    junit = junit_xml(findings.outcomes, findings.samples.name)
    return {**run_files.files(findings, page), JUNIT: junit}
