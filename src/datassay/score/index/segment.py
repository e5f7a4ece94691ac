"""Rows of the training samples: one store for the first samples and one for each time more came."""

import errno
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from datassay.collect.engine.base import Engine
from datassay.collect.gradients.batches import Batches
from datassay.machine import thread_count
from datassay.progress import Progress, silent
from datassay.score.index.encoding import GradientEncoding
from datassay.score.influence.trained_network import TrainedNetwork, weights_at
from datassay.store.chunks import Chunk, decode_ids, encode_ids
from datassay.store.digests import digest_of_values
from datassay.store.features import FeatureStore, Layout, features_manifest
from datassay.store.location import file_system
from datassay.store.manifest import read_manifest, seal, unseal, write_new, writing

logger = logging.getLogger(__name__)

THREADS = "threads"
PARTS, PARTS_FILE = "parts", "parts.json"


# Computes a chunk from nothing but itself and the chunk: array → [samples of the chunk, ...].
Work = Callable[[Chunk], dict[str, np.ndarray]]


def fill(store: FeatureStore, work: Work, engine: Engine, progress: Progress, step: str) -> None:
    """Compute and store the missing or damaged chunks, on the engine."""
    complete = store.list_complete()
    missing = [chunk for chunk in store.chunks if chunk.number not in complete]
    total = sum(map(len, store.chunks))
    done = total - sum(map(len, missing))
    results = engine.map(_compute_and_store, (store, work), missing)
    for chunk, _ in zip(missing, results, strict=True):
        done += len(chunk)
        progress(step, done, total)


def _compute_and_store(shared: tuple[FeatureStore, Work], chunk: Chunk) -> None:
    """Compute and store one chunk with the store's number of threads; runs on the engine."""
    store, work = shared
    with thread_count(int(store.free[THREADS])):
        store.put(chunk.number, work(chunk))


def remove_folder(location: str) -> None:
    """Delete a folder of an index if it exists, though other processes may use it."""
    files, root = file_system(location)
    with writing(location):
        while files.exists(root):
            try:
                files.rm(root, recursive=True)
            except FileNotFoundError:  # by type, as that of a URL has no errno
                continue
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise


ROWS = "rows"
SCALE, SCALE_BYTES = "scale", 4
LENGTH = "length"
IDS = "ids"
# Samples of a chunk: at most so many, and so many bytes.
MOST_SAMPLES = 1024
CHUNK_BYTES = 2**24


@dataclass(frozen=True, slots=True)
class RowWork:
    """What computes a chunk of a segment's rows.

    Attributes:
        network: whose gradients are taken.
        samples: all n of the segment.
        encoding: from gradients to rows.
        ids: [n], as the store keeps them.
    """

    network: TrainedNetwork
    samples: Batches
    encoding: GradientEncoding
    ids: np.ndarray

    def arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Return a chunk's packed gradient rows, scales, squared norms and ids."""
        assert self.samples.subset is not None
        chunk_samples = self.samples.subset(range(chunk.start, chunk.stop))
        network = replace(self.network, train=chunk_samples, removed=None, progress=silent)
        batches = list(self.encoding.rows_of(network))
        weight = weights_at(chunk_samples, 0, len(chunk)).numpy()  # a sample drawn twice weighs two
        packed, scale = self.encoding.sketch.pack(torch.cat([rows for rows, _ in batches]))
        scale = (scale * weight).astype(np.float32)
        lengths = torch.cat([lengths for _, lengths in batches]).cpu().numpy() * weight
        return {ROWS: packed, SCALE: scale, LENGTH: lengths, IDS: self.ids[chunk.samples]}


class Segment:
    """Rows of some training samples, read checked; held in memory where asked to."""

    def __init__(self, store: FeatureStore):
        """Look at a store whose chunks are all there."""
        self.store = store
        self.n = store.layout.sizes["train"]
        self._held: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def ids(self) -> np.ndarray:
        """Sample ids, [n], integers or texts."""
        return decode_ids(self._read_all(IDS))

    @property
    def lengths(self) -> Float[np.ndarray, " n"]:
        """‖c‖² of every sample, by all its coordinates, at the temperature of self-influence."""
        return self._read_all(LENGTH)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as it is stored: its numbers and its scale."""
        (n_bytes,), _ = self.store.layout.arrays[ROWS]
        return n_bytes + SCALE_BYTES

    def rows(self, chunk: Chunk, *, holds: bool) -> tuple[np.ndarray, Float[np.ndarray, " b"]]:
        """Return a chunk's packed rows and scales; holds: keep them in memory."""
        rows = self._held.get(chunk.number)
        if rows is None:
            rows = (self.store.get(chunk.number, ROWS), self.store.get(chunk.number, SCALE))
            if holds:
                self._held[chunk.number] = rows
        return rows

    def _read_all(self, name: str) -> np.ndarray:
        return np.concatenate([self.store.get(chunk.number, name) for chunk in self.store.chunks])


def segment_store(
    location: str,
    number: int,
    run: Mapping[str, object],
    n: int,
    n_bytes: int,
    ids: np.ndarray,
    extra: Mapping[str, object],
) -> FeatureStore:
    """Return the store of a segment's n gradient rows; raise if it is another run's."""
    # A segment holds the samples of one `index` or `append` call. number: 0 for the first. run:
    # what the rows belong to. n_bytes: of a row without its scale. ids: by `encode_sample_ids`.
    # extra: further entries of the manifest.
    chunk = samples_of_chunk(n, n_bytes)
    arrays = {
        ROWS: ((n_bytes,), np.dtype(np.uint8)),
        SCALE: ((), np.dtype(np.float32)),
        LENGTH: ((), np.dtype(np.float64)),
        IDS: (ids.shape[1:], ids.dtype),
    }
    shapes = {name: [list(shape), d.str] for name, (shape, d) in arrays.items()}
    meta = {THREADS: torch.get_num_threads(), "arrays": shapes, **extra}
    return FeatureStore(_place(location, number), run, Layout({"train": n}, arrays, chunk), meta)


def samples_of_chunk(n: int, row_bytes: int) -> int:
    """Return the number of samples per chunk, such that all chunks are about equal."""
    limit = max(1, min(MOST_SAMPLES, CHUNK_BYTES // max(1, row_bytes), n))
    n_chunks = ceil(n / limit)
    return ceil(n / n_chunks)


def note_parts(location: str, index_digest: str) -> None:
    """Record which segments are finished, so that a lost one is noticed later."""
    # All from the first: a part that was finished but not noted is noted with the next one.
    digests = []
    while (manifest := segment_manifest(location, len(digests))) is not None:
        is_own = manifest["run"].get("of") == index_digest
        if not is_own or stored_segment(location, len(digests), manifest).list_unfinished():
            break
        digests.append(digest_of_values(manifest["run"]))
    if len(digests) > len(noted_parts(location) or []):
        content = json.dumps(seal({"run": {"of": index_digest}, PARTS: digests})).encode()
        with writing(location):
            write_new(f"{location}/{PARTS}", PARTS_FILE, content, replace=True)


def noted_parts(location: str) -> list[str] | None:
    """Return a digest per finished segment; None if nothing was finished."""
    content = read_manifest(f"{location}/{PARTS}", PARTS_FILE, unseal)
    if content is None:
        return None
    return content[PARTS]


def segment_manifest(location: str, number: int) -> dict | None:
    """Return the manifest of a segment's store; None where there is none."""
    return features_manifest(_place(location, number))


def stored_segment(location: str, number: int, manifest: dict) -> FeatureStore:
    """Return a segment's store, opened by its manifest."""
    meta = manifest["free"]
    run = manifest["run"]
    arrays = {name: (tuple(shape), np.dtype(d)) for name, (shape, d) in meta["arrays"].items()}
    layout = Layout(run["samples"], arrays, run["chunk"])
    return FeatureStore(_place(location, number), own_run(manifest), layout, meta)


def _place(location: str, number: int) -> str:
    return f"{location}/rows-{number}"


def encode_sample_ids(ids: np.ndarray) -> np.ndarray:
    """Encode ids as a store keeps them: integers or bytes."""
    return encode_ids({"train": ids})["train"]


def own_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a store's `run` as it was given, without the entries that every store adds."""
    added = ("format", "chunk", "samples")
    return {name: value for name, value in manifest["run"].items() if name not in added}
