"""The eigenbases of an index: sums over parts of the samples, kept until they are whole."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.engine.base import Engine
from datassay.collect.gradients.blocks import Block
from datassay.errors import DatassayError
from datassay.progress import Progress, silent
from datassay.score.index.encoding import check_gradients
from datassay.score.index.segment import THREADS, fill, own_run, remove_folder
from datassay.score.influence.block_basis import (
    GRAM,
    LARGEST_SIDE,
    SIDES,
    SQUARES,
    BlockBasis,
    Sums,
    first_sums,
    fit_bases,
    kronecker_bases,
    square_sums,
)
from datassay.score.influence.short_training import left_to_learn
from datassay.score.influence.trained_network import TrainedNetwork
from datassay.store.chunks import Chunk
from datassay.store.features import FeatureStore, Layout, features_manifest

FOLDER = "curvature"
# Samples that the curvature is fitted to at most, drawn; moments of more change little.
MOST_FITTED = 2**14
# Parts of these at most, samples of one at least, and bytes that their sums take together.
MOST_PARTS = 16
SMALLEST_PART = 1024
SUM_BYTES = 2**31
WHOLE = "whole"
LEFT = "left"
RIGHT = "right"
EIGENVALUES = "eigenvalues"
DAMPING = "damping"
ADDED = "short training"


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over one part of the samples.

    Attributes:
        network: with all its training samples.
        small: names of exact blocks.
        bases: of the second pass; None: the first.
        places: of the samples that are fitted to.
        parts: how many they are split into.
        seed: of draws of outputs; each part has its own.
    """

    network: TrainedNetwork
    small: frozenset[str]
    bases: dict[str, BlockBasis] | None
    places: np.ndarray
    parts: int
    seed: int

    def arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        n = len(self.places)
        start, end = (n * number // self.parts for number in (chunk.number, chunk.number + 1))
        positions = self.places[start:end]
        return {
            name: t.cpu().numpy()[None] for name, t in self._sums(positions, chunk.number).items()
        }

    def template(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return names, shapes and types of all blocks' sums, whichever a sample uses."""
        return {
            f"{index}.{kind}": (shape, np.dtype(np.float64))
            for index, block in enumerate(self.network.per_sample.blocks)
            for kind, shape in self._shapes(block).items()
        }

    def _shapes(self, block: Block) -> dict[str, tuple[int, ...]]:
        """Return kind → shape of the sums that one block's curvature is fitted from."""
        if self.bases is not None:
            if block.name not in self.bases:
                return {}
            return {SQUARES: block.shape}
        if block.name in self.small:
            return {GRAM: (block.size, block.size)}
        layers = map(self.network.model.get_submodule, block.layers)
        is_sparse = any(isinstance(layer, nn.Embedding) for layer in layers)
        sides = dict(zip(SIDES, block.shape, strict=True))
        shapes: dict[str, tuple[int, ...]] = {
            side: (n, n)
            for side, n in sides.items()
            if 1 < n <= LARGEST_SIDE and not (is_sparse and side == SIDES[0])
        }
        return shapes | {SQUARES: block.shape}

    def _sums(self, positions: np.ndarray, number: int) -> dict[str, Tensor]:
        """Return the sums over one part, the `number`-th, by the names of `template`."""
        assert self.network.train.subset is not None
        subset = replace(
            self.network, train=self.network.train.subset(positions.tolist()), progress=silent
        )
        gradients = subset.roots(self.seed + number, "")
        blocks = self.network.per_sample.blocks
        if self.bases is None:
            sums = first_sums(blocks, gradients, set(self.small))
        else:
            sums = square_sums(self.bases, gradients)
        unused = torch.zeros(())  # of blocks that no sample of this part uses
        return {
            f"{index}.{kind}": sums.get((block.name, kind), unused.double().expand(shape))
            for index, block in enumerate(blocks)
            for kind, shape in self._shapes(block).items()
        }


def load_bases(
    location: str,
    run: Mapping[str, object],
    network: TrainedNetwork,
    small: frozenset[str],
    shift: Mapping[str, tuple[float, float]],
    seed: int,
    engine: Engine,
    progress: Progress,
) -> dict[str, BlockBasis]:
    """Read the bases from the store; fit and store them first where they are missing."""
    blocks = network.per_sample.blocks
    result = stored_bases(location, network, run)
    if result is None:
        try:
            fitting = _fit(location, run, network, small, shift, seed, engine, progress)
            _store(location, run, blocks, *fitting)
        except (DatassayError, OSError):
            # Another process that fits them at the same time may have removed the sums of both.
            if stored_bases(location, network, run) is None:
                raise
        # Read back: products of arrays that lie otherwise in memory round otherwise.
        result = stored_bases(location, network, run)
        assert result is not None
    for name in ("sums", "squares"):
        remove_folder(f"{location}/{name}")
    return result


def _fit(
    location, run, network, small, shift, seed, engine, progress
) -> tuple[dict[str, BlockBasis], float]:
    """Fit what `load_bases` loads; return it with the damping added for short training."""
    blocks = network.per_sample.blocks
    dtype = network.dtype
    n = min(network.n, MOST_FITTED)
    positions = np.sort(np.random.default_rng(seed).permutation(network.n)[:n])
    work = _Sums(replace(network, progress=silent), small, None, positions, 1, seed)
    sum_bytes = sum(8 * int(np.prod(shape)) for shape, _ in work.template().values())
    parts = n_parts(n, sum_bytes)

    def sum_parts(name: str, pass_work: _Sums) -> Sums:
        layout = Layout({"train": parts}, pass_work.template(), 1)
        store = FeatureStore(f"{location}/{name}", run, layout, {THREADS: torch.get_num_threads()})
        fill(store, pass_work.arrays, engine, progress, f"fit the curvature: {name}")
        total: Sums = {}
        for array in layout.arrays:
            position, _, kind = array.partition(".")
            total_sum = torch.from_numpy(store.get(0, array)[0])
            for p in range(1, parts):
                total_sum += torch.from_numpy(store.get(p, array)[0])
            total[blocks[int(position)].name, kind] = total_sum.to(network.device)
        return total

    work = replace(work, parts=parts)
    sums = sum_parts("sums", work)
    bases = kronecker_bases(blocks, sums, dtype)
    if bases:
        sums |= sum_parts("squares", replace(work, bases=bases))
    training = left_to_learn(network, run["damping"])
    bases = fit_bases(blocks, bases, sums, n, shift, training=training, spectral=True, dtype=dtype)
    check_gradients(bases)
    return bases, 0.0 if training is None else training.damping


def n_parts(n: int, size: float) -> int:
    """Return how many parts the samples are split into; each part's sums take `size` bytes."""
    return int(max(1, min(MOST_PARTS, n // SMALLEST_PART, SUM_BYTES // size)))


def _store(location, run, blocks: list[Block], bases: dict[str, BlockBasis], added: float) -> None:
    arrays: dict[str, np.ndarray] = {}
    for index, block in enumerate(blocks):
        if block.name in bases:
            basis = bases[block.name]
            stored = {
                WHOLE: basis.dense_basis, LEFT: basis.row_basis, RIGHT: basis.column_basis,
                EIGENVALUES: basis.eigenvalues,
            }  # fmt: skip
            for kind, array in stored.items():
                if array is not None:
                    arrays[f"{index}.{kind}"] = array.cpu().numpy()[None]
            arrays[f"{index}.{DAMPING}"] = np.array([basis.damping])
    layout = {name: [list(a.shape[1:]), a.dtype.str] for name, a in arrays.items()}
    _open_store(location, run, {"arrays": layout, ADDED: added}).put(0, arrays)


def _open_store(location: str, run: Mapping[str, object], meta: Mapping[str, Any]) -> FeatureStore:
    arrays = {n: (tuple(s), np.dtype(d)) for n, (s, d) in meta["arrays"].items()}
    return FeatureStore(f"{location}/{FOLDER}", run, Layout({"train": 1}, arrays, 1), meta)


def short_damping(location: str) -> float:
    """Return the damping added for short training; 0 also where an index does not say."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return 0.0
    return float(manifest["free"].get(ADDED, 0.0))


def stored_bases(
    location: str, network: TrainedNetwork, run: Mapping[str, object] | None = None
) -> dict[str, BlockBasis] | None:
    """Read an index's bases to where the network is; None where they were never finished."""
    # run: None: of any run.
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return None
    stored = manifest["free"]["arrays"]
    if run is None:
        run = own_run(manifest)
    store = _open_store(location, run, manifest["free"])
    if store.list_unfinished():
        return None
    results: dict[str, BlockBasis] = {}
    for index, block in enumerate(network.per_sample.blocks):
        if f"{index}.{DAMPING}" in stored:
            basis_arrays = {
                kind: torch.from_numpy(store.get(0, f"{index}.{kind}")[0]).to(network.device)
                for kind in (WHOLE, LEFT, RIGHT, EIGENVALUES)
                if f"{index}.{kind}" in stored
            }
            results[block.name] = BlockBasis(
                block,
                basis_arrays.get(WHOLE),
                basis_arrays.get(LEFT),
                basis_arrays.get(RIGHT),
                basis_arrays[EIGENVALUES],
                float(store.get(0, f"{index}.{DAMPING}")[0]),
            )
    return results
