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

# Share of the free memory that rows are held in; queries, and pairs with samples, at once.
HELD_SHARE = 0.25
QUERY_GROUP = 1024
# Samples that are compared at once, in groups of which the best one is looked at first; and that
# are floats at once.
ROWS_AT_ONCE = 4096
GROUPED = 16
FLOATS_AT_ONCE = 512
# A query's largest value in 8 bits, and in 16.
LARGEST = 127
STEP = 256


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of queries, ready to be compared with stored ones.

    Attributes:
        sketch: of the stored ones.
        planes: floats, [m, width]; or upper and lower 8 bits of 16.
        unit: [m], what 1 stands for.
        half: of each plane [m], the product with v less that with levels.
    """

    sketch: Sketch
    planes: tuple[Float[Tensor, "m width"] | Int8[Tensor, "m width"], ...]
    unit: Float[Tensor, " m"]
    half: tuple[Float[Tensor, " m"], ...]

    def __len__(self) -> int:
        return len(self.unit)

    def products(
        self, levels: Tensor, scale: Float[Tensor, " b"], queries: slice, *, coarse: bool
    ) -> Float[Tensor, "q b"]:
        """Return cᵢᵀcⱼ of some queries and of rows; `coarse`: by the upper 8 bits of queries."""
        total: Tensor | None = None
        n_planes = 1 if coarse else len(self.planes)
        for plane, half in zip(self.planes[:n_planes], self.half, strict=False):
            term = torch.add(_multiply(plane[queries], levels), half[queries, None])
            total = term if total is None else total.mul_(STEP).add_(term)
        assert total is not None, "there is a plane"
        unit = self.unit[queries]
        if n_planes < len(self.planes):
            unit = unit * STEP
        return total.mul_(unit[:, None]).mul_(scale)


def _multiply(plane: Tensor, levels: Tensor) -> Tensor:
    if plane.dtype == torch.int8:
        return torch._int_mm(plane, levels.T)
    chunks = levels.split(FLOATS_AT_ONCE)
    return torch.cat([plane @ chunk.float().T for chunk in chunks], 1)


def prepare_rows(
    sketch: Sketch, parts: Iterable[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]
) -> tuple[QueryRows, Float[Tensor, " m"]]:
    """Return the queries' rows, ready to be compared, and the measure of each.

    Where the processor multiplies 8-bit numbers they are rounded to 16 bits, by a unit of their
    own: to 1e-4 of what rounding the stored ones to one bit changes.
    """
    is_small = 2**sketch.bits * STEP * sketch.width < 2**32  # what products add up to, in int32
    is_fast = sketch.bits != FLOAT and is_small and has_int8()
    planes: list[tuple[Tensor, ...]] = []
    units = []
    values = []
    for rows, measured in parts:
        unit = torch.ones(len(rows))
        if is_fast:
            unit = rows.abs().amax(1) / (LARGEST * STEP)
            unit = torch.where(unit == 0, 1.0, unit)  # what is not finite stays so
            codes = (rows / unit[:, None]).round_().to(torch.int16)
            upper = (codes + STEP // 2) >> 8
            planes.append((upper.to(torch.int8), (codes - upper * STEP).to(torch.int8)))
        else:
            planes.append((rows,))
        units.append(unit)
        values.append(measured)
    planes_of_all = tuple(torch.cat(of_plane) for of_plane in zip(*planes, strict=True))
    half = tuple((p.sum(1, dtype=torch.float64) * sketch.offset).float() for p in planes_of_all)
    return QueryRows(sketch, planes_of_all, torch.cat(units), half), torch.cat(values)


def has_int8() -> bool:
    """Return whether the processor has instructions for products of 8-bit numbers."""
    # Those that multiply bfloat16 have them all.
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def blocks(
    segments: Sequence[Segment], progress: Progress, step: str
) -> Iterator[tuple[int, np.ndarray, Float[np.ndarray, " b"]]]:
    """Yield rows, chunk by chunk: the position of the first, the rows packed, and their scales."""
    total = sum(s.n for s in segments)
    start = 0
    hold = total * segments[0].row_bytes < HELD_SHARE * available_memory()
    for segment in segments:
        for chunk in segment.store.chunks:
            yield start, *segment.rows(chunk, hold=hold)
            start += len(chunk)
            progress(step, start, total)


def all_products(
    segments: Sequence[Segment], queries: QueryRows, progress: Progress
) -> Iterator[tuple[int, Float[Tensor, "b m"]]]:
    """Yield cᵢᵀcⱼ of all rows and queries, chunk by chunk, and the position of the first row."""
    all_queries = slice(0, len(queries))
    for start, packed, scale in blocks(segments, progress, "compare with the index"):
        levels = queries.sketch.levels(packed)
        products = queries.products(levels, torch.from_numpy(scale), all_queries, coarse=False)
        yield start, products.T.double()


def largest(
    segments: Sequence[Segment],
    queries: QueryRows,
    scale: float,
    top: int,
    progress: Progress,
) -> tuple[TopEffects, Float[np.ndarray, " n"]]:
    """Find the samples that raise and lower each query most, and each sample's sum of effects."""
    # scale: of an effect −scale cᵢᵀcⱼ.
    # Cost: 2 n m width operations of 8 bits, or of floats where the processor lacks them.
    n = sum(s.n for s in segments)
    m = len(queries)
    keep = min(top, n)
    sides = [_Best(m, keep, largest=side) for side in (True, False)]
    total = np.zeros(n)
    parts = _merge_chunks(blocks(segments, progress, "compare with the index"))
    for start, packed, row_scale in parts:
        levels = queries.sketch.levels(packed)
        factor = torch.from_numpy(row_scale) * -scale
        for begin in range(0, m, QUERY_GROUP):
            group = slice(begin, begin + QUERY_GROUP)
            effect = queries.products(levels, factor, group, coarse=True)
            total[start : start + len(levels)] += effect.sum(0).double().numpy()
            for side in sides:
                side.update(group, effect, start)
    (raising, raising_idx), (lowering, lowering_idx) = (side.sorted_best(keep) for side in sides)
    return TopEffects(raising_idx, raising, lowering_idx, lowering), total


def _merge_chunks(
    chunks: Iterator[tuple[int, np.ndarray, np.ndarray]],
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Concatenate neighbouring chunks."""
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


def _topk(
    effect: Float[Tensor, "q b"], keep: int, *, largest: bool
) -> tuple[Float[Tensor, "q keep"], Tensor]:
    """Return `topk` along rows, searched only in groups whose best values are among the best."""
    q, b = effect.shape
    n_grouped = b // GROUPED * GROUPED
    if n_grouped // GROUPED < 2 * keep:
        return effect.topk(keep, 1, largest=largest)
    grouped = effect[:, :n_grouped].view(q, GROUPED, n_grouped // GROUPED)
    if largest:
        extremes = grouped.amax(1)
    else:
        extremes = grouped.amin(1)
    groups = extremes.topk(keep, 1, largest=largest).indices
    members = groups[:, None] + torch.arange(GROUPED)[:, None] * (n_grouped // GROUPED)
    tail = torch.arange(n_grouped, b).expand(q, -1)
    index = torch.cat([members.flatten(1), tail], 1)
    result, order = effect.gather(1, index).topk(keep, 1, largest=largest)
    return result, index.gather(1, order)


class _Best:
    """The largest, or smallest, values of each query so far, sorted."""

    def __init__(self, m: int, keep: int, *, largest: bool):
        self._largest = largest
        self._keep = keep
        fill = torch.inf
        if largest:
            fill = -torch.inf
        self._values = torch.full((m, keep), fill)
        self._positions = torch.zeros(m, keep, dtype=torch.int64)

    def update(self, queries: slice, effect: Float[Tensor, "q b"], start: int) -> None:
        """Keep the best of the former values and of the effects of the samples from `start` on."""
        result, index = _topk(effect, min(self._keep, effect.shape[1]), largest=self._largest)
        values = torch.cat([self._values[queries], result], 1)
        positions = torch.cat([self._positions[queries], index + start], 1)
        self._values[queries], order = values.topk(self._keep, 1, largest=self._largest)
        self._positions[queries] = positions.gather(1, order)

    def sorted_best(self, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """Return values and positions, [m, keep]."""
        values, order = self._values.topk(keep, 1, largest=self._largest)
        return values.double().numpy(), self._positions.gather(1, order).numpy()
