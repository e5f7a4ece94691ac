"""Choosing the form of a linearisation: dual or primal, exact or projected, joint or averaged.

Sizes are counted before anything is computed, so that a plan can be shown and a run can refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from datassay.collect.form import (
    LARGEST_EIGENPROBLEM,
    Form,
    ProductPrecision,
    ProductSettings,
)
from datassay.collect.jacobian.kernel import Outputs
from datassay.collect.jacobian.per_sample import Layers, parameter_name
from datassay.collect.jacobian.projection import ProjectionKind
from datassay.errors import SettingError
from datassay.machine import available_memory

# Random coordinates a tensor that S1 found sufficient.
S1_COORDINATES = 2000
# Bytes that one Jacobian call, and one panel of a kernel, may take.
WORKING_BYTES = 2**28
# Of the memory, what a form may take.
SHARE = 0.8
# Beyond this many multiplications a product over all rows is done in float32.
FLOAT64_PRODUCTS = 2e11
# Below this many multiplications float64 Jacobians cost less than a second.
FLOAT64_WORK = 2e10


def choose_form(
    layers: Layers,
    sizes: tuple[int, int, int],
    *,
    projection: int | str | None = "auto",
    outputs: str = "auto",
    projection_kind: str = "coordinates",
    memory: float | None = None,
    products: str = "auto",
    device: str = "cpu",
) -> Form:
    """The form that fits the memory, exact where it can be.

    Args:
        layers: the model's collected tensors.
        sizes: (n, m, k): training samples, validation samples, outputs.
        projection: "auto", None (exact) or features a tensor.
        outputs: "auto", "joint", "averaged", or "mixed": averaged, over projected features also
            where n is small.
        projection_kind: of projection.
        memory: bytes to stay within; None takes what is available.
        products: "auto", "float64", "float32" or "bfloat16".
        device: where to compute; not checked here.

    Returns:
        The form. "auto" takes the first that fits of: exact and joint (n k or d ≤ 4096), exact and
        averaged (n ≤ 12288), averaged over 2000 coordinates a tensor (as far as n ≤ 12288 too),
        averaged over about 4096 coordinates in all, then over 4, 16 and 64 times fewer; outputs
        that must be joint over at most 4096 and so on. A projected or joint form is a kernel or
        features, whichever is smaller; "mixed" is a kernel only where that is smaller. Where the
        memory decided, the form's `passed_over` says what it would have been.

    Raises:
        SettingError: projection or memory is not positive, or outputs, projection_kind or
            products is unknown, or mixed outputs are to be exact.
    """
    _check_settings(projection, outputs, projection_kind, memory, products)
    free = available_memory() if memory is None else memory
    forms = [
        (_form(layers, sizes, candidate, cast(ProjectionKind, projection_kind)), candidate)
        for candidate in _candidates(layers, sizes[2], projection, outputs)
    ]
    allowed = [f for f, of in forms if f.eigenproblem <= of.limit and f.n_rows <= of.rows]
    # When none fits, the last is the smallest; the caller compares peak_bytes with memory.
    best, last = next(iter(allowed), forms[-1][0]), forms[-1][0]
    form = next((form for form in allowed if form.peak_bytes <= SHARE * free), last)
    if form is not best:
        form = replace(form, passed_over=_passed_over(best, free))
    if products == "auto":
        work = form.n_rows * form.n_features**2 if form.representation == "features" else 0
        products = "float32" if work > FLOAT64_PRODUCTS else "float64"
    return replace(form, products=ProductSettings(cast(ProductPrecision, products), device, memory))


def _passed_over(best: Form, free: float) -> str:
    need, share = best.peak_bytes / 1e9, SHARE * free / 1e9
    return f"{best.summary}, which needs {need:.3g} GB of {share:.3g} GB that may be taken"


def _check_settings(projection, outputs, projection_kind, memory, products) -> None:
    if projection is not None and projection != "auto":
        if not isinstance(projection, int) or isinstance(projection, bool):
            raise SettingError(
                f"projection must be 'auto', None or a whole number; got {projection!r}."
            )
        if projection < 1:
            raise SettingError(
                f"projection must be at least 1 feature a tensor; got {projection}. None is exact."
            )
    if memory is not None and not memory > 0:
        raise SettingError(f"memory must be a positive number of bytes; got {memory}.")
    for name, value, allowed in (
        ("outputs", outputs, ("auto", "joint", "averaged", "mixed")),
        ("projection_kind", projection_kind, ("coordinates", "sparse_sign")),
        ("products", products, ("auto", "float64", "float32", "bfloat16")),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    if outputs == "mixed" and projection is None:
        raise SettingError(
            "outputs 'mixed' needs projected features; got projection None. Set the projection to "
            "a number, or outputs to 'averaged'."
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    outputs: Outputs
    projection: int | None
    limit: int | float  # largest eigenproblem for which this candidate is taken
    reason: str
    rows: int | float = float("inf")  # and the most rows
    small: bool = False  # for want of memory or because of n: features wherever they are smaller


def _candidates(layers: Layers, k: int, projection, outputs) -> list[_Candidate]:
    tensors = _tensors(layers)
    few = max(1, LARGEST_EIGENPROBLEM // len(tensors))
    auto, mixed = projection == "auto", outputs == "mixed"
    if mixed and not auto:
        return [_Candidate("averaged", projection, float("inf"), "projection was set", small=True)]
    exact = auto or projection is None
    small, medium, large = LARGEST_EIGENPROBLEM, 3 * LARGEST_EIGENPROBLEM, float("inf")
    candidates = []
    if outputs in {"auto", "joint"} and exact:
        candidates.append(_Candidate("joint", None, small, "n·k or the model is small"))
    if outputs in {"auto", "averaged"} and exact:
        shared = "n·k is large, so the k outputs share one kernel"
        candidates.append(_Candidate("averaged", None, medium, shared))
    if outputs in {"auto", "averaged"} and auto:
        too_big = "the exact Jacobian exceeds the memory, and the k outputs share one kernel"
        candidates.append(_Candidate("averaged", S1_COORDINATES, medium, too_big, rows=medium))
    if auto:
        last: Outputs = "joint" if outputs == "joint" or k == 1 else "averaged"
        start = few if last == "joint" else _each_for(LARGEST_EIGENPROBLEM, tensors)
        too_large = "n is too large for a kernel"
        too_large += "" if last == "joint" else ", and the k outputs share one row of features"
        candidates.append(_Candidate(last, start, large, too_large, small=True))
        less = "more coordinates would exceed the memory"
        fewer = [max(1, start // by) for by in (4, 16, 64)]
        candidates += [_Candidate(last, each, large, less, small=True) for each in fewer]
    if not auto:
        last = "averaged" if outputs == "averaged" else "joint"
        candidates.append(_Candidate(last, projection, large, "projection was set"))
    return candidates


def _form(layers: Layers, sizes, candidate: _Candidate, kind: ProjectionKind) -> Form:
    n, m, k = sizes
    outputs: Outputs = "joint" if k == 1 else candidate.outputs
    projection = candidate.projection
    b = k if outputs == "joint" else 1
    n_features = sum(t if projection is None else min(t, projection) for t in _tensors(layers))
    shared = outputs == "averaged"
    # A mean over output blocks has no features of its own; those that stand in for it err more than
    # projecting alone, so they wait until the kernel's decomposition is the dearer.
    mean = shared and (projection is None or (n <= LARGEST_EIGENPROBLEM and not candidate.small))
    dual = mean or n * b <= n_features
    work = 2.0 * (n + m) * (1 + k) * layers.n_parameters
    item = 8 if work <= FLOAT64_WORK else 4
    factored = dual and projection is None
    held = _factors(layers, k) if factored else (1 if shared and not dual else k) * n_features
    a_sample = 4 * (_factors(layers, k) if factored else _called(layers, k))
    a_sample += 0 if factored else k * (n_features + 2 * _expanded(layers, projection, kind))
    chunk = int(min(n + m, 1024, max(1, WORKING_BYTES // (item * a_sample))))
    jacobians, result = item * (n + m) * held, _result_size(dual, n * b, m * b, n_features, item)
    calls = item * chunk * a_sample
    products = _kernel_working(n, b, item, held) if dual else 0.0
    multiplied = 2.0 * n * (n + m) * _products(layers, k, b, None if factored else n_features)
    return Form(
        representation="kernel" if dual else "features",
        outputs=outputs,
        projection=projection,
        kind=kind,
        precision="float64" if item == 8 else "float32",
        n_rows=n * b,
        n_features=n_features,
        n_outputs=k,
        n_parameters=layers.n_parameters,
        chunk=chunk,
        jacobian_bytes=float(jacobians),
        result_bytes=result,
        flops=work + (multiplied if dual else 0.0),
        reason=candidate.reason,
        collect_bytes=float(jacobians + max(calls, result + products if dual else 0.0)),
        jacobian_flops=work,
    )


def coordinates_for(layers: Layers, n_features: int) -> int:
    """Coordinates a tensor that make so many features.

    Args:
        layers: the model's collected tensors.
        n_features: wanted in all, p.

    Returns:
        The least limit a tensor that keeps at least p in all, or everything.
    """
    return _each_for(n_features, _tensors(layers))


def _tensors(layers: Layers) -> list[int]:
    sizes = [*layers.direct.values()]
    for n_in, n_out, bias in layers.dense.values():
        sizes += [n_in * n_out, n_out] if bias else [n_in * n_out]
    return sizes


def _each_for(total: int, tensors: list[int]) -> int:
    """The least limit of coordinates a tensor that keeps at least `total` of them, or all."""
    left, each = total, 0
    for place, size in enumerate(sorted(tensors)):
        each = -(-left // (len(tensors) - place))
        if size >= each:
            return each
        left -= size
    return max(tensors)


def _factors(layers: Layers, k: int) -> int:
    """Values a sample of the unprojected blocks."""
    dense = sum(n_in + k * n_out for n_in, n_out, _ in layers.dense.values())
    return dense + k * sum(layers.direct.values())


def _called(layers: Layers, k: int) -> int:
    """Values a sample that a Jacobian call for projecting returns: convolutions as factors."""
    values = _factors(layers, k)
    for name, (n_out, height, width) in layers.convolutions.items():
        weight = layers.direct[parameter_name(name, "weight")]
        values += height * width * (weight // n_out + k * n_out) - k * weight
    return values


def _expanded(layers: Layers, projection: int | None, kind: ProjectionKind) -> int:
    """Entries of the largest weight whose full gradient projecting forms."""
    weights = [n_in * n_out for n_in, n_out, _ in layers.dense.values()]
    weights += [layers.direct[parameter_name(name, "weight")] for name in layers.convolutions]
    kept = [w for w in weights if projection is None or kind == "sparse_sign" or w <= projection]
    return max(kept, default=0)


def _products(layers: Layers, k: int, b: int, n_features: int | None) -> int:
    """Multiplications of one pair of samples in the kernel."""
    if n_features is not None:
        return b * k * n_features
    dense = sum(n_in + b * k * n_out for n_in, n_out, _ in layers.dense.values())
    return dense + b * k * sum(layers.direct.values())


def _kernel_working(n: int, b: int, item: int, held: int) -> float:
    """Two panels, and one tensor in float64 where it is not so already."""
    panel = min(WORKING_BYTES, 8 * (n * b) ** 2)
    return panel * (1 + 1 / b**2) + (0 if item == 8 else 8 * n * held)


def _result_size(dual: bool, rows: int, val_rows: int, features: int, item: int) -> float:
    if dual:
        return 8.0 * rows * (rows + val_rows)
    return float(item) * (rows + val_rows) * features
