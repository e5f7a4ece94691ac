"""Fit a polynomial: exactly, by normal equations in chunks, or as an average over batches."""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from datassay.data.arguments import checks_arguments
from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import Monomials
from datassay.methods.polynomial.settings import SOLVERS, Regression
from datassay.methods.polynomial.solvers.batched import BatchCurve, batched_fit
from datassay.methods.polynomial.solvers.exact import RidgePath, exact_fit
from datassay.methods.polynomial.solvers.normal_equations import (
    NormalEquations,
    check_samples,
    chosen_dtype,
    live_features,
    normal_equations,
)
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import one_of

# Largest ratio of sums of squares without a note: the smallest ridge tried is 1e-12 of the largest
# eigenvalue, so beyond this ratio it removes 1e-4 or more of what the small features explain.
UNLIKE = 1e8
MOST_UNLIKE = 0.1  # share of columns so small without a note; images have such pixels at the edge
REMEDY = "Bring the inputs to one scale, such as mean 0 and standard deviation 1."


@result
class PolynomialFit:
    """A fitted polynomial and how it was fitted.

    Attributes:
        polynomial: the p features and their coefficients; those of dead features are 0.
        solver: "exact" or "batched".
        ridge: λ of the exact fit, squared feature units, not scaled by n; None for the batched fit.
        path: leave-one-out errors of the ridges tried; None where the ridge was given.
        curve: scores by number of batches; None for the exact fit.
        live: [p'], features that are not zero in every sample.
        rank: of the features minus their means, where the ridge is 0; else None.
        notes: caveats, one sentence or two each.
    """

    polynomial: Polynomial
    solver: str
    ridge: float | None
    path: RidgePath | None
    curve: BatchCurve | None
    live: Int[np.ndarray, " k"]
    rank: int | None
    notes: tuple[str, ...]


@checks_arguments
def fit_polynomial(
    x: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "n q"],
    monomials: Monomials,
    *,
    solver: str = Regression.solver,
    ridge: float | str = Regression.ridge,
    n_batches: int = Regression.n_batches,
    batch_size: int = Regression.batch_size,
    precision: str = Regression.precision,
    store: str | Path | None = Regression.store,
    val: tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m q"]] | None = None,
    seed: int = Regression.seed,
    progress: Progress = silent,
) -> PolynomialFit:
    """Fit a polynomial by least squares.

    Args:
        x: [n, d].
        targets: [n, q]: numbers, or one-hot classes.
        monomials: the features.
        solver: "exact" fits all samples (`exact_fit`), "batched" averages fits to random batches
            (`batched_fit`).
        ridge: penalty of the exact fit, ridge ‖β‖² added to Σ (y − f)²; the constant is not
            penalised. "auto" takes the smallest leave-one-out error; 0 the minimum norm.
        n_batches: number of batches of the batched fit.
        batch_size: samples per batch of the batched fit.
        precision: of the products of features, as in `normal_equations`; solves are in float64.
        store: checkpoint folder of the exact fit's sums; None keeps nothing.
        val: samples for the batched fit's out-of-sample curves; used for nothing else.
        seed: random seed of the batches, and of the samples left out to choose a ridge.
        progress: called after each chunk, factorisation or batch.

    Returns:
        The polynomial, its ridge path or batch curve, and notes.

    Raises:
        DataError: shapes are wrong, values are not finite, or all targets are the same.
        SettingError: solver or precision is unknown, ridge is negative, a batch is larger than n,
            or the store holds other data.

    Cost: that of `normal_equations` and `exact_fit`, or of `batched_fit`.
    Source: S3 eqs. (3.9), (3.13)-(3.15).
    """
    one_of("solver", solver, SOLVERS)
    check_samples(x, targets, monomials)
    check_spread(targets)
    if solver == "exact":
        normal = normal_equations(
            x, targets, monomials, precision=precision, store=store, seed=seed, progress=progress
        )
        return fit_normal_equations(normal, ridge, progress=progress)
    if precision == "bfloat16" or store is not None:
        raise SettingError(
            "precision='bfloat16' and store are for solver='exact'; got them with 'batched'. Leave "
            "them out."
        )
    live = live_features(x, monomials, chosen_dtype(precision, monomials))
    average = batched_fit(
        x,
        targets,
        monomials,
        live,
        n_batches=n_batches,
        batch_size=batch_size,
        precision=precision,
        seed=seed,
        val=val,
        progress=progress,
    )
    polynomial = _make_polynomial(monomials, live, average.coef)
    notes = (*_note_dead_features(monomials, live), *average.notes)
    return PolynomialFit(polynomial, solver, None, None, average.curve, live, None, notes)


@checks_arguments
def fit_normal_equations(
    normal: NormalEquations, ridge: float | str = Regression.ridge, *, progress: Progress = silent
) -> PolynomialFit:
    """Fit exactly, from normal equations; the ridge is as for `fit_polynomial`."""
    centred_squares = normal.target_squares - normal.target_sum**2 / normal.n_samples
    # Below 1e-14 of the squares the difference is rounding: then the rows that are kept decide.
    rows = normal.row_targets
    if (centred_squares <= 1e-14 * normal.target_squares).all() and (rows == rows[:1]).all():
        _refuse_constant(normal.n_samples)
    solution = exact_fit(normal, ridge, progress=progress)
    precision = f"{normal.gram.dtype} sums: up to {normal.gram_error:.1g} from float64"
    notes = (
        *_note_dead_features(normal.monomials, normal.live),
        f"Products of features are {precision}, relative to the features' sums of squares.",
        *unlike_sizes(normal),
        *solution.notes,
    )
    polynomial = _make_polynomial(normal.monomials, normal.live, solution.coef)
    return PolynomialFit(
        polynomial, "exact", solution.ridge, solution.path, None, normal.live, solution.rank, notes
    )


def unlike_sizes(normal: NormalEquations) -> tuple[str, ...]:
    """Return a note if columns, or products of one degree, are so large that others are lost."""
    squares = np.diag(normal.gram).astype(np.float64)
    centred_squares = squares - normal.feature_sum**2 / normal.n_samples
    degree = normal.monomials.degree[normal.live]
    degrees = [k for k in np.unique(degree) if k > 0]
    typical = [float(np.median(centred_squares[degree == k])) for k in degrees]
    if not typical:
        return ()
    if min(typical) * UNLIKE < max(typical):
        large = degrees[int(np.argmax(typical))]
        small = degrees[int(np.argmin(typical))]
        ratio = (max(typical) / max(min(typical), np.finfo(float).tiny)) ** 0.5
        return (
            f"Products of degree {large} are about {ratio:.0e} times as large as those of degree "
            f"{small}, which the ridge and rounding leave little of. {REMEDY}",
        )
    column_centred = centred_squares[degree == 1]
    column_squares = squares[degree == 1]
    is_lost = column_centred * UNLIKE < centred_squares.max()
    if degrees[-1] > 1:  # products of a column that hardly varies are copies of the other column
        is_lost |= column_centred * UNLIKE**0.5 < column_squares
    # Constant columns, whose centred squares are rounding, lose nothing.
    is_lost &= column_centred > 4 * normal.gram_error * column_squares
    note = (
        f"{int(is_lost.sum())} of {len(is_lost)} columns vary by so little, compared with their "
        f"mean or with the largest product, that the ridge leaves little of them. {REMEDY}"
    )
    return (note,) if is_lost.mean() > MOST_UNLIKE else ()


def check_spread(targets: Float[np.ndarray, "n q"]) -> None:
    """Raise if all samples have the same targets."""
    if not len(targets) or (targets == targets[0]).all():
        _refuse_constant(len(targets))


def _refuse_constant(n: int) -> None:
    raise DataError(
        f"targets must differ between samples; all {n} have the same, so there is one class or a "
        "constant. Add samples of others."
    )


def _make_polynomial(monomials: Monomials, live: np.ndarray, coef: np.ndarray) -> Polynomial:
    """Return the polynomial with these coefficients, and 0 for features that are always 0."""
    full = np.zeros((monomials.n_features, coef.shape[1]))
    full[live] = coef
    return Polynomial(monomials, full)


def _note_dead_features(monomials: Monomials, live: np.ndarray) -> tuple[str, ...]:
    """Return (note,) if features are 0 in every sample, else ()."""
    n_dead = monomials.n_features - len(live)
    if not n_dead:
        return ()
    return (
        f"{n_dead:,} of {monomials.n_features:,} features are zero in every sample; their "
        "coefficients are 0.",
    )
