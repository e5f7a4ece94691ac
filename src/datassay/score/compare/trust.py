"""Whether scores predict what retraining shows, with intervals and a verdict each."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from datassay.errors import SettingError
from datassay.ranks import correlation, mean_ranks
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.compare.halves import RetrainedHalves
from datassay.score.compare.scores import Scores
from datassay.score.compare.stability import RunSmoothness

PREDICTIONS = "a prediction"
SAMPLES = "a sample"
TRUST = "trust"
CARE = "with care"
DISTRUST = "do not trust"
# Shares of the ceiling: a score is trusted from ENOUGH on, and not below LITTLE. Chosen in
# bench/attribution/trust.py on the cases of CHOSEN_ON.
ENOUGH, LITTLE = 0.5, 0.25
LOWEST_CEILING = 0.2  # below it there is nothing to predict
LEAST_RELIABLE = 0.01  # a smaller reliability is corrected for as this: correlations are too small
RESAMPLES = 300
SPLITS = 20
Z_95 = 1.959964
Draws = Float[np.ndarray, " draws"]  # the estimate, then RESAMPLES bootstrap draws of it


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@result
class TrustCheck(Tabular):
    """How well each of s scores predicts retraining.

    Attributes:
        question: [s], "a prediction": how a query's outcome changes from half to half; "a sample":
            how far each sample's loss falls by training on it.
        score: [s], names.
        correlation: [s], Spearman's, in [-1, 1]. Of a prediction: between the sum of a half's
            effects and the outcome of ONE network trained on it, over halves, mean over queries.
            Of a sample: between the score and the measured fall of its loss, over samples,
            corrected for the noise of the study.
        low: [s], of its 95 % interval.
        high: [s].
        trivial: [s], whether the score costs nothing.
        ahead: [s], difference to the best trivial score of the same question.
        ahead_low: [s], of its 95 % interval.
        ahead_high: [s].
        ceiling: correlation that a perfect prediction of the mean over seeds would have; of a
            prediction. Of a sample it is 1.
        reliability: of the measured falls, in [0, 1]: their correlation with another such study's.
        n_halves: h.
        n_queries: m.
        smoothness: how far rounding takes two runs apart, compared with the effects of halves as
            they were measured, and of samples that make these up; None: not measured.
    """

    question: tuple[str, ...]
    score: tuple[str, ...]
    correlation: Float[np.ndarray, " s"]
    low: Float[np.ndarray, " s"]
    high: Float[np.ndarray, " s"]
    trivial: Bool[np.ndarray, " s"]
    ahead: Float[np.ndarray, " s"]
    ahead_low: Float[np.ndarray, " s"]
    ahead_high: Float[np.ndarray, " s"]
    ceiling: Estimate
    reliability: Estimate
    n_halves: int
    n_queries: int
    smoothness: RunSmoothness | None = None

    @property
    def verdict(self) -> tuple[str, ...]:
        """Verdict on each of s scores; "do not trust" where a trivial baseline is better."""
        is_beaten = self.ahead_high < 0
        rows = zip(is_beaten, self.question, self.correlation, self.low, self.high, strict=True)
        return tuple(
            DISTRUST if beaten else verdict_of(Estimate(*outcome), self._ceiling(question))
            for beaten, question, *outcome in rows
        )

    def _ceiling(self, question: str) -> Estimate:
        """Return the largest correlation that a score of the question can have."""
        if question == PREDICTIONS:
            return self.ceiling
        return Estimate(1.0, 1.0, 1.0)

    def to_table(self) -> pa.Table:
        """Return one row per score: its question, correlation, interval, ceiling and verdict."""
        return pa.table({
            "question": self.question,
            "score": self.score,
            "correlation": self.correlation,
            "low": self.low,
            "high": self.high,
            "ceiling": [self._ceiling(question).value for question in self.question],
            "trivial": self.trivial,
            "ahead": self.ahead,
            "ahead_low": self.ahead_low,
            "ahead_high": self.ahead_high,
            "verdict": self.verdict,
        })


def verdict_of(outcome: Estimate, ceiling: Estimate) -> str:
    """Return the verdict on a score: "trust", "with care" or "do not trust"."""
    # By the least share of the ceiling that both intervals allow: "trust" from 0.5 on, "do not
    # trust" below 0.25, or where the ceiling is below 0.2; else "with care".
    if ceiling.value < LOWEST_CEILING or outcome.low < LITTLE * ceiling.high:
        return DISTRUST
    if outcome.low >= ENOUGH * ceiling.high:
        return TRUST
    return CARE


def trust_check(halves: RetrainedHalves, scores: Scores, *, seed: int = 0) -> TrustCheck:
    """Return how well scores predict networks retrained on halves of the samples.

    Args:
        halves: what retraining gave.
        scores: of the same samples and queries, higher means the same thing as there; any names.
        seed: of the intervals.

    Returns:
        Correlations, intervals and the ceiling.

    Raises:
        SettingError: a score has another shape, or there is none.

    Cost: 300 passes of halves, queries and samples a score.
    Source: the linear datamodelling score of Park et al. (2023), with one network per half; the
    fall of a sample's loss is the memorisation of Feldman and Zhang (2020), with the loss instead
    of the chance to be right. Corrections for noise: Spearman (1904), Brown (1910). Intervals are
    ours: 1.96 standard deviations over halves and queries, or halves and samples, drawn again.
    """
    _check_scores(halves, scores)
    streams = [np.random.default_rng((seed, question)) for question in range(2)]
    of_queries, agreement = _correlate_effects(halves, scores.effects, streams[0])
    of_samples, reliability = _correlate_sample_scores(halves, scores.samples, streams[1])
    rows = [
        *_make_rows(PREDICTIONS, of_queries, scores.trivial),
        *_make_rows(SAMPLES, of_samples, scores.trivial),
    ]
    squared_ceiling = np.maximum(0.0, astuple(_estimate_interval(agreement)))
    question, score, *columns = map(list, zip(*rows, strict=True))
    names = ("correlation", "low", "high", "trivial", "ahead", "ahead_low", "ahead_high")
    # Root mean square effects of halves, and of samples, as measured: seeds are independent, so
    # what two networks of a half share is the half's effect.
    outcome = halves.outcome.astype(float)
    network_a, network_b = (outcome[:, s] - outcome[:, s].mean(0) for s in range(2))
    of_half = np.sqrt(np.maximum(0.0, (network_a * network_b).mean(0)))
    of_sample = 2 * of_half / np.sqrt(len(halves.ids))
    return TrustCheck(
        question=tuple(question),
        score=tuple(score),
        **{name: np.array(values) for name, values in zip(names, columns, strict=True)},
        ceiling=Estimate(*np.sqrt(squared_ceiling).tolist()),
        reliability=_estimate_interval(reliability, bottom=0.0),
        n_halves=len(halves.halves),
        n_queries=halves.outcome.shape[2],
        smoothness=scores.smoothness and replace(scores.smoothness, half=of_half, single=of_sample),
    )


def _check_scores(halves: RetrainedHalves, scores: Scores) -> None:
    """Raise unless there is a score, and all fit the study's samples and queries."""
    n = len(halves.ids)
    m = halves.outcome.shape[2]
    require(scores.effects or scores.samples, "scores", "hold at least one score", "none")
    for expected, group in (((n, m), scores.effects), ((n,), scores.samples)):
        for name, values in group.items():
            if np.shape(values) != expected or not np.isfinite(values).all():
                raise SettingError(
                    f"a score must be finite and {list(expected)}, as what was retrained; got "
                    f"{list(np.shape(values))} of {name!r}."
                )


def _correlate_effects(
    halves: RetrainedHalves, effects: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, Draws], Draws]:
    """Return each score's correlation with outcomes, and between a half's two networks."""
    h, _, m = halves.outcome.shape
    member = halves.member.astype(float)
    outcome_ranks = mean_ranks(halves.outcome, axis=0)
    sum_ranks = {name: mean_ranks(member @ effect, axis=0) for name, effect in effects.items()}
    results: dict[str, list[float]] = {name: [] for name in effects}
    agreement = []
    for draw in range(1 + RESAMPLES):
        rows = np.arange(h)
        queries = np.arange(m)
        if draw:
            rows = rng.integers(h, size=h)
            queries = rng.integers(m, size=m)
        outcomes = _standardise(outcome_ranks[rows][..., queries])  # [h, 2, m]
        varies = outcomes.any(0)  # [2, m]; a query of one outcome in all halves asks nothing
        for name, ranks in sum_ranks.items():
            sums = _standardise(ranks[rows][:, queries])
            total = (sums[:, None] * outcomes).sum()
            results[name].append(float(total / max(1, h * varies.sum())))
        total = (outcomes[:, 0] * outcomes[:, 1]).sum()
        agreement.append(float(total / max(1, h * varies.all(0).sum())))
    return {name: np.array(values) for name, values in results.items()}, np.array(agreement)


def _correlate_sample_scores(
    halves: RetrainedHalves, samples: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, Draws], Draws]:
    """Return each score's correlation with how far training on a sample lowers its loss.

    Correlations are corrected for noise, by the reliability of the falls, which is returned too.
    """
    h, _, n = halves.loss.shape
    member = halves.member.astype(float)
    loss = halves.loss.mean(1, dtype=float)
    splits = [_rank_falls(loss, member, _split(h, rng, is_resampled=False)) for _ in range(SPLITS)]
    reliability = [float(np.mean([_split_reliability(falls) for falls in splits]))]
    all_falls = splits[0][2]  # of both groups, in any split
    ranks = {name: mean_ranks(values) for name, values in samples.items()}
    results = {
        name: [_correct_correlation(r, all_falls, reliability[0])] for name, r in ranks.items()
    }
    for _ in range(RESAMPLES):
        falls = _rank_falls(loss, member, _split(h, rng, is_resampled=True))
        rows = rng.integers(n, size=n)
        falls = falls[:, rows]
        reliability.append(_split_reliability(falls))
        for name, r in ranks.items():
            results[name].append(_correct_correlation(r[rows], falls[2], reliability[-1]))
    return {name: np.array(values) for name, values in results.items()}, np.array(reliability)


def _split(h: int, rng: np.random.Generator, *, is_resampled: bool) -> Float[np.ndarray, "2 h"]:
    """Return how often each half is drawn into either of two disjoint groups, [2, h]."""
    counts = np.zeros((2, h))
    order = rng.permutation(h)
    for group, rows in enumerate((order[: h // 2], order[h // 2 :])):
        drawn = rows
        if is_resampled:
            drawn = rng.choice(rows, len(rows))
        counts[group] = np.bincount(drawn, minlength=h)
    return counts


def _rank_falls(
    loss: Float[np.ndarray, "h n"],
    member: Float[np.ndarray, "h n"],
    counts: Float[np.ndarray, "2 h"],
) -> Float[np.ndarray, "3 n"]:
    """Return ranks of samples by how far training on them lowers their loss, [3, n]."""
    # For either group of halves, and for both together.
    counts = np.vstack([counts, counts.sum(0)])
    n_with = counts @ member
    n_without = counts @ (1 - member)
    loss_with = counts @ (loss * member) / np.maximum(n_with, 1)
    loss_without = counts @ (loss * (1 - member)) / np.maximum(n_without, 1)
    fall = np.where((n_with > 0) & (n_without > 0), loss_without - loss_with, 0.0)
    return mean_ranks(fall, axis=1)


def _split_reliability(falls: Float[np.ndarray, "3 n"]) -> float:
    """Return the reliability of both groups' falls together, from how far the two groups agree."""
    agreement = max(0.0, float(np.nan_to_num(correlation(falls[0], falls[1]))))
    return 2 * agreement / (1 + agreement)


def _correct_correlation(
    scores: Float[np.ndarray, " n"], falls: Float[np.ndarray, " n"], reliability: float
) -> float:
    """Return the correlation of two lists of ranks over √(the falls' reliability), in [-1, 1]."""
    observed = float(np.nan_to_num(correlation(scores, falls)))
    return float(np.clip(observed / np.sqrt(max(reliability, LEAST_RELIABLE)), -1, 1))


def _standardise(ranks: Float[np.ndarray, "h ..."]) -> Float[np.ndarray, "h ..."]:
    """Return ranks with mean 0 and variance 1 along the first axis; 0 where all are equal."""
    ranks = ranks - ranks.mean(0)
    spread = ranks.std(0)
    return ranks / np.where(spread > 0, spread, 1.0)


def _estimate_interval(draws: Draws, *, bottom: float = -1.0) -> Estimate:
    """Return the estimate with its 95 % interval, limited to bottom and 1."""
    half = Z_95 * draws[1:].std(ddof=1)
    value = float(draws[0])
    return Estimate(value, float(max(bottom, value - half)), float(min(1.0, value + half)))


def _make_rows(
    question: str, draws: Mapping[str, Draws], trivial: tuple[str, ...]
) -> list[tuple[object, ...]]:
    """Return one row per score, as TrustCheck's fields are ordered."""
    trivial_names = [name for name in draws if name in trivial]
    best_trivial = max(trivial_names, key=lambda name: draws[name][0], default=None)
    rows: list[tuple[object, ...]] = []
    for name, values in draws.items():
        estimate = _estimate_interval(values)
        lead = (np.nan, np.nan, np.nan)
        if best_trivial is not None and name not in trivial:
            difference = values - draws[best_trivial]
            half = Z_95 * difference[1:].std(ddof=1)
            lead = (difference[0], difference[0] - half, difference[0] + half)
        rows.append((question, name, *astuple(estimate), name in trivial, *lead))
    return rows
