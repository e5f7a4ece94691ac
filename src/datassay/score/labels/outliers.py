"""Regression: how far a target lies from its held-out output, and how likely it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor

from datassay.progress import silent
from datassay.results import result
from datassay.score.labels.ridge import RidgeFit

# A modified z-score beyond this marks an outlier (Iglewicz and Hoaglin, 1993).
OUTLIER_SCORE = 3.5
# Degrees of freedom of Student's t for the residuals of right targets.
DEGREES = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0)
EM_ROUNDS = 200
PARAMETERS = 1  # that wrong targets add: their share
# Of fewer samples it is not asked whether residuals grow with the output, and how.
FEWEST_SCALES, LARGEST_POWER = 50, 2
# Part of the median residual below which residuals are not distinguished: their logarithms would
# outweigh all others.
LEAST = 0.05
# Targets of which so many are positive are also judged as asinh(y / c), by c in medians of |y|: a
# line below c, a logarithm beyond, of either sign. It must raise the log-likelihood, which allows
# for wrong ones, by so many nats.
POSITIVE, BENDS, GAIN = 0.9, (1.0, 0.1), 10.0
# On such a scale natural targets stray far too. Wrong are those beyond this score, or so many times
# too large or too small, or of the other sign; others are wrong with a probability of 1/2 at most.
FAR_SCORE, FACTOR = 3.5, 6.0
ROUNDS = 1  # of fits in which suspects count as what is expected of them


@result
class Outliers:
    """Outliers among held-out residuals.

    Attributes:
        score: modified z-score of the scaled residual minus 3.5, of the output where it is
            largest, [n].
        probability: that the target is wrong, [n].
        log_likelihood: of the targets, wrong ones among them, nats.
        expected: held-out outputs in the unit of the targets, [n, k].
    """

    score: Float[Tensor, " n"]
    probability: Float[Tensor, " n"]
    log_likelihood: float
    expected: Float[Tensor, "n k"]


def best_scale(
    targets: Float[Tensor, "n k"],
    fit: RidgeFit,
    refit: Callable[[Float[Tensor, "n k"]], RidgeFit],
) -> Outliers:
    """Outliers of the targets as they are, or on the scale that makes them likeliest.

    Errors that multiply, as of a price in another unit, hide in a skewed target.

    Args:
        targets: given.
        fit: of them.
        refit: the fit of other targets.

    Returns:
        The outliers; several outputs, and targets of either sign, are judged as they are.
    """
    best, size = _settled(targets, fit), float(targets.abs().median())
    is_positive = (targets > 0).double().mean() >= POSITIVE
    if targets.shape[1] > 1 or len(targets) < FEWEST_SCALES or not (is_positive and size > 0):
        return best
    least = best.log_likelihood + GAIN
    for c in (share * size for share in BENDS):
        bent = torch.asinh(targets.double() / c)
        found = _settled(bent, refit(bent))
        likelihood = found.log_likelihood - float((targets.double() ** 2 + c**2).log().sum()) / 2
        if likelihood > least:
            best, least = _in_unit(bent, found, c), likelihood
    return best


def _in_unit(bent: Float[Tensor, "n 1"], found: Outliers, c: float) -> Outliers:
    """Outliers of a bent scale in the unit of the targets, of which only far ones are wrong."""
    expected = c * torch.sinh(found.expected)
    ratio = (c * torch.sinh(bent) / expected)[:, 0]
    is_near = (found.score < FAR_SCORE) & (ratio > 1 / FACTOR) & (ratio < FACTOR)
    probability = torch.where(is_near, found.probability.clamp_max(0.5), found.probability)
    return replace(found, probability=probability, expected=expected)


def _settled(targets: Float[Tensor, "n k"], fit: RidgeFit) -> Outliers:
    """Outliers by fits in which suspects count as what is expected of them: they bend no other."""
    found = outliers(targets, fit.held_out)
    for _ in range(ROUNDS if targets.shape[1] == 1 else 0):
        wrong = found.probability > 0.5
        if not wrong.any():
            break
        mended = torch.where(wrong[:, None], found.expected, targets.double())
        found = outliers(targets, fit.held_out_of(mended, silent))
    return found


def outliers(targets: Float[Tensor, "n k"], held_out: Float[Tensor, "n k"]) -> Outliers:
    """Score the residuals, worst output first.

    Residuals that grow with the held-out output, as those of a skewed target, are divided by how
    large they usually are there: the logarithm of the residual's size as a polynomial in the rank
    of the output, up to the second power, as far as the Bayesian information criterion asks for it.

    Right targets deviate from the held-out output as Student's t, of a scale and degrees of freedom
    that are fitted; wrong ones lie anywhere in the range of the targets. Their share is 0 unless it
    raises the log-likelihood by more than 1 (Akaike's criterion).

    Args:
        targets: given.
        held_out: outputs for each sample from the fit without it.

    Returns:
        Scores and probabilities.

    Source: ours; scales by regressing log |r| (Harvey 1976); the score: Iglewicz and Hoaglin
    (1993), the mean absolute deviation where the median one is 0.
    """
    residual = (targets - held_out).double()
    residual = residual - residual.median(0).values
    scales = torch.stack([_scales(r, o) for r, o in zip(residual.T, held_out.T, strict=True)], 1)
    residual = residual / scales
    distance = residual.abs()
    spread = 1.4826 * distance.median(0).values
    # Where half of the residuals are equal, as for 2 samples, take the mean deviation; for repeated
    # samples that is rounding, which must not make an outlier either.
    spread = torch.where(spread > 0, spread, 1.2533 * distance.mean(0))
    least = len(residual) * torch.finfo(torch.float64).eps * targets.abs().amax(0)
    least = least.double().clamp_min(torch.finfo(torch.float64).tiny)
    spread = spread.maximum(least)
    score = (distance / spread).amax(1) - OUTLIER_SCORE
    extent = (targets.amax(0) - targets.amin(0)).double()[:, None]
    each = zip(residual.T, spread, extent / scales.T, strict=True)
    found = [_probability(r, float(s), e) for r, s, e in each]
    probability = torch.stack([p for p, _ in found])
    likelihood = sum(one for _, one in found) - len(residual) * float(spread.log().sum())
    return Outliers(score, probability.amax(0), likelihood, held_out)


def _scales(residual: Float[Tensor, " n"], output: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """How large residuals usually are at each output, relative to their geometric mean."""
    n, size = len(residual), residual.abs()
    least = LEAST * size.median()
    if n < FEWEST_SCALES or not least > 0:
        return torch.ones_like(residual)
    position = 2 * (rankdata(output.numpy()) - 0.5) / n - 1
    wanted, best, fitted = size.maximum(least).log().numpy(), np.inf, np.zeros(n)
    for power in range(LARGEST_POWER + 1):
        curve = np.polynomial.Polynomial.fit(position, wanted, power, domain=[-1, 1])(position)
        criterion = n * np.log(np.var(wanted - curve)) + np.log(n) * power
        if criterion < best:
            best, fitted = criterion, curve
    return torch.from_numpy(np.exp(fitted - fitted.mean()))


def _probability(
    residual: Float[Tensor, " n"], spread: float, extent: Float[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], float]:
    """That each target is wrong, 0 for all where no share of wrong ones is needed; likelihood."""
    z, anywhere = residual / spread, (spread / extent).log()
    none = max(_mixture(z, anywhere, nu, 0.0)[0] for nu in DEGREES)
    if extent.median() <= spread:  # a wrong target would not stand out
        return torch.zeros_like(residual), none
    some, probability = max((_mixture(z, anywhere, nu, 0.05) for nu in DEGREES), key=lambda m: m[0])
    if some - none <= PARAMETERS:
        return torch.zeros_like(z), none
    return probability, some


def _mixture(
    z: Float[Tensor, " n"], anywhere: Float[Tensor, " n"], nu: float, share: float
) -> tuple[float, Float[Tensor, " n"]]:
    """Log-likelihood and P(wrong), by EM for the scale of t and the share of wrong targets."""
    scale, wrong, likelihood = 1.0, torch.zeros_like(z), -torch.inf
    floor = torch.finfo(torch.float64).eps
    for _ in range(EM_ROUNDS):
        t = torch.distributions.StudentT(nu, 0.0, scale, validate_args=False)
        joint = torch.stack([t.log_prob(z) + log(1 - share), anywhere.clone()])
        joint[1] += log(share) if share else -torch.inf
        each = torch.logsumexp(joint, 0)
        before, likelihood = likelihood, float(each.sum())
        wrong = (joint[1] - each).exp()
        weight = (1 - wrong) * (nu + 1) / (nu + (z / scale) ** 2)
        scale = max(floor, float((weight * z**2).sum() / (1 - wrong).sum().clamp_min(floor)) ** 0.5)
        share = min(0.49, float(wrong.mean())) if share else 0.0
        if likelihood - before < 1e-9 * abs(likelihood):
            break
    return likelihood, wrong
