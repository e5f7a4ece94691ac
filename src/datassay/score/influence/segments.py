"""Removal along a training run, linearised anew at checkpoints: one closed form a segment.

Gradient descent with K updates of step lr on a quadratic of Hessian H moves a sample's removal by
F ∇ℓ_i, F = (I − exp(−t H)) H⁻¹ with t = K lr, and what earlier segments moved by exp(−t H). Going
back from the trained network,

q_L = ∇m(w_L),  q_{l−1} = S_lᵀ q_l,  effect of i = −(1/n) Σ_l q_lᵀ F_l ∇ℓ_i(w_l),  S = exp(−t H).

An optimiser that makes w ← w − lr (D ∘ ∇L + λ w) of it, as Adam does, moves a removal u by
u̇ = −(D H + λ) u − D ∇ℓ_i / n. In u = √D v this is v̇ = −(H̃ + λ) v − √D ∇ℓ_i / n with the symmetric
H̃ = √D H √D, so that, with D and H of the segment's end,

F = √D (I − exp(−t (H̃ + λ))) (H̃ + λ)⁻¹ √D,  S = √D exp(−t (H̃ + λ)) / √D,  t = Σ lr.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.batches import to_model
from datassay.collect.gradients.blocks import Block
from datassay.collect.layers import matrix
from datassay.errors import SettingError
from datassay.rules import require
from datassay.score.influence.block_basis import BlockBasis
from datassay.score.influence.first_order import Directions, each_token
from datassay.score.influence.optimizer_state import Metric, Update, update_of
from datassay.score.influence.trained_network import TrainedNetwork


@dataclass(frozen=True, slots=True)
class TrainingSegment:
    """A part of a training run that ends at a checkpoint.

    Attributes:
        network: at its end.
        time: t, the number of its updates times their mean lr; of TracIn the step size.
        update: what the optimiser made of gradients; None: plain gradient descent.
    """

    network: nn.Module
    time: float
    update: Update | None = None

    def of_loss(self, unit: float) -> "TrainingSegment":
        """Return the segment for losses `unit` times the training's; t (H + Λ) stays."""
        update = self.update
        if update is not None and unit != 1:
            decay = {name: unit * value for name, value in update.decay.items()}
            update = replace(update, decay=decay)
        return replace(self, time=self.time / unit, update=update)

    def metrics(self, blocks: Sequence[Block], penalty: float = 0.0) -> dict[str, Metric]:
        """Return {block: step sizes D and decay Λ}; empty without an optimiser state."""
        if self.update is None:
            return {}
        return {block.name: self.update.of_block(block, penalty) for block in blocks}


def run_name(run: Sequence[TrainingSegment]) -> str:
    """Return " of Adam's run" or the like, to follow the method's name; "" if not known."""
    update = run[-1].update
    if update is None:
        return ""
    return f" of {update.name}'s run"


def tracin_settings(
    model: nn.Module,
    lr: float | Sequence[float] = 1.0,
    checkpoints: Sequence[nn.Module] | None = None,
    optimizer: Sequence[Any] | None = None,
) -> list[TrainingSegment]:
    """Return a segment per checkpoint c of TracIn: effect −Σ_c lr_c ∇m(w_c)ᵀ ∇ℓ_i(w_c).

    Args:
        model: at its trained weights.
        lr: step size of the sum of the losses (of their mean: divide by n), one for all checkpoints
            or one each. At one checkpoint the order of effects does not depend on it; at several
            their weights do.
        checkpoints: networks of the training run; None takes the trained network alone.
        optimizer: its state at each checkpoint: ∇mᵀ D ∇ℓ_i then.

    Returns:
        The segments; `time` is lr_c.

    Raises:
        SettingError: no checkpoint, an lr that is not positive, or not one lr or state a
            checkpoint.

    Source: Pruthi et al. (2020), TracInCP. The optimiser's D is ours.
    """
    models = list(checkpoints) if checkpoints is not None else [model]
    rates = _rate_of_each(lr, len(models))
    require(models, "checkpoints", "hold at least 1 network", "none", remedy="Pass None for one.")
    if len(rates) != len(models):
        raise SettingError(
            f"lr must be one number, or one per checkpoint; got {len(rates)} for {len(models)}."
        )
    if not all(rate > 0 for rate in rates):
        raise SettingError(f"lr must be positive; got {min(rates)}.")
    segments = zip(models, rates, _read_updates(optimizer, models), strict=True)
    return [TrainingSegment(network, rate, update) for network, rate, update in segments]


def segment_settings(
    model: nn.Module,
    lr: float | Sequence[float] = 0.0,
    steps: Sequence[int] = (),
    checkpoints: Sequence[nn.Module] | None = None,
    optimizer: Sequence[Any] | None = None,
) -> list[TrainingSegment]:
    """Return a run's segments, one per checkpoint; steps: updates done until each."""
    # Source: Bae et al. (2024), SOURCE. Deviates: each segment takes the gradients and Hessian at
    # its end, not their mean over checkpoints within it. The optimiser's metric is ours.
    networks = list(checkpoints or ())
    if not networks or len(steps) != len(networks):
        raise SettingError(
            "method 'segments' needs checkpoints of the run and the updates done at each, "
            f"steps=[100, 200, ...]; got {len(networks)} checkpoints and {len(steps)} steps."
        )
    rates = _rate_of_each(lr, len(networks))
    if len(rates) != len(networks) or not all(rate > 0 for rate in rates):
        raise SettingError(
            f"lr must be positive, one number or one per checkpoint; got {lr!r} for "
            f"{len(networks)} checkpoints."
        )
    counts = [int(end) - int(start) for start, end in zip([0, *steps], steps, strict=False)]
    require(not min(counts) <= 0, "steps", "grow from checkpoint to checkpoint", list(steps))
    updates = _read_updates(optimizer, networks)
    times = [count * rate for count, rate in zip(counts, rates, strict=True)]
    return [TrainingSegment(*values) for values in zip(networks, times, updates, strict=True)]


def _read_updates(
    optimizer: Sequence[Any] | None, networks: Sequence[nn.Module]
) -> Sequence[Update | None]:
    """Return step sizes and decay at each checkpoint, from `optimizer`; None for each without."""
    if optimizer is None:
        return [None] * len(networks)
    if len(optimizer) != len(networks):
        raise SettingError(
            f"optimizer must be one state a checkpoint; got {len(optimizer)} for {len(networks)}."
        )
    return [update_of(state, network) for state, network in zip(optimizer, networks, strict=True)]


def set_time(bases: dict[str, BlockBasis], time: float) -> None:
    """Set `response` of a segment's bases to F(t) = (1 − exp(−rate t)) / rate, in place."""
    for basis in bases.values():
        rates = basis.eigenvalues + basis.damping
        # −expm1(−x): 1 − exp(−x) without cancellation. F is t where nothing is curved.
        gained = -torch.expm1(-rates * time) / rates.clamp_min(1e-300)
        basis.response = torch.where(rates * time > 1e-8, gained, time)
        if basis.outside_steps is not None:
            basis.response = basis.response * basis.outside_steps.to(rates)


def carry_back(
    models: Sequence[tuple[TrainedNetwork, dict[str, BlockBasis], Any, float]], group: list[Any]
) -> list[Directions]:
    """Return the queries' directions in each segment, carried back from the run's end."""
    # models: network, bases, measure and t of each segment.
    network, _, measure, _ = models[-1]
    values, q = _query_gradients(network, group, measure)  # of the last segment, by block
    results = []
    for _, bases, _, time in reversed(models):
        by_block: dict[str, tuple[Tensor, Tensor | None]] = {}
        for name, basis in bases.items():
            coords = basis.to_basis(q[name])
            by_block[name] = (coords * basis.inverse().to(coords), None)
            decay = torch.exp(-time * (basis.eigenvalues + basis.damping)).flatten()
            q[name] = basis.to_weights(coords * decay.to(coords))
        results.append(Directions(values, by_block))
    return results[::-1]


def _query_gradients(
    network: TrainedNetwork, group: list[Any], measure: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the queries' values, [m], and gradients by block, [m, size]."""
    values: list[Tensor] = []
    shapes = {block.name: block.shape for block in network.per_sample.blocks}
    pieces: dict[str, list[Tensor]] = {name: [] for name in shapes}
    for batch in group:
        collected: list[Tensor] = []  # `each_token` appends the batch's values
        batch = to_model(batch, network.model)
        split = partial(each_token, collected=collected)
        by_token = list(network.per_sample.gradients(measure, batch, split))
        values.append(collected[0].double().flatten().cpu())
        for name, shape in shapes.items():
            zeros = collected[0].new_zeros(len(collected[0]), *shape)
            matrices = [
                matrix(grads[name], shape[0]) if name in grads else zeros for grads in by_token
            ]
            pieces[name].append(torch.stack(matrices, 1).flatten(0, 1).flatten(1))
    return torch.cat(values), {name: torch.cat(batches) for name, batches in pieces.items()}


def _rate_of_each(lr: float | Sequence[float], n_models: int) -> list[float]:
    """Return a learning rate per model, from one number or as many as there are models."""
    if isinstance(lr, int | float):
        return [float(lr)] * n_models
    return list(map(float, lr))
