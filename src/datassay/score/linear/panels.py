"""Products over all samples, accumulated in panels of rows from memory or from a store.

Size and order of the panels depend neither on where features are stored nor on where panels are
computed: results are bit-identical.
"""

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

# Rows of a symmetric product that are computed together, from the diagonal's block on.
SYMMETRIC_ROWS = 512


@runtime_checkable
class Rows(Protocol):
    """Features as scores read them: their shape, and a slice of rows at a time."""

    @property
    def shape(self) -> torch.Size:
        """[rows, p]."""
        ...

    def __getitem__(self, panel: slice, /) -> Tensor:
        """Return rows start to stop."""
        ...


def panels(n: int, values_each: int, min_rows: int = 1) -> Iterator[slice]:
    """Yield consecutive slices of 0..n, each of PANEL_BYTES and at least min_rows long."""
    # An entry stands for `values_each` float64 values.
    size = max(min_rows, PANEL_BYTES // (8 * max(1, values_each)))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def is_kept_whole(n_values: int) -> bool:
    """Return whether `n_values` float64 values are few enough to be kept in memory."""
    return 8 * n_values <= WHOLE_BYTES


def all_rows(features: Rows) -> Float[Tensor, "rows p"]:
    """Return Φ at once in float64, for scores of few samples."""
    return features[0 : features.shape[0]].double()


def operand(values: Tensor, products: Products, device: str = "cpu") -> Tensor:
    """Return values in the precision and on the device of a product."""
    values = values.to(device)
    if products == "bfloat16":
        return values.to(torch.bfloat16).float()
    if products == "float64":
        return values.double()
    return values.float()


def product(
    a: Float[Tensor, "a p"], b: Float[Tensor, "p b"], products: Products
) -> Float[Tensor, "a b"]:
    """Return a @ b of two operands that `operand` prepared."""
    if products != "bfloat16":
        return a @ b
    with bfloat16_units():
        return a @ b


@contextmanager
def bfloat16_units() -> Iterator[None]:
    """Let float32 products round their factors to bfloat16: exact for rounded factors."""
    # torch's own product of bfloat16 tensors would also round the sums.
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


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
    """Return Φᵀ diag(weight) Φ in float64, summed over panels of rows on the engine."""
    n, p = features.shape
    all_panels = list(panels(n, p, p))  # at least p rows, so that no more than n · p values add up
    shared = (features, products, weight, device)
    total = engine.sum(
        _multiply_panel, shared, all_panels, lambda panel: progress(step, panel.stop, n)
    )
    complete_lower(total)
    return total


def _multiply_panel(
    shared: tuple[Rows, Products, Tensor | None, str], panel: slice
) -> Float[Tensor, "p p"]:
    """Return a panel's part of ΦᵀΦ, upper half only; runs on the engine."""
    features, products, weight, device = shared
    rows = features[panel]
    if weight is not None:
        rows = rows * weight[panel].sqrt()[:, None]
    size = rows.shape[1]
    total = torch.zeros(size, size, dtype=torch.float64, device=device)
    add_products(operand(rows, products, device), total, products)
    return total.cpu()


def add_products(
    rows: Float[Tensor, "panel p"], total: Float[Tensor, "p p"], products: Products = "float64"
) -> None:
    """Add rowsᵀ rows to the upper half of `total`, in place."""
    for block in symmetric_panels(total):
        block_rows = rows[:, block].T
        trailing = rows[:, block.start :]
        if rows.dtype == total.dtype:
            total[block, block.start :].addmm_(block_rows, trailing)
        else:
            total[block, block.start :] += product(block_rows, trailing, products)


def symmetric_panels(matrix: Float[Tensor, "p p"]) -> list[slice]:
    """Return slices of SYMMETRIC_ROWS rows that cover a matrix."""
    p = len(matrix)
    return [slice(start, min(start + SYMMETRIC_ROWS, p)) for start in range(0, p, SYMMETRIC_ROWS)]


def complete_lower(total: Float[Tensor, "p p"]) -> None:
    """Copy the upper half of a symmetric matrix to the lower one, in place."""
    for block in symmetric_panels(total):
        total[block.stop :, block] = total[block, block.stop :].T


def transposed_product(
    features: Rows, columns: Float[Tensor, "rows c"], device: str = "cpu"
) -> Float[Tensor, "p c"]:
    """Return Φᵀ columns in float64, computed panel by panel."""
    n, p = features.shape
    total = torch.zeros(p, columns.shape[1], dtype=torch.float64, device=device)
    for panel in panels(n, p):
        rows = operand(features[panel], "float64", device)
        values = operand(columns[panel], "float64", device)
        total.addmm_(rows.T, values)
    return total.cpu()


def doubled_upper(matrix: Float[Tensor, "p p"]) -> Float[Tensor, "p p"]:
    """Return a symmetric matrix with blocks above the diagonal doubled, for half sums."""
    # Diagonal blocks stay. Sums over its upper blocks then equal sums over all blocks of the
    # matrix.
    doubled = 2 * matrix
    for block in symmetric_panels(matrix):
        doubled[block, block] /= 2
    return doubled


def times_upper(rows: Float[Tensor, "b p"], matrix: Float[Tensor, "p p"]) -> Float[Tensor, "b p"]:
    """Return rows times an upper triangular matrix, with half the operations."""
    results = torch.empty_like(rows)
    for block in symmetric_panels(matrix):
        results[:, block] = rows[:, : block.stop] @ matrix[: block.stop, block]
    return results


def invert_root(matrix: Float[Tensor, "p p"]) -> bool:
    """Replace L Lᵀ by L⁻¹ in place; return False if it is not positive definite."""
    # In place, panel by panel of columns: nothing of its size is held besides.
    panels = symmetric_panels(matrix)
    failures = torch.zeros((), dtype=torch.int32, device=matrix.device)
    for panel in panels:  # to L
        l_rows = matrix[:, : panel.start]
        lower_rows = slice(panel.stop, None)
        matrix[panel.start :, panel] -= l_rows[panel.start :] @ l_rows[panel].T
        corner, failed = torch.linalg.cholesky_ex(matrix[panel, panel])
        failures += failed
        matrix[panel, panel] = corner
        matrix[lower_rows, panel] = torch.linalg.solve_triangular(
            corner.T, matrix[lower_rows, panel], upper=True, left=False
        )
        matrix[panel, lower_rows] = 0
    for panel in reversed(panels):
        lower_rows = slice(panel.stop, None)
        identity = torch.eye(panel.stop - panel.start).to(matrix)
        corner = torch.linalg.solve_triangular(matrix[panel, panel], identity, upper=False)
        matrix[lower_rows, panel] = (
            -(matrix[lower_rows, lower_rows] @ matrix[lower_rows, panel]) @ corner
        )
        matrix[panel, panel] = corner
    return not bool(failures)


class SquaredLength:
    """Quadratic form wᵀ G w of many columns w, from the upper half of a symmetric G alone."""

    def __init__(self, matrix: Float[Tensor, "p p"], products: Products, device: str = "cpu"):
        self._matrix = operand(doubled_upper(matrix), products, device)
        self._products: Products = products
        self._device = device

    def __call__(self, w: Float[Tensor, "p g c"]) -> Float[Tensor, " g"]:
        """Return wᵀ G w summed over columns, [g]."""
        flat = operand(w.permute(1, 2, 0).flatten(0, 1), self._products, self._device)  # [g c, p]
        total = flat.new_zeros(len(flat))
        for block in symmetric_panels(self._matrix):
            columns = slice(block.start, None)
            products = product(flat[:, columns], self._matrix[block, columns].T, self._products)
            total += products.mul_(flat[:, block]).sum(1)
        return total.cpu().reshape(w.shape[1:]).sum(1).double().clamp_min(0)


# Systems of this many rows and more are solved one by one, each by all threads: MKL's batched LU
# of larger ones fails once the number of threads was set.
ONE_BY_ONE = 64


def solve_each(
    a: Inexact[Tensor, "*n b b"], b: Inexact[Tensor, "*n b c"]
) -> Inexact[Tensor, "*n b c"]:
    """Return a⁻¹ b of each system, as `torch.linalg.solve`; b³ operations each."""
    return _apply_each(torch.linalg.solve, a, b)


def invert_each(matrices: Inexact[Tensor, "*n b b"]) -> Inexact[Tensor, "*n b b"]:
    """Return the inverse of each matrix, as `torch.linalg.inv`; b³ operations each."""
    return _apply_each(torch.linalg.inv, matrices)


def _apply_each(call: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """Return call(*operands) for each system in the batch, one by one if they are large."""
    if operands[0].shape[-1] < ONE_BY_ONE or operands[0].ndim == 2:
        return call(*operands)
    systems = zip(*(operand.flatten(0, -3) for operand in operands), strict=True)
    return torch.stack([call(*system) for system in systems]).reshape(operands[-1].shape)
