"""The ridge fit that labels are judged by: its penalty, and each sample's held-out outputs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.collect.form import LARGEST_EIGENPROBLEM, N_RIDGES, step_bytes
from datassay.collect.linearization import Linearization
from datassay.optional import coalesce
from datassay.plan import EIGEN_WORK, PlanStep
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.labels.likelihood import MOST_INTERCEPTS
from datassay.score.linear.eigenbasis import Eigenbasis, FeatureRows, check_not_null, eigenbasis
from datassay.score.linear.many_outputs import mix_columns
from datassay.score.linear.panels import panels
from datassay.score.linear.removal import RemovalBlocks, held_out_residuals
from datassay.score.registry import Sizes

# Penalties tried, as fractions of λ_max: four a decade.
RIDGES = torch.logspace(-8, 0, N_RIDGES, dtype=torch.float64)
DECADE = 4
SEARCH_COLUMNS = 32  # by which a penalty is chosen: the error is a mean over all samples
STEP = "estimate label noise"
# Products in less than float64 round by about 2⁻²³ λ_max: smaller penalties would not be felt.
LEAST_RIDGE = 8 * torch.finfo(torch.float32).eps
# Above this many samples features replace the [n, n] kernel.
LARGEST_KERNEL = LARGEST_EIGENPROBLEM
# The search for the label noise: evaluations of a likelihood, calls in each, however few samples,
# and passes over a value of each sample and class.
EVALUATIONS = 1000
EVALUATION_CALLS = 40.0
EVALUATION_VALUES = 20.0
PANEL_VALUES = 2**25  # of the rows of groups that are left out at a time


@result
class RidgeFit:
    """Ridge regression on the given labels.

    Attributes:
        lin: the linearisation.
        basis: its eigenbasis.
        offset: subtracted from targets, 0 or f₀, [n, k].
        penalty: absolute, kernel unit.
        held_out: outputs for each sample from the fit without it, or without its group, [n, k].
        blocks: positions of the groups, those of one size together, [g, size]; None: no groups.
    """

    lin: Linearization
    basis: Eigenbasis
    offset: Float[Tensor, "n k"]
    penalty: float
    held_out: Float[Tensor, "n k"]
    blocks: tuple[Int[Tensor, "_ _"], ...] | None = None

    def held_out_of(
        self, targets: Float[Tensor, "n k"], progress: Progress
    ) -> Float[Tensor, "n k"]:
        """Return held-out outputs of the fit to other targets, [n, k], under the same penalty."""
        target = (targets - self.offset).double().reshape(self.lin.residual.shape)
        shifts = torch.tensor([self.penalty], dtype=torch.float64)
        step = "estimate label noise again"
        residual = _leave_out(self.basis, target, shifts, progress, step, self.blocks)[0]
        return targets - residual.flatten(1)

    def refit(self, targets: Float[Tensor, "n k"], factors: Sequence[float]) -> "RidgeFit":
        """Fit other targets, trying `factors` times the penalty; with groups it stays."""
        if self.blocks is not None:
            return replace(self, held_out=self.held_out_of(targets, silent))
        penalties = self.penalty * torch.tensor(factors, dtype=torch.float64)
        return ridge_fit(self.lin, silent, penalties=penalties, targets=targets)


def ridge_fit(
    lin: Linearization,
    progress: Progress,
    groups: Shaped[np.ndarray, " n"] | None = None,
    penalties: Float[Tensor, " q"] | None = None,
    targets: Float[Tensor, "n k"] | None = None,
    is_scored: Bool[np.ndarray, " n"] | None = None,
) -> RidgeFit:
    """Return the ridge fit of least leave-one-out error over penalties, and offsets 0 and f₀.

    One penalty a decade is tried, then those about the best: but for rare sets the error has one
    valley.

    Args:
        lin: the linearisation.
        progress: called with (step, samples done, samples in all).
        groups: group of each sample, left out as a whole; only one penalty a decade is tried.
        penalties: to try instead, kernel unit.
        targets: to fit instead of the linearisation's.
        is_scored: samples whose held-out outputs are computed and whose error counts; others are
            NaN. None: all.
    """
    blocks = None
    if groups is not None:
        blocks = _collect_blocks(groups, is_scored)
    if len(lin) <= LARGEST_KERNEL:
        lin = lin.average_outputs()
    basis = eigenbasis(lin, progress)
    if targets is None:
        targets = lin.targets
    check_not_null(basis)
    is_exact = lin.kernel is not None or lin.form.products.precision == "float64"
    if is_exact:
        ridges = RIDGES
    else:
        ridges = RIDGES[RIDGES > LEAST_RIDGE]
    # Rows that are computed each time they are read cost more than penalties: try all at once.
    is_recomputed = isinstance(basis.rows, FeatureRows) and not basis.rows.is_small
    tries_all = is_recomputed and blocks is None
    if tries_all:
        first_ridges = ridges
    else:
        first_ridges = ridges[::DECADE]
    shifts = coalesce(penalties, first_ridges * basis.largest)
    offsets = (torch.zeros_like(lin.outputs), lin.outputs)
    n, b, c = lin.residual.shape
    # Both offsets as columns side by side: the leverages are the same.
    exact = torch.stack([(targets - f0).double().reshape(n, b, c) for f0 in offsets], 2)
    target = mix_columns(exact, SEARCH_COLUMNS)  # fewer columns, of about the same error
    residuals = _leave_out(basis, target.flatten(2), shifts, progress, STEP, blocks)
    residuals = residuals.unflatten(3, (2, -1))
    if is_scored is None:
        scored_idx = slice(None)
    else:
        scored_idx = torch.from_numpy(is_scored)
    error = torch.stack([r[scored_idx].square().mean((0, 1, 3)) for r in residuals])  # [best_q, 2]
    best_q, best_offset = divmod(int(error.argmin()), 2)
    penalty = float(shifts[best_q])
    residual = residuals[best_q, :, :, best_offset]
    if blocks is None and penalties is None and not tries_all:
        # Ridges between the decades on either side of the best, which is position DECADE best_q.
        idx = torch.arange(
            max(0, DECADE * (best_q - 1) + 1), min(len(ridges), DECADE * (best_q + 1))
        )
        shifts = ridges[idx[idx != DECADE * best_q]] * basis.largest
        residuals = _leave_out(basis, target[:, :, best_offset], shifts, progress, STEP)
        errors = torch.stack([r.square().mean() for r in residuals])
        if errors.min() < error[best_q, best_offset]:
            penalty = float(shifts[errors.argmin()])
            residual = residuals[errors.argmin()]
    if target is not exact:
        shifts = torch.tensor([penalty], dtype=torch.float64)
        residual = _leave_out(basis, exact[:, :, best_offset], shifts, progress, STEP, blocks)[0]
    return RidgeFit(
        lin, basis, offsets[best_offset], penalty, targets - residual.flatten(1), blocks
    )


def _leave_out(
    basis: Eigenbasis,
    target: Float[Tensor, "n b c"],
    shifts: Float[Tensor, " q"],
    progress: Progress,
    step: str,
    blocks: tuple[Int[Tensor, "_ _"], ...] | None = None,
) -> Float[Tensor, "q n b c"]:
    """Return leave-one-out residuals under each penalty (shift); NaN for samples in no block.

    b: feature rows per sample. c: target columns. blocks: [groups, size] positions of samples left
    out together; None: one by one.
    """
    n, b, c = target.shape
    projected = basis.project(target)
    residuals = torch.full((len(shifts), n, b, c), torch.nan, dtype=torch.float64)
    if blocks is not None:
        for members in blocks:
            n_values = members.shape[1] * b * basis.rows.shape[2] * len(shifts)
            for group in members.split(max(1, PANEL_VALUES // n_values)):
                rows = basis.rows_of(group.flatten()).unflatten(0, group.shape)
                removal = RemovalBlocks(rows.flatten(1, 2), target[group].flatten(1, 2), projected)
                group_residuals = held_out_residuals(basis, removal, shifts)
                residuals[:, group] = group_residuals.unflatten(2, (-1, b))
            progress(step, n, n)
        return residuals
    slices = list(panels(n, b * basis.rows.shape[2] + len(shifts) * b * (b + 2 * c)))
    shared = (basis.sent, target, projected, shifts)
    solved = basis.engine.map(_leave_out_panel, shared, slices)
    for panel, panel_residuals in zip(slices, solved, strict=True):
        residuals[:, panel] = panel_residuals
        progress(step, panel.stop, n)
    return residuals


def _collect_blocks(
    groups: Shaped[np.ndarray, " n"], is_scored: Bool[np.ndarray, " n"] | None
) -> tuple[Int[Tensor, "_ _"], ...]:
    """Return positions of each group's members: one matrix [groups, size] per group size."""
    (idx,) = np.nonzero(coalesce(is_scored, np.ones(len(groups), bool)))
    _, group, counts = np.unique(groups[idx], return_inverse=True, return_counts=True)
    blocks = np.split(idx[np.argsort(group, kind="stable")], np.cumsum(counts)[:-1])
    return tuple(
        torch.from_numpy(np.stack([block for block in blocks if len(block) == size]))
        for size in np.unique(counts)
    )


def _leave_out_panel(
    shared: tuple[Eigenbasis, Tensor, Tensor, Tensor], panel: slice
) -> Float[Tensor, "q g b c"]:
    """Return leave-one-out residuals of g consecutive samples, under each of q penalties."""
    basis, target, projected, shifts = shared
    removal = RemovalBlocks(basis.rows[panel], target[panel], projected)
    return held_out_residuals(basis, removal, shifts)


def judge_steps(sizes: Sizes) -> list[PlanStep]:
    """Return the plan of `label_issues`: fits under all penalties, and the search for noise."""
    n = sizes.train
    b = sizes.rows
    p = sizes.eigenproblem
    columns = min(sizes.outputs // b, SEARCH_COLUMNS)
    n_bytes = step_bytes(sizes.form)["label issues"]
    # Two offsets a decade, the penalties about one of them, and two fits to the probable labels.
    n_decades = 1 + len(RIDGES) // DECADE
    n_fits = 2.0 * n_decades + 2.0 * DECADE + 2.0
    work = defaultdict(float, {"float64": 0.0, "eigen": 0.0, "thin": 0.0})
    if classes := sizes.classes:
        work["calls"] = EVALUATIONS * EVALUATION_CALLS
        work["values"] = EVALUATIONS * EVALUATION_VALUES * n * classes
        if classes <= MOST_INTERCEPTS:
            work["float64"] = EVALUATIONS * 6.0 * n * classes**2
    if not sizes.is_dual and (b == 1 or n > LARGEST_KERNEL):
        n_reads = 2
        work[sizes.products] += n_reads * 2.0 * n * b * p**2
        work["thin"] = n_fits * n * b * p * (b + columns)
        detail = f"{p} x {p} systems"
    else:
        if b > 1:  # else the kernel is decomposed already
            work["eigen"] = EIGEN_WORK * n**3
        work["thin"] = n_fits * n * n * columns * b
        detail = f"{n} x {n} kernel"
    return [PlanStep("label issues", detail, n_bytes, work)]
