"""Compare actions: each is retrained and compared with the samples as they are, on held-out ones.

parts, each with its own held-out samples → proposals → screen (closed form) → those that could
gain retrained in two analyses, paired over seeds → gains with intervals → ActionTable
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from datassay.act.choose.action import COPIES, DROP, RELABEL, REMOVE, SAVES, Action, as_it_is
from datassay.act.choose.gains import RETRAINED, SCREENED, ActionGain, ActionTable
from datassay.act.choose.kinds import ActionKind, action_kinds, proposals
from datassay.act.choose.looks import Comparison, Key, Predictions, analyses, base_predictions, mean
from datassay.act.choose.parts import R2, Part
from datassay.act.choose.screen import screen
from datassay.errors import DataError
from datassay.optional import drop_none
from datassay.progress import Progress, silent
from datassay.stats import (
    ADVICE,
    DO,
    FREE,
    LEAVE,
    MOST_LOST,
    TOLERATED,
    Interval,
    advice,
    costs,
    expected_gain,
    mean_interval,
    verdicts,
)

STEP = "compare actions"
BEYOND = 0.02  # that retrained networks may gain above the upper end of the closed form's interval
# Part of its first interval's half width that an action must have gained to be trained further:
# about a third of a standard error of five parts. Of true gains as large as three standard errors
# of the last analysis 4 % end early.
LEAST_SIGN = 1 / 15
ENDED = "stopped at the first interim analysis"
GAINED_NOTHING = "it had gained nothing that would show"
RIVAL = "relabelling the same samples does as well"
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
    """Measure what each action gains on held-out samples, in a budget of seconds.

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
    first_actions, left_out = _propose_actions(parts[0], seed)
    screened = _screen_actions(parts[0], first_actions, seed)
    kinds = action_kinds()
    hopeless = {key for key, gain in screened.items() if _is_hopeless(kinds[key[0]], gain)}
    hopeful_kinds = {kind for kind, fraction in first_actions if (kind, fraction) not in hopeless}
    # Slow kinds are searched on the other parts only if they could gain on the first.
    skipped = {name for name, kind in kinds.items() if kind.is_slow and name not in hopeful_kinds}
    proposed = [first_actions, *(_propose_actions(fold, seed, skipped)[0] for fold in parts[1:])]
    actions = {action.key: action for by_key in reversed(proposed) for action in by_key.values()}
    before = time.perf_counter()
    comparison = Comparison(parts, proposed, list(base) or base_predictions(parts))
    if per_fit is None:
        per_fit = time.perf_counter() - before
    promising = {key: action for key, action in actions.items() if key not in hopeless}
    affordable = _choose_affordable(promising, screened, budget - per_fit, per_fit)
    job = _Job(comparison, screened, kinds, comparison.mark_trusted_labels(), progress)
    unaffordable = [key for key in actions if key not in affordable]
    rows = [job.screened_row(actions[key], key in hopeless) for key in unaffordable]
    rows += job.retrain_actions([actions[key] for key in actions if key in affordable])
    if any(row.kind == DROP and row.how == RETRAINED for row in rows):
        rows = [row for row in rows if row.kind != DROP or row.how == RETRAINED]
    n_held_out = sum(len(fold.held_out) for fold in parts)
    return ActionTable(
        actions=_rank_rows(rows),
        left_out=left_out,
        metric=parts[0].scoring_rule.metric,
        score=comparison.score(),
        score_given=comparison.score(as_given=True),
        n_held_out=n_held_out,
        n_suspected=n_held_out - sum(int(mask.sum()) for mask in job.is_trusted),
        n_parts=len(parts),
        n_seeds=parts[0].learner.repeats,
        is_corrected=any(fold.scoring_rule.is_corrected for fold in parts),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """The retraining of actions, and what is known of them before."""

    comparison: Comparison
    screened: dict[Key, Interval]
    kinds: dict[str, ActionKind]
    is_trusted: list[np.ndarray]  # [m] bool, which held-out labels are not suspected
    progress: Progress

    def retrain_actions(self, actions: Sequence[Action]) -> list[ActionGain]:
        """Retrain the actions; return a row for each (one for all drops) and for combinations."""
        drops = sorted((a for a in actions if a.kind == DROP), key=lambda a: a.fraction)
        drop_idx = self._select_drops(drops)
        other_actions = [action for action in actions if action.kind != DROP]
        undecided = [*other_actions, *(drops[i] for i in drop_idx)]
        schedule = analyses(self.comparison.parts)
        for number, analysis in enumerate(schedule):
            self.progress(STEP, number, len(schedule) + 1)
            self.comparison.train([action.key for action in undecided], analysis)
            undecided = [a for a in undecided if a.key not in self.comparison.overdue]
            undecided = self._leave_out_removal(self._keep_one_drop(undecided))
            undecided = [a for a in undecided if self._is_undecided(a)]
        self.progress(STEP, len(schedule), len(schedule) + 1)
        rows = [self.retrained_row(action) for action in other_actions]
        recommended = next((r.kind for r in _rank_rows(rows) if r.advice == DO), "")
        controls = [a for a in other_actions if a.control is not None and a.kind == recommended]
        for analysis in schedule if controls else ():
            self.comparison.train([action.key for action in controls], analysis, control=True)
        controls = [a for a in controls if self.comparison.is_retrained(a.key, control=True)]
        rows = [
            self.add_control(row, action) if action in controls else row
            for row, action in zip(rows, other_actions, strict=True)
        ]
        rows += self._largest_drop(drops, drop_idx)
        rows += self._combine(rows, actions)
        self.progress(STEP, len(schedule) + 1, len(schedule) + 1)
        return rows

    def _combine(self, rows: Sequence[ActionGain], actions: Sequence[Action]) -> list[ActionGain]:
        """Return a row per action tried on top of the best; each that raises the gain is kept."""
        recommended = [row for row in _rank_rows(list(rows)) if row.is_advised]
        candidates = [r for r in recommended if r.kind == COPIES or not self.kinds[r.kind].follows]
        best_row = next((row for row in candidates if self.kinds[row.kind].is_followed), None)
        if best_row is None or recommended[0].advice != DO:
            return []
        best_gain = best_row.gain
        combinations = []
        best_name = (best_row.kind, best_row.words)
        key = next(action.key for action in actions if (action.kind, action.words) == best_name)
        for row in recommended:
            kind = self.kinds[row.kind]
            can_follow = kind.follows and row is not best_row
            combined = None
            if can_follow:
                combined = self.comparison.follow(key, kind)
            if combined is None:
                continue
            for analysis in analyses(self.comparison.parts):
                self.comparison.train([combined.key], analysis)
            if not self.comparison.is_retrained(combined.key):
                break
            combinations.append(self.retrained_row(combined))
            if combinations[-1].gain > best_gain:
                key = combined.key
                best_gain = combinations[-1].gain
        return combinations

    def _leave_out_removal(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions; removal only if it gains TOLERATED more than relabelling does."""
        relabel = next((a for a in actions if a.kind == RELABEL and self._is_undecided(a)), None)
        bound = -np.inf
        if relabel is not None:
            bound = self.gain(relabel).gain
        return [a for a in actions if a.kind != REMOVE or self.gain(a).gain > bound + TOLERATED]

    def _keep_one_drop(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions with a single drop: the largest that is free, or the smallest."""
        drops = [action for action in actions if action.kind == DROP]
        free_drops = [action for action in drops if not costs(self.gain(action).gain)]
        tried_drops = free_drops[-1:] or drops[:1]
        return [action for action in actions if action.kind != DROP or action is tried_drops[0]]

    def _is_undecided(self, action: Action) -> bool:
        """Return whether another interim analysis could change the verdict."""
        outcome = self.gain(action)
        if action.kind in SAVES:
            return not (outcome.gain < -TOLERATED and outcome.high <= 0)
        return outcome.gain > outcome.half * LEAST_SIGN and outcome.high > TOLERATED

    def gain(self, action: Action) -> Interval:
        """Return the gain of an action, as far as it was retrained."""
        kinds = [action.kind] if action.kind in self.kinds else action.kind.split("+")
        is_searched = any(self.kinds[kind].is_searched for kind in kinds)
        return self.comparison.gain(action.key, is_searched=is_searched)

    def describe_change(self, row: Interval | ActionGain) -> str:
        """Return a gain's interval in words, such as "−0.5 to 1.2 points"."""
        if self.comparison.parts[0].scoring_rule.metric == R2:
            text = f"{row.low:.3f} to {row.high:.3f} of R²"
        else:
            text = f"{100 * row.low:.1f} to {100 * row.high:.1f} points"
        return text.replace("-", "−")

    def screened_row(self, action: Action, is_hopeless: bool = False) -> ActionGain:
        """Return the table row of an action that was estimated in closed form, not retrained."""
        outcome = self.screened.get(action.key)
        note = ""
        if outcome is not None and is_hopeless:
            note = f"not retrained: in closed form it changes {self.describe_change(outcome)}"
        if action.key in self.comparison.overdue:
            note = f"not retrained: {LATE}"
        gain = np.nan if outcome is None else outcome.gain
        return ActionGain(
            kind=action.kind, words=action.words, how=SCREENED, gain=gain, low=-np.inf, high=np.inf,
            p=1.0, verdict="", screened=gain, changed=action.changed,
            cost=len(action.weights) - len(action.kept), note=note,
        )  # fmt: skip

    def retrained_row(self, action: Action) -> ActionGain:
        """Return the table row of a retrained action, still without verdict and control."""
        if not self.comparison.is_retrained(action.key):
            return self.screened_row(action)
        outcome = self.gain(action)
        differences = self.comparison.differences(action.key)
        low, high = self.comparison.bounds(action.key, outcome)
        pairs = zip(differences, self.is_trusted, strict=True)
        trusted_gain = np.concatenate([d[:, mask].mean(0) for d, mask in pairs])
        note = ""
        if not self.comparison.is_complete(action.key):
            reason = GAINED_NOTHING
            if self._is_undecided(action):
                reason = RIVAL
            if action.kind in SAVES:
                reason = "it may cost"
            note = f"{ENDED}: {LATE if action.key in self.comparison.overdue else reason}"
        return replace(
            self.screened_row(action), how=RETRAINED, gain=outcome.gain, low=low, high=high,
            p=outcome.p, control_words=action.control_words, note=note,
            given=mean(self.comparison.differences(action.key, as_given=True)),
            unsuspected=float(trusted_gain.mean()) if len(trusted_gain) else np.nan,
            seconds=self.comparison.seconds_of(action.key),
        )  # fmt: skip

    def add_control(self, row: ActionGain, action: Action) -> ActionGain:
        """Return the row with the gain of the action's control added."""
        control = mean(self.comparison.differences(action.key, control=True))
        return replace(row, control=control, seconds=self.comparison.seconds_of(action.key))

    def _select_drops(self, drops: Sequence[Action]) -> list[int]:
        """Return positions of the drops to retrain: the largest that seems free, and the next."""
        free_idx = [
            i for i, action in enumerate(drops) if not costs(self.screened_row(action).gain)
        ]
        if not free_idx:
            return list(range(min(1, len(drops))))
        return list(range(free_idx[-1], min(free_idx[-1] + 2, len(drops))))

    def _largest_drop(self, drops: Sequence[Action], drop_idx: Sequence[int]) -> list[ActionGain]:
        """Return the row of the largest drop that costs nothing, noting what the next one costs."""
        # From the first of `drop_idx` retrain downwards until one is free, else upwards.
        if not drops:
            return []
        rows = {i: self.retrained_row(drops[i]) for i in drop_idx}

        def is_costly(i: int) -> bool:
            if i not in rows:
                for analysis in analyses(self.comparison.parts):
                    self.comparison.train([drops[i].key], analysis)
                    if drops[i].key in self.comparison.overdue or not self._is_undecided(drops[i]):
                        break
                rows[i] = self.retrained_row(drops[i])
            return rows[i].how == SCREENED or costs(rows[i].gain, rows[i].high)

        i = drop_idx[0]
        while i > 0 and is_costly(i):
            i -= 1
        if is_costly(i):
            is_known = rows[i].how == RETRAINED
            return [replace(rows[i], note="already that may cost") if is_known else rows[i]]
        while i + 1 < len(drops) and not is_costly(i + 1):
            i += 1
        if i + 1 == len(drops) or rows[i + 1].how == SCREENED:
            return [rows[i]]
        note = f"{100 * drops[i + 1].fraction:.0f} % changes {self.describe_change(rows[i + 1])}"
        return [replace(rows[i], note=note)]


def _propose_actions(
    fold: Part, seed: int, skipped: Collection[str] = ()
) -> tuple[dict[Key, Action], tuple[str, ...]]:
    """Return a part's proposed actions by key, and sentences on why others are left out."""
    actions, left_out = proposals(
        fold.train, fold.issues, fold.information, takes_weights=fold.learner.takes_weights,
        seed=seed, without=skipped, copies=fold.copies,
    )  # fmt: skip
    return {action.key: action for action in actions}, left_out


def _is_hopeless(kind: ActionKind, outcome: Interval) -> bool:
    """Return whether the closed form rules out a gain; never of actions that may save samples."""
    if kind.name in SAVES:
        return False
    if kind.is_slow:
        return outcome.gain <= 0
    return outcome.high + BEYOND <= 0


def _screen_actions(fold: Part, actions: dict[Key, Action], seed: int) -> dict[Key, Interval]:
    """Return each action's gain in closed form on a part, as intervals by key; {} without lin."""
    if fold.lin is None:
        return {}
    closed = screen(fold.lin, fold.train, fold.penalty, fold.scoring_rule, seed)
    try:
        base = closed.scores(as_it_is(fold.train), fold.train)
        return {
            key: mean_interval(closed.scores(action, fold.train) - base, fold.scoring_rule.unit)
            for key, action in actions.items()
        }
    except DataError:
        return {}


def _choose_affordable(
    actions: dict[Key, Action], screened: dict[Key, Interval], budget: float, per_fit: float
) -> set[Key]:
    """Return keys of the most promising actions that the seconds suffice for; at least one."""
    order = sorted(actions, key=lambda key: -screened[key].gain if key in screened else 0.0)
    keys = set(order[:1])
    seconds = 0.0
    for key in order:
        seconds += per_fit * actions[key].fits
        if seconds <= budget:
            keys.add(key)
    return keys


def _rank_rows(rows: list[ActionGain]) -> tuple[ActionGain, ...]:
    """Return rows with verdict and advice, best first; those only screened come last."""
    retrained = [row for row in rows if row.how == RETRAINED]
    reported = [
        replace(row, verdict=v, advice=_choose_advice(row))
        for row, v in zip(retrained, verdicts(retrained), strict=True)
    ]
    # Relabelling keeps samples: it ranks above removing the same ones, unless that is shown to gain
    # more.
    relabel = next((row for row in reported if row.kind == RELABEL), None)
    upper_end = -np.inf if relabel is None else relabel.high
    removing = {kind.name for kind in action_kinds().values() if kind.removes_suspects}
    rivals = [row for row in reported if row.kind in removing and row.gain <= upper_end]
    outranked = [*rivals, *drop_none(relabel)]
    relabel_gain = max((expected_gain(row.gain, row.low) for row in outranked), default=0.0)
    # An action that ended early comes later: the first analysis alone says less.
    reported.sort(
        key=lambda row: (
            ADVICE.index(row.advice),
            row.note.startswith(ENDED),
            -(relabel_gain if row is relabel else expected_gain(row.gain, row.low)),
            row is not relabel,
        )
    )
    screened = [row for row in rows if row.how != RETRAINED]
    return (*reported, *sorted(screened, key=lambda row: -row.gain))


def _choose_advice(row: ActionGain) -> str:
    """Return the advice on a row; FREE where fewer samples do as well."""
    result = advice(row.gain, row.low, row.high)
    is_free = result == LEAVE and row.low >= -MOST_LOST and not costs(row.gain, row.high)
    if is_free and row.kind in SAVES:
        return FREE
    return result
