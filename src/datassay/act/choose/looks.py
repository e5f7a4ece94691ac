"""Retrain actions in two looks at growing data, and end early what gains nothing.

The first look is at one model of each part, of few parts at two; what has gained there is trained
with all models. Intervals are those of `stats.LOOKS`: they hold whichever look they come from.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from datassay.act.choose.action import (
    Action,
    ActionKind,
    ProposalScores,
    as_it_is,
    fittings_of,
    followed,
    routed,
)
from datassay.act.choose.parts import R2, Part, Yardstick, unsuspected
from datassay.stats import FEWEST_PARTS, LEVEL, LOOKS, Interval, paired_interval, sum_by_group
from datassay.train.together import predictions_of

FEWEST_MODELS = 2
Key = tuple[str, float]
Predictions = Float[np.ndarray, "R _ k"]


def looks(parts: Sequence[Part]) -> list[list[tuple[int, range]]]:
    """Part and models of each look: what the first look adds, and what the second does."""
    models = [range(part.learner.repeats) for part in parts]
    first = 1 if len(parts) >= FEWEST_PARTS else FEWEST_MODELS
    # Fits that draw nothing are the same for every seed: the first says all.
    if min(map(len, models)) <= first or not parts[0].learner.is_random:
        return [list(enumerate(models))]
    few = [(p, range(first)) for p in range(len(parts))]
    return [few, [(p, some[first:]) for p, some in enumerate(models)]]


@dataclass(slots=True)
class Retrained:
    """What models predict after an action, on the parts that were looked at."""

    each: list[list[Predictions]]  # by part, what each look added
    seconds: float = 0.0


@dataclass(slots=True)
class Comparison:
    """The samples as they are, and the actions that are compared with them, as far as retrained.

    Attributes:
        parts: of the samples.
        proposed: on each part, the actions by key; "" marks the samples as they are.
        base: predictions of models of the samples as they are, [R, m, k] a part.
        late: actions whose retraining the clock has ended.
    """

    parts: Sequence[Part]
    proposed: list[dict[Key, Action]]
    base: list[Predictions]
    late: set[Key] = field(default_factory=set)
    _done: dict[tuple[Key, bool], Retrained] = field(default_factory=dict)
    _extremes: list[tuple[Yardstick, ...]] = field(init=False)  # as few, as many wrong: a part each
    _yardsticks: list[Yardstick] = field(init=False)

    def __post_init__(self) -> None:
        self._yardsticks = [part.yardstick for part in self.parts]
        self._extremes = list(zip(*(part.extremes for part in self.parts), strict=True))

    def train(
        self, keys: Sequence[Key], look: Sequence[tuple[int, range]], *, control: bool = False
    ) -> None:
        """Fit the models of actions, or of their controls, that a look adds; all side by side.

        Where a part does not propose an action nothing changes there.
        """
        before = time.perf_counter()
        wanted = [(key, p, some) for key in keys for p, some in look]
        actions = [self._action(key, p, control) for key, p, _ in wanted]
        fittings = [
            ()
            if action is None
            else fittings_of(
                self.parts[p].learner, self.parts[p].train, self.parts[p].held_out, action, some
            )
            for action, (_, p, some) in zip(actions, wanted, strict=True)
        ]
        every = iter(predictions_of([one for some in fittings for one in some], may_end=True))
        n_fits = sum(len(one.seeds) for some in fittings for one in some)
        per_fit = (time.perf_counter() - before) / max(1, n_fits)
        each = [[one for _ in own if (one := next(every)) is not None] for own in fittings]
        rows = list(zip(actions, fittings, each, wanted, strict=True))
        self.late |= {key for _, own, known, (key, _, _) in rows if len(known) < len(own)}
        for action, own, predicted, (key, p, some) in rows:
            if key in self.late:  # a look at some of its parts alone says nothing
                continue
            done = self._done.setdefault((key, control), Retrained([[] for _ in self.parts]))
            if action is None:
                done.each[p].append(self.base[p][some.start : some.stop])
                continue
            done.each[p].append(routed(action, self.parts[p].held_out, predicted))
            done.seconds += per_fit * sum(len(one.seeds) for one in own)

    def is_seen(self, key: Key, *, control: bool = False) -> bool:
        """Whether it was retrained for a first look at least."""
        return (key, control) in self._done

    def follow(self, key: Key, kind: ActionKind) -> Action | None:
        """Add an action that does one and then another; None where no part proposes both."""
        added: list[Action] = []
        for part, own in zip(self.parts, self.proposed, strict=True):
            scores = ProposalScores(part.issues, part.information, copies=part.copies)
            both = followed(own[key], kind, part.train, scores) if key in own else None
            if both is not None:
                own[both.key] = both
                added.append(both)
        return added[0] if added else None

    def _action(self, key: Key, p: int, control: bool) -> Action | None:
        action = self.proposed[p].get(key)
        return action.control if control and action is not None else action

    def seconds_of(self, key: Key) -> float:
        """That retraining an action and its control took."""
        both = (self._done.get((key, control)) for control in (False, True))
        return sum(one.seconds for one in both if one is not None)

    def differences(
        self,
        key: Key,
        *,
        control: bool = False,
        as_given: bool = False,
        rules: Sequence[Yardstick] = (),
    ) -> list[Float[np.ndarray, "_ _"]]:
        """Scores less those of the samples as they are, [R, m] for each part looked at."""
        results, rules = [], rules or self._yardsticks
        for rule, base, looked in zip(rules, self.base, self._done[key, control].each, strict=True):
            if looked:
                predicted = np.concatenate(looked)
                of_base = rule.scores(base[: len(predicted)], as_given=as_given)
                results.append(rule.scores(predicted, as_given=as_given) - of_base)
        return results

    def gain(self, key: Key, *, is_searched: bool) -> Interval:
        """What an action gained where it was retrained."""
        unit = float(np.mean([one.unit for one in self._yardsticks]))
        level, base = LEVEL, []
        if len(looks(self.parts)) > 1:
            level = LOOKS[self.is_complete(key)]
            if not self.is_complete(key):
                pairs = zip(self._yardsticks, self.base, strict=True)
                base = [one.scores(predicted) for one, predicted in pairs]
        looked = zip(self._yardsticks, self._done[key, False].each, strict=True)
        groups = [rule.groups for rule, each in looked if each]
        result = sum_by_group(self.differences(key), groups)
        base = sum_by_group(base, groups) if base else base
        return paired_interval(result, unit, is_searched=is_searched, level=level, base=base)

    def bounds(self, key: Key, gain: Interval) -> tuple[float, float]:
        """The interval's ends if as few, and if as many held-out labels are wrong as may be."""
        # T says which noise was found; what it missed, such as a second rule in some labels, is
        # known by the share of wrong labels alone.
        ends = [mean(self.differences(key, rules=rules)) for rules in self._extremes]
        shifts = [0.0, *(end - gain.gain for end in ends)]
        low, high = gain.low + min(shifts), gain.high + max(shifts)
        if self._yardsticks[0].metric == R2:
            return low, high
        now = self.score()  # from it no action can take an accuracy below 0 or beyond 1
        return max(low, min(-now, gain.gain)), min(high, max(1 - now, gain.gain))

    def is_complete(self, key: Key) -> bool:
        """Whether it was looked at in all parts, by all models."""
        models = [sum(map(len, looked)) for looked in self._done[key, False].each]
        return models == [part.learner.repeats for part in self.parts]

    def score(self, *, as_given: bool = False) -> float:
        """Of the samples as they are, mean over models and held-out samples."""
        pairs = zip(self._yardsticks, self.base, strict=True)
        return mean([one.scores(predicted, as_given=as_given) for one, predicted in pairs])

    def right(self) -> list[Bool[np.ndarray, " m"]]:
        """Return which held-out labels are not suspected; of numbers, those that count."""
        return [_unsuspected(*one) for one in zip(self.parts, self.base, strict=True)]


def base_predictions(parts: Sequence[Part]) -> list[Predictions]:
    """What models of the samples as they are predict, [R, m, k] a part."""
    return predictions_of([
        one
        for part in parts
        for one in fittings_of(
            part.learner, part.train, part.held_out, as_it_is(part.train),
            range(part.learner.repeats),
        )
    ])  # fmt: skip


def mean(each: Sequence[Float[np.ndarray, "_ _"]]) -> float:
    """Over all samples of all parts, of the mean over models."""
    return float(np.concatenate([d.mean(0) for d in each]).mean())


def _unsuspected(part: Part, predicted: Predictions) -> Bool[np.ndarray, " m"]:
    if not part.train.is_classification:
        rows = part.yardstick.rows
        return np.ones(len(part.held_out) if rows is None else int(rows.sum()), bool)
    noise = np.eye(part.train.n_classes) if part.noise is None else part.noise
    return unsuspected(predicted, part.held_out.y, noise)
