"""Compare acts: each is retrained beside the samples as they are, on the same held-out samples.

parts, each with its own held-out samples → proposals → screen (closed form) → the promising ones
retrained, paired over seeds → gains with intervals → ActTable
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from datassay.act.choose.action import DROP, Action, as_it_is, predictions
from datassay.act.choose.gains import RETRAINED, SCREENED, ActGain, ActTable
from datassay.act.choose.parts import Part
from datassay.act.choose.registry import ActionKind, action_kinds, proposals
from datassay.act.choose.screen import screen
from datassay.act.choose.yardstick import Yardstick, unsuspected
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.stats import BETTER, PERHAPS, SAME, WORSE, costs, paired, verdicts

STEP = "compare acts"
Key = tuple[str, float]
ORDER = {BETTER: 0, PERHAPS: 1, SAME: 2, WORSE: 3}


def compare_acts(
    parts: Sequence[Part],
    *,
    budget: float,
    per_fit: float | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> ActTable:
    """What each act gains on held-out samples, in a budget of seconds.

    Args:
        parts: one, or one a fold; each with scores that never saw its held-out samples.
        budget: seconds for retraining; acts are retrained in the order of their screened gains,
            and those beyond it only screened. The samples as they are and one act are retrained
            whatever it takes.
        per_fit: seconds that one model a seed is expected to take over all parts, the same on every
            machine; None: what the samples as they are took.
        seed: of controls, blocks and random choices.
        progress: called with (step, acts done, acts in all).

    Returns:
        The table, best act first.

    Raises:
        ModelError: the model cannot be fitted to the samples.

    Cost: for each part R fits of the samples as they are, and about 2 R an act.
    Source: ours; the acts are those of S0 (weights), S1 (removal), S4 (purification, blocks) and
    METHODS §2 (labels).
    """
    started = time.perf_counter()
    rules = [part.yardstick for part in parts]
    proposed, left_out = _proposed(parts, seed)
    acts = {act.key: act for found in reversed(proposed) for act in found.values()}
    screened = _screened(parts[0], rules[0], proposed[0], seed)
    before = time.perf_counter()
    base = [
        predictions(part.learner, part.train, part.held_out, as_it_is(part.train)) for part in parts
    ]
    per_fit = time.perf_counter() - before if per_fit is None else per_fit
    right = [_unsuspected(*one) for one in zip(parts, base, strict=True)]
    judge = _Judge(tuple(parts), rules, base, right, proposed, screened, action_kinds())
    chosen = _affordable(acts, screened, budget - per_fit, per_fit)
    rows = [_only_screened(act, screened) for key, act in acts.items() if key not in chosen]
    drops = [key for key in acts if key in chosen and key[0] == DROP]
    others = [key for key in acts if key in chosen and key[0] != DROP]
    for done, key in enumerate(others):
        rows.append(judge.row(acts[key]))
        progress(STEP, done + 1, len(others) + 1)
    if drops:
        rows = [row for row in rows if row.kind != DROP]
        rows.append(_largest_drop(judge, [acts[key] for key in sorted(drops)]))
    progress(STEP, len(others) + 1, len(others) + 1)
    return ActTable(
        acts=_ranked(rows),
        left_out=left_out,
        metric=rules[0].metric,
        score=judge.score(),
        score_given=judge.score(as_given=True),
        n_held_out=sum(len(part.held_out) for part in parts),
        n_suspected=sum(int((~one).sum()) for one in right),
        n_parts=len(parts),
        n_seeds=parts[0].learner.repeats,
        is_corrected=any(rule.is_corrected for rule in rules),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """The samples as they are: what every act is compared with.

    Attributes:
        parts: those to learn from and to judge by.
        rules: how predictions are scored, one a part.
        base: what models said that learnt from the samples as they are, [R, m, k] a part.
        right: [m] bool a part, which held-out labels are not suspected.
        proposed: the acts of each part.
        screened: gains in closed form.
        kinds: of all actions.
    """

    parts: tuple[Part, ...]
    rules: list[Yardstick]
    base: list[np.ndarray]
    right: list[np.ndarray]
    proposed: list[dict[Key, Action]]
    screened: dict[Key, float]
    kinds: dict[str, ActionKind]

    def score(self, *, as_given: bool = False) -> float:
        """Of the samples as they are, mean over seeds and held-out samples."""
        each = [
            rule.scores(said, as_given=as_given).mean(0)
            for rule, said in zip(self.rules, self.base, strict=True)
        ]
        return float(np.concatenate(each).mean())

    def differences(self, said: list[np.ndarray], *, as_given: bool = False) -> list[np.ndarray]:
        """Scores less those of the samples as they are, [R, m] a part."""
        return [
            rule.scores(one, as_given=as_given) - rule.scores(base, as_given=as_given)
            for rule, base, one in zip(self.rules, self.base, said, strict=True)
        ]

    def retrained(self, key: Key, *, control: bool = False) -> list[np.ndarray]:
        """What models say after the act; where a part does not propose it, nothing changes."""
        said = []
        for part, found, base in zip(self.parts, self.proposed, self.base, strict=True):
            act = found.get(key)
            act = act.control if control and act is not None else act
            again = None if act is None else predictions(
                part.learner, part.train, part.held_out, act
            )  # fmt: skip
            said.append(base if again is None else again)
        return said

    def row(self, act: Action, *, with_control: bool = True) -> ActGain:
        """What an act gained, still without a verdict."""
        before = time.perf_counter()
        said = self.retrained(act.key)
        each, unit = self.differences(said), float(np.mean([rule.unit for rule in self.rules]))
        found = paired(each, unit, is_searched=self.kinds[act.kind].is_searched)
        trusted = [d[:, r].mean(0) for d, r in zip(each, self.right, strict=True)]
        trusted = np.concatenate(trusted)
        row = ActGain(
            kind=act.kind, words=act.words, how=RETRAINED,
            gain=found.gain, low=found.low, high=found.high, p=found.p, verdict="",
            given=_mean(self.differences(said, as_given=True)),
            unsuspected=float(trusted.mean()) if len(trusted) else np.nan,
            control_words=act.control_words,
            screened=self.screened.get(act.key, np.nan),
            changed=act.changed,
            cost=act.changed if act.is_removal else 0,
            seconds=time.perf_counter() - before,
        )  # fmt: skip
        return self.controlled(row, act) if with_control else row

    def controlled(self, row: ActGain, act: Action) -> ActGain:
        """The row with the gain of the act's control, where it has one."""
        if act.control is None:
            return row
        before = time.perf_counter()
        control = _mean(self.differences(self.retrained(act.key, control=True)))
        return replace(row, control=control, seconds=row.seconds + time.perf_counter() - before)


def _largest_drop(judge: _Judge, drops: list[Action]) -> ActGain:
    """Of rising fractions the largest that costs nothing measurable, and what the next costs."""
    last = judge.row(drops[0], with_control=False)
    if costs(last.gain, last.high):
        return replace(judge.controlled(last, drops[0]), note="already that costs")
    for act, next_ in pairwise(drops):
        row = judge.row(next_, with_control=False)
        if costs(row.gain, row.high):
            note = f"{100 * next_.fraction:.0f} % costs {-100 * row.gain:.1f} points"
            return replace(judge.controlled(last, act), note=note)
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


def _proposed(parts: Sequence[Part], seed: int) -> tuple[list[dict[Key, Action]], tuple[str, ...]]:
    """For each part its acts by key; and why others are left out, of the first part."""
    found = [
        proposals(
            part.train, part.issues, part.information, takes_weights=part.learner.takes_weights,
            seed=seed,
        )
        for part in parts
    ]  # fmt: skip
    return [{act.key: act for act in acts} for acts, _ in found], found[0][1]


def _screened(part: Part, rule: Yardstick, acts: dict[Key, Action], seed: int) -> dict[Key, float]:
    """Gains in closed form, on the first part; of acts that it proposes."""
    if part.lin is None:
        return {}
    closed = screen(part.lin, part.train, part.penalty, rule, seed)
    try:
        base = closed.score(as_it_is(part.train), part.train)
        return {key: closed.score(act, part.train) - base for key, act in acts.items()}
    except DataError:
        return {}


def _affordable(
    acts: dict[Key, Action],
    screened: dict[Key, float],
    budget: float,
    per_fit: float,
) -> set[Key]:
    """Which acts are retrained: the most promising first, while the budget lasts; at least one."""
    order = sorted(acts, key=lambda key: -screened.get(key, 0.0))
    chosen, spent = set(order[:1]), 0.0
    for key in order:
        spent += per_fit * acts[key].fits
        if spent <= budget:
            chosen.add(key)
    return chosen


def _only_screened(act: Action, screened: dict[Key, float]) -> ActGain:
    gain = screened.get(act.key, np.nan)
    return ActGain(
        kind=act.kind, words=act.words, how=SCREENED, gain=gain, low=-np.inf, high=np.inf, p=1.0,
        verdict="", screened=gain, changed=act.changed, cost=act.changed if act.is_removal else 0,
    )  # fmt: skip


def _ranked(rows: list[ActGain]) -> tuple[ActGain, ...]:
    """With verdicts; better acts first, then by gain, then those that were only screened."""
    retrained = [row for row in rows if row.how == RETRAINED]
    said = verdicts(retrained)
    told = [replace(row, verdict=v) for row, v in zip(retrained, said, strict=True)]
    told.sort(key=lambda row: (ORDER[row.verdict], -row.gain))
    rest = [row for row in rows if row.how != RETRAINED]
    return (*told, *sorted(rest, key=lambda row: -row.gain))
