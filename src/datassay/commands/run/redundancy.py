"""How many samples can go without a measured loss, read off the removal curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.commands.run.findings import LOWEST_FIRST, RANDOM, SUSPECTS_FIRST
from datassay.stats import costs


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The largest removal that costs no more than the measurement can tell.

    Attributes:
        ranking: the order of removal: by information, with or without the suspects first.
        fraction: share of samples removed in that order; 0 where none is redundant.
        change: mean score at that fraction minus the full set's; at the smallest measured
            fraction where none is redundant.
        tried: the fraction at which `change` and `random_change` were measured.
        random_change: the same for random removal; None where it was not measured.
        n_seeds: how many networks each mean averages.
        metric: "accuracy" or "R²".
    """

    ranking: str
    fraction: float
    change: float
    tried: float
    random_change: float | None
    n_seeds: int
    metric: str

    @property
    def random_does_as_well(self) -> bool:
        """Whether removing as many at random costs no more than our ranking."""
        return self.random_change is not None and self.random_change >= self.change


def redundancy(curve: RemovalCurve) -> Redundancy | None:
    """What the removal curve says about samples that can go.

    A fraction f is redundant unless it `costs`: where mean(f) ≥ mean(0) − 0.005. What goes first is
    the lowest information, or the suspected labels and then the lowest information; the order that
    can remove more is reported. Seeds alone do not tell what other held-out samples would change,
    so no smaller loss counts as sure, and no larger one is excused by their spread.

    Returns:
        The largest redundant fraction, or fraction 0; None where the curve holds neither ranking
        or no fraction above 0.

    Source: our own rule, that of the largest drop in the table of actions.
    """
    names = [name for name in (LOWEST_FIRST, SUSPECTS_FIRST) if name in curve.rankings]
    if not names or not (curve.fractions > 0).any():
        return None
    return max((_redundancy(curve, name) for name in names), key=lambda one: one.fraction)


def _redundancy(curve: RemovalCurve, ranking: str) -> Redundancy:
    ours = curve.score[curve.rankings.index(ranking)]  # [f, s]
    change = _change(ours)
    fits = (curve.fractions > 0) & ~np.array([costs(one) for one in change])
    place = int(np.flatnonzero(fits)[-1]) if fits.any() else int(np.argmax(curve.fractions > 0))
    rival = None
    if RANDOM in curve.rankings:
        rival = float(_change(curve.score[curve.rankings.index(RANDOM)])[place])
    return Redundancy(
        ranking=ranking,
        fraction=float(curve.fractions[place]) if fits.any() else 0.0,
        change=float(change[place]),
        tried=float(curve.fractions[place]),
        random_change=rival,
        n_seeds=ours.shape[1],
        metric=curve.metric,
    )


def _change(score: np.ndarray) -> np.ndarray:
    mean = score.mean(axis=1)  # [f]
    return mean - mean[0]
