"""The choice of a linearisation's form: dual or primal, exact or projected, joint or averaged.

Sizes are counted before anything is computed, so that a plan can be shown and a run can refuse.
"""

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
    """Return the most exact form of kernel or features that fits memory and time.

    Settings are those of `collect`. sizes: n training samples, m validation samples, k outputs.

    Returns:
        The form. "auto" takes the first of these that fits the memory, and of 1 to 4 the seconds:

        1. exact, joint outputs (to about n k = 4000);
        2. exact, averaged outputs (to about n = 4000, a table's n = 1800);
        3. averaged, by 2048 or 1024 landmarks (a table: 512); the fewest may take as long as 5, 6;
        4. averaged, 2000 coordinates a tensor;
        5. averaged, about 4096 coordinates in all;
        6. the same with 4, 16 and 64 times fewer coordinates.

        Joint outputs, or a single one, skip 2 to 4, and 5 and 6 are joint. A joint form, "mixed", 5
        and 6 are a kernel or features, whichever is smaller.
    """
    _check_settings(projection, outputs, projection_kind, memory, precision, products)
    free_bytes = available_memory() if memory is None else memory
    landmarks = TABLE_LANDMARKS if is_table else LANDMARKS
    time_limit = TABLE_SECONDS if is_table else MOST_SECONDS  # of an exact form
    candidates = _list_candidates(layers, sizes[2], projection, outputs, landmarks, time_limit)
    kind = cast(ProjectionKind, projection_kind)
    forms = [_size_form(layers, sizes, candidate, kind, precision) for candidate in candidates]
    # Taken where none fits; the caller compares peak_bytes with memory.
    smallest = forms[-1]
    affordable = _select_affordable(forms, candidates, layers, sizes, landmarks[-1])
    preferred = next(iter(affordable), smallest)
    fitting = (form for form in affordable if form.peak_bytes <= SHARE * free_bytes)
    form = next(fitting, smallest)
    if form is not preferred:
        need = preferred.peak_bytes / 1e9
        share = SHARE * free_bytes / 1e9
        reason = f"which needs {need:.3g} GB of {share:.3g} GB that may be taken"
        form = replace(form, passed_over=f"{preferred.summary}, {reason}")
    if projection == "auto" and (preferred.landmarks or preferred.projection is not None):
        form = replace(form, instead_of=_describe_alternative(forms, sizes[1]))
    if products == "auto":
        work = 0
        if form.representation == "features":
            work = form.n_rows * form.n_features**2
        products = "float64"
        if work > FLOAT64_PRODUCTS:
            products = "float32"
    return replace(form, products=ProductSettings(cast(ProductPrecision, products), device, memory))


def _select_affordable(
    forms: list[Form], candidates: "list[_Candidate]", layers: Layers, sizes, fewest_landmarks: int
) -> list[Form]:
    """Return the forms that take no longer than their candidates' time limits, in order."""
    # The fewest landmarks may take as long as the slowest form without a limit.
    predicted_seconds = [nominal_seconds(form, sizes[1]) for form in forms]
    pairs = list(zip(candidates, predicted_seconds, strict=True))
    slowest = max((seconds for c, seconds in pairs if c.seconds == _ANY), default=0.0)
    affordable = []
    for form, (candidate, seconds) in zip(forms, pairs, strict=True):
        limit = candidate.seconds
        if form.landmarks == fewest_landmarks:
            limit = max(candidate.seconds, slowest)
        n_factors = _n_factors(layers, form.mixtures or sizes[2])
        landmarks_fit = 8.0 * form.landmarks * n_factors <= LANDMARK_BYTES
        if seconds <= limit and (landmarks_fit or candidate.seconds == _ANY):
            affordable.append(form)
    return affordable


def _describe_alternative(forms: list[Form], n_queries: int) -> str:
    """Return words on the cheapest exact form and its seconds; "" without any."""
    exact = [f for f in forms if f.projection is None and not f.landmarks]
    if not exact:
        return ""
    cheapest = min(exact, key=lambda form: nominal_seconds(form, n_queries))
    flags = " ".join(f"--{name} {value or 'none'}" for name, value in cheapest.options.items())
    seconds = nominal_seconds(cheapest, n_queries)
    return f"{cheapest.summary}, which takes about {seconds:,.0f} s on two cores; {flags} gives it"


def _check_settings(projection, outputs, projection_kind, memory, precision, products) -> None:
    """Raise SettingError for settings that are wrong whatever the samples."""
    check_projection(projection)
    require(memory is None or memory > 0, "memory", "be a positive number of bytes", memory)
    one_of("outputs", outputs, OUTPUTS)
    one_of("projection_kind", projection_kind, ("coordinates", "sparse_sign"))
    one_of("precision", precision, ("auto", "float64", "float32"))
    one_of("products", products, PRODUCTS)
    if outputs in {"mixed", "landmarks"} and projection is None:
        needs = "projected features" if outputs == "mixed" else "a number of landmarks"
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
    """A form to try, before its sizes are counted."""

    outputs: Outputs
    projection: int | None
    seconds: float  # that it may take at the nominal rate
    reason: str
    landmarks: int = 0
    takes_smaller: bool = False  # a kernel only where it is smaller than features


def _list_candidates(
    layers: Layers, k: int, projection, outputs, landmarks: tuple[int, ...], time_limit: float
) -> list[_Candidate]:
    """Return the allowed candidate forms, best first; the last has no time limit."""
    if projection == "auto":
        return _list_auto_candidates(layers, k, outputs, landmarks, time_limit)
    if outputs == "mixed":
        return [_Candidate("averaged", projection, _ANY, "projection was set", takes_smaller=True)]
    if outputs == "landmarks":
        return [_Candidate("averaged", None, _ANY, "landmarks were set", projection)]
    candidates = []
    if projection is None:
        joint_seconds = time_limit if outputs == "auto" else _ANY
        candidates = _list_exact(outputs, joint_seconds, _ANY)
    fallback: Outputs = "averaged" if outputs == "averaged" else "joint"
    return [*candidates, _Candidate(fallback, projection, _ANY, "projection was set")]


def _list_exact(outputs, joint_seconds: float, averaged_seconds: float) -> list[_Candidate]:
    """Return the allowed exact kernels as candidates, each with its time limit, seconds."""
    candidates = []
    if outputs in {"auto", "joint"}:
        candidates.append(_Candidate("joint", None, joint_seconds, "n·k or the model is small"))
    if outputs in {"auto", "averaged"}:
        reason = "n·k is large, so the k outputs share one kernel"
        candidates.append(_Candidate("averaged", None, averaged_seconds, reason))
    return candidates


def _list_auto_candidates(
    layers: Layers, k: int, outputs, landmarks: tuple[int, ...], time_limit: float
) -> list[_Candidate]:
    """Return the candidates of projection "auto", in `choose_form`'s order."""
    joint_seconds = time_limit if outputs == "auto" else MOST_SECONDS
    candidates = _list_exact(outputs, joint_seconds, time_limit)
    if outputs in {"auto", "averaged", "landmarks"}:
        reason = "n is large, so the kernel is seen from some of the samples"
        candidates += [_Candidate("averaged", None, MOST_SECONDS, reason, m) for m in landmarks]
        if outputs == "landmarks":
            return [*candidates, _Candidate("averaged", None, _ANY, reason, landmarks[-1])]
    if outputs in {"auto", "averaged"}:
        reason = "the exact Jacobian exceeds the memory, and the k outputs share one kernel"
        candidates.append(_Candidate("averaged", S1_COORDINATES, MOST_SECONDS, reason))
    reason = "n is too large for a kernel"
    fallback: Outputs = "joint"
    limit = max(1, LARGEST_EIGENPROBLEM // len(layers.sizes))  # coordinates a tensor
    if outputs != "joint" and k > 1:
        reason += ", and the k outputs share one row of features"
        fallback = "averaged"
        limit = coordinates_for(layers, LARGEST_EIGENPROBLEM)
    candidates.append(_Candidate(fallback, limit, _ANY, reason, takes_smaller=True))
    reason = "more coordinates would exceed the memory"
    for divisor in (4, 16, 64):
        projection = max(1, limit // divisor)
        candidates.append(_Candidate(fallback, projection, _ANY, reason, takes_smaller=True))
    return candidates


def _size_form(
    layers: Layers, sizes, candidate: _Candidate, kind: ProjectionKind, precision: str
) -> Form:
    """Return a candidate as a Form, with its rows, features, bytes and operations."""
    n, m, n_outputs = sizes  # samples, queries
    k = n_outputs  # that are differentiated: the outputs, or random mixtures of many
    if candidate.outputs == "averaged" and candidate.projection is None:
        k = min(n_outputs, MIXTURES)
    sizes = (n, m, k)
    item = _choose_item_bytes(layers, sizes, precision)
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
        return _size_landmarks(layers, sizes, candidate.landmarks, item, common)
    outputs: Outputs = "joint"
    if k != 1:
        outputs = candidate.outputs
    projection = candidate.projection
    is_averaged = outputs == "averaged"
    b = 1 if is_averaged else k  # rows per sample
    n_features = sum(min(size, projection or size) for size in layers.sizes.values())
    # A mean over output blocks has no features of its own; those that stand in for it err more than
    # projecting alone, so they wait until the kernel's decomposition is the dearer.
    is_small = n <= LARGEST_EIGENPROBLEM and not candidate.takes_smaller
    is_kernel = is_averaged and (projection is None or is_small)
    is_kernel = is_kernel or n * b <= n_features
    has_factors = is_kernel and projection is None
    if has_factors:
        n_held = _n_factors(layers, k)
        call_values = 4 * n_held
    else:
        n_held = n_features if is_averaged and not is_kernel else k * n_features
        call_values = 4 * _count_call_values(layers, k)
        call_values += k * (n_features + 2 * _largest_full_gradient(layers, projection, kind))
    chunk = int(min(n + m, 1024, max(1, WORKING_BYTES // (item * call_values))))
    jacobians = item * (n + m) * n_held
    calls = item * chunk * call_values
    if is_kernel:
        representation = "kernel"
        result = 8.0 * n * b * (n + m) * b
        if has_factors:
            n_columns = _n_factors(layers, b * k)
        else:
            n_columns = b * k * n_features
        work += 2.0 * n * (n + m) * n_columns
        calls = max(calls, result + _kernel_working_bytes(layers, sizes, b, item, has_factors))
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


def _choose_item_bytes(layers: Layers, sizes, precision: str) -> int:
    """Return 8 or 4, the bytes of a Jacobian's entry; sizes: (n, m, k)."""
    n, m, k = sizes
    if precision == "auto":
        n_products = layers.n_parameters  # of a forward pass; a convolution's at every position
        for name, (_, height, width) in layers.convolutions.items():
            n_products += (height * width - 1) * layers.direct[parameter_name(name, "weight")]
        work = 2.0 * (n + m) * (1 + k) * n_products
        precision = "float32"
        if work <= FLOAT64_WORK:
            precision = "float64"
    return 8 if precision == "float64" else 4


def _size_landmarks(
    layers: Layers, sizes, landmarks: int, item: int, common: partial[Form]
) -> Form:
    """Return the form of Nyström features against landmarks, with its sizes and work."""
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
    """Return the least projection size per tensor that keeps n_features in total."""
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


def _count_call_values(layers: Layers, k: int) -> int:
    """Return the values per sample that a Jacobian call holds before projecting."""
    values = _n_factors(layers, k)
    for name, (n_out, height, width) in layers.convolutions.items():
        weight = layers.direct[parameter_name(name, "weight")]
        values += height * width * (weight // n_out + k * n_out) - k * weight
    return values


def _largest_full_gradient(layers: Layers, projection: int | None, kind: ProjectionKind) -> int:
    """Return the size of the largest weight whose gradient is formed in full to project it."""
    weights = [n_in * n_out for n_in, n_out, _ in layers.dense.values()]
    weights += [layers.direct[parameter_name(name, "weight")] for name in layers.convolutions]
    full = [w for w in weights if projection is None or kind == "sparse_sign" or w <= projection]
    return max(full, default=0)


def _kernel_working_bytes(layers: Layers, sizes, b: int, item: int, has_factors: bool) -> float:
    """Return the working bytes of forming the kernel: two panels, and float64 copies."""
    n, _, k = sizes
    panel = min(WORKING_BYTES, 8 * (n * b) ** 2)
    if item == 8:
        return panel * (1 + 1 / b**2)
    dense = max((n_in + k * n_out for n_in, n_out, _ in layers.dense.values()), default=0)
    copies = 8 * n * dense if has_factors else 0
    return panel * (1 + 1 / b**2) + copies + 2 * PART_BYTES
