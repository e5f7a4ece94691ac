"""Which noise explains the given labels, and how likely each of them is wrong (METHODS §2b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.errors import SettingError
from datassay.results import result
from datassay.score.labels import transitions
from datassay.score.labels.likelihood import (
    Calibrated,
    Calibration,
    calibrate,
    first_guess,
    polished,
)
from datassay.score.settings import NOISES

Judge = Callable[[Float[Tensor, "n k"]], Float[Tensor, "n k"]]
"""From probabilities of the true classes to fit to, to held-out outputs."""
# By how much noise that depends on the class must explain the labels better than one rate, beyond
# the price of its parameters. Many classes: nats per sample, what a wrong calibration or noise that
# depends on the input can imitate (at most 0.012 on digits, MNIST and a made census; class pairs
# give 0.02 on). Two classes, whose calibration misses less: nats in all.
LEAST_GAIN, LEAST_NATS = 0.015, 5.0
MILD = 0.05  # share of wrong labels that fits start from
LINE_STEPS, LONGEST_STEP = 60, 1.0
WEAK = 1e-3  # a prior, in nats, where all labels are sure to be right or to be wrong


@result
class LabelNoise:
    """The label noise that explains the given labels best.

    Attributes:
        kind: "uniform" (any other label as often as any) or "class" (depends on the class).
        form: "one rate", "one rate per class", "one target per class" or "full".
        transition: T[c, l] = P(given l | true c), [k, k].
        gain: nats per sample by which noise that depends on the class explains the labels better
            than one rate, less the price of its parameters (half the difference of the Bayesian
            information criteria, over n); −inf where it was not tried.
    """

    kind: str
    form: str
    transition: Float[np.ndarray, "k k"]
    gain: float


@result
class Explained:
    """How noise explains the given labels.

    Attributes:
        noise: that was found.
        posterior: log probability of each true class, the given label known, [n, k].
        log_odds: that the given label is wrong, [n].
        criterion: of the first fit, twice nats: lower explains the given labels better, the price
            of its parameters paid.
    """

    noise: LabelNoise
    posterior: Float[Tensor, "n k"]
    log_odds: Float[Tensor, " n"]
    criterion: float


def check_noise(noise: str, *, is_of_labels: bool) -> None:
    """Refuse a noise that is none of NOISES, or that of labels where there are none."""
    if noise not in NOISES:
        raise SettingError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    if noise != "auto" and not is_of_labels:
        raise SettingError(
            f"noise is of labels; these targets are numbers, and got {noise!r}. Leave it out."
        )


def explain(
    held_out: Float[Tensor, "n k"],
    judge: Judge,
    labels: Int[Tensor, " n"],
    noise: str = "auto",
) -> Explained:
    """Find the noise, and what it says of each label after one more fit to the probable labels.

    Args:
        held_out: outputs for each sample from the fit to the given labels without it.
        judge: probabilities of the true classes to fit to → held-out outputs.
        labels: given.
        noise: "uniform" or "class" leave no choice.

    Returns:
        The noise and the posterior. Under one rate, posteriors of two calibrations, by one
        temperature and by the richer one, are averaged (their logarithms): noise that people make
        depends on the input, and the richer one learns it.

    Cost: 8 or 9 calibrations, and one `judge`.
    """
    n, k = held_out.shape
    scale, transition = first_guess(held_out, labels)
    one_rate = transitions.one_rate(k)
    simple = calibrate(
        held_out, labels, one_rate, "temperature", transitions.evenly(k, MILD), scale
    )
    calibrated = _calibrated(held_out, labels, simple)
    best = rich = min(calibrated, key=_criterion)
    gain = -torch.inf
    if noise != "uniform":
        # Where a matrix pays, it may be because it imitates the noise: try both.
        structured = [
            fit
            for start in (calibrated if rich is calibrated[-1] else calibrated[:1])
            for fit in _structured(held_out, labels, start, transition, scale)
        ]
        best_structured = min(structured, key=_criterion)
        gain = (_criterion(rich) - _criterion(best_structured)) / 2 / n
        if noise == "class" or gain > (LEAST_GAIN if k > 2 else LEAST_NATS / n):
            best = best_structured
    fits = [best] if best.form.is_class_dependent else [simple, rich]
    fits = [polished(fit, held_out, labels) for fit in fits]
    first = _averaged(fits)
    again = judge(first.exp())
    second = _averaged([_better(fit, again, labels) for fit in fits])
    log_odds = _as_probable(_log_odds(second, labels), torch.sigmoid(_log_odds(first, labels)))
    form = best.form.name
    kind = "uniform" if form == "one rate" else "class"
    outcome = LabelNoise(kind, form, fits[-1].transition.numpy(), gain)
    return Explained(outcome, second, log_odds, _criterion(best))


def _log_odds(posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Of a wrong label, from the log probabilities of the classes."""
    given = posterior.gather(1, labels[:, None])
    others = posterior.scatter(1, labels[:, None], -torch.inf)
    return torch.logsumexp(others, 1) - given[:, 0]


def _as_probable(
    log_odds: Float[Tensor, " n"], probability: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Log odds scaled and shifted so that they come nearest the probabilities, in cross-entropy."""
    # The second fit ranks better, but each label had a part in its neighbours' targets and, through
    # them, in what judges it; only the first tells honestly how many are wrong.
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


def _calibrated(outputs: Tensor, labels: Tensor, simple: Calibrated) -> list[Calibrated]:
    """One rate under the richer calibrations: intercepts and, beyond two classes, a matrix."""
    fit = calibrate(outputs, labels, simple.form, "intercepts", simple.transition, simple)
    if outputs.shape[1] == 2:  # a and b say all of two classes
        return [fit]
    return [fit, calibrate(outputs, labels, simple.form, "matrix", simple.transition, fit)]


def _structured(
    outputs: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    start: Calibrated,
    transition: Float[Tensor, "k k"],
    scale: float,
) -> list[Calibrated]:
    """The forms that depend on the class; "full" only where it could pay for its parameters."""
    n, k = outputs.shape
    mild, calibration = transitions.evenly(k, MILD), start.calibration
    fits: list[Calibrated] = []
    starts: list[tuple[Tensor, Calibrated | float]] = [(transition, scale)]
    # No likelihood is above 0: this is the most that a form can gain.
    if k == 2 or k * (k - 1) * log(n) < -2 * start.log_likelihood:
        form = transitions.full(k)
        tried = [
            calibrate(outputs, labels, form, calibration, *s) for s in (*starts, (mild, start))
        ]
        fits += [max(tried, key=lambda fit: fit.log_likelihood)]
        starts += [(fits[0].transition, fits[0])]
    if k > 2:
        form = transitions.one_rate_per_class(k)
        fits += [calibrate(outputs, labels, form, calibration, mild, start)]
        fits += [_best_targeted(outputs, labels, calibration, starts)]
    return fits


def _best_targeted(
    outputs: Tensor,
    labels: Tensor,
    calibration: Calibration,
    starts: Sequence[tuple[Float[Tensor, "k k"], Calibrated | float]],
) -> Calibrated:
    """One target per class: the best start, then the other starts' targets one class at a time."""
    choices = [transitions.targets(transition) for transition, _ in starts]
    fits = [
        _targeted(outputs, labels, calibration, target, *start)
        for target, start in zip(choices, starts, strict=True)
    ]
    best, target = min(zip(fits, choices, strict=True), key=lambda pair: _criterion(pair[0]))
    for other in choices:
        for c in (other != target).nonzero()[:, 0].tolist():
            switched = target.clone()
            switched[c] = other[c]
            start = best.transition.clone()
            start[c, [int(target[c]), int(other[c])]] = start[c, [int(other[c]), int(target[c])]]
            fit = _targeted(outputs, labels, calibration, switched, start, best)
            if _criterion(fit) < _criterion(best):
                best, target = fit, switched
    return best


def _targeted(
    outputs: Tensor,
    labels: Tensor,
    calibration: Calibration,
    target: Int[Tensor, " k"],
    transition: Float[Tensor, "k k"],
    start: Calibrated | float,
) -> Calibrated:
    """These targets, for the classes that give theirs more labels than others get."""
    every = torch.ones(len(target), dtype=torch.bool)
    form = transitions.one_target_per_class(target, every)
    fit = calibrate(outputs, labels, form, calibration, transition, start)
    per_class = fit.log_posterior.exp().sum(0)
    active = transitions.with_own_target(fit.transition, per_class, target)
    if active.all() or not active.any():
        return fit
    form = transitions.one_target_per_class(target, active)
    return calibrate(outputs, labels, form, calibration, fit.transition, fit)


def _criterion(fit: Calibrated) -> float:
    # A calibration need only predict well: AIC prices it. A form of noise is a claim: BIC does.
    n, k = fit.log_p.shape
    calibration = {"temperature": 1, "intercepts": k, "matrix": k * k}[fit.calibration]
    return 2 * calibration + fit.form.n_parameters * log(n) - 2 * fit.log_likelihood


def _better(fit: Calibrated, outputs: Tensor, labels: Tensor) -> Calibrated:
    """The same kind of fit to other held-out outputs, where they explain the labels better."""
    again = calibrate(outputs, labels, fit.form, fit.calibration, fit.transition, fit)
    again = polished(again, outputs, labels)
    return again if again.log_likelihood > fit.log_likelihood else fit


def _averaged(fits: list[Calibrated]) -> Float[Tensor, "n k"]:
    """Mean log posterior, normalised."""
    mean = torch.stack([fit.log_posterior for fit in fits]).mean(0)
    return torch.log_softmax(mean, 1)
