"""Ridge fits to subsets of the samples, and the closed form of every removal from each."""

import torch
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs
from torch import Tensor

from datassay.results import result
from datassay.score.labels.ridge import RidgeFit
from datassay.score.linear.eigenbasis import FeatureRows

ROWS_AT_ONCE = 8192
MOST_MODES = 512  # of the kernel: a subset's system is no larger
HELD = 0.8  # share of the fit's degrees of freedom that the modes hold, if MOST_MODES do


@result
class Modes:
    """The coordinates of samples in the kernel's r leading modes.

    Attributes:
        a: of the training samples, [n, r], float32.
        val: of the validation samples, [m, r], float32; m is 0 where there are none.
        gram: AᵀA, [r, r].
        penalty: λ, with what all other modes add to the diagonal of the kernel.
        share: of the fit's degrees of freedom that these modes hold.
    """

    a: Float[Tensor, "n r"]
    val: Float[Tensor, "m r"]
    gram: Float[Tensor, "r r"]
    penalty: float
    share: float


@result
class SubsetFits:
    """Samples, targets and products that the fits to all subsets share.

    Attributes:
        a: A, the n samples in the kernel's leading modes, [n, r]; float32 suffices for products
            over many samples, systems are solved in float64.
        val: V, the inputs that are predicted beside the samples, [m, r], of the same precision.
        targets: Y, the targets that are fitted, less the offset, [n, k].
        truth: T, the targets of all inputs, the samples first, less the offset, [n + m, k].
        penalty: λ, kernel unit.
        products: AᵀA, [r, r], and AᵀY, [r, k].
        gram: PᵀP, [r, r], P = (A, V) the inputs that are predicted.
        cross: PᵀT, [r, k].
    """

    a: Float[Tensor, "n r"]
    val: Float[Tensor, "m r"]
    targets: Float[Tensor, "n k"]
    truth: Float[Tensor, "t k"]
    penalty: float
    products: tuple[Float[Tensor, "r r"], Float[Tensor, "r k"]]
    gram: Float[Tensor, "r r"]
    cross: Float[Tensor, "r k"]

    def predict(self, weights: Float[Tensor, "r k"]) -> Float[Tensor, "t k"]:
        """Return P w, less the offset."""
        w = weights.to(self.a.dtype)
        return torch.cat([self.a @ w, self.val @ w])

    def squared_error(self, weights: Float[Tensor, "r k"]) -> float:
        """Return the mean over all inputs of ‖P w − T‖²."""
        change = (weights * (self.gram @ weights - 2 * self.cross)).sum()
        return float(change + self.truth.square().sum()) / len(self.truth)

    def gains(self, subset: Int[Tensor, " s"]) -> tuple[Float[Tensor, " s"], Float[Tensor, "r k"]]:
        """Return what each removal from a subset adds to the mean squared error, and w.

        w₋ᵢ = w − q_i ρ_i,  q = A (AᵀA + λ)⁻¹,  ρ_i = (y_i − A_i w) / (1 − q_i · A_i),
        ‖P w₋ᵢ − T‖² − ‖P w − T‖² = −2 ρ_i · q_i (PᵀP w − PᵀT) + ‖ρ_i‖² q_i PᵀP q_iᵀ,
        less the part of its own input in it, where A_i w₋ᵢ = y_i − ρ_i.

        Returns:
            What each removal adds, [s], and the subset's weights w, [r, k].
        """
        if len(subset) > self.a.shape[1]:
            return self._compute_primal_gains(subset)
        # The dual form: 1 − q · A would cancel where the fit meets the targets.
        a = self.a[subset].double()
        inverse = invert_ridge(a @ a.T, self.penalty)  # [s, s]
        solved = inverse @ self.targets[subset]
        residual = solved / inverse.diagonal()[:, None]
        weights = a.T @ solved
        q = inverse @ a
        slope = q @ (self.gram @ weights - self.cross)
        curvature = ((q @ self.gram) * q).sum(1)
        return self._error_changes(subset, a @ weights, residual, slope, curvature), weights

    def _compute_primal_gains(self, subset: Int[Tensor, " s"]) -> tuple[Tensor, Tensor]:
        """Return the same as `gains`, by the system of modes, smaller for large subsets."""
        n = len(self.a)
        if 2 * len(subset) > n:  # fewer are left out: their products are subtracted
            is_out = torch.ones(n, dtype=torch.bool)
            is_out[subset] = False
            out_idx = is_out.nonzero()[:, 0]
            all_gram, all_projected = self.products
            gram = all_gram - _square(self.a[out_idx])
            projected = all_projected - multiply_transposed(self.a, self.targets, out_idx)
        else:
            gram = _square(self.a[subset])
            projected = multiply_transposed(self.a, self.targets, subset)
        # AᵀA + λ = L Lᵀ. With z = A L⁻ᵀ, q · A is ‖z‖², and q PᵀP qᵀ is ‖z K‖², where
        # L⁻¹ PᵀP L⁻ᵀ = K Kᵀ: two products with triangles in place of two with squares.
        eye = torch.eye(len(gram), dtype=torch.float64)
        lower = torch.linalg.cholesky(gram + self.penalty * eye)
        root = torch.linalg.solve_triangular(lower, eye, upper=False)  # L⁻¹
        weights = root.T @ (root @ projected)
        curved = torch.linalg.cholesky(root @ self.gram @ root.T)  # K
        sloped = root @ (self.gram @ weights - self.cross)
        root, curved, sloped, w = (m.to(self.a.dtype) for m in (root, curved, sloped, weights))
        gains = []
        for chunk in subset.split(ROWS_AT_ONCE):
            a = self.a[chunk]
            fitted = (a @ w).double()
            z = _multiply_triangle(a, root.T, is_lower=False)
            leverage = torch.linalg.vector_norm(z, dim=1).double().square()
            residual = (self.targets[chunk] - fitted) / (1 - leverage)[:, None]
            slope = (z @ sloped).double()
            z = _multiply_triangle(z, curved, is_lower=True)
            curvature = torch.linalg.vector_norm(z, dim=1).double().square()
            gains.append(self._error_changes(chunk, fitted, residual, slope, curvature))
        return torch.cat(gains), weights

    def _error_changes(
        self, subset: Int[Tensor, " s"], fitted, residual, slope, curvature
    ) -> Float[Tensor, " s"]:
        """Return what each removal adds to the mean squared error on other inputs, [s]."""
        # Of the subset's samples: A w and residuals ρ, [s, k], q (PᵀP w − PᵀT), [s, k], and
        # q PᵀP qᵀ, [s].
        gain = -2 * (residual * slope).sum(1) + residual.square().sum(1) * curvature
        truth = self.truth[subset]
        gain -= (self.targets[subset] - residual - truth).square().sum(1)
        gain += (fitted - truth).square().sum(1)
        return gain / (len(self.truth) - 1)


def read_modes(fit: RidgeFit) -> Modes:
    """Return samples' coordinates in the leading modes, with HELD of the degrees of freedom."""
    basis = fit.basis
    idx = basis.eigenvalues.argsort(descending=True)
    eigenvalues = basis.eigenvalues[idx]
    freedom = eigenvalues / (eigenvalues + fit.penalty)
    share = freedom.cumsum(0) / freedom.sum()
    count = min(MOST_MODES, basis.rank, int((share < HELD).sum()) + 1)
    idx = idx[:count]
    a = basis.leading(count)[:, 0].float()
    val = a.new_zeros(0, count)
    if basis.val is not None and fit.lin.val_targets is not None:
        if isinstance(basis.val, FeatureRows):
            val = basis.val.modes(idx)[:, 0].float()
        else:
            val = (basis.val[:, 0, idx] / basis.metric[idx].sqrt()).float()
    # In the other modes samples have little in common: they add to the kernel's diagonal, as a
    # penalty does.
    penalty = fit.penalty + float(eigenvalues[count:].sum()) / len(a)
    return Modes(a, val, _square(a), penalty, float(share[count - 1]))


def share_products(fit: RidgeFit, modes: Modes, truth: Float[Tensor, "t k"]) -> SubsetFits:
    """Return the products that fits to all subsets share; truth: targets minus offset."""
    n = len(modes.a)
    targets = (fit.lin.targets - fit.offset).double()
    products = (modes.gram, multiply_transposed(modes.a, targets))
    cross = multiply_transposed(modes.a, truth[:n]) + multiply_transposed(modes.val, truth[n:])
    gram = modes.gram + _square(modes.val)
    return SubsetFits(modes.a, modes.val, targets, truth, modes.penalty, products, gram, cross)


def _square(rows: Float[Tensor, "s r"]) -> Float[Tensor, "r r"]:
    """Return rowsᵀ rows, float64, by NumPy, which sees that it is symmetric: half the work."""
    return torch.from_numpy(rows.numpy().T @ rows.numpy()).double()


def multiply_transposed(
    rows: Float[Tensor, "n r"], targets: Float[Tensor, "n k"], idx: Int[Tensor, " s"] | None = None
) -> Float[Tensor, "r k"]:
    """Return rowsᵀ targets of all samples, or of those at idx, float64."""
    if idx is not None:
        rows = rows[idx]
        targets = targets[idx]
    return (rows.T @ targets.to(rows.dtype)).double()


def _multiply_triangle(
    rows: Float[Tensor, "s r"], triangle: Float[Tensor, "r r"], *, is_lower: bool
) -> Float[Tensor, "s r"]:
    """Return rows times a triangle, by BLAS, which leaves out its zeros: half the work."""
    (multiply,) = get_blas_funcs(("trmm",), (rows.numpy(),))
    product = multiply(1.0, triangle.T.numpy(), rows.T.numpy(), lower=not is_lower)
    return torch.from_numpy(product.T)


def invert_ridge(gram: Float[Tensor, "r r"], penalty: float) -> Float[Tensor, "r r"]:
    """Return (gram + λ)⁻¹."""
    shifted = gram + penalty * torch.eye(len(gram), dtype=gram.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))
