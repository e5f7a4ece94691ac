"""What the sample complexity of teacher networks says: each sentence follows from the figures."""

from __future__ import annotations

import numpy as np

from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.complexity.laws import Law
from datassay.report.advice import Advice, most_urgent_first
from datassay.report.wording import count, number

GOOD_FIT = 0.9
FEW_TEACHERS = 10


def advice(findings: TeacherFindings) -> tuple[Advice, ...]:
    """What to make of it, most urgent first."""
    return most_urgent_first([*_law(findings), *_lost(findings), *_spread(findings)])


def written(law: Law) -> str:
    """The law as people write it: "N = −56.3 + 25.3·d"."""
    return law.formula.replace("-", "−")


def law_sentence(law: Law) -> str:
    """The law with its R² and the interval of its factor."""
    low, high = law.interval["b"]
    return (
        f"{written(law)}, R² {law.r_squared:.3f} ({100 * law.level:.0f} % interval of the factor: "
        f"{number(low)} to {number(high)})."
    )


def _law(findings: TeacherFindings) -> list[Advice]:
    law = findings.law
    if law is None:
        return []
    shape = {
        "d": "The samples needed grow linearly with the inputs",
        "m": "The samples needed grow as the logarithm of the width",
        "d·log m": "The samples needed grow as inputs times logarithm of the width",
    }[findings.varied]
    sentence = law_sentence(law)
    best = findings.laws[0]
    if best.kind != law.kind:
        sentence += f" Of the five laws tried, {written(best)} fits best, R² {best.r_squared:.3f}."
    if law.r_squared >= GOOD_FIT:
        return [Advice("law", "fine", shape, sentence)]
    headline = f"The law in {findings.varied} does not fit well"
    sentence += " More teachers (--teachers) or a wider range of sizes would say more."
    return [Advice("law", "look", headline, sentence)]


def _lost(findings: TeacherFindings) -> list[Advice]:
    lost = sum(s.n_not_recovered for s in findings.table.sizes)
    if not lost:
        return []
    total, search = findings.table.n_opt.size, findings.table.search
    return [
        Advice(
            "not recovered", "look", f"{count(lost, 'teacher')} of {total:,} were not recovered",
            f"Not by half of {count(search.n_students, 'student')} from {search.max_samples:,} "
            "samples or fewer. Some networks are never found by this training, however many "
            "samples there are; --max-samples looks further.",
        )
    ]  # fmt: skip


def _spread(findings: TeacherFindings) -> list[Advice]:
    n_opt = findings.table.n_opt
    rows = n_opt[np.isfinite(n_opt).all(1)]
    if not len(rows) or n_opt.shape[1] < 2:
        return []
    ratio = float(np.median(rows.max(1) / rows.min(1)))
    few = findings.table.search.n_teachers < FEW_TEACHERS
    more = f" The thesis takes {FEW_TEACHERS} teachers of 100 students." if few else ""
    return [
        Advice(
            "how sure", "look" if few else "fine", "Teachers of one size differ",
            f"In the median size the hardest teacher needs {number(ratio)} times the samples of "
            f"the easiest; the median over {count(n_opt.shape[1], 'teacher')} evens that out only "
            f"in part.{more}",
        )
    ]  # fmt: skip
