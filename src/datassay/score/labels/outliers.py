"""Outliers of regression: distance of targets from held-out outputs, and P(target is wrong)."""

from collections.abc import Callable
from dataclasses import replace
from math import lgamma, log, log10, pi

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.distributions import StudentT

from datassay.ranks import mean_ranks
from datassay.results import result
from datassay.score.labels.factors import weigh_factor
from datassay.score.labels.ridge import RidgeFit

# A modified z-score beyond this marks an outlier (Iglewicz and Hoaglin, 1993).
OUTLIER_SCORE = 3.5
# Degrees of freedom of Student's t for the residuals of right targets.
DEGREES = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0)
EM_ROUNDS = 200
FIRST_SHARE = 0.05  # of wrong targets, that EM starts from
PARAMETERS = 1  # that wrong targets add: their share
# A value at an end of the range of AT_LIMIT targets and LIMIT_SHARE of all is a limit (a top code)
# and no error, unless it lies further from the next value than the quartiles of the others are
# apart: then it is a code, such as -999.
AT_LIMIT, LIMIT_SHARE = 5, 0.01
ACROSS = 0.25  # part nearer 0 than nine tenths of the others, above which a rare sign is natural
# Of fewer samples it is not asked whether residuals grow with the output, and how.
FEWEST_SCALES, LARGEST_POWER = 50, 2
# Part of the median residual below which residuals are not distinguished: their logarithms would
# outweigh all others.
LEAST = 0.05
# Targets of which so many are positive are also judged as asinh(y / c), by c in medians of |y|: a
# line below c, a logarithm beyond, of either sign. It must raise the log-likelihood, which allows
# for wrong ones, by so many nats.
POSITIVE = 0.9
BENDS = (1.0, 0.1)
GAIN = 10.0
# Where the targets vary so many times as much as their residuals, what the mixture takes for wrong
# is hardly how right ones differ from Student's t: from this score on they stray.
SKILL = 2.0
NEAR_SCORE = -1.0
# On such a scale natural targets stray far too. Wrong are those beyond this score, or so many times
# too large or too small, or of the other sign; others are wrong with a probability of 1/2 at most.
# None is where less than this part of what the mixture takes for wrong strays so far: it describes
# how right ones differ from Student's t then.
FAR_SCORE = 3.5
FACTOR = 6.0
FAR_PART = 0.2
# A factor is looked for where targets vary PREDICTED times as much as their residuals: of targets
# that nothing predicts it only says that some are large. Targets wrong by it with no more than
# LEAST_OF_UNIT may lie among the right ones: their probability is 1/2 at most.
PREDICTED, LEAST_OF_UNIT = 1.2, 0.8
# Larger probabilities count as this: of the targets that the mixture is surer of, 93 % were wrong.
SURE = 0.9
# Shares of wrong targets that are tried, with DEGREES and WIDTHS of the right ones, on MOST_TARGETS
# at most. A share may be if it loses at most LOST nats; its prior falls by e for every RARE.
SHARES = torch.cat([torch.zeros(1), torch.logspace(-2.7, log10(0.5), 28)]).double()
WIDTHS = torch.logspace(-0.6, 0.4, 40, dtype=torch.float64)
MOST_TARGETS = 1000
LOST, RARE = 2.0, 0.05
TINY = torch.finfo(torch.float64).tiny
# Fits in which suspects count as what is expected of them, and penalties tried there: wrong targets
# ask for a larger one than right ones do.
ROUNDS = 3
PENALTIES = (0.1, 1.0, 10.0)


@result
class Outliers:
    """Outliers among held-out residuals.

    Attributes:
        score: modified z-score of the scaled residual minus 3.5, of the output where it is
            largest, [n].
        probability: that the target is wrong, [n].
        log_likelihood: of the targets, wrong ones among them, nats.
        expected: held-out outputs in the unit of the targets, [n, k].
        targets: on the scale on which they are judged, [n, k].
        residual: of these, divided by `unit`, [n, k].
        unit: usual size of right targets' residuals at each, [n, k].
        by_unit: largest share that may be wrong by a factor, as of a unit.
    """

    score: Float[Tensor, " n"]
    probability: Float[Tensor, " n"]
    log_likelihood: float
    expected: Float[Tensor, "n k"]
    targets: Float[Tensor, "n k"]
    residual: Float[Tensor, "n k"]
    unit: Float[Tensor, "n k"]
    by_unit: float

    @property
    def most(self) -> float:
        """Largest share of the targets that may be wrong."""
        columns = zip(self.residual.T, self.targets.T, self.unit.T, strict=True)
        return max(self.by_unit, *(_bound_share(*column) for column in columns))


def best_scale(
    targets: Float[Tensor, "n k"], fit: RidgeFit, refit: Callable[[Float[Tensor, "n k"]], RidgeFit]
) -> Outliers:
    """Find outliers on the raw targets, or on asinh(y / c) if that makes the targets likelier.

    Multiplicative errors, as of a price in another unit, hide in a skewed target.

    Args:
        targets: y.
        fit: held-out ridge fit to y.
        refit: returns such a fit to transformed targets.

    Returns:
        The outliers. Several outputs, and targets of either sign, are never transformed.
    """
    outcome = _refine(targets, fit)
    median = float(targets.abs().median())
    is_positive = (targets > 0).double().mean() >= POSITIVE
    if targets.shape[1] > 1 or len(targets) < FEWEST_SCALES or not is_positive:
        return outcome
    threshold = outcome.log_likelihood + GAIN
    for c in (factor * median for factor in BENDS):
        transformed = torch.asinh(targets.double() / c)
        rescaled = _refine(transformed, refit(transformed), is_bent=True)
        # Less the log slope of asinh(y / c), summed: a density of the targets as they are given.
        likelihood = rescaled.log_likelihood - float((targets.double() ** 2 + c**2).log().sum()) / 2
        if likelihood > threshold:
            outcome = replace(rescaled, expected=c * torch.sinh(rescaled.expected))
            threshold = likelihood
    return outcome


def _refine(targets: Float[Tensor, "n k"], fit: RidgeFit, *, is_bent: bool = False) -> Outliers:
    """Find outliers by refits in which suspects are replaced by their expected targets."""
    outcome = outliers(targets, fit.held_out, is_bent=is_bent)
    was_suspect = torch.zeros(len(targets), dtype=torch.bool)
    for _ in range(ROUNDS if targets.shape[1] == 1 else 0):
        is_suspect = outcome.probability > 0.5
        if not is_suspect.any() or (is_suspect != was_suspect).sum() <= is_suspect.sum() / 50:
            break
        expected = clip_targets(outcome.expected, targets[~is_suspect])
        cleaned = torch.where(is_suspect[:, None], expected, targets.double())
        fit = fit.refit(cleaned, PENALTIES)
        was_suspect = is_suspect
        earlier = outcome
        outcome = outliers(targets, fit.held_out, is_bent=is_bent)
        # What strays further from a fit that it does not bend is as wrong as it was.
        p_least = torch.where(outcome.score >= earlier.score, earlier.probability * is_suspect, 0.0)
        outcome = replace(outcome, probability=outcome.probability.maximum(p_least))
    return outcome


def outliers(
    targets: Float[Tensor, "n k"], held_out: Float[Tensor, "n k"], *, is_bent: bool = False
) -> Outliers:
    """Return each target's score, by the residual of its worst output, and P(target is wrong).

    Residuals that grow with the held-out output, as those of a skewed target, are divided by how
    large they usually are there: the logarithm of the residual's size as a polynomial in the rank
    of the output, up to the second power, as far as the Bayesian information criterion asks for it.

    Right targets deviate from the held-out output as Student's t, whose scale and degrees of
    freedom are fitted. Wrong ones lie anywhere in the range of the targets; half of those with a
    rare sign where they would be right with the other. Targets that one factor explains, as of a
    unit, are taken first. The share of the rest is 0 unless it raises the log-likelihood by more
    than 1 (Akaike's criterion). Probabilities exceed 1/2 only for targets at no limit of the range
    that stray: by their score, to a rare sign, or as far as a bent scale asks. Nearer ones cannot
    be told from right ones that are no t.

    Args:
        targets: y.
        held_out: outputs for each sample from the fit without it.
        is_bent: whether both are asinh(y / c).

    Source: ours; scales by regressing log |r| (Harvey 1976); the score: Iglewicz and Hoaglin
    (1993), the mean absolute deviation where the median one is 0.
    """
    residual = (targets - held_out).double()
    residual = residual - residual.median(0).values
    scales = torch.stack([_scales(r, o) for r, o in zip(residual.T, held_out.T, strict=True)], 1)
    residual = residual / scales
    distance = residual.abs()
    spread = _median_deviation(residual)
    # Where half of the residuals are equal, as for 2 samples, take the mean deviation; for repeated
    # samples that is rounding, which must not make an outlier either.
    spread = torch.where(spread > 0, spread, 1.2533 * distance.mean(0))
    rounding = len(residual) * torch.finfo(torch.float64).eps * targets.abs().amax(0)
    rounding = rounding.double().clamp_min(torch.finfo(torch.float64).tiny)
    spread = spread.maximum(rounding)
    score = (distance / spread).amax(1) - OUTLIER_SCORE
    extent = (targets.amax(0) - targets.amin(0)).double()[:, None]
    has_rare_sign = torch.stack([_flag_rare_sign(y) for y in targets.T], 1)
    is_turned = has_rare_sign & (targets * held_out < 0)
    opposite = torch.where(is_turned, (-targets - held_out) / (scales * spread), torch.inf)
    skill = _median_deviation(targets.double()) / (scales.median(0).values * spread)
    least_score = torch.where(skill >= SKILL, NEAR_SCORE, 0.0).amin()
    stray = (score > least_score) | is_turned.any(1)
    if is_bent:  # where natural targets stray, too
        ratio = (torch.sinh(targets) / torch.sinh(held_out))[:, 0]
        stray = (ratio <= 1 / FACTOR) | (ratio >= FACTOR)
        stray = (score >= FAR_SCORE) | (stray & (score > NEAR_SCORE))
    center = (targets - held_out).double().median(0).values + held_out
    judged = []
    unit = scales * spread
    z = residual / spread
    for j, y in enumerate(targets.T.double()):

        def of_unit(t, explained, y=y, u=unit[:, j], center=center[:, j], skill=skill[j]):
            if skill < PREDICTED:
                return torch.zeros_like(y), 0.0
            return weigh_factor(y, lambda v: t.log_prob((v - center) / u), explained, is_bent)

        may_stray = stray & ~_flag_limit(targets[:, j])
        column = z[:, j], extent[j] / unit[:, j], opposite[:, j].double()
        judged.append(_estimate_wrong(*column, may_stray, of_unit, is_bent=is_bent))
    probabilities, likelihoods, shares = zip(*judged, strict=True)
    p_wrong = torch.stack(probabilities).amax(0)
    likelihood = sum(likelihoods) - len(residual) * float(spread.log().sum())
    return Outliers(score, p_wrong, likelihood, held_out, targets.double(), z, unit, max(shares))


def least_share(probability: Float[Tensor, " n"]) -> float:
    """Return a lower bound of the share wrong: targets above SURE, less two standard errors."""
    p_sure = probability.double().clamp_max(SURE) * (probability > SURE)
    lower_sum = p_sure.sum() - 2 * (p_sure * (1 - p_sure)).sum().sqrt()
    return float(lower_sum.clamp_min(0) / len(probability))


def _median_deviation(values: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """Return the standard deviation of each column as its median absolute deviation has it."""
    return 1.4826 * (values - values.median(0).values).abs().median(0).values


def clip_targets(
    expected: Float[Tensor, "n k"], observed: Float[Tensor, "r k"]
) -> Float[Tensor, "n k"]:
    """Return expected targets limited to the range of the observed ones, if there are any."""
    limits = (observed if len(observed) else expected).double()
    return expected.double().clamp(limits.amin(0), limits.amax(0))


def _scales(residual: Float[Tensor, " n"], output: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the typical size of residuals at each output level, relative to its geometric mean."""
    n = len(residual)
    size = residual.abs()
    floor = LEAST * size.median()
    if n < FEWEST_SCALES or not floor > 0:
        return torch.ones_like(residual)
    position = 2 * (mean_ranks(output.numpy()) - 0.5) / n - 1
    log_size = size.maximum(floor).log().numpy()
    least_criterion = np.inf
    log_scale = np.zeros(n)
    for power in range(LARGEST_POWER + 1):
        curve = np.polynomial.Polynomial.fit(position, log_size, power, domain=[-1, 1])(position)
        criterion = n * np.log(np.var(log_size - curve)) + np.log(n) * power
        if criterion < least_criterion:
            least_criterion = criterion
            log_scale = curve
    return torch.from_numpy(np.exp(log_scale - log_scale.mean()))


def _flag_rare_sign(y: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Flag targets of a minority sign, unless they are the majority's tail across 0."""
    is_rare = y.sign() == -y.sign().sum().sign()
    if not 0 < is_rare.double().mean() <= 1 - POSITIVE:
        return torch.zeros_like(is_rare)
    bound = float(np.quantile(y[~is_rare].abs(), 1 - POSITIVE))  # below it lies a tenth
    return is_rare & ((y[is_rare].abs() < bound).double().mean() <= ACROSS)


def _flag_limit(y: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Flag targets equal to the range's minimum or maximum, where many are, as if clipped."""
    is_limit = torch.zeros(len(y), dtype=torch.bool)
    for end in (y.min(), y.max()):
        is_end = y == end
        other_values = y[y != end].double().numpy()
        if len(other_values) and is_end.sum() >= max(AT_LIMIT, LIMIT_SHARE * len(y)):
            low, high = np.quantile(other_values, [0.25, 0.75])
            is_limit |= is_end & bool(np.abs(other_values - float(end)).min() <= high - low)
    return is_limit


def _bound_share(z: Float[Tensor, " n"], y: Float[Tensor, " n"], u: Float[Tensor, " n"]) -> float:
    """Return the largest plausible share of wrong targets hidden among Student-t residuals.

    z: residuals in units u of y. Wrong targets are distributed as y, or uniformly over its range.
    """
    step = -(-len(z) // MOST_TARGETS)
    extent = y.max() - y.min()
    z, y, u = z[::step], y[::step], u[::step]
    width = 0.9 * float(_median_deviation(y[:, None]) or y.std()) * len(y) ** -0.2
    if not (width > 0 and extent > 0):
        return 0.0
    kernel = (-(((y[:, None] - y) / width) ** 2) / 2).exp()
    target_density = kernel.mean(1) / (width * (2 * pi) ** 0.5)
    t = StudentT(torch.tensor(DEGREES)[:, None, None], 0.0, WIDTHS[:, None])
    right_density = t.log_prob(z).exp().flatten(0, 1)  # [fits, n]
    largest = 0.0
    for wrong_density in (target_density * u, u / extent):
        fits = (
            torch.lerp(right_density, wrong_density, s).clamp_min(TINY).log().sum(1).max()
            for s in SHARES
        )
        log_posterior = torch.stack(list(fits)) - SHARES / RARE
        largest = max(largest, float(SHARES[log_posterior >= log_posterior.max() - LOST].max()))
    return largest


def _estimate_wrong(
    z: Float[Tensor, " n"], extent: Float[Tensor, " n"], opposite: Float[Tensor, " n"],
    stray: Bool[Tensor, " n"], of_unit: Callable[..., tuple[Tensor, float]], *, is_bent: bool,
) -> tuple[Float[Tensor, " n"], float, float]:  # fmt: skip
    """Return P(target is wrong), the log-likelihood, and the largest share by a common factor.

    In units of the residuals' scale: z, residuals; extent, the targets' range; opposite, residuals
    after a change of sign, ∞ unless the sign is rare. stray: targets that may get more than 1/2.
    of_unit: `weigh_factor` of a t distribution and the targets' log densities.
    """
    mirrored = StudentT(DEGREES[2]).log_prob(opposite)
    log_anywhere = torch.logaddexp(-extent.log(), mirrored) - log(2) * opposite.isfinite()
    # all_right, some_wrong: the log-likelihoods if no target is wrong, and if some are.
    all_right, *_ = _fit_best(z, log_anywhere, stray, 0.0)
    if extent.median() <= 1:  # a wrong target would not stand out
        return torch.zeros_like(z), all_right, 0.0
    # The likelihood is that of wrong ones anywhere: scales are compared by how well both fit.
    all_may = torch.ones_like(stray)
    some_wrong, p_anywhere, log_density, t = _fit_best(z, log_anywhere, all_may, FIRST_SHARE)
    p_wrong, largest_share = of_unit(t, log_density)
    p_either = p_wrong + p_anywhere - p_wrong * p_anywhere
    p_wrong = torch.where(p_wrong > 0.5, p_either, p_wrong)
    is_open = p_wrong <= LEAST_OF_UNIT
    inputs = (z[is_open], log_anywhere[is_open], stray[is_open])
    p_stray = _estimate_stray_wrong(*inputs, is_bent=is_bent)
    p_wrong[is_open] = p_wrong[is_open].clamp_max(0.5).maximum(p_stray)
    log_likelihood = some_wrong if some_wrong - all_right > PARAMETERS else all_right
    return p_wrong, log_likelihood, largest_share


def _estimate_stray_wrong(
    z: Float[Tensor, " n"], log_anywhere: Float[Tensor, " n"], stray: Bool[Tensor, " n"], *,
    is_bent: bool,
) -> Float[Tensor, " n"]:  # fmt: skip
    """Return P(target is wrong) if wrong ones lie anywhere; above 1/2 only where `stray` is set."""
    all_right, *_ = _fit_best(z, log_anywhere, stray, 0.0)
    some_wrong, p_wrong, *_ = _fit_best(z, log_anywhere, stray | is_bent, FIRST_SHARE)
    is_natural = is_bent and bool(p_wrong[stray].sum() < FAR_PART * p_wrong.sum())
    if is_natural or some_wrong - all_right <= PARAMETERS:
        return torch.zeros_like(z)
    return torch.where(stray, p_wrong, p_wrong.clamp_max(0.5))


def _fit_best(
    z: Float[Tensor, " n"], log_anywhere: Float[Tensor, " n"], may_be_wrong: Bool[Tensor, " n"],
    share: float,
) -> tuple[float, Float[Tensor, " n"], Float[Tensor, " n"], StudentT]:  # fmt: skip
    """Return the likeliest of `_fit_mixture`'s fits over degrees of freedom."""
    fits = (_fit_mixture(z, log_anywhere, nu, share, may_be_wrong) for nu in DEGREES)
    return max(fits, key=lambda fit: fit[0])


def _fit_mixture(
    z: Float[Tensor, " n"], log_anywhere: Float[Tensor, " n"], nu: float, share: float,
    may_be_wrong: Bool[Tensor, " n"],
) -> tuple[float, Float[Tensor, " n"], Float[Tensor, " n"], StudentT]:  # fmt: skip
    """Return a mixture fitted by EM: right targets follow a t, wrong ones `log_anywhere`.

    As log-likelihood, P(wrong) and log density, both [n], and the t. nu: its degrees of freedom.
    share: of wrong targets, to start from; 0 stays 0.
    """
    scale = 1.0
    p_wrong = torch.zeros_like(z)
    log_likelihood = -torch.inf
    t_scale = scale  # the one of the last densities
    log_density = p_wrong
    floor = torch.finfo(torch.float64).eps
    z_squared = z.square()
    log_constant = lgamma((nu + 1) / 2) - lgamma(nu / 2) - log(nu * pi) / 2
    for _ in range(EM_ROUNDS):
        t_scale = scale
        scaled_squares = z_squared / scale**2
        # log_prob of StudentT, whose checks and broadcasts take longer than the densities.
        log_t = torch.log1p(scaled_squares / nu) * (-(nu + 1) / 2) + (log_constant - log(scale))
        log_share = log(share) if share else -torch.inf
        joint = torch.stack([log_t + log(1 - share), log_anywhere + log_share])
        log_density = torch.logsumexp(joint, 0)
        earlier = log_likelihood
        log_likelihood = float(torch.where(may_be_wrong, log_density, joint[0]).sum())
        p_wrong = (joint[1] - log_density).exp()
        p_right = 1 - p_wrong * may_be_wrong
        weight = p_right * (nu + 1) / (nu + scaled_squares)
        variance = float((weight * z_squared).sum() / p_right.sum().clamp_min(floor))
        scale = max(floor, variance**0.5)
        if share:
            share = min(0.49, float(1 - p_right.mean()))
        if log_likelihood - earlier < 1e-9 * abs(log_likelihood):
            break
    return log_likelihood, p_wrong, log_density, StudentT(nu, 0.0, t_scale)
