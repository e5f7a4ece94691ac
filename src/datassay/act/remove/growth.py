"""Grow a keep-set one sample at a time, each for what it changes in the fit to those kept so far.

The fit is ridge regression on rows φ of length 1. With the kept samples S it has weights w and
covariance P = (I + Σ_S φφᵀ/λ)⁻¹. Adding j moves every output by c_ij r_j / d_j and lowers every
variance by c_ij² / d_j, where c_ij = φ_iᵀPφ_j, r_j = y_j − wᵀφ_j, d_j = c_jj + λ. Sums over all
samples i need FᵀF and FᵀR alone, so that a step costs no pass over the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.progress import Progress, silent

# Samples that are compared a step, drawn at random from one class.
POOL = 32
# What the sums weigh is computed anew after this growth, and after so many samples.
RENEWED, FEWEST_BETWEEN = 0.1, 16
# Squared residual below which a sample counts as learned and gets no noisier.
LEARNED = 0.01
PANEL = 4096


@dataclass(frozen=True, slots=True)
class Aim:
    """What an added sample is valued for.

    Attributes:
        ridge: λ; rows have length 1.
        error: whether the lowered squared error of all samples counts, beside their variance.
        at_residuals: whether variances count by the squared residual, r², of their sample under the
            fit so far, and a sample's noise is λ · mean r² / r²: what is learned already neither
            needs nor gives anything.
    """

    ridge: float
    error: bool = False
    at_residuals: bool = False


FIT = Aim(ridge=0.3, error=True)
BOUNDARY = Aim(ridge=1.0, at_residuals=True)


class Fit:
    """The fit to the samples kept so far, and the sums that value the others."""

    def __init__(self, rows: Float[Tensor, "n p"], targets: Float[Tensor, "n k"], aim: Aim):
        """A fit to nothing yet."""
        self.rows, self.targets, self.aim = rows, targets, aim
        self.covariance = torch.eye(rows.shape[1])
        self.weights = torch.zeros(rows.shape[1], targets.shape[1])
        self.renew()

    def renew(self) -> None:
        """Weigh all samples by the fit as it is now."""
        left = self.targets - self.rows @ self.weights
        if self.aim.at_residuals:
            importance = left.square().sum(1)
            self.noise = self.aim.ridge * importance.mean() / importance.clamp_min(LEARNED)
        else:
            importance = torch.ones(len(left))
            self.noise = self.aim.ridge * importance
        self.gram = self.rows.T @ (self.rows * importance[:, None])
        self.pull = self.rows.T @ left  # FᵀR

    def gains(self, some: Int[np.ndarray, " s"]) -> Float[Tensor, " s"]:
        """What adding each of some samples, by itself, would be worth."""
        rows = self.rows[some]
        reached = rows @ self.covariance
        scale = (reached * rows).sum(1) + self.noise[some]
        spread = ((reached @ self.gram) * reached).sum(1)
        gain = spread / scale
        if self.aim.error:
            left = self.targets[some] - rows @ self.weights
            moved = ((reached @ self.pull) * left).sum(1)
            gain = gain + 2 * moved / scale - spread * left.square().sum(1) / scale.square()
        return gain

    def add(self, one: int) -> None:
        """Keep a sample."""
        row = self.rows[one]
        reached = self.covariance @ row
        scale = reached @ row + self.noise[one]
        moved = torch.outer(reached, (self.targets[one] - row @ self.weights) / scale)
        self.weights += moved
        self.pull -= self.gram @ moved
        self.covariance -= torch.outer(reached, reached / scale)


def grow(
    rows: Float[Tensor, "n p"],
    targets: Float[Tensor, "n k"],
    groups: Int[np.ndarray, " n"],
    quota: Int[np.ndarray, " g"],
    aim: Aim,
    *,
    seed: int = 0,
    pool: int = POOL,
    progress: Progress = silent,
) -> Int[np.ndarray, " n"]:
    """Order samples by what each adds to those before it."""
    # Each step takes the group that is farthest below its quota, draws `pool` of its samples, and
    # keeps the one that gains most.
    # Cost: m (2 pool + 4) p² operations for m kept samples, 2 n p² / RENEWED · log m to weigh them
    # anew, n p² for the others; p² values beyond the inputs.
    # Source: ours. The sums are those of Cohn et al. (1996), "Active learning with statistical
    # models", whose variance is averaged over all inputs; drawing a pool is the stochastic greedy
    # of Mirzasoleiman et al. (2015).
    rng = np.random.default_rng((seed, 2))
    fit = Fit(rows, targets, aim)
    left = [np.flatnonzero(groups == g) for g in range(len(quota))]
    got, total, renewal = np.zeros(len(quota), int), int(quota.sum()), FEWEST_BETWEEN
    chosen: list[int] = []
    for step in range(total):
        if step == renewal:
            fit.renew()
            renewal += max(FEWEST_BETWEEN, int(RENEWED * step))
        group = int(np.argmax((quota - got) / np.maximum(quota, 1)))
        open_ones = left[group]
        drawn = rng.choice(len(open_ones), min(pool, len(open_ones)), replace=False)
        place = int(drawn[int(fit.gains(open_ones[drawn]).argmax())])
        chosen.append(int(open_ones[place]))
        open_ones[place], left[group] = open_ones[-1], open_ones[:-1]
        fit.add(chosen[-1])
        got[group] += 1
        progress("choose what stays", step + 1, total)
    return np.concatenate([np.array(chosen, int), _by_gain(fit, np.concatenate(left))])


def _by_gain(fit: Fit, others: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    parts = [fit.gains(others[a : a + PANEL]) for a in range(0, len(others), PANEL)]
    gains = torch.cat(parts) if parts else torch.zeros(0)
    return others[np.argsort(-gains.numpy(), kind="stable")]
