"""Which form a linearisation takes: dual or primal, exact or projected, joint or averaged.

Sizes are counted before anything is computed, so that a plan can be shown and a run can refuse.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from datassay.collect.jacobian import Layers
from datassay.collect.kernel import Outputs
from datassay.collect.projection import ProjectionKind
from datassay.errors import SettingError

# An eigendecomposition of this size takes about ten seconds on two cores and 0.4 GB.
LARGEST_EIGENPROBLEM = 4096
# Random coordinates a tensor that S1 found sufficient.
S1_COORDINATES = 2000
# Below this many multiplications float64 Jacobians cost less than a second.
FLOAT64_WORK = 2e10


@dataclass(frozen=True, slots=True)
class Form:
    """The chosen form with its sizes.

    Attributes:
        representation: "kernel" (dual, [rows, rows]) or "features" (primal, [rows, p]).
        outputs: "joint" (k rows a sample) or "averaged" (one row a sample).
        projection: features a tensor at most, or None for the exact Jacobian.
        kind: of projection.
        precision: of the Jacobians, "float64" or "float32"; kernels are always float64.
        n_rows: training rows, n k or n.
        n_features: p, columns of Φ after projection.
        n_outputs: k.
        n_parameters: d, trained parameters.
        chunk: samples a Jacobian call.
        jacobian_bytes: what the collected blocks take.
        result_bytes: what kernel or features take, validation part included.
        flops: multiplications and additions of the whole collection.
        reason: one sentence saying why this form.
    """

    representation: Literal["kernel", "features"]
    outputs: Outputs
    projection: int | None
    kind: ProjectionKind
    precision: Literal["float64", "float32"]
    n_rows: int
    n_features: int
    n_outputs: int
    n_parameters: int
    chunk: int
    jacobian_bytes: float
    result_bytes: float
    flops: float
    reason: str

    @property
    def peak_bytes(self) -> float:
        """Most memory that collecting and scoring hold at once, beyond the program itself.

        Scoring adds the eigenvectors, their workspace and one panel to the collected arrays.
        """
        size = self.eigenproblem
        scoring = self.result_bytes + 8 * (3 * size**2 + self.n_rows * size) + 2**28
        return max(self.jacobian_bytes + self.result_bytes + 2**29, scoring)

    @property
    def eigenproblem(self) -> int:
        """Size of the one eigendecomposition that scoring does."""
        return self.n_rows if self.representation == "kernel" else self.n_features

    @property
    def summary(self) -> str:
        """The form in a few words, such as "exact averaged kernel, 1437 x 1437, float64"."""
        exact = "exact" if self.projection is None else f"projected (≤ {self.projection} a tensor)"
        width = self.eigenproblem if self.representation == "kernel" else self.n_features
        shape = f"{self.n_rows} x {width}"
        return f"{exact} {self.outputs} {self.representation}, {shape}, {self.precision} Jacobians"


def available_memory() -> float:
    """Bytes of memory this machine has free for us.

    Returns:
        MemAvailable where the kernel reports it, else half of the physical memory.
    """
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def choose_form(
    layers: Layers,
    sizes: tuple[int, int, int],
    *,
    projection: int | Literal["auto"] | None = "auto",
    outputs: Outputs | Literal["auto"] = "auto",
    kind: ProjectionKind = "coordinates",
    memory: float | None = None,
) -> Form:
    """The form that fits the memory, exact where it can be.

    Args:
        layers: the model's collected tensors.
        sizes: (n, m, k): training samples, validation samples, outputs.
        projection: "auto", None (exact) or features a tensor.
        outputs: "auto", "joint" or "averaged".
        kind: of projection.
        memory: bytes to stay within; None takes what is available.

    Returns:
        The form. "auto" takes the first that fits of: exact and joint (n k or d ≤ 4096), exact and
        averaged (n ≤ 12288), averaged over 2000 coordinates a tensor, joint over at most 4096
        coordinates in all. A joint form is a kernel or features, whichever is smaller.

    Raises:
        SettingError: projection is not positive, or outputs or kind is unknown.
    """
    _check_settings(projection, outputs, kind)
    memory = available_memory() if memory is None else memory
    forms = [
        (_form(layers, sizes, candidate, kind), candidate.limit)
        for candidate in _candidates(layers, sizes[2], projection, outputs)
    ]
    fits = (f for f, limit in forms if f.eigenproblem <= limit and f.peak_bytes <= 0.8 * memory)
    # When none fits, the last is the smallest; the caller compares peak_bytes with memory.
    return next(fits, forms[-1][0])


def _check_settings(projection, outputs, kind) -> None:
    if isinstance(projection, int) and projection < 1:
        raise SettingError(f"projection must be at least 1 feature a tensor; got {projection}.")
    if isinstance(projection, str) and projection != "auto":
        raise SettingError(f"projection must be 'auto', None or an integer; got {projection!r}.")
    for name, value, allowed in (
        ("outputs", outputs, ("auto", "joint", "averaged")),
        ("kind", kind, ("coordinates", "sparse_sign")),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


@dataclass(frozen=True, slots=True)
class _Candidate:
    outputs: Outputs
    projection: int | None
    limit: float  # largest eigenproblem for which this candidate is taken
    reason: str


def _candidates(layers: Layers, k: int, projection, outputs) -> list[_Candidate]:
    n_tensors = len(layers.direct) + sum(1 + bias for *_, bias in layers.dense.values())
    few = max(1, LARGEST_EIGENPROBLEM // n_tensors)
    auto = projection == "auto"
    exact = auto or projection is None
    small, medium, large = LARGEST_EIGENPROBLEM, 3 * LARGEST_EIGENPROBLEM, float("inf")
    found = []
    if outputs != "averaged" and exact:
        found.append(_Candidate("joint", None, small, "n·k or the model is small"))
    if outputs != "joint" and exact:
        shared = "n·k is large, so the k outputs share one kernel"
        found.append(_Candidate("averaged", None, medium, shared))
    if outputs != "joint" and auto:
        too_big = "the exact Jacobian exceeds the memory, and the k outputs share one kernel"
        found.append(_Candidate("averaged", S1_COORDINATES, medium, too_big))
    if outputs != "averaged" and auto:
        found.append(_Candidate("joint", few, large, "n is too large for a kernel"))
    if not auto:
        last: Outputs = "averaged" if outputs == "averaged" else "joint"
        found.append(_Candidate(last, projection, large, "projection was set"))
    return found


def _form(layers: Layers, sizes, candidate: _Candidate, kind: ProjectionKind) -> Form:
    n, m, k = sizes
    outputs, projection = candidate.outputs, candidate.projection
    b = k if outputs == "joint" else 1
    n_features = sum(t if projection is None else min(t, projection) for t in _tensors(layers))
    dual = outputs == "averaged" or n * b <= n_features
    work = 2.0 * (n + m) * k * layers.n_parameters
    item = 8 if work <= FLOAT64_WORK else 4
    factors = sum(a + k * g for a, g, _ in layers.dense.values()) + k * sum(layers.direct.values())
    held = factors if dual and projection is None else k * n_features
    chunk = 2**28 // (item * (4 * factors + (0 if held == factors else k * n_features)))
    return Form(
        representation="kernel" if dual else "features",
        outputs="joint" if k == 1 else outputs,
        projection=projection,
        kind=kind,
        precision="float64" if item == 8 else "float32",
        n_rows=n * b,
        n_features=n_features,
        n_outputs=k,
        n_parameters=layers.n_parameters,
        chunk=int(min(1024, max(1, chunk))),
        jacobian_bytes=float(item) * (n + m) * held,
        result_bytes=_result_size(dual, n * b, m * b, n_features, item),
        flops=work + (2.0 * n * b * (n + m) * b * held if dual else 0.0),
        reason=candidate.reason,
    )


def _tensors(layers: Layers) -> list[int]:
    sizes = [*layers.direct.values()]
    for n_in, n_out, bias in layers.dense.values():
        sizes += [n_in * n_out, n_out] if bias else [n_in * n_out]
    return sizes


def _result_size(dual: bool, rows: int, val_rows: int, features: int, item: int) -> float:
    if dual:
        return 8.0 * rows * (rows + val_rows)
    return float(item) * (rows + val_rows) * features
