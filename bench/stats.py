"""Means with their intervals, correlations with theirs, and the memory of this process."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.stats import bootstrap, pearsonr
from scipy.stats import t as student

T = TypeVar("T")


def interval(values: Sequence[float] | np.ndarray, scale: float = 1) -> tuple[float, float, float]:
    """Mean and the ends of its 95 % interval, by Student's t; without ends for one value."""
    some = np.asarray(values, float)
    some = scale * some[np.isfinite(some)]
    if len(some) == 0:
        return np.nan, np.nan, np.nan
    mean = float(some.mean())
    if len(some) == 1:
        return mean, np.nan, np.nan
    half = float(student.ppf(0.975, len(some) - 1) * some.std(ddof=1) / np.sqrt(len(some)))
    return mean, mean - half, mean + half


def mean_half(values: Sequence[float] | np.ndarray) -> list[float]:
    mean, _, high = interval(values)
    return [mean, high - mean]


def best_mean_error(values: np.ndarray, scale: float = 1) -> list[float]:
    """As papers print: the best, the mean, and the mean's standard error."""
    v = scale * np.asarray(values)
    return [float(v.max()), float(v.mean()), float(v.std(ddof=1) / np.sqrt(v.size))]


def pearson_interval(a: np.ndarray, b: np.ndarray) -> list[float]:
    ends = bootstrap(
        (a, b), lambda a, b: pearsonr(a, b)[0], paired=True, vectorized=False, rng=0
    ).confidence_interval
    return [float(pearsonr(a, b)[0]), float(ends.low), float(ends.high)]


def rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    return [float(f"{v:.4g}") for v in values]


def memory(which: str) -> float:
    """A line of the kernel's account of this process, in MiB; Linux only."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(f"{which}:")[2].split()[0]) / 1024


def new_peak() -> None:
    """The peak VmHWM starts anew at what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def cost_of(call: Callable[[], T]) -> tuple[T, float, float]:
    """What a call returns; its processor seconds, and the MiB it held at most beyond the start."""
    before = memory("VmRSS")
    new_peak()
    start = time.process_time()
    result = call()
    return result, time.process_time() - start, memory("VmHWM") - before


class Stages:
    """A progress callback that adds up the seconds between calls by the step that reported."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, step: str, done: int = 1, total: int = 1) -> None:
        """The time since the last report belongs to this step."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now
