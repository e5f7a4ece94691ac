"""The eigenbases of an index: sums over parts of the samples, kept until they are whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datassay.collect.engine.base import Engine
from datassay.collect.gradients.blocks import Block
from datassay.progress import Progress, silent
from datassay.score.index.segment import THREADS, fill, own_run, removed
from datassay.score.influence.block_basis import (
    BlockBasis,
    Sums,
    first_sums,
    fitted,
    square_sums,
    unfitted,
)
from datassay.score.influence.short_training import left_to_learn
from datassay.score.influence.trained_network import TrainedNetwork
from datassay.store.chunks import Chunk
from datassay.store.features import FeatureStore, Layout, features_manifest

FOLDER = "curvature"
# Samples that the curvature is fitted to at most, drawn; moments of more change little.
MOST_FITTED = 2**14
# Parts of these at most, samples of one at least, and bytes that their sums take together.
MOST_PARTS, SMALLEST_PART, SUM_BYTES = 16, 1024, 2**31
WHOLE, LEFT, RIGHT, EIGENVALUES, DAMPING = "whole", "left", "right", "eigenvalues", "damping"
ADDED = "short training"


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over one part of the samples.

    Attributes:
        network: with all its training samples.
        small: names of exact blocks.
        bases: of the second pass; None: the first.
        places: of the samples that are fitted to.
        starts: of the parts among these, and their number.
        seed: of draws of outputs; each part has its own.
    """

    network: TrainedNetwork
    small: frozenset[str]
    bases: dict[str, BlockBasis] | None
    places: np.ndarray
    starts: tuple[int, ...]
    seed: int

    def arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        positions = self.places[self.starts[chunk.number] : self.starts[chunk.number + 1]]
        return {
            name: t.cpu().numpy()[None] for name, t in self._sums(positions, chunk.number).items()
        }

    def template(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Names, shapes and types, by the sums of one sample."""
        result = self._sums(self.places[:1], 0)
        return {name: (tuple(t.shape), np.dtype(np.float64)) for name, t in result.items()}

    def _sums(self, positions: np.ndarray, part: int) -> dict[str, Tensor]:
        assert self.network.train.subset is not None
        few = replace(
            self.network, train=self.network.train.subset(positions.tolist()), progress=silent
        )
        gradients = few.roots(self.seed + part, "")
        blocks = self.network.per_sample.blocks
        number = {block.name: i for i, block in enumerate(blocks)}
        if self.bases is None:
            sums = first_sums(blocks, gradients, set(self.small))
        else:
            sums = square_sums(self.bases, gradients)
        return {f"{number[name]}.{kind}": tensor for (name, kind), tensor in sums.items()}


def kept_bases(
    location: str,
    run: Mapping[str, object],
    network: TrainedNetwork,
    small: frozenset[str],
    shift: Mapping[str, tuple[float, float]],
    seed: int,
    engine: Engine,
    progress: Progress,
) -> dict[str, BlockBasis]:
    """Bases from the store; fitted and stored where they are not there."""
    blocks = network.per_sample.blocks
    result = stored_bases(location, blocks, run)
    if result is None:
        fitting = _fitted(location, run, network, small, shift, seed, engine, progress)
        _store(location, run, blocks, *fitting)
        # Read back: products of arrays that lie otherwise in memory round otherwise.
        result = stored_bases(location, blocks, run)
        assert result is not None
    for name in ("sums", "squares"):
        removed(f"{location}/{name}")
    return result


def _fitted(
    location, run, network, small, shift, seed, engine, progress
) -> tuple[dict[str, BlockBasis], float]:
    """The bases, and what short training added to their damping."""
    blocks, n = network.per_sample.blocks, min(network.n, MOST_FITTED)
    positions = np.sort(np.random.default_rng(seed).permutation(network.n)[:n])
    first = _Sums(replace(network, progress=silent), small, None, positions, (0, n), seed)
    size = sum(8 * int(np.prod(shape)) for shape, _ in first.template().values())
    parts = n_parts(n, size)
    starts = tuple(n * i // parts for i in range(parts + 1))

    def summed(name: str, work: _Sums) -> Sums:
        layout = Layout({"train": parts}, work.template(), 1)
        store = FeatureStore(f"{location}/{name}", run, layout, {THREADS: torch.get_num_threads()})
        fill(store, work.arrays, engine, progress, f"fit the curvature: {name}")
        total: Sums = {}
        for array in layout.arrays:
            position, _, kind = array.partition(".")
            whole = torch.from_numpy(store.get(0, array)[0])
            for part in range(1, parts):
                whole += torch.from_numpy(store.get(part, array)[0])
            total[blocks[int(position)].name, kind] = whole
        return total

    first = replace(first, starts=starts)
    sums = summed("sums", first)
    bases = unfitted(blocks, sums, network.dtype)
    if bases:
        sums |= summed("squares", replace(first, bases=bases))
    left = left_to_learn(network, run["damping"])
    bases = fitted(blocks, bases, sums, n, shift, left=left, spectral=True, dtype=network.dtype)
    return bases, 0.0 if left is None else left.damping


def n_parts(n: int, size: float) -> int:
    """In how many parts of the samples sums of `size` bytes are kept until all are there."""
    return int(max(1, min(MOST_PARTS, n // SMALLEST_PART, SUM_BYTES // size)))


def _store(location, run, blocks: list[Block], bases: dict[str, BlockBasis], added: float) -> None:
    arrays: dict[str, np.ndarray] = {}
    for index, block in enumerate(blocks):
        if block.name in bases:
            basis = bases[block.name]
            for kind in (WHOLE, LEFT, RIGHT, EIGENVALUES):
                if getattr(basis, kind) is not None:
                    arrays[f"{index}.{kind}"] = getattr(basis, kind).cpu().numpy()[None]
            arrays[f"{index}.{DAMPING}"] = np.array([basis.damping])
    kept = {name: [list(a.shape[1:]), a.dtype.str] for name, a in arrays.items()}
    _opened(location, run, {"arrays": kept, ADDED: added}).put(0, arrays)


def _opened(location: str, run: Mapping[str, object], free: Mapping[str, Any]) -> FeatureStore:
    arrays = {n: (tuple(s), np.dtype(d)) for n, (s, d) in free["arrays"].items()}
    return FeatureStore(f"{location}/{FOLDER}", run, Layout({"train": 1}, arrays, 1), free)


def short_damping(location: str) -> float:
    """What short training added to the damping; 0 also where an index does not say."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    return 0.0 if manifest is None else float(manifest["free"].get(ADDED, 0.0))


def stored_bases(
    location: str, blocks: list[Block], run: Mapping[str, object] | None = None
) -> dict[str, BlockBasis] | None:
    """The bases of an index; None where they were never finished. `run` None: whatever is there."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return None
    kept = manifest["free"]["arrays"]
    run = own_run(manifest) if run is None else run
    store = _opened(location, run, manifest["free"])
    if store.list_unfinished():
        return None
    results: dict[str, BlockBasis] = {}
    for index, block in enumerate(blocks):
        if f"{index}.{DAMPING}" in kept:
            parts = {
                kind: torch.from_numpy(store.get(0, f"{index}.{kind}")[0])
                for kind in (WHOLE, LEFT, RIGHT, EIGENVALUES)
                if f"{index}.{kind}" in kept
            }
            results[block.name] = BlockBasis(
                block,
                parts.get(WHOLE),
                parts.get(LEFT),
                parts.get(RIGHT),
                parts[EIGENVALUES],
                float(store.get(0, f"{index}.{DAMPING}")[0]),
            )
    return results
