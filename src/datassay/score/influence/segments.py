"""Removal along a training run, linearised anew at checkpoints: one closed form a segment.

Gradient descent with K updates of step lr on a quadratic of Hessian H moves a sample's removal by
F ∇ℓ_i, F = (I − exp(−t H)) H⁻¹ with t = K lr, and what earlier segments moved by exp(−t H). Going
back from the trained network,

q_L = ∇m(w_L),  q_{l−1} = exp(−t_l H_l) q_l,  effect of i = −(1/n) Σ_l q_lᵀ F_l ∇ℓ_i(w_l).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.factors import matrix
from datassay.collect.gradients.objective import to_model
from datassay.errors import SettingError
from datassay.score.influence.block_basis import BlockBasis
from datassay.score.influence.first_order import Directions, each_token
from datassay.score.influence.trained_network import TrainedNetwork


def segment_settings(
    model: nn.Module,
    lr: float | Sequence[float] = 0.0,
    steps: Sequence[int] = (),
    checkpoints: Sequence[nn.Module] | None = None,
) -> list[tuple[nn.Module, float]]:
    """Networks at the ends of segments, and how long each segment was.

    Args:
        model: not used: the last checkpoint is the trained network.
        lr: step of the mean loss, one for all segments or one each; with momentum μ the step
            divided by 1 − μ.
        steps: updates done at each checkpoint, from the start of the run.
        checkpoints: networks, in the order of the run.

    Returns:
        One pair a segment: its last network, and t = K lr.

    Raises:
        SettingError: no checkpoint, not one step count and lr each, or one that does not grow.

    Source: Bae et al. (2024), SOURCE. Deviates: each segment takes the gradients and Hessian at its
        end, not their mean over checkpoints within it.
    """
    networks = list(checkpoints or ())
    if not networks or len(steps) != len(networks):
        raise SettingError(
            "method 'segments' needs checkpoints of the run and the updates done at each, "
            f"steps=[100, 200, ...]; got {len(networks)} checkpoints and {len(steps)} steps."
        )
    rates = [float(lr)] * len(networks) if isinstance(lr, int | float) else [float(v) for v in lr]
    if len(rates) != len(networks) or not all(rate > 0 for rate in rates):
        raise SettingError(
            f"lr must be positive, one number or one per checkpoint; got {lr!r} for "
            f"{len(networks)} checkpoints."
        )
    counts = [int(b) - int(a) for a, b in zip([0, *steps], steps, strict=False)]
    if min(counts) <= 0:
        raise SettingError(f"steps must grow from checkpoint to checkpoint; got {list(steps)}.")
    return [(n, k * rate) for n, k, rate in zip(networks, counts, rates, strict=True)]


def set_time(bases: dict[str, BlockBasis], time: float) -> None:
    """Let a segment's bases respond by F instead of by the inverse of the Hessian.

    Args:
        bases: spectral ones of the segment's blocks.
        time: t.
    """
    for basis in bases.values():
        decay = basis.eigenvalues + basis.damping
        # −expm1: 1 − exp(−x) without cancellation; F is t where nothing is curved.
        basis.response = torch.where(
            decay * time > 1e-8, -torch.expm1(-decay * time) / decay.clamp_min(1e-300), time
        )


def along_the_run(
    each: Sequence[tuple[TrainedNetwork, dict[str, BlockBasis], Any, float]], group: list[Any]
) -> list[Directions]:
    """Queries' gradients, carried back through the segments.

    Args:
        each: network, bases, measure and t of every segment, in the order of the run.
        group: batches of queries.

    Returns:
        Directions for each segment.
    """
    network, _, measure, _ = each[-1]
    values, carried = _gradients(network, group, measure)
    found = []
    for _, bases, _, time in reversed(each):
        by_block: dict[str, tuple[Tensor, Tensor | None]] = {}
        for name, basis in bases.items():
            turned = basis.forth(carried[name])
            by_block[name] = (turned * basis.inverse().to(turned), None)
            decay = torch.exp(-time * (basis.eigenvalues + basis.damping)).flatten()
            carried[name] = basis.back(turned * decay.to(turned))
        found.append(Directions(values, by_block))
    return found[::-1]


def _gradients(
    network: TrainedNetwork, group: list[Any], measure: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """The queries' values, and their gradients by block, [m, size]."""
    values: list[Tensor] = []
    shapes = {b.name: b.shape for b in network.per_sample.blocks}
    parts: dict[str, list[Tensor]] = {name: [] for name in shapes}
    for batch in group:
        seen: list[Tensor] = []
        batch = to_model(batch, network.model)
        found = list(
            network.per_sample.gradients(measure, batch, lambda v, s=seen: each_token(v, s))
        )
        values.append(seen[0].double().flatten().cpu())
        for name, shape in shapes.items():
            empty = seen[0].new_zeros(len(seen[0]), *shape)
            each = [matrix(g[name], shape[0]) if name in g else empty for g in found]
            parts[name].append(torch.stack(each, 1).flatten(0, 1).flatten(1))
    return torch.cat(values), {name: torch.cat(part) for name, part in parts.items()}
