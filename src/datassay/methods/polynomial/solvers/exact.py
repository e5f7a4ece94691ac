"""Ridge fits of normal equations; the ridge is given or chosen by leave-one-out error."""

import numpy as np
from jaxtyping import Float

from datassay.errors import DataError
from datassay.methods.polynomial.model import are_classes
from datassay.methods.polynomial.settings import Regression
from datassay.methods.polynomial.solvers.normal_equations import FEW, NormalEquations
from datassay.methods.polynomial.solvers.ridge import (
    Centred,
    Poles,
    Spectrum,
    centre,
    cholesky,
    minimum_norm,
    rounding,
)
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import require

SPECTRUM = FEW  # features up to which all eigenvalues cost less than a few factors
PER_DECADE = 4  # ridges; one a decade loses up to 0.4 points of accuracy on Fashion-MNIST
FIRST_POLES = (10**-2.5, 10**-1.5)  # over the mean eigenvalue
POLE_RANGE = {"float32": (1e-5, 1e2), "float64": (1e-9, 1e2)}  # over the mean eigenvalue
LEVERAGE = 1 - 1e-8  # above it a leave-one-out residual is rounding
STEP = "polynomial: ridges"


@result
class RidgePath:
    """Leave-one-out errors of many ridges, on the rows kept by the normal equations.

    r_i = (y_i − f_i) / (1 − h_i),  h_i = 1/n + φ̃_iᵀ (G + λ I)⁻¹ φ̃_i,  φ̃ = φ minus its mean

    Attributes:
        ridge: [r], ascending.
        squared_error: [r], squared held-out residual, summed over targets, mean over rows; NaN
            where a row's leverage is 1 within rounding.
        class_error: [r], share of rows whose largest held-out output is not their largest
            target; NaN where targets are no one-hot classes.
        n_rows: number of random samples that both are averaged over; each in turn is left out of
            the fit to all n.
        poles: ridges at which the equations were factored; empty where all eigenvalues were
            computed.
        chosen: index of the ridge with the smallest squared error.
    """

    ridge: Float[np.ndarray, " r"]
    squared_error: Float[np.ndarray, " r"]
    class_error: Float[np.ndarray, " r"]
    n_rows: int
    poles: tuple[float, ...]
    chosen: int


@result
class ExactFit:
    """A ridge fit to all samples."""

    coef: Float[np.ndarray, "k q"]  # of the live features; row 0 is the constant
    ridge: float  # λ of Σ (y − f)² + λ ‖β‖², β without the constant
    path: RidgePath | None  # the ridges it was chosen from; None where the ridge was given
    rank: int | None  # of the features minus their means, where ridge is 0
    notes: tuple[str, ...]


def exact_fit(
    normal: NormalEquations, ridge: float | str = Regression.ridge, *, progress: Progress = silent
) -> ExactFit:
    """Solve min Σ (y − f)² + ridge ‖β‖²; the constant is not penalised.

    Returns:
        Coefficients, path and notes. Ridge 0 gives the minimum-norm solution; "auto" takes the
        ridge with the smallest squared leave-one-out error.

    Raises:
        DataError: there are fewer than 2 samples, or the equations are not positive definite in
            the precision of their sums.

    Cost: p'³/3 operations per factorisation and 2 p'² s for s rows; "auto" takes three
    factorisations or more. With at most `SPECTRUM` features, or ridge 0, all eigenvalues are
    computed: about 9 p'³ operations.
    Source: S3 eq. (3.9); the ridge and its choice are ours (METHODS §6). Allen (1974), PRESS, for
    held-out residuals in closed form; with many features those of ridges between the poles are
    interpolated (`solvers.ridge.Poles`).
    """
    if normal.n_samples < 2:
        raise DataError(f"a fit needs at least 2 samples; got {normal.n_samples} sample.")
    system = centre(normal)
    if ridge == "auto":
        return _choose_ridge(system, progress)
    is_valid = not isinstance(ridge, str) and ridge >= 0 and np.isfinite(ridge)
    require(is_valid, "ridge", "be 'auto' or a number of at least 0", repr(ridge))
    if ridge == 0:
        return _fit_minimum_norm(system)
    return ExactFit(_solve(system, float(ridge)), float(ridge), None, None, ())


def _choose_ridge(system: Centred, progress: Progress) -> ExactFit:
    """Return the fit by the ridge of smallest leave-one-out error; with a note if at an end."""
    path, spectrum = _compute_path(system, progress)
    ridge = float(path.ridge[path.chosen])
    if spectrum is None:
        coef = _solve(system, ridge)
    else:
        coef = system.with_constant(spectrum.coef(ridge))
    notes = []
    if path.chosen in {0, len(path.ridge) - 1}:
        end = "largest"
        if path.chosen == 0:
            end = "smallest"
        notes.append(f"The {end} ridge tried, {ridge:.3g}, has the smallest leave-one-out error.")
    n_lost = int(np.isnan(path.squared_error).sum())
    if n_lost:
        notes.append(
            f"The {n_lost} smallest ridges tried have no leave-one-out error: a sample's leverage "
            "is 1 within rounding."
        )
    return ExactFit(coef, ridge, path, None, tuple(notes))


def _solve(system: Centred, ridge: float) -> Float[np.ndarray, "k q"]:
    """Solve for the coefficients in float64, whatever the precision of the sums."""
    rhs = np.asfortranarray(system.rhs)
    return system.with_constant(cholesky(system.gram(ridge), ridge)(rhs))


def _fit_minimum_norm(system: Centred) -> ExactFit:
    """Return the fit without ridge: the smallest coefficients among the best."""
    normal = system.normal
    if normal.n_samples == len(normal.rows) <= system.n_features:
        features = normal.monomials.features(normal.rows, keep=normal.live[1:])
        coef, rank = minimum_norm(features, normal.row_targets)
        cut = f"{rounding(features.dtype, normal.n_samples):.2g}"
    else:
        spectrum = Spectrum(system)
        coef = spectrum.coef(0.0)
        rank = spectrum.rank
        cut = f"{spectrum.cut / max(spectrum.largest, np.finfo(np.float64).tiny):.2g}"
    note = (
        f"The features minus their means have rank {rank} of {system.n_features}: eigenvalues of "
        f"their products above {cut} of the largest count."
    )
    if rank < system.n_features:
        note += " Among all that fit best these are the smallest coefficients."
    return ExactFit(system.with_constant(coef), 0.0, None, rank, (note,))


def _compute_path(system: Centred, progress: Progress) -> tuple[RidgePath, Spectrum | None]:
    """Return leave-one-out errors over ridges, and G's eigenvectors if these were used."""
    if system.n_features > SPECTRUM:
        return _search_path(system, progress), None
    spectrum = Spectrum(system)
    ridges = _make_grid(max(spectrum.cut, 1e-12 * spectrum.largest), 10 * spectrum.largest)
    progress(STEP, 1, 1)
    return _compute_path_errors(system, spectrum, ridges, ()), spectrum


def _search_path(system: Centred, progress: Progress) -> RidgePath:
    """Return leave-one-out errors over ridges, solved a decade apart, interpolated between."""
    low, high = (system.scale * factor for factor in FIRST_POLES)
    floor, ceiling = (system.scale * factor for factor in POLE_RANGE[str(system.normal.gram.dtype)])
    poles = Poles(system)
    for ridge in (high, low):
        poles.add(ridge)
        progress(STEP, len(poles.ridges), len(poles.ridges) + 1)
    while True:
        path = _compute_path_errors(system, poles, _make_grid(low, high), tuple(poles.ridges))
        if path.chosen == 0 and low > floor:
            low = low / 10
            poles.add(low)
        elif path.chosen == len(path.ridge) - 1 and high < ceiling:
            high = high * 10
            poles.add(high)
        else:
            return path
        progress(STEP, len(poles.ridges), len(poles.ridges) + 1)


def _make_grid(low: float, high: float) -> Float[np.ndarray, " r"]:
    """Return PER_DECADE ridges a decade from low to high; raise where no feature varies."""
    if not low > 0:
        raise DataError(
            "some feature must differ between samples; got none. Add samples or features."
        )
    return np.geomspace(low, high, 1 + max(1, round(PER_DECADE * np.log10(high / low))))


def _compute_path_errors(
    system: Centred, solver: Spectrum | Poles, ridges: np.ndarray, poles: tuple[float, ...]
) -> RidgePath:
    """Return the leave-one-out error at each ridge, as a RidgePath."""
    targets = system.normal.row_targets
    label = None
    if are_classes(targets):
        label = targets.argmax(axis=1)
    pairs = [_list_errors(system, solver, float(ridge), label) for ridge in ridges]
    mse, class_error = np.array(pairs).T
    if np.isnan(mse).all():
        raise DataError(
            "some ridge must leave every sample a leverage below 1; none does. Add samples, or "
            "give a ridge."
        )
    return RidgePath(ridges, mse, class_error, len(system.rows), poles, int(np.nanargmin(mse)))


def _list_errors(
    system: Centred, solver: Spectrum | Poles, ridge: float, label: np.ndarray | None
) -> tuple[float, float]:
    """Return mean squared leave-one-out residual, and the share of rows misclassified."""
    leverage, fitted = solver.rows(ridge)
    complement = 1 - leverage[:, None] - 1 / system.normal.n_samples  # 1 − h_i
    if complement.min() < 1 - LEVERAGE:
        return np.nan, np.nan
    residual = (system.row_targets - fitted) / complement
    square = float((residual**2).sum(axis=1).mean())
    if label is None:
        return square, np.nan
    target_mean = system.normal.target_sum / system.normal.n_samples
    held_out = system.row_targets + target_mean - residual
    return square, float((held_out.argmax(axis=1) != label).mean())
