"""Page and files of `datassay check`: those of `score`, with the conditions before all."""

import os
import shlex
from dataclasses import replace
from typing import Any

from datassay.commands.frame import retype, split_words
from datassay.commands.run import files as run_files
from datassay.commands.run import page as run_page
from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.conditions import FAILED, INCONCLUSIVE, PASSED
from datassay.commands.run.gate.formats import junit_xml
from datassay.commands.run.typed import Typed
from datassay.optional import text_if
from datassay.report.advice import Advice
from datassay.report.page import Page, Row, Section, Table
from datassay.score.checks.columns import leaking_columns
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
        is_told = outcome.status == FAILED and outcome.counted
        by_status[outcome.status] += [outcome.condition + text_if(is_told, f" ({outcome.counted})")]
    sentences = (f"{status.capitalize()}: {'; '.join(c)}." for status, c in by_status.items() if c)
    head = {"brand": "datassay check · does the data pass", "verdict": " ".join(sentences)}
    remedies = _advise_on_copies(findings)
    mends = [card.command for card in remedies if card.command]
    next_check = _compose_recheck(findings, mends)
    is_leaking = bool(leaking_columns(findings.samples))
    advice = run.advice
    if is_leaking:  # what the run's first card is about
        advice = (replace(advice[0], command=next_check), *advice[1:])
    commands = run.commands
    if is_leaking or mends:
        commands = tuple(filter(None, (*mends, next_check)))
    elif len(by_status[PASSED]) == len(findings.outcomes):
        commands = ()
    fields = {"opening": (section, *run.opening), "advice": (*remedies, *advice)}
    return replace(run, **head, **fields, lead=run.verdict, commands=commands, files=files)


def _compose_recheck(findings: Findings, mends: list[str]) -> str:
    """Return the command that checks the mended data, leaking columns dropped; "" if none."""
    facts = findings.facts
    inputs: dict[str, Any] = findings.origin.inputs if findings.origin else {}
    leaks = leaking_columns(findings.samples)
    if leaks:
        columns = ",".join(c for c in (inputs.get("drop"), *leaks) if c)
        facts = {"Command": retype(facts, "--drop", columns)}
    words = split_words(retype(facts, "--out", f"{Typed(findings).out}-again"))
    for k, word in enumerate(words):
        if mends and os.path.realpath(word) == inputs["data"]:
            name = "" if os.path.isdir(word) else os.path.basename(word)
            words[k] = os.path.join(shlex.split(mends[0])[-1], name)
    return shlex.join(words)


def _advise_on_copies(findings: Findings) -> list[Advice]:
    """Return a card on removing copies if the condition on them failed, else []."""
    failed = {outcome.name: outcome for outcome in findings.outcomes if outcome.status == FAILED}
    outcome = failed.get("duplicates")
    if outcome is None:
        return []
    text = f"{outcome.sentence} The command keeps the first of each group, and names the others."
    command = Typed(findings).apply("--drop-copies")
    return [Advice("duplicates", "act", "Remove the duplicates", text, command=command)]


def files(findings: Findings, page: Page) -> dict[str, Part]:
    """Return the files of a run, and the conditions as JUnit XML."""
    junit = junit_xml(findings.outcomes, findings.samples.name)
    return {**run_files.files(findings, page), JUNIT: junit}
