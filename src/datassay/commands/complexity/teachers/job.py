"""The job of `datassay complexity --inputs`: sample complexity of teacher networks, and its law."""

from __future__ import annotations

import time
from itertools import product

import numpy as np

from datassay.commands.complexity.settings import TeacherSettings
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.facts import closing_facts
from datassay.complexity.laws import Law, fit_joint_law, fit_laws
from datassay.complexity.sample_complexity import Search
from datassay.complexity.table import ComplexityTable, complexity_table
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.report.wording import count

FEWEST_SIZES = 3


def run(settings: TeacherSettings, progress: Progress = silent) -> TeacherFindings:
    """Everything `datassay complexity --inputs` computes, without writing anything."""
    started = time.perf_counter()
    check_settings(settings)
    search = Search(
        n_teachers=settings.teachers,
        n_students=settings.students,
        depth=settings.depth,
        max_samples=settings.max_samples,
        seed=settings.seed,
    )
    sizes = product(settings.inputs, settings.width)
    table = complexity_table(sizes, search, store=settings.store, progress=progress)
    both = len(settings.inputs) > 1 and len(settings.width) > 1
    varied = "d·log m" if both else "m" if len(settings.width) > 1 else "d"
    laws = _laws(table, varied, settings.seed)
    facts = _facts(settings) | closing_facts(started, settings.seed, settings.command)
    return TeacherFindings(table, varied, laws, facts)


def check_settings(settings: TeacherSettings, *, only_plan: bool = False) -> None:
    """Refuse, before any work is done, a setting outside its rule."""
    for name in ("teachers", "students", "max_samples"):
        if getattr(settings, name) < 1:
            shown = name.replace("_", "-")
            raise SettingError(f"{shown} must be at least 1; got {getattr(settings, name)}.")
    if settings.depth < 0:
        raise SettingError(f"depth must be at least 0; got {settings.depth}.")


def _laws(table: ComplexityTable, varied: str, seed: int) -> tuple[Law, ...]:
    usable = np.isfinite([s.median for s in table.sizes])
    least = {"d": table.n_inputs, "m": table.width, "d·log m": table.width}[varied].min()
    if usable.sum() < FEWEST_SIZES or least < 2:
        return ()
    d, m = table.n_inputs.astype(np.float64), table.width.astype(np.float64)
    if varied == "d·log m":
        return (fit_joint_law(d, m, table.n_opt, seed=seed),)
    x = d if varied == "d" else m
    return fit_laws(x, table.n_opt, name=varied, seed=seed)


def _facts(settings: TeacherSettings) -> dict[str, str]:
    return {
        "Inputs d": ", ".join(map(str, settings.inputs)),
        "Width m": ", ".join(map(str, settings.width)),
        "Trials": f"{count(settings.teachers, 'teacher')} a size, "
        f"{count(settings.students, 'student')} each",
        "Search": f"doubling to at most {settings.max_samples:,} samples, then "
        f"{count(settings.depth, 'bisection')}",
        "Recovered": "R² of at least 0.95 on fresh samples, by half of the students",
    }
