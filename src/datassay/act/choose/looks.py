"""Retrain actions in two interim analyses, and end early what gains nothing.

The first analysis takes one model of each part, of few parts two; what has gained there is trained
with all models. Intervals are those of `stats.LOOKS`: they hold at whichever analysis it ends.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from datassay.act.choose.action import Action, as_it_is, fittings_of, route_predictions
from datassay.act.choose.kinds import ActionKind, ProposalScores, combine_actions
from datassay.act.choose.parts import FIFTHS, R2, Part, ScoringRule, mark_trusted
from datassay.optional import coalesce, drop_none, take_first
from datassay.stats import (
    FEWEST_PARTS,
    LEVEL,
    LOOKS,
    Interval,
    paired_interval,
    sum_by_group,
    widen_by_variance,
)
from datassay.train.together import Fitting, predictions_of

FEWEST_MODELS = 2  # of each part in the first analysis, where parts are few
Key = tuple[str, float]  # Action.key
Predictions = Float[np.ndarray, "R _ k"]


def analyses(parts: Sequence[Part]) -> list[list[tuple[int, range]]]:
    """Return one or two interim analyses: each lists (part, seeds) of the models it adds."""
    seeds_of = [range(fold.learner.repeats) for fold in parts]
    n_first = FEWEST_MODELS if len(parts) < FEWEST_PARTS else 1
    # Fits that draw nothing are the same for every seed: the first says all.
    if min(map(len, seeds_of)) <= n_first or not parts[0].learner.is_random:
        return [list(enumerate(seeds_of))]
    return [
        [(p, seeds[:n_first]) for p, seeds in enumerate(seeds_of)],
        [(p, seeds[n_first:]) for p, seeds in enumerate(seeds_of)],
    ]


@dataclass(slots=True)
class Retrained:
    """What models predict after an action, on the parts that were retrained."""

    outputs: list[list[Predictions]]  # by part, what each analysis added
    seconds: float = 0.0


@dataclass(slots=True)
class Comparison:
    """The samples as they are, and the actions that are compared with them, as far as retrained.

    Attributes:
        parts: of the samples.
        proposed: on each part, the actions by key.
        base: `base_predictions`, of models of the samples as they are.
        overdue: actions whose retraining the clock has ended.
    """

    parts: Sequence[Part]
    proposed: list[dict[Key, Action]]
    base: list[Predictions]
    overdue: set[Key] = field(default_factory=set)
    _runs: dict[tuple[Key, bool], Retrained] = field(default_factory=dict)
    _extremes: list[tuple[ScoringRule, ...]] = field(init=False)  # fewest, most wrong: by part each
    _rules: list[ScoringRule] = field(init=False)

    def __post_init__(self) -> None:
        self._rules = [fold.scoring_rule for fold in self.parts]
        self._extremes = list(zip(*(fold.extremes for fold in self.parts), strict=True))

    def train(
        self, keys: Sequence[Key], analysis: Sequence[tuple[int, range]], *, control: bool = False
    ) -> None:
        """Fit the models that an interim analysis adds, for actions or for their controls.

        An action whose models are not all fitted when the time is over becomes overdue.
        """
        before = time.perf_counter()
        jobs = [(key, p, seeds) for key in keys for p, seeds in analysis]
        actions = [self._action(key, p, control) for key, p, _ in jobs]
        fittings: list[list[Fitting]] = []  # by job: several for blocks, none without an action
        for action, (_, p, seeds) in zip(actions, jobs, strict=True):
            fold = self.parts[p]
            fits = []
            if action is not None:
                fits = fittings_of(fold.learner, fold.train, fold.held_out, action, seeds)
            fittings.append(fits)
        outputs = iter(predictions_of([fit for fits in fittings for fit in fits], may_end=True))
        n_fits = sum(len(fit.seeds) for fits in fittings for fit in fits)
        per_fit = (time.perf_counter() - before) / max(1, n_fits)
        results = [drop_none(*(next(outputs) for _ in fits)) for fits in fittings]
        rows = list(zip(actions, fittings, results, jobs, strict=True))
        self.overdue |= {key for _, fits, done, (key, _, _) in rows if len(done) < len(fits)}
        for action, fits, predicted, (key, p, seeds) in rows:
            if key in self.overdue:  # some of its models alone say nothing
                continue
            run = self._runs.setdefault((key, control), Retrained([[] for _ in self.parts]))
            if action is None:  # not proposed on this part: nothing changes there
                run.outputs[p].append(self.base[p][seeds.start : seeds.stop])
                continue
            run.outputs[p].append(route_predictions(action, self.parts[p].held_out, predicted))
            run.seconds += per_fit * sum(len(fit.seeds) for fit in fits)

    def is_retrained(self, key: Key, *, control: bool = False) -> bool:
        """Return whether the action was retrained for the first analysis at least."""
        return (key, control) in self._runs

    def follow(self, key: Key, kind: ActionKind) -> Action | None:
        """Return the action of `key` followed by one of `kind`, added to each part; or None."""
        added: list[Action] = []
        for fold, actions in zip(self.parts, self.proposed, strict=True):
            scores = ProposalScores(fold.issues, fold.information, copies=fold.copies)
            action = actions.get(key)
            combined = None
            if action is not None:
                combined = combine_actions(action, kind, fold.train, scores)
            if combined is not None:
                actions[combined.key] = combined
                added.append(combined)
        return take_first(added)

    def _action(self, key: Key, p: int, control: bool) -> Action | None:
        """Return a part's action or its control; None where it was not proposed there."""
        action = self.proposed[p].get(key)
        if control and action is not None:
            return action.control
        return action

    def seconds_of(self, key: Key) -> float:
        """Return the seconds that retraining an action and its control took."""
        runs = (self._runs.get((key, control)) for control in (False, True))
        return sum(run.seconds for run in runs if run is not None)

    def differences(
        self,
        key: Key,
        *,
        control: bool = False,
        as_given: bool = False,
        rules: Sequence[ScoringRule] = (),
    ) -> list[Float[np.ndarray, "_ _"]]:
        """Return scores after minus before an action, [R, m] for each retrained part.

        as_given: as if every held-out label were right. rules: by part; none: the scoring rules.
        """
        results = []
        rules = rules or self._rules
        run = self._runs[key, control]
        for rule, base, outputs in zip(rules, self.base, run.outputs, strict=True):
            if outputs:
                predicted = np.concatenate(outputs)
                base_scores = rule.scores(base[: len(predicted)], as_given=as_given)
                results.append(rule.scores(predicted, as_given=as_given) - base_scores)
        return results

    def gain(self, key: Key, *, is_searched: bool) -> Interval:
        """Return the gain of an action with its interval, over the parts where it is retrained."""
        unit = float(np.mean([rule.unit for rule in self._rules]))
        retrained = zip(self._rules, self._runs[key, False].outputs, strict=True)
        groups = [rule.groups for rule, outputs in retrained if outputs]
        differences = sum_by_group(self.differences(key), groups)
        level = LEVEL
        base = []
        if len(analyses(self.parts)) > 1:
            level = LOOKS[self.is_complete(key)]
            if not self.is_complete(key):
                pairs = zip(self._rules, self.base, strict=True)
                base = sum_by_group([rule.scores(predicted) for rule, predicted in pairs], groups)
        return paired_interval(differences, unit, is_searched=is_searched, level=level, base=base)

    def bounds(self, key: Key, gain: Interval) -> tuple[float, float]:
        """Return the interval's ends, widened for the fewest and most labels possibly wrong.

        Those of R² are widened for the error of its variance, too.
        """
        # T says which noise was found; what it missed, such as a second rule in some labels, is
        # known by the share of wrong labels alone.
        ends = [mean(self.differences(key, rules=rules)) for rules in self._extremes]
        is_r2 = self._rules[0].metric == R2
        if is_r2 and self.parts[0].doubt is not None:
            # As far as wrong targets make fits vary, their harm falls as 1/n: all samples, of which
            # each part learns from four fifths, suffer as much less.
            ends.append(gain.gain * (1 - 1 / FIFTHS))
        shifts = [0.0, *(end - gain.gain for end in ends)]
        low = gain.low + min(shifts)
        high = gain.high + max(shifts)
        if is_r2:
            targets = np.concatenate([rule.counted.y for rule in self._rules])
            return widen_by_variance(gain.gain, low, high, targets)
        score = self.score()  # from it no action can take an accuracy below 0 or beyond 1
        return max(low, min(-score, gain.gain)), min(high, max(1 - score, gain.gain))

    def is_complete(self, key: Key) -> bool:
        """Return whether the action was retrained in all parts, by all models."""
        models = [sum(map(len, outputs)) for outputs in self._runs[key, False].outputs]
        return models == [fold.learner.repeats for fold in self.parts]

    def score(self, *, as_given: bool = False) -> float:
        """Return the score of the samples as they are, mean over models and held-out samples."""
        # Corrected for wrong held-out labels, an accuracy may come out too high for the gains,
        # which are known better: it is no more than what the best action leaves below 100 %.
        pairs = zip(self._rules, self.base, strict=True)
        score = mean([rule.scores(predicted, as_given=as_given) for rule, predicted in pairs])
        if as_given or self._rules[0].metric == R2:
            return score
        retrained = [key for key, is_control in self._runs if not is_control]
        gains = [mean(self.differences(key)) for key in retrained if self.is_retrained(key)]
        return min([score, *(1 - gain for gain in gains if gain > 0)])

    def mark_trusted_labels(self) -> list[Bool[np.ndarray, " m"]]:
        """Return which held-out labels of each part are trusted; of numbers, all that count."""
        return [_mark_trusted_labels(*pair) for pair in zip(self.parts, self.base, strict=True)]


def base_predictions(parts: Sequence[Part]) -> list[Predictions]:
    """Return predictions of models trained on the samples as they are, [R, m, k] per part."""
    return predictions_of([
        fitting
        for fold in parts
        for fitting in fittings_of(
            fold.learner, fold.train, fold.held_out, as_it_is(fold.train),
            range(fold.learner.repeats),
        )
    ])  # fmt: skip


def mean(differences: Sequence[Float[np.ndarray, "_ _"]]) -> float:
    """Return the mean over all samples of all parts, after the mean over models."""
    return float(np.concatenate([d.mean(0) for d in differences]).mean())


def _mark_trusted_labels(fold: Part, predicted: Predictions) -> Bool[np.ndarray, " m"]:
    """Return a mask of a part's held-out labels that are likelier right than wrong, [m]."""
    if not fold.train.is_classification:
        return np.ones(len(fold.scoring_rule.counted), bool)
    noise = coalesce(fold.noise, np.eye(fold.train.n_classes))
    return mark_trusted(predicted, fold.held_out.y, noise)
