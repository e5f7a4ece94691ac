"""Approximate an activation by a polynomial, so that a one-layer network becomes one."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev, legendre, polynomial
from scipy.optimize import linprog
from scipy.special import expit

from datassay.errors import SettingError
from datassay.results import result
from datassay.rules import one_of, positive, require

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda u: np.maximum(u, 0.0),
    "sigmoid": expit,
    "tanh": np.tanh,
}
Activation = str | Callable[[np.ndarray], np.ndarray]
MAX_DEGREE = 20  # above it monomials are too alike to fit their coefficients in float64
PANELS, NODES = 64, 20  # an even number of panels, so that one ends at 0, ReLU's kink
GRID = 12_001  # odd, so that 0 is a point
EXCHANGES = 60


@result
class ActivationPolynomial:
    """P(u) = Σ_t a_t u^t, close to an activation where a normal density of u is large.

    Attributes:
        coef: [k + 1], a_0 … a_k, activation unit over (unit of u)^t.
        half_width: P is fitted for u in [−half_width, half_width], unit of u.
        scale: standard deviation of the density, unit of u.
        rms_error: root of the density-weighted mean of (f − P)² on the interval, activation unit.
        max_error: largest φ(u / scale) |f − P| on the interval, φ the standard normal density,
            activation unit.
        excess: bound on max_error minus the smallest that any polynomial of this degree can have;
            nan for the least-squares polynomial, which does not minimise it.
    """

    coef: Float[np.ndarray, " k"]
    half_width: float
    scale: float
    rms_error: float
    max_error: float
    excess: float

    def values(self, u: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Evaluate P(u).

        Args:
            u: pre-activations, any shape.

        Returns:
            Values of the polynomial, the same shape.
        """
        return np.asarray(polynomial.polyval(u, self.coef))


def l2_activation(
    activation: Activation, degree: int = 3, *, half_width: float = 3.0, scale: float = 1.0
) -> ActivationPolynomial:
    """Return the polynomial with the least density-weighted mean squared error.

    P = Σ_t <f, q_t> q_t with q_t orthonormal under <f, g> = ∫ φ(u / scale) f g du on the interval

    Args:
        activation: "relu", "sigmoid", "tanh" or a function of an array.
        degree: k, at most MAX_DEGREE.
        half_width: of the interval, 3 in S3. Eight times the scale covers all of the density.
        scale: standard deviation of the pre-activations, 1 in S3; for inputs of unit variance it is
            the norm of a unit's weights.

    Returns:
        The polynomial.

    Raises:
        SettingError: the name is unknown, a value is not finite, or a degree or width out of range.

    Cost: 1280 evaluations of the activation.
    Source: S3 eq. (3.20), whose grid search gives 0.188 + 0.5 u + 0.21 u² for ReLU; the integrals
        are Gauss-Legendre sums, exact to rounding for activations that are smooth except at 0.
    """
    f = _check_settings(activation, degree, half_width, scale)
    u, width = _make_quadrature(half_width)
    root = np.sqrt(width * _density(u / scale))
    # QR: columns of `orthonormal` are root q_t, and `triangle` turns Chebyshev coefficients into
    # those of the q_t.
    weighted = chebyshev.chebvander(u / half_width, degree) * root[:, None]
    orthonormal, triangle = np.linalg.qr(weighted)
    products = orthonormal.T @ (root * _evaluate(f, u))  # <f, q_t>
    return _convert_to_powers(f, np.linalg.solve(triangle, products), half_width, scale)


def minimax_activation(
    activation: Activation, degree: int = 3, *, half_width: float = 3.0, scale: float = 1.0
) -> ActivationPolynomial:
    """Return the polynomial with the least density-weighted maximum error.

    min_a max_u φ(u / scale) |f(u) − P(u)|, u in the interval

    Args:
        activation: "relu", "sigmoid", "tanh" or a function of an array.
        degree: k, at most MAX_DEGREE.
        half_width: of the interval, 3 in S3.
        scale: standard deviation of the pre-activations, 1 in S3.

    Returns:
        The polynomial; `excess` bounds how much better any other could be.

    Raises:
        SettingError: the name is unknown, a value is not finite, or a degree or width out of range.

    Cost: a few linear programs with k + 2 unknowns.
    Source: S3 eq. (3.20) with the density times the error. Its grid search prints 0.096 + 0.5 u +
        0.3 u² for ReLU; the optimum is 0.076 + 0.5 u + 0.370 u². The maximum is over GRID points;
        between two of them the error can be larger by its curvature times the squared distance
        over eight.
    """
    f = _check_settings(activation, degree, half_width, scale)
    u = np.linspace(-half_width, half_width, GRID)
    weight = _density(u / scale)
    target = weight * _evaluate(f, u)
    unit = float(np.abs(target).max()) or 1.0  # the solver's tolerances are absolute
    basis = chebyshev.chebvander(u / half_width, degree) * weight[:, None]
    coef, bound = _solve_minimax(basis, target / unit)
    return _convert_to_powers(f, coef * unit, half_width, scale, bound * unit)


def _solve_minimax(
    basis: Float[np.ndarray, "n k"], target: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " k"], float]:
    """Return c of least max |target − basis c|, [k], and a lower bound on that maximum."""
    # The optimum over some of the points is a lower bound; add the points where its error peaks
    # until it is no larger there.
    point_idx = np.linspace(0, len(target) - 1, 8 * basis.shape[1] + 1).astype(int)
    coef = np.zeros(basis.shape[1])
    bound = 0.0
    for _ in range(EXCHANGES):
        coef, bound = _fit_minimax(basis[point_idx], target[point_idx])
        error = np.abs(target - basis @ coef)
        padded = np.r_[-1.0, error, -1.0]
        peaks = np.flatnonzero((error >= padded[:-2]) & (error >= padded[2:]))
        peaks = peaks[error[peaks] > bound + 1e-12]
        enlarged = np.union1d(point_idx, peaks)
        if len(enlarged) == len(point_idx):
            break
        point_idx = enlarged
    return coef, bound


def _fit_minimax(
    basis: Float[np.ndarray, "n k"], target: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " k"], float]:
    """Return the coefficients whose largest error is smallest, and that error."""
    # As a linear program: minimise e such that −e ≤ basis @ coef − target ≤ e at each point.
    n, k = basis.shape
    ones = np.ones((n, 1))
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(
        np.r_[np.zeros(k), 1.0],
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.r_[target, -target],
        bounds=[(None, None)] * k + [(0.0, None)],
        method="highs-ds",
        options=tight,
    )
    assert solution.success, solution.message  # feasible and bounded by its form
    return solution.x[:k], float(solution.x[k])


def _convert_to_powers(
    f: Callable[[np.ndarray], np.ndarray],
    chebyshev_coef: Float[np.ndarray, " k"],
    half_width: float,
    scale: float,
    bound: float | None = None,
) -> ActivationPolynomial:
    """Return the polynomial's coefficients of powers, with its maximum and RMS error."""
    u = np.linspace(-half_width, half_width, GRID)
    error = _evaluate(f, u) - chebyshev.chebval(u / half_width, chebyshev_coef)
    largest = float((_density(u / scale) * np.abs(error)).max())
    nodes, width = _make_quadrature(half_width)
    weight = width * _density(nodes / scale)
    square = (_evaluate(f, nodes) - chebyshev.chebval(nodes / half_width, chebyshev_coef)) ** 2
    powers = np.zeros(len(chebyshev_coef))  # cheb2poly drops trailing zeros
    coef = chebyshev.cheb2poly(chebyshev_coef)
    powers[: len(coef)] = coef
    return ActivationPolynomial(
        coef=powers / half_width ** np.arange(len(powers)),
        half_width=half_width,
        scale=scale,
        rms_error=float(np.sqrt(weight @ square / weight.sum())),
        max_error=largest,
        excess=float("nan") if bound is None else max(largest - bound, 0.0),
    )


def _make_quadrature(half_width: float) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return points and weights, [n] each, of Gauss-Legendre quadrature over the interval."""
    nodes, weights = legendre.leggauss(NODES)
    edges = np.linspace(-half_width, half_width, PANELS + 1)
    half = half_width / PANELS
    middle = (edges[:-1] + edges[1:]) / 2
    return (middle[:, None] + half * nodes).ravel(), np.tile(half * weights, PANELS)


def _density(u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:  # φ(u)
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def _evaluate(
    f: Callable[[np.ndarray], np.ndarray], u: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return f(u), [n]; raise unless values are finite."""
    values = np.asarray(f(u), dtype=np.float64)
    if values.shape != u.shape or not np.isfinite(values).all():
        raise SettingError(
            "activation must return one finite number for each number of an array; got shape "
            f"{values.shape} for {u.shape}, {int((~np.isfinite(values)).sum())} not finite."
        )
    return values


def _check_settings(
    activation: Activation, degree: int, half_width: float, scale: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the activation as a function; raise where a setting is out of range."""
    require(0 <= degree <= MAX_DEGREE, "degree", f"be from 0 to {MAX_DEGREE}", degree)
    for name, value in {"half_width": half_width, "scale": scale}.items():
        positive(name, value, finite=True)
    if half_width > 20 * scale:
        raise SettingError(
            f"half_width must be at most 20 times the scale, beyond which the density is 0; got "
            f"{half_width} and {scale}."
        )
    if callable(activation):
        return activation
    one_of("activation", activation, ACTIVATIONS, alternative="a function")
    return ACTIVATIONS[activation]
