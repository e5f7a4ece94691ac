"""The form of label noise: one rate, a rate of each class, or a few pairs of classes."""

from collections.abc import Callable
from math import inf

from datassay.results import result
from datassay.score.labels.likelihood import MOST_INTERCEPTS, Form, NoiseFit, class_cost

# By how much noise that depends on the class must explain the labels better than one rate, beyond
# half a nat a parameter: nats per sample, and nats in all, of two classes and of more. Hardness,
# and noise of a region of the inputs, imitate less of it.
LEAST_GAIN = (0.005, 0.025)
LEAST_NATS = (20.0, 5.0)
LEAST_OF_PAIRS = 15.0  # nats by which a few pairs of classes must do so, each of which is named
ENOUGH = 0.025  # nats per sample that are believed of few samples too
# Of two classes noise of one class and that of a region imitate each other between these nats: the
# order is drawn from both readings, the nearer to the second the more nats.
OPEN_NATS = 2.0


@result
class NoiseSearch:
    """The form of noise that explains the labels best.

    Attributes:
        chosen_fit: one rate unless another form explains them better than it costs.
        rival_fit: of two classes, a form that comes near to that; else one rate.
        rival_weight: from 0 to 1, how near.
        noisy_fits: all that were tried, of which a belief is made.
        gain: nats per sample by which the best other form leads one rate; −inf if none was tried.
    """

    chosen_fit: NoiseFit
    rival_fit: NoiseFit
    rival_weight: float
    noisy_fits: list[NoiseFit]
    gain: float


def search_forms(
    fit: Callable[..., NoiseFit], uniform_fit: NoiseFit, noise: str, n: int
) -> NoiseSearch:
    """Fit the forms of noise that may pay for their parameters, and choose one.

    Args:
        fit: fits a form of noise from a start: `fit(form=, start=)`.
        uniform_fit: the fit of one rate.
        noise: "auto" compares all forms; "uniform" or "class": that kind alone.
        n: number of samples.

    Returns:
        The fits, and which one explains the labels.
    """
    k = len(uniform_fit.transition)
    chosen_fit = rival_fit = uniform_fit
    rival_weight = 0.0
    start = None
    gain = -inf
    best_nats = 0.0
    noisy_fits = [uniform_fit]
    if noise == "class":
        best_nats = -inf
        noisy_fits = []
    least_by_class = max(n * LEAST_GAIN[k > 2], min(LEAST_NATS[k > 2], n * ENOUGH))
    forms: list[tuple[Form, float]] = [("by class", least_by_class), ("pairs", LEAST_OF_PAIRS)]
    for form, least_nats in forms:
        if not can_pay(form, noise, k, -uniform_fit.log_likelihood - least_nats):
            continue
        candidate = fit(form=form, start=start)
        start = candidate.transition
        noisy_fits.append(candidate)
        nats = candidate.log_likelihood - uniform_fit.log_likelihood - candidate.cost
        gain = max(gain, nats / n)
        if nats > best_nats and (noise == "class" or nats > least_nats):
            chosen_fit = candidate
            best_nats = nats
        elif k == 2 and nats > OPEN_NATS:
            rival_weight = (nats - OPEN_NATS) / (least_nats - OPEN_NATS)
            rival_fit = candidate
    return NoiseSearch(chosen_fit, rival_fit, rival_weight, noisy_fits, gain)


def can_pay(form: Form, noise: str, k: int, most_nats: float) -> bool:
    """Return whether a form of noise may be asked for, and can gain more nats than it costs."""
    if form == "pairs":
        return noise != "uniform" and 2 < k <= MOST_INTERCEPTS  # two classes have two pairs
    return noise == "class" or (noise == "auto" and k > 1 and most_nats > class_cost(k))
