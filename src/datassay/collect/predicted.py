"""Predicted seconds of scoring a form, by counted operations over one fixed nominal rate.

They choose the form, so they depend on sizes alone: the same data give the same scores on every
machine, idle or busy. How long a run takes on this machine is for its plan to say.
"""

from __future__ import annotations

from datassay.collect.form import N_RIDGES, Form

# Additions and multiplications a second in float64: two cores of a laptop. Twice that in float32.
NOMINAL_RATE = 5e10
# Operations of one symmetric eigendecomposition, in units of size³ matrix products' operations.
EIGEN_WORK = 15.0
# Of a symmetric product by blocks: half of it, and half of the blocks on the diagonal.
SYMMETRIC_WORK = 1.1
# Panels of features are multiplied into their eigenbasis: once by leave-one-out, and twice each by
# label issues and influence.
READINGS = 5
# Shifts of the contour, real and imaginary, and outputs and leverages under each of them.
CONTOUR_COLUMNS = 120


def nominal_seconds(form: Form, n_queries: int) -> float:
    """Seconds that collecting and scoring take at the nominal rate, beside fixed costs.

    Args:
        form: of n training samples.
        n_queries: m, validation samples; 0 where there are none.

    Returns:
        Seconds; without effects on single predictions and without retraining.
    """
    b = form.n_outputs if form.outputs == "joint" else 1
    n, p, columns = form.n_rows // b, form.eigenproblem, form.n_outputs // b
    each = n * p * (CONTOUR_COLUMNS * columns * b + 2.0 * N_RIDGES * b * (b + columns))
    work = EIGEN_WORK * p**3 + each + form.flops
    if form.representation == "kernel":
        judged = EIGEN_WORK * n**3 if b > 1 else 0.0
        return (work + judged + 2.0 * n_queries * b * p**2) / NOMINAL_RATE
    rows = n * b * p**2 * (SYMMETRIC_WORK + 2.0 * READINGS) + SYMMETRIC_WORK * n_queries * b * p**2
    fast = 1 if form.products.precision == "float64" else 2
    return (work + rows / fast) / NOMINAL_RATE
