"""Effects of the rows of an index on queries' rows: the largest, or all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.machine import available_memory
from datassay.progress import Progress
from datassay.score.attribution import TopEffects
from datassay.score.index.segment import Segment

# Share of the free memory that rows are held in, and values of effects at once.
HELD_SHARE, EFFECT_VALUES = 0.25, 2**24


def blocks(
    segments: Sequence[Segment], progress: Progress, step: str
) -> Iterator[tuple[int, Float[Tensor, "b width"]]]:
    """All rows, chunk by chunk.

    Args:
        segments: of the index.
        progress: called with (step, samples done, samples in all).
        step: its name.

    Yields:
        The position of a chunk's first sample, and its rows.
    """
    hold = sum(s.bytes for s in segments) < HELD_SHARE * available_memory()
    total, start = sum(s.n for s in segments), 0
    for segment in segments:
        for chunk in segment.store.chunks:
            yield start, segment.rows(chunk, hold=hold)
            start += len(chunk)
            progress(step, start, total)


def largest(
    segments: Sequence[Segment],
    asked: Float[Tensor, "m width"],
    scale: float,
    top: int,
    progress: Progress,
) -> tuple[TopEffects, Float[np.ndarray, " n"]]:
    """The samples that raise and lower each query most, every sample looked at.

    Args:
        segments: of the index, n samples.
        asked: rows of the queries.
        scale: of an effect −scale cᵢᵀcⱼ.
        top: samples a query and direction.
        progress: called with (step, samples done, samples in all).

    Returns:
        The largest effects, and each sample's sum over all queries.

    Cost: 2 n m width operations, and the rows read once.
    """
    n, m = sum(s.n for s in segments), len(asked)
    keep, group = min(top, n), max(1, EFFECT_VALUES // 4096)
    best = [_Best(m, keep, largest=side) for side in (True, False)]
    total, towards = np.empty(n), asked.double().sum(0)
    for start, rows in blocks(segments, progress, "compare with the index"):
        total[start : start + len(rows)] = -scale * (rows.double() @ towards).numpy()
        for first in range(0, m, group):
            part = slice(first, first + group)
            effect = (asked[part] * -scale) @ rows.T
            for side in best:
                side.see(part, effect, start)
    (raising, who), (lowering, whom) = (side.found() for side in best)
    return TopEffects(who, raising, whom, lowering), total


class _Best:
    """The largest, or smallest, values of each query so far, sorted."""

    def __init__(self, m: int, keep: int, *, largest: bool):
        self._largest, self._keep = largest, keep
        fill = -torch.inf if largest else torch.inf
        self._values = torch.full((m, keep), fill)
        self._where = torch.zeros(m, keep, dtype=torch.int64)

    def see(self, part: slice, effect: Float[Tensor, "q b"], start: int) -> None:
        found, at = effect.topk(min(self._keep, effect.shape[1]), 1, largest=self._largest)
        values = torch.cat([self._values[part], found], 1)
        where = torch.cat([self._where[part], at + start], 1)
        self._values[part], order = values.topk(self._keep, 1, largest=self._largest)
        self._where[part] = where.gather(1, order)

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        return self._values.double().numpy(), self._where.numpy()
