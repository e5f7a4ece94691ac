"""Change of the trained weights by removing whole groups of samples, in coordinates.

Three exact ways; each size takes the cheapest: the block formula of single samples with more rows,
training the rest again from its own decomposition, and, for a few steps of descent, iterating.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.errors import SettingError
from datassay.results import result
from datassay.score.linear.eigenbasis import Eigenbasis, null_to_zero
from datassay.score.linear.panels import is_kept_whole, panels
from datassay.score.linear.removal import (
    Penalised,
    RemovalBlocks,
    deletion,
    penalised_fits,
    sum_resolvents,
    takes_few_steps,
)
from datassay.score.linear.training_run import (
    Dynamics,
    TrainingRun,
    filter_values,
    iterate,
    resolvents,
)

# Operations of an eigendecomposition, and of solving one complex block, over the cube of its size,
# in units of a matrix product's; as timed on one core at sizes 100 to 1000.
EIGH_OPERATIONS = 40
BLOCK_SOLVE_OPERATIONS = 80
# Values of one chunk of groups, 32 MiB in float64.
CHUNK_VALUES = 2**22
# Products of rows that many groups share are held whole up to this many rows.
MOST_SHARED_ROWS = 1024


@result
class GroupRemovals:
    """The removals of some groups of equal size.

    Attributes:
        groups: [g], positions of these groups in the list of groups.
        coordinates: W, [p, g, c], of w − w₋g.
    """

    groups: Int[Tensor, " g"]
    coordinates: Float[Tensor, "p g c"]


def group_removals(
    training: TrainingRun, groups: Sequence[Int[Tensor, " _"]]
) -> Iterator[GroupRemovals]:
    """Yield w − w₋g of every group in the eigenbasis, chunks of equal-sized groups."""
    # Source: METHODS §2, beyond S1. Exact, as `removals`.
    trained = training.fit_weights()
    projected = training.basis.project(training.residual)
    sizes = torch.tensor([len(group) for group in groups])
    for size in sizes.unique().tolist():
        group_idx = (sizes == size).nonzero()[:, 0]
        members = torch.stack([groups[i] for i in group_idx.tolist()])  # [g, size]
        run = training.leave_out(size)
        way: Any = _choose_way(training, run, size)
        n, b, p = training.basis.rows.shape
        n_removed = size * b
        c = training.residual.shape[2]
        # Of one group: its rows and their changes, 150 by each pair of its rows over all shifts,
        # iterates.
        values = n_removed * p * (3 + 2 * c) + 150 * n_removed**2 + n * b * (1 + 3 * c)
        chunk = max(1, CHUNK_VALUES // values)
        if way is _refit:
            chunk = 1
        elif way is _delete:
            fits = penalised_fits(training.basis, projected, run)
            way = partial(_delete, projected=projected, fits=fits)
        for rows in torch.arange(len(group_idx)).split(chunk):
            weights = way(training, run, members[rows])
            yield GroupRemovals(group_idx[rows], trained[:, None] - weights)


def _choose_way(training: TrainingRun, run: Dynamics, size: int) -> Callable[..., Tensor]:
    """Return the cheapest of _delete, _refit and _iterate for groups of this size."""
    basis = training.basis
    n, b, p = basis.rows.shape
    refit_work = _count_refit_work(n * b, size * b, p)
    # Removing samples can only lower λ_max, but how far is known only after a decomposition.
    if run.kind == "descent" and run.step * (basis.largest + run.penalty) >= 2:
        return _refit
    if takes_few_steps(run):
        iteration_work = 4 * run.steps * n * b * p * training.residual.shape[2]
        if iteration_work < refit_work:
            return _iterate
        return _refit
    n_shifts = 1
    if run.kind != "converged":
        n_shifts = len(resolvents(run, basis.largest).shifts)
    if _deletion_work(size * b, p, n_shifts) < refit_work:
        return _delete
    return _refit


def removal_work(n: int, b: int, p: int, sizes: Sequence[int], n_shifts: int) -> float:
    """Return the operations of removing groups of these sizes, each the cheaper way."""
    total = 0
    for size in sizes:
        refit_work = _count_refit_work(n * b, size * b, p)
        total += min(refit_work, _deletion_work(size * b, p, n_shifts))
    return float(total)


def _count_refit_work(n_rows: int, n_removed: int, p: int) -> int:
    """Return the operations of `_refit` without n_removed of n_rows rows."""
    n_remaining = n_rows - n_removed
    side = min(n_remaining, p)
    read_work = 0
    if not is_kept_whole(n_rows * p):
        read_work = 2 * n_remaining * p**2
    return EIGH_OPERATIONS * side**3 + 2 * n_remaining * side * p + read_work


def _deletion_work(n_removed: int, p: int, n_shifts: int) -> int:
    """Count operations of `_delete` for one group of so many rows."""
    return n_shifts * (4 * n_removed**2 * p + BLOCK_SOLVE_OPERATIONS * n_removed**3)


def _delete(
    training: TrainingRun,
    run: Dynamics,
    members: Int[Tensor, "g size"],
    projected: Float[Tensor, "p c"],
    fits: Penalised | None,
) -> Float[Tensor, "p g c"]:
    """Return weights without each group, updated from the weights with all samples."""
    basis = training.basis
    rows = basis.rows_of(members.flatten()).unflatten(0, members.shape)
    blocks = RemovalBlocks(
        rows.flatten(1, 2),
        training.residual[members].flatten(1, 2),
        projected,
        _share_rows(basis, members),
    )
    terms, v = deletion(basis, blocks, run, fits)
    # With all samples, by the run that the others have.
    weights = filter_values(basis.eigenvalues, run)[:, None] * projected
    return weights[:, None] - sum_resolvents(blocks.rows, basis.eigenvalues, terms, v)


def _share_rows(basis: Eigenbasis, members: Int[Tensor, "g size"]) -> tuple[Tensor, Tensor] | None:
    """Return the groups' distinct rows and each group's positions in them; None: no gain."""
    distinct, positions = members.unique(return_inverse=True)
    b = basis.rows.shape[1]
    n_rows = len(distinct) * b
    if n_rows > MOST_SHARED_ROWS or n_rows**2 > members.numel() * members.shape[1] * b**2:
        return None
    positions = (positions[:, :, None] * b + torch.arange(b)).flatten(1)
    return basis.rows_of(distinct).flatten(0, 1), positions


def _iterate(
    training: TrainingRun, run: Dynamics, members: Int[Tensor, "g size"]
) -> Float[Tensor, "p g c"]:
    """Return weights without each group after a few steps of descent."""
    return iterate(training.basis, training.residual, run, members)


def _refit(
    training: TrainingRun, run: Dynamics, members: Int[Tensor, "1 size"]
) -> Float[Tensor, "p 1 c"]:
    """Return weights trained without one group, by a new eigendecomposition."""
    # That of the rest's kernel or of its second moments, whichever is smaller.
    basis = training.basis
    n, b, p = basis.rows.shape
    size = members.shape[1]
    is_kept = torch.ones(n, dtype=torch.bool)
    is_kept[members[0]] = False
    kept_idx = is_kept.nonzero()[:, 0]
    residual = training.residual[is_kept].flatten(0, 1)
    rows = None
    if len(residual) <= p:  # the kernel
        rows = basis.rows_of(kept_idx).flatten(0, 1)
        system = (rows * basis.metric) @ rows.T
        target = residual
    else:  # second moments, a panel of rows at a time
        system = torch.zeros(p, p, dtype=torch.float64)
        target = residual.new_zeros(p, residual.shape[1])
        for panel in panels(len(kept_idx), b * p):
            panel_rows = basis.rows_of(kept_idx[panel]).flatten(0, 1)
            system.addmm_(panel_rows.T, panel_rows)
            target.addmm_(panel_rows.T, residual[panel.start * b : panel.stop * b])
    eigenvalues, directions = torch.linalg.eigh(system)
    eigenvalues = null_to_zero(eigenvalues)
    fastest = run.step * (float(eigenvalues[-1]) + run.penalty)
    if run.kind == "descent" and fastest >= 2:
        raise SettingError(
            f"lr must be lower by a factor of {fastest / 2:.4g}, for under reduction='mean' the "
            f"steps without a group of {size} of {n} samples are {n / (n - size):.4g} times as "
            f"long and descent is unstable; got η·λ_max = {fastest:.4g}. Or use flow."
        )
    values = filter_values(eigenvalues, run)[:, None]
    weights = directions @ (values * (directions.T @ target))
    if rows is not None:
        weights = rows.T @ weights
    return weights[:, None]
