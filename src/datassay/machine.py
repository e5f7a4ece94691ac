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


def held_bytes() -> float:
    """Bytes of this process, resident; their peak where the system does not report them now."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) * (1 if sys.platform == "darwin" else 1024)


def release_memory() -> None:
    """Give memory that was freed back to the system, where the C library keeps it (glibc)."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def available_memory() -> float:
    """Bytes of memory that are free; half of the physical memory where the kernel does not say."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in TOO_LARGE)


def matrix_rate(dtype: torch.dtype, size: int = 1024) -> float:
    """Operations a second of a matrix product: the best of five timings after a warm-up call."""
    import torch  # loading data asks for free memory, and needs no torch

    a = torch.ones(size, size, dtype=dtype)
    product = torch.empty_like(a)
    return 2 * size**3 / best_seconds(lambda: torch.matmul(a, a, out=product))


@contextmanager
def thread_count(number: int) -> Iterator[None]:
    """Use so many threads, as stored chunks were computed with: others may round otherwise."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_for(values: float) -> Iterator[None]:
    """One thread for many products of arrays of so many values, where they are small.

    Two threads on products of microseconds are slower than one, on busy cores twenty times. Large
    arrays get the threads that are set; nothing ever gets more.
    """
    import torch

    with thread_count(1 if values < SMALL else torch.get_num_threads()):
        yield


def best_seconds(call: Callable[[], object], repeats: int = 5, warm_up: int = 1) -> float:
    """Minimum of `repeats` timings, after `warm_up` untimed calls."""
    for _ in range(warm_up):
        call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
