"""Effects of the rows of an index on queries' rows: the largest, or all."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor

from datassay.machine import available_memory
from datassay.progress import Progress
from datassay.score.effects import TopEffects
from datassay.score.index.segment import Segment
from datassay.score.index.sketch import FLOAT, Sketch

HELD_SHARE = 0.25  # of the free memory, which held rows may take
QUERY_GROUP = 1024  # queries that are compared at once
ROWS_AT_ONCE = 4096  # samples that they are compared with at once
GROUPED = 16  # samples of a group, of which `_select_extremes` looks at the best first
FLOATS_AT_ONCE = 512  # samples whose rows are made floats at once
# A query's number is STEP · upper + lower, 8 bits each; LARGEST: of the upper ones.
LARGEST = 127
STEP = 256


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of queries, ready to be compared with stored ones.

    Attributes:
        sketch: of the stored ones.
        planes: floats, [m, width]; or two of integers, upper and lower 8 bits of 16.
        unit: [m], the value of 1 in the lowest plane.
        corrections: of each plane [m], the product with v less that with levels.
    """

    sketch: Sketch
    planes: tuple[Float[Tensor, "m width"] | Int8[Tensor, "m width"], ...]
    unit: Float[Tensor, " m"]
    corrections: tuple[Float[Tensor, " m"], ...]

    def __len__(self) -> int:
        return len(self.unit)

    def products(
        self, levels: Tensor, scale: Float[Tensor, " b"], queries: slice, *, is_coarse: bool
    ) -> Float[Tensor, "q b"]:
        """Return products cᵢᵀcⱼ of some queries with stored rows, [q, b]."""
        # is_coarse: by the upper 8 bits of queries alone. levels, scale: of the rows, as
        # `Sketch.levels` and `Sketch.pack` return them.
        total = self._plane_products(0, levels, queries)
        n_planes = 1 if is_coarse else len(self.planes)
        for plane in range(1, n_planes):
            total = total.mul_(STEP).add_(self._plane_products(plane, levels, queries))
        unit = self.unit[queries]
        if n_planes < len(self.planes):
            unit = unit * STEP
        return total.mul_(unit[:, None]).mul_(scale)

    def _plane_products(self, plane: int, levels: Tensor, queries: slice) -> Float[Tensor, "q b"]:
        """Return the products of one plane with v, from the rows' levels."""
        products = _multiply_plane(self.planes[plane][queries], levels)
        return torch.add(products, self.corrections[plane][queries, None])


def _multiply_plane(plane: Tensor, levels: Tensor) -> Tensor:
    """Return plane @ levelsᵀ, [q, b]; int32 where both are integers."""
    if plane.dtype == torch.int8:
        return torch._int_mm(plane, levels.T)
    chunks = levels.split(FLOATS_AT_ONCE)
    return torch.cat([plane @ chunk.float().T for chunk in chunks], 1)


def prepare_rows(
    sketch: Sketch, parts: Iterable[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]
) -> tuple[QueryRows, Float[Tensor, " m"]]:
    """Return the queries' rows, quantised for fast products, and their measured values."""
    # `parts` are batches of rows and of their measures. Where the processor multiplies 8-bit
    # numbers, rows are rounded to 16 bits, each by its own unit: an error of 1e-4 of that which
    # rounding the stored rows to one bit makes.
    fits_int32 = 2**sketch.bits * STEP * sketch.width < 2**32  # a sum of products
    is_fast = sketch.bits != FLOAT and fits_int32 and has_int8()
    batches: list[tuple[Tensor, ...]] = []  # the planes of each
    units = []
    values = []
    for rows, measured in parts:
        unit = torch.ones(len(rows))
        if is_fast:
            unit = rows.abs().amax(1) / (LARGEST * STEP)
            unit = torch.where(unit == 0, 1.0, unit)  # of a row of zeros
            codes = (rows / unit[:, None]).round_().to(torch.int16)
            upper = (codes + STEP // 2) >> 8
            batches.append((upper.to(torch.int8), (codes - upper * STEP).to(torch.int8)))
        else:
            batches.append((rows,))
        units.append(unit)
        values.append(measured)
    planes = tuple(torch.cat(plane) for plane in zip(*batches, strict=True))
    corrections = tuple((p.sum(1, dtype=torch.float64) * sketch.offset).float() for p in planes)
    return QueryRows(sketch, planes, torch.cat(units), corrections), torch.cat(values)


def has_int8() -> bool:
    """Return whether the processor has instructions for products of 8-bit numbers."""
    # Those that multiply bfloat16 have them all.
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def read_chunks(
    segments: Sequence[Segment], progress: Progress
) -> Iterator[tuple[int, np.ndarray, Float[np.ndarray, " b"]]]:
    """Yield (position of the first row, packed rows, scales), chunk by chunk."""
    n = sum(s.n for s in segments)
    start = 0
    holds = n * segments[0].row_bytes < HELD_SHARE * available_memory()
    for segment in segments:
        for chunk in segment.store.chunks:
            yield start, *segment.rows(chunk, holds=holds)
            start += len(chunk)
            progress("compare with the index", start, n)


def all_products(
    segments: Sequence[Segment], queries: QueryRows, progress: Progress
) -> Iterator[tuple[int, Float[Tensor, "b m"]]]:
    """Yield (position of the first row, products cᵢᵀcⱼ with all queries), by chunk."""
    all_queries = slice(0, len(queries))
    for start, packed, scale in read_chunks(segments, progress):
        levels = queries.sketch.levels(packed)
        products = queries.products(levels, torch.from_numpy(scale), all_queries, is_coarse=False)
        yield start, products.T.double()


def largest(
    segments: Sequence[Segment], queries: QueryRows, scale: float, top: int, progress: Progress
) -> tuple[TopEffects, Float[np.ndarray, " n"]]:
    """Return the samples of most raising and lowering effect on each query, and effects' sums."""
    # An effect is −scale cᵢᵀcⱼ.
    # Cost: 2 n m width operations of 8 bits, or of floats where the processor lacks them.
    n = sum(s.n for s in segments)
    m = len(queries)
    keep = min(top, n)
    raising = _Best(m, keep, keeps_largest=True)
    lowering = _Best(m, keep, keeps_largest=False)
    total = np.zeros(n)
    for start, packed, row_scale in _merge_chunks(read_chunks(segments, progress)):
        levels = queries.sketch.levels(packed)
        factor = torch.from_numpy(row_scale) * -scale
        for begin in range(0, m, QUERY_GROUP):
            group = slice(begin, begin + QUERY_GROUP)
            effect = queries.products(levels, factor, group, is_coarse=True)
            total[start : start + len(levels)] += effect.sum(0).double().numpy()
            raising.update(group, effect, start)
            lowering.update(group, effect, start)
    raising_effect, raising_idx = raising.sorted_best(keep)
    lowering_effect, lowering_idx = lowering.sorted_best(keep)
    return TopEffects(raising_idx, raising_effect, lowering_idx, lowering_effect), total


def _merge_chunks(
    chunks: Iterator[tuple[int, np.ndarray, np.ndarray]],
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield consecutive chunks merged to at least ROWS_AT_ONCE rows; the last may be less."""
    pending: list[tuple[int, np.ndarray, np.ndarray]] = []
    for chunk in chunks:
        pending.append(chunk)
        if sum(len(packed) for _, packed, _ in pending) >= ROWS_AT_ONCE:
            yield _concatenate(pending)
            pending = []
    if pending:
        yield _concatenate(pending)


def _concatenate(
    chunks: list[tuple[int, np.ndarray, np.ndarray]],
) -> tuple[int, np.ndarray, np.ndarray]:
    starts, packed, scales = zip(*chunks, strict=True)
    return starts[0], np.concatenate(packed), np.concatenate(scales)


def _select_extremes(
    effect: Float[Tensor, "q b"], keep: int, *, keeps_largest: bool
) -> tuple[Float[Tensor, "q keep"], Tensor]:
    """Return values and positions of the `keep` extremes of each row, as torch.topk, faster."""
    # The `keep` largest values lie in the `keep` groups with the largest maxima: only these are
    # searched, and the tail that fills no group.
    q, b = effect.shape
    n_groups = b // GROUPED
    if n_groups < 2 * keep:
        return effect.topk(keep, 1, largest=keeps_largest)
    grouped = effect[:, : n_groups * GROUPED].view(q, GROUPED, n_groups)
    if keeps_largest:
        extremes = grouped.amax(1)
    else:
        extremes = grouped.amin(1)
    groups = extremes.topk(keep, 1, largest=keeps_largest).indices
    members = groups[:, None] + torch.arange(GROUPED)[:, None] * n_groups
    tail = torch.arange(n_groups * GROUPED, b).expand(q, -1)
    candidates = torch.cat([members.flatten(1), tail], 1)
    values, order = effect.gather(1, candidates).topk(keep, 1, largest=keeps_largest)
    return values, candidates.gather(1, order)


class _Best:
    """The largest, or smallest, values of each query so far, sorted."""

    def __init__(self, m: int, keep: int, *, keeps_largest: bool):
        self._keeps_largest = keeps_largest
        self._keep = keep
        worst = torch.inf
        if keeps_largest:
            worst = -torch.inf
        self._values = torch.full((m, keep), worst)
        self._positions = torch.zeros(m, keep, dtype=torch.int64)

    def update(self, queries: slice, effect: Float[Tensor, "q b"], start: int) -> None:
        """Merge effects of the samples from `start` on into the best values so far."""
        extremes, columns = _select_extremes(
            effect, min(self._keep, effect.shape[1]), keeps_largest=self._keeps_largest
        )
        values = torch.cat([self._values[queries], extremes], 1)
        positions = torch.cat([self._positions[queries], columns + start], 1)
        self._values[queries], order = values.topk(self._keep, 1, largest=self._keeps_largest)
        self._positions[queries] = positions.gather(1, order)

    def sorted_best(self, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """Return values and positions of samples, [m, keep] each, the best first."""
        values, order = self._values.topk(keep, 1, largest=self._keeps_largest)
        return values.double().numpy(), self._positions.gather(1, order).numpy()
