"""Pieces in local processes, which joblib starts, feeds and keeps for the next pass."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from datassay.collect.engine.base import Engine
from datassay.collect.engine.parcel import LARGE, compute, parcel, unpack
from datassay.errors import DatassayError, SettingError

SAFE_PATH = "PYTHONSAFEPATH"


class Processes(Engine):
    """Local worker processes; large shared arrays are mapped by all of them."""

    def __init__(self, workers: int | None = None):
        """So many processes; None: one for each group of cores that a piece's threads take."""
        self.workers = workers or max(1, joblib.cpu_count() // torch.get_num_threads())

    def _map(self, function: Callable, shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        of, arrays = parcel(function, shared)
        call = joblib.delayed(_attempt)
        # "c": a worker may write to what it maps, and no one else sees it.
        settings = {"max_nbytes": LARGE, "mmap_mode": "c", "return_as": "generator"}
        parallel = joblib.Parallel(self.workers, backend="loky", **settings)
        with _safe_path():
            results: Any = parallel(call(of, piece, arrays) for piece in pieces)
            try:
                for result in results:
                    if isinstance(result, DatassayError):
                        raise result
                    yield unpack(result)
            except TerminatedWorkerError as error:
                raise SettingError(
                    f"worker processes must live until the last piece; one of {self.workers} ended "
                    "early, as the system does when memory is short. Use fewer workers; with a "
                    "store finished chunks are kept."
                ) from error
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # joblib's: it computed more than was taken
                    results.close()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes started inside do not import modules of the current folder.

    joblib starts workers, and again where one died, and the processes that watch over their files,
    by `python -m` and `python -c`, whose search path begins with the current folder.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _attempt(*sent: Any) -> Any:
    """The packed result, or our error: joblib would raise the first in time, not in order."""
    try:
        return compute(*sent)
    except DatassayError as error:
        return error
