"""What `influence` would take: blocks, passes, operations, bytes and seconds, before it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from datassay.collect.form import EIGEN_WORK
from datassay.collect.gradients.batches import Batches
from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.per_sample import Gradients
from datassay.collect.gradients.reading import batches
from datassay.collect.layers import Factors, Use, tensors_of
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.machine import available_memory, matrix_rate
from datassay.progress import silent
from datassay.results import Tabular, result
from datassay.score.effects import LARGEST_MATRIX, check_top
from datassay.score.influence.block_basis import LARGEST_SIDE
from datassay.score.influence.exact_blocks import curvature_bytes, exact_rule
from datassay.score.influence.given import given_sets
from datassay.score.influence.gradient_methods import QUERY_VALUES
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    trained_network,
    with_temperature,
)
from datassay.score.settings import Influence, Queries, TrainedWeights

PLANNED = ("auto", "blocks", "ekfac")
# Share of the matrix-product rate that products reach, and seconds an effect, of the search for the
# largest ones; both measured on two cores.
SHARE, EFFECT_SECONDS = 0.5, 2e-8


@result
class InfluencePlan(Tabular):
    """What a call of `influence` would do.

    Attributes:
        block: [blocks], names: of a layer, or of a tensor that no known layer owns.
        size: [blocks], weights.
        kind: [blocks], "exact" or "factored".
        bytes: [blocks], most memory that its curvature takes, while it is fitted.
        flops: [blocks], multiplications and additions of its curvature and its products.
        n_samples: n.
        n_queries: m.
        n_models: whose effects are averaged.
        passes: of one sample each, forward or back, of all models.
        peak_bytes: most memory at once, beyond the program and its samples.
        seconds: expected on this machine, good to a factor of about two.
        free_bytes: memory that is free.
    """

    block: np.ndarray
    size: np.ndarray
    kind: np.ndarray
    bytes: np.ndarray
    flops: np.ndarray
    n_samples: int
    n_queries: int
    n_models: int
    passes: int
    peak_bytes: float
    seconds: float
    free_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the memory that it needs is free."""
        return self.peak_bytes <= self.free_bytes

    def to_table(self) -> pa.Table:
        """One row a block: block, size, kind, bytes, flops."""
        names = ("block", "size", "kind", "bytes", "flops")
        return pa.table({name: getattr(self, name).tolist() for name in names})


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
    Source: the operations of George et al. (2018), EK-FAC, counted; passes are timed.
    """
    if curvature not in PLANNED:
        raise SettingError(
            f"curvature must be 'auto', 'blocks' or 'ekfac' to be planned; got {curvature!r}."
        )
    check_top(top)
    models: list[Any] = list(model) if isinstance(model, list | tuple) else [model]
    train, val = given_sets(models[0], train, val, loss)
    network = trained_network(
        models[0], train, loss=loss, parameters=parameters, precision=precision or "float32",
        device=device, progress=silent,
    )  # fmt: skip
    m = network.n if val is None else _count(batches(val, network.pass_size, "val"))
    with_temperature(network, TrainedWeights.temperature)
    first = next(iter(network.train))
    alone = Batches(lambda: iter([first]), first[0], len(first[0]))
    timed = _Timed.of(replace(network, train=alone), len(first[0]), seed)
    return _planned(network, timed, curvature, (network.n, m, len(models)), top)


def _count(parts: Batches) -> int:
    return sum(len(ids) for ids, _ in parts) if parts.n is None else parts.n


@dataclass(frozen=True, slots=True)
class _Timed:
    """One batch, run.

    Attributes:
        roots: seconds a sample of its gradients by all outputs.
        losses: seconds a sample of the gradient of its loss.
        own: likewise, of the further one that self-influence takes.
        vectors: gradients by the outputs, of one sample.
        uses: of the batch, block by block.
        held: bytes that a batch holds.
    """

    roots: float
    losses: float
    own: float
    vectors: int
    uses: Gradients
    held: float

    @classmethod
    def of(cls, network: TrainedNetwork, size: int, seed: int) -> _Timed:
        started = time.perf_counter()
        uses = list(network.roots(seed, ""))
        middle = time.perf_counter()
        for _ in network.loss_gradients():
            pass
        ended = time.perf_counter()
        for _ in network.both_gradients():
            pass
        both = time.perf_counter() - ended
        roots, losses = (middle - started) / size, (ended - middle) / size
        own = max(0.0, both / size - losses)
        held = sum(map(held_bytes, uses))
        return cls(roots, losses, own, len(uses), uses[0], float(held))


def held_bytes(gradients: Gradients) -> float:
    """Bytes that a batch's gradients of all blocks take."""
    tensors = [t for uses in gradients.values() for use in uses for t in tensors_of(use)]
    return float(sum(t.numel() * t.element_size() for t in tensors))


def _planned(
    network: TrainedNetwork,
    timed: _Timed,
    curvature: str,
    sizes: tuple[int, int, int],
    top: int | None,
) -> InfluencePlan:
    n, m, models = sizes
    blocks = network.per_sample.blocks
    exact = exact_rule(curvature, n, blocks)
    p = sum(block.size for block in blocks)
    group = max(1, QUERY_VALUES // p // models)
    goes = ceil(m / group)  # through the samples, for the queries
    rounds = 1 + (not all(exact(b) for b in blocks))  # through them, for the curvature
    alone = n * (network.own_loss is not None)  # gradients for self-influence
    counts = rounds * n, m + goes * n
    gradients = n, counts[1] + alone
    work = [
        _work(b, timed, exact(b), gradients, m * n) if b.name in timed.uses else (0.0, 0.0)
        for b in blocks
    ]
    fast, slow = (sum(part) for part in zip(*work, strict=True))
    rates = [matrix_rate(dtype) * SHARE for dtype in (torch.float32, torch.float64)]
    passing = counts[0] * timed.roots + counts[1] * timed.losses + alone * timed.own
    seconds = passing + fast / rates[0] + slow / rates[1] + n * m * EFFECT_SECONDS
    return InfluencePlan(
        block=np.array([b.name for b in blocks]),
        size=np.array([b.size for b in blocks]),
        kind=np.array(["exact" if exact(b) else "factored" for b in blocks]),
        bytes=np.array([float(curvature_bytes([b], exact)) for b in blocks]),
        flops=np.array([models * (a + b) for a, b in work]),
        n_samples=n,
        n_queries=m,
        n_models=models,
        passes=models * (counts[0] * (1 + timed.vectors) + 2 * counts[1] + alone),
        peak_bytes=_peak(network, timed, exact, sizes, min(group, m), top),
        seconds=models * seconds,
        free_bytes=available_memory(),
    )


def _work(
    block: Block, timed: _Timed, exact: bool, gradients: tuple[int, int], effects: int
) -> tuple[float, float]:
    """Operations of a block in the network's precision, and in float64."""
    # Samples whose gradients by each output the curvature is fitted to, and all other gradients.
    fitted, others = timed.vectors * gradients[0], gradients[1]
    forming = turning = moments = 0.0
    sides = [0 if side > LARGEST_SIDE or side == 1 else side for side in block.shape]
    for form, turned, squares in _each(timed.uses[block.name], block.shape, sides):
        forming += form
        turning += turned
        moments += squares
    products = 2.0 * effects * block.size
    if exact:
        square = 2.0 * block.size**2
        return (fitted + others) * (forming + square) + products, 4 / 3 * block.size**3
    solved = EIGEN_WORK * sum(side**3 for side in sides)
    return fitted * moments + (fitted + others) * turning + products, solved


def _each(
    uses: list[Use], shape: tuple[int, int], sides: list[int]
) -> Iterator[tuple[float, float, float]]:
    """Of one sample's gradient: operations to form it, to turn it into a basis, and of moments."""
    (rows, columns), (left, right) = shape, sides
    for use in uses:
        if not isinstance(use, Factors):
            whole = 2.0 * rows * columns * (left + right)
            yield 0.0, whole, whole
            continue
        places = use.right.shape[1]
        left = 0 if use.is_sparse else left
        form = places * columns * (1.0 if use.is_sparse else 2.0 * rows)
        by_factors = 2.0 * places * (left**2 + right**2)
        by_whole = 2.0 * rows * columns * (left + right)
        yield form, form + min(by_factors, by_whole), by_factors


def _peak(
    network: TrainedNetwork,
    timed: _Timed,
    exact: Any,
    sizes: tuple[int, int, int],
    queries: int,
    top: int | None,
) -> float:
    """Most bytes at once: while a last network is fitted, or while effects are computed."""
    n, m, models = sizes
    blocks = network.per_sample.blocks
    weights = sum(t.numel() * t.element_size() for t in network.model.state_dict().values())
    itemsize = next(network.model.parameters()).element_size()
    formed = itemsize * network.pass_size * max(b.size for b in blocks)
    kept = sum(kept_bytes(b, exact(b), itemsize) for b in blocks)
    fitting = (models - 1) * kept + curvature_bytes(blocks, exact)
    towards = 2.0 * itemsize * models * queries * sum(b.size for b in blocks)
    matrix = 8.0 * n * m if top is None and n * m <= LARGEST_MATRIX else 0.0
    return models * weights + timed.held + formed + max(fitting, models * kept + towards + matrix)


def kept_bytes(block: Block, exact: bool, itemsize: int) -> float:
    """Bytes of a block's matrices and, where it is factored, its float64 eigenvalues."""
    if exact:
        return float(itemsize * block.size**2)
    sides = [side for side in block.shape if 1 < side <= LARGEST_SIDE]
    return 8.0 * block.size + itemsize * sum(side**2 for side in sides)
