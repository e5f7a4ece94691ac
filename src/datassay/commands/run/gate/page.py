"""Page and files of `datassay check`: those of `score`, with the conditions before all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from datassay.commands.run import files as run_files
from datassay.commands.run import page as run_page
from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.formats import junit_xml
from datassay.report.page import Page, Row, Section, Table
from datassay.report.wording import count
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
    counts = Counter(outcome.status for outcome in findings.outcomes)
    statuses = ", ".join(f"{n} {status}" for status, n in counts.items())
    lead = f"{count(len(rows), 'condition')}: {statuses}. {run.lead}"
    brand = "datassay check · does the data pass"
    return replace(run, brand=brand, lead=lead, opening=(section, *run.opening), files=files)


def files(findings: Findings, page: Page) -> dict[str, Part]:
    """Return the files of a run, and the conditions as JUnit XML."""
    junit = junit_xml(findings.outcomes, findings.samples.name)
    return {**run_files.files(findings, page), JUNIT: junit}
