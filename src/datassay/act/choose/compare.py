"""Compare acts: each is retrained and compared with the samples as they are, on held-out samples.

parts, each with its own held-out samples → proposals → screen (closed form) → those that could
gain retrained in two looks, paired over seeds → gains with intervals → ActionTable
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from datassay.act.choose.action import (
    COPIES,
    DROP,
    PURIFY,
    RELABEL,
    REMOVE,
    SAVES,
    SPLIT,
    Action,
    ActionKind,
    action_kinds,
    as_it_is,
    proposals,
)
from datassay.act.choose.gains import RETRAINED, SCREENED, ActionGain, ActionTable
from datassay.act.choose.looks import Comparison, Key, Predictions, base_predictions, looks, mean
from datassay.act.choose.parts import R2, Part
from datassay.act.choose.screen import screen
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.stats import (
    ADVICE,
    DO,
    FREE,
    LEAVE,
    TOLERATED,
    TRY,
    Interval,
    advice,
    costs,
    is_vague,
    mean_interval,
    verdicts,
)

STEP = "compare actions"
# By how much more than the upper end of its interval in closed form an action may gain when
# networks are retrained.
BEYOND = 0.02

# Part of the half width of its first interval that an action must have gained to be trained on:
# about a third of a standard error of five parts. Of true gains of three standard errors of the
# last look 4 % end early.
LEAST_SIGN = 1 / 15
ENDED, GAINED_NOTHING = "ended at the first look", "it had gained nothing that would show"
RIVAL = "relabelling the same samples had gained as much, and one of the two is enough"
LATE = "the seconds of --budget were over"


def compare_actions(
    parts: Sequence[Part],
    *,
    budget: float,
    per_fit: float | None = None,
    base: Sequence[Predictions] = (),
    seed: int = 0,
    progress: Progress = silent,
) -> ActionTable:
    """What each action gains on held-out samples, in a budget of seconds.

    Args:
        parts: one, or one a fold; each with scores that never saw its held-out samples.
        budget: seconds for retraining; actions are retrained in the order of their screened gains,
            and those beyond it only screened. The samples as they are and one action are retrained
            whatever it takes.
        per_fit: seconds that one model a seed is expected to take over all parts, the same on every
            machine; None: what the samples as they are took.
        base: `base_predictions` of the parts, where they are there already; none: they are made.
        seed: of controls, blocks and random choices.
        progress: called with (step, actions done, actions in all).

    Returns:
        The table, best action first.

    Raises:
        ModelError: the model cannot be fitted to the samples.
        OutOfTime: the time of `progress.until` ended before the samples as they are were learnt.

    Cost: for each part R fits of the samples as they are, and about 2 R per action.
    Source: ours; the actions are those of S0 (weights), S1 (removal), S4 (purification, blocks) and
    METHODS §2 (labels).
    """
    started = time.perf_counter()
    first, left_out = _proposed(parts[0], seed)
    screened = _screened(parts[0], first, seed)
    kinds = action_kinds()
    hopeless = {key for key, one in screened.items() if _is_hopeless(kinds[key[0]], one)}
    hopeful = {name for name, fraction in first if (name, fraction) not in hopeless}
    useless = {name for name, one in kinds.items() if one.is_slow and name not in hopeful}
    proposed = [first, *(_proposed(part, seed, useless)[0] for part in parts[1:])]
    actions = {action.key: action for each in reversed(proposed) for action in each.values()}
    before = time.perf_counter()
    comparison = Comparison(parts, proposed, list(base) or base_predictions(parts))
    per_fit = time.perf_counter() - before if per_fit is None else per_fit
    promising = {key: action for key, action in actions.items() if key not in hopeless}
    chosen = _affordable(promising, screened, budget - per_fit, per_fit)
    job = _Job(comparison, screened, kinds, comparison.right(), progress)
    unchosen = [key for key in actions if key not in chosen]
    rows = [job.blank(actions[key], key in hopeless) for key in unchosen]
    rows += job.rows([actions[key] for key in actions if key in chosen])
    if any(row.kind == DROP and row.how == RETRAINED for row in rows):
        rows = [row for row in rows if row.kind != DROP or row.how == RETRAINED]
    n_held_out = sum(len(part.held_out) for part in parts)
    return ActionTable(
        actions=_ranked(rows),
        left_out=left_out,
        metric=parts[0].yardstick.metric,
        score=comparison.score(),
        score_given=comparison.score(as_given=True),
        n_held_out=n_held_out,
        n_suspected=n_held_out - sum(int(right.sum()) for right in job.right),
        n_parts=len(parts),
        n_seeds=parts[0].learner.repeats,
        is_corrected=any(part.yardstick.is_corrected for part in parts),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """Which actions are retrained, and how long."""

    comparison: Comparison
    screened: dict[Key, Interval]
    kinds: dict[str, ActionKind]
    right: list[np.ndarray]  # [m] bool, which held-out labels are not suspected
    progress: Progress

    def rows(self, actions: Sequence[Action]) -> list[ActionGain]:
        """What the actions gain; of several drops the row of one."""
        drops = sorted((a for a in actions if a.kind == DROP), key=lambda a: a.fraction)
        near = self._near(drops)
        others = [action for action in actions if action.kind != DROP]
        going = [*others, *(drops[i] for i in near)]
        every = looks(self.comparison.parts)
        for number, look in enumerate(every):
            self.progress(STEP, number, len(every) + 1)
            self.comparison.train([action.key for action in going], look)
            going = [a for a in going if a.key not in self.comparison.late]
            going = [a for a in self._rivals(self._of_drops(going)) if self._goes_on(a)]
        self.progress(STEP, len(every), len(every) + 1)
        rows = [self.row(action) for action in others]
        advised = next((r.kind for r in _ranked(rows) if r.advice == DO), "")
        controlled = [a for a in others if a.control is not None and a.kind == advised]
        for look in every if controlled else ():
            self.comparison.train([action.key for action in controlled], look, control=True)
        controlled = [a for a in controlled if self.comparison.is_seen(a.key, control=True)]
        rows = [
            self.controlled(row, action) if action in controlled else row
            for row, action in zip(rows, others, strict=True)
        ]
        rows += self._largest_drop(drops, near)
        rows += self._joined(rows, actions)
        self.progress(STEP, len(every) + 1, len(every) + 1)
        return rows

    def _joined(self, rows: Sequence[ActionGain], actions: Sequence[Action]) -> list[ActionGain]:
        """The best action, then each that can follow, the best first, kept where it adds a gain."""
        advised = [row for row in _ranked(list(rows)) if row.advice in {DO, TRY}]
        able = [r for r in advised if r.kind == COPIES or not self.kinds[r.kind].follows]
        first = next((row for row in able if row.kind != SPLIT), None)
        if first is None or advised[0].advice != DO:
            return []
        words, best, tried = (first.kind, first.words), first.gain, []
        key = next(action.key for action in actions if (action.kind, action.words) == words)
        for row in advised:
            kind = self.kinds[row.kind]
            own = self.comparison.follow(key, kind) if kind.follows and row is not first else None
            if own is None:
                continue
            for look in looks(self.comparison.parts):
                self.comparison.train([own.key], look)
            if not self.comparison.is_seen(own.key):
                break
            tried.append(self.row(own))
            if tried[-1].gain > best:
                key, best = own.key, tried[-1].gain
        return tried

    def _rivals(self, actions: Sequence[Action]) -> list[Action]:
        """The actions, removal only where it gains half a point more than relabelling the same."""
        other = next((a for a in actions if a.kind == RELABEL and self._goes_on(a)), None)
        least = -np.inf if other is None else self.gain(other).gain
        return [a for a in actions if a.kind != REMOVE or self.gain(a).gain > least + TOLERATED]

    def _of_drops(self, actions: Sequence[Action]) -> list[Action]:
        """The actions, of two drops only the larger that does not seem to cost."""
        drops = [action for action in actions if action.kind == DROP]
        fine = [action for action in drops if not costs(self.gain(action).gain)]
        taken = (fine or drops)[-1 if fine else 0] if drops else None
        return [action for action in actions if action.kind != DROP or action is taken]

    def _goes_on(self, action: Action) -> bool:
        """Whether the verdict is open after a look: what has not gained is looked at no more."""
        outcome = self.gain(action)
        if action.kind in SAVES:
            return not (outcome.gain < -TOLERATED and outcome.high <= 0)
        return outcome.gain > outcome.half * LEAST_SIGN and outcome.high > TOLERATED

    def gain(self, action: Action) -> Interval:
        """As far as it was retrained."""
        both = (action.kind,) if action.kind in self.kinds else action.kind.split("+")
        searched = any(self.kinds[name].is_searched for name in both)
        return self.comparison.gain(action.key, is_searched=searched)

    def change(self, row: Interval | ActionGain) -> str:
        """A change in words, as its interval."""
        is_r2 = self.comparison.parts[0].yardstick.metric == R2
        scale, digits, unit = (1, 3, "of R²") if is_r2 else (100, 1, "points")
        ends = f"{scale * row.low:.{digits}f} to {scale * row.high:.{digits}f} {unit}"
        return ends.replace("-", "−")

    def blank(self, action: Action, is_hopeless: bool = False) -> ActionGain:
        """What is known of an action before it is retrained."""
        outcome, note = self.screened.get(action.key), ""
        if outcome is not None and is_hopeless:
            note = f"not retrained: in closed form it changes {self.change(outcome)}"
        if action.key in self.comparison.late:
            note = f"not retrained: {LATE}"
        gain = np.nan if outcome is None else outcome.gain
        return ActionGain(
            kind=action.kind, words=action.words, how=SCREENED, gain=gain, low=-np.inf, high=np.inf,
            p=1.0, verdict="", screened=gain, changed=action.changed,
            cost=len(action.weights) - len(action.kept), note=note,
        )  # fmt: skip

    def row(self, action: Action) -> ActionGain:
        """What an action gained, still without a verdict and a control."""
        if not self.comparison.is_seen(action.key):
            return self.blank(action)
        outcome, each = self.gain(action), self.comparison.differences(action.key)
        low, high = self.comparison.bounds(action.key, outcome)
        trusted = np.concatenate([d[:, r].mean(0) for d, r in zip(each, self.right, strict=True)])
        note = ""
        if not self.comparison.is_complete(action.key):
            why = RIVAL if self._goes_on(action) else GAINED_NOTHING
            why = "it may cost" if action.kind in SAVES else why
            note = f"{ENDED}: {LATE if action.key in self.comparison.late else why}"
        return replace(
            self.blank(action), how=RETRAINED, gain=outcome.gain, low=low, high=high,
            p=outcome.p, control_words=action.control_words, note=note,
            given=mean(self.comparison.differences(action.key, as_given=True)),
            unsuspected=float(trusted.mean()) if len(trusted) else np.nan,
            seconds=self.comparison.seconds_of(action.key),
        )  # fmt: skip

    def controlled(self, row: ActionGain, action: Action) -> ActionGain:
        """The row with the gain of the action's control."""
        control = mean(self.comparison.differences(action.key, control=True))
        return replace(row, control=control, seconds=self.comparison.seconds_of(action.key))

    def _near(self, drops: Sequence[Action]) -> list[int]:
        """Of rising fractions the largest that costs nothing in closed form, and the next."""
        fine = [i for i, action in enumerate(drops) if not costs(self.blank(action).gain)]
        first = fine[-1] if fine else 0
        return list(range(len(drops)))[first : first + (2 if fine else 1)]

    def _largest_drop(self, drops: Sequence[Action], near: Sequence[int]) -> list[ActionGain]:
        """Of rising fractions the largest that costs nothing, and what the next one costs."""
        if not drops:
            return []
        rows = {i: self.row(drops[i]) for i in near}

        def is_costly(i: int) -> bool:
            if i not in rows:
                for look in looks(self.comparison.parts):
                    self.comparison.train([drops[i].key], look)
                    if drops[i].key in self.comparison.late or not self._goes_on(drops[i]):
                        break
                rows[i] = self.row(drops[i])
            return rows[i].how == SCREENED or costs(rows[i].gain, rows[i].high)

        i = near[0]
        while i > 0 and is_costly(i):
            i -= 1
        if is_costly(i):
            is_known = rows[i].how == RETRAINED
            return [replace(rows[i], note="already that may cost") if is_known else rows[i]]
        while i + 1 < len(drops) and not is_costly(i + 1):
            i += 1
        if i + 1 == len(drops) or rows[i + 1].how == SCREENED:
            return [rows[i]]
        note = f"{100 * drops[i + 1].fraction:.0f} % changes {self.change(rows[i + 1])}"
        return [replace(rows[i], note=note)]


def _proposed(
    part: Part, seed: int, without: Collection[str] = ()
) -> tuple[dict[Key, Action], tuple[str, ...]]:
    """The actions of a part by key, and why others are not tried."""
    actions, left_out = proposals(
        part.train, part.issues, part.information, takes_weights=part.learner.takes_weights,
        seed=seed, without=without, copies=part.copies,
    )  # fmt: skip
    return {action.key: action for action in actions}, left_out


def _is_hopeless(kind: ActionKind, outcome: Interval) -> bool:
    """Whether an action cannot gain by its closed form; a drop need not gain, and is never."""
    if kind.name in SAVES:
        return False
    return outcome.gain <= 0 if kind.is_slow else outcome.high + BEYOND <= 0


def _screened(part: Part, actions: dict[Key, Action], seed: int) -> dict[Key, Interval]:
    """Gains in closed form, on the first part, and what other held-out samples would make of it."""
    if part.lin is None:
        return {}
    closed = screen(part.lin, part.train, part.penalty, part.yardstick, seed)
    try:
        base = closed.scores(as_it_is(part.train), part.train)
        return {
            key: mean_interval(closed.scores(action, part.train) - base, part.yardstick.unit)
            for key, action in actions.items()
        }
    except DataError:
        return {}


def _affordable(
    actions: dict[Key, Action], screened: dict[Key, Interval], budget: float, per_fit: float
) -> set[Key]:
    """Actions to retrain: the most promising first, while the budget lasts; at least one."""
    order = sorted(actions, key=lambda key: -screened[key].gain if key in screened else 0.0)
    chosen, spent = set(order[:1]), 0.0
    for key in order:
        spent += per_fit * actions[key].fits
        if spent <= budget:
            chosen.add(key)
    return chosen


def _ranked(rows: list[ActionGain]) -> tuple[ActionGain, ...]:
    """With advice and verdicts; by advice, then by gain, then those that were only screened."""
    retrained = [row for row in rows if row.how == RETRAINED]
    reported = [
        replace(row, verdict=v, advice=_advice(row))
        for row, v in zip(retrained, verdicts(retrained), strict=True)
    ]
    # Correcting keeps samples: what leaves out the same ones leads where it is shown to gain more.
    first = next((row for row in reported if row.kind == RELABEL), None)
    most = -np.inf if first is None else first.high
    rivals = [r.gain for r in reported if r.kind in (REMOVE, PURIFY, DROP) and r.gain <= most]
    lead = max([*rivals, -np.inf if first is None else first.gain])
    # What was ended leads nothing: the first look alone says less.
    reported.sort(key=lambda r: (ADVICE.index(r.advice), r.note.startswith(ENDED),
                                 -(lead if r is first else r.gain), r is not first))  # fmt: skip
    rest = [row for row in rows if row.how != RETRAINED]
    return (*reported, *sorted(rest, key=lambda row: -row.gain))


def _advice(row: ActionGain) -> str:
    """What to do; fewer samples that do as well are worth having without any gain."""
    result = advice(row.gain, row.low, row.high)
    is_free = result == LEAVE and not (costs(row.gain, row.high) or is_vague(row.low, row.high))
    return FREE if is_free and row.kind in SAVES else result
