"""`datassay complexity --inputs`: sample complexity of teacher networks, and its law.

`text/teachers.md.j2` says what the page says.
"""

import math
import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datassay.commands.facts import closing_facts
from datassay.commands.frame import Findings, compose_page, retype, table
from datassay.methods.complexity.command import TeacherSettings
from datassay.methods.complexity.laws import Law, fit_joint_law, fit_laws
from datassay.methods.complexity.sample_complexity import SampleComplexity, Search
from datassay.methods.complexity.table import ComplexityTable, complexity_table
from datassay.progress import Progress, silent
from datassay.report.page import Page
from datassay.report.plots import chart, line, marks
from datassay.report.style import BLUE, GREY, VERMILION
from datassay.report.tables import standard_json
from datassay.report.wording import count
from datassay.results import result

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("teachers.md.j2")
FILES = {"trials.parquet": "every teacher", "summary.json": "the figures above"}
FEWEST_SIZES = 3
FITS = 0.9  # R² from which on a law is said to hold
PARTED = 0.1  # share by which two laws differ that can be told apart
# The laws that S3 arrives at (eqs. 2.13, 2.14 and Fig. 2.10), by what varies.
S3_LAW = {"d": "linear", "m": "log", "d·log m": "linear"}
SHAPES = {
    "linear": "a straight line", "log": "a logarithm", "power": "a power",
    "power_log": "a power times a logarithm", "log_power": "a power of the logarithm",
}  # fmt: skip
AXES = {"d": "inputs d", "m": "width m (log scale)", "d·log m": "d · log m"}


@result
class TeacherFindings(Findings):
    """Sample complexity of several network sizes, and its laws."""

    table: ComplexityTable
    varied: str  # what the laws are in: "d", "m", or "d·log m" where both vary
    laws: tuple[Law, ...]  # best R² first; empty where fewer than three sizes have a median

    @property
    def x(self) -> np.ndarray:
        """The values of what varies, one per size."""
        d = self.table.n_inputs
        m = self.table.width
        return {"d": d, "m": m, "d·log m": d * np.log(m)}[self.varied].astype(np.float64)

    @property
    def medians(self) -> np.ndarray:
        """Median over the teachers; infinite where half of them were not recovered."""
        return np.array([s.median for s in self.table.sizes])

    @property
    def law(self) -> Law | None:
        """The law of the form that S3 gives; None without laws."""
        return next((law for law in self.laws if law.kind == S3_LAW[self.varied]), None)

    @property
    def other(self) -> Law | None:
        """The best law, where it parts from S3's within twice the sizes; else None."""
        law = self.law
        if law is None or self.laws[0] is law or self.varied == "d·log m":
            return None
        ours = float(law.n_samples(self.reach)[0])
        theirs = float(self.laws[0].n_samples(self.reach)[0])
        if abs(ours - theirs) <= PARTED * theirs:
            return None
        return self.laws[0]

    @property
    def sizes(self) -> np.ndarray:
        """The sizes of what varies, of inputs where both do."""
        if self.varied == "m":
            return self.table.width
        return self.table.n_inputs

    @property
    def reach(self) -> int:
        """Twice the largest of `sizes`."""
        return 2 * int(self.sizes.max())


def run(settings: TeacherSettings, progress: Progress = silent) -> TeacherFindings:
    """Compute everything that `datassay complexity --inputs` shows, without writing anything."""
    started = time.perf_counter()
    settings.refuse()
    search = Search(
        n_teachers=settings.teachers,
        n_students=settings.students,
        depth=settings.depth,
        max_samples=settings.max_samples,
        seed=settings.seed,
    )
    sizes = product(settings.inputs, settings.width)
    trials = complexity_table(sizes, search, store=settings.store, progress=progress)
    varied = "d"
    if len(settings.width) > 1:
        varied = "d·log m" if len(settings.inputs) > 1 else "m"
    laws = _fit_laws(trials, varied, settings.seed)
    facts = {
        "Inputs d": ", ".join(map(str, settings.inputs)),
        "Width m": ", ".join(map(str, settings.width)),
        "Trials": f"{count(settings.teachers, 'teacher')} a size, "
        f"{count(settings.students, 'student')} each",
        "Search": f"doubling to at most {settings.max_samples:,} samples, then "
        f"{count(settings.depth, 'bisection')}",
        "Recovered": "R² of at least 0.95 on fresh samples, by half of the students",
        **closing_facts(started, settings.seed, settings.command),
    }
    return TeacherFindings(trials, varied, laws, facts=facts)


def _fit_laws(trials: ComplexityTable, varied: str, seed: int) -> tuple[Law, ...]:
    """Return the fitted laws by falling R²; () with too few medians or a size below 2."""
    d = trials.n_inputs.astype(np.float64)
    m = trials.width.astype(np.float64)
    size = d if varied == "d" else m
    is_finite = np.isfinite([s.median for s in trials.sizes])
    if is_finite.sum() < FEWEST_SIZES or size.min() < 2:
        return ()
    if varied == "d·log m":
        return (fit_joint_law(d, m, trials.n_opt, seed=seed),)
    return fit_laws(size, trials.n_opt, name=varied, seed=seed)


def page(findings: TeacherFindings) -> Page:
    """Return the page of teacher networks."""
    sizes = findings.table.sizes
    n_opt = findings.table.n_opt
    recovered = n_opt[np.isfinite(n_opt).all(1)]  # sizes at which every teacher was
    is_compared = len(recovered) > 0 and n_opt.shape[1] > 1
    numbers = {
        "written": write_law,
        "shapes": SHAPES,
        "other": findings.other,
        "fits": FITS,
        "wider": _suggest_wider_range(findings),
        "lost": [s for s in sizes if not np.isfinite(s.median)],
        "n_lost": sum(s.n_not_recovered for s in sizes),
        "fewest_sizes": FEWEST_SIZES,
        "ratio": float(np.median(recovered.max(1) / recovered.min(1))) if is_compared else None,
    }
    laws = [
        (write_law(law), f"{law.r_squared:.3f}", "{:.3f} to {:.3f}".format(*law.r_squared_interval))
        for law in findings.laws
    ]
    columns = ("inputs d", "width m", "median N", "range over teachers", "not recovered")
    by_size = table("Sample complexity by size", columns, map(_format, sizes), in_terminal=True)
    columns = ("law", "R² of the medians", "with teachers resampled")
    blocks = {
        "complexity": _plot_complexity(findings),
        "sizes": by_size,
        "laws": table("Laws", columns, laws),
    }
    return compose_page(TEMPLATE, findings, blocks, numbers, FILES)


def _suggest_wider_range(findings: TeacherFindings) -> str:
    """Return a command that measures twice the largest size; "" if one law is clear."""
    if findings.other is None and (findings.law is None or findings.law.r_squared >= FITS):
        return ""
    option = {"m": "--width"}.get(findings.varied, "--inputs")
    return retype(findings.facts, option, f"{findings.sizes.min()}:{findings.reach}")


def write_law(law: Law) -> str:
    """Format a law as people write it: "N = −56.3 + 25.3·d"."""
    return law.formula.replace("-", "−")


def _format(size: SampleComplexity) -> tuple[str, ...]:
    """Return a size's cells: d, m, median N, range over teachers, teachers not recovered."""
    recovered = size.n_opt[np.isfinite(size.n_opt)]
    median = "not recovered"
    if math.isfinite(size.median):
        median = f"{size.median:,.0f}"
    spread = "–"
    if len(recovered):
        spread = f"{recovered.min():,.0f} to {recovered.max():,.0f}"
    lost = f"{size.n_not_recovered} of {len(size.n_opt)}"
    return str(size.n_inputs), str(size.width), median, spread, lost


def _plot_complexity(findings: TeacherFindings) -> "Figure":
    """Return a chart of each teacher's N, the medians, and the fitted law."""
    x = findings.x
    n_opt = findings.table.n_opt
    medians = findings.medians
    order = np.argsort(x, kind="stable")
    names = np.array([f"d = {s.n_inputs}, m = {s.width}" for s in findings.table.sizes])
    figure = chart(AXES[findings.varied], "samples needed N", height=420)
    # Teachers that were not recovered are no dots.
    is_recovered = np.isfinite(n_opt)
    teacher_x = np.broadcast_to(x[:, None], n_opt.shape)[is_recovered]
    hover = "%{text}: %{y:,} samples<extra></extra>"
    texts = np.repeat(names[:, None], n_opt.shape[1], 1)[is_recovered]
    style = {"size": 6, "opacity": 0.5, "text": texts}
    marks(figure, teacher_x, n_opt[is_recovered], "one teacher", GREY, hover, **style)
    rows = order[np.isfinite(medians[order])]
    line(
        figure, x[rows], medians[rows], "median", BLUE, hover.replace(": %", ": median %", 1),
        width=1.5, mode="markers" if findings.varied == "d·log m" else "lines+markers",
        marker={"color": BLUE, "size": 9, "symbol": "diamond"},
        text=names[rows],
    )  # fmt: skip
    for law, colour, dash in (
        (findings.law, VERMILION, "dash"), (findings.other, "#009e73", "dot"),
    ):  # fmt: skip
        if law is not None:
            end = findings.reach if findings.other else law.size_range[1]
            grid = np.geomspace(law.size_range[0], end, 100)
            line(figure, grid, law.n_samples(grid), SHAPES[law.kind], colour, dash=dash)
    if findings.varied != "d·log m":
        ticks = np.unique([*x, *([findings.reach] if findings.other else [])]).astype(int)
        ticks = ticks[:: max(1, len(ticks) // 8)]
        figure.update_xaxes(tickvals=ticks.tolist(), ticktext=[str(t) for t in ticks])
    if findings.varied == "m":
        figure.update_xaxes(type="log")
    figure.update_yaxes(rangemode="tozero")
    return figure


def files(findings: TeacherFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return every teacher as a table, and the summary, where a missing median is null."""
    summary = standard_json({
        **page.head,
        "search": findings.table.search.manifest(),
        "varied": findings.varied,
        "sizes": [
            {
                "n_inputs": s.n_inputs,
                "width": s.width,
                "median": s.median,
                "n_opt": s.n_opt,
                "not_recovered": s.n_not_recovered,
            }
            for s in findings.table.sizes
        ],
        "laws": [asdict(law) for law in findings.laws],
    })
    return {"trials.parquet": findings.table.to_table(), "summary.json": summary}
