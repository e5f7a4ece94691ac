"""One JSON line a measurement in results.jsonl: what, on what, how long, how much, how wrong."""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from datassay.machine import machine_name

RESULTS = Path(__file__).parent / "results.jsonl"
LIBRARIES = ("datassay", "torch", "numpy", "scipy", "scikit-learn")


def record(bench: str, **figures: object) -> None:
    """Append one line and print it.

    Args:
        bench: the script's name and case.
        figures: sizes, seconds, peak_mib, error and whatever else was measured.
    """
    line = {
        "bench": bench,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        **{name: _plain(value) for name, value in figures.items()},
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(bench, {k: line[k] for k in figures}, flush=True)


def peak_mib() -> float:
    """The most memory that this process has held, in MiB, as the kernel counts it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def commit() -> str:
    """The checked-out commit, and whether src differs from it."""
    git = ["git", "-C", str(RESULTS.parent)]
    head = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    status = [*git, "status", "--porcelain", "--", "../src"]
    changed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    return head + ("+changes" if changed else "")


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
