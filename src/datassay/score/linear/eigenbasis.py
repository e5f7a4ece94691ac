"""One decomposition for every score, of one shape in the dual and the primal form.

Dual (kernel Θ = QℓQᵀ): rows = Q, metric = ℓ. Primal (C = ΦᵀΦ = VℓVᵀ): rows = ΦV, metric = 1.
In both, weights moved by training are coordinates W with ‖Δw‖² = Σ_p metric_p W_p², outputs move by
(rows · metric) W on the training rows and by val_rows W on the validation rows.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from scipy.linalg import eigh
from torch import Tensor

from datassay.collect.engine.base import IN_PROCESS, Engine
from datassay.collect.linearization import Linearization
from datassay.errors import ModelError, SettingError
from datassay.machine import available_memory
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.linear.panels import (
    Products,
    Rows,
    SquaredLength,
    all_rows,
    gram,
    is_kept_whole,
    operand,
    panels,
    product,
    transposed_product,
)


class FeatureRows:
    """ΦV, [n, b, p]: computed a panel at a time, and kept whole only if small.

    Attributes:
        features: Φ, [n b, p], a tensor or rows of a store.
        shape: (n, b, p).
        is_small: whether all rows are few enough to be kept.
        device: where products with them are computed.
    """

    def __init__(
        self,
        features: Rows,
        vectors: Float[Tensor, "p p"],
        rows_per_sample: int,
        products: Products,
        memory: float | None = None,
        device: str = "cpu",
    ):
        self.features = features
        self._vectors = vectors
        self._operand = operand(vectors, products, device)
        self._memory = memory
        self._products: Products = products
        self.device = device
        n_rows, size = features.shape
        self.shape = torch.Size((n_rows // rows_per_sample, rows_per_sample, size))
        self.is_small = is_kept_whole(self.shape.numel())
        self._all_rows: Tensor | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        # Rows that are kept whole are computed once here, not by every worker.
        rows = self.read_all() if self.is_small else self._all_rows
        unneeded = ("_vectors",)
        if rows is not None:
            unneeded = ("features", "_vectors", "_operand")
        return self.__dict__ | {"_all_rows": rows} | dict.fromkeys(unneeded)

    def __getitem__(self, samples: slice) -> Float[Tensor, "chunk b p"]:
        """Return ΦV for a slice of samples, float64."""
        if self._all_rows is not None or self.is_small:
            return self.read_all()[samples]
        return self._read_panel(samples)

    def _read_panel(self, samples: slice) -> Float[Tensor, "chunk b p"]:
        b = self.shape[1]
        start, stop, _ = samples.indices(len(self))
        return self._rotate(self.features[start * b : stop * b])

    def _rotate(self, features: Float[Tensor, "rows p"]) -> Float[Tensor, "chunk b p"]:
        """Return features times the eigenvectors V, by sample, [chunk, b, p]."""
        features = operand(features, self._products, self.device)
        rows = product(features, self._operand, self._products)
        return rows.double().cpu().reshape(-1, *self.shape[1:])

    def read_all(self) -> Float[Tensor, "n b p"]:
        """Return ΦV of all samples and keep it; raise if memory does not suffice."""
        if self._all_rows is None:
            n_bytes = 8.0 * self.shape.numel()
            memory = self._memory
            if memory is None:
                memory = available_memory()
            if not self.is_small and 2 * n_bytes > memory:
                n, b, size = self.shape
                raise SettingError(
                    "the samples' rows must fit the memory twice for a score that needs all of "
                    f"them at once; {n * b} x {size} take {n_bytes / 1e9:.1f} GB of "
                    f"{memory / 1e9:.1f} GB. Collect with a smaller projection, with "
                    "outputs='averaged' or fewer samples, or raise the memory."
                )
            rows = torch.empty(self.shape, dtype=torch.float64)
            for panel in panels(len(self), self.shape[1:].numel()):
                rows[panel] = self._read_panel(panel)
            self._all_rows = rows
        return self._all_rows

    def select(self, samples: Int[Tensor, " s"]) -> Float[Tensor, "s b p"]:
        """Return ΦV of some samples; positions must ascend if features are in a store."""
        if self._all_rows is not None or self.is_small:
            return self.read_all()[samples]
        n, b, size = self.shape
        if isinstance(self.features, Tensor):
            return self._rotate(self.features.unflatten(0, (-1, b))[samples].flatten(0, 1))
        chunks = []
        for panel in panels(n, b * size):
            positions = samples[(samples >= panel.start) & (samples < panel.stop)] - panel.start
            features = self.features[panel.start * b : panel.stop * b]
            chunks.append(features.unflatten(0, (-1, b))[positions].flatten(0, 1))
        return self._rotate(torch.cat(chunks))

    def modes(self, idx: Int[Tensor, " c"]) -> Float[Tensor, "n b c"]:
        """Return columns `idx` of ΦV for all samples, without computing the others."""
        if self._all_rows is not None:
            return self._all_rows[:, :, idx]
        n, b, size = self.shape
        vectors = operand(self._vectors[:, idx], self._products, self.device)
        mode_rows = torch.empty(n, b, len(idx), dtype=torch.float64)
        for panel in panels(n, b * size):
            features = self.features[panel.start * b : panel.stop * b]
            features = operand(features, self._products, self.device)
            rows = product(features, vectors, self._products)
            mode_rows[panel] = rows.double().cpu().reshape(-1, b, len(idx))
        return mode_rows

    def project_columns(self, columns: Float[Tensor, "n b c"]) -> Float[Tensor, "p c"]:
        """Return rowsᵀ Y, Y the columns."""
        flat = columns.flatten(0, 1)
        return self._vectors.T @ transposed_product(self.features, flat, self.device)

    def gram(self, engine: Engine) -> Float[Tensor, "p p"]:
        """Return rowsᵀ rows."""
        feature_gram = gram(self.features, self._products, device=self.device, engine=engine)
        return self._vectors.T @ feature_gram @ self._vectors


@result
class Eigenbasis:
    """The kernel's eigenbasis, float64, rows grouped b a sample.

    Attributes:
        rows: [n, b, p]: Q (dual, p = n b) or ΦV (primal; read it in slices of samples, or whole
            through `whole_rows`).
        eigenvalues: ℓ, [p], ascending, null ones exactly 0.
        metric: [p]: ℓ (dual) or 1 (primal).
        val: Θ(X_val, X)Q or Φ_val V, [m, b, p]; None without validation samples.
        complete: whether the rows are a whole orthonormal basis (dual).
        products: precision of the products over all samples.
        engine: where passes over the rows are computed.
    """

    rows: Float[Tensor, "n b p"] | FeatureRows
    eigenvalues: Float[Tensor, " p"]
    metric: Float[Tensor, " p"]
    val: Float[Tensor, "m b p"] | FeatureRows | None
    complete: bool
    products: Products = "float64"
    engine: Engine = IN_PROCESS

    @property
    def sent(self) -> "Eigenbasis":
        """The basis as sent to workers: without the validation rows."""
        return replace(self, val=None)

    @property
    def rank(self) -> int:
        """Number of eigenvalues that are not null."""
        return int((self.eigenvalues > 0).sum())

    @property
    def device(self) -> str:
        """Device of products with the rows; "cpu" for kernels."""
        if not isinstance(self.rows, FeatureRows):
            return "cpu"
        return self.rows.device

    @property
    def largest(self) -> float:
        """The largest eigenvalue, λ_max(Θ)."""
        return float(self.eigenvalues[-1])

    @property
    def n_queries(self) -> int:
        """Number of validation samples, or else of training samples."""
        if self.val is None:
            return len(self.rows)
        return len(self.val)

    def whole_rows(self) -> Float[Tensor, "n b p"]:
        """Return all rows, Q or ΦV; raise if memory does not suffice."""
        if isinstance(self.rows, FeatureRows):
            return self.rows.read_all()
        return self.rows

    def rows_of(self, samples: Int[Tensor, " s"]) -> Float[Tensor, "s b p"]:
        """Return the rows of some samples, in any order, [s, b, p].

        Features in memory give these rows alone; features in a store are read as a whole first.
        """
        rows = self.rows
        if isinstance(rows, FeatureRows) and isinstance(rows.features, Tensor):
            return rows.select(samples)
        return self.whole_rows()[samples]

    def leading(self, count: int) -> Float[Tensor, "n b c"]:
        """Return samples' coordinates in the modes of the `count` largest eigenvalues."""
        idx = self.eigenvalues.argsort(descending=True)[:count]
        if isinstance(self.rows, FeatureRows):
            return self.rows.modes(idx)
        return self.rows[:, :, idx] * self.metric[idx].sqrt()

    def query_rows(self) -> Float[Tensor, "query_rows p"]:
        """Return the queries' rows, whose products with W are their output changes."""
        # These are the validation samples, else the training samples.
        if self.val is None:
            return (self.whole_rows() * self.metric).flatten(0, 1)
        val = self.val
        if isinstance(val, FeatureRows):
            val = val.read_all()
        return val.flatten(0, 1)

    def project(self, residual: Float[Tensor, "n b c"]) -> Float[Tensor, "p c"]:
        """Return rowsᵀ r, the residual in each mode (times √ℓ for features), [p, c]."""
        if isinstance(self.rows, FeatureRows):
            return self.rows.project_columns(residual)
        return self.rows.flatten(0, 1).T @ residual.flatten(0, 1)

    def squared_weights(self, w: Float[Tensor, "p g c"]) -> Float[Tensor, " g"]:
        """Return ‖Δw‖² of weight changes W in the basis, [g]."""
        scaled = w
        if self.complete:  # else the metric is 1
            scaled = self.metric.sqrt()[:, None, None] * w
        return torch.linalg.vector_norm(scaled, dim=(0, 2)).square()

    def squared_predictions(self) -> Callable[[Float[Tensor, "p g c"]], Float[Tensor, " g"]]:
        """Return a function from W to Σ_j ‖Δf(x_j)‖² over the queries, [g]."""
        if self.val is None:  # QℓQᵀQℓ = ℓ² (dual) and VᵀCV = ℓ (primal): diagonal
            scale = (self.eigenvalues * self.metric)[:, None, None]
            return lambda w: (scale * w.square()).sum((0, 2))
        m, b, size = self.val.shape
        if m * b > size and isinstance(self.val, FeatureRows):
            matrix = self.val.gram(self.engine)
            return SquaredLength(matrix, self.products, self.val.device)
        rows = self.query_rows()
        if m * b > size:
            rows = torch.linalg.qr(rows, mode="r").R  # ‖rows W‖ = ‖R W‖, and R is smaller
        return lambda w: (rows @ w.flatten(1)).square().reshape(-1, *w.shape[1:]).sum((0, 2))


_BASES: WeakKeyDictionary[Linearization, Eigenbasis] = WeakKeyDictionary()


def eigenbasis(lin: Linearization, progress: Progress = silent) -> Eigenbasis:
    """Return a linearisation's eigenbasis, computed at the first call and kept.

    Args:
        lin: the linearisation.
        progress: called with (step, rows done, rows in all).

    Returns:
        Its eigenbasis. Eigenvalues within rounding (below p · 2⁻⁵² · λ_max; of products in less
        than float64, below 2⁻²³ · λ_max) are null and set to exactly 0.

    Cost: about 10 p³ operations with p = min(n b, features), plus m b p² (dual) or 1.1 n b p²
    (primal); 2 p² values and n b p (dual) or one panel (primal, whose rows cost 2 b p² operations
    a sample each time they are read).
    Source: METHODS §2. Exact.
    """
    if lin not in _BASES:
        _BASES[lin] = _decompose(lin, progress)
    return _BASES[lin]


def _decompose(lin: Linearization, progress: Progress) -> Eigenbasis:
    """Return the eigenbasis of the kernel, or of the features' Gram matrix if smaller."""
    n = len(lin)
    b = lin.rows_per_sample
    kernel = lin.kernel
    val_kernel = lin.val_kernel
    device = lin.form.products.device
    if lin.features is not None and lin.features.shape[0] <= lin.features.shape[1]:
        # No more rows than features: the primal leverage 1 − H would cancel where H is near 1.
        features = all_rows(lin.features)
        kernel = features @ features.T
        val_kernel = None
        if lin.val_features is not None:
            val_kernel = all_rows(lin.val_features) @ features.T
    if kernel is not None:
        eigenvalues, vectors = _decompose_symmetric(kernel, device, progress)
        eigenvalues = null_to_zero(eigenvalues)
        val = None
        if val_kernel is not None:
            val = (val_kernel @ vectors).reshape(-1, b, len(vectors))
        return Eigenbasis(vectors.reshape(n, b, -1), eigenvalues, eigenvalues, val, complete=True)
    assert lin.features is not None
    products = lin.form.products.precision
    memory = lin.form.products.memory
    feature_gram = gram(lin.features, products, device=device, progress=progress, engine=lin.engine)
    eigenvalues, vectors = _decompose_symmetric(feature_gram, device, progress)
    eigenvalues = null_to_zero(eigenvalues, products)
    rows = FeatureRows(lin.features, vectors, b, products, memory, device)
    val = None
    if lin.val_features is not None:
        val = FeatureRows(lin.val_features, vectors, b, products, memory, device)
    metric = torch.ones_like(eigenvalues)
    return Eigenbasis(rows, eigenvalues, metric, val, False, products, lin.engine)


def _decompose_symmetric(
    symmetric: Float[Tensor, "p p"], device: str, progress: Progress
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p p"]]:
    """Return ascending eigenvalues and eigenvectors, computed on `device`, on the CPU."""
    progress("eigendecomposition", 0, 1)
    if device == "cpu":  # SciPy takes three fifths of torch's time
        driver = "evd"
        if len(symmetric) == 1:
            driver = "ev"  # SciPy 1.11 fails at one row by evd
        values, vectors = eigh(symmetric.numpy(), driver=driver, check_finite=False)
        decomposition = torch.from_numpy(values), torch.from_numpy(vectors)
    else:
        values, vectors = torch.linalg.eigh(symmetric.to(device))
        decomposition = values.cpu(), vectors.cpu()
    progress("eigendecomposition", 1, 1)
    return decomposition


def check_not_null(basis: Eigenbasis) -> None:
    """Raise if all the kernel's eigenvalues are 0."""
    if basis.rank == 0:
        raise ModelError(
            "the outputs must depend on the weights at some sample; the kernel is 0 for all "
            f"{len(basis.rows)}, as where every unit is dead or every input is 0. Start from other "
            "weights, or scale the inputs."
        )


def null_to_zero(
    eigenvalues: Float[Tensor, " p"], products: Products = "float64"
) -> Float[Tensor, " p"]:
    """Return ascending eigenvalues, those within rounding of 0 set to exactly 0."""
    rounding = len(eigenvalues) * torch.finfo(torch.float64).eps
    if products != "float64":
        rounding = torch.finfo(torch.float32).eps
    return torch.where(eigenvalues > rounding * eigenvalues[-1], eigenvalues, 0.0)
