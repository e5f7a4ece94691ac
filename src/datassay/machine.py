"""Speed of this machine and memory of this process."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


UNKNOWN_MEMORY = 4e9  # bytes that are taken to be free
# Values of an array from which on two threads are worth their start.
SMALL = 2**22
# Of each version of cgroups: files with the limit and the use, and what statistics begin with that
# count the cgroups within.
CGROUP_FILES = {
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    "cgroup2": ("memory.max", "memory.current", ""),
}
FILE_PAGES = ("active_file", "inactive_file")
# What torch and NumPy say, not as MemoryError, of arrays that no memory holds.
TOO_LARGE = (
    "allocate memory",
    "out of memory",
    "Storage size calculation overflowed",
    "Maximum allowed dimension exceeded",
    "array is too big",
)


def resident_bytes() -> float:
    """Return this process's resident memory in bytes, its peak where only that is known, or 0."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) * (1 if sys.platform == "darwin" else 1024)


def release_memory() -> None:
    """Give freed memory back to the system, where the C library holds on to it (glibc)."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def available_memory(system: Path = Path("/")) -> float:
    """Return the bytes of free memory, also in a container; half of the physical memory if unknown.

    On Windows, where neither is known without further packages, UNKNOWN_MEMORY.

    Args:
        system: where /proc and /sys are.

    Returns:
        The least of what the machine has free and what the process's cgroups leave of their limits.
    """
    n_bytes = UNKNOWN_MEMORY
    if hasattr(os, "sysconf"):
        n_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    for line in _read_lines(system / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            n_bytes = float(line.split()[1]) * 1024
    return min([n_bytes, *_list_free(system)])


def _list_free(system: Path) -> Iterator[float]:
    """Yield the bytes free in each cgroup with a memory limit, own one first."""
    for version, own_folder, outermost in _list_cgroups(system):
        limit_file, use_file, prefix = CGROUP_FILES[version]
        for folder in (own_folder, *own_folder.parents):
            limit = _read_lines(folder / limit_file)
            use = _read_lines(folder / use_file)
            if limit and use and limit[0] != "max":
                stat = dict(line.split(None, 1) for line in _read_lines(folder / "memory.stat"))
                # Pages of files are given back before a process is killed.
                cached = sum(float(stat.get(f"{prefix}{name}", 0)) for name in FILE_PAGES)
                yield max(0.0, float(limit[0]) - float(use[0]) + cached)
            if folder == outermost:
                break


def _list_cgroups(system: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield (version, folder, outermost folder) of each cgroup that limits memory."""
    paths = {}
    for line in _read_lines(system / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            version = "cgroup" if controllers else "cgroup2"
            paths[version] = PurePosixPath(path)
    for line in _read_lines(system / "proc/self/mountinfo"):
        mount, _, source = line.partition(" - ")
        root, mount_point = mount.split()[3:5]
        version, _, options = source.split(None, 2)
        if version in paths and (version == "cgroup2" or "memory" in options.split(",")):
            folder = outermost = system / mount_point.lstrip("/")
            # Of a container the mount shows its own part alone, whatever the path says.
            if paths[version].is_relative_to(root):
                folder = outermost / paths[version].relative_to(root)
            yield version, folder, outermost


def _read_lines(file: Path) -> list[str]:
    """Return a file's lines; [] if it is missing or may not be read."""
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory could not be allocated."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in TOO_LARGE)


@contextmanager
def thread_count(number: int) -> Iterator[None]:
    """Run the block with `number` threads, so that sums round as in a stored run."""
    import torch

    previous_number = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(previous_number)


@contextmanager
def threads_for(n_values: float) -> Iterator[None]:
    """Use one thread while products of small arrays, of `n_values` entries each, are computed.

    Two threads on products of microseconds are slower than one, on busy cores twenty times. Large
    arrays get the threads that are set; nothing ever gets more.
    """
    import torch

    with thread_count(1 if n_values < SMALL else torch.get_num_threads()):
        yield


def wait_for(device: "torch.device | None") -> None:
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
