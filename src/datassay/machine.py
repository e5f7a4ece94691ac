"""Speed of this machine and memory of this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


# Values of an array from which on two threads are worth their start.
SMALL = 2**22
# What torch and NumPy say, not as MemoryError, of arrays that no memory holds.
TOO_LARGE = (
    "allocate memory",
    "out of memory",
    "Storage size calculation overflowed",
    "Maximum allowed dimension exceeded",
    "array is too big",
)


def resident_bytes() -> float:
    """Return this process's resident memory in bytes, or its peak where only that is known."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) * (1 if sys.platform == "darwin" else 1024)


def release_memory() -> None:
    """Give freed memory back to the system, where the C library holds on to it (glibc)."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def available_memory() -> float:
    """Return the bytes of free memory; half of the physical memory if that is unknown."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory could not be allocated."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in TOO_LARGE)


def matrix_rate(dtype: torch.dtype, size: int = 1024) -> float:
    """Return operations per second of a matrix product: the best of five timings, warm."""
    import torch  # loading data asks for free memory, and needs no torch

    matrix = torch.ones(size, size, dtype=dtype)
    product = torch.empty_like(matrix)
    return 2 * size**3 / best_seconds(lambda: torch.matmul(matrix, matrix, out=product))


@contextmanager
def thread_count(number: int) -> Iterator[None]:
    """Use `number` threads, so that recomputed chunks round as the stored ones did."""
    import torch

    previous_number = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(previous_number)


@contextmanager
def threads_for(values: float) -> Iterator[None]:
    """Use one thread while products of small arrays, of `values` entries each, are computed.

    Two threads on products of microseconds are slower than one, on busy cores twenty times. Large
    arrays get the threads that are set; nothing ever gets more.
    """
    import torch

    with thread_count(1 if values < SMALL else torch.get_num_threads()):
        yield


def wait_for(device: torch.device | None) -> None:
    """Wait until a device has done what it was given; the processor always has."""
    if device is not None and device.type != "cpu":
        import torch

        getattr(torch, device.type).synchronize()


def best_seconds(call: Callable[[], object], repeats: int = 5, warm_up: int = 1) -> float:
    """Return the shortest of `repeats` timings of a call, after `warm_up` untimed ones."""
    for _ in range(warm_up):
        call()
    timings = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        timings.append(time.perf_counter() - start)
    return min(timings)
