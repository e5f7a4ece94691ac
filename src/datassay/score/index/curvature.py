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
    SIDES,
    SQUARES,
    BlockBasis,
    Sums,
    first_sums,
    fit_bases,
    kronecker_bases,
    square_sums,
)
from datassay.score.influence.exact_blocks import LARGEST_SIDE, Penalty
from datassay.score.influence.short_training import left_to_learn
from datassay.score.influence.trained_network import TrainedNetwork
from datassay.store.chunks import Chunk
from datassay.store.features import FeatureStore, Layout, features_manifest

FOLDER = "curvature"
# Samples that the curvature is fitted to at most, drawn; moments of more change little.
MOST_FITTED = 2**14
# They are split into parts, chunks of work for the engine.
MOST_PARTS = 16
SMALLEST_PART = 1024  # samples
SUM_BYTES = 2**31  # that the sums of all parts take at most
# Names of stored arrays, and of what short training added to the damping.
WHOLE = "whole"
LEFT = "left"
RIGHT = "right"
EIGENVALUES = "eigenvalues"
DAMPING = "damping"
ADDED = "short training"


@dataclass(frozen=True, slots=True)
class _SumWork:
    """One pass over the samples, part by part: the sums that curvature is fitted from.

    Attributes:
        network: with all its training samples.
        exact_names: of exact blocks.
        bases: None: the first pass, for the bases; then the second, for the eigenvalues in them.
        positions: of the samples that are fitted to, rising.
        n_parts: how many they are split into.
        seed: of draws of outputs; part i has seed + i.
    """

    network: TrainedNetwork
    exact_names: frozenset[str]
    bases: dict[str, BlockBasis] | None
    positions: np.ndarray
    n_parts: int
    seed: int

    def arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Return a part's curvature sums as the store keeps them, [1, ...] each."""
        n = len(self.positions)
        start, end = (n * number // self.n_parts for number in (chunk.number, chunk.number + 1))
        sums = self._compute_sums(self.positions[start:end], chunk.number)
        return {name: total.cpu().numpy()[None] for name, total in sums.items()}

    def template(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return {name: (shape, type)} of all blocks' sums."""
        return {
            f"{index}.{kind}": (shape, np.dtype(np.float64))
            for index, block in enumerate(self.network.per_sample.blocks)
            for kind, shape in self._list_shapes(block).items()
        }

    def _list_shapes(self, block: Block) -> dict[str, tuple[int, ...]]:
        """Return {kind: shape} of the sums that a block's curvature is fitted from."""
        if self.bases is not None:
            if block.name not in self.bases:
                return {}
            return {SQUARES: block.shape}
        if block.name in self.exact_names:
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

    def _compute_sums(self, positions: np.ndarray, number: int) -> dict[str, Tensor]:
        """Return {name: sum} over the samples of part `number`."""
        assert self.network.train.subset is not None
        subset = replace(
            self.network, train=self.network.train.subset(positions.tolist()), progress=silent
        )
        gradients = subset.roots(self.seed + number, "")
        blocks = self.network.per_sample.blocks
        if self.bases is None:
            sums = first_sums(blocks, gradients, set(self.exact_names))
        else:
            sums = square_sums(self.bases, gradients)
        zero = torch.zeros((), dtype=torch.float64)  # for blocks that no sample of the part uses
        return {
            f"{index}.{kind}": sums.get((block.name, kind), zero.expand(shape))
            for index, block in enumerate(blocks)
            for kind, shape in self._list_shapes(block).items()
        }


def load_bases(
    location: str,
    run: Mapping[str, object],
    network: TrainedNetwork,
    exact_names: frozenset[str],
    penalty_of: Mapping[str, Penalty],
    seed: int,
    engine: Engine,
    progress: Progress,
) -> dict[str, BlockBasis]:
    """Return the bases from the store, fitted and stored first where they are missing."""
    # exact_names: of exact blocks. penalty_of: by block's name, as of `penalties`.
    blocks = network.per_sample.blocks
    bases = stored_bases(location, network, run)
    if bases is None:
        try:
            fitted, added = _fit_bases(
                location, run, network, exact_names, penalty_of, seed, engine, progress
            )
            _store_bases(location, run, blocks, fitted, added)
        except (DatassayError, OSError):
            # Another process that fits them at the same time may have removed the sums of both.
            if stored_bases(location, network, run) is None:
                raise
        # Read back: products of arrays that lie otherwise in memory round otherwise.
        bases = stored_bases(location, network, run)
        assert bases is not None
    for name in ("sums", "squares"):
        remove_folder(f"{location}/{name}")
    return bases


def _fit_bases(
    location, run, network, exact_names, penalty_of, seed, engine, progress
) -> tuple[dict[str, BlockBasis], float]:
    """Return the fitted bases and the damping added for short training."""
    blocks = network.per_sample.blocks
    dtype = network.dtype
    n = min(network.n, MOST_FITTED)
    positions = np.sort(np.random.default_rng(seed).permutation(network.n)[:n])
    work = _SumWork(replace(network, progress=silent), exact_names, None, positions, 1, seed)
    sum_bytes = sum(8 * int(np.prod(shape)) for shape, _ in work.template().values())
    parts = n_parts(n, sum_bytes)

    def sum_parts(name: str, pass_work: _SumWork) -> Sums:
        """Return one pass's sums over all parts; each part's are stored under `name` first."""
        layout = Layout({"train": parts}, pass_work.template(), 1)
        store = FeatureStore(f"{location}/{name}", run, layout, {THREADS: torch.get_num_threads()})
        fill(store, pass_work.arrays, engine, progress, f"fit the curvature: {name}")
        totals: Sums = {}
        for array in layout.arrays:
            block_number, _, kind = array.partition(".")
            total = torch.from_numpy(store.get(0, array)[0])
            for i in range(1, parts):
                total += torch.from_numpy(store.get(i, array)[0])
            totals[blocks[int(block_number)].name, kind] = total.to(network.device)
        return totals

    work = replace(work, n_parts=parts)
    sums = sum_parts("sums", work)
    bases = kronecker_bases(blocks, sums, dtype)
    if bases:
        sums |= sum_parts("squares", replace(work, bases=bases))
    training = left_to_learn(network, run["damping"])
    bases = fit_bases(
        blocks, bases, sums, n, penalty_of, training=training, is_spectral=True, dtype=dtype
    )
    check_gradients(bases)
    return bases, 0.0 if training is None else training.damping


def n_parts(n: int, part_bytes: float) -> int:
    """Return how many parts n samples are split into; each part's sums take `part_bytes`."""
    return int(max(1, min(MOST_PARTS, n // SMALLEST_PART, SUM_BYTES // part_bytes)))


def _store_bases(
    location, run, blocks: list[Block], bases: dict[str, BlockBasis], added: float
) -> None:
    """Write the bases' arrays and damping; blocks without curvature have none."""
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
    """Return the damping that an index added for short training; 0 if not recorded."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return 0.0
    return float(manifest["free"].get(ADDED, 0.0))


def stored_bases(
    location: str, network: TrainedNetwork, run: Mapping[str, object] | None = None
) -> dict[str, BlockBasis] | None:
    """Return an index's bases on the network's device; None if they are incomplete."""
    # run: what they must belong to; None: whatever they were made for.
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
