"""What an index would take: bytes, passes and seconds of making and of asking it, beforehand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.gradients.blocks import Block
from datassay.data.arguments import checks_arguments
from datassay.plan import EIGEN_WORK, BlockPlan, seconds_of, time_call
from datassay.progress import silent
from datassay.results import result
from datassay.score.index.build import check_settings, index_exact_rule
from datassay.score.index.curvature import MOST_FITTED, n_parts
from datassay.score.index.encoding import check_gradients, choose_sketch, encode_by
from datassay.score.index.fidelity import N_QUERIES, N_SAMPLES, fidelity
from datassay.score.index.search import prepare_rows
from datassay.score.index.segment import (
    SCALE_BYTES,
    encode_sample_ids,
    samples_of_chunk,
)
from datassay.score.influence.block_basis import (
    LARGEST_SIDE,
    BlockBasis,
    first_sums,
    fit_bases,
    kronecker_bases,
    square_sums,
)
from datassay.score.influence.exact_blocks import curvature_bytes, penalties
from datassay.score.influence.first_order import measure_of
from datassay.score.influence.given import given_sets
from datassay.score.influence.plan import blocks_of, held_bytes, kept_bytes, network_bytes
from datassay.score.influence.request import check_numbers
from datassay.score.influence.short_training import left_to_learn
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    trained_network,
    with_temperature,
)
from datassay.score.settings import Indexing, Influence, Queries, TrainedWeights, Training

# Samples that are read, fewer where that takes longer than so many seconds.
N_TIMED = 512
FEWEST_TIMED = 64
LONGEST_TIMED = 5.0
# Seconds that eigenbases may take meanwhile; of larger ones the operations are counted.
LONGEST_BASES = 10.0
# Sizes of rows, of which a plan says what they would keep.
LADDER = (1024, 2048, 4096, 8192, 16384)
# Rows and queries whose comparison is timed.
N_COMPARED = 256
# Passes over an effect that say whether it is among the largest.
LARGEST_VALUES = 4.0


@result
class IndexPlan(BlockPlan):
    """What making an index would do: a `BlockPlan`, and what follows.

    Attributes:
        bytes_per_sample: of a row, as it would be stored.
        bits: of each of its numbers; 32: float32, not rounded.
        fidelity: bytes_per_sample → Pearson's correlation that its effects would have with exact
            ones: about the share of the linear datamodelling score that is kept. Empty where the
            curvature would take long, or of few samples.
        row_bytes: of all samples' rows on disk, with ids and lengths.
        curvature_bytes: on disk.
        scratch_bytes: on disk besides these, while the curvature is fitted.
        gradient_seconds: of one query's gradient, in its row.
        effect_seconds: of one query's effects of all samples, among many queries.
    """

    bytes_per_sample: int
    bits: int
    fidelity: Mapping[int, float]
    row_bytes: float
    curvature_bytes: float
    scratch_bytes: float
    gradient_seconds: float
    effect_seconds: float

    def query_seconds(self, m: int) -> float:
        """Return the expected seconds of m queries asked together.

        Args:
            m: new samples that are asked about together.

        Returns:
            Seconds, with rows and curvature read once.
        """
        read = seconds_of({"bytes": self.row_bytes + self.curvature_bytes})
        return read + m * (self.gradient_seconds + self.effect_seconds)


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
    bytes_per_sample: int = Indexing.bytes_per_sample,
    precision: str = Indexing.gradient_precision,
    device: str | None = None,
    seed: int = 0,
) -> IndexPlan:
    """Count what `index` would take for all samples, by going through a few.

    Args:
        model: as in `index`, like all that follows.
        train: n samples.
        loss: of the training.
        curvature: "auto", "blocks" or "ekfac".
        damping: relative to each block's mean eigenvalue.
        temperature: of the loss of classes.
        weight_decay: of the training.
        parameters: which weights.
        bytes_per_sample: of a row, at most.
        precision: of the gradients.
        device: to compute on.
        seed: of draws.

    Returns:
        The plan; nothing is written.

    Raises:
        SettingError: a setting is unknown or out of range.
        DataError: the samples are not usable.
        ModelError: the model cannot be run or differentiated.

    Cost: six passes over up to 512 samples, of 5 s each or 64 samples, up to 10 s for eigenbases,
        and a second for the speed of this machine.
    Source: passes are timed, eigenbases counted as in `influence_plan`. The fidelity is that of
        rows of those samples, by their curvature.
    """
    check_settings(curvature, bytes_per_sample, precision)
    check_numbers(damping, weight_decay, temperature)
    samples, _ = given_sets(model, train, None, loss)
    network = trained_network(
        model, samples, loss=loss, parameters=parameters, precision=precision, device=device,
        progress=silent,
    )  # fmt: skip
    with_temperature(network, temperature)
    n_fitted = min(network.n, MOST_FITTED)
    blocks = network.per_sample.blocks
    exact = index_exact_rule(curvature, n_fitted, blocks)
    shift = penalties(blocks, network.n, exact, damping, weight_decay)
    sides = [[b.size] if exact(b) else [s for s in b.shape if 1 < s <= LARGEST_SIDE]
             for b in blocks]  # fmt: skip
    work = EIGEN_WORK * sum(side**3.0 for of_block in sides for side in of_block)
    solving = seconds_of({"eigen": work})  # of all eigenbases
    real = solving < LONGEST_BASES
    pilot = _Pilot(network, exact, shift, damping, bytes_per_sample, seed, real=real)
    return _assemble(network, exact, pilot, solving)


class _Pilot:
    """A few samples read as all will be: seconds per sample of each pass, and its bases."""

    def __init__(
        self,
        network: TrainedNetwork,
        exact: Callable[[Block], bool],
        shift: Mapping[str, tuple[float, float]],
        damping: float | str,
        n_bytes: int,
        seed: int,
        *,
        real: bool,
    ):
        assert network.train.subset is not None
        blocks = network.per_sample.blocks
        dtype = network.dtype
        self.real = real
        self.follows = damping == "auto"
        small = {b.name for b in blocks if exact(b)}
        net, size = self._draw_samples(network, small, seed)
        place = size, network.device
        self.sums, sums = time_call(lambda: first_sums(blocks, net.roots(seed, ""), small), *place)
        self.sum_bytes = float(sum(s.numel() * 8 for s in sums.values()))
        if real:
            bases = kronecker_bases(blocks, sums, dtype)
            self.squares, squares = time_call(
                lambda: square_sums(bases, net.roots(seed, "")), *place
            )
            sums |= squares
            to_learn = left_to_learn(net, damping)
            self.bases = fit_bases(
                blocks, bases, sums, size, shift, training=to_learn, spectral=True, dtype=dtype
            )
            check_gradients(self.bases)
        else:
            self.bases = {b.name: _stand_in(b, exact(b), dtype, network.device) for b in blocks}
            factored = {n: b for n, b in self.bases.items() if n not in small}
            self.squares, _ = time_call(lambda: square_sums(factored, net.roots(seed, "")), *place)
        self.squares *= len(small) < len(blocks)  # a pass that is not made otherwise
        self.sketch = choose_sketch(self.bases, n_bytes, seed)
        encoder = encode_by(self.bases, self.sketch, dtype)
        self.rows, outcome = time_call(lambda: list(encoder.rows_of(net)), *place)
        self.compare = self._time_products(torch.cat([rows for rows, _ in outcome]).cpu())
        self.fidelity: dict[int, float] = {}
        if real:
            self._estimate_fidelity(net, {n_bytes, *LADDER}, seed)

    def _time_products(self, rows: Tensor) -> float:
        """Return the seconds of comparing a row with one of many queries."""
        rows = rows[torch.arange(N_COMPARED) % len(rows)]
        packed, scale = self.sketch.pack(rows)
        levels = self.sketch.levels(packed)
        queries, _ = prepare_rows(self.sketch, [(rows.float(), torch.zeros(N_COMPARED))])
        all_queries = slice(0, N_COMPARED)
        compare = partial(
            queries.products, levels, torch.from_numpy(scale), all_queries, coarse=True
        )
        compare()  # so that nothing is timed that happens once
        return time_call(compare, N_COMPARED**2)[0]

    def _estimate_fidelity(
        self, network: TrainedNetwork, sizes: Collection[int], seed: int
    ) -> None:
        """Measure what rows of several sizes keep, up to the first that are not rounded."""
        sketches = [choose_sketch(self.bases, n_bytes, seed) for n_bytes in sorted(sizes)]
        by_bytes = {sketch.n_bytes: sketch for sketch in sketches}
        encoders = [encode_by(self.bases, s, network.dtype) for s in by_bytes.values()]
        measure = measure_of(Queries.measure, network.loss, has_several=network.has_several)
        intervals = fidelity(network, encoders, measure, seed)
        if intervals is not None:
            self.fidelity = dict(
                zip(by_bytes, (interval["mean"] for interval in intervals), strict=True)
            )

    def _draw_samples(
        self, network: TrainedNetwork, small: set[str], seed: int
    ) -> tuple[TrainedNetwork, int]:
        """Return the network with the samples to go through, and their number: as seconds allow."""
        assert network.train.subset is not None
        order = np.random.default_rng(seed).permutation(network.n)

        def draw(size: int) -> TrainedNetwork:
            assert network.train.subset is not None
            subset = network.train.subset(np.sort(order[:size]).tolist())
            return replace(network, train=subset, n=size, progress=silent)

        size = min(FEWEST_TIMED, network.n)
        roots = next(draw(size).roots(seed, ""))  # so that nothing is timed that happens once
        self.held = held_bytes(roots)
        self.vectors = len(list(draw(1).roots(seed, "")))
        per_sample, _ = time_call(
            lambda: first_sums(network.per_sample.blocks, draw(size).roots(seed, ""), small),
            size,
            network.device,
        )
        size = min(network.n, N_TIMED, max(size, int(LONGEST_TIMED / per_sample)))
        return draw(size), size


def _stand_in(block: Block, exact: bool, dtype: torch.dtype, device: torch.device) -> BlockBasis:
    """Return a basis that costs what the block's own will: no rotation at all."""
    values = torch.ones(block.shape, dtype=torch.float64, device=device)
    eye = partial(torch.eye, dtype=dtype, device=device)
    if exact:
        return BlockBasis(block, eye(block.size), None, None, values.flatten())
    rows_axes, columns_axes = (
        eye(side) if 1 < side <= LARGEST_SIDE else None for side in block.shape
    )
    return BlockBasis(block, None, rows_axes, columns_axes, values)


def _assemble(
    network: TrainedNetwork,
    exact: Callable[[Block], bool],
    pilot: _Pilot,
    solving: float,
) -> IndexPlan:
    """Return the plan of an index: seconds, memory and disk, from the pilot's measurements."""
    n = network.n
    blocks = network.per_sample.blocks
    weights, itemsize, formed = network_bytes(network)
    fitted_to = min(n, MOST_FITTED)
    scratch = pilot.sum_bytes * n_parts(fitted_to, pilot.sum_bytes)
    # On disk eigenvalues are float64.
    sizes = [kept_bytes(b, exact(b), itemsize) + 8.0 * b.size * exact(b) for b in blocks]
    block_bytes = np.array(sizes)
    rows = _row_bytes(network, pilot.sketch.n_bytes)
    # Gradients for self-influence, and of what training left to learn.
    extra = (network.own_loss is not None) + pilot.follows
    n_compared = 2 * (min(n, N_SAMPLES) + min(n // 4, N_QUERIES))  # gradients, in both ways
    passing = fitted_to * (pilot.sums + pilot.squares) + (n + n_compared) * pilot.rows + solving
    rounds = 1 + (pilot.squares > 0)
    q_bytes = itemsize * 2.0 * N_QUERIES * sum(b.size for b in blocks)
    fitting = max(curvature_bytes(blocks, exact), float(block_bytes.sum()) + q_bytes)
    return IndexPlan(
        **blocks_of(network, exact),
        bytes=block_bytes,
        bytes_per_sample=pilot.sketch.n_bytes + SCALE_BYTES,
        bits=pilot.sketch.bits,
        fidelity=pilot.fidelity,
        row_bytes=rows,
        curvature_bytes=float(block_bytes.sum()),
        scratch_bytes=scratch,
        passes=fitted_to * rounds * (1 + pilot.vectors) + 2 * (n + n_compared) + n * extra,
        peak_bytes=weights + pilot.held + formed + fitting,
        seconds=passing + seconds_of({"bytes": scratch + float(block_bytes.sum()) + rows}),
        gradient_seconds=pilot.rows,
        effect_seconds=n * pilot.compare + seconds_of({"values": LARGEST_VALUES * n}),
    )


def _row_bytes(network: TrainedNetwork, n_bytes: int) -> float:
    """Return the bytes of all rows, in whole chunks: numbers, scale, length and id."""
    n = network.n
    ids = network.train.ids
    id_bytes = 8
    if ids is not None:
        id_bytes = encode_sample_ids(ids).nbytes / n
    chunk = samples_of_chunk(n, n_bytes)
    return float(ceil(n / chunk) * chunk * (n_bytes + SCALE_BYTES + 8 + id_bytes))
