"""Rows of the training samples, one store for the first samples and one for each time more came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.gradients.batches import Batches
from datassay.collect.store.chunks import Chunk
from datassay.collect.store.features import FeatureStore, Layout, features_manifest
from datassay.collect.store.ids import decoded, encoded
from datassay.errors import DataError, SettingError
from datassay.progress import silent
from datassay.score.index.curvature import own_run
from datassay.score.index.encoding import Encoding
from datassay.score.index.pieces import THREADS
from datassay.score.influence.trained_network import TrainedNetwork, weights_at

ROWS, SCALE, LENGTH, IDS = "rows", "scale", "length", "ids"
# Samples of a chunk: at most so many, and so many bytes.
MOST_SAMPLES, CHUNK_BYTES = 1024, 2**24
# Rows are divided by their largest value; then this type holds them.
PRECISIONS = {"float32": np.float32, "float16": np.float16, "int8": np.int8}
LARGEST = 127


@dataclass(frozen=True, slots=True)
class RowWork:
    """Rows of a chunk of samples.

    Attributes:
        network: whose gradients.
        samples: all of the segment.
        encoding: from gradients to rows.
        precision: of PRECISIONS.
        ids: [n], as the store keeps them.
    """

    network: TrainedNetwork
    samples: Batches
    encoding: Encoding
    precision: str
    ids: np.ndarray

    def arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Rows, their scales, squared lengths and ids, computed."""
        assert self.samples.subset is not None
        few = self.samples.subset(range(chunk.start, chunk.stop))
        network = replace(self.network, train=few, removed=None, progress=silent)
        found = list(self.encoding.rows_of(network))
        drawn = weights_at(few, 0, len(chunk))  # a sample drawn twice weighs two
        every = torch.cat([r for r, _ in found])
        rows, scale = quantised(every * drawn.to(every)[:, None], self.precision)
        lengths = torch.cat([lengths for _, lengths in found]).cpu().numpy() * drawn.numpy()
        return {ROWS: rows, SCALE: scale, LENGTH: lengths, IDS: self.ids[chunk.samples]}


def quantised(
    rows: Float[Tensor, "b width"], precision: str
) -> tuple[np.ndarray, Float[np.ndarray, " b"]]:
    """Rows in few bytes.

    Args:
        rows: of any scale.
        precision: of PRECISIONS.

    Returns:
        Rows divided by their scales, and the scales in float32: a row's largest value, over 127
        where integers hold it.
    """
    largest = rows.abs().amax(1) if rows.shape[1] else rows.new_zeros(len(rows))
    scale = torch.where(largest > 0, largest, 1.0).float()
    if precision == "int8":
        scale = scale / LARGEST
        return (rows / scale[:, None]).round().to(torch.int8).cpu().numpy(), scale.cpu().numpy()
    kept = (rows / scale[:, None]).cpu().numpy().astype(PRECISIONS[precision])
    return kept, scale.cpu().numpy()


class Segment:
    """Rows of some training samples, read checked; held in memory where asked to."""

    def __init__(self, store: FeatureStore):
        """Look at a store whose chunks are all there.

        Args:
            store: from `segment_store`.
        """
        self.store = store
        self.n = store.layout.sizes["train"]
        self._held: dict[int, Tensor] = {}

    @property
    def ids(self) -> np.ndarray:
        """[n], integers or texts."""
        return decoded(self._whole(IDS))

    @property
    def lengths(self) -> Float[np.ndarray, " n"]:
        """‖c‖² of every sample, of all its coordinates, at the temperature of self-influence."""
        return self._whole(LENGTH)

    @property
    def width(self) -> int:
        """Numbers a row."""
        return self.store.layout.arrays[ROWS][0][0]

    @property
    def bytes(self) -> int:
        """Of its rows, as they are kept."""
        (width,), dtype = self.store.layout.arrays[ROWS]
        return self.n * (width * dtype.itemsize + 4)

    def rows(self, chunk: Chunk, *, hold: bool) -> Float[Tensor, "b width"]:
        """Rows of a chunk, in float32.

        Args:
            chunk: of the store.
            hold: keep what was read for the next time, in float32.

        Returns:
            Not to be changed.

        Raises:
            DamagedChunk: it is not what was written.
        """
        held = self._held.get(chunk.number)
        if held is not None:
            return held
        scale = torch.from_numpy(self.store.get(chunk.number, SCALE))
        rows = torch.from_numpy(self.store.get(chunk.number, ROWS)).float() * scale[:, None]
        if hold:
            self._held[chunk.number] = rows
        return rows

    def _whole(self, name: str) -> np.ndarray:
        return np.concatenate([self.store.get(c.number, name) for c in self.store.chunks])


def segment_store(
    location: str,
    number: int,
    run: Mapping[str, object],
    n: int,
    width: int,
    precision: str,
    ids: np.ndarray,
    free: Mapping[str, object],
) -> FeatureStore:
    """Open or create the store of a segment.

    Args:
        location: of the index.
        number: of the segment; 0 is the first.
        run: what it belongs to.
        n: samples.
        width: numbers a row.
        precision: of PRECISIONS.
        ids: [n], as they are kept.
        free: what else to note.

    Returns:
        The store.

    Raises:
        SettingError: it belongs to something else, or the precision is unknown.
        DataError: it is damaged at its head, or cannot be written.
    """
    check_precision(precision)
    dtype = np.dtype(PRECISIONS[precision])
    chunk = samples_of_chunk(n, width * dtype.itemsize)
    arrays = {
        ROWS: ((width,), dtype),
        SCALE: ((), np.dtype(np.float32)),
        LENGTH: ((), np.dtype(np.float64)),
        IDS: (ids.shape[1:], ids.dtype),
    }
    kept = {name: [list(shape), d.str] for name, (shape, d) in arrays.items()}
    noted = {THREADS: torch.get_num_threads(), "arrays": kept, **free}
    return FeatureStore(_place(location, number), run, Layout({"train": n}, arrays, chunk), noted)


def samples_of_chunk(n: int, row_bytes: int) -> int:
    """Samples a chunk: chunks as equal as can be, since the last one takes the place of a whole.

    Args:
        n: samples.
        row_bytes: of a sample.

    Returns:
        At least 1.
    """
    most = max(1, min(MOST_SAMPLES, CHUNK_BYTES // max(1, row_bytes), n))
    return ceil(n / ceil(n / most))


def check_positions(samples: Batches, name: str) -> None:
    """Check that samples can be taken by position.

    Args:
        samples: of the training.
        name: of the argument, for errors.

    Raises:
        DataError: they are only iterated.
    """
    if samples.subset is None:
        raise DataError(
            f"{name} must be samples that have positions; these are iterated. Give a list, a "
            "Dataset or arrays."
        )


def check_precision(precision: str) -> None:
    """Check the name of a row's type.

    Args:
        precision: of PRECISIONS.

    Raises:
        SettingError: it is unknown.
    """
    if precision not in PRECISIONS:
        names = ", ".join(map(repr, PRECISIONS))
        raise SettingError(f"keep must be one of {names}; got {precision!r}.")


def segment_manifest(location: str, number: int) -> dict | None:
    """What a segment belongs to.

    Args:
        location: of the index.
        number: of the segment.

    Returns:
        Its manifest; None where there is none.

    Raises:
        DataError: it is damaged or cannot be read.
    """
    return features_manifest(_place(location, number))


def stored_segment(location: str, number: int, manifest: dict) -> FeatureStore:
    """A segment's store, as it was made.

    Args:
        location: of the index.
        number: of the segment.
        manifest: from `segment_manifest`.

    Returns:
        The store.

    Raises:
        DataError: it is damaged at its head or cannot be read.
    """
    free, run = manifest["free"], manifest["run"]
    arrays = {name: (tuple(shape), np.dtype(d)) for name, (shape, d) in free["arrays"].items()}
    layout = Layout(run["samples"], arrays, run["chunk"])
    return FeatureStore(_place(location, number), own_run(manifest), layout, free)


def _place(location: str, number: int) -> str:
    return f"{location}/rows-{number}"


def as_kept(ids: np.ndarray) -> np.ndarray:
    """Ids as a store keeps them.

    Args:
        ids: [n], integers or texts.

    Returns:
        Integers or bytes.
    """
    return encoded({"train": ids})["train"]
