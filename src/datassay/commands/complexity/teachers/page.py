"""The page of the sample complexity of teacher networks; `text/teachers.md.j2` says the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from datassay.commands.complexity.teachers.figures import complexity_figure
from datassay.commands.complexity.teachers.files import FILES
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.complexity.teachers.job import FEWEST_SIZES
from datassay.complexity.laws import Law
from datassay.complexity.sample_complexity import SampleComplexity
from datassay.report.advice import most_urgent_first
from datassay.report.compose import compose
from datassay.report.page import Page, Row, Table

GOOD_FIT = 0.9
FEW_TEACHERS = 10
SIZE_COLUMNS = ("inputs d", "width m", "median N", "range over teachers", "not recovered")
LAW_COLUMNS = ("law", "R² of the medians", "with teachers resampled")


def page(findings: TeacherFindings) -> Page:
    """Everything that the command says of teacher networks."""
    sizes = findings.table.sizes
    n_opt = findings.table.n_opt
    rows = n_opt[np.isfinite(n_opt).all(1)]
    is_compared = len(rows) > 0 and n_opt.shape[1] > 1
    numbers = {
        "findings": findings,
        "written": written,
        "lost": [s for s in sizes if not np.isfinite(s.median)],
        "n_lost": sum(s.n_not_recovered for s in sizes),
        "ratio": float(np.median(rows.max(1) / rows.min(1))) if is_compared else None,
        "good_fit": GOOD_FIT,
        "few_teachers": FEW_TEACHERS,
        "fewest_sizes": FEWEST_SIZES,
    }
    laws = tuple(
        Row(
            written(law),
            (f"{law.r_squared:.3f}", "{:.3f} to {:.3f}".format(*law.r_squared_interval)),
        )
        for law in findings.laws
    )
    lines = tuple(_size_row(size) for size in sizes)
    blocks = {
        "complexity": complexity_figure(findings),
        "sizes": Table("Sample complexity by size", SIZE_COLUMNS, lines, in_terminal=True),
        "laws": Table("Laws", LAW_COLUMNS, laws),
    }
    page = compose(
        "teachers",
        blocks,
        numbers,
        facts=findings.facts,
        files=FILES,
    )
    return replace(page, advice=most_urgent_first(page.advice))


def written(law: Law) -> str:
    """The law as people write it: "N = −56.3 + 25.3·d"."""
    return law.formula.replace("-", "−")


def _size_row(size: SampleComplexity) -> Row:
    recovered = size.n_opt[np.isfinite(size.n_opt)]
    median = f"{size.median:,.0f}" if math.isfinite(size.median) else "not recovered"
    spread = f"{recovered.min():,.0f} to {recovered.max():,.0f}" if len(recovered) else "–"
    lost = f"{size.n_not_recovered} of {len(size.n_opt)}"
    return Row(str(size.n_inputs), (str(size.width), median, spread, lost))
