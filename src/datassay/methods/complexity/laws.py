"""Laws of growth of the sample complexity with network size, fitted to medians."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Real

from datassay.errors import DataError
from datassay.methods.complexity.settings import Curve
from datassay.results import result
from datassay.rules import at_least, fraction, require

# Exponents tried, 0.01 apart; the best is refined by a parabola through three points.
EXPONENTS = np.linspace(-3, 6, 901)
FORMULAS = {
    "linear": "N = a + b·{t}",
    "log": "N = a + b·log {t}",
    "power": "N = b·{t}^c",
    "power_log": "N = b·{t}^c·log {t}",
    "log_power": "N = b·(log {t})^c",
}


@result
class Law:
    """One fitted law of growth.

    Attributes:
        kind: a key of FORMULAS.
        formula: the law with its numbers, as text.
        coef: "a", "b", "c" → value, where the law has it; least squares on N.
        interval: the same names → lower and upper bound of the bootstrap.
        r_squared: share of the medians' variance that the law explains; negative where it is
            worse than their mean.
        r_squared_interval: bounds of the bootstrap, whose medians scatter more than those of the
            fit: R² can lie above.
        size_range: smallest and largest size fitted.
        level: share of the bootstrap resamples inside each interval.
    """

    kind: str
    formula: str
    coef: dict[str, float]
    interval: dict[str, tuple[float, float]]
    r_squared: float
    r_squared_interval: tuple[float, float]
    size_range: tuple[float, float]
    level: float

    def n_samples(self, size: float | Real[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Return the samples that the law expects, also for sizes beyond size_range."""
        t = np.atleast_1d(np.asarray(size, dtype=float))
        slope = self.coef["b"] * _evaluate_growth(self.kind, t, self.coef.get("c", 1.0))
        return self.coef.get("a", 0.0) + slope


def fit_laws(
    size: Real[np.ndarray, " sizes"],
    n_opt: Float[np.ndarray, "sizes teachers"],
    *,
    name: str = "t",
    n_resamples: int = 1000,
    level: float = Curve.level,
    seed: int = Curve.seed,
) -> tuple[Law, ...]:
    """Fit every law of FORMULAS to the medians over teachers.

    Args:
        size: d or m, each at least 2.
        n_opt: sample complexity of each teacher, infinite where not recovered; sizes with an
            infinite median are left out.
        name: name of the size in the formulas: "d", "m".
        n_resamples: bootstrap resamples of the teachers at each size.
        level: confidence level of the intervals.
        seed: random seed of the bootstrap.

    Returns:
        The laws, best R² first.

    Raises:
        DataError: fewer than three sizes have a finite median, a size is below 2, or n_opt has
            another shape.
        SettingError: level is outside (0, 1), or n_resamples is below 1.

    Cost: n_resamples · sizes · 901 operations per law with an exponent.
    Source: S3 eqs. (2.11)-(2.13). Deviation: the exponent is found by least squares (S3 does not
    say how it chose it), and "log" has a constant.
    """
    size = np.asarray(size, dtype=float)
    remedy = "Leave smaller networks out."
    require(size.min() >= 2, "size", "be 2 or more", size.min(), remedy=remedy, error=DataError)
    size, medians = _bootstrap_medians(size, n_opt, n_resamples, level, seed)
    laws = [_fit_law(kind, name, size, medians, level) for kind in FORMULAS]
    return tuple(sorted(laws, key=lambda law: -law.r_squared))


def fit_joint_law(
    n_inputs: Real[np.ndarray, " sizes"],
    width: Real[np.ndarray, " sizes"],
    n_opt: Float[np.ndarray, "sizes teachers"],
    *,
    n_resamples: int = 1000,
    level: float = Curve.level,
    seed: int = Curve.seed,
) -> Law:
    """Fit N = a + b · d · log m to the medians of all sizes at once.

    Args:
        n_inputs: d of each size.
        width: m of each size, at least 2.
        n_opt: sample complexity of each teacher; sizes with an infinite median are left out.
        n_resamples: bootstrap resamples of the teachers at each size.
        level: confidence level of the intervals.
        seed: random seed of the bootstrap.

    Returns:
        The law, "linear" in t = d · log m.

    Raises:
        DataError: fewer than three sizes have a finite median, or n_opt has another shape.
        SettingError: level is outside (0, 1), or n_resamples is below 1.

    Source: S3 eq. (2.14). Deviation: with a constant.
    """
    t = np.asarray(n_inputs, dtype=float) * np.log(np.asarray(width, dtype=float))
    t, medians = _bootstrap_medians(t, n_opt, n_resamples, level, seed)
    return _fit_law("linear", "d·log m", t, medians, level)


def _bootstrap_medians(
    t: np.ndarray, n_opt: np.ndarray, n_resamples: int, level: float, seed: int
) -> tuple[Float[np.ndarray, " sizes"], Float[np.ndarray, "resamples sizes"]]:
    """Return sizes with finite medians, and medians over teachers: row 0 data, then resampled."""
    at_least("n_resamples", n_resamples, 1)
    fraction("level", level, "()")
    n_opt = np.asarray(n_opt, dtype=float)
    fits_sizes = n_opt.ndim == 2 and len(n_opt) == len(t)
    rule = f"be [sizes, teachers] with the {len(t)} sizes"
    require(fits_sizes, "n_opt", rule, f"shape {list(n_opt.shape)}", error=DataError)
    is_finite = np.isfinite(median(n_opt))
    if is_finite.sum() < 3:
        raise DataError(
            "n_opt must have at least three sizes whose median teacher was recovered; got "
            f"{is_finite.sum()} of {len(t)}. Try more sizes, or a larger max_samples."
        )
    rng = np.random.default_rng(seed)
    resampled = _resample_medians(n_opt[is_finite], n_resamples, rng)
    return t[is_finite], np.vstack([median(n_opt[is_finite])[None], resampled])


def _fit_law(
    kind: str,
    name: str,
    t: Float[np.ndarray, " sizes"],
    medians: Float[np.ndarray, "resamples sizes"],
    level: float,
) -> Law:
    """Fit one law to the medians; row 0 is the data's, the others are the bootstrap's."""
    fit: Callable = _fit_power
    if kind in {"linear", "log"}:
        fit = _fit_affine
    coef, fitted = fit(kind, t, medians)
    total_squares = np.square(medians - medians.mean(1, keepdims=True)).sum(1)
    residual_squares = np.square(medians - fitted).sum(1)
    # R² is 1 where all medians of a bootstrap row are the same: there is nothing to explain.
    r2 = 1 - residual_squares / np.where(total_squares > 0, total_squares, np.inf)
    ends = [(1 - level) / 2, (1 + level) / 2]
    bounds = {k: tuple(np.quantile(v[1:], ends).tolist()) for k, v in coef.items()}
    values = {k: float(v[0]) for k, v in coef.items()}
    low, high = np.quantile(r2[1:], ends)
    return Law(
        kind=kind,
        formula=_format_law(kind, name, values),
        coef=values,
        interval=bounds,
        r_squared=float(r2[0]),
        r_squared_interval=(float(low), float(high)),
        size_range=(float(t.min()), float(t.max())),
        level=level,
    )


def _evaluate_growth(kind: str, t: np.ndarray, exponent: float | np.ndarray) -> np.ndarray:
    """Return g(t) of the law N = a + b g(t), such as log t or tᶜ."""
    if kind == "linear":
        return t
    if kind == "log":
        return np.log(t)
    if kind == "power":
        return t**exponent
    if kind == "power_log":
        return t**exponent * np.log(t)
    return np.log(t) ** exponent


def _fit_affine(
    kind: str, t: np.ndarray, medians: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Fit a + b·shape(t) by least squares; return both coefficients, and the fitted medians."""
    basis = np.column_stack([np.ones_like(t), _evaluate_growth(kind, t, 1.0)])  # [sizes, 2]
    coef = np.linalg.lstsq(basis, medians.T, rcond=None)[0]  # [2, resamples]
    return {"a": coef[0], "b": coef[1]}, (basis @ coef).T


def _fit_power(
    kind: str, t: np.ndarray, medians: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Fit b·shape(t)^c; return both coefficients, and the fitted medians."""
    shapes = _evaluate_growth(kind, t[None], EXPONENTS[:, None])  # [exponents, sizes]
    # With the best factor b a shape takes its squared projection off the residual Σ N².
    explained = np.square(medians @ (shapes / np.linalg.norm(shapes, axis=1)[:, None]).T)
    exponent = _find_peak(explained)
    shape = _evaluate_growth(kind, t[None], exponent[:, None])  # [resamples, sizes]
    factor = (medians * shape).sum(1) / np.square(shape).sum(1)
    return {"b": factor, "c": exponent}, factor[:, None] * shape


def _find_peak(
    explained: Float[np.ndarray, "resamples exponents"],
) -> Float[np.ndarray, " resamples"]:
    """Return the exponent of largest explained variance, interpolated by a parabola."""
    peak_idx = np.clip(explained.argmax(1), 1, len(EXPONENTS) - 2)
    rows = np.arange(len(peak_idx))
    lower, middle, upper = (explained[rows, peak_idx + k] for k in (-1, 0, 1))
    curvature = lower - 2 * middle + upper
    has_peak = curvature < 0
    shift = np.where(has_peak, 0.5 * (lower - upper) / np.where(has_peak, curvature, 1), 0.0)
    return EXPONENTS[peak_idx] + np.clip(shift, -1, 1) * (EXPONENTS[1] - EXPONENTS[0])


def median(n_opt: Float[np.ndarray, "sizes teachers"]) -> Float[np.ndarray, " sizes"]:
    """Return the median over teachers, infinite if half of them are (np.median gives NaN there)."""
    ordered = np.sort(n_opt, axis=1)
    n = n_opt.shape[1]
    return (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2


def _resample_medians(
    n_opt: Float[np.ndarray, "sizes teachers"], n_resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "resamples sizes"]:
    """Return medians over teachers drawn with replacement; drop resamples with infinite ones."""
    n_sizes, n_teachers = n_opt.shape
    teachers = rng.integers(n_teachers, size=(n_resamples, n_sizes, n_teachers))
    drawn = n_opt[np.arange(n_sizes)[:, None], teachers]
    medians = median(drawn.reshape(-1, n_teachers)).reshape(n_resamples, n_sizes)
    return medians[np.isfinite(medians).all(1)]


def _format_law(kind: str, name: str, coef: dict[str, float]) -> str:
    """Return the law of FORMULAS with numbers in place of a, b and c."""
    text = FORMULAS[kind].format(t=name)
    for letter, value in coef.items():
        if abs(value) >= 100:
            number = f"{value:.0f}"
        else:
            number = f"{value:.3g}"
        text = text.replace(f"{letter}·", f"{number}·").replace(f"= {letter} ", f"= {number} ")
        text = text.replace(f"^{letter}", f"^{number}")
    return text.replace("+ -", "− ").replace("-", "−")
