"""Chunks of samples: the unit of work, of retry and of storage; and the rows that a store keeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

PARTS = ("train", "val")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring samples of one part.

    Attributes:
        number: of the chunk among all of both parts.
        split: "train" or "val".
        start: position of its first sample in the part.
        stop: position after its last.
    """

    number: int
    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> slice:
        """Its samples' positions in their part."""
        return slice(self.start, self.stop)


def chunks_of(n_by_part: Mapping[str, int], chunk_size: int) -> tuple[Chunk, ...]:
    """Split the samples of each part into chunks of at most chunk_size, numbered throughout."""
    spans = [
        (part_name, start, min(start + chunk_size, n))
        for part_name, n in n_by_part.items()
        for start in range(0, n, chunk_size)
    ]
    return tuple(Chunk(number, *span) for number, span in enumerate(spans))


def encode_ids(
    ids: Mapping[str, np.ndarray],
) -> dict[str, Int[np.ndarray, " n"] | UInt8[np.ndarray, "n width"]]:
    """Return ids as int64 [n], or as UTF-8 bytes [n, width], which Zarr can store."""
    if all(np.can_cast(values.dtype, np.int64) for values in ids.values()):
        return {name: values.astype(np.int64) for name, values in ids.items()}
    texts = {name: np.char.encode(values.astype(str), "utf-8") for name, values in ids.items()}
    width = max(1, *(text.dtype.itemsize for text in texts.values()))
    return {
        name: text.astype(f"S{width}").view(np.uint8).reshape(len(text), width)
        for name, text in texts.items()
    }


def decode_ids(stored: np.ndarray) -> np.ndarray:
    """Return ids from what `encode_ids` made of them: [n] integers or texts."""
    if stored.ndim == 1:
        return stored
    return np.char.decode(np.ascontiguousarray(stored).view(f"S{stored.shape[1]}")[:, 0], "utf-8")


class StoredFeatures:
    """Jacobian features Φ of one part, [n · b, p], read from disk or network by slices of rows.

    Each of the n samples has b rows. Every read is checked against the digests written with the
    chunk. Besides the result, the last chunk is held for the next slice.
    """

    def __init__(self, store: Any, split: str, name: str):
        """Open the features of a part.

        Args:
            store: a `FeatureStore`, not imported here, all of whose chunks are there.
            split: "train" or "val".
            name: of the array, [n, b, p].
        """
        (b, p), dtype = store.layout.arrays[name]
        self.shape = torch.Size((store.layout.sizes[split] * b, p))
        self.dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        self._store = store
        self._name = name
        self._rows_a_sample = b
        self._chunks = [chunk for chunk in store.chunks if chunk.split == split]
        self._cached: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Float[Tensor, "rows p"]:
        """Return neighbouring rows as a new tensor; raise `DamagedChunk` where one changed."""
        assert rows.step in (None, 1), "rows are read in their order"
        return self.take(torch.arange(len(self))[rows])

    def take(self, rows: Int[Tensor, " s"]) -> Float[Tensor, "s p"]:
        """Return rows in any order as a new tensor; each chunk is read once."""
        values = torch.empty(len(rows), self.shape[1], dtype=self.dtype)
        for chunk in self._chunks:
            start = chunk.start * self._rows_a_sample
            stop = chunk.stop * self._rows_a_sample
            is_in_chunk = (rows >= start) & (rows < stop)
            if bool(is_in_chunk.any()):
                values[is_in_chunk] = self._read_chunk(chunk)[rows[is_in_chunk] - start]
        return values

    def _read_chunk(self, chunk: Chunk) -> Float[Tensor, "rows p"]:
        """Return all rows of a chunk, from disk unless it was the last one read."""
        if self._cached is None or self._cached[0] != chunk.number:
            self._cached = None  # never two at a time
            values = torch.from_numpy(self._store.get(chunk.number, self._name))
            self._cached = chunk.number, values.flatten(0, 1)
        return self._cached[1]
