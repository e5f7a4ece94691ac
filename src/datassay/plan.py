"""What work takes before it runs: each part counts its operations, a pilot batch gives the rate.

A part of the library counts what it does by kind of operation; seconds are those counts at the
rates that this machine reaches, or of what only running shows (a network's passes) those of a
pilot batch. Seconds are shown and decide nothing: what is retrained is counted at a nominal rate,
the same on every machine, but where a budget asks for a clock.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.machine import best_seconds, wait_for
from datassay.results import Tabular, column, result

if TYPE_CHECKING:
    import torch

# Operations of one symmetric eigendecomposition, in units of size³ matrix products' operations.
EIGEN_WORK = 15.0
# The kinds whose operations are additions and multiplications; the others are passes over a value,
# calls of a small function, and bytes that are digested, written and read back.
ARITHMETIC = ("float64", "float32", "bfloat16", "thin", "small", "eigen")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step, before it runs.

    Attributes:
        detail: what it works on and what was chosen.
        bytes: most memory it holds, beyond the program and its samples.
        work: kind → operations; see `rate`.
        pilot: seconds, by a pilot batch, of what `work` does not count.
        counted: additions and multiplications that the pilot's seconds cover.
    """

    name: str
    detail: str
    bytes: float = 0.0
    work: Mapping[str, float] = field(default_factory=dict)
    pilot: float = 0.0
    counted: float = 0.0

    @property
    def flops(self) -> float:
        """Additions and multiplications."""
        return self.counted + sum(self.work.get(kind, 0.0) for kind in ARITHMETIC)

    @property
    def seconds(self) -> float:
        """Expected on this machine."""
        return self.pilot + seconds_of(self.work)


@result
class BlockPlan(Tabular):
    """What a computation by blocks of a network's weights would take.

    Attributes:
        block: [blocks], names: of a layer, or of a tensor that no known layer owns.
        size: [blocks], weights.
        kind: [blocks], "exact" or "factored".
        bytes: [blocks], of its curvature: the most in memory while it is fitted, or as it is kept.
        n_samples: n.
        passes: of one sample each, forward or back, of all models.
        peak_bytes: most memory at once, beyond the program and its samples.
        seconds: expected on this machine, good to a factor of about two.
        free_bytes: memory that is free.
    """

    block: np.ndarray = column("layer, or tensor that no known layer owns")
    size: np.ndarray = column("its weights", unit="weights")
    kind: np.ndarray = column("of its curvature: exact or factored")
    bytes: np.ndarray = column("that its curvature takes", unit="bytes")
    n_samples: int
    passes: int
    peak_bytes: float
    seconds: float
    free_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the memory that it needs is free."""
        return self.peak_bytes <= self.free_bytes


def add_work(*works: Mapping[str, float], times: float = 1.0) -> dict[str, float]:
    """Add up the operations of several works by kind, each work done `times` times."""
    kinds = dict.fromkeys(kind for work in works for kind in work)
    return {kind: times * sum(work.get(kind, 0.0) for work in works) for kind in kinds}


def seconds_of(work: Mapping[str, float]) -> float:
    """Return how long counted operations take at this machine's rate for each kind."""
    return sum(operations / rate(kind) for kind, operations in work.items() if operations)


@cache
def rate(kind: str) -> float:
    """Measure this machine's operations per second of one kind, once per process.

    Args:
        kind: "float64", "float32" or "bfloat16": products of large matrices; "thin": of a large
            matrix and few columns; "small": of many small matrices; "eigen": of a symmetric
            matrix's decomposition, `EIGEN_WORK` size³; "values": one pass over a value; "calls":
            of a small function and its gradient; "bytes": digested, written and read back;
            "starts": of another process that loads torch.

    Returns:
        Operations a second: the best of five batches; of "starts", the only one.
    """
    operations, call = _make_pilot(kind)
    is_slow = kind == "starts"
    return operations / best_seconds(call, 1 if is_slow else 5, warm_up=not is_slow)


def _make_pilot(kind: str) -> tuple[float, Callable[[], Any]]:
    """Return the number of operations of a test calculation, and the function that runs it."""
    if kind == "starts":
        return 1.0, partial(subprocess.run, [sys.executable, "-c", "import torch"], check=True)
    if kind == "bytes":
        return 2.0**22, partial(_write_and_digest, bytes(2**22))
    import torch

    if kind == "values":
        return 2.0**20, torch.ones(2**20, dtype=torch.float64).exp
    if kind == "calls":
        weights = torch.ones(8, requires_grad=True)
        return 1.0, lambda: weights.square().sum().backward()
    if kind == "eigen":
        generator = torch.Generator().manual_seed(0)
        matrix = torch.rand(384, 384, dtype=torch.float64, generator=generator)
        return EIGEN_WORK * 384**3, lambda: torch.linalg.eigh(matrix + matrix.T)
    if kind == "small":
        matrices = torch.ones(4096, 4, 4, dtype=torch.float64)
        return 2.0 * 4096 * 4**3, lambda: matrices @ matrices
    if kind == "thin":
        matrix, columns = (torch.ones(2048, width, dtype=torch.float64) for width in (2048, 16))
        return 2.0 * 2048**2 * 16, lambda: matrix @ columns
    square = torch.ones(1024, 1024, dtype=getattr(torch, kind))
    return 2.0 * 1024**3, partial(torch.matmul, square, square, out=torch.empty_like(square))


def _write_and_digest(content: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        hashlib.sha256(file.read())


def time_call(
    call: Callable[[], Any], n_samples: int = 1, device: "torch.device | None" = None
) -> tuple[float, Any]:
    """Return seconds per sample of a call on n samples, and what it returned."""
    wait_for(device)  # what it has to do already is not the batch's
    started = time.perf_counter()
    outcome = call()
    wait_for(device)
    return (time.perf_counter() - started) / n_samples, outcome
