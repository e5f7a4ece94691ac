"""What `influence` would take: blocks, passes, operations, bytes and seconds, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from torch import nn

from datassay.collect.gradients.batches import Batches
from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.reading import batches
from datassay.collect.gradients.recording import Gradients
from datassay.collect.layers import Factors, Use, tensors_of
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.machine import available_memory
from datassay.optional import as_tuple
from datassay.plan import EIGEN_WORK, BlockPlan, add_work, seconds_of, time_call
from datassay.progress import silent
from datassay.results import column, result
from datassay.score.effects import LARGEST_MATRIX
from datassay.score.influence.block_basis import LARGEST_SIDE
from datassay.score.influence.exact_blocks import curvature_bytes, exact_rule
from datassay.score.influence.given import given_sets
from datassay.score.influence.gradient_methods import QUERY_VALUES
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    trained_network,
    with_temperature,
)
from datassay.score.settings import PLANNED, Influence, Queries, TrainedWeights, check_top

# Passes over an effect that the search for the largest ones takes.
EFFECT_VALUES = 16.0


@result
class InfluencePlan(BlockPlan):
    """What a call of `influence` would do: a `BlockPlan`, and what follows.

    Attributes:
        flops: [blocks], multiplications and additions of its curvature and its products.
        n_queries: m.
        n_models: whose effects are averaged.
    """

    flops: np.ndarray = column("additions and multiplications", unit="operations")
    n_queries: int
    n_models: int


@checks_arguments
def influence_plan(
    model: nn.Module | Sequence[nn.Module],
    train: Any,
    val: Any = None,
    *,
    curvature: str = TrainedWeights.curvature,
    loss: Any = Influence.loss,
    parameters: str | Sequence[str] | None = None,
    top: int | None = Queries.top,
    precision: str | None = None,
    device: str | None = None,
    seed: int = 0,
) -> InfluencePlan:
    """Count the work of `influence` by blocks of weights, and time one batch of it.

    Args:
        model: as in `influence`, like all that follows.
        train: n samples.
        val: m queries; None: the training samples.
        curvature: "auto", "blocks" or "ekfac".
        loss: of the training.
        parameters: which weights.
        top: samples to keep a query; None: the whole matrix where it fits.
        precision: "float32" or "float64"; None: the first.
        device: to compute on.
        seed: of draws.

    Returns:
        The plan.

    Raises:
        SettingError: another curvature, or a setting is unknown.
        DataError: the samples are not usable.
        ModelError: the model cannot be run or differentiated.

    Cost: gradients of one batch, and a second for the speed of this machine.
    Source: the operations of George et al. (2018), EK-FAC, counted; passes are timed. Damping that
        is chosen takes seconds more, which are not counted.
    """
    if curvature not in PLANNED:
        raise SettingError(
            f"curvature must be 'auto', 'blocks' or 'ekfac' to be planned; got {curvature!r}."
        )
    check_top(top)
    models: list[Any] = [*as_tuple(model)]
    train, val = given_sets(models[0], train, val, loss)
    network = trained_network(
        models[0], train, loss=loss, parameters=parameters, precision=precision or "float32",
        device=device, progress=silent,
    )  # fmt: skip
    m = network.n
    if val is not None:
        queries = batches(val, network.pass_size, "val")
        if queries.n is None:
            m = sum(len(ids) for ids, _ in queries)
        else:
            m = queries.n
    with_temperature(network, TrainedWeights.temperature)
    batch = next(iter(network.train))
    one_batch = Batches(lambda: iter([batch]), batch[0], len(batch[0]))
    pilot = _Pilot.measure(replace(network, train=one_batch), len(batch[0]), seed)
    return _assemble(network, pilot, curvature, (network.n, m, len(models)), top)


@dataclass(frozen=True, slots=True)
class _Pilot:
    """One batch, run; seconds are those of a sample."""

    roots: float  # of its gradients by all outputs
    losses: float  # of the gradient of its loss
    own_losses: float  # likewise, of the further one that self-influence takes
    vectors: int  # gradients by the outputs, of one sample
    uses: Gradients  # of the batch, block by block
    bytes: float  # that a batch holds

    @classmethod
    def measure(cls, network: TrainedNetwork, size: int, seed: int) -> _Pilot:
        place = size, network.device
        roots, uses = time_call(lambda: list(network.roots(seed, "")), *place)
        losses, _ = time_call(lambda: sum(1 for _ in network.loss_gradients()), *place)
        of_both, _ = time_call(lambda: sum(1 for _ in network.both_gradients()), *place)
        batch_bytes = sum(map(held_bytes, uses))
        return cls(roots, losses, max(0.0, of_both - losses), len(uses), uses[0], batch_bytes)


def held_bytes(gradients: Gradients) -> float:
    """Return the bytes that a batch's gradients of all blocks take."""
    tensors = [t for uses in gradients.values() for use in uses for t in tensors_of(use)]
    return float(sum(t.numel() * t.element_size() for t in tensors))


def _assemble(
    network: TrainedNetwork,
    pilot: _Pilot,
    curvature: str,
    sizes: tuple[int, int, int],
    top: int | None,
) -> InfluencePlan:
    """Return the plan of influence: passes, seconds and memory, from the pilot's measurements."""
    n, m, models = sizes
    blocks = network.per_sample.blocks
    exact = exact_rule(curvature, n, blocks)
    p = sum(block.size for block in blocks)
    group = max(1, QUERY_VALUES // p // models)
    goes = ceil(m / group)  # through the samples, for the queries
    rounds = 1 + (not all(exact(b) for b in blocks))  # through them, for the curvature
    n_own = n * (network.own_loss is not None)  # gradients for self-influence
    counts = rounds * n, m + goes * n
    gradients = n, counts[1] + n_own
    work = [
        _work(b, pilot, exact(b), gradients, m * n) if b.name in pilot.uses else {} for b in blocks
    ]
    passing = counts[0] * pilot.roots + counts[1] * pilot.losses + n_own * pilot.own_losses
    model_seconds = passing + seconds_of(add_work(*work) | {"values": EFFECT_VALUES * n * m})
    return InfluencePlan(
        **blocks_of(network, exact),
        bytes=np.array([float(curvature_bytes([b], exact)) for b in blocks]),
        flops=np.array([models * sum(of_block.values()) for of_block in work]),
        n_queries=m,
        n_models=models,
        passes=models * (counts[0] * (1 + pilot.vectors) + 2 * counts[1] + n_own),
        peak_bytes=_peak(network, pilot, exact, sizes, min(group, m), top),
        seconds=models * model_seconds,
    )


def blocks_of(network: TrainedNetwork, exact: Callable[[Block], bool]) -> dict[str, Any]:
    """Return a `BlockPlan`'s values about the network, its samples and this machine."""
    blocks = network.per_sample.blocks
    return {
        "block": np.array([b.name for b in blocks]),
        "size": np.array([b.size for b in blocks]),
        "kind": np.array(["exact" if exact(b) else "factored" for b in blocks]),
        "n_samples": network.n,
        "free_bytes": available_memory(),
    }


def _work(
    block: Block, pilot: _Pilot, exact: bool, gradients: tuple[int, int], effects: int
) -> dict[str, float]:
    """Count a block's operations, by kind; gradients are in the network's precision."""
    # Samples whose gradients by each output the curvature is fitted to, and all other gradients.
    n_fitted = pilot.vectors * gradients[0]
    n_other = gradients[1]
    forming = turning = moments = 0.0
    sides = [0 if side > LARGEST_SIDE or side == 1 else side for side in block.shape]
    for form, turned, squares in _count_uses(pilot.uses[block.name], block.shape, sides):
        forming += form
        turning += turned
        moments += squares
    products = 2.0 * effects * block.size
    if exact:
        square = 2.0 * block.size**2
        formed = (n_fitted + n_other) * (forming + square) + products
        return {"float32": formed, "float64": 4 / 3 * block.size**3}
    turned = n_fitted * moments + (n_fitted + n_other) * turning + products
    return {"float32": turned, "eigen": EIGEN_WORK * sum(side**3 for side in sides)}


def _count_uses(
    uses: list[Use], shape: tuple[int, int], sides: list[int]
) -> Iterator[tuple[float, float, float]]:
    """Yield each use's operations per sample: to form a gradient, rotate it, and sum moments."""
    rows, columns = shape
    n_left, n_right = sides
    for use in uses:
        if not isinstance(use, Factors):
            by_matrix = 2.0 * rows * columns * (n_left + n_right)
            yield 0.0, by_matrix, by_matrix
            continue
        positions = use.rhs.shape[1]
        if use.is_sparse:
            n_left = 0
        form = positions * columns * (1.0 if use.is_sparse else 2.0 * rows)
        by_factors = 2.0 * positions * (n_left**2 + n_right**2)
        by_whole = 2.0 * rows * columns * (n_left + n_right)
        yield form, form + min(by_factors, by_whole), by_factors


def _peak(
    network: TrainedNetwork,
    pilot: _Pilot,
    exact: Callable[[Block], bool],
    sizes: tuple[int, int, int],
    queries: int,
    top: int | None,
) -> float:
    """Return the most bytes at once: while a last network is fitted, or effects are computed."""
    n, m, models = sizes
    blocks = network.per_sample.blocks
    weights, itemsize, formed = network_bytes(network)
    bases = sum(kept_bytes(b, exact(b), itemsize) for b in blocks)
    fitting_bytes = (models - 1) * bases + curvature_bytes(blocks, exact)
    query_bytes = 2.0 * itemsize * models * queries * sum(b.size for b in blocks)
    effect_bytes = 0.0
    if top is None and n * m <= LARGEST_MATRIX:
        effect_bytes = 8.0 * n * m
    scoring_bytes = models * bases + query_bytes + effect_bytes
    return models * weights + pilot.bytes + formed + max(fitting_bytes, scoring_bytes)


def network_bytes(network: TrainedNetwork) -> tuple[int, int, int]:
    """Return bytes of all weights, of one, and of a pass's gradients of the largest block."""
    weights = sum(t.numel() * t.element_size() for t in network.model.state_dict().values())
    itemsize = next(network.model.parameters()).element_size()
    largest = max(b.size for b in network.per_sample.blocks)
    return weights, itemsize, itemsize * network.pass_size * largest


def kept_bytes(block: Block, exact: bool, itemsize: int) -> float:
    """Return the bytes of a block's matrices and, where factored, its float64 eigenvalues."""
    if exact:
        return float(itemsize * block.size**2)
    sides = [side for side in block.shape if 1 < side <= LARGEST_SIDE]
    return 8.0 * block.size + itemsize * sum(side**2 for side in sides)
