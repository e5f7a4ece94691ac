"""Which noise explains the given labels, and how likely each of them is wrong (METHODS §2b).

Held-out outputs alone cannot part wrong labels from hard samples. Two readings bound the truth:
noise of a rate, which no calibration explains, and hardness, by which nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import exp, sqrt

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.errors import SettingError
from datassay.results import result
from datassay.score.labels.likelihood import (
    MOST_INTERCEPTS,
    Fitted,
    Form,
    cost_by_class,
    fitted,
)
from datassay.score.labels.readings import Belief, weigh_readings
from datassay.score.settings import NOISES

Judges = Sequence[Float[Tensor, "n k"]]
Again = Callable[[Float[Tensor, "n k"]], Judges]
"""From probabilities of the true classes to fit to, to the judges' held-out outputs."""
# By how much noise that depends on the class must explain the labels better than one rate, beyond
# half a nat a parameter: nats per sample, and nats in all, of two classes and of more. Hardness,
# and noise of a region of the inputs, imitate less of it.
LEAST_GAIN, LEAST_NATS = (0.005, 0.025), (20.0, 5.0)
LEAST_OF_PAIRS = 15.0  # nats by which a few pairs of classes must do so, each of which is named
ENOUGH = 0.025  # nats per sample that are believed of few samples too
# Of two classes noise of one class and that of a region imitate each other between these nats: the
# order is drawn from both readings, the nearer to the second the more nats.
OPEN_NATS = 2.0
CLEAR_GAIN = 0.08
# The share of wrong labels that fits must expect among those that are called probably wrong.
LISTED = 0.94
# Fits to few samples are surer than they are right: of 80 samples a fifth of the labels with a
# probability of 0.96 were right, of 300 an eighth, of 1500 a tenth. Of 3, 5, 7 and 10 the best.
FEW = 5
CERTAIN = 1e-12  # a probability counts as no nearer to 0 or 1
# Nats by which noise must explain the labels better than hardness for a 1/e of doubt to be left.
BELIEVED, DOUBT_IF_CLEAR = 5.0, 0.25
TIE, SPREAD = 1e-3, 10.0  # of log odds by which equal probabilities are ordered
# How likely all that held-out predictions contradict is wrong, where nothing is for noise or
# against. Of 0.2, 0.25, 0.3 and 0.4 that of the least log loss on the sets that chose.
CONTRADICTED = 0.4
LINE_STEPS, LONGEST_STEP = 60, 1.0
# Log odds of a trusted label; so many tell how often right labels are contradicted; of 95 %.
TRUSTED, LEAST_TRUSTED, NORMAL = -20.0, 20, 1.96
WEAK = 1e-3  # a prior, in nats, where all labels are sure to be right or to be wrong


@result
class LabelNoise:
    """The label noise that explains the given labels best.

    Attributes:
        kind: "uniform" (any other label as often as any) or "class" (depends on the class).
        transition: T[c, l] = P(given l | true c), [k, k].
        gain: nats per sample by which noise that depends on the class, or on some pairs of classes,
            explains the labels better than one rate, less what its parameters cost; −inf where it
            was not tried.
    """

    kind: str
    transition: Float[np.ndarray, "k k"]
    gain: float


@result
class Explained:
    """How noise explains the given labels.

    Attributes:
        noise: that was found.
        is_predicted: whether held-out outputs tell the labels better than the classes' shares;
            else nothing is said of any label.
        posterior: log probability of each true class, the given label known, [n, k].
        log_odds: that the given label is wrong, as the fits have it, [n].
        by_noise: the same, were that noise believed and nothing else, [n].
        share: of wrong labels, at least and at most.
        n_look: labels that are worth a look, the most suspect.
        weights: of the judges, in the reading without noise; 0: not heard.
    """

    noise: LabelNoise
    is_predicted: bool
    posterior: Float[Tensor, "n k"]
    log_odds: Float[Tensor, " n"]
    by_noise: Float[Tensor, " n"]
    share: tuple[float, float]
    n_look: int
    weights: tuple[float, ...]


def check_noise(noise: str, *, is_of_labels: bool) -> None:
    """Refuse a noise that is none of NOISES, or that of labels where there are none."""
    if noise not in NOISES:
        raise SettingError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    if noise != "auto" and not is_of_labels:
        raise SettingError(
            f"noise is of labels; these targets are numbers, and got {noise!r}. Leave it out."
        )


def explain(
    judges: Judges,
    again: Again,
    labels: Int[Tensor, " n"],
    noise: str = "auto",
    trusted: Bool[Tensor, " n"] | None = None,
) -> Explained:
    """Find the noise, and what it says of each label after one more fit to the probable labels.

    Args:
        judges: outputs for each sample of fits to the given labels without it, each [n, k].
        again: the same after a fit to other probabilities of the true classes.
        labels: given.
        noise: "uniform" or "class" leave no choice.
        trusted: labels that are known to be right, not all; None: none is.

    Returns:
        The noise and what follows from it. The order is that of two readings, their log posteriors
        averaged: under one rate before and after the second fit; under noise that depends on the
        class the reading without noise and the second fit, since noise of a region of the inputs
        looks like it, and would turn its order round; where it is clear, the second fit as it is.
        Probabilities up to 1/2 count, besides the noise, that all may be wrong which held-out
        predictions contradict, the less the better noise explains the labels.

    Cost: 5 fits (of two classes 4), and one `again`; of two classes now and then two.
    """
    n, k = judges[0].shape
    trusted = torch.zeros(n, dtype=torch.bool) if trusted is None else trusted
    fit = partial(fitted, labels=labels, trusted=trusted)
    hard = fit(judges, form="none")
    even = fit(judges, form="one rate")
    found, gain, towards, open_one = even, -torch.inf, 0.0, even

    def refitted(one: Fitted) -> Fitted:
        return fit(again(one.log_posterior.exp()), form=one.form, start=one.transition)

    def reading(one: Fitted, second: Fitted) -> Float[Tensor, "n k"]:
        first = hard.log_p if one.form != "one rate" else one.log_posterior
        return torch.log_softmax((first + second.log_posterior) / 2, 1)

    least_by_class = max(n * LEAST_GAIN[k > 2], min(LEAST_NATS[k > 2], n * ENOUGH))
    best = -torch.inf if noise == "class" else 0.0
    forms: tuple[tuple[Form, float], ...] = (
        ("by class", least_by_class),
        ("pairs", LEAST_OF_PAIRS),
    )
    start, noisy = None, [] if noise == "class" else [even]
    for form, least in forms:
        if not _can_pay(form, noise, k, -even.log_likelihood - least):
            continue
        one = fit(judges, form=form, start=start)
        start = one.transition
        noisy.append(one)
        nats = one.log_likelihood - even.log_likelihood - one.cost
        gain = max(gain, nats / n)
        if nats > best and (noise == "class" or nats > least):
            found, best = one, nats
        elif k == 2 and nats > OPEN_NATS:
            towards, open_one = (nats - OPEN_NATS) / (least - OPEN_NATS), one
    is_clear = gain > CLEAR_GAIN  # as where a class is given as one other: no region imitates that
    second = refitted(found)
    posterior = second.log_posterior if is_clear else reading(found, second)
    if towards > 0:
        both = (1 - towards) * posterior + towards * reading(open_one, refitted(open_one))
        posterior = torch.log_softmax(both, 1)
    belief, is_open = weigh_readings(judges, labels, trusted, hard, noisy), ~trusted
    odds = _log_odds(posterior, labels)[is_open]
    by_noise = _order_probabilities(belief.wrong[is_open], odds)
    if is_clear:
        by_noise = torch.logit((1 - belief.hard) * torch.sigmoid(odds), eps=CERTAIN)
    contradicted = -torch.expm1(hard.log_p.gather(1, labels[:, None])[is_open, 0])
    nats = even.log_likelihood - hard.log_likelihood
    doubt = exp(-max(0.0, nats) / BELIEVED) * (DOUBT_IF_CLEAR if is_clear else 1.0)
    log_odds = torch.full((2, n), TRUSTED).double()
    log_odds[:, is_open] = _told(by_noise, contradicted, doubt)
    told, by_noise = log_odds
    alone = hard if len(judges) == 1 else fit(judges[:1], form="none")
    share, n_look = _share((hard, alone), belief, doubt, labels, trusted)
    return Explained(
        noise=_describe_noise(found, second, 0.0 if noise == "class" else belief.hard, gain),
        is_predicted=belief.is_predicted,
        posterior=posterior,
        log_odds=told,
        by_noise=by_noise,
        share=share,
        n_look=n_look,
        weights=tuple(hard.weights.tolist()),
    )


def _describe_noise(found: Fitted, second: Fitted, hard: float, gain: float) -> LabelNoise:
    """Return the noise that was found; where hardness is likelier, as much of it as is believed."""
    is_even, k = found.form == "one rate", len(found.transition)
    transition = found.transition if is_even else second.transition
    if hard <= 0.5:
        return LabelNoise("uniform" if is_even else "class", transition.numpy(), gain)
    identity = torch.eye(k, dtype=torch.float64)
    part = identity + (1 - hard) * (transition - identity)
    return LabelNoise("uniform", part.numpy(), gain)


def _can_pay(form: Form, noise: str, k: int, most: float) -> bool:
    """Whether a form of noise can explain labels better than one rate, of which most is left."""
    if form == "pairs":
        return noise != "uniform" and 2 < k <= MOST_INTERCEPTS  # two classes have two pairs
    return noise == "class" or (noise == "auto" and k > 1 and most > cost_by_class(k))


def _told(
    by_noise: Float[Tensor, " n"], contradicted: Float[Tensor, " n"], doubt: float
) -> Float[Tensor, "2 n"]:
    """Log odds as they are told, and by the noise alone; both in the same order."""
    other, part = torch.sigmoid(_as_probable(by_noise, contradicted)), CONTRADICTED * doubt
    p = (1 - part) * torch.sigmoid(by_noise) + part * other.clamp_max(0.5)
    return torch.stack([torch.where(by_noise > 0, by_noise, torch.logit(p)), by_noise])


def probability(log_odds: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """That labels are wrong: what the fits say, times n / (n + FEW)."""
    return torch.sigmoid(log_odds) * len(log_odds) / (len(log_odds) + FEW)


def listed(log_odds: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Which labels are on the longest list, the most suspect first, that is LISTED wrong.

    Args:
        log_odds: that each label is wrong.

    Returns:
        Whether it is on the list; none of a probability below 1/2.
    """
    top, order = log_odds.sort(descending=True, stable=True)
    p, number = torch.sigmoid(top.double()), torch.arange(1, len(top) + 1)
    long_enough = ((p.cumsum(0) >= LISTED * number) & (probability(top) > 0.5)).nonzero()
    length = int(long_enough[-1]) + 1 if len(long_enough) else 0
    return torch.zeros(len(top), dtype=torch.bool).index_fill_(0, order[:length], True)


def _share(
    hards: tuple[Fitted, Fitted],
    belief: Belief,
    doubt: float,
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
) -> tuple[tuple[float, float], int]:
    """The share of wrong labels, at least and at most, and how many are worth a look."""
    # At least: what nearly all explanations agree on, less two standard errors. At most: what the
    # held-out predictions contradict, of all judges or of the first alone (another may have learned
    # the very rule that wrong labels follow), and one standard error. Worth a look: between what
    # the noise says and what confident learning counts, the nearer to the noise the more believed.
    hard, is_open = hards[0], ~trusted
    n = int(is_open.sum())
    sure = n * belief.least
    error, own = (float((h.log_p.argmax(1) != labels)[is_open].double().mean()) for h in hards)
    low = max(0.0, (sure - 2 * sqrt(sure)) / n)
    most = max(error, own)
    high = min(1.0, most + sqrt(most * (1 - most) / n) + 1 / n)
    if len(labels) - n >= LEAST_TRUSTED:
        contradicted = float((hard.log_p.argmax(1) != labels)[trusted].double().mean())
        low, high = _with_trusted((low, high), error, contradicted, n, trusted, hard.log_p.shape[1])
    by_noise = float(belief.wrong[is_open].mean())
    counted = confident_count(hard.log_p[is_open].exp(), labels[is_open]) / n
    most = min(error, high, max(counted, by_noise))
    n_look = round(n * (by_noise + (most - by_noise) * doubt)) * belief.is_predicted
    part = n / len(labels)
    return (min(low, high) * part, high * part), n_look


def _with_trusted(
    bounds: tuple[float, float], error: float, contradicted: float, n: int,
    trusted: Bool[Tensor, " n"], k: int,
) -> tuple[float, float]:  # fmt: skip
    """Bounds of the share, narrowed by how often labels known to be right are contradicted."""
    # Rogan and Gladen (1978): error = s a + (1 − s) c, where c contradicts right labels and
    # a = 1 − c / (k − 1) wrong ones; each end with both rates two standard errors away. Where
    # right labels are contradicted more often than the others, predictions have learned the very
    # rule that wrong ones follow: then as many as are contradicted may be wrong.
    m, ends = int(trusted.sum()), []
    for sign in (-1, 1):
        e = error + sign * NORMAL * sqrt(error * (1 - error) / n)
        c = contradicted - sign * NORMAL * sqrt(contradicted * (1 - contradicted) / m)
        c = max(0.0, c)
        rest = 1 - c - c / max(1, k - 1)
        ends.append((e - c) / rest if rest > 0 else float(sign > 0))
    if ends[1] <= 0:
        most = contradicted + NORMAL * sqrt(contradicted * (1 - contradicted) / m)
        return bounds[0], min(1.0, max(bounds[1], most))
    low, high = max(bounds[0], ends[0]), min(bounds[1], ends[1])
    return min(low, high), max(low, high)


def confident_count(p: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> float:
    """How many labels confident learning counts as wrong (Northcutt et al. 2021, eqs. 1–3).

    Args:
        p: held-out probabilities.
        labels: given.

    Returns:
        The sum of the confident joint off its diagonal, its rows scaled to the given labels.
    """
    k = p.shape[1]
    counts = labels.bincount(minlength=k).double()
    own = torch.zeros(k, dtype=torch.float64).index_add_(
        0, labels, p.gather(1, labels[:, None])[:, 0]
    )
    least = torch.where(counts > 0, own / counts.clamp_min(1), torch.inf)
    above = p >= least
    likeliest = torch.where(above, p, -1.0).argmax(1)
    is_sure = above.any(1)
    joint = torch.zeros(k * k, dtype=torch.float64).index_add_(
        0, (labels * k + likeliest)[is_sure], torch.ones(int(is_sure.sum()), dtype=torch.float64)
    )
    rows = joint.reshape(k, k)
    contradicted = rows.sum(1) - rows.diagonal()
    return float((contradicted / rows.sum(1).clamp_min(1) * counts).sum())


def _log_odds(posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Of a wrong label, from the log probabilities of the classes."""
    given = posterior.gather(1, labels[:, None])
    others = posterior.scatter(1, labels[:, None], -torch.inf)
    return torch.logsumexp(others, 1) - given[:, 0]


def _order_probabilities(
    probability: Float[Tensor, " n"], log_odds: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Return log odds of these probabilities, those below 1/2 in the order of others."""
    suspect, order = probability > 0.5, log_odds.argsort(stable=True)
    order, top = order[~suspect[order]], torch.logit(probability, eps=CERTAIN)
    top[order] = top[~suspect].sort().values.clamp_max(-TIE)
    return top + TIE * torch.tanh(log_odds / SPREAD) / 2  # parts equals


def _as_probable(
    log_odds: Float[Tensor, " n"], probability: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Log odds scaled and shifted so that they come nearest the probabilities, in cross-entropy."""
    spread = log_odds.std(correction=0)
    if not spread > 0:  # all alike: there is no order to keep
        return torch.logit(probability)
    columns = torch.stack([(log_odds - log_odds.mean()) / spread, torch.ones_like(log_odds)], 1)
    line = torch.zeros(2, dtype=torch.float64)
    # Newton's method for a logistic regression, a convex problem of two numbers.
    for _ in range(LINE_STEPS):
        p = torch.sigmoid(columns @ line)
        gradient = columns.T @ (p - probability) + WEAK * line
        hessian = columns.T @ ((p * (1 - p))[:, None] * columns) + WEAK * torch.eye(
            2, dtype=torch.float64
        )
        step = torch.linalg.solve(hessian, gradient)
        line = line - step / max(1.0, float(step.abs().max()) / LONGEST_STEP)
    return columns @ torch.stack([line[0].clamp_min(WEAK), line[1]])
