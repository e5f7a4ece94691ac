"""Grow a keep-set one sample at a time, each for what it changes in the fit to those kept so far.

The fit is ridge regression on rows φ of length 1. With the kept samples S it has weights w and
covariance P = (I + Σ_S φφᵀ/λ)⁻¹. Adding j moves every output by c_ij r_j / d_j and lowers every
variance by c_ij² / d_j, where c_ij = φ_iᵀPφ_j, r_j = y_j − wᵀφ_j, d_j = c_jj + λ. Sums over all
samples i need FᵀF and FᵀR alone, so that a step costs no pass over the samples.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.linearization import Features, Linearization
from datassay.progress import Progress, silent

# Samples that are compared a step, drawn at random from one class.
POOL = 32
# The sums' weights are renewed when the keep-set grew by this share, and by so many samples.
RENEWED, FEWEST_BETWEEN = 0.1, 16
# Squared residual below which a sample counts as learned and gets no noisier.
LEARNED = 0.01
PANEL = 4096
MOST_COLUMNS = 256
# Samples from which the leading directions are read; all of them would cost n p².
SEEN = {"features": 4096, "kernel": 1024}
# Directions below this share of the largest eigenvalue are rounding.
LEAST_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class Aim:
    """Gain by which a sample to add is chosen.

    Attributes:
        ridge: λ; rows have length 1.
        error: whether the lowered squared error of all samples counts, besides their variance.
        at_residuals: whether variances count by the squared residual, r², of their sample under the
            fit so far, and a sample's noise is λ · mean r² / r²: a sample that is learned already
            neither needs nor adds information.
    """

    ridge: float
    error: bool = False
    at_residuals: bool = False


FIT = Aim(ridge=0.3, error=True)
BOUNDARY = Aim(ridge=1.0, at_residuals=True)


class Fit:
    """The fit to the samples kept so far, and the sums that value the others."""

    def __init__(self, rows: Float[Tensor, "n p"], targets: Float[Tensor, "n k"], aim: Aim):
        """Start with a fit to no sample."""
        self.rows = rows
        self.targets = targets
        self.aim = aim
        self.covariance = torch.eye(rows.shape[1])
        self.weights = torch.zeros(rows.shape[1], targets.shape[1])
        self.weigh_samples()

    def weigh_samples(self) -> None:
        """Set the noise of each sample, and the sums that value the others, by the present fit."""
        residual = self.targets - self.rows @ self.weights
        if self.aim.at_residuals:
            importance = residual.square().sum(1)
            self.noise = self.aim.ridge * importance.mean() / importance.clamp_min(LEARNED)
        else:
            importance = torch.ones(len(residual))
            self.noise = self.aim.ridge * importance
        self.gram = self.rows.T @ (self.rows * importance[:, None])
        self.row_residuals = self.rows.T @ residual  # FᵀR

    def gains(self, idx: Int[np.ndarray, " s"]) -> Float[Tensor, " s"]:
        """Return how much the fit would gain by adding each of these samples alone."""
        rows = self.rows[idx]
        reached = rows @ self.covariance
        scale = (reached * rows).sum(1) + self.noise[idx]
        spread = ((reached @ self.gram) * reached).sum(1)
        gain = spread / scale
        if self.aim.error:
            residual = self.targets[idx] - rows @ self.weights
            change = ((reached @ self.row_residuals) * residual).sum(1)
            gain = gain + 2 * change / scale - spread * residual.square().sum(1) / scale.square()
        return gain

    def add(self, position: int) -> None:
        """Add a sample to the fit."""
        row = self.rows[position]
        reached = self.covariance @ row
        scale = reached @ row + self.noise[position]
        weight_change = torch.outer(reached, (self.targets[position] - row @ self.weights) / scale)
        self.weights += weight_change
        self.row_residuals -= self.gram @ weight_change
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
    """Order samples by what each adds to the fit of those before it."""
    # Each step takes the group that is farthest below its quota, draws `pool` of its samples, and
    # keeps the one that gains most.
    # Cost: m (2 pool + 4) p² operations for m kept samples, 2 n p² / RENEWED · log m to weigh them
    # anew, n p² for the others; p² values beyond the inputs.
    # Source: ours. The sums are those of Cohn et al. (1996), "Active learning with statistical
    # models", whose variance is averaged over all inputs; drawing a pool is the stochastic greedy
    # of Mirzasoleiman et al. (2015).
    rng = np.random.default_rng((seed, 2))
    fit = Fit(rows, targets, aim)
    open_by_group = [np.flatnonzero(groups == g) for g in range(len(quota))]
    n_kept = np.zeros(len(quota), int)
    total = int(quota.sum())
    renewal = FEWEST_BETWEEN
    order: list[int] = []
    for step in range(total):
        if step == renewal:
            fit.weigh_samples()
            renewal += max(FEWEST_BETWEEN, int(RENEWED * step))
        group = int(np.argmax((quota - n_kept) / np.maximum(quota, 1)))
        open_idx = open_by_group[group]
        drawn = rng.choice(len(open_idx), min(pool, len(open_idx)), replace=False)
        index = int(drawn[int(fit.gains(open_idx[drawn]).argmax())])
        order.append(int(open_idx[index]))
        open_idx[index], open_by_group[group] = open_idx[-1], open_idx[:-1]
        fit.add(order[-1])
        n_kept[group] += 1
        progress("choose what stays", step + 1, total)
    not_kept = np.concatenate(open_by_group)
    parts = [fit.gains(not_kept[a : a + PANEL]) for a in range(0, len(not_kept), PANEL)]
    if parts:
        gains = torch.cat(parts)
    else:
        gains = torch.zeros(0)
    return np.concatenate([
        np.array(order, int),
        not_kept[np.argsort(-gains.numpy(), kind="stable")],
    ])


def unit_rows(lin: Linearization, seed: int) -> Float[Tensor, "n q"]:
    """Return a row per sample, of length 1: its features or kernel in the leading directions."""
    # Rows are scaled because outliers, whose rows are long, would otherwise be chosen first.
    # Cost: features of one row per sample: 4096 p² + p³ + 256 n p operations, read in panels. Of b
    # rows: 1024 n b p. A kernel: 1024³ + 1024 n q.
    # Source: Williams and Seeger (2001) for the kernel.
    n = len(lin)
    has_one_row = lin.features is not None and lin.rows_per_sample == 1
    basis_idx = np.random.default_rng((seed, 1)).permutation(n)
    basis_idx = np.sort(basis_idx[: SEEN["features" if has_one_row else "kernel"]])
    if has_one_row:
        rows = _project_features(lin.features, basis_idx)
    else:
        products = _averaged_kernel(lin, basis_idx)  # [n, s]
        values, vectors = _leading_eigenvectors(products[torch.as_tensor(basis_idx)])
        rows = (products @ (vectors / values.sqrt())).float()
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


def _averaged_kernel(lin: Linearization, cols: np.ndarray) -> Float[Tensor, "n s"]:
    """Return the averaged kernel between all samples and some; features need no [n, n]."""
    if lin.features is None:
        kernel = lin.average_outputs().kernel
        assert kernel is not None
        return kernel[:, torch.as_tensor(cols)].double()
    b, features = lin.rows_per_sample, lin.features
    n = len(lin)
    parts = range(0, len(lin), PANEL)

    def read(a: int) -> Tensor:  # all rows of a sample side by side
        rows = features[a * b : min(a + PANEL, n) * b].double()
        return rows.reshape(-1, b * rows.shape[1])

    positions = [torch.as_tensor(cols[(cols >= a) & (cols < a + PANEL)] - a) for a in parts]
    basis = torch.cat([read(a)[idx] for a, idx in zip(parts, positions, strict=True)])
    return torch.cat([read(a) @ basis.T / b for a in parts])


def _project_features(features: Features | None, basis_idx: np.ndarray) -> Float[Tensor, "n q"]:
    """Project features onto their leading directions, where they have many columns."""
    assert features is not None
    n, p = features.shape
    parts = range(0, n, PANEL)
    if p <= MOST_COLUMNS:
        return torch.cat([features[a : a + PANEL].float() for a in parts])
    gram = torch.zeros(p, p, dtype=torch.float64)
    for a in parts:
        idx = basis_idx[(basis_idx >= a) & (basis_idx < a + PANEL)] - a
        rows = features[a : min(a + PANEL, n)][torch.as_tensor(idx)].double()
        gram += rows.T @ rows
    vectors = _leading_eigenvectors(gram)[1].float()
    return torch.cat([features[a : min(a + PANEL, n)].float() @ vectors for a in parts])


def _leading_eigenvectors(symmetric: Tensor) -> tuple[Float[Tensor, " q"], Float[Tensor, "p q"]]:
    values, vectors = torch.linalg.eigh(symmetric.double())
    is_large = values > LEAST_SHARE * values[-1]
    return values[is_large][-MOST_COLUMNS:], vectors[:, is_large][:, -MOST_COLUMNS:]
