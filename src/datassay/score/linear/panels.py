"""Products over all samples, accumulated in panels of rows from memory or from a store.

Size and order of the panels depend neither on where features are stored nor on where panels are
computed: results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from datassay.collect.engine.base import IN_PROCESS, Engine
from datassay.collect.form import PANEL_BYTES, WHOLE_BYTES
from datassay.collect.form import ProductPrecision as Products
from datassay.progress import Progress, silent

# Rows of a symmetric product that are computed together, each block from its diagonal on.
SYMMETRIC_ROWS = 512


@runtime_checkable
class Rows(Protocol):
    """Features as scores read them: their shape, and a slice of rows at a time."""

    @property
    def shape(self) -> torch.Size:
        """[rows, p]."""
        ...

    def __getitem__(self, part: slice, /) -> Tensor:
        """Rows start to stop."""
        ...


def panels(n: int, values_each: int, least: int = 1) -> Iterator[slice]:
    """Slices that cover 0 to n in order, of PANEL_BYTES of float64 values or `least` rows."""
    size = max(least, PANEL_BYTES // (8 * max(1, values_each)))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def is_kept_whole(n_values: int) -> bool:
    """Whether so many float64 values are few enough to be kept."""
    return 8 * n_values <= WHOLE_BYTES


def all_rows(features: Rows) -> Float[Tensor, "rows p"]:
    """Φ at once in float64, for scores of few samples."""
    return features[0 : features.shape[0]].double()


def operand(values: Tensor, products: Products, device: str = "cpu") -> Tensor:
    """Values in the precision and on the device of a product."""
    values = values.to(device)
    if products == "bfloat16":
        return values.to(torch.bfloat16).float()
    return values.double() if products == "float64" else values.float()


def product(
    left: Float[Tensor, "a p"], right: Float[Tensor, "p b"], products: Products
) -> Float[Tensor, "a b"]:
    """The product of two operands."""
    if products != "bfloat16":
        return left @ right
    with bfloat16_units():
        return left @ right


@contextmanager
def bfloat16_units() -> Iterator[None]:
    """Let float32 products round their factors to bfloat16: exact for rounded factors."""
    # torch's own product of bfloat16 tensors would also round the sums.
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def gram(
    features: Rows,
    products: Products = "float64",
    *,
    weight: Float[Tensor, " rows"] | None = None,
    device: str = "cpu",
    progress: Progress = silent,
    step: str = "multiply features",
    engine: Engine = IN_PROCESS,
) -> Float[Tensor, "p p"]:
    """C = Φᵀ diag(weight) Φ, accumulated in panels of rows, which a tree adds up in float64."""
    n, size = features.shape
    parts = list(panels(n, size, size))  # no more sums than rows
    shared = (features, products, weight, device)
    total = engine.sum(_panel_products, shared, parts, lambda p: progress(step, p.stop, n))
    below = total.triu(1).T
    return total.triu_().add_(below)


def _panel_products(
    shared: tuple[Rows, Products, Tensor | None, str], part: slice
) -> Float[Tensor, "p p"]:
    features, products, weight, device = shared
    rows = features[part]
    if weight is not None:
        rows = rows * weight[part].sqrt()[:, None]
    size = rows.shape[1]
    total = torch.zeros(size, size, dtype=torch.float64, device=device)
    add_products(operand(rows, products, device), total, products)
    return total.cpu()


def add_products(
    rows: Float[Tensor, "panel p"], into: Float[Tensor, "p p"], products: Products = "float64"
) -> None:
    """Add the upper half of the rows' products to `into`; below it stays incomplete."""
    for start in range(0, rows.shape[1], SYMMETRIC_ROWS):
        stop = start + SYMMETRIC_ROWS
        left, right = rows[:, start:stop].T, rows[:, start:]
        if rows.dtype == into.dtype:
            into[start:stop, start:].addmm_(left, right)
        else:
            into[start:stop, start:] += product(left, right, products)


def transposed_product(
    features: Rows, columns: Float[Tensor, "rows c"], device: str = "cpu"
) -> Float[Tensor, "p c"]:
    """Φᵀ Y in float64, a panel at a time."""
    n, size = features.shape
    total = torch.zeros(size, columns.shape[1], dtype=torch.float64, device=device)
    for part in panels(n, size):
        rows, each = (operand(v[part], "float64", device) for v in (features, columns))
        total.addmm_(rows.T, each)
    return total.cpu()


def doubled_upper(matrix: Float[Tensor, "p p"]) -> Float[Tensor, "p p"]:
    """Twice a symmetric matrix whose upper blocks stand for both; once on the diagonal."""
    doubled = 2 * matrix
    for start in range(0, len(matrix), SYMMETRIC_ROWS):
        part = slice(start, start + SYMMETRIC_ROWS)
        doubled[part, part] /= 2
    return doubled


class SquaredLength:
    """wᵀ G w of many columns w, from the upper half of a symmetric G alone."""

    def __init__(self, matrix: Float[Tensor, "p p"], products: Products, device: str = "cpu"):
        self._matrix = operand(doubled_upper(matrix), products, device)
        self._products: Products = products
        self._device = device

    def __call__(self, w: Float[Tensor, "p g c"]) -> Float[Tensor, " g"]:
        """Σ over columns, [g]; p² operations per column. Rounding below 0 becomes 0."""
        flat = operand(w.permute(1, 2, 0).flatten(0, 1), self._products, self._device)  # [g c, p]
        total = flat.new_zeros(len(flat))
        for start in range(0, flat.shape[1], SYMMETRIC_ROWS):
            part = slice(start, start + SYMMETRIC_ROWS)
            along = product(flat[:, start:], self._matrix[part, start:].T, self._products)
            total += along.mul_(flat[:, part]).sum(1)
        return total.cpu().reshape(w.shape[1:]).sum(1).double().clamp_min(0)


# Rows of a system that is solved alone, its own threads busy; MKL's trouble begins above.
ONE_BY_ONE = 64


def solved(
    left: Inexact[Tensor, "*n b b"], right: Inexact[Tensor, "*n b c"]
) -> Inexact[Tensor, "*n b c"]:
    """left⁻¹ right of each system, as `torch.linalg.solve`; b³ operations each."""
    return _each(torch.linalg.solve, left, right)


def inverted(matrices: Inexact[Tensor, "*n b b"]) -> Inexact[Tensor, "*n b b"]:
    """Inverse of each matrix, as `torch.linalg.inv`; b³ operations each."""
    return _each(torch.linalg.inv, matrices)


def _each(call: Callable[..., Tensor], *given: Tensor) -> Tensor:
    if given[0].shape[-1] < ONE_BY_ONE or given[0].ndim == 2:
        return call(*given)
    flat = zip(*(one.flatten(0, -3) for one in given), strict=True)
    return torch.stack([call(*one) for one in flat]).reshape(given[-1].shape)
