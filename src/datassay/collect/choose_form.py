"""The choice of a linearisation's form: dual or primal, exact or projected, joint or averaged.

Sizes are counted before anything is computed, so that a plan can be shown and a run can refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from datassay.collect.form import (
    EIGEN_MATRICES,
    LARGEST_EIGENPROBLEM,
    Form,
    ProductPrecision,
    ProductSettings,
    nominal_seconds,
)
from datassay.collect.jacobian.kernel import PART_BYTES, Outputs
from datassay.collect.jacobian.projection import ProjectionKind
from datassay.collect.layers import Layers, parameter_name
from datassay.collect.settings import OUTPUTS, PRODUCTS
from datassay.errors import SettingError
from datassay.machine import available_memory
from datassay.optional import text_if
from datassay.plan import EIGEN_WORK
from datassay.rules import at_least, one_of, require

# Random coordinates a tensor that S1 found sufficient.
S1_COORDINATES = 2000
# Bytes that one Jacobian call, and one panel of a kernel, may take.
WORKING_BYTES = 2**28
# Of the memory, what a form may take.
SHARE = 0.8
# Seconds at the nominal rate within which a form is chosen, the best first; of a table exact ones:
# landmarks rank suspects alike (5 tables, AUROC within 0.0003; images 0.0035, texts 0.04).
MOST_SECONDS, TABLE_SECONDS = 20.0, 2.0
_ANY = float("inf")
# Landmarks that are tried, fewer of a table, and what their Jacobians may take. Of five drawn
# tables of 2100 to 5000 rows 512 rank leave-one-out and information as the exact kernel does, with
# .9986 or more (1024: .9998), find wrong labels with an AUROC .0002 below that of 1024, and cost
# half as much.
LANDMARKS = (2048, 1024)
TABLE_LANDMARKS = (512,)
LANDMARK_BYTES = 2e9
# More outputs than this are averaged over as many random mixtures of them: of 512 hidden units the
# kernel moves by about 1 %, and its cost no longer grows with the classes.
MIXTURES = 32
# Beyond this many multiplications per product over all rows is done in float32.
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
    precision: str = "auto",
    products: str = "auto",
    device: str = "cpu",
    is_table: bool = False,
) -> Form:
    """Choose the form that fits the memory, exact where it can be; settings are those of `collect`.

    `sizes` are (n, m, k): training samples, validation samples, outputs. A table of more than about
    1800 rows is seen from 512 landmarks: suspects rank alike.

    Returns:
        The form. "auto" takes the first that fits the memory and `MOST_SECONDS` at a nominal rate
        of: exact and joint, exact and averaged (to about n k or n = 4000), averaged by 2048 or 1024
        landmarks (1024 also where they take less than what follows), averaged over 2000
        coordinates a tensor; then, whatever it takes, over about 4096 coordinates in all, or over
        4, 16 and 64 times fewer; outputs that must be joint over at most 4096 and so on. A
        projected or joint form is a kernel or features, whichever is smaller; "mixed" is a kernel
        only where that is smaller.
    """
    _check_settings(projection, outputs, projection_kind, memory, precision, products)
    if memory is None:
        free_bytes = available_memory()
    else:
        free_bytes = memory
    landmarks = LANDMARKS
    time_limit = MOST_SECONDS  # of an exact form
    if is_table:
        landmarks = TABLE_LANDMARKS
        time_limit = TABLE_SECONDS
    forms = [
        (
            _form(layers, sizes, candidate, cast(ProjectionKind, projection_kind), precision),
            candidate,
        )
        for candidate in _candidates(layers, sizes[2], projection, outputs, landmarks, time_limit)
    ]
    allowed = _affordable_forms(forms, layers, sizes, landmarks[-1])
    # The last form is the smallest; where none fits, the caller compares peak_bytes with memory.
    preferred = next(iter(allowed), forms[-1][0])
    smallest = forms[-1][0]
    form = next((form for form in allowed if form.peak_bytes <= SHARE * free_bytes), smallest)
    if form is not preferred:
        need = preferred.peak_bytes / 1e9
        share = SHARE * free_bytes / 1e9
        reason = f"which needs {need:.3g} GB of {share:.3g} GB that may be taken"
        form = replace(form, passed_over=f"{preferred.summary}, {reason}")
    if projection == "auto" and (preferred.landmarks or preferred.projection is not None):
        form = replace(form, instead_of=_describe_alternative([f for f, _ in forms], sizes[1]))
    if products == "auto":
        work = 0
        if form.representation == "features":
            work = form.n_rows * form.n_features**2
        products = "float64"
        if work > FLOAT64_PRODUCTS:
            products = "float32"
    return replace(form, products=ProductSettings(cast(ProductPrecision, products), device, memory))


def _affordable_forms(
    forms: list[tuple[Form, _Candidate]], layers: Layers, sizes, fewest: int
) -> list[Form]:
    """Return forms within their seconds; fewest landmarks may take as long as coordinates would."""
    seconds = [nominal_seconds(form, sizes[1]) for form, _ in forms]
    unlimited = [s for (_, c), s in zip(forms, seconds, strict=True) if c.seconds == _ANY]
    slowest = max(unlimited, default=0.0)
    affordable = []
    for (form, candidate), predicted in zip(forms, seconds, strict=True):
        if form.landmarks == fewest:
            limit = max(candidate.seconds, slowest)
        else:
            limit = candidate.seconds
        factors = _n_factors(layers, form.mixtures or sizes[2])
        fits = 8.0 * form.landmarks * factors <= LANDMARK_BYTES
        if predicted <= limit and (fits or candidate.seconds == _ANY):
            affordable.append(form)
    return affordable


def _describe_alternative(forms: list[Form], n_queries: int) -> str:
    """Describe the cheapest exact form and its seconds; "" where there is none."""
    exact = [f for f in forms if f.projection is None and not f.landmarks]
    if not exact:
        return ""
    cheapest = min(exact, key=lambda form: nominal_seconds(form, n_queries))
    flags = " ".join(f"--{name} {value or 'none'}" for name, value in cheapest.options.items())
    seconds = nominal_seconds(cheapest, n_queries)
    return f"{cheapest.summary}, which takes about {seconds:,.0f} s on two cores; {flags} gives it"


def _check_settings(projection, outputs, projection_kind, memory, precision, products) -> None:
    check_projection(projection)
    require(memory is None or memory > 0, "memory", "be a positive number of bytes", memory)
    for name, value, allowed in (
        ("outputs", outputs, OUTPUTS),
        ("projection_kind", projection_kind, ("coordinates", "sparse_sign")),
        ("precision", precision, ("auto", "float64", "float32")),
        ("products", products, PRODUCTS),
    ):
        one_of(name, value, allowed)
    if outputs in {"mixed", "landmarks"} and projection is None:
        needs = "a number of landmarks"
        if outputs == "mixed":
            needs = "projected features"
        raise SettingError(
            f"outputs {outputs!r} needs {needs}; got projection None. Set the projection to a "
            "number, or outputs to 'averaged'."
        )


def check_projection(projection: object) -> None:
    """Raise SettingError for a projection that is no "auto", None or number of features."""
    if projection is not None and projection != "auto":
        is_whole = isinstance(projection, int) and not isinstance(projection, bool)
        require(is_whole, "projection", "be 'auto', None or a whole number", repr(projection))
        at_least("projection", projection, 1, why=" feature a tensor", remedy="None is exact.")


@dataclass(frozen=True, slots=True)
class _Candidate:
    outputs: Outputs
    projection: int | None
    seconds: float  # at the nominal rate, for which this candidate is taken
    reason: str
    landmarks: int = 0
    small: bool = False  # for want of memory or because of n: features wherever they are smaller


def _candidates(
    layers: Layers, k: int, projection, outputs, landmarks: tuple[int, ...], time_limit: float
) -> list[_Candidate]:
    """Return the forms to try, best first: outputs, projection, and the seconds each may take."""
    n_joint = max(1, LARGEST_EIGENPROBLEM // len(layers.sizes))
    is_auto = projection == "auto"
    is_mixed = outputs == "mixed"
    if is_mixed and not is_auto:
        return [_Candidate("averaged", projection, _ANY, "projection was set", small=True)]
    exact = is_auto or projection is None
    averaged_seconds = time_limit if is_auto else _ANY
    joint_seconds = {"auto": time_limit}.get(outputs, MOST_SECONDS if is_auto else _ANY)
    if outputs == "landmarks" and not is_auto:
        return [_Candidate("averaged", None, _ANY, "landmarks were set", projection or 0)]
    reason = "n is large, so the kernel is seen from some of the samples"
    candidates = []
    if outputs in {"auto", "joint"} and exact:
        candidates.append(_Candidate("joint", None, joint_seconds, "n·k or the model is small"))
    if outputs in {"auto", "averaged"} and exact:
        shared = "n·k is large, so the k outputs share one kernel"
        candidates.append(_Candidate("averaged", None, averaged_seconds, shared))
    if outputs in {"auto", "averaged", "landmarks"} and is_auto:
        candidates += [_Candidate("averaged", None, MOST_SECONDS, reason, m) for m in landmarks]
    if outputs == "landmarks":
        return [*candidates, _Candidate("averaged", None, _ANY, reason, landmarks[-1])]
    if outputs in {"auto", "averaged"} and is_auto:
        too_big = "the exact Jacobian exceeds the memory, and the k outputs share one kernel"
        candidates.append(_Candidate("averaged", S1_COORDINATES, MOST_SECONDS, too_big))
    if is_auto:
        fallback: Outputs = "joint" if outputs == "joint" or k == 1 else "averaged"
        n_averaged = coordinates_for(layers, LARGEST_EIGENPROBLEM)
        start = n_joint if fallback == "joint" else n_averaged
        too_large = "n is too large for a kernel"
        too_large += text_if(fallback != "joint", ", and the k outputs share one row of features")
        candidates.append(_Candidate(fallback, start, _ANY, too_large, small=True))
        memory_reason = "more coordinates would exceed the memory"
        fewer = [max(1, start // divisor) for divisor in (4, 16, 64)]
        candidates += [_Candidate(fallback, p, _ANY, memory_reason, small=True) for p in fewer]
    if not is_auto:
        fallback = "averaged" if outputs == "averaged" else "joint"
        candidates.append(_Candidate(fallback, projection, _ANY, "projection was set"))
    return candidates


def _form(
    layers: Layers, sizes, candidate: _Candidate, kind: ProjectionKind, precision: str
) -> Form:
    """Return a candidate with its sizes: rows, features, bytes and operations."""
    n, m, n_outputs = sizes
    is_mean = candidate.outputs == "averaged" and candidate.projection is None
    k = n_outputs
    if is_mean:
        k = min(n_outputs, MIXTURES)
    sizes = (n, m, k)
    item = _item_bytes(layers, sizes, precision)
    work = 2.0 * (n + m) * (1 + k) * layers.n_parameters
    common = partial(
        Form,
        precision="float64" if item == 8 else "float32",
        n_outputs=n_outputs,
        mixtures=k if k < n_outputs else 0,
        n_parameters=layers.n_parameters,
        reason=candidate.reason,
        jacobian_flops=work,
    )
    if candidate.landmarks:
        return _landmark_form(layers, sizes, candidate.landmarks, item, common)
    outputs: Outputs = "joint"
    if k != 1:
        outputs = candidate.outputs
    projection = candidate.projection
    b = k if outputs == "joint" else 1
    n_features = sum(min(t, projection or t) for t in layers.sizes.values())
    shared = outputs == "averaged"
    # A mean over output blocks has no features of its own; those that stand in for it err more than
    # projecting alone, so they wait until the kernel's decomposition is the dearer.
    is_small = n <= LARGEST_EIGENPROBLEM and not candidate.small
    dual = (shared and (projection is None or is_small)) or n * b <= n_features
    factored = dual and projection is None
    if factored:
        n_held = _n_factors(layers, k)
        a_sample = 4 * n_held
    else:
        n_held = (1 if shared and not dual else k) * n_features
        a_sample = 4 * _call_values(layers, k)
        a_sample += k * (n_features + 2 * _full_size(layers, projection, kind))
    chunk = int(min(n + m, 1024, max(1, WORKING_BYTES // (item * a_sample))))
    jacobians = item * (n + m) * n_held
    calls = item * chunk * a_sample
    if dual:
        representation = "kernel"
        result = 8.0 * n * b * (n + m) * b
        if factored:
            n_columns = _n_factors(layers, b * k)
        else:
            n_columns = b * k * n_features
        work += 2.0 * n * (n + m) * n_columns
        calls = max(calls, result + _kernel_working_bytes(layers, sizes, b, item, factored))
    else:
        representation = "features"
        result = float(item) * n_features * (n + m) * b
    return common(
        representation=representation,
        outputs=outputs,
        projection=projection,
        kind=kind,
        n_rows=n * b,
        n_features=n_features,
        chunk=chunk,
        jacobian_bytes=float(jacobians),
        result_bytes=result,
        flops=work,
        collect_bytes=float(jacobians + calls),
    )


def _item_bytes(layers: Layers, sizes, precision: str) -> int:
    """Return the bytes of a number of the Jacobians, 8 or 4."""
    n, m, k = sizes
    if precision == "auto":
        a_sample = layers.n_parameters  # multiplications; a convolution's at every position
        for name, (_, height, width) in layers.convolutions.items():
            a_sample += (height * width - 1) * layers.direct[parameter_name(name, "weight")]
        work = 2.0 * (n + m) * (1 + k) * a_sample
        precision = "float32"
        if work <= FLOAT64_WORK:
            precision = "float64"
    return 8 if precision == "float64" else 4


def _landmark_form(layers: Layers, sizes, landmarks: int, item: int, common: partial[Form]) -> Form:
    """Return the form of features against landmarks (Nyström), with its sizes."""
    n, m, k = sizes
    p = min(n, landmarks)
    rows = n + m
    n_factors = _n_factors(layers, k)
    landmark_bytes = 8.0 * p * n_factors  # of the landmarks, in float64
    work = common.keywords["jacobian_flops"]
    chunk = int(min(rows, 1024, max(1, WORKING_BYTES // (item * 4 * n_factors))))
    result = float(item) * rows * p
    eigen_bytes = 8.0 * max(EIGEN_MATRICES * p**2, 3 * chunk * p)
    working = 2 * landmark_bytes + eigen_bytes + item * chunk * 4.0 * n_factors
    return common(
        representation="features",
        outputs="joint" if k == 1 else "averaged",
        projection=None,
        kind="coordinates",
        n_rows=n,
        n_features=p,
        chunk=chunk,
        jacobian_bytes=result,
        result_bytes=result,
        flops=work + 2.0 * rows * p * (n_factors + p) + EIGEN_WORK * p**3,
        collect_bytes=result + working,
        landmarks=p,
    )


def coordinates_for(layers: Layers, n_features: int) -> int:
    """Return the least limit of coordinates a tensor that keeps so many features, or everything."""
    remaining = n_features
    limit = 0
    tensors = layers.sizes.values()
    for index, size in enumerate(sorted(tensors)):
        limit = -(-remaining // (len(tensors) - index))
        if size >= limit:
            return limit
        remaining -= size
    return max(tensors)


def _n_factors(layers: Layers, k: int) -> int:
    """Return a sample's values in unprojected blocks: the multiplications of a pair's kernel."""
    dense = sum(n_in + k * n_out for n_in, n_out, _ in layers.dense.values())
    return dense + k * sum(layers.direct.values())


def _call_values(layers: Layers, k: int) -> int:
    """Return a sample's values in a Jacobian call for projecting: convolutions as factors."""
    values = _n_factors(layers, k)
    for name, (n_out, height, width) in layers.convolutions.items():
        weight = layers.direct[parameter_name(name, "weight")]
        values += height * width * (weight // n_out + k * n_out) - k * weight
    return values


def _full_size(layers: Layers, projection: int | None, kind: ProjectionKind) -> int:
    """Return the entries of the largest weight whose full gradient is formed to project it."""
    weights = [n_in * n_out for n_in, n_out, _ in layers.dense.values()]
    weights += [layers.direct[parameter_name(name, "weight")] for name in layers.convolutions]
    full = [w for w in weights if projection is None or kind == "sparse_sign" or w <= projection]
    return max(full, default=0)


def _kernel_working_bytes(layers: Layers, sizes, b: int, item: int, factored: bool) -> float:
    """Return the bytes of two panels, and of float64 copies where Jacobians are float32."""
    n, _, k = sizes
    panel = min(WORKING_BYTES, 8 * (n * b) ** 2)
    if item == 8:
        return panel * (1 + 1 / b**2)
    dense = max((n_in + k * n_out for n_in, n_out, _ in layers.dense.values()), default=0)
    return panel * (1 + 1 / b**2) + 8 * n * (dense if factored else 0) + 2 * PART_BYTES
