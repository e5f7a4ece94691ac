"""The noise that explains the given labels, and how likely each of them is wrong (METHODS §2b).

Held-out outputs alone cannot tell wrong labels from hard samples. Two readings bound the truth:
noise at some rate, which no calibration explains, and hardness, where no label is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import exp, log, sqrt

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.results import result
from datassay.score.labels.forms import search_forms
from datassay.score.labels.likelihood import NoiseFit, fit_noise
from datassay.score.labels.readings import (
    Belief,
    find_unpredicted_classes,
    read_one_way,
    weigh_readings,
)
from datassay.score.labels.sources import LabelSources, find_erring_sources, fit_sources
from datassay.score.settings import NOISES

Outputs = Sequence[Float[Tensor, "n k"]]  # held-out outputs of each estimator
Refit = Callable[[Float[Tensor, "n k"]], Outputs]  # outputs of fits to P(true class)
# Nats per sample: noise that gains more is clear, as where a class is given as one other. Noise of
# a region does not imitate that.
CLEAR_GAIN = 0.08
# Labels likelier wrong than this are called probably wrong: of those of 67 drawn tables and of 50
# sets with planted errors that chose it 0.86 and 0.89 were.
LISTED = 0.8
# Fits to few samples are surer than they are right: of 80 samples a fifth of the labels with a
# probability of 0.96 were right, of 300 an eighth, of 1500 a tenth. Of 3, 5, 7 and 10 the best.
FEW = 5
CERTAIN = 1e-12  # a probability counts as no nearer to 0 or 1
# Doubt falls by e for each so many nats by which noise explains the labels better than hardness; of
# two classes that of one rate alone, since what is hard imitates the others.
BELIEVED, DOUBT_IF_CLEAR = 5.0, 0.25
TIE, SPREAD = 1e-3, 10.0  # of log odds by which equal probabilities are ordered
# How likely all that held-out predictions contradict is wrong, where nothing is for noise or
# against. Of 0, 0.15, 0.25 and 0.4 the one that is near both on drawn tables and on real ones.
CONTRADICTED = 0.25
LINE_STEPS, LONGEST_STEP = 60, 1.0
TRUSTED = -20.0  # log odds of a trusted label
LEAST_TRUSTED = 20  # labels that tell how often right ones are contradicted
NORMAL = 1.96  # standard errors of a 95 % interval
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
class Diagnosis:
    """Noise that explains the given labels, and how likely each label is wrong.

    Attributes:
        noise: the noise found.
        is_predicted: whether held-out outputs predict the labels better than the classes' shares;
            else no label is suspected.
        posterior: log probability of each true class when the given label is known, [n, k].
        log_odds: log odds that the given label is wrong, [n].
        by_noise: the same if only the noise makes labels wrong, without doubt about it, [n].
        share: lower and upper bound of the share of wrong labels.
        n_look: number of labels worth a look, counted from the most suspect.
        weights: of the estimators, in the fit without noise; 0: left out.
        sources: of the labels, where some err far more often; None: none do.
        reading: of two classes, (true, given, share of the class, labels): so many of a class may
            be given as the other, or else hard to tell from it; None: nothing says so.
    """

    noise: LabelNoise
    is_predicted: bool
    posterior: Float[Tensor, "n k"]
    log_odds: Float[Tensor, " n"]
    by_noise: Float[Tensor, " n"]
    share: tuple[float, float]
    n_look: int
    weights: tuple[float, ...]
    sources: LabelSources | None
    reading: tuple[int, int, float, float] | None


def check_noise(noise: str, *, is_of_labels: bool) -> None:
    """Raise if noise is not one of NOISES, or is set for a regression."""
    if noise not in NOISES:
        raise SettingError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    if noise != "auto" and not is_of_labels:
        raise SettingError(
            f"noise is of labels; these targets are numbers, and got {noise!r}. Leave it out."
        )


def explain(
    outputs: Outputs,
    refit: Refit,
    labels: Int[Tensor, " n"],
    noise: str = "auto",
    trusted: Bool[Tensor, " n"] | None = None,
    columns: Mapping[str, Shaped[np.ndarray, " n"]] | None = None,
) -> Diagnosis:
    """Find the noise that explains the labels, and each label's probability of being wrong.

    Args:
        outputs: outputs for each sample of fits to the given labels without it, each [n, k].
        refit: returns such outputs of fits to other probabilities of the true classes.
        labels: given labels, class indices.
        noise: "auto" compares all kinds; "uniform" or "class": that kind alone.
        trusted: labels that are known to be right, not all; None: no label is.
        columns: name → who or what labelled each sample, such as an annotator; None: not known.

    Returns:
        The noise and what follows from it. Suspects are ordered half by the mean over all
        explanations, half by a mean of two log posteriors, the second of which is of the fit to
        `refit`'s outputs:
        - one rate: before and after the refit;
        - noise that depends on the class: without noise, and after the refit (noise of a region of
          the inputs looks like it, and would turn its order round);
        - clear noise that is believed: after the refit alone.
        Noise that depends on the class counts as far as it is believed; else without noise alone.
        Where sources of labels err far more often, their rates take the place of the common one.
        Probabilities up to 1/2 also count labels that held-out predictions contradict: the better
        noise explains the labels, the less.

    Cost: 5 fits (of two classes 4), and one `refit`; of two classes now and then two.
    """
    n = len(labels)
    trusted = coalesce(trusted, torch.zeros(n, dtype=torch.bool))
    fit = partial(fit_noise, labels=labels, trusted=trusted)
    noiseless_fit = fit(outputs, form="none")
    uniform_fit = fit(outputs, form="one rate")
    search = search_forms(partial(fit, outputs), uniform_fit, noise, n)
    chosen_fit = search.chosen_fit

    def fit_again(draft: NoiseFit) -> NoiseFit:
        return fit(refit(draft.log_posterior.exp()), form=draft.form, start=draft.transition)

    def mean_log_posterior(first_fit: NoiseFit, second_fit: NoiseFit) -> Float[Tensor, "n k"]:
        """Return the mean of log P(true class) before and after the refit, normalised."""
        log_p = first_fit.log_posterior if first_fit.form == "one rate" else noiseless_fit.log_p
        return torch.log_softmax((log_p + second_fit.log_posterior) / 2, 1)

    found_sources = find_erring_sources(noiseless_fit.log_p, labels, trusted, columns or {})
    sources, source_fits, shift = fit_sources(outputs, labels, trusted, found_sources, uniform_fit)
    noisy_fits = [*search.noisy_fits, *source_fits]
    belief = weigh_readings(outputs, labels, trusted, noiseless_fit, noisy_fits)
    p_noiseless = 0.0 if noise == "class" else belief.p_noiseless  # as the user knows
    is_clear = search.gain > CLEAR_GAIN and p_noiseless <= 0.5
    second_fit = fit_again(chosen_fit)
    posterior = second_fit.log_posterior
    if not is_clear:
        posterior = mean_log_posterior(chosen_fit, second_fit)
    if search.rival_weight > 0:
        rival_posterior = mean_log_posterior(search.rival_fit, fit_again(search.rival_fit))
        posterior = torch.lerp(posterior, rival_posterior, search.rival_weight)
        posterior = torch.log_softmax(posterior, 1)
    if chosen_fit.form != "one rate":  # else classes that look alike stand before wrong labels
        mean = torch.lerp(posterior, noiseless_fit.log_p, p_noiseless)
        posterior = torch.where(trusted[:, None], posterior, torch.log_softmax(mean, 1))
    posterior = _shift_log_odds(posterior, labels, shift) if source_fits else posterior
    odds = _log_odds(posterior, labels)[~trusted]
    p_wrong = belief.p_wrong[~trusted]
    if belief.is_predicted:
        odds = (odds + torch.logit(p_wrong, eps=CERTAIN)) / 2
    if is_clear:
        by_noise = torch.logit((1 - belief.p_noiseless) * torch.sigmoid(odds), eps=CERTAIN)
    else:
        by_noise = _log_odds_in_order(p_wrong, odds)
    contradicted = -torch.expm1(noiseless_fit.log_p.gather(1, labels[:, None])[~trusted, 0])
    nats = uniform_fit.log_likelihood - noiseless_fit.log_likelihood
    if noiseless_fit.log_p.shape[1] > 2:
        nats = -log(max(belief.p_noiseless, CERTAIN))
    doubt = exp(-max(0.0, nats) / BELIEVED) * (DOUBT_IF_CLEAR if is_clear else 1.0)
    log_odds = torch.full((2, n), TRUSTED).double()  # with doubt, and by the noise alone
    log_odds[:, ~trusted] = torch.stack([_add_doubt(by_noise, contradicted, doubt), by_noise])
    is_unpredicted = find_unpredicted_classes(noiseless_fit.log_p, labels)
    log_odds[:, is_unpredicted[labels]] = log_odds[:, is_unpredicted[labels]].clamp_max(0.0)
    first_only_fit = noiseless_fit if len(outputs) == 1 else fit(outputs[:1], form="none")
    noiseless_pair = (noiseless_fit, first_only_fit)
    share, n_look = _bound_wrong_share(noiseless_pair, belief, doubt, labels, trusted)
    reading = read_one_way(noisy_fits, noiseless_fit, uniform_fit, labels)
    is_rival = reading is not None and chosen_fit is uniform_fit
    described_fits = (search.rival_fit, search.rival_fit) if is_rival else (chosen_fit, second_fit)
    return Diagnosis(
        noise=_describe_noise(*described_fits, p_noiseless, search.gain),
        is_predicted=belief.is_predicted,
        posterior=posterior,
        log_odds=log_odds[0],
        by_noise=log_odds[1],
        share=share,
        n_look=n_look,
        weights=tuple(noiseless_fit.weights.tolist()),
        sources=sources,
        reading=reading,
    )


def _describe_noise(
    first_fit: NoiseFit, second_fit: NoiseFit, p_noiseless: float, gain: float
) -> LabelNoise:
    """Return the noise to report: kind, T and gain; T shrinks towards I by p_noiseless."""
    is_uniform = first_fit.form == "one rate"
    k = len(first_fit.transition)
    if is_uniform:
        transition = first_fit.transition
    else:
        transition = second_fit.transition
    if p_noiseless <= 0.5:
        return LabelNoise("uniform" if is_uniform else "class", transition.numpy(), gain)
    identity = torch.eye(k, dtype=torch.float64)
    believed = identity + (1 - p_noiseless) * (transition - identity)
    return LabelNoise("uniform", believed.numpy(), gain)


def _add_doubt(
    by_noise: Float[Tensor, " n"], contradicted: Float[Tensor, " n"], doubt: float
) -> Float[Tensor, " n"]:
    """Return log odds of wrong labels, those below 0 raised (to 0 at most) by model doubt.

    `contradicted` is P(label is wrong) if the noiseless prediction is right. It is mixed in with
    the weight CONTRADICTED times the doubt, in 0..1. The order of labels stays.
    """
    p_contradicted = torch.sigmoid(_scale_log_odds(by_noise, contradicted)).clamp_max(0.5)
    weight = CONTRADICTED * doubt
    p = (1 - weight) * torch.sigmoid(by_noise) + weight * p_contradicted
    return torch.where(by_noise > 0, by_noise, torch.logit(p))


def probability(log_odds: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return P(label is wrong) times n / (n + FEW): fits to few samples are surer than right."""
    return torch.sigmoid(log_odds) * len(log_odds) / (len(log_odds) + FEW)


def flag_wrong(log_odds: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Flag the labels that are wrong with a probability above LISTED, given log odds of it."""
    return probability(log_odds) > LISTED


def _bound_wrong_share(
    noiseless_fits: tuple[NoiseFit, NoiseFit],
    belief: Belief,
    doubt: float,
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
) -> tuple[tuple[float, float], int]:
    """Return bounds (low, high) of the share of wrong labels, and how many to review."""
    # At least: what nearly all explanations agree on, less two standard errors.
    # At most: what held-out predictions contradict, and one standard error; predictions of all
    # estimators or of the first alone, since another may have learned the rule of wrong labels.
    # Worth a look: from what the noise says (no doubt) to what confident learning counts (doubt 1).
    n = int((~trusted).sum())
    n_least = n * belief.least_share
    wrong_predictions = [fit.log_p.argmax(1) != labels for fit in noiseless_fits]
    error, first_error = (float(w[~trusted].double().mean()) for w in wrong_predictions)
    low = max(0.0, (n_least - 2 * sqrt(n_least)) / n)
    larger_error = max(error, first_error)
    high = min(1.0, larger_error + sqrt(larger_error * (1 - larger_error) / n) + 1 / n)
    log_p = noiseless_fits[0].log_p
    n_trusted = len(labels) - n
    if n_trusted >= LEAST_TRUSTED:
        contradicted = float(wrong_predictions[0][trusted].double().mean())
        bounds = (low, high)
        k = log_p.shape[1]
        low, high = _narrow_by_trusted(bounds, error, contradicted, n, n_trusted, k)
    by_noise = float(belief.p_wrong[~trusted].mean())
    counted = confident_count(log_p[~trusted].exp(), labels[~trusted]) / n
    most_looks = min(error, high, max(counted, by_noise))
    n_look = round(n * (by_noise + (most_looks - by_noise) * doubt)) * belief.is_predicted
    open_share = n / len(labels)
    return (min(low, high) * open_share, high * open_share), n_look


def _narrow_by_trusted(
    bounds: tuple[float, float], error: float, contradicted: float, n: int, n_trusted: int, k: int
) -> tuple[float, float]:
    """Return bounds of the wrong share, narrowed by how often trusted labels are contradicted.

    error = s a + (1 − s) c (Rogan and Gladen 1978) is solved for the wrong share s. `error`: share
    of the n judged labels that predictions contradict; c (`contradicted`): of the trusted, right
    ones; a = 1 − c / (k − 1): of wrong ones. Each end is with rates NORMAL standard errors away.
    """
    # Where right labels are contradicted more often than the others, predictions have learned the
    # very rule that wrong ones follow: then as many as are contradicted may be wrong.
    ends = []
    for sign in (-1, 1):
        e = error + sign * NORMAL * sqrt(error * (1 - error) / n)
        c = contradicted - sign * NORMAL * sqrt(contradicted * (1 - contradicted) / n_trusted)
        c = max(0.0, c)
        slope = 1 - c - c / max(1, k - 1)
        ends.append((e - c) / slope if slope > 0 else float(sign > 0))
    if ends[1] <= 0:
        largest = contradicted + NORMAL * sqrt(contradicted * (1 - contradicted) / n_trusted)
        return bounds[0], min(1.0, max(bounds[1], largest))
    low = max(bounds[0], ends[0])
    high = min(bounds[1], ends[1])
    return min(low, high), max(low, high)


def confident_count(p: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> float:
    """Count labels that confident learning takes for wrong (Northcutt et al. 2021, eqs. 1–3).

    Args:
        p: held-out probabilities.
        labels: given labels, class indices.

    Returns:
        The sum of the confident joint off its diagonal, its rows scaled to the given labels.
    """
    k = p.shape[1]
    counts = labels.bincount(minlength=k).double()
    p_given = p.gather(1, labels[:, None])[:, 0]
    p_sums = torch.zeros(k, dtype=torch.float64).index_add_(0, labels, p_given)
    thresholds = torch.where(counts > 0, p_sums / counts.clamp_min(1), torch.inf)
    is_confident = p >= thresholds
    confident_class = torch.where(is_confident, p, -1.0).argmax(1)
    has_class = is_confident.any(1)
    joint = (labels * k + confident_class)[has_class].bincount(minlength=k * k).double()
    rows = joint.reshape(k, k)
    contradicted = rows.sum(1) - rows.diagonal()
    return float((contradicted / rows.sum(1).clamp_min(1) * counts).sum())


def _log_odds(
    log_posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Return the log odds that each given label is wrong, from log P(true class)."""
    log_p_given = log_posterior.gather(1, labels[:, None])
    other_log_p = log_posterior.scatter(1, labels[:, None], -torch.inf)
    return torch.logsumexp(other_log_p, 1) - log_p_given[:, 0]


def _shift_log_odds(
    log_posterior: Float[Tensor, "n k"], labels: Int[Tensor, " n"], shift: Float[Tensor, " n"]
) -> Float[Tensor, "n k"]:
    """Return log P(true class) with `shift`, nats, added to the log odds of a wrong label."""
    log_p_given = log_posterior.gather(1, labels[:, None])
    shifted = (log_posterior + shift[:, None]).scatter(1, labels[:, None], log_p_given)
    return torch.log_softmax(shifted, 1)


def _log_odds_in_order(
    probability: Float[Tensor, " n"], log_odds: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Return the log odds of `probability`; those of up to 1/2 are put in `log_odds`' order."""
    is_suspect = probability > 0.5
    order = log_odds.argsort(stable=True)
    order = order[~is_suspect[order]]
    ordered_log_odds = torch.logit(probability, eps=CERTAIN)
    ordered_log_odds[order] = ordered_log_odds[~is_suspect].sort().values.clamp_max(-TIE)
    return ordered_log_odds + TIE * torch.tanh(log_odds / SPREAD) / 2  # orders ties


def _scale_log_odds(
    log_odds: Float[Tensor, " n"], probability: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Return a + b log_odds, b > 0, that predicts `probability` with the least cross-entropy."""
    spread = log_odds.std(correction=0)
    if not spread > 0:  # all equal: there is no order to keep
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
