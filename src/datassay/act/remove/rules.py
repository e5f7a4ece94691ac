"""Rules that say which samples stay, and which of them does best on held-out samples."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.act.remove.growth import BOUNDARY, FIT, Aim, grow
from datassay.progress import Progress, silent

FOLDS, PARTS = 2, 5  # of 5 parts, 2 are held out in turn to score the rules
INVERSE_PENALTIES = (1.0, 10.0, 100.0)  # of the scoring model; each rule is scored by its best
MOST_ITERATIONS = 100
# Penalties of the fit whose held-out margins order samples; rows have length 1.
RIDGES = torch.logspace(-4, 2, 13, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Samples among which a rule chooses.

    Attributes:
        rows: [n, p], of length 1.
        targets: [n, k], one-hot less 1/k; of a regression with mean 0 and variance 1.
        groups: [n], class indices; 0 of a regression.
        weight: [n], how far a sample counts where rules are scored: the chance that its label is
            right.
        is_classification: whether groups are what is predicted.
    """

    rows: Float[Tensor, "n p"]
    targets: Float[Tensor, "n k"]
    groups: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    is_classification: bool

    def subset(self, idx: Int[np.ndarray, " s"]) -> "Candidates":
        """Return the samples at some positions."""
        return replace(
            self, rows=self.rows[idx], targets=self.targets[idx], groups=self.groups[idx],
            weight=self.weight[idx],
        )  # fmt: skip


# (candidates, quota of each group, seed, progress) → all positions, the kept ones first.
Rule = Callable[[Candidates, Int[np.ndarray, " g"], int, Progress], Int[np.ndarray, " n"]]


def _order_by_growth(
    aim: Aim, pool: Candidates, quota: np.ndarray, seed: int, progress: Progress
) -> np.ndarray:
    """Return positions by what each sample adds to the fit."""
    return grow(pool.rows, pool.targets, pool.groups, quota, aim, seed=seed, progress=progress)


def _order_by_margin(pool: Candidates, quota: np.ndarray, seed: int, _: Progress) -> np.ndarray:
    """Order by held-out margin, smallest first; regressions by held-out residual, largest first."""
    return within_quota(np.argsort(held_out_margin(pool), kind="stable"), pool.groups, quota)


def _order_at_random(pool: Candidates, quota: np.ndarray, seed: int, _: Progress) -> np.ndarray:
    order = np.random.default_rng((seed, 3)).permutation(len(pool.groups))
    return within_quota(order, pool.groups, quota)


RULES: dict[str, Rule] = {
    "fit": partial(_order_by_growth, FIT),
    "boundary": partial(_order_by_growth, BOUNDARY),
    "margin": _order_by_margin,
    "random": _order_at_random,
}


def within_quota(
    order: Int[np.ndarray, " n"], groups: Int[np.ndarray, " n"], quota: Int[np.ndarray, " g"]
) -> Int[np.ndarray, " n"]:
    """Move the first samples of each group, up to its quota, in front of all others."""
    position = rank_within_group(groups[order])
    return order[np.argsort(position >= quota[groups[order]], kind="stable")]


def rank_within_group(groups: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return each sample's position within its group, from 0, in the order given."""
    position = np.zeros(len(groups), np.int64)
    for g in np.unique(groups):
        in_group = groups == g
        position[in_group] = np.arange(in_group.sum())
    return position


def held_out_margin(samples: Candidates) -> Float[np.ndarray, " n"]:
    """Return each class's held-out margin over the best rival; for a regression −‖residual‖."""
    rows = samples.rows.double()
    targets = samples.targets.double()
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    rotated = rows @ vectors
    best_fit: tuple[float, Tensor] | None = None
    for ridge in RIDGES:
        scale = 1 / (values.clamp_min(0) + ridge)
        leverage = (rotated.square() @ scale)[:, None]
        residual = (targets - rotated @ (scale[:, None] * (rotated.T @ targets))) / (1 - leverage)
        error = float(residual.square().mean())
        if best_fit is None or error < best_fit[0]:
            best_fit = error, residual
    assert best_fit is not None
    residual = best_fit[1]
    if not samples.is_classification:
        return -residual.norm(dim=1).numpy()
    outputs = (targets - residual).numpy()  # [n, k], of the fit without each sample
    given_output = outputs[np.arange(len(outputs)), samples.groups]
    outputs[np.arange(len(outputs)), samples.groups] = -np.inf
    return given_output - outputs.max(1)


def split_quota(
    counts: Int[np.ndarray, " g"], minimum: Int[np.ndarray, " g"], total: int
) -> Int[np.ndarray, " g"]:
    """Return how many samples of each group stay: its minimum plus a share of the rest."""
    n_free = counts - minimum
    exact = (total - minimum.sum()) * n_free / max(n_free.sum(), 1)
    quota = np.floor(exact).astype(int)
    n_missing = total - int(minimum.sum() + quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:n_missing]] += 1
    return minimum + quota


def compare_rules(
    samples: Candidates, quota: Int[np.ndarray, " g"], seed: int, progress: Progress = silent
) -> dict[str, float]:
    """Return {rule: held-out score of a linear model that learns what the rule keeps}."""
    # Two fifths in turn are held out. Of the rest, a linear model of the rows (multinomial logistic
    # regression; of targets ridge regression) learns what the rule keeps.
    n = len(samples.groups)
    order = np.random.default_rng((seed, 4)).permutation(n)
    share = quota / np.maximum(np.bincount(samples.groups, minlength=len(quota)), 1)
    results = {name: 0.0 for name in RULES}
    for fold in range(FOLDS):
        test_idx = np.sort(order[fold::PARTS])
        train_idx = np.setdiff1d(np.arange(n), test_idx)
        train = samples.subset(train_idx)
        test = samples.subset(test_idx)
        counts = np.bincount(train.groups, minlength=len(quota))
        fold_quota = np.minimum(np.maximum(np.round(share * counts).astype(int), quota > 0), counts)
        for i, (name, rule) in enumerate(RULES.items()):
            kept_idx = train_idx[rule(train, fold_quota, seed + fold, silent)[: fold_quota.sum()]]
            results[name] += _held_out_score(samples.subset(kept_idx), test) / FOLDS
            n_done = fold * len(RULES) + i + 1
            progress("try rules on held-out samples", n_done, FOLDS * len(RULES))
    return results


def _held_out_score(train: Candidates, test: Candidates) -> float:
    """Return the best held-out score of linear models fitted to `train`."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.linear_model import LogisticRegression, Ridge

    rows = train.rows.numpy()
    test_rows = test.rows.numpy()
    if not train.is_classification:
        fits = (Ridge(1 / c).fit(rows, train.targets.numpy()) for c in INVERSE_PENALTIES)
        return max(fit.score(test_rows, test.targets.numpy(), test.weight) for fit in fits)
    if len(np.unique(train.groups)) < 2:
        return float(np.average(test.groups == train.groups[0], weights=test.weight))
    with warnings.catch_warnings():  # an unfinished fit scores as well
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            LogisticRegression(C=c, max_iter=MOST_ITERATIONS, tol=1e-3).fit(rows, train.groups)
            for c in INVERSE_PENALTIES
        ]
    return max(fit.score(test_rows, test.groups, test.weight) for fit in fits)
