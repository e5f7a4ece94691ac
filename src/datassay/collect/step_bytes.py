"""Memory that each step of collecting and scoring holds at its peak, counted from the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datassay.collect.form import Form

# Bytes of one panel of rows in float64; rows that take no more are kept whole.
PANEL_BYTES = 2**28
# Values an output that choosing a ridge holds: one a penalty and offset.
RIDGE_VALUES = 66
# Values that leave_one_out holds of one chunk of removals.
SCORING_VALUES = 2**25
# Partners whose influence is looked at; of more samples a random part, with a standard error.
MOST_PARTNERS = 2048
# Of an eigendecomposition, in units of the matrix: its copy, the vectors and as much to work in.
EIGEN_MATRICES = 4


def step_bytes(form: Form) -> dict[str, float]:
    """Most memory that each step holds at once, beyond the program itself.

    Args:
        form: of the linearisation.

    Returns:
        Step → bytes. Every step after the first holds what was collected and, from the
        decomposition on, the eigenbasis: of a kernel the vectors and the queries' rows, of features
        the vectors, once more as the products of each part take them.
    """
    if form.representation == "kernel":
        return _kernel_bytes(form)
    n, p = form.n_rows, form.n_features
    matrix, rows = 8.0 * p**2, 8.0 * n * p
    single = form.products != "float64"
    collected = 0.0 if form.in_store else form.result_bytes
    basis = collected + matrix * (2 if single else 1)
    panel = min(rows, PANEL_BYTES)
    sums = matrix * int(-(-rows // PANEL_BYTES)).bit_length()  # C, added up along a tree
    basis += rows if rows <= PANEL_BYTES else 0.0  # the samples' rows, where they are kept whole
    samples = n // _rows_per_sample(form)
    ridges = 8.0 * RIDGE_VALUES * samples * form.n_outputs
    # A panel in its own precision, in the basis and back in float64 for the product with the fit.
    judged = max(ridges + 2 * panel, 2.5 * matrix + 2.5 * panel)
    return {
        "collect": form.collect_bytes - (form.jacobian_bytes if form.in_store else 0.0),
        "decompose": collected
        + max(EIGEN_MATRICES * matrix, sums)
        + (0.5 if single else 1.0) * panel,
        "leave one out": basis + max(EIGEN_MATRICES * matrix, 2 * panel, removal_bytes(form)),
        "label issues": basis + judged,
        "influence": basis + 2 * panel + 8.0 * min(samples, MOST_PARTNERS) * p,
    }


def _kernel_bytes(form: Form) -> dict[str, float]:
    n = form.n_rows
    matrix = 8.0 * n**2
    basis = 2 * form.result_bytes
    samples = n // _rows_per_sample(form)
    own = 8.0 * samples**2
    # Rows of an output are averaged first, and that kernel is decomposed on its own.
    judged = (EIGEN_MATRICES if form.outputs == "joint" else 3) * own
    pairs = 6 * 8.0 * min(samples, MOST_PARTNERS) * min(samples, PANEL_BYTES // (8 * n))
    return {
        "collect": form.collect_bytes,
        "decompose": form.result_bytes + max(EIGEN_MATRICES * matrix, form.result_bytes + matrix),
        "leave one out": basis + removal_bytes(form),
        "label issues": basis + judged + 8.0 * RIDGE_VALUES * samples * form.n_outputs,
        "influence": basis + pairs + 8.0 * min(samples, MOST_PARTNERS) * n,
    }


def removal_bytes(form: Form, values: int = SCORING_VALUES) -> float:
    """Memory of one chunk of removals, one weight vector an output.

    Args:
        form: of the linearisation.
        values: that the chunk may hold before its copies are counted.

    Returns:
        Bytes.
    """
    b, size = _rows_per_sample(form), form.eigenproblem
    n, c = form.n_rows // b, form.n_outputs // b
    chunk = max(1, min(n, values // max(1, size * c * (b + 2))))
    return 8.0 * chunk * size * (c * (b + 4) + b)


def _rows_per_sample(form: Form) -> int:
    return form.n_outputs if form.outputs == "joint" else 1
