"""Pieces as tasks of a Ray cluster, which schedules them, moves what they need and retries them.

Imported only when this engine is chosen.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datassay.collect.engine.base import Engine, tree_sum
from datassay.collect.engine.parcel import Parcel, compute, pack, parcel, unpack
from datassay.errors import SettingError, install

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise SettingError(
        f"engine 'ray' needs Ray, which is not installed; run {install('ray')}."
    ) from error

# Times that a piece is begun again because its worker or node died.
RETRIES = 20
# Pieces submitted before their results are taken, per worker slot.
AHEAD = 2


class RayCluster(Engine):
    """An engine of tasks on all nodes; shared arrays lie in the object store, once a node."""

    def __init__(self, workers: int | None = None, address: str | None = None):
        """Attach to the cluster at an address, or start Ray here with so many workers."""
        threads = torch.get_num_threads()
        _connect(workers, address, threads)
        cores = [int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["Alive"]]
        slots = sum(c // threads for c in cores)
        if not slots:
            raise SettingError(
                f"a node must have a core for each of a piece's {threads} threads; the cluster's "
                f"nodes have {cores}. Set OMP_NUM_THREADS to fewer."
            )
        self._ahead = AHEAD * slots
        self._compute = ray.remote(num_cpus=threads, max_retries=RETRIES)(_compute)
        # Sums are short and wait for no more than their parts: they take no core from pieces.
        self._add = ray.remote(num_cpus=0, max_retries=RETRIES)(_add)

    def _map(self, function: Callable, shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of the pieces in their order, computed by Ray tasks."""
        start_task = self._make_starter(function, shared)
        running: deque = deque()
        for piece in pieces:
            running.append(start_task(piece))
            if len(running) > self._ahead:  # results that nobody takes yet fill the store
                yield _fetch_result(running.popleft())
        while running:
            yield _fetch_result(running.popleft())

    def sum(
        self,
        function: Callable[[Any, Any], Tensor],
        shared: Any,
        pieces: Sequence[Any],
        done: Callable[[Any], object],
    ) -> Tensor:
        """Sum along a tree of Ray tasks; only the total is fetched."""
        if len(pieces) < 2:
            return super().sum(function, shared, pieces, done)
        leaves = deque(map(self._make_starter(function, shared), pieces))
        total = tree_sum(leaves, self._add.remote)
        for piece in pieces:
            # References are dropped one by one: a leaf that is added up is no longer needed.
            ray.wait([leaves.popleft()], fetch_local=False)
            done(piece)
        return _fetch_result(total)

    def _make_starter(self, function: Callable, shared: Any) -> Callable[[Any], Any]:
        """Return a function that starts a piece as a Ray task and returns its promise."""
        head, arrays = parcel(function, shared)
        references = [ray.put(array) for array in arrays]
        return lambda piece: self._compute.remote(head, piece, *references)


def _connect(workers: int | None, address: str | None, threads: int) -> None:
    """Join a running Ray cluster, or start one of this process's own."""
    address = address or os.environ.get("RAY_ADDRESS")
    is_connected = ray.is_initialized()
    if workers is not None and (is_connected or address):
        raise SettingError(
            f"workers belongs to a Ray that starts here; got {workers} for a cluster that runs "
            "already and has its own. Leave it out."
        )
    if is_connected:
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "WARNING"}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            cores = None
            if workers is not None:
                cores = workers * threads
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    except (RayError, OSError, RuntimeError, ValueError) as error:
        place = "on this machine"
        if address:
            place = f"at {address}"
        raise SettingError(f"Ray must answer {place}; it does not: {error}.") from error


def _compute(head: Parcel, piece: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    return compute(head, piece, arrays)


def _add(sums: list[np.ndarray], other_sums: list[np.ndarray]) -> list[np.ndarray]:
    return pack(unpack(sums) + unpack(other_sums))


def _fetch_result(promise: Any) -> Any:
    """Return a piece's result when ready; raise its error, or SettingError for the cluster's."""
    try:
        # Copies, for what lies in the object store is read-only and gone with its node.
        return unpack([array.copy(order="K") for array in ray.get(promise)])
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise SettingError(
            f"the cluster must finish a piece within {RETRIES} retries; it did not: {error}. Look "
            "at its memory and logs; with a store finished chunks are stored."
        ) from error
