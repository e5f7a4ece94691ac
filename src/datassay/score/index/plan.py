"""What an index would take: bytes, passes and seconds of making and of asking it, beforehand."""

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
from datassay.score.index.segment import SCALE_BYTES, encode_sample_ids, samples_of_chunk
from datassay.score.influence.block_basis import (
    BlockBasis,
    first_sums,
    fit_bases,
    kronecker_bases,
    square_sums,
)
from datassay.score.influence.exact_blocks import LARGEST_SIDE, Penalty, curvature_bytes, penalties
from datassay.score.influence.first_order import measure_of
from datassay.score.influence.given import given_sets
from datassay.score.influence.plan import blocks_of, held_bytes, kept_bytes, network_bytes
from datassay.score.influence.request import check_numbers
from datassay.score.influence.short_training import left_to_learn
from datassay.score.influence.trained_network import TrainedNetwork, soften_loss, trained_network
from datassay.score.settings import Indexing, Influence, Queries, TrainedWeights, Training

# Samples that are timed, and the fewest where a pass would take longer than so many seconds.
N_TIMED = 512
FEWEST_TIMED = 64
LONGEST_TIMED = 5.0
# Seconds that eigenbases may take; slower ones are not computed, their operations are counted.
LONGEST_BASES = 10.0
# bytes_per_sample whose fidelity a plan reports.
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
    """Return the seconds, memory and disk that `index` would take, timed on a few samples.

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
    soften_loss(network, temperature)
    n_fitted = min(network.n, MOST_FITTED)
    blocks = network.per_sample.blocks
    is_exact = index_exact_rule(curvature, n_fitted, blocks)
    penalty_of = penalties(blocks, network.n, is_exact, damping, weight_decay)
    cubes = sum(side**3.0 for block in blocks for side in _list_eigen_sizes(block, is_exact))
    eigen_seconds = seconds_of({"eigen": EIGEN_WORK * cubes})
    fits_bases = eigen_seconds < LONGEST_BASES
    pilot = _Pilot(
        network, is_exact, penalty_of, damping, bytes_per_sample, seed, fits_bases=fits_bases
    )
    return _assemble(network, is_exact, pilot, eigen_seconds)


def _list_eigen_sizes(block: Block, is_exact: Callable[[Block], bool]) -> list[int]:
    """Return the sizes of the matrices that a block's eigenbases decompose."""
    if is_exact(block):
        return [block.size]
    return [side for side in block.shape if 1 < side <= LARGEST_SIDE]


class _Pilot:
    """A few samples read as all will be.

    Attributes:
        sums: seconds a sample of the curvature's first pass; squares: of the second, 0: none;
            rows: of the rows.
        sum_bytes: of one part's sums.
        follows: whether the gradient of what training left to learn is taken.
        held: bytes of a batch's gradients; vectors: backward passes for its curvature.
        compare: seconds of comparing one row with one of many queries.
        fidelity: bytes of a row → correlation of its effects with exact ones.
        bases: of these samples; stand-ins of the same cost where fitting takes long.
        sketch: of the rows.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        is_exact: Callable[[Block], bool],
        penalty_of: Mapping[str, Penalty],
        damping: float | str,
        n_bytes: int,
        seed: int,
        *,
        fits_bases: bool,
    ):
        assert network.train.subset is not None
        blocks = network.per_sample.blocks
        dtype = network.dtype
        self.follows = damping == "auto"
        exact_names = {b.name for b in blocks if is_exact(b)}
        drawn, size = self._draw_samples(network, exact_names, seed)

        def time_pass(call: Callable[[], Any]) -> tuple[float, Any]:
            return time_call(call, size, network.device)

        self.sums, sums = time_pass(lambda: first_sums(blocks, drawn.roots(seed, ""), exact_names))
        self.sum_bytes = float(sum(s.numel() * 8 for s in sums.values()))
        if fits_bases:
            bases = kronecker_bases(blocks, sums, dtype)
            self.squares, squares = time_pass(lambda: square_sums(bases, drawn.roots(seed, "")))
            sums |= squares
            to_learn = left_to_learn(drawn, damping)
            self.bases = fit_bases(
                blocks,
                bases,
                sums,
                size,
                penalty_of,
                training=to_learn,
                is_spectral=True,
                dtype=dtype,
            )
            check_gradients(self.bases)
        else:
            self.bases = {
                b.name: _identity_basis(b, is_exact(b), dtype, network.device) for b in blocks
            }
            factored = {name: b for name, b in self.bases.items() if name not in exact_names}
            self.squares, _ = time_pass(lambda: square_sums(factored, drawn.roots(seed, "")))
        if len(exact_names) == len(blocks):
            self.squares = 0.0  # no block is factored: there is no second pass
        self.sketch = choose_sketch(self.bases, n_bytes, seed)
        encoder = encode_by(self.bases, self.sketch, dtype)
        self.rows, batches = time_pass(lambda: list(encoder.rows_of(drawn)))
        self.compare = self._time_products(torch.cat([rows for rows, _ in batches]).cpu())
        self.fidelity: dict[int, float] = {}
        if fits_bases:
            self._estimate_fidelity(drawn, {n_bytes, *LADDER}, seed)

    def _time_products(self, rows: Tensor) -> float:
        """Return the seconds of comparing one stored row with one query."""
        rows = rows[torch.arange(N_COMPARED) % len(rows)]
        packed, scale = self.sketch.pack(rows)
        levels = self.sketch.levels(packed)
        queries, _ = prepare_rows(self.sketch, [(rows.float(), torch.zeros(N_COMPARED))])
        all_queries = slice(0, N_COMPARED)
        compare = partial(
            queries.products, levels, torch.from_numpy(scale), all_queries, is_coarse=True
        )
        compare()  # the first call may cost more than others
        seconds, _ = time_call(compare, N_COMPARED**2)
        return seconds

    def _estimate_fidelity(
        self, network: TrainedNetwork, sizes: Collection[int], seed: int
    ) -> None:
        """Set `fidelity` to {bytes per sample: correlation with exact effects}."""
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
        self, network: TrainedNetwork, exact_names: set[str], seed: int
    ) -> tuple[TrainedNetwork, int]:
        """Return the network on a few samples, and how many: as LONGEST_TIMED allows."""
        assert network.train.subset is not None
        order = np.random.default_rng(seed).permutation(network.n)

        def draw(size: int) -> TrainedNetwork:
            assert network.train.subset is not None
            subset = network.train.subset(np.sort(order[:size]).tolist())
            return replace(network, train=subset, n=size, progress=silent)

        size = min(FEWEST_TIMED, network.n)
        roots = next(draw(size).roots(seed, ""))  # also: the first call may cost more than others
        self.held = held_bytes(roots)
        self.vectors = len(list(draw(1).roots(seed, "")))
        per_sample, _ = time_call(
            lambda: first_sums(network.per_sample.blocks, draw(size).roots(seed, ""), exact_names),
            size,
            network.device,
        )
        size = min(network.n, N_TIMED, max(size, int(LONGEST_TIMED / per_sample)))
        return draw(size), size


def _identity_basis(
    block: Block, is_exact: bool, dtype: torch.dtype, device: torch.device
) -> BlockBasis:
    """Return an identity basis that costs as much to apply as the block's own would."""
    values = torch.ones(block.shape, dtype=torch.float64, device=device)
    eye = partial(torch.eye, dtype=dtype, device=device)
    if is_exact:
        return BlockBasis(block, eye(block.size), None, None, values.flatten())
    row_basis, column_basis = (
        eye(side) if 1 < side <= LARGEST_SIDE else None for side in block.shape
    )
    return BlockBasis(block, None, row_basis, column_basis, values)


def _assemble(
    network: TrainedNetwork, is_exact: Callable[[Block], bool], pilot: _Pilot, eigen_seconds: float
) -> IndexPlan:
    """Return the plan: seconds, memory and disk, scaled up from the pilot."""
    n = network.n
    blocks = network.per_sample.blocks
    weight_bytes, itemsize, formed_bytes = network_bytes(network)
    n_fitted = min(n, MOST_FITTED)
    scratch_bytes = pilot.sum_bytes * n_parts(n_fitted, pilot.sum_bytes)
    # On disk eigenvalues are float64.
    sizes = [kept_bytes(b, is_exact(b), itemsize) + 8.0 * b.size * is_exact(b) for b in blocks]
    block_bytes = np.array(sizes)
    all_block_bytes = float(block_bytes.sum())
    row_bytes = _count_row_bytes(network, pilot.sketch.n_bytes)
    # Further passes: for self-influence, and for what training left to learn.
    extra = int(network.self_influence_loss is not None) + int(pilot.follows)
    n_compared = 2 * (min(n, N_SAMPLES) + min(n // 4, N_QUERIES))  # for the fidelity, in both ways
    fit_seconds = n_fitted * (pilot.sums + pilot.squares)
    pass_seconds = fit_seconds + (n + n_compared) * pilot.rows + eigen_seconds
    n_curvature_passes = 2 if pilot.squares else 1
    q_bytes = itemsize * 2.0 * N_QUERIES * sum(b.size for b in blocks)
    fit_bytes = max(curvature_bytes(blocks, is_exact), all_block_bytes + q_bytes)
    curvature_gradients = n_fitted * n_curvature_passes * (1 + pilot.vectors)
    return IndexPlan(
        **blocks_of(network, is_exact),
        bytes=block_bytes,
        bytes_per_sample=pilot.sketch.n_bytes + SCALE_BYTES,
        bits=pilot.sketch.bits,
        fidelity=pilot.fidelity,
        row_bytes=row_bytes,
        curvature_bytes=all_block_bytes,
        scratch_bytes=scratch_bytes,
        passes=curvature_gradients + 2 * (n + n_compared) + n * extra,
        peak_bytes=weight_bytes + pilot.held + formed_bytes + fit_bytes,
        seconds=pass_seconds + seconds_of({"bytes": scratch_bytes + all_block_bytes + row_bytes}),
        gradient_seconds=pilot.rows,
        effect_seconds=n * pilot.compare + seconds_of({"values": LARGEST_VALUES * n}),
    )


def _count_row_bytes(network: TrainedNetwork, n_bytes: int) -> float:
    """Return the bytes of all stored rows in whole chunks, with scale, norm and id."""
    n = network.n
    ids = network.train.ids
    id_bytes = 8
    if ids is not None:
        id_bytes = encode_sample_ids(ids).nbytes / n
    per_chunk = samples_of_chunk(n, n_bytes)
    length_bytes = 8
    sample_bytes = n_bytes + SCALE_BYTES + length_bytes + id_bytes
    return float(ceil(n / per_chunk) * per_chunk * sample_bytes)
