"""Chunks of a store that are computed where they are missing, by any engine, with the same bits."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from datassay.collect.engine.base import Engine
from datassay.machine import thread_count
from datassay.progress import Progress
from datassay.store.chunks import Chunk
from datassay.store.features import FeatureStore
from datassay.store.location import file_system, shown

logger = logging.getLogger(__name__)

THREADS = "threads"


# Computes a chunk from nothing but itself and the chunk: array → [samples of the chunk, ...].
Work = Callable[[Chunk], dict[str, np.ndarray]]


def fill(store: FeatureStore, work: Work, engine: Engine, progress: Progress, step: str) -> None:
    """Compute and store the missing and the damaged chunks, each written where it is computed."""
    survey = store.survey()
    log = logger.warning if survey.damaged else logger.info
    log("%s: %s.", shown(store.location), survey.sentence)
    missing = [chunk for chunk in store.chunks if chunk.number not in set(survey.complete)]
    total = sum(map(len, store.chunks))
    done = total - sum(map(len, missing))
    results = engine.map(_put, (store, work), missing)
    for chunk, _ in zip(missing, results, strict=True):
        done += len(chunk)
        progress(step, done, total)


def _put(shared: tuple[FeatureStore, Work], chunk: Chunk) -> None:
    store, work = shared
    with thread_count(int(store.free[THREADS])):
        store.put(chunk.number, work(chunk))


def removed(location: str) -> None:
    """Delete a folder of an index; one that is not there stays so."""
    files, root = file_system(location)
    if files.exists(root):
        files.rm(root, recursive=True)
