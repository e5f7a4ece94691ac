"""The form of a linearisation: its sizes, and the memory and seconds that scoring it takes.

Seconds are counted operations over one fixed nominal rate: they choose the form, so they depend on
sizes alone, and the same data give the same scores on every machine, idle or busy. How long a run
takes on this machine is for its plan to say.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from datassay.collect.jacobian.kernel import Outputs
from datassay.collect.jacobian.projection import ProjectionKind
from datassay.errors import ModelError, SettingError
from datassay.machine import available_memory, out_of_memory
from datassay.optional import text_if
from datassay.plan import EIGEN_WORK

ProductPrecision = Literal["float64", "float32", "bfloat16"]
# An eigendecomposition of this size takes about ten seconds on two cores and 0.4 GB.
LARGEST_EIGENPROBLEM = 4096
# Bytes of one panel of rows in float64, which stay in a cache, and whose memory is used again; rows
# that take no more than the second are kept whole.
PANEL_BYTES, WHOLE_BYTES = 2**24, 2**28
# Penalties among which label_issues chooses, each fitted from two offsets: 0 and f₀.
N_RIDGES = 33
# Columns by which changes are summed over the outputs, each within √(2 / MOST_COLUMNS) = 18 %.
MOST_COLUMNS = 64
# Values that one chunk of removals may hold, 8 MiB in float64, or so many samples.
REMOVAL_VALUES = 2**20
FEWEST_REMOVED = 32
# Partners whose influence is looked at; of more samples a random part, with a standard error.
MOST_PARTNERS = 2048
# Of an eigendecomposition, in units of the matrix: its copy, the vectors and as much to work in.
EIGEN_MATRICES = 4


@dataclass(frozen=True, slots=True)
class ProductSettings:
    """The settings of Jacobians and of the products over all rows of features.

    Attributes:
        precision: of the products over all rows.
        device: where Jacobians and these products are computed.
        memory: bytes that scoring may take; None: what is free.
        in_store: whether the features stay in a store and are read from it in slices.
    """

    precision: ProductPrecision = "float64"
    device: str = "cpu"
    memory: float | None = None
    in_store: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """What is collected: the chosen form with its sizes.

    Attributes:
        representation: "kernel" (dual, [rows, rows]) or "features" (primal, [rows, p]).
        outputs: "joint" (k rows per sample) or "averaged" (one row per sample).
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
        collect_bytes: most memory that collecting holds at once, results included.
        jacobian_flops: the part of flops done in the Jacobians' precision.
        products: how it is computed and scored; no part of what a store keeps.
        landmarks: samples from which the averaged kernel is seen (Nyström); 0: it is not, and Φ are
            the Jacobian's own columns.
        mixtures: random mixtures of the outputs that an averaged kernel is the mean over, for very
            many outputs; 0: over all of them.
        instead_of: what more time would have given: the exact form and its seconds at a nominal
            rate; empty where time decided nothing.
        passed_over: the form that more memory would have given, and its needs; empty where the
            memory decided nothing.
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
    collect_bytes: float = 0.0
    jacobian_flops: float = 0.0
    products: ProductSettings = ProductSettings()
    passed_over: str = ""
    landmarks: int = 0
    mixtures: int = 0
    instead_of: str = ""

    @property
    def options(self) -> dict[str, int | str | None]:
        """The settings `projection` and `outputs` that reproduce this form at any memory size."""
        if self.landmarks:
            return {"projection": self.landmarks, "outputs": "landmarks"}
        mixed = self.mixes_outputs and self.n_rows <= LARGEST_EIGENPROBLEM
        return {"projection": self.projection, "outputs": "mixed" if mixed else self.outputs}

    @property
    def mixes_outputs(self) -> bool:
        """Whether a sample's k outputs are collected as one row of features."""
        is_row = self.representation == "features" and self.outputs == "averaged"
        return is_row and not self.landmarks

    @property
    def kernel_flops(self) -> float:
        """The part of flops that multiplies Jacobians into a kernel, in float64; 0 for features."""
        return self.flops - self.jacobian_flops

    @property
    def peak_bytes(self) -> float:
        """Most memory that collecting and scoring hold at once, beyond the program itself."""
        return max(step_bytes(self).values())

    @property
    def eigenproblem(self) -> int:
        """Size of the one eigendecomposition that scoring does."""
        if self.representation == "kernel":
            return self.n_rows
        return self.n_features

    @property
    def summary(self) -> str:
        """The form in a few words, such as "exact averaged kernel, 1437 x 1437, float64"."""
        mixture_note = text_if(self.mixtures, f" over {self.mixtures} random mixtures of outputs")
        if self.landmarks:
            shape = f"{self.n_rows} x {self.n_features}"
            description = f"averaged kernel{mixture_note} by {self.landmarks:,} landmarks"
            return f"{description}, {shape}, {self.precision} Jacobians"
        method = "exact"
        if self.projection is not None:
            method = f"projected (≤ {self.projection} a tensor)"
        if mixture_note:
            method = f"averaged{mixture_note}:"
        if self.representation == "kernel":
            width = self.eigenproblem
        else:
            width = self.n_features
        shape = f"{self.n_rows} x {width}"
        return f"{method} {self.outputs} {self.representation}, {shape}, {self.precision} Jacobians"


def step_bytes(form: Form) -> dict[str, float]:
    """Return {step: peak bytes} of collecting and scoring in this form."""
    if form.representation == "kernel":
        return _kernel_step_bytes(form)
    n, p = form.n_rows, form.n_features
    matrix = 8.0 * p**2
    rows = 8.0 * n * p
    # Copies in the products' precision: of the panel, and beside a float64 basis.
    panel_share = 1.0
    n_bases = 1
    if form.products.precision != "float64":
        panel_share = 0.5
        n_bases = 2
    collecting = form.collect_bytes
    collected = form.result_bytes
    if form.products.in_store:
        collecting -= form.jacobian_bytes
        collected = 0.0
    basis = collected + n_bases * matrix
    panel = min(rows, max(matrix, PANEL_BYTES))
    sums = matrix * int(-(-rows // panel)).bit_length()  # C, added up along a tree
    if rows <= WHOLE_BYTES:
        basis += rows  # the samples' rows, where they are kept whole
    samples = n // _rows_per_sample(form)
    ridges = 8.0 * 2 * N_RIDGES * samples * form.n_outputs
    return {
        "collect": collecting,
        "eigendecomposition": collected + max(EIGEN_MATRICES * matrix, sums) + panel_share * panel,
        "leave one out": basis + max(EIGEN_MATRICES * matrix, 2 * panel, removal_bytes(form)),
        "label issues": basis + ridges + 2 * panel,
        "influence": basis + 2 * panel + 8.0 * min(samples, MOST_PARTNERS) * p,
    }


def _kernel_step_bytes(form: Form) -> dict[str, float]:
    """Return {step: peak bytes} for a kernel."""
    n = form.n_rows
    matrix = 8.0 * n**2
    basis = 2 * form.result_bytes
    samples = n // _rows_per_sample(form)
    averaged_kernel = 8.0 * samples**2
    # Joint rows are averaged over the outputs first, and that kernel is decomposed on its own.
    if form.outputs == "joint":
        averaging = EIGEN_MATRICES * averaged_kernel
    else:
        averaging = 2 * min(averaged_kernel, PANEL_BYTES)
    pairs = 6 * 8.0 * min(samples, MOST_PARTNERS) * min(samples, PANEL_BYTES // (8 * n))
    return {
        "collect": form.collect_bytes,
        "eigendecomposition": form.result_bytes
        + max(EIGEN_MATRICES * matrix, form.result_bytes + matrix),
        "leave one out": basis + removal_bytes(form),
        "label issues": basis + averaging + 8.0 * 2 * N_RIDGES * samples * form.n_outputs,
        "influence": basis + pairs + 8.0 * min(samples, MOST_PARTNERS) * n,
    }


def removal_chunk(shape: Sequence[int], size: int, values: int | None = None) -> int:
    """Return how many samples are removed together in one chunk."""
    # shape: the residual's, (n, b, c). size: the eigenproblem's. values: that a chunk may hold.
    # A chunk holds W [size, chunk, c], Σ over resolvents [size, chunk, b, c], and 2 copies.
    n, b, c = shape
    if values is None:
        values = REMOVAL_VALUES
    return min(n, max(FEWEST_REMOVED, values // max(1, size * c * (b + 2))))


def removal_bytes(form: Form, values: int | None = None) -> float:
    """Return the bytes of one chunk of removals, a weight vector per sample and output."""
    b = _rows_per_sample(form)
    size = form.eigenproblem
    n, c = form.n_rows // b, form.n_outputs // b
    chunk = removal_chunk((n, b, c), size, values)
    return 8.0 * chunk * size * (c * (b + 4) + b)


def _rows_per_sample(form: Form) -> int:
    if form.outputs != "joint":
        return 1
    return form.n_outputs


@contextmanager
def within_memory(form: Form) -> Iterator[None]:
    """Turn running out of memory inside the block into SettingError that says what fits."""
    try:
        yield
    except (MemoryError, RuntimeError, ModelError) as error:
        # A network that fails is a ModelError, whatever it failed of.
        if not out_of_memory(error.__cause__ or error):
            raise
        room = available_memory()
        need = form.peak_bytes
        share = min(room / need, 0.5)  # of the samples that fit
        if form.representation == "kernel":  # grows with their square
            share = share**0.5
        n = int(share * form.n_rows / _rows_per_sample(form))
        raise SettingError(
            f"memory must hold what is collected and scored; {form.summary} needs about "
            f"{need / 1e9:.3g} GB ({need:,.0f} bytes) and {room / 1e9:.3g} GB are free, of which "
            f"this process may take less. About {n:,} samples would fit, or set a smaller memory "
            "or projection."
        ) from error


# Additions and multiplications a second in float64: two cores of a laptop. Twice that in float32.
NOMINAL_RATE = 5e10
# Of a symmetric product by blocks: half of it, and half of the blocks on the diagonal.
SYMMETRIC_WORK = 1.1
# Panels of features are multiplied into their eigenbasis: once by leave-one-out, and twice each by
# label issues and influence.
READINGS = 5
# Shifts of the contour, real and imaginary, and outputs and leverages under each of them.
CONTOUR_COLUMNS = 120


def nominal_seconds(form: Form, n_queries: int) -> float:
    """Return estimated seconds of collecting and scoring at the nominal rate of work."""
    b = 1
    if form.outputs == "joint":
        b = form.n_outputs
    n = form.n_rows // b
    p = form.eigenproblem
    columns = form.n_outputs // b
    n_columns = min(columns, MOST_COLUMNS)
    per_value = CONTOUR_COLUMNS * n_columns * b + 2.0 * N_RIDGES * b * (b + n_columns)
    work = EIGEN_WORK * p**3 + n * p * (per_value + 20.0 * columns) + form.flops
    if form.representation == "kernel":
        label_work = 0.0
        if b > 1:
            label_work = EIGEN_WORK * n**3
        return (work + label_work + 2.0 * n_queries * b * p**2) / NOMINAL_RATE
    rows = n * b * p**2 * (SYMMETRIC_WORK + 2.0 * READINGS) + SYMMETRIC_WORK * n_queries * b * p**2
    speedup = 2
    if form.products.precision == "float64":
        speedup = 1
    return (work + rows / speedup) / NOMINAL_RATE
