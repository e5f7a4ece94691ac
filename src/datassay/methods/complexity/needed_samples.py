"""Samples that an accuracy needs, extrapolated by laws fitted to resampled learning curves."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from datassay.errors import SettingError
from datassay.methods.complexity.accuracy_curve import AccuracyCurve
from datassay.methods.complexity.curve_law import LAWS, CurveLaws, fit_curve_laws, join_laws
from datassay.methods.complexity.settings import Curve
from datassay.results import result
from datassay.rules import fraction

# Relative error that even the right law may have at one size; it bounds the weight of a size.
TOLERANCE = 0.02
# A draw leaves out at most MOST_LEFT_OUT of the smallest sizes and keeps FEWEST_SIZES.
MOST_LEFT_OUT, FEWEST_SIZES = 4, 4
CHUNK = 100


@result
class Extrapolation:
    """A learning curve extrapolated beyond its last size.

    Attributes:
        curve: the measured curve.
        law: power law fitted to the mean errors, [1].
        draws: [D] laws, each fitted to a resampled curve.
        level: confidence level of the intervals.
    """

    curve: AccuracyCurve
    law: CurveLaws
    draws: CurveLaws
    level: float

    def score(self, n: Float[np.ndarray, " M"]) -> Float[np.ndarray, "3 M"]:
        """Return the expected accuracy or R² after n samples.

        Args:
            n: numbers of samples.

        Returns:
            Lower end of the interval, median and upper end.
        """
        return 1 - np.quantile(self.draws.errors(np.asarray(n, np.float64)), self._ends[::-1], 0)

    def needed(self, score: float) -> "NeededSamples":
        """Return how many samples the model is expected to need to reach a score.

        Args:
            score: target accuracy or R², in (0, 1).

        Returns:
            Median and interval over the draws: those of `score` read along the other axis, so the
            median curve reaches the score at the median number.

        Raises:
            SettingError: the score is outside (0, 1).
        """
        fraction("the accuracy wanted", score, "()")
        n = np.sort(self.draws.samples(1 - score))
        last_idx = len(n) - 1
        low, median, high = (float(n[round(end * last_idx)]) for end in self._ends)
        return NeededSamples(score, median, low, high, float(np.isfinite(n).mean()), self.level)

    @property
    def covers(self) -> float:
        """Smallest size that every draw was fitted to; below it, draws are unconstrained."""
        sizes = self.curve.sizes
        return float(sizes[_most_left_out(len(sizes))])

    @property
    def ceiling(self) -> Float[np.ndarray, " 3"]:
        """Score for infinitely many samples: lower end, median, upper end."""
        return 1 - np.quantile(self.draws.floor, self._ends[::-1])

    @property
    def _ends(self) -> Float[np.ndarray, " 3"]:
        return np.array([(1 - self.level) / 2, 0.5, (1 + self.level) / 2])


@dataclass(frozen=True, slots=True)
class NeededSamples:
    """Training samples that a score needs.

    Attributes:
        score: target accuracy or R².
        median: median over the draws; infinite where fewer than half ever reach the score.
        low: lower end of the interval.
        high: upper end; infinite where too many draws never reach the score.
        reached_by: share of the draws that ever reach the score.
        level: confidence level of the interval.
    """

    score: float
    median: float
    low: float
    high: float
    reached_by: float
    level: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Score at the largest size, predicted from the smaller sizes.

    Attributes:
        from_n: largest size used for the prediction.
        n: size predicted.
        low: lower end of the interval of the score.
        median: median of the prediction.
        high: upper end.
        measured: mean score measured at n.
    """

    from_n: int
    n: int
    low: float
    median: float
    high: float
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measured score lies in the interval."""
        return self.low <= self.measured <= self.high


def extrapolate(
    curve: AccuracyCurve,
    *,
    level: float = Curve.level,
    draws: int = Curve.draws,
    resample_validation: bool = True,
    seed: int = Curve.seed,
) -> Extrapolation:
    """Fit laws to resampled learning curves.

    Each draw resamples the repeats (whole nested chains, which keeps the correlation of sizes) and
    the validation samples, shifts the curve by the error that all repeats share because they draw
    from the same n samples, leaves out none to four of the smallest sizes, and fits one of the two
    laws of `fit_curve_laws`, in turn. So the spread includes the noise of training and validation
    samples, and part of the uncertainty about the law.

    Args:
        curve: K sizes, R ≥ 2 repeats.
        level: confidence level of the intervals, in (0, 1).
        draws: D.
        resample_validation: False to predict the score on these same validation samples.
        seed: random seed of the draws.

    Returns:
        The laws, from which scores and numbers of samples follow.

    Raises:
        SettingError: level or draws is out of range, or the curve has only one repeat.

    Cost: D K R m operations for the resampled errors, and the fits of `fit_curve_laws`.
    Source: inverse power laws of learning curves as in Cortes et al. (1993); Mahmood et al. (2022),
    "How much more data do I need?", for samples instead of scores; the law "start" is the MMF curve
    in Viering and Loog (2021), started at the best constant guess. The resampling is ours.
    """
    if not 0 < level < 1 or draws < 20:
        raise SettingError(
            f"level must lie in (0, 1) and draws be at least 20; got {level} and {draws}."
        )
    if curve.errors.shape[1] < 2:
        raise SettingError(
            "a curve needs at least 2 repeats of each size, so that its noise is known; got 1."
        )
    rng = np.random.default_rng(seed)
    sizes = curve.sizes.astype(np.float64)
    mean = curve.errors.mean((1, 2))
    weights = 1 / _estimate_variance(curve)
    settings = {"start": curve.start, "reference": float(sizes[-1])}
    errors = _resample(curve, draws, resample_validation, rng)
    errors = errors * _draw_shared_factors(curve, draws, rng)
    # Draws take turns among all pairs of a number of sizes left out and a law.
    variants = list(product(range(1 + _most_left_out(len(sizes))), LAWS))
    parts = [
        fit_curve_laws(
            law, sizes[cut:], errors[i :: len(variants), cut:], weights[cut:], **settings
        )
        for i, (cut, law) in enumerate(variants)
    ]
    law = fit_curve_laws("power", sizes, mean[None], weights, **settings)
    return Extrapolation(curve, law, join_laws(parts), level)


def forecast(
    curve: AccuracyCurve, *, share: float = 0.5, level: float = Curve.level, seed: int = Curve.seed
) -> Forecast | None:
    """Test the extrapolation: predict the largest size from those up to a share of it.

    Args:
        curve: the measured curve.
        share: of the largest size, in (0, 1).
        level: confidence level of the interval.
        seed: random seed of the draws.

    Returns:
        Prediction and measurement on the same validation samples; None where fewer than four sizes
        are small enough.
    """
    beginning = curve.up_to(int(share * curve.sizes[-1]))
    if len(beginning.sizes) < FEWEST_SIZES:
        return None
    n = int(curve.sizes[-1])
    extrapolation = extrapolate(beginning, level=level, resample_validation=False, seed=seed)
    low, median, high = extrapolation.score(np.array([float(n)]))[:, 0]
    return Forecast(
        from_n=int(beginning.sizes[-1]), n=n, low=float(low), median=float(median),
        high=float(high), measured=float(curve.score[-1].mean()),
    )  # fmt: skip


def _most_left_out(n_sizes: int) -> int:
    """Return how many of the smallest sizes a draw may leave out."""
    return min(MOST_LEFT_OUT, max(0, n_sizes - FEWEST_SIZES))


def _estimate_variance(curve: AccuracyCurve) -> Float[np.ndarray, " K"]:
    """Return the squared standard error of the mean error at each size, [K]."""
    # Of the mean over repeats, of the law itself, and one validation sample, so that none is 0.
    error = curve.errors.mean(2)
    repeats, m = curve.errors.shape[1:]
    of_mean = error.var(1, ddof=1) / repeats
    return of_mean + (TOLERANCE * error.mean(1)) ** 2 + 1 / m**2


def _resample(
    curve: AccuracyCurve, draws: int, resamples_validation: bool, rng: np.random.Generator
) -> Float[np.ndarray, "D K"]:
    """Return mean errors over repeats, and validation samples too, drawn with replacement."""
    n_sizes, repeats, m = curve.errors.shape
    fits = curve.errors.reshape(n_sizes * repeats, m)
    means = []
    for start in range(0, draws, CHUNK):
        n_draws = min(CHUNK, draws - start)
        if resamples_validation:
            fit_means = rng.multinomial(m, np.full(m, 1 / m), n_draws) @ fits.T / m
        else:
            fit_means = np.broadcast_to(fits.mean(1), (n_draws, n_sizes * repeats))
        share = rng.multinomial(repeats, np.full(repeats, 1 / repeats), n_draws) / repeats
        fit_means = fit_means.reshape(n_draws, n_sizes, repeats)
        means.append(np.einsum("dkr,dr->dk", fit_means, share))
    return np.concatenate(means)


def _draw_shared_factors(
    curve: AccuracyCurve, draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "D K"]:
    """Draw factors, one per draw and size, by which all repeats' errors are off together."""
    # All repeats take their samples from the same n. Those of n_k samples share n_k/n of their
    # variance; the rest averages out over repeats. The relative spread between repeats at the
    # smaller sizes, where subsets hardly overlap, is used for all sizes. Growing sets keep their
    # samples, so increments are independent.
    error = curve.errors.mean(2)
    relative_spread = error.std(1, ddof=1) / np.maximum(error.mean(1), 1 / curve.errors.shape[2])
    typical_spread = float(np.median(relative_spread[: max(1, len(relative_spread) // 2)]))
    share = curve.sizes / curve.sizes[-1]
    steps = np.sqrt(np.diff(share, prepend=0.0))
    return np.exp(typical_spread * np.cumsum(rng.normal(size=(draws, len(share))) * steps, 1))
