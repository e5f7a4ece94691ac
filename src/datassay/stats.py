"""The only "better": intervals of differences, several tests at once, the verdict and its words.

differences paired over seeds and samples → Interval → verdict, alone or with others (Holm)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import chdtrc, stdtr, stdtrit

from datassay.results import result

LEVEL, NORMAL = 0.95, 1.96
# Levels of the first and the last look at a comparison that may end early. Their misses add up to
# those of LEVEL, so that an interval holds whichever look it comes from (Bonferroni over looks; the
# repeated confidence intervals of Jennison and Turnbull, 1989).
LOOKS = (0.99, 0.96)
# Parts whose means say how much a gain varies, where each has one seed.
FEWEST_PARTS = 3
# What may be lost, in units of a score, to count as no loss.
TOLERATED = 0.005
ROUNDING = 1e-12
# No loss is shown where a larger one can be excluded: two points.
MOST_LOST = 0.02
BETTER, PERHAPS, WORSE, SAME = VERDICTS = "better", "perhaps better", "worse", "no difference"
# What may help is expected to gain this at least, in units of a score: one point.
WORTH = 0.01
# The standard deviation of true gains of actions, by which estimated ones are shrunk: three points.
SPREAD_OF_GAINS = 0.03
# An interval around 0 that is wider says less than what it was to tell: it is no figure to lead by.
WIDE = 0.2
SHOWN = 0.0005  # a smaller change is printed as 0, so an interval that begins there includes it
DO, TRY, FREE, LEAVE = ADVICE = "do it", "try it", "no loss shown", "leave it"
_SENTENCES = {
    BETTER: "{ours} does better than {theirs}",
    PERHAPS: "{ours} perhaps does better than {theirs}",
    WORSE: "{ours} does worse than {theirs}",
    SAME: "no difference is shown between {ours} and {theirs}",
}


@result
class Interval:
    """A mean difference and what other seeds and other held-out samples would make of it.

    Attributes:
        gain: mean over seeds and samples.
        half: half the width of the 95 % interval.
        p: two-sided p value of no gain.
    """

    gain: float
    half: float
    p: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.gain - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.gain + self.half

    @property
    def verdict(self) -> str:
        """The verdict on this difference alone; see `verdicts`."""
        return verdicts([self])[0]


def interval(gain: float, error: float, freedom: float = np.inf, level: float = LEVEL) -> Interval:
    """Return the interval of a difference whose standard error is known.

    Args:
        gain: the difference.
        error: its standard error; inf: unknown, so there is no verdict.
        freedom: degrees of freedom of the error.
        level: probability that the interval covers the difference. For one of several looks at
            growing data it is above 95 %, and p is multiplied by 0.05 / (1 − level), at most to 1.

    Returns:
        The interval by Student's t; of no width without any error.
    """
    if not error > 0:
        return Interval(gain, 0.0, float(gain == 0))
    half = float(stdtrit(freedom, (1 + level) / 2) * error)
    p = float(2 * stdtr(freedom, -abs(gain) / error)) * (1 - LEVEL) / (1 - level)
    return Interval(gain, half, min(1.0, p))


def mean_interval(values: Float[np.ndarray, " r"], unit: float = 0.0) -> Interval:
    """Return the interval of the mean of independent differences, per seed or sample.

    Args:
        values: r differences.
        unit: squared weight of one prediction in the score, where values are per sample: imagined
            samples are added as in `paired_interval`; 0: none.

    Returns:
        The interval, by Student's t; infinitely wide for one value.
    """
    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return interval(mean, np.inf)
    if not unit:
        return interval(mean, float(values.std(ddof=1) / np.sqrt(n)), n - 1)
    return interval(mean, _sample_variance(values, unit) ** 0.5, n - 1)


def sum_by_group(
    parts: Sequence[Float[np.ndarray, "r _"]], groups: Sequence[Shaped[np.ndarray, " _"] | None]
) -> list[Float[np.ndarray, "r _"]]:
    """Return the differences summed within each group, [r, groups] for each part.

    Args:
        parts: differences per sample, [r, samples], one array a held-out part; m samples in all.
        groups: the samples' groups, one array a part; None: each sample is a group of its own.

    Returns:
        Per part the sums by group, [r, groups], times G/m, with G groups in all. Their mean is that
        over samples; their spread is the mean's (cluster-robust, Liang and Zeger 1986).
    """
    sums = []
    for part_scores, names in zip(parts, groups, strict=True):
        if names is None:
            group_idx = np.arange(part_scores.shape[1])
        else:
            _, group_idx = np.unique(names, return_inverse=True)
        sums.append(np.stack([np.bincount(group_idx, row) for row in part_scores]))
    n_groups = sum(part_sums.shape[1] for part_sums in sums)
    n_samples = sum(part_scores.shape[1] for part_scores in parts)
    return [group_sums * (n_groups / n_samples) for group_sums in sums]


def paired_interval(
    parts: Sequence[Float[np.ndarray, "_ _"]],
    unit: float = 0.0,
    *,
    is_searched: bool = False,
    level: float = LEVEL,
    base: Sequence[Float[np.ndarray, "_ _"]] = (),
) -> Interval:
    """Return the interval of a mean difference that is paired over seeds and samples.

    Var = Σ_f (m_f/m)² (s²_f / R_f − e²_f / (m_f R_f)) + ((Σ_j d_j² + unit) / (m + 2) − d̄²) / m
          + τ² (1 + 1/F)

    Part f of F has m_f of the m samples and R_f seeds.
    s²_f: variance of the seeds' means; e²_f: that of the residual without seed and sample.
    d_j: sample j's difference, averaged over seeds; d̄: their mean. Two samples are imagined: one
        differs by 0, half of the other by +√unit and half by −√unit. Else a handful of samples that
        a change leaves as they are would give an interval without width.
    τ²: variance of the gain from part to part beyond that. An action is found anew on each part,
        and on all samples once more. It counts if a χ² test at 5 % finds any, or if `is_searched`.
    The variance is at least that by seeds alone and that by samples alone. Degrees of freedom are
    those of Welch and Satterthwaite.

    Args:
        parts: differences of the scores, [R seeds, m samples], one array a held-out part.
        unit: squared weight of one prediction in the score, 1 for accuracy; 0: no imagined samples.
        is_searched: whether a search, anew on each part, found what was changed, such as blocks.
        level: of the interval, one of LOOKS where the data are looked at twice.
        base: scores of the baseline by more seeds, one array per part. Twice their variance over
            seeds counts where it is the larger one; degrees of freedom are theirs.

    Returns:
        The interval; infinitely wide for one seed or one sample. With one seed each in three parts
        or more, the spread of the parts' means is the variance of all together.

    Source: two crossed random effects, and random effects of parts by the method of moments; the
    imagined samples are those of Agresti and Min (2005) for paired proportions.
    """
    gains = np.concatenate([part_gains.mean(0) for part_gains in parts])
    m = len(gains)
    mean = float(gains.mean())
    if min(map(len, parts)) < 2 and len(parts) >= FEWEST_PARTS:
        return _make_interval(parts, gains, unit, is_searched, level)
    if any(min(part_gains.shape) < 2 for part_gains in parts):
        return interval(mean, np.inf)
    share = np.array([(part_gains.shape[1] / m) ** 2 for part_gains in parts])
    seed_var, residual_var, sample_var = np.array([_split_variance(gain) for gain in parts]).T
    by_seed = float(share @ seed_var)
    by_sample = _sample_variance(gains, unit)
    seed_freedom = sum(len(part_gains) - 1 for part_gains in parts)
    if base:
        pairs = zip(base, parts, strict=True)
        base_variance = [
            2 * scores.mean(1).var(ddof=1) / len(part_gains) for scores, part_gains in pairs
        ]
        by_seed = max(by_seed, float(share @ base_variance))
        seed_freedom = sum(len(scores) - 1 for scores in base)
    within_part = max(by_seed, by_sample, by_seed + by_sample - float(share @ residual_var))
    between = _estimate_between(parts, seed_var + sample_var - residual_var, is_searched)
    total = within_part + between
    if not total > 0:
        return interval(mean, 0.0)
    denominator = by_seed**2 / seed_freedom + by_sample**2 / (m - 1)
    denominator += between**2 / max(1, len(parts) - 1)
    return interval(mean, total**0.5, max(1.0, total**2 / denominator), level)


def widen_by_variance(
    gain: float, low: float, high: float, targets: Float[np.ndarray, " m *k"]
) -> tuple[float, float]:
    """Return (low, high) of an R² gain, widened as the targets' variance is estimated.

    low' = g − √((g − low)² + (g − v)²),  high' = g + √((high − g)² + (w − g)²)

    v, w: g e^∓c in ascending order, the gain for the ends of the variance's 95 % interval;
    c = 1.96 √((Σ_j u_j² / m − 1) / m), u_j = (y_j − ȳ)² / s², averaged over k outputs.
    s²: the variance of the m targets. An end that lay beyond 0 stays beyond low e^-c, or high e^-c:
    errors that shrink do so whatever they are divided by.

    Args:
        gain: the difference g of the errors, divided by the variance of these targets.
        low: lower end of the interval that takes this variance for the true one.
        high: its upper end.
        targets: of the m samples that are scored.

    Returns:
        Both ends. Where few targets make up most of the variance, as of incomes, they are far
        wider apart.

    Source: Zou and Donner (2008), whose intervals of two estimates are combined; the logarithm of
    the variance has the error of the delta method. Deviates: no end crosses 0.
    """
    squares = np.square(targets - targets.mean(0))
    variance = squares.mean(0)
    errors = squares.std(0) / np.where(variance > 0, variance, 1) / len(targets) ** 0.5
    factor = float(np.exp(NORMAL * errors.mean()))
    gain_low, gain_high = sorted((gain / factor, gain * factor))
    new_low = gain - float(np.hypot(gain - low, gain - gain_low))
    new_high = gain + float(np.hypot(high - gain, gain_high - gain))
    if low > 0:
        new_low = max(new_low, low / factor)
    if high < 0:
        new_high = min(new_high, high / factor)
    return new_low, new_high


def _make_interval(
    parts: Sequence[np.ndarray],
    gains: Float[np.ndarray, " m"],
    unit: float,
    is_searched: bool,
    level: float,
) -> Interval:
    """Return the mean gain's interval from the variation between parts' means."""
    n = len(parts)
    means = np.array([part_gains.mean() for part_gains in parts])
    part_var = float(means.var(ddof=1))
    total = max(part_var / n, _sample_variance(gains, unit))
    if is_searched:  # what was found on all samples is one more draw
        total += part_var * (1 + 1 / n)
    return interval(float(gains.mean()), total**0.5, n - 1, level)


def _sample_variance(gains: Float[np.ndarray, " m"], unit: float) -> float:
    """Return the variance of the mean gain over samples, two imagined samples counted."""
    m = len(gains)
    return max(0.0, ((gains**2).sum() + unit) / (m + 2) - float(gains.mean()) ** 2) / m


def _split_variance(part_gains: Float[np.ndarray, "R m"]) -> tuple[float, float, float]:
    """Return a part's variance of the mean: over seeds, residual, and over samples."""
    n_seeds, m = part_gains.shape
    by_seed = part_gains.mean(1)
    by_sample = part_gains.mean(0)
    residual = part_gains - by_seed[:, None] - by_sample + part_gains.mean()
    error = float((residual**2).sum() / ((n_seeds - 1) * (m - 1)))
    seed_var = float(by_seed.var(ddof=1)) / n_seeds
    return seed_var, error / (m * n_seeds), float(by_sample.var(ddof=1)) / m


def _estimate_between(
    parts: Sequence[np.ndarray], variances: Float[np.ndarray, " F"], is_searched: bool
) -> float:
    """Return the variance between F parts' means not due to samples, times 1 + 1/F; ≥ 0."""
    # A χ² test decides whether one shows. variances: of each part's mean, over its samples.
    n = len(parts)
    if n < 2:
        return 0.0
    part_var = np.array([part_gains.mean() for part_gains in parts]).var(ddof=1)
    if is_searched:  # by chance the parts' actions can look alike: no less than they differ
        return float(part_var) * (1 + 1 / n)
    expected = variances.mean()
    ratio = 0.0
    if expected > 0:
        ratio = float(part_var / expected)
    if chdtrc(n - 1, (n - 1) * ratio) > 1 - LEVEL:
        return 0.0
    return float(part_var - expected) * (1 + 1 / n)


def verdicts(differences: Sequence[Any]) -> list[str]:
    """Return the verdicts on several differences, tested together.

    Args:
        differences: all that were tried, each with its `gain` and its `p`.

    Returns:
        "better" or "worse" where a gain or loss holds at 5 % together with all others, by Holm's
        steps; "perhaps better" where a gain would hold if it were the only one tried; else "no
        difference".
    """
    results = [PERHAPS if d.p <= 1 - LEVEL and d.gain > 0 else SAME for d in differences]
    for step, i in enumerate(np.argsort([d.p for d in differences], kind="stable")):
        if not differences[i].p <= (1 - LEVEL) / (len(differences) - step):
            break  # Holm: nor do those with a larger p hold
        results[i] = WORSE
        if differences[i].gain > 0:
            results[i] = BETTER
    return results


def advice(gain: float, low: float, high: float) -> str:
    """Return what to do by a gain and its interval: the one rule that every page follows.

    Args:
        gain: the estimate, in units of a score.
        low: lower end of its interval.
        high: upper end.

    Returns:
        DO: it helps, its interval lies above 0; TRY: it may help, a point or more is expected
        (`expected_gain`) and more than two thirds of the interval lie above 0; else LEAVE: it is
        not shown to help.
    """
    if low >= SHOWN:
        return DO
    if expected_gain(gain, low) >= WORTH and high > -2 * low:
        return TRY
    return LEAVE


def expected_gain(gain: float, low: float) -> float:
    """Return what an action gains in the mean where an estimate says `gain`.

    E[g | ĝ] = ĝ τ² / (τ² + e²),  e = (ĝ − low) / 1.96,  τ = SPREAD_OF_GAINS

    Args:
        gain: the estimate ĝ, in units of a score.
        low: lower end of its 95 % interval; −inf: nothing is known of it.

    Returns:
        The gain shrunk towards 0, the more the wider the interval: of several estimates the largest
        is too high, and of those with wide intervals first (Stein 1956; Efron and Morris 1973). A
        gain above 1 stays as it is: only a model whose R² is below 0 gains so much, for which τ,
        that of models of some use, does not hold.
    """
    if gain > 1:
        return gain
    error = (gain - low) / NORMAL
    return gain / (1 + (error / SPREAD_OF_GAINS) ** 2)


def is_vague(low: float, high: float) -> bool:
    """Return whether an interval holds 0 and is too wide to be told in a sentence."""
    return low <= 0 <= high and not high - low <= WIDE


def shows_loss(high: float) -> bool:
    """Return whether an interval that ends at `high` lies below 0 by more than is printed as 0."""
    return high <= -SHOWN


def costs(gain: float, high: float = np.inf) -> bool:
    """Return whether a loss counts: on average above 0.005, or surely above 0."""
    return gain < -TOLERATED - ROUNDING or (gain < 0 and high <= 0)


def sentence(verdict: str, ours: str, theirs: str, *, start: bool = True) -> str:
    """Return a verdict in words, the same everywhere.

    Args:
        verdict: one of VERDICTS.
        ours: what was compared, singular.
        theirs: with what.
        start: whether a sentence starts here, with a capital letter.

    Returns:
        The sentence without its full stop, for figures to follow.
    """
    text = _SENTENCES[verdict].format(ours=ours, theirs=theirs)
    if start:
        return text[0].upper() + text[1:]
    return text
