"""Jacobian features that stay in their store; rows are read on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.store.chunks import Chunk

if TYPE_CHECKING:  # every linearisation names this class, few need Zarr
    from datassay.collect.store.features import FeatureStore


class StoredFeatures:
    """Φ of one part, [rows, p], read from disk or network one slice of rows at a time.

    Every read is checked against the digests written with the chunk.
    """

    def __init__(self, store: FeatureStore, part: str, name: str):
        """Features of a part.

        Args:
            store: all of whose chunks are there.
            part: "train" or "val".
            name: of the array, [n, b, p].
        """
        (b, p), dtype = store.layout.arrays[name]
        self.shape = torch.Size((store.layout.sizes[part] * b, p))
        self.dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        self._store, self._name, self._rows_a_sample = store, name, b
        self._chunks = [chunk for chunk in store.chunks if chunk.part == part]
        self._last: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Float[Tensor, "rows p"]:
        """Some neighbouring rows.

        Args:
            rows: start and stop; every step is 1.

        Returns:
            A new tensor.

        Raises:
            DamagedChunk: the store is no longer what was collected; names the chunk.

        Cost: reads the chunks that the rows lie in; holds one of them beside the result, which
        serves the next slice.
        """
        start, stop, step = rows.indices(len(self))
        assert step == 1, "rows are read in their order"
        values = torch.empty(max(0, stop - start), self.shape[1], dtype=self.dtype)
        for chunk in self._chunks:
            first, last = chunk.start * self._rows_a_sample, chunk.stop * self._rows_a_sample
            lower, upper = max(start, first), min(stop, last)
            if lower < upper:
                values[lower - start : upper - start] = self._chunk(chunk)[
                    lower - first : upper - first
                ]
        return values

    def take(self, rows: Int[Tensor, " s"]) -> Float[Tensor, "s p"]:
        """Some rows, in any order.

        Args:
            rows: positions.

        Returns:
            A new tensor.

        Raises:
            DamagedChunk: as for a slice.

        Cost: reads the chunks that the rows lie in, each once.
        """
        values = torch.empty(len(rows), self.shape[1], dtype=self.dtype)
        for chunk in self._chunks:
            first, last = chunk.start * self._rows_a_sample, chunk.stop * self._rows_a_sample
            here = (rows >= first) & (rows < last)
            if bool(here.any()):
                values[here] = self._chunk(chunk)[rows[here] - first]
        return values

    def _chunk(self, chunk: Chunk) -> Float[Tensor, "rows p"]:
        if self._last is None or self._last[0] != chunk.number:
            self._last = None  # never two at a time
            values = torch.from_numpy(self._store.get(chunk.number, self._name))
            self._last = chunk.number, values.flatten(0, 1)
        return self._last[1]
