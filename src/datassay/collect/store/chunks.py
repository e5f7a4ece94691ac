"""Chunks of samples: the unit of work, of retry and of storage, independent of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PARTS = ("train", "val")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring samples of one part.

    Attributes:
        number: of the chunk among all of both parts.
        part: "train" or "val".
        start: position of its first sample in the part.
        stop: position after its last.
    """

    number: int
    part: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> slice:
        """Its samples' positions in their part."""
        return slice(self.start, self.stop)


def chunks_of(sizes: Mapping[str, int], size: int) -> tuple[Chunk, ...]:
    """All chunks, the training part's first; a part starts a new chunk.

    Args:
        sizes: samples of each part.
        size: samples of a chunk; the last of a part holds what is left.

    Returns:
        The chunks in order.
    """
    spans = [
        (part, start, min(start + size, n))
        for part, n in sizes.items()
        for start in range(0, n, size)
    ]
    return tuple(Chunk(number, *span) for number, span in enumerate(spans))
