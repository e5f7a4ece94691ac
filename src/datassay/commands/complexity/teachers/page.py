"""The page of the sample complexity of teacher networks."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.complexity.teachers.advice import advice, law_sentence, written
from datassay.commands.complexity.teachers.figures import complexity_figure
from datassay.commands.complexity.teachers.files import FILES
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.complexity.teachers.method import notes
from datassay.complexity.sample_complexity import SampleComplexity
from datassay.report.page import Figure, Page, Row, Section, Table, Text

SIZE_COLUMNS = ("inputs d", "width m", "median N", "range over teachers", "not recovered")
LAW_COLUMNS = ("law", "R² of the medians", "with teachers resampled")


def page(findings: TeacherFindings) -> Page:
    """Everything that the command says of teacher networks."""
    law = findings.law
    lead = "samples from which half of the students recover their teacher"
    if law is not None:
        fit = f"R² {law.r_squared:.3f} over the medians of {len(findings.x)} sizes"
        lead = f"{written(law)} with {fit}"
    return Page(
        brand="datassay complexity · how many samples recover a network",
        title="Sample complexity of teacher networks",
        lead=lead,
        facts=findings.facts,
        warnings=findings.warnings,
        advice=advice(findings),
        sections=_sections(findings),
        method=notes(findings),
        files=FILES,
        answer=() if law is None else (law_sentence(law),),
    )


def _sections(findings: TeacherFindings) -> tuple[Section, ...]:
    text = f"Sample complexity of each teacher against {findings.varied}, medians and law"
    rows = tuple(_size_row(size) for size in findings.table.sizes)
    sections = (
        Section("complexity", "Samples needed", "Samples needed", (
            Text("How many samples half of the students need to recover their teacher. A dot is "
                 "one teacher, a diamond the median of a size."),
            Figure("complexity", complexity_figure(findings), text),
        )),
        Section("sizes", "Every size", "Every size", (
            Table("Sample complexity by size", SIZE_COLUMNS, rows, in_terminal=True),
        )),
    )  # fmt: skip
    if not findings.laws:
        return sections
    laws = tuple(
        Row(
            written(law),
            (f"{law.r_squared:.3f}", "{:.3f} to {:.3f}".format(*law.r_squared_interval)),
        )
        for law in findings.laws
    )
    return (*sections, Section("laws", "Laws", "Laws", (Table("Laws", LAW_COLUMNS, laws),)))


def _size_row(size: SampleComplexity) -> Row:
    recovered = size.n_opt[np.isfinite(size.n_opt)]
    median = f"{size.median:,.0f}" if math.isfinite(size.median) else "not recovered"
    spread = f"{recovered.min():,.0f} to {recovered.max():,.0f}" if len(recovered) else "–"
    lost = f"{size.n_not_recovered} of {len(size.n_opt)}"
    return Row(str(size.n_inputs), (str(size.width), median, spread, lost))
