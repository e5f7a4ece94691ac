"""What more samples of the same kind would gain: the learning curve, read beyond its end."""

import time

import numpy as np
from jaxtyping import Float

from datassay.act.choose.gains import EXPECTED, ActionGain
from datassay.act.choose.kinds import ActionKind
from datassay.act.choose.parts import R2, ScoringRule
from datassay.data.samples import SampleSet
from datassay.methods.complexity.accuracy_curve import AccuracyCurve, nested_order
from datassay.methods.complexity.needed_samples import extrapolate
from datassay.stats import LEVEL
from datassay.train.learner import Learner
from datassay.train.together import Fitting, predictions_of

MORE = "more"
SHARES = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
FACTOR = 2
# Fewer samples than this a class at the smallest size draw no curve.
FEWEST = 3
DRAWS = 400


def gain_of_more(
    learner: Learner,
    train: SampleSet,
    rule: ScoringRule,
    *,
    whole: Float[np.ndarray, "_ m k"] | None = None,
    seed: int = 0,
) -> ActionGain | None:
    """Estimate the gain of twice the samples, by a learning curve of R ≥ 2 fits of five sizes.

    Args:
        learner: gives the R models.
        train: n samples.
        rule: how predictions of the held-out samples are scored.
        whole: [_, m, k], predictions for the held-out samples by the learner's first models, fitted
            to all n samples: these are not fitted again. None where no such fit is known.
        seed: of the smaller sizes' samples, and of the curves that are drawn.

    Returns:
        A row of the table of actions, not measured but expected: the median over resampled curves
        and laws, and its 95 % interval; the cost is minus the samples to collect. None where there
        are too few samples for a curve.
    """
    started = time.perf_counter()
    n = len(train)
    sizes = np.unique((np.array(SHARES) * n).astype(int))
    if len(sizes) < len(SHARES) or sizes[0] < max(8, FEWEST * train.n_classes):
        return None
    draw = np.random.default_rng((seed, 3))
    orders = np.stack([nested_order(train, draw) for _ in range(learner.repeats)])
    subsets = [np.sort(orders[:, :size], 1) for size in sizes]
    whole_predictions = []
    if whole is not None:
        whole_predictions = list(whole[: learner.repeats, None])
    n_known = [0] * (len(sizes) - 1) + [len(whole_predictions)]
    fittings = [
        Fitting(learner, train, rule.held_out, train.y, rows[r], None, range(r, r + 1))
        for rows, n_done in zip(subsets, n_known, strict=True)
        for r in range(n_done, learner.repeats)
    ]
    predictions = predictions_of(fittings)
    n_smaller = (len(sizes) - 1) * learner.repeats
    predictions[n_smaller:n_smaller] = whole_predictions  # before the others of all n samples
    scores = np.concatenate([rule.scores(p) for p in predictions])
    errors = 1 - scores.reshape(len(sizes), learner.repeats, -1)
    curve = AccuracyCurve(sizes, errors, _score_constant(train, rule), rule.metric)
    laws = extrapolate(curve, draws=DRAWS, seed=seed)
    error_now, error_later = laws.draws.errors(np.array([n, FACTOR * n], float)).T
    ends = ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
    low, median, high = np.quantile(error_now - error_later, ends)
    return ActionGain(
        kind=MORE, words="Double the data", how=EXPECTED,
        gain=float(median), low=float(low), high=float(high), p=1.0, verdict="",
        cost=-(FACTOR - 1) * n, seconds=time.perf_counter() - started,
    )  # fmt: skip


def _score_constant(train: SampleSet, rule: ScoringRule) -> float:
    """Return the error of predicting the commonest class or the mean target."""
    if rule.metric == R2 or rule.credit is None:
        return 1.0
    return float(1 - rule.credit.mean(0).max())


ACTIONS = (
    ActionKind(
        name=MORE,
        help="As many samples again are collected; the gain is read off the learning curve.",
        estimate=gain_of_more,
        doing="doubling the data",
        fits=len(SHARES),
        evidence="modes",
        command="complexity",
        order=50,
    ),
)
