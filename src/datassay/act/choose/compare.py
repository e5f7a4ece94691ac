"""Compare acts: each is retrained beside the samples as they are, on the same held-out samples.

parts, each with its own held-out samples → proposals → screen (closed form) → the promising ones
retrained, paired over seeds → gains with intervals → ActTable
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from datassay.act.choose.act import DROP, PURIFY, SPLIT, Act, as_it_is
from datassay.act.choose.gains import (
    BETTER,
    RETRAINED,
    SAME,
    SCREENED,
    WORSE,
    ActGain,
    ActTable,
    paired,
    verdicts,
)  # fmt: skip
from datassay.act.choose.parts import Part
from datassay.act.choose.proposals import proposals
from datassay.act.choose.screen import screen
from datassay.act.choose.trials import predictions
from datassay.act.choose.yardstick import Yardstick, unsuspected
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.results import result

STEP = "compare acts"
# Tried on the first part only: finding them takes seconds.
DEEP = (PURIFY, SPLIT)
# What a drop of samples may cost to count as no loss.
TOLERATED = 0.005
ORDER = {BETTER: 0, SAME: 1, WORSE: 2, "": 3}


@result
class _Measured:
    """What models said of the held-out samples of a part, under an act and under its control."""

    said: Float[np.ndarray, "R m k"]
    control: Float[np.ndarray, "R m k"] | None
    seconds: float


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
    screened = _screened(parts[0], rules[0], acts, seed)
    before = time.perf_counter()
    base = [
        predictions(part.learner, part.train, part.held_out, as_it_is(part.train)) for part in parts
    ]
    per_fit = time.perf_counter() - before if per_fit is None else per_fit
    judge = _Judge(rules, base, [_unsuspected(*one) for one in zip(parts, base, strict=True)])
    chosen = _affordable(acts, screened, budget - per_fit, per_fit)
    rows: list[tuple[Act, ActGain]] = []
    for done, (key, act) in enumerate(acts.items()):
        gain = screened.get(key, np.nan)
        if key not in chosen:
            rows.append((act, _only_screened(act, gain)))
            continue
        measured = [
            None if key[0] in DEEP and i else _measure(part, found.get(key), said)
            for i, (part, found, said) in enumerate(zip(parts, proposed, base, strict=True))
        ]
        rows.append((act, judge.row(act, measured, gain)))
        progress(STEP, done + 1, len(acts))
    return ActTable(
        acts=_ranked(_one_drop(rows)),
        left_out=left_out,
        metric=rules[0].metric,
        score=judge.score(),
        score_given=judge.score(as_given=True),
        n_held_out=sum(len(part.held_out) for part in parts),
        n_suspected=sum(int((~right).sum()) for right in judge.right),
        n_parts=len(parts),
        n_seeds=parts[0].learner.repeats,
        is_corrected=any(rule.is_corrected for rule in rules),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """The samples as they are: what every act is compared with.

    Attributes:
        rules: how predictions are scored, one a part.
        base: what models said that learnt from the samples as they are, [R, m, k] a part.
        right: [m] bool a part, which held-out labels are not suspected.
    """

    rules: list[Yardstick]
    base: list[np.ndarray]
    right: list[np.ndarray]

    def score(self, *, as_given: bool = False) -> float:
        """Of the samples as they are, mean over seeds and held-out samples."""
        each = [
            rule.scores(said, as_given=as_given).mean(0)
            for rule, said in zip(self.rules, self.base, strict=True)
        ]
        return float(np.concatenate(each).mean())

    def differences(
        self, said: Sequence[np.ndarray | None], *, as_given: bool = False
    ) -> list[np.ndarray]:
        """Scores less those of the samples as they are, [R, m] for each part that was measured."""
        return [
            rule.scores(one, as_given=as_given) - rule.scores(base, as_given=as_given)
            for rule, base, one in zip(self.rules, self.base, said, strict=True)
            if one is not None
        ]

    def row(self, act: Act, measured: Sequence[_Measured | None], screened: float) -> ActGain:
        """What an act gained, still without a verdict."""
        said = [None if one is None else one.said for one in measured]
        control = [None if one is None else one.control for one in measured]
        each, unit = self.differences(said), float(np.mean([rule.unit for rule in self.rules]))
        found = paired(each, unit)
        right = [r for r, one in zip(self.right, said, strict=True) if one is not None]
        trusted = np.concatenate([d[:, r].mean(0) for d, r in zip(each, right, strict=True)])
        has_control = act.control is not None
        return ActGain(
            kind=act.kind, words=act.words, how=RETRAINED,
            gain=found.gain, low=found.low, high=found.high, p=found.p, verdict="",
            given=_mean(self.differences(said, as_given=True)),
            unsuspected=float(trusted.mean()) if len(trusted) else np.nan,
            control=_mean(self.differences(control)) if has_control else np.nan,
            control_words=act.control_words,
            screened=screened,
            changed=act.changed,
            cost=act.changed if act.is_removal else 0,
            seconds=sum(one.seconds for one in measured if one is not None),
        )  # fmt: skip


def _mean(each: list[np.ndarray]) -> float:
    return float(np.concatenate([d.mean(0) for d in each]).mean())


def _unsuspected(part: Part, said: np.ndarray) -> np.ndarray:
    """Which held-out labels are not suspected; of numbers all."""
    if not part.train.is_classification or not part.issues.noise:
        return np.ones(len(part.held_out), bool)
    return unsuspected(said, part.held_out.y, part.issues.noise[0].transition)


def _proposed(
    parts: Sequence[Part], seed: int
) -> tuple[list[dict[tuple[str, float], Act]], tuple[str, ...]]:
    """For each part its acts by key; and why others are left out, of the first part."""
    found = [
        proposals(
            part.train, part.issues, part.information, takes_weights=part.learner.takes_weights,
            deep=not i, seed=seed,
        )
        for i, part in enumerate(parts)
    ]  # fmt: skip
    return [{act.key: act for act in acts} for acts, _ in found], found[0][1]


def _screened(
    part: Part, rule: Yardstick, acts: dict[tuple[str, float], Act], seed: int
) -> dict[tuple[str, float], float]:
    """Gains in closed form, on the first part; of acts that it proposes."""
    if part.lin is None:
        return {}
    closed = screen(part.lin, part.train, part.penalty, rule, seed)
    try:
        base = closed.score(as_it_is(part.train), part.train)
        return {
            key: closed.score(act, part.train) - base
            for key, act in acts.items()
            if len(act.weights) == len(part.train)
        }
    except DataError:
        return {}


def _affordable(
    acts: dict[tuple[str, float], Act],
    screened: dict[tuple[str, float], float],
    budget: float,
    per_fit: float,
) -> set[tuple[str, float]]:
    """Which acts are retrained: the most promising first, while the budget lasts; at least one."""
    order = sorted(acts, key=lambda key: -screened.get(key, 0.0))
    chosen, spent = set(order[:1]), 0.0
    for key in order:
        spent += per_fit * acts[key].fits
        if spent <= budget:
            chosen.add(key)
    return chosen


def _measure(part: Part, act: Act | None, base: np.ndarray) -> _Measured:
    """An act on one part; one that the part does not propose changes nothing there."""
    if act is None:
        return _Measured(base, base, 0.0)
    before = time.perf_counter()
    said = predictions(part.learner, part.train, part.held_out, act)
    control = None
    if act.control is not None:
        control = predictions(part.learner, part.train, part.held_out, act.control)
    return _Measured(said, control, time.perf_counter() - before)


def _only_screened(act: Act, gain: float) -> ActGain:
    return ActGain(
        kind=act.kind, words=act.words, how=SCREENED, gain=gain, low=-np.inf, high=np.inf, p=1.0,
        verdict="", screened=gain, changed=act.changed, cost=act.changed if act.is_removal else 0,
    )  # fmt: skip


def _one_drop(rows: list[tuple[Act, ActGain]]) -> list[ActGain]:
    """Of several fractions the largest that costs nothing measurable, and what the next costs."""
    drops = sorted(
        ((act.fraction, row) for act, row in rows if act.kind == DROP and row.how == RETRAINED),
        key=lambda one: one[0],
    )
    others = [row for act, row in rows if act.kind != DROP]
    if not drops:
        return others + [row for act, row in rows if act.kind == DROP][:1]
    free = 0
    while free < len(drops) and drops[free][1].gain >= -TOLERATED and drops[free][1].high > 0:
        free += 1
    row = drops[max(0, free - 1)][1]
    note = ""
    if free < len(drops):
        fraction, next_ = drops[free]
        note = f"{fraction:.0%} costs {-100 * next_.gain:.1f} points" if free else "it costs"
    return [*others, replace(row, note=note)]


def _ranked(rows: list[ActGain]) -> tuple[ActGain, ...]:
    """With verdicts; better acts first, then by gain, then those that were only screened."""
    retrained = [row for row in rows if row.how == RETRAINED]
    said = verdicts([row.p for row in retrained], [row.gain for row in retrained])
    told = [replace(row, verdict=v) for row, v in zip(retrained, said, strict=True)]
    told.sort(key=lambda row: (ORDER[row.verdict], -row.gain))
    rest = [row for row in rows if row.how != RETRAINED]
    return (*told, *sorted(rest, key=lambda row: -row.gain))
