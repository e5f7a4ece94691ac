"""Coefficients of the polynomial that a one-layer network is when its activation is one."""

from math import comb

import numpy as np
from jaxtyping import Float, Int

from datassay.errors import DataError, ModelError, SettingError
from datassay.methods.polynomial.monomials import Monomials
from datassay.optional import map_optional
from datassay.results import result

ROUNDING = 1e-12  # of a sum, relative to the sum of its terms' sizes


@result
class WeightMatch:
    """Similarity of two sets of tensor weights, degree by degree.

    Attributes:
        degree: [k], 1 to k.
        n_weights: [k], number of weights compared.
        determination: [k], 1 − Σ (β − W̄)² / Σ (β − mean β)², S3's R²: 1 is equality, without a
            lower bound; it depends on the scale of W̄ (Table 3.8). nan where all β are equal.
        determination_from_zero: [k], 1 − Σ (β − W̄)² / Σ β²: 0 where all W̄ are 0.
        squared_correlation: [k], in [0, 1], independent of the activation's coefficient a_t. nan
            where all weights of one side are equal.
    """

    degree: Int[np.ndarray, " k"]
    n_weights: Int[np.ndarray, " k"]
    determination: Float[np.ndarray, " k"]
    determination_from_zero: Float[np.ndarray, " k"]
    squared_correlation: Float[np.ndarray, " k"]


def tensor_weights(
    weights: Float[np.ndarray, "inputs m"],
    output_weights: Float[np.ndarray, "units ..."],
    activation: Float[np.ndarray, " k"],
    monomials: Monomials,
    *,
    biases: Float[np.ndarray, " hidden"] | None = None,
    multiplicities: bool = True,
) -> Float[np.ndarray, "p q"]:
    """Return the coefficients of the monomials in Σ_i b_i P(w_i·x + c_i).

    W̄_α = (t! / Π_j α_j!) a_t Σ_i b_i Π_j W_ji^α_j,  t = Σ_j α_j, where all c_i are 0

    Args:
        weights: W, [d, m], one column per unit (a torch layer's `weight` transposed).
        output_weights: b, [m, q], or [m] for one output.
        activation: a, [k + 1], coefficients a_0 … a_k of P; higher ones are 0.
        monomials: which coefficients to compute; with a window or a degree below P's the network
            has others too.
        biases: c, [m]; None is none. With them, higher a_t contribute to lower degrees.
        multiplicities: if True, W̄ is the coefficient of each distinct monomial, and the polynomial
            equals the network with activation P. If False, as S3 prints it, each order of the
            same product has its own coefficient.

    Returns:
        [p, q], comparable with `Polynomial.monomial_coef`. An output bias adds to row 0.

    Raises:
        ModelError: the arrays are not one layer on the monomials' inputs.
        SettingError: activation is empty or not finite.

    Cost: m · p · (k + q) multiplications, m · p values.
    Source: S3 eqs. (3.4), (3.23), which lack the multinomial coefficient and the biases.
    """
    a = np.asarray(activation, dtype=np.float64)
    if a.ndim != 1 or not len(a) or not np.isfinite(a).all():
        raise SettingError(
            "activation must be the finite coefficients a_0, a_1, … of a polynomial; got "
            f"{activation!r}. l2_activation or minimax_activation give them as `.coef`."
        )
    sums = _sum_products(weights, output_weights, monomials, biases, multiplicities, len(a))
    return sums @ a


def posterior_activation(
    monomial_coef: Float[np.ndarray, "rows columns"],
    weights: Float[np.ndarray, "inputs m"],
    output_weights: Float[np.ndarray, "units ..."],
    monomials: Monomials,
    *,
    biases: Float[np.ndarray, " hidden"] | None = None,
    multiplicities: bool = True,
) -> Float[np.ndarray, " k"]:
    """Return the activation that brings a network's tensor weights closest to β.

    min_a Σ_α (β_α − W̄_α(a))²: without biases a_t = Σ x β / Σ x² over the weights of degree t

    Args:
        monomial_coef: β, [p, q], `Polynomial.monomial_coef` of a regression on the same monomials.
        weights: W, [d, m].
        output_weights: b, [m, q], or [m] for one output.
        monomials: of β.
        biases: c, [m]; None is none. With them all degrees are fitted together.
        multiplicities: as in `tensor_weights`.

    Returns:
        [k + 1], k the monomials' degree; 0 where no weight depends on a_t (a_0 where Σ b = 0).

    Raises:
        ModelError: the arrays are not one layer on the monomials' inputs.
        DataError: β has another shape than the tensor weights.

    Cost: twice that of `tensor_weights`, and a least-squares problem of k + 1 unknowns.
    Source: S3 eqs. (3.24)–(3.26).
    """
    n_coef = monomials.terms.shape[1] + 1
    sums = _sum_products(weights, output_weights, monomials, biases, multiplicities, n_coef)
    if monomial_coef.shape != sums.shape[:2]:
        raise DataError(
            f"monomial_coef must be [{sums.shape[0]}, {sums.shape[1]}], monomials by outputs; got "
            f"{list(monomial_coef.shape)}. Fit the regression on the same monomials."
        )
    design = sums.reshape(-1, n_coef)
    # Where positive and negative terms cancel, only rounding is left, which cannot determine a_t.
    absolute_sums = _sum_products(
        np.abs(weights), np.abs(output_weights), monomials, map_optional(np.abs, biases),
        multiplicities, n_coef,
    )  # fmt: skip
    norm = np.linalg.norm(design, axis=0)
    is_known = norm > ROUNDING * np.linalg.norm(absolute_sums.reshape(-1, n_coef), axis=0)
    coef = np.zeros(n_coef)
    scaled = design[:, is_known] / norm[is_known]
    coef[is_known] = np.linalg.lstsq(scaled, monomial_coef.ravel(), rcond=None)[0] / norm[is_known]
    return coef


def weight_match(
    regression: Float[np.ndarray, "p q"],
    network: Float[np.ndarray, "rows columns"],
    monomials: Monomials,
) -> WeightMatch:
    """Compare a network's tensor weights with a regression's, degree by degree.

    Args:
        regression: β, [p, q], `Polynomial.monomial_coef`.
        network: W̄, [p, q], `tensor_weights`.
        monomials: of both.

    Returns:
        Three measures per degree, without the constant.

    Raises:
        DataError: the shapes do not match the monomials.

    Source: S3 Tables 3.8 and 3.9.
    """
    if regression.shape != network.shape or len(regression) != monomials.n_features:
        raise DataError(
            f"regression and network must both be [{monomials.n_features}, q]; got "
            f"{list(regression.shape)} and {list(network.shape)}."
        )
    degrees = np.arange(1, monomials.terms.shape[1] + 1)
    rows_by_degree = [monomials.degree == t for t in degrees]
    pairs = [(regression[rows].ravel(), network[rows].ravel()) for rows in rows_by_degree]
    return WeightMatch(
        degree=degrees,
        n_weights=np.array([len(y) for y, _ in pairs]),
        determination=np.array([_determination(y, x, y.mean()) for y, x in pairs]),
        determination_from_zero=np.array([_determination(y, x, 0.0) for y, x in pairs]),
        squared_correlation=np.array([_squared_correlation(y, x) for y, x in pairs]),
    )


def _sum_products(
    weights: Float[np.ndarray, "inputs m"],
    output_weights: Float[np.ndarray, "units ..."],
    monomials: Monomials,
    biases: Float[np.ndarray, " hidden"] | None,
    multiplicities: bool,
    n_coef: int,
) -> Float[np.ndarray, "p q k"]:
    """Return the factor of each activation coefficient in each tensor weight, [p, q, k + 1]."""
    b, c = _check_layers(weights, output_weights, biases, monomials)
    products = monomials.features(weights.T)  # [m, p], times the root of the multiplicity
    if multiplicities:
        products *= monomials.scale
    else:
        products *= 1 / monomials.scale
    sums = np.zeros((monomials.n_features, b.shape[1], n_coef))
    for t in range(n_coef):
        lowest = t if biases is None else 0
        for r in range(lowest, t + 1):
            rows = monomials.degree == r
            # (w·x + c)^t holds C(t, r) c^(t − r) (w·x)^r.
            of_unit = comb(t, r) * c ** (t - r)  # [m]
            sums[rows, :, t] = products[:, rows].T @ (b * of_unit[:, None])
    return sums


def _determination(y: Float[np.ndarray, " n"], x: Float[np.ndarray, " n"], center: float) -> float:
    total = float(((y - center) ** 2).sum())
    if total > 0:
        return 1 - float(((y - x) ** 2).sum()) / total
    return float("nan")


def _squared_correlation(y: Float[np.ndarray, " n"], x: Float[np.ndarray, " n"]) -> float:
    y = y - y.mean()
    x = x - x.mean()
    total = float((y @ y) * (x @ x))
    if total > 0:
        return float(x @ y) ** 2 / total
    return float("nan")


def _check_layers(
    weights: np.ndarray, output_weights: np.ndarray, biases: np.ndarray | None, monomials: Monomials
) -> tuple[Float[np.ndarray, "m q"], Float[np.ndarray, " m"]]:
    """Return output weights [m, q] and biases [m], 0 if None; raise if shapes differ."""
    if weights.ndim != 2 or len(weights) != monomials.n_inputs:
        raise ModelError(
            f"weights must have one row for each of the monomials' {monomials.n_inputs} inputs; "
            f"got {list(weights.shape)}. A torch layer's weight must be transposed."
        )
    m = weights.shape[1]
    if biases is None:
        c = np.zeros(m)
    else:
        c = np.asarray(biases, dtype=np.float64)
    if len(output_weights) != m or output_weights.ndim > 2 or c.shape != (m,):
        raise ModelError(
            f"output_weights must be [{m}, q] and biases [{m}], one row per hidden unit; got "
            f"{list(output_weights.shape)} and {list(c.shape)}."
        )
    return np.asarray(output_weights, dtype=np.float64).reshape(m, -1), c
