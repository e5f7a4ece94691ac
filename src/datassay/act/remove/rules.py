"""Rules that say which samples stay, and which of them does best on held-out samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from datassay.act.remove.growth import BOUNDARY, FIT, Aim, grow
from datassay.progress import Progress, silent

# Fifths of the samples that the rules are judged on.
FOLDS, PARTS = 2, 5
# Inverse penalties of the judge; each rule is judged by its best.
STRENGTHS = (1.0, 10.0, 100.0)
MOST_ITERATIONS = 100
# Penalties of the fit whose held-out margins order samples; rows have length 1.
RIDGES = torch.logspace(-4, 2, 13, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Samples that may stay.

    Attributes:
        rows: [n, p], of length 1.
        targets: [n, k], one-hot less 1/k; of a regression with mean 0 and variance 1.
        groups: [n], class indices; 0 of a regression.
        weight: [n], how far a sample counts where rules are judged: the chance that its label is
            right.
        is_classification: whether groups are what is predicted.
    """

    rows: Float[Tensor, "n p"]
    targets: Float[Tensor, "n k"]
    groups: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    is_classification: bool

    def subset(self, some: Int[np.ndarray, " s"]) -> Candidates:
        """Those at some positions."""
        return replace(
            self, rows=self.rows[some], targets=self.targets[some], groups=self.groups[some],
            weight=self.weight[some],
        )  # fmt: skip


# Candidates, quota and seed → all positions, the kept ones first.
Rule = Callable[[Candidates, Int[np.ndarray, " g"], int, Progress], Int[np.ndarray, " n"]]


def _grown(aim: Aim, of: Candidates, quota: np.ndarray, seed: int, report: Progress) -> np.ndarray:
    return grow(of.rows, of.targets, of.groups, quota, aim, seed=seed, progress=report)


def _by_margin(of: Candidates, quota: np.ndarray, seed: int, progress: Progress) -> np.ndarray:
    """Smallest held-out margin first; of a regression the largest held-out residual."""
    return within_quota(np.argsort(held_out_margin(of), kind="stable"), of.groups, quota)


def _at_random(of: Candidates, quota: np.ndarray, seed: int, progress: Progress) -> np.ndarray:
    order = np.random.default_rng((seed, 3)).permutation(len(of.groups))
    return within_quota(order, of.groups, quota)


RULES: dict[str, Rule] = {
    "fit": partial(_grown, FIT),
    "boundary": partial(_grown, BOUNDARY),
    "margin": _by_margin,
    "random": _at_random,
}


def within_quota(
    order: Int[np.ndarray, " n"], groups: Int[np.ndarray, " n"], quota: Int[np.ndarray, " g"]
) -> Int[np.ndarray, " n"]:
    """The same order, with the first of every group up to its quota in front of all others."""
    position = places_in_group(groups[order])
    return order[np.argsort(position >= quota[groups[order]], kind="stable")]


def places_in_group(groups: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """How many of its group stand before each sample."""
    position = np.zeros(len(groups), np.int64)
    for g in np.unique(groups):
        own = groups == g
        position[own] = np.arange(own.sum())
    return position


def held_out_margin(of: Candidates) -> Float[np.ndarray, " n"]:
    """Lead of the given class over the best other, from the ridge fit without the sample."""
    rows, targets = of.rows.double(), of.targets.double()
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    rotated = rows @ vectors
    best: tuple[float, Tensor] | None = None
    for ridge in RIDGES:
        scale = 1 / (values.clamp_min(0) + ridge)
        leverage = (rotated.square() @ scale)[:, None]
        left = (targets - rotated @ (scale[:, None] * (rotated.T @ targets))) / (1 - leverage)
        error = float(left.square().mean())
        if best is None or error < best[0]:
            best = error, left
    assert best is not None
    if not of.is_classification:
        return -best[1].norm(dim=1).numpy()
    outputs = (targets - best[1]).numpy()
    own = outputs[np.arange(len(outputs)), of.groups]
    outputs[np.arange(len(outputs)), of.groups] = -np.inf
    return own - outputs.max(1)


def quota_of(
    counts: Int[np.ndarray, " g"], least: Int[np.ndarray, " g"], total: int
) -> Int[np.ndarray, " g"]:
    """How many of each group stay: the least, and what is left in proportion."""
    free = counts - least
    exact = (total - least.sum()) * free / max(free.sum(), 1)
    quota = np.floor(exact).astype(int)
    rest = total - int(least.sum() + quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:rest]] += 1
    return least + quota


def tried(
    of: Candidates, quota: Int[np.ndarray, " g"], seed: int, progress: Progress = silent
) -> dict[str, float]:
    """What each rule reaches on samples that it did not see, at the same share."""
    # Of two fifths in turn nothing is kept; a linear classifier on the rows (multinomial logistic
    # regression; ridge regression of targets) learns what the rule keeps of the rest.
    n = len(of.groups)
    order = np.random.default_rng((seed, 4)).permutation(n)
    share = quota / np.maximum(np.bincount(of.groups, minlength=len(quota)), 1)
    results = {name: 0.0 for name in RULES}
    for fold in range(FOLDS):
        held, rest = np.sort(order[fold::PARTS]), np.setdiff1d(np.arange(n), order[fold::PARTS])
        part = of.subset(rest)
        counts = np.bincount(part.groups, minlength=len(quota))
        wanted = np.minimum(np.maximum(np.round(share * counts).astype(int), quota > 0), counts)
        for i, (name, rule) in enumerate(RULES.items()):
            kept = rest[rule(part, wanted, seed + fold, silent)[: wanted.sum()]]
            results[name] += _reached(of.subset(kept), of.subset(held)) / FOLDS
            done = fold * len(RULES) + i + 1
            progress("try rules on held-out samples", done, FOLDS * len(RULES))
    return results


def _reached(kept: Candidates, held: Candidates) -> float:
    rows, other = kept.rows.numpy(), held.rows.numpy()
    if not kept.is_classification:
        fits = (Ridge(1 / c).fit(rows, kept.targets.numpy()) for c in STRENGTHS)
        return max(fit.score(other, held.targets.numpy(), held.weight) for fit in fits)
    if len(np.unique(kept.groups)) < 2:
        return float(np.average(held.groups == kept.groups[0], weights=held.weight))
    with warnings.catch_warnings():  # an unfinished fit judges as well
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            LogisticRegression(C=c, max_iter=MOST_ITERATIONS, tol=1e-3).fit(rows, kept.groups)
            for c in STRENGTHS
        ]
    return max(fit.score(other, held.groups, held.weight) for fit in fits)
