"""Blocks by influence: purify, purify what was left out, and so on; then reassign until stable."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from datassay.act.partition.mixture import Mixture, log_densities
from datassay.act.purify.loop import purify
from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.collect.curvature.output_loss import output_losses
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.models.networks import seeded
from datassay.progress import Progress, silent
from datassay.train.convex import fit_convex

# A block of fewer samples is no block: its own model and its variance mean nothing.
LEAST_IN_BLOCK = 20
MAX_REASSIGNMENTS = 50


def influence_blocks(
    geometry: OutputGeometry,
    n_blocks: int,
    *,
    ridge: float,
    damping: float,
    progress: Progress = silent,
) -> Int[Tensor, " n"]:
    """Blocks from repeated purification: what the first leaves out is purified in turn."""
    block = torch.full((len(geometry),), n_blocks - 1)
    left = torch.arange(len(geometry))
    for k in range(n_blocks - 1):
        rest = geometry.subset(left)
        if len(left) < LEAST_IN_BLOCK or (rest.targets == rest.targets[:1]).all():
            break
        kept = _kept(rest, ridge, damping)
        block[left[kept]] = k
        left = left[~kept]
        progress("purify", k + 1, n_blocks)
    return block


def _kept(geometry: OutputGeometry, ridge: float, damping: float) -> Bool[Tensor, " n"]:
    """Which samples `purify` keeps: all where V is 0, for then none can lower it."""
    mask = torch.zeros(len(geometry), dtype=torch.bool)
    model, samples = _as_samples(geometry)
    try:
        purification = purify(
            model, samples, loss=geometry.loss, ridge=ridge, damping=damping, order="fixed"
        )
    except DataError:
        return ~mask
    mask[purification.keep] = True
    return mask


def _as_samples(geometry: OutputGeometry) -> tuple[nn.Module, SampleSet]:
    """The geometry as a linear model and its samples, which is what `purify` takes."""
    assert isinstance(geometry.features, SharedFeatures)
    x, (n, k) = geometry.features.x, geometry.targets.shape
    with seeded(0):  # fits start at 0: nothing follows from these weights
        model = nn.Linear(x.shape[1], k, bias=False).double()
    names = tuple(map(str, range(max(2, k)))) if geometry.loss == "cross_entropy" else ()
    y = (
        geometry.targets
        if not names
        else geometry.targets[:, 0]
        if k == 1
        else geometry.targets.argmax(1)
    )
    y = y.long() if names else y
    return model, SampleSet(x.numpy(), y.numpy(), np.arange(n), class_names=names)


def reassigned(geometry: OutputGeometry, block: Int[Tensor, " n"], ridge: float) -> Mixture:
    """Each sample to the block whose model explains it best, models refitted, until stable."""
    # Cost: K warm convex fits an iteration, ten or so iterations.
    member = _members(block)
    mixture = None
    for _ in range(MAX_REASSIGNMENTS):
        mixture = _hard_mixture(
            geometry, member, ridge, None if mixture is None else mixture.weights
        )
        moved = _members(
            mixture.joint(geometry.features, geometry.targets, geometry.loss).argmax(1), len(member)
        )
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
    geometry: OutputGeometry, member: Float[Tensor, "K n"], ridge: float, start: Tensor | None
) -> Mixture:
    weights = fit_convex(
        geometry.features, geometry.targets, geometry.loss, ridge, sample_weight=member, start=start
    ).weights
    outputs = geometry.features.outputs(weights)
    noise = torch.ones(len(member), dtype=torch.float64)
    if geometry.loss == "mse":
        losses = (
            2 * output_losses(outputs, geometry.targets, geometry.loss) / geometry.targets.shape[1]
        )
        # One sample's worth of everybody, as the soft mixture has it.
        mass = member + 1 / len(geometry)
        noise = (losses * mass).sum(1) / mass.sum(1)
    mixing = member.mean(1)
    joint = mixing.log()[:, None] + log_densities(outputs, geometry.targets, geometry.loss, noise)
    likelihood = float(joint.logsumexp(0).mean())
    order = mixing.argsort(descending=True, stable=True)
    return Mixture(
        weights[order],
        mixing[order],
        noise[order],
        weights.new_zeros(len(member), 0),
        member[order].T.contiguous(),
        likelihood,
        torch.tensor([likelihood]),
        converged=True,
    )
