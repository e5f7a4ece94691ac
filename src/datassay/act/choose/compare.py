"""Compare acts: each is retrained beside the samples as they are, on the same held-out samples.

parts, each with its own held-out samples → proposals → screen (closed form) → the promising ones
retrained, paired over seeds → gains with intervals → ActionTable
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from datassay.act.choose.action import (
    DROP,
    Action,
    ActionKind,
    action_kinds,
    as_it_is,
    predictions,
    proposals,
)
from datassay.act.choose.parts import Part, unsuspected
from datassay.act.choose.screen import screen
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.results import Tabular, field_names, result
from datassay.stats import BETTER, PERHAPS, SAME, WORSE, costs, paired, verdicts

STEP = "compare actions"
Key = tuple[str, float]
ORDER = {BETTER: 0, PERHAPS: 1, SAME: 2, WORSE: 3}

RETRAINED, SCREENED, EXPECTED = "retrained", "screened", "expected"


@result
class ActionGain:
    """What one action gained.

    Attributes:
        kind: which action, one of `act.KINDS`.
        words: what is done.
        how: "retrained", "screened" (the closed form alone) or "expected" (a learning curve).
        gain: of the metric, over the samples as they are; nan where nothing could be estimated.
        low: lower end of its 95 % interval; −inf where it was only screened.
        high: upper end.
        p: two-sided p value of no gain, of this action alone.
        verdict: of `stats.verdicts`; empty where it was only screened.
        given: the gain as if every held-out label were right.
        unsuspected: the gain on held-out samples whose labels are not suspected.
        control: the gain of the control; nan where there was none.
        control_words: what the control does.
        screened: the gain in closed form.
        changed: samples that it touches.
        cost: samples that it costs: those removed; negative: to be collected.
        seconds: that its retraining took.
        note: what else is to be known; may be empty.
    """

    kind: str
    words: str
    how: str
    gain: float
    low: float
    high: float
    p: float
    verdict: str
    given: float = np.nan
    unsuspected: float = np.nan
    control: float = np.nan
    control_words: str = ""
    screened: float = np.nan
    changed: int = 0
    cost: int = 0
    seconds: float = 0.0
    note: str = ""


@result
class ActionTable(Tabular):
    """Actions compared with the samples as they are, best first.

    Attributes:
        actions: what was tried; those only screened behind the others.
        left_out: what was not tried, and why.
        metric: "accuracy", "balanced accuracy" or "R²".
        score: of the samples as they are, corrected for wrong held-out labels where they are.
        score_given: the same as if every held-out label were right.
        n_held_out: samples that gains are measured on.
        n_suspected: of these with a suspected label.
        n_parts: held-out parts: 1, or folds.
        n_seeds: models per action and part.
        is_corrected: whether gains count with wrong held-out labels.
        seconds: that all of it took.
    """

    actions: tuple[ActionGain, ...]
    left_out: tuple[str, ...]
    metric: str
    score: float
    score_given: float
    n_held_out: int
    n_suspected: int
    n_parts: int
    n_seeds: int
    is_corrected: bool
    seconds: float

    @property
    def best(self) -> ActionGain | None:
        """The action to do: the first that is better; None: nothing to do."""
        return next((act for act in self.actions if act.verdict == BETTER), None)

    def to_table(self) -> pa.Table:
        """One row per action: the fields of ActionGain."""
        names = field_names(ActionGain)
        return pa.table({name: [getattr(act, name) for act in self.actions] for name in names})


def compare_actions(
    parts: Sequence[Part],
    *,
    budget: float,
    per_fit: float | None = None,
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
        seed: of controls, blocks and random choices.
        progress: called with (step, actions done, actions in all).

    Returns:
        The table, best action first.

    Raises:
        ModelError: the model cannot be fitted to the samples.

    Cost: for each part R fits of the samples as they are, and about 2 R per action.
    Source: ours; the actions are those of S0 (weights), S1 (removal), S4 (purification, blocks) and
    METHODS §2 (labels).
    """
    started = time.perf_counter()
    found = [
        proposals(
            part.train, part.issues, part.information, takes_weights=part.learner.takes_weights,
            seed=seed,
        )
        for part in parts
    ]  # fmt: skip
    proposed = [{act.key: act for act in actions} for actions, _ in found]
    actions = {act.key: act for each in reversed(proposed) for act in each.values()}
    screened = _screened(parts[0], proposed[0], seed)
    before = time.perf_counter()
    base = [
        predictions(part.learner, part.train, part.held_out, as_it_is(part.train)) for part in parts
    ]
    per_fit = time.perf_counter() - before if per_fit is None else per_fit
    right = [_unsuspected(*one) for one in zip(parts, base, strict=True)]
    judge = _Judge(parts, base, right, proposed, screened, action_kinds())
    chosen = _affordable(actions, screened, budget - per_fit, per_fit)
    rows = [judge.blank(act) for key, act in actions.items() if key not in chosen]
    drops = sorted(key for key in actions if key in chosen and key[0] == DROP)
    others = [key for key in actions if key in chosen and key[0] != DROP]
    for done, key in enumerate(others):
        rows.append(judge.controlled(judge.row(actions[key]), actions[key]))
        progress(STEP, done + 1, len(others) + 1)
    if drops:
        rows = [row for row in rows if row.kind != DROP]
        rows.append(_largest_drop(judge, [actions[key] for key in drops]))
    progress(STEP, len(others) + 1, len(others) + 1)
    return ActionTable(
        actions=_ranked(rows),
        left_out=found[0][1],
        metric=parts[0].yardstick.metric,
        score=judge.score(),
        score_given=judge.score(as_given=True),
        n_held_out=sum(len(part.held_out) for part in parts),
        n_suspected=sum(int((~one).sum()) for one in right),
        n_parts=len(parts),
        n_seeds=parts[0].learner.repeats,
        is_corrected=any(part.yardstick.is_corrected for part in parts),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """The samples as they are: what every act is compared with."""

    parts: Sequence[Part]
    base: list[np.ndarray]  # what models said that learnt from the samples as they are, [R, m, k]
    right: list[np.ndarray]  # [m] bool, which held-out labels are not suspected
    proposed: list[dict[Key, Action]]
    screened: dict[Key, float]
    kinds: dict[str, ActionKind]

    def score(self, *, as_given: bool = False) -> float:
        """Of the samples as they are, mean over seeds and held-out samples."""
        pairs = zip(self.parts, self.base, strict=True)
        return _mean([part.yardstick.scores(said, as_given=as_given) for part, said in pairs])

    def differences(self, said: list[np.ndarray], *, as_given: bool = False) -> list[np.ndarray]:
        """Scores less those of the samples as they are, [R, m] a part."""
        return [
            part.yardstick.scores(one, as_given=as_given)
            - part.yardstick.scores(base, as_given=as_given)
            for part, base, one in zip(self.parts, self.base, said, strict=True)
        ]

    def retrained(self, key: Key, *, control: bool = False) -> list[np.ndarray]:
        """What models say after the act; where a part does not propose it, nothing changes."""
        said = []
        for part, found, base in zip(self.parts, self.proposed, self.base, strict=True):
            act = found.get(key)
            act = act.control if control and act is not None else act
            said.append(
                base if act is None else predictions(part.learner, part.train, part.held_out, act)
            )
        return said

    def blank(self, act: Action) -> ActionGain:
        """What is known of an act before it is retrained."""
        gain = self.screened.get(act.key, np.nan)
        return ActionGain(
            kind=act.kind, words=act.words, how=SCREENED, gain=gain, low=-np.inf, high=np.inf,
            p=1.0, verdict="", screened=gain, changed=act.changed,
            cost=act.changed if act.is_removal else 0,
        )  # fmt: skip

    def row(self, act: Action) -> ActionGain:
        """What an act gained, still without a verdict and a control."""
        before = time.perf_counter()
        said = self.retrained(act.key)
        each = self.differences(said)
        unit = float(np.mean([part.yardstick.unit for part in self.parts]))
        found = paired(each, unit, is_searched=self.kinds[act.kind].is_searched)
        trusted = [d[:, r].mean(0) for d, r in zip(each, self.right, strict=True)]
        trusted = np.concatenate(trusted)
        return replace(
            self.blank(act), how=RETRAINED, gain=found.gain, low=found.low, high=found.high,
            p=found.p, given=_mean(self.differences(said, as_given=True)),
            unsuspected=float(trusted.mean()) if len(trusted) else np.nan,
            control_words=act.control_words, seconds=time.perf_counter() - before,
        )  # fmt: skip

    def controlled(self, row: ActionGain, act: Action, note: str = "") -> ActionGain:
        """The row with the gain of the act's control, where it has one."""
        if act.control is None:
            return replace(row, note=note)
        before = time.perf_counter()
        control = _mean(self.differences(self.retrained(act.key, control=True)))
        seconds = row.seconds + time.perf_counter() - before
        return replace(row, control=control, seconds=seconds, note=note)


def _largest_drop(judge: _Judge, drops: list[Action]) -> ActionGain:
    """Of rising fractions the largest that costs nothing measurable, and what the next costs."""
    last = judge.row(drops[0])
    if costs(last.gain, last.high):
        return judge.controlled(last, drops[0], "already that costs")
    for act, next_ in pairwise(drops):
        row = judge.row(next_)
        if costs(row.gain, row.high):
            note = f"{100 * next_.fraction:.0f} % costs {-100 * row.gain:.1f} points"
            return judge.controlled(last, act, note)
        last = row
    return judge.controlled(last, drops[-1])


def _mean(each: list[np.ndarray]) -> float:
    return float(np.concatenate([d.mean(0) for d in each]).mean())


def _unsuspected(part: Part, said: np.ndarray) -> np.ndarray:
    """Which held-out labels are not suspected; of numbers all."""
    if not part.train.is_classification:
        return np.ones(len(part.held_out), bool)
    noise = np.eye(part.train.n_classes) if part.noise is None else part.noise
    return unsuspected(said, part.held_out.y, noise)


def _screened(part: Part, actions: dict[Key, Action], seed: int) -> dict[Key, float]:
    """Gains in closed form, on the first part; of acts that it proposes."""
    if part.lin is None:
        return {}
    closed = screen(part.lin, part.train, part.penalty, part.yardstick, seed)
    try:
        base = closed.score(as_it_is(part.train), part.train)
        return {key: closed.score(act, part.train) - base for key, act in actions.items()}
    except DataError:
        return {}


def _affordable(
    actions: dict[Key, Action], screened: dict[Key, float], budget: float, per_fit: float
) -> set[Key]:
    """Which acts are retrained: the most promising first, while the budget lasts; at least one."""
    order = sorted(actions, key=lambda key: -screened.get(key, 0.0))
    chosen, spent = set(order[:1]), 0.0
    for key in order:
        spent += per_fit * actions[key].fits
        if spent <= budget:
            chosen.add(key)
    return chosen


def _ranked(rows: list[ActionGain]) -> tuple[ActionGain, ...]:
    """With verdicts; better acts first, then by gain, then those that were only screened."""
    retrained = [row for row in rows if row.how == RETRAINED]
    told = [replace(row, verdict=v) for row, v in zip(retrained, verdicts(retrained), strict=True)]
    told.sort(key=lambda row: (ORDER[row.verdict], -row.gain))
    rest = [row for row in rows if row.how != RETRAINED]
    return (*told, *sorted(rest, key=lambda row: -row.gain))
