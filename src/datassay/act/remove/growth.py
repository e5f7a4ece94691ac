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

POOL = 32  # samples that are compared at each step, drawn at random from one class
# Samples are weighed anew when the keep-set has grown by this share, and by so many samples.
RENEWED, FEWEST_BETWEEN = 0.1, 16
LEARNED = 0.01  # squared residual below which a sample counts as learned and gets no noisier
PANEL = 4096  # samples at a time
MOST_COLUMNS = 256  # leading directions, q at most
# Samples from which the leading directions are read; all of them would cost n p².
BASIS_SIZE = {"features": 4096, "kernel": 1024}
LEAST_SHARE = 1e-9  # directions below this share of the largest eigenvalue are rounding


@dataclass(frozen=True, slots=True)
class Aim:
    """What the gain is by which a sample to add is chosen.

    Attributes:
        ridge: λ; rows have length 1.
        error: whether lower squared errors of all samples count, besides lower variances.
        at_residuals: whether a sample's variance counts by its squared residual r² under the fit so
            far, and its noise is λ · mean r² / r²: a sample that is already learned neither needs
            nor adds information.
    """

    ridge: float
    error: bool = False
    at_residuals: bool = False


FIT = Aim(ridge=0.3, error=True)
BOUNDARY = Aim(ridge=1.0, at_residuals=True)


class Fit:
    """The fit to the samples kept so far, and the sums by which others are valued."""

    def __init__(self, rows: Float[Tensor, "n p"], targets: Float[Tensor, "n k"], aim: Aim):
        """Start a ridge fit that has no sample yet."""
        self.rows = rows
        self.targets = targets
        self.aim = aim
        self.covariance = torch.eye(rows.shape[1])
        self.weights = torch.zeros(rows.shape[1], targets.shape[1])
        self.weigh_samples()

    def weigh_samples(self) -> None:
        """Update the samples' noise and importance by the residuals of the present fit."""
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
        """Return how far adding each of these samples alone lowers variance, or error."""
        rows = self.rows[idx]
        projected = rows @ self.covariance  # φᵀP
        scale = (projected * rows).sum(1) + self.noise[idx]  # d
        squares = ((projected @ self.gram) * projected).sum(1)  # Σ_i c_ij², weighted
        gain = squares / scale
        if self.aim.error:
            residual = self.targets[idx] - rows @ self.weights
            change = ((projected @ self.row_residuals) * residual).sum(1)
            gain = gain + 2 * change / scale - squares * residual.square().sum(1) / scale.square()
        return gain

    def add(self, position: int) -> None:
        """Update the fit by one more sample (a rank-one update)."""
        row = self.rows[position]
        projected = self.covariance @ row  # Pφ
        scale = projected @ row + self.noise[position]  # d
        residual = self.targets[position] - row @ self.weights
        weight_change = torch.outer(projected, residual / scale)
        self.weights += weight_change
        self.row_residuals -= self.gram @ weight_change
        self.covariance -= torch.outer(projected, projected / scale)


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
    """Return all positions: kept ones greedily by gain, `quota` per group, then the others."""
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
        best_position = int(drawn[int(fit.gains(open_idx[drawn]).argmax())])
        order.append(int(open_idx[best_position]))
        open_idx[best_position] = open_idx[-1]  # removed in place: the last takes its position
        open_by_group[group] = open_idx[:-1]
        fit.add(order[-1])
        n_kept[group] += 1
        progress("choose what stays", step + 1, total)
    not_kept = np.concatenate(open_by_group)
    starts = range(0, len(not_kept), PANEL)
    gains = torch.cat([torch.zeros(0), *(fit.gains(not_kept[a : a + PANEL]) for a in starts)])
    by_gain = np.argsort(-gains.numpy(), kind="stable")
    return np.concatenate([np.array(order, int), not_kept[by_gain]])


def unit_rows(lin: Linearization, seed: int) -> Float[Tensor, "n q"]:
    """Return a unit vector per sample: features or kernel in the leading eigenvectors."""
    # Rows are scaled because outliers, whose rows are long, would otherwise be chosen first.
    # Cost: features of one row per sample: 4096 p² + p³ + 256 n p operations, read in panels. Of b
    # rows: 1024 n b p. A kernel: 1024³ + 1024 n q.
    # Source: Williams and Seeger (2001) for the kernel.
    n = len(lin)
    has_one_row = lin.features is not None and lin.rows_per_sample == 1
    basis_idx = np.random.default_rng((seed, 1)).permutation(n)
    basis_idx = np.sort(basis_idx[: BASIS_SIZE["features" if has_one_row else "kernel"]])
    if has_one_row:
        rows = _project_features(lin.features, basis_idx)
    else:
        products = _read_kernel(lin, basis_idx)  # [n, s]
        values, vectors = _leading_eigenvectors(products[torch.as_tensor(basis_idx)])
        rows = (products @ (vectors / values.sqrt())).float()
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


def _read_kernel(lin: Linearization, cols: np.ndarray) -> Float[Tensor, "n s"]:
    """Return the kernel, averaged over outputs, between all samples and those at `cols`."""
    if lin.features is None:
        kernel = lin.average_outputs().kernel
        assert kernel is not None
        return kernel[:, torch.as_tensor(cols)].double()
    b = lin.rows_per_sample
    n = len(lin)
    starts = range(0, n, PANEL)

    def read(a: int) -> Tensor:  # all rows of a sample side by side
        rows = lin.features[a * b : min(a + PANEL, n) * b].double()
        return rows.reshape(-1, b * rows.shape[1])

    positions = [torch.as_tensor(cols[(cols >= a) & (cols < a + PANEL)] - a) for a in starts]
    basis = torch.cat([read(a)[idx] for a, idx in zip(starts, positions, strict=True)])
    return torch.cat([read(a) @ basis.T / b for a in starts])


def _project_features(features: Features | None, basis_idx: np.ndarray) -> Float[Tensor, "n q"]:
    """Return features along their leading eigenvectors; unchanged up to MOST_COLUMNS columns."""
    assert features is not None
    n, p = features.shape
    starts = range(0, n, PANEL)
    if p <= MOST_COLUMNS:
        return torch.cat([features[a : a + PANEL].float() for a in starts])
    gram = torch.zeros(p, p, dtype=torch.float64)
    for a in starts:
        idx = basis_idx[(basis_idx >= a) & (basis_idx < a + PANEL)] - a
        rows = features[a : min(a + PANEL, n)][torch.as_tensor(idx)].double()
        gram += rows.T @ rows
    vectors = _leading_eigenvectors(gram)[1].float()
    return torch.cat([features[a : min(a + PANEL, n)].float() @ vectors for a in starts])


def _leading_eigenvectors(symmetric: Tensor) -> tuple[Float[Tensor, " q"], Float[Tensor, "p q"]]:
    """Return the largest eigenvalues, at most MOST_COLUMNS, ascending, and their eigenvectors."""
    values, vectors = torch.linalg.eigh(symmetric.double())
    is_large = values > LEAST_SHARE * values[-1]
    return values[is_large][-MOST_COLUMNS:], vectors[:, is_large][:, -MOST_COLUMNS:]
