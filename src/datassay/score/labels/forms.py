"""The form of label noise: one rate, a rate of each class, or a few pairs of classes."""

from collections.abc import Callable
from math import inf

from datassay.results import result
from datassay.score.labels.likelihood import MOST_INTERCEPTS, Form, NoiseFit, class_cost

# By how much noise that depends on the class must explain the labels better than one rate, beyond
# half a nat a parameter: nats per sample, and nats in all, each for (two classes, more). Hardness,
# and noise of a region of the inputs, imitate less of it.
LEAST_GAIN = (0.005, 0.025)
LEAST_NATS = (20.0, 5.0)
LEAST_OF_PAIRS = 15.0  # nats by which a few pairs of classes must do so, each of which is named
ENOUGH = 0.025  # nats per sample that are believed of few samples too
# With two classes, noise of one class and noise of a region imitate each other from these nats to
# the least ones: there the order mixes both readings, with more of the class's the more nats.
OPEN_NATS = 2.0


@result
class NoiseSearch:
    """The form of noise that explains the labels best.

    Attributes:
        chosen_fit: one rate unless another form explains them better than it costs.
        rival_fit: with two classes, noise by class that nearly gains enough; else one rate.
        rival_weight: of the rival fit in the order of suspects, from 0 to 1.
        noisy_fits: all fits to be weighed as explanations.
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
    """Fit the forms of noise whose gain can exceed the cost of their parameters, and choose one.

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
    has_more_classes = k > 2
    enough_nats = min(LEAST_NATS[has_more_classes], n * ENOUGH)
    least_by_class = max(n * LEAST_GAIN[has_more_classes], enough_nats)
    forms: list[tuple[Form, float]] = [("by class", least_by_class), ("pairs", LEAST_OF_PAIRS)]
    for form, least_nats in forms:
        most_nats = -uniform_fit.log_likelihood - least_nats  # no likelihood exceeds 1
        if not can_pay(form, noise, k, most_nats):
            continue
        candidate = fit(form=form, start=start)
        start = candidate.transition
        noisy_fits.append(candidate)
        net_gain = candidate.log_likelihood - uniform_fit.log_likelihood - candidate.cost
        gain = max(gain, net_gain / n)
        if net_gain > best_nats and (noise == "class" or net_gain > least_nats):
            chosen_fit = candidate
            best_nats = net_gain
        elif k == 2 and net_gain > OPEN_NATS:
            rival_weight = (net_gain - OPEN_NATS) / (least_nats - OPEN_NATS)
            rival_fit = candidate
    return NoiseSearch(chosen_fit, rival_fit, rival_weight, noisy_fits, gain)


def can_pay(form: Form, noise: str, k: int, largest_gain: float) -> bool:
    """Return whether `noise` allows the form, and its gain, nats, could exceed its cost."""
    if form == "pairs":
        return noise != "uniform" and 2 < k <= MOST_INTERCEPTS  # two classes have two pairs
    return noise == "class" or (noise == "auto" and k > 1 and largest_gain > class_cost(k))
