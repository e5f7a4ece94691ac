"""The last section of the page of teacher networks: equations, sources, what we decided."""

from __future__ import annotations

from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.report.wording import count


def notes(findings: TeacherFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run."""
    search = findings.table.search
    recipe = search.recipe
    return (
        (
            "Teacher and student",
            "f(x) = (1/√m) Σ_j max(w_jᵀx, 0) with d inputs and m units (S3 eq. 2.1), weights "
            "uniform in ±1/√d. The teacher's outputs at N standard normal inputs are what students "
            "of the same shape and other starting weights learn.",
        ),
        (
            "Samples needed N",
            "The smallest N from which at least half of the students recover their teacher: R² of "
            f"{search.recovery_r2:g} or more on as many fresh samples (S3 eq. 2.9). Found by "
            "doubling and, between the last two sizes, "
            f"{count(search.depth, 'bisection')} (S3 Algorithms 2 and 4). Larger N can fail "
            "again now and then: the search does not look there.",
        ),
        (
            "Training",
            f"{'Adam' if recipe.optimizer == 'adam' else 'Gradient descent'}, step {recipe.lr:g}, "
            f"{recipe.epochs} epochs of all samples at once; all students of all teachers of a "
            "trial in one program. S3 prints gradient descent; with this step on the mean loss "
            "(eq. 2.2) it does not recover its teacher.",
        ),
        (
            "Trials",
            f"{count(search.n_teachers, 'teacher')} a size and "
            f"{count(search.n_students, 'student')} each. S3 takes 10 and 100: fewer students "
            "make N coarser, fewer teachers make medians noisier.",
        ),
        (
            "Law",
            "Least squares on the medians; intervals from a bootstrap over the teachers. S3 finds "
            "N ~ d (R² 0.998, m = 5), N ~ log m (R² 0.95, d = 5) and from both N ~ d log m (eqs "
            "2.13, 2.14). Ours have a constant. A law of small networks and random teachers: for "
            "your own data measure its learning curve, datassay complexity DATA.",
        ),
    )
