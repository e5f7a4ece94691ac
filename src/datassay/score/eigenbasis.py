"""One decomposition that serves every score, the same shape for the dual and the primal form.

Dual (kernel Θ = QℓQᵀ): rows = Q, metric = ℓ. Primal (C = ΦᵀΦ = VℓVᵀ): rows = ΦV, metric = 1.
In both, weights moved by training are coordinates W with ‖Δw‖² = Σ_p metric_p W_p², outputs move by
(rows · metric) W on the training rows and by val_rows W on the validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Linearization


@dataclass(frozen=True, slots=True, eq=False)
class Eigenbasis:
    """The kernel's eigenbasis, float64, rows grouped b a sample.

    Attributes:
        rows: [n, b, p]: Q (dual, p = n b) or ΦV (primal).
        eigenvalues: ℓ, [p], ascending, null ones exactly 0.
        metric: [p]: ℓ (dual) or 1 (primal).
        val_rows: [m b, p]: Θ(X_val, X)Q or Φ_val V; None without validation samples.
        complete: dual: the rows are a whole orthonormal basis.
    """

    rows: Float[Tensor, "n b p"]
    eigenvalues: Float[Tensor, " p"]
    metric: Float[Tensor, " p"]
    val_rows: Float[Tensor, "val_rows p"] | None
    complete: bool

    @property
    def rank(self) -> int:
        """Eigenvalues that are not null."""
        return int((self.eigenvalues > 0).sum())

    @property
    def largest(self) -> float:
        """λ_max(Θ)."""
        return float(self.eigenvalues[-1])

    def project(self, residual: Float[Tensor, "n b c"]) -> Float[Tensor, "p c"]:
        """rowsᵀ r: the residual in each mode (times √ℓ in the primal form)."""
        return self.rows.flatten(0, 1).T @ residual.flatten(0, 1)

    def squared_weights(self, w: Float[Tensor, "p g c"]) -> Float[Tensor, " g"]:
        """‖Δw‖² of coordinates, summed over columns."""
        return (self.metric[:, None, None] * w.square()).sum((0, 2))

    def squared_predictions(self) -> Callable[[Float[Tensor, "p g c"]], Float[Tensor, " g"]]:
        """Coordinates → Σ_j ‖Δf(x_j)‖² over the validation inputs, else the training inputs.

        Returns:
            A function of W, prepared once for many chunks: from the rows or, where it is smaller,
            their triangular factor.
        """
        rows = self.val_rows
        if rows is None:
            rows = (self.rows * self.metric).flatten(0, 1)
            if self.complete:  # QℓQᵀQℓ = ℓ², diagonal
                return lambda w: (self.metric.square()[:, None, None] * w.square()).sum((0, 2))
        if len(rows) > rows.shape[1]:
            rows = torch.linalg.qr(rows, mode="r").R  # ‖rows W‖ = ‖R W‖, and R is smaller
        return lambda w: (rows @ w.flatten(1)).square().reshape(-1, *w.shape[1:]).sum((0, 2))


_BASES: WeakKeyDictionary[Linearization, Eigenbasis] = WeakKeyDictionary()


def eigenbasis(lin: Linearization) -> Eigenbasis:
    """The linearisation's eigenbasis, computed once and kept as long as the linearisation lives.

    Args:
        lin: the linearisation.

    Returns:
        Its eigenbasis. Eigenvalues below p · 2⁻⁵² · λ_max are null and set to exactly 0.

    Cost: about 10 p³ operations with p = min(n b, features), plus m b p² (dual) or 2 n b p²
    (primal); 2 p² + n b p values.
    Source: METHODS §2. Exact.
    """
    if lin not in _BASES:
        _BASES[lin] = _decompose(lin)
    return _BASES[lin]


def _decompose(lin: Linearization) -> Eigenbasis:
    n, b = len(lin), lin.rows_per_sample
    kernel, val_kernel = lin.kernel, lin.val_kernel
    if lin.features is not None and len(lin.features) <= lin.features.shape[1]:
        # No more rows than features: the primal leverage 1 − H would cancel where H is near 1.
        features = lin.features.double()
        kernel = features @ features.T
        val_kernel = None if lin.val_features is None else lin.val_features.double() @ features.T
    if kernel is not None:
        eigenvalues, vectors = torch.linalg.eigh(kernel)
        eigenvalues = null_to_zero(eigenvalues)
        val_rows = None if val_kernel is None else val_kernel @ vectors
        return Eigenbasis(vectors.reshape(n, b, -1), eigenvalues, eigenvalues, val_rows, True)
    assert lin.features is not None
    eigenvalues, vectors = torch.linalg.eigh(gram(lin.features))
    eigenvalues = null_to_zero(eigenvalues)
    rows = (lin.features.double() @ vectors).reshape(n, b, -1)
    val_rows = None if lin.val_features is None else lin.val_features.double() @ vectors
    return Eigenbasis(rows, eigenvalues, torch.ones_like(eigenvalues), val_rows, False)


def gram(features: Float[Tensor, "rows p"], max_bytes: float = 2**28) -> Float[Tensor, "p p"]:
    """C = ΦᵀΦ in float64, a panel of rows at a time.

    Args:
        features: Φ, any floating precision.
        max_bytes: of one panel in float64.

    Returns:
        C.

    Cost: 2 rows p² operations; p² values and one panel.
    """
    size = features.shape[1]
    total = torch.zeros(size, size, dtype=torch.float64)
    panel = max(1, int(max_bytes // (8 * size)))
    for start in range(0, len(features), panel):
        part = features[start : start + panel].double()
        total.addmm_(part.T, part)
    return total


def null_to_zero(eigenvalues: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """Eigenvalues with those that are rounding set to exactly 0.

    Args:
        eigenvalues: ascending, of a matrix without negative ones.

    Returns:
        The same, 0 where at most p · 2⁻⁵² · λ_max.
    """
    threshold = len(eigenvalues) * torch.finfo(torch.float64).eps * eigenvalues[-1]
    return torch.where(eigenvalues > threshold, eigenvalues, 0.0)
