"""Blocks by influence: purify, purify what was left out, and so on; then reassign until stable."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from datassay.act.mixture import Mixture, log_densities
from datassay.collect.convex import fit_convex
from datassay.collect.output_geometry import OutputGeometry
from datassay.collect.output_loss import output_losses
from datassay.progress import Progress, silent
from datassay.score.removal_effects import geometry_effects

# A block of fewer samples is no block: its own model and its variance mean nothing.
LEAST_IN_BLOCK = 20
# One purification removes this part of its samples at most; more and the minority would be kept.
MOST_REMOVED = 0.6
# Nats above a blind guess at which a batch of removed samples no longer looks foreign (METHODS §4);
# squared errors above the noise for regression.
FOREIGN_NATS = 0.6
FOREIGN_SQUARES = 4.0
SMOOTHED_STEPS = 3
MAX_REASSIGNMENTS = 50


def influence_blocks(
    at: OutputGeometry,
    n_blocks: int,
    *,
    ridge: float,
    damping: float,
    progress: Progress = silent,
) -> Int[Tensor, " n"]:
    """Blocks from repeated purification: what the first leaves out is purified in turn.

    Args:
        at: a model that is linear in its weights, and the samples.
        n_blocks: K; fewer are used where too few samples are left out.
        ridge: of each fit.
        damping: of the Hessian in the removal effects.
        progress: called with (step, blocks done, blocks in all).

    Returns:
        [n], in 0..K−1; the last block is what remains.
    """
    block = torch.full((len(at),), n_blocks - 1)
    left = torch.arange(len(at))
    for k in range(n_blocks - 1):
        kept = purified(at.subset(left), ridge=ridge, damping=damping)
        block[left[kept]] = k
        left = left[~kept]
        progress("purify", k + 1, n_blocks)
        if len(left) < LEAST_IN_BLOCK:
            break
    return block


def purified(at: OutputGeometry, *, ridge: float, damping: float) -> Tensor:
    """Which samples remain when those of the largest removal effects go until they look at home.

    Args:
        at: a model that is linear in its weights, and the samples.
        ridge: of each fit.
        damping: of the Hessian.

    Returns:
        [n] booleans.
    """
    n, size = len(at), max(1, len(at) // 100)
    keep, foreign = torch.arange(n), []
    history = [keep]
    start = _fit(at, ridge, None)
    while len(keep) - size >= max((1 - MOST_REMOVED) * n, LEAST_IN_BLOCK):
        part = at.subset(keep).moved(start[0])
        effects = geometry_effects(
            part, np.arange(len(part)), ridge=ridge, damping=damping, order="fixed"
        )
        going = torch.from_numpy(effects.ranking[:size].copy())
        batch, keep = keep[going], np.delete(keep.numpy(), going.numpy())
        keep = torch.from_numpy(keep)
        history.append(keep)
        start = _fit(at.subset(keep), ridge, start)
        foreign.append(_foreignness(at.subset(batch), at.subset(keep), start))
        recent = foreign[-SMOOTHED_STEPS:]
        if len(recent) == SMOOTHED_STEPS and sum(recent) < 0:
            break
    else:
        return _mask(n, keep)
    # The steps whose batches together no longer looked foreign are taken back.
    return _mask(n, history[-1 - SMOOTHED_STEPS])


def _mask(n: int, keep: Tensor) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[keep] = True
    return mask


def _fit(at: OutputGeometry, ridge: float, start: Tensor | None) -> Float[Tensor, "1 p"]:
    return fit_convex(at.features, at.targets, at.loss, ridge, start=start).weights


def _foreignness(batch: OutputGeometry, rest: OutputGeometry, weights: Tensor) -> float:
    """Mean loss of the batch under a model of the rest, above what a stranger would have."""
    loss = _mean_loss(batch, weights)
    if batch.loss == "mse":
        return loss / max(_mean_loss(rest, weights), 1e-300) - FOREIGN_SQUARES
    return loss - math.log(max(2, batch.targets.shape[1])) - FOREIGN_NATS


def _mean_loss(at: OutputGeometry, weights: Tensor) -> float:
    return float(output_losses(at.features.outputs(weights[0]), at.targets, at.loss).mean())


def reassigned(at: OutputGeometry, block: Int[Tensor, " n"], ridge: float) -> Mixture:
    """Each sample to the block whose model explains it best, models refitted, until stable.

    Args:
        at: the samples.
        block: to begin with, in 0..K−1; empty ones vanish.
        ridge: of each fit.

    Returns:
        A mixture with responsibilities 0 and 1. It stops short of a block below LEAST_IN_BLOCK.

    Cost: K warm convex fits an iteration, ten or so iterations.
    """
    member = _members(block)
    mixture = None
    for _ in range(MAX_REASSIGNMENTS):
        mixture = _hard_mixture(at, member, ridge, None if mixture is None else mixture.weights)
        moved = _members(mixture.joint(at.features, at.targets, at.loss).argmax(1), len(member))
        if (moved.sum(1) < LEAST_IN_BLOCK).any() or (moved == member).all():
            break
        member = moved
    assert mixture is not None
    return mixture


def _members(block: Int[Tensor, " n"], n_blocks: int | None = None) -> Float[Tensor, "K n"]:
    if n_blocks is None:
        block = block.unique(return_inverse=True)[1]
        n_blocks = int(block.max()) + 1
    return functional.one_hot(block, n_blocks).T.double()


def _hard_mixture(
    at: OutputGeometry, member: Float[Tensor, "K n"], ridge: float, start: Tensor | None
) -> Mixture:
    weights = fit_convex(
        at.features, at.targets, at.loss, ridge, sample_weight=member, start=start
    ).weights
    outputs = at.features.outputs(weights)
    noise = torch.ones(len(member), dtype=torch.float64)
    if at.loss == "mse":
        losses = 2 * output_losses(outputs, at.targets, at.loss) / at.targets.shape[1]
        # One sample's worth of everybody, as the soft mixture has it.
        mass = member + 1 / len(at)
        noise = (losses * mass).sum(1) / mass.sum(1)
    mixing = member.mean(1)
    joint = mixing.log()[:, None] + log_densities(outputs, at.targets, at.loss, noise)
    found = float(joint.logsumexp(0).mean())
    order = mixing.argsort(descending=True, stable=True)
    return Mixture(
        weights[order],
        mixing[order],
        noise[order],
        weights.new_zeros(len(member), 0),
        member[order].T.contiguous(),
        found,
        torch.tensor([found]),
        converged=True,
    )
