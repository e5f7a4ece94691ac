"""The choice of an engine; local processes, which joblib starts, feeds and keeps."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from datassay.collect.engine.base import IN_PROCESS, Engine
from datassay.collect.engine.parcel import LARGE, compute, parcel, unpack
from datassay.collect.settings import Computing, check_engine
from datassay.errors import DatassayError, SettingError

SAFE_PATH = "PYTHONSAFEPATH"


class Processes(Engine):
    """An engine of local worker processes; large shared arrays are mapped by all of them."""

    def __init__(self, workers: int | None = None):
        """Set the number of processes; None: one per group of cores that a piece's threads take."""
        import joblib  # slow to import

        self.workers = workers or max(1, joblib.cpu_count() // torch.get_num_threads())

    def _map(self, function: Callable, shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of the pieces in their order, computed by worker processes."""
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        head, arrays = parcel(function, shared)
        call = joblib.delayed(_attempt)
        # "c": a worker may write to what it maps, and no one else sees it.
        settings = {"max_nbytes": LARGE, "mmap_mode": "c", "return_as": "generator"}
        parallel = joblib.Parallel(self.workers, backend="loky", **settings)
        with _exclude_current_folder():
            results: Any = parallel(call(head, piece, arrays) for piece in pieces)
            try:
                for result in results:
                    if isinstance(result, DatassayError):
                        raise result
                    yield unpack(result)
            except TerminatedWorkerError as error:
                raise SettingError(
                    f"worker processes must live until the last piece; one of {self.workers} ended "
                    "early, as the system does when memory is short. Use fewer workers; with a "
                    "store finished chunks are stored."
                ) from error
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # joblib's: it computed more than was taken
                    results.close()


@contextmanager
def _exclude_current_folder() -> Iterator[None]:
    """Keep processes started inside from importing modules of the current folder."""
    # joblib starts workers, also in place of dead ones, and processes that watch over their files,
    # by `python -m` and `python -c`, whose search path begins with the current folder.
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _attempt(*arguments: Any) -> Any:
    """Return the packed result or our error, which joblib would raise out of order."""
    try:
        return compute(*arguments)
    except DatassayError as error:
        return error


def engine_named(
    name: str | Engine, *, workers: int | None = Computing.workers,
    address: str | None = Computing.address,
) -> Engine:  # fmt: skip
    """Return the engine of this name: where chunks and scores are computed.

    Args:
        name: "in_process", "processes" (of this machine, by joblib), "ray", or the engine itself.
        workers: pieces at a time, at least 1; None: as many as the cores allow at this process's
            number of threads a piece.
        address: of a running Ray cluster, as `ray.init` takes it; None: the one that the process
            is connected to or RAY_ADDRESS names, else one of its own on this machine.

    Returns:
        The engine. What it starts ends with this process.

    Raises:
        SettingError: the name is unknown, workers or address does not belong to it, or Ray is not
            installed or cannot be reached.
    """
    if isinstance(name, Engine):
        return name
    check_engine(name, workers, address)
    if name == "processes":
        return Processes(workers)
    if name == "ray":
        from datassay.collect.engine.ray_cluster import RayCluster

        return RayCluster(workers, address)
    return IN_PROCESS
