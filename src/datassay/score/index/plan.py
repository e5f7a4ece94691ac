"""What an index would take: bytes, passes and seconds of making and of asking it, beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from datassay.collect.form import EIGEN_WORK
from datassay.collect.gradients.blocks import Block
from datassay.data.arguments import checks_arguments
from datassay.machine import available_memory, matrix_rate
from datassay.progress import silent
from datassay.results import Tabular, result
from datassay.score.index.build import MOST_OPERATIONS, N_QUERIES, N_SAMPLES, check_settings
from datassay.score.index.curvature import MOST_FITTED, n_parts
from datassay.score.index.encoding import GradientEncoding, encoding
from datassay.score.index.search import has_bfloat16
from datassay.score.index.segment import PRECISIONS, as_kept, check_positions, samples_of_chunk
from datassay.score.influence.block_basis import (
    LARGEST_SIDE,
    BlockBasis,
    first_sums,
    fitted,
    square_sums,
    unfitted,
)
from datassay.score.influence.exact_blocks import curvature_bytes, exact_rule, penalties
from datassay.score.influence.given import given_sets
from datassay.score.influence.plan import SHARE, held_bytes, kept_bytes
from datassay.score.influence.request import check_numbers
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    trained_network,
    with_temperature,
)
from datassay.score.settings import Indexing, Influence, TrainedWeights, Training

# Samples that are gone through, fewer where that takes longer than so many seconds.
N_TIMED, FEWEST_TIMED, LONGEST_TIMED = 512, 64, 5.0
# Seconds that eigenbases may take meanwhile; of larger ones the operations are counted.
LONGEST_BASES = 10.0
# Of a byte: digested, written and read back; measured on two cores.
BYTE_SECONDS = 4e-9
# Of an effect: whether it is among the largest; measured on one core.
LARGEST_SECONDS = 5e-9


@result
class IndexPlan(Tabular):
    """What making an index would do.

    Attributes:
        block: [blocks], names: of a layer, or of a tensor that no known layer owns.
        size: [blocks], weights.
        kind: [blocks], "exact" or "factored".
        bytes: [blocks], of its eigenbasis as it is kept.
        n_samples: n.
        width: numbers a sample; the most allowed where `is_most`.
        is_most: whether the width was not looked for, as that would take long.
        keep: type of these numbers.
        row_bytes: of all samples' rows on disk, with ids and lengths.
        curvature_bytes: on disk.
        scratch_bytes: on disk beside these, while the curvature is fitted.
        passes: of one sample each, forward or back.
        peak_bytes: most memory at once, beyond the program and its samples.
        seconds: expected on this machine, good to a factor of about two.
        gradient_seconds: of one query's gradient, in its row.
        effect_seconds: of one query's effects of all samples, among many queries.
        free_bytes: memory that is free.
    """

    block: np.ndarray
    size: np.ndarray
    kind: np.ndarray
    bytes: np.ndarray
    n_samples: int
    width: int
    is_most: bool
    keep: str
    row_bytes: float
    curvature_bytes: float
    scratch_bytes: float
    passes: int
    peak_bytes: float
    seconds: float
    gradient_seconds: float
    effect_seconds: float
    free_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the memory that it needs is free."""
        return self.peak_bytes <= self.free_bytes

    def query_seconds(self, m: int) -> float:
        """Expected seconds of a query.

        Args:
            m: new samples that are asked about together.

        Returns:
            Seconds, with rows and curvature read once.
        """
        read = (self.row_bytes + self.curvature_bytes) * BYTE_SECONDS
        return read + m * (self.gradient_seconds + self.effect_seconds)

    def to_table(self) -> pa.Table:
        """One row a block: block, size, kind, bytes."""
        names = ("block", "size", "kind", "bytes")
        return pa.table({name: getattr(self, name).tolist() for name in names})


@checks_arguments
def index_plan(
    model: nn.Module,
    train: Any,
    *,
    loss: Any = Influence.loss,
    curvature: str = TrainedWeights.curvature,
    damping: float | str = TrainedWeights.damping,
    temperature: float | str = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    share: float = Indexing.share,
    width: int = Indexing.width,
    keep: str = Indexing.keep,
    precision: str = Indexing.gradient_precision,
    device: str | None = None,
    seed: int = 0,
) -> IndexPlan:
    """Go through a few samples as `index` would, and count what all of them take.

    Args:
        model: as in `index`, like all that follows.
        train: n samples.
        loss: of the training.
        curvature: "auto", "blocks" or "ekfac".
        damping: relative to each block's mean eigenvalue.
        temperature: of the loss of classes.
        weight_decay: of the training.
        parameters: which weights.
        share: of the effects that a row holds.
        width: numbers a row, at most.
        keep: type of these numbers.
        precision: of the gradients.
        device: to compute on.
        seed: of draws.

    Returns:
        The plan; nothing is written.

    Raises:
        SettingError: a setting is unknown or out of range.
        DataError: the samples are not usable.
        ModelError: the model cannot be run or differentiated.

    Cost: four passes over up to 512 samples, of 5 s each or 64 samples, up to 10 s for eigenbases,
        and a second for the speed of this machine.
    Source: passes are timed, eigenbases counted as in `influence_plan`. The width is that of the
        curvature of those samples.
    """
    check_settings(curvature, share, width, keep, precision)
    check_numbers(damping, weight_decay, temperature)
    given, _ = given_sets(model, train, None, loss)
    network = trained_network(
        model, given, loss=loss, parameters=parameters, precision=precision, device=device,
        progress=silent,
    )  # fmt: skip
    with_temperature(network, temperature)
    check_positions(network.train, "train")
    n_fitted, blocks = min(network.n, MOST_FITTED), network.per_sample.blocks
    exact = exact_rule(curvature, n_fitted, blocks, MOST_OPERATIONS)
    shift = penalties(blocks, network.n, exact, damping, weight_decay)
    solving = _solving(blocks, exact)
    timed = _Rehearsal(network, exact, shift, seed, real=solving < LONGEST_BASES)
    found = encoding(timed.bases, share, width)
    return _planned(network, exact, timed, found.width if timed.real else width, keep, solving)


def _solving(blocks: list[Block], exact: Callable[[Block], bool]) -> float:
    """Seconds that the eigenbases of all blocks take."""
    sides = [[b.size] if exact(b) else [s for s in b.shape if 1 < s <= LARGEST_SIDE]
             for b in blocks]  # fmt: skip
    work = EIGEN_WORK * sum(side**3.0 for some in sides for side in some)
    return work / (matrix_rate(torch.float64) * SHARE)


class _Rehearsal:
    """A few samples gone through as all of them will be; seconds a sample of each pass.

    Attributes:
        sums: of the first pass over the loss's outputs.
        squares: of the second; 0 where all blocks are exact.
        rows: of a loss gradient in its row.
        sum_bytes: of one part's sums.
        vectors: gradients by the outputs, of one sample.
        held: bytes that a batch's gradients take.
        bases: of these samples, or stand-ins of the same shapes.
        real: whether they are the samples' own.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        exact: Callable[[Block], bool],
        shift: Mapping[str, tuple[float, float]],
        seed: int,
        *,
        real: bool,
    ):
        assert network.train.subset is not None
        blocks, self.real = network.per_sample.blocks, real
        small = {b.name for b in blocks if exact(b)}
        few, size = self._few(network, small, seed)
        self.sums, sums = _timed(lambda: first_sums(blocks, few.roots(seed, ""), small), size)
        self.sum_bytes = float(sum(s.numel() * 8 for s in sums.values()))
        if real:
            bases = unfitted(blocks, sums, network.dtype)
            self.squares, squares = _timed(lambda: square_sums(bases, few.roots(seed, "")), size)
            sums |= squares
            self.bases = fitted(
                blocks, bases, sums, size, shift, spectral=True, dtype=network.dtype
            )
        else:
            self.bases = {b.name: _stand_in(b, exact(b), network.dtype) for b in blocks}
            factored = {n: b for n, b in self.bases.items() if n not in small}
            self.squares, _ = _timed(lambda: square_sums(factored, few.roots(seed, "")), size)
        self.squares *= len(small) < len(blocks)  # a pass that is not made otherwise
        whole = GradientEncoding(self.bases, {n: torch.arange(0) for n in self.bases}, 1.0)
        self.rows, _ = _timed(lambda: list(whole.rows_of(few)), size)

    def _few(
        self, network: TrainedNetwork, small: set[str], seed: int
    ) -> tuple[TrainedNetwork, int]:
        """The network with the samples to go through, and how many: as many as seconds allow."""
        assert network.train.subset is not None
        order = np.random.default_rng(seed).permutation(network.n)

        def of(size: int) -> TrainedNetwork:
            assert network.train.subset is not None
            drawn = network.train.subset(np.sort(order[:size]).tolist())
            return replace(network, train=drawn, n=size, progress=silent)

        size = min(FEWEST_TIMED, network.n)
        first = next(of(size).roots(seed, ""))  # so that nothing is timed that happens once
        self.held = held_bytes(first)
        self.vectors = len(list(of(1).roots(seed, "")))
        each, _ = _timed(
            lambda: first_sums(network.per_sample.blocks, of(size).roots(seed, ""), small), size
        )
        size = min(network.n, N_TIMED, max(size, int(LONGEST_TIMED / each)))
        return of(size), size


def _timed(call: Callable[[], Any], size: int) -> tuple[float, Any]:
    """Seconds a sample, and what it gives."""
    started = time.perf_counter()
    found = call()
    return (time.perf_counter() - started) / size, found


def _stand_in(block: Block, exact: bool, dtype: torch.dtype) -> BlockBasis:
    """A basis that costs what the block's own will: no rotation at all."""
    values = torch.ones(block.shape, dtype=torch.float64)
    if exact:
        return BlockBasis(block, torch.eye(block.size, dtype=dtype), None, None, values.flatten())
    left, right = (
        torch.eye(side, dtype=dtype) if 1 < side <= LARGEST_SIDE else None for side in block.shape
    )
    return BlockBasis(block, None, left, right, values)


def _planned(
    network: TrainedNetwork,
    exact: Callable[[Block], bool],
    timed: _Rehearsal,
    width: int,
    keep: str,
    solving: float,
) -> IndexPlan:
    n, blocks = network.n, network.per_sample.blocks
    itemsize = next(network.model.parameters()).element_size()
    fitted_to = min(n, MOST_FITTED)
    scratch = timed.sum_bytes * n_parts(fitted_to, timed.sum_bytes)
    each = np.array([_kept(b, exact(b), itemsize) for b in blocks])
    rows = _row_bytes(network, width, keep)
    both = network.own_loss is not None  # gradients of rows, and for self-influence
    judged = 2 * (min(n, N_SAMPLES) + min(n // 4, N_QUERIES))  # gradients, in both ways
    seconds = fitted_to * (timed.sums + timed.squares) + (n + judged) * timed.rows + solving
    rounds = 1 + (timed.squares > 0)
    formed = itemsize * network.pass_size * max(b.size for b in blocks)
    towards = itemsize * 2.0 * N_QUERIES * sum(b.size for b in blocks)
    weights = sum(t.numel() * t.element_size() for t in network.model.state_dict().values())
    fitting = max(curvature_bytes(blocks, exact), float(each.sum()) + towards)
    compared = matrix_rate(torch.bfloat16 if has_bfloat16() else torch.float32)
    return IndexPlan(
        block=np.array([b.name for b in blocks]),
        size=np.array([b.size for b in blocks]),
        kind=np.array(["exact" if exact(b) else "factored" for b in blocks]),
        bytes=each,
        n_samples=n,
        width=width,
        is_most=not timed.real,
        keep=keep,
        row_bytes=rows,
        curvature_bytes=float(each.sum()),
        scratch_bytes=scratch,
        passes=fitted_to * rounds * (1 + timed.vectors) + 2 * (n + judged) + n * both,
        peak_bytes=weights + timed.held + formed + fitting,
        seconds=seconds + BYTE_SECONDS * (scratch + float(each.sum()) + rows),
        gradient_seconds=timed.rows,
        effect_seconds=n * (2.0 * width / (compared * SHARE) + LARGEST_SECONDS),
        free_bytes=available_memory(),
    )


def _kept(block: Block, exact: bool, itemsize: int) -> float:
    """Bytes of a block's basis on disk, its eigenvalues in float64."""
    return kept_bytes(block, exact, itemsize) + 8.0 * block.size * exact


def _row_bytes(network: TrainedNetwork, width: int, keep: str) -> float:
    """Bytes of all rows, in whole chunks: numbers, scale, length and id."""
    n, row = network.n, width * np.dtype(PRECISIONS[keep]).itemsize
    ids = network.train.ids
    named = 8 if ids is None else as_kept(ids).nbytes / n
    chunk = samples_of_chunk(n, row)
    return float(ceil(n / chunk) * chunk * (row + 4 + 8 + named))
