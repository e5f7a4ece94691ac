"""What `influence` would take: blocks, passes, operations, bytes and seconds, before it runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

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
from datassay.score.influence.exact_blocks import LARGEST_SIDE, curvature_bytes, exact_rule
from datassay.score.influence.given import given_sets
from datassay.score.influence.gradient_methods import QUERY_VALUES
from datassay.score.influence.linearized.choice import QUERIES, SHARES, choice_samples
from datassay.score.influence.trained_network import TrainedNetwork, soften_loss, trained_network
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
    damping: float | str = TrainedWeights.damping,
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
        damping: a number, or "auto", which is chosen where that can be, and the choice counted.
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
    Source: the operations of George et al. (2018), EK-FAC, counted; passes are timed. So is a step
        of the training that chooses damping; how many it takes is not known before.
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
        m = sum(len(ids) for ids, _ in queries) if queries.n is None else queries.n
    soften_loss(network, TrainedWeights.temperature)
    batch = next(iter(network.train))
    one_batch = Batches(lambda: iter([batch]), batch[0], len(batch[0]))
    pilot = _Pilot.measure(replace(network, train=one_batch), len(batch[0]), seed)
    n_linear, choice_seconds = (0, 0.0) if damping != "auto" else choice_samples(network, seed)
    sizes = _Sizes(network.n, m, len(models))
    plan = _assemble(network, pilot, curvature, sizes, top)
    if not n_linear:
        return plan
    return _add_choice(plan, network, pilot, curvature, n_linear, choice_seconds)


class _Sizes(NamedTuple):
    """Numbers of samples, n, of queries, m, and of models."""

    n: int
    m: int
    n_models: int


@dataclass(frozen=True, slots=True)
class _Pilot:
    """One batch, run; seconds are those of a sample."""

    root_seconds: float  # of its gradients by all outputs
    loss_seconds: float  # of the gradient of its loss
    own_seconds: float  # of the further gradient that self-influence takes
    n_vectors: int  # gradients by the outputs, of one sample
    uses: Gradients  # of the batch, block by block
    bytes: float  # that a batch holds

    @classmethod
    def measure(cls, network: TrainedNetwork, size: int, seed: int) -> "_Pilot":
        """Return timings and sizes of one batch of `size` samples through the network."""

        def time_pass(call: Callable[[], Any]) -> tuple[float, Any]:
            return time_call(call, size, network.device)

        root_seconds, uses = time_pass(lambda: list(network.roots(seed, "")))
        loss_seconds, _ = time_pass(lambda: sum(1 for _ in network.loss_gradients()))
        both_seconds, _ = time_pass(lambda: sum(1 for _ in network.both_gradients()))
        own_seconds = max(0.0, both_seconds - loss_seconds)
        batch_bytes = sum(map(held_bytes, uses))
        return cls(root_seconds, loss_seconds, own_seconds, len(uses), uses[0], batch_bytes)


def held_bytes(gradients: Gradients) -> float:
    """Return the bytes that a batch's gradients of all blocks take."""
    tensors = [t for uses in gradients.values() for use in uses for t in tensors_of(use)]
    return float(sum(t.numel() * t.element_size() for t in tensors))


def _assemble(
    network: TrainedNetwork, pilot: _Pilot, curvature: str, sizes: _Sizes, top: int | None
) -> InfluencePlan:
    """Return the plan: passes, seconds and memory, scaled up from the pilot batch."""
    n, m, n_models = sizes
    blocks = network.per_sample.blocks
    is_exact = exact_rule(curvature, n, blocks)
    p = sum(block.size for block in blocks)
    group = max(1, QUERY_VALUES // p // n_models)
    n_curvature_passes = 1 if all(is_exact(block) for block in blocks) else 2
    n_root = n_curvature_passes * n  # samples whose gradients by the outputs are taken
    n_loss = m + ceil(m / group) * n  # queries, and samples once for each group of queries
    n_own = 0 if network.self_influence_loss is None else n  # for self-influence
    work = [
        _count_operations(block, pilot, is_exact(block), n, n_loss + n_own, m * n)
        if block.name in pilot.uses
        else {}
        for block in blocks
    ]
    pass_seconds = n_root * pilot.root_seconds + n_loss * pilot.loss_seconds
    pass_seconds += n_own * pilot.own_seconds
    model_seconds = pass_seconds + seconds_of(add_work(*work) | {"values": EFFECT_VALUES * n * m})
    return InfluencePlan(
        **blocks_of(network, is_exact),
        bytes=np.array([float(curvature_bytes([block], is_exact)) for block in blocks]),
        flops=np.array([n_models * sum(block_work.values()) for block_work in work]),
        n_queries=m,
        n_models=n_models,
        passes=n_models * (n_root * (1 + pilot.n_vectors) + 2 * n_loss + n_own),
        peak_bytes=_peak_bytes(network, pilot, is_exact, sizes, min(group, m), top),
        seconds=n_models * model_seconds,
    )


def blocks_of(network: TrainedNetwork, is_exact: Callable[[Block], bool]) -> dict[str, Any]:
    """Return the entries of a `BlockPlan` that describe blocks, samples and free memory."""
    blocks = network.per_sample.blocks
    return {
        "block": np.array([b.name for b in blocks]),
        "size": np.array([b.size for b in blocks]),
        "kind": np.array(["exact" if is_exact(b) else "factored" for b in blocks]),
        "n_samples": network.n,
        "free_bytes": available_memory(),
    }


def _add_choice(
    plan: InfluencePlan,
    network: TrainedNetwork,
    pilot: _Pilot,
    curvature: str,
    n: int,
    training_seconds: float,
) -> InfluencePlan:
    """Return the plan with the work of choosing damping added, on n linearised samples."""
    k = network.n_outputs or 1
    blocks = network.per_sample.blocks
    is_exact = exact_rule(curvature, n, blocks)
    n_curvature_passes = 0 if all(is_exact(block) for block in blocks) else 2
    n_tried = 2 * len(SHARES)  # dampings, each with two temperatures
    work = []
    for block in blocks:
        if is_exact(block):
            work.append(_count_choice_operations(block.size, n, n * pilot.n_vectors))
        elif block.name in pilot.uses:
            n_other = n_tried * (n + QUERIES)
            work.append(_count_operations(block, pilot, False, n, n_other, n_tried * n * QUERIES))
    jacobian_values = n * k * sum(block.size for block in blocks)
    vectors = k + n_curvature_passes * pilot.n_vectors  # gradients a sample
    seconds = training_seconds + seconds_of(add_work(*work))
    seconds += n * pilot.root_seconds * vectors / pilot.n_vectors
    _, itemsize, _ = network_bytes(network)
    return replace(
        plan,
        passes=plan.passes + n * (1 + n_curvature_passes + vectors),
        peak_bytes=max(plan.peak_bytes, 2.0 * itemsize * jacobian_values),
        seconds=plan.seconds + seconds,
    )


def _count_choice_operations(size: int, n: int, n_roots: int) -> dict[str, float]:
    """Return {precision: operations} of trying all dampings on one exact block."""
    side = min(size, n_roots)
    n_gradients = 2 * n + QUERIES  # losses of two temperatures
    products = 2.0 * side * (side * max(size, n_roots) + n_gradients * size)
    solutions = len(SHARES) * (side**3 / 3 + 2.0 * side * QUERIES * (side + 2 * n))
    return {"float32": products, "float64": solutions}


def _count_operations(
    block: Block, pilot: _Pilot, is_exact: bool, n: int, n_other: int, n_effects: int
) -> dict[str, float]:
    """Return {kind: operations} of fitting one block and of its effects."""
    # The curvature is fitted to n samples; `n_other` gradients are those of losses and queries.
    n_fitted = pilot.n_vectors * n
    sides = [0 if side > LARGEST_SIDE or side == 1 else side for side in block.shape]
    by_use = list(_count_uses(pilot.uses[block.name], block.shape, sides))
    form, rotate, moments = np.sum(by_use, axis=0).tolist()
    products = 2.0 * n_effects * block.size
    if is_exact:
        square = 2.0 * block.size**2
        operations = (n_fitted + n_other) * (form + square) + products
        return {"float32": operations, "float64": 4 / 3 * block.size**3}
    operations = n_fitted * moments + (n_fitted + n_other) * rotate + products
    return {"float32": operations, "eigen": EIGEN_WORK * sum(side**3 for side in sides)}


def _count_uses(
    uses: list[Use], shape: tuple[int, int], sides: list[int]
) -> Iterator[tuple[float, float, float]]:
    """Yield per use operations per sample: to form a gradient, rotate it, sum its moments."""
    # `sides` are those of the block that have a basis, else 0.
    rows, columns = shape
    n_left, n_right = sides
    for use in uses:
        if not isinstance(use, Factors):
            by_matrix = 2.0 * rows * columns * (n_left + n_right)
            yield 0.0, by_matrix, by_matrix
            continue
        positions = use.lhs.shape[1]
        if use.is_sparse:
            n_left = 0
        form = positions * columns * (1.0 if use.is_sparse else 2.0 * rows)
        by_factors = 2.0 * positions * (n_left**2 + n_right**2)
        by_whole = 2.0 * rows * columns * (n_left + n_right)
        yield form, form + min(by_factors, by_whole), by_factors


def _peak_bytes(
    network: TrainedNetwork,
    pilot: _Pilot,
    is_exact: Callable[[Block], bool],
    sizes: _Sizes,
    n_queries: int,
    top: int | None,
) -> float:
    """Return the peak bytes: of fitting the last network, or of computing effects."""
    n, m, n_models = sizes
    blocks = network.per_sample.blocks
    weight_bytes, itemsize, formed_bytes = network_bytes(network)
    basis_bytes = sum(kept_bytes(block, is_exact(block), itemsize) for block in blocks)
    fit_bytes = (n_models - 1) * basis_bytes + curvature_bytes(blocks, is_exact)
    query_bytes = 2.0 * itemsize * n_models * n_queries * sum(block.size for block in blocks)
    effect_bytes = 0.0
    if top is None and n * m <= LARGEST_MATRIX:
        effect_bytes = 8.0 * n * m
    score_bytes = n_models * basis_bytes + query_bytes + effect_bytes
    return n_models * weight_bytes + pilot.bytes + formed_bytes + max(fit_bytes, score_bytes)


def network_bytes(network: TrainedNetwork) -> tuple[int, int, int]:
    """Return the bytes of all weights, of one, and of a batch's gradients of the largest block."""
    weights = sum(t.numel() * t.element_size() for t in network.model.state_dict().values())
    itemsize = next(network.model.parameters()).element_size()
    largest = max(b.size for b in network.per_sample.blocks)
    return weights, itemsize, itemsize * network.pass_size * largest


def kept_bytes(block: Block, is_exact: bool, itemsize: int) -> float:
    """Return the bytes of a fitted block's basis; where factored, with float64 eigenvalues."""
    if is_exact:
        return float(itemsize * block.size**2)
    sides = [side for side in block.shape if 1 < side <= LARGEST_SIDE]
    return 8.0 * block.size + itemsize * sum(side**2 for side in sides)
