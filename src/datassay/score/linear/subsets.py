"""Ridge fits to subsets of the samples, and the closed form of every removal from each."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.results import result
from datassay.score.labels.ridge import RidgeFit
from datassay.score.linear.eigenbasis import FeatureRows

ROWS_AT_ONCE = 8192
MOST_MODES = 512  # of the kernel: a subset's system is no larger
HELD = 0.95  # share of the fit's degrees of freedom that the modes hold, if MOST_MODES do


@result
class Modes:
    """The coordinates of samples in the kernel's r leading modes.

    Attributes:
        a: of the training samples, [n, r].
        val: of the validation samples, [m, r].
        penalty: λ, with what all other modes add to the diagonal of the kernel.
        share: of the fit's degrees of freedom that these modes hold.
    """

    a: Float[Tensor, "n r"]
    val: Float[Tensor, "m r"] | None
    penalty: float
    share: float


@result
class SubsetFits:
    """Samples, targets and products that the fits to all subsets share.

    Attributes:
        a: A, the n samples in the kernel's leading modes, [n, r]: its columns are orthogonal.
        targets: Y, the targets that are fitted, less the offset, [n, k].
        penalty: λ, kernel unit.
        inputs: P, the inputs that are predicted, the n samples first, [t, r].
        truth: T, their targets, less the offset, [t, k].
        products: AᵀA, [r, r], and AᵀY, [r, k].
        root: of the products of the inputs beside the samples, [v, r]: rootᵀ root = PᵀP − AᵀA.
        cross: PᵀT, [r, k].
    """

    a: Float[Tensor, "n r"]
    targets: Float[Tensor, "n k"]
    penalty: float
    inputs: Float[Tensor, "t r"]
    truth: Float[Tensor, "t k"]
    products: tuple[Float[Tensor, "r r"], Float[Tensor, "r k"]]
    root: Float[Tensor, "v r"]
    cross: Float[Tensor, "r k"]

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
        a = self.a[subset]
        inverse = invert_ridge(a @ a.T, self.penalty)  # [s, s]
        solved = inverse @ self.targets[subset]
        residual = solved / inverse.diagonal()[:, None]
        weights = a.T @ solved
        return self._error_changes(subset, a, inverse @ a, residual, weights), weights

    def _compute_primal_gains(self, subset: Int[Tensor, " s"]) -> tuple[Tensor, Tensor]:
        """Return the same as `gains`, by the system of modes, smaller for large subsets."""
        n = len(self.a)
        if 2 * len(subset) > n:  # fewer are left out: their products are subtracted
            is_out = torch.ones(n, dtype=torch.bool)
            is_out[subset] = False
            out_idx = is_out.nonzero()[:, 0]
            all_gram, all_projected = self.products
            gram = all_gram - _square(self.a[out_idx])
            projected = all_projected - self.a[out_idx].T @ self.targets[out_idx]
        else:
            gram = _square(self.a[subset])
            projected = self.a[subset].T @ self.targets[subset]
        inverse = invert_ridge(gram, self.penalty)  # [r, r]
        weights = inverse @ projected
        gains = []
        for chunk in subset.split(ROWS_AT_ONCE):
            a = self.a[chunk]
            q = a @ inverse
            residual = (self.targets[chunk] - a @ weights) / (1 - (q * a).sum(1))[:, None]
            gains.append(self._error_changes(chunk, a, q, residual, weights))
        return torch.cat(gains), weights

    def _error_changes(
        self, subset: Int[Tensor, " s"], a, q, residual, weights
    ) -> Float[Tensor, " s"]:
        """Return what each removal adds to the mean squared error on other inputs, [s]."""
        # a, q and residual (ρ) are those of the subset's samples, [s, r], [s, r] and [s, k].
        gram, _ = self.products  # AᵀA, which is diagonal
        fitted = gram @ weights + self.root.T @ (self.root @ weights)  # PᵀP w
        slope = q @ (fitted - self.cross)  # [s, k]
        curvature = q.square() @ gram.diagonal() + (q @ self.root.T).square().sum(1)
        gain = -2 * (residual * slope).sum(1) + residual.square().sum(1) * curvature
        truth = self.truth[subset]
        gain -= (self.targets[subset] - residual - truth).square().sum(1)
        gain += (a @ weights - truth).square().sum(1)
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
    a = basis.leading(count)[:, 0]
    val = None
    if basis.val is not None and fit.lin.val_targets is not None:
        if isinstance(basis.val, FeatureRows):
            val = basis.val.modes(idx)[:, 0]
        else:
            val = basis.val[:, 0, idx] / basis.metric[idx].sqrt()
    # In the other modes samples have little in common: they add to the kernel's diagonal, as a
    # penalty does.
    penalty = fit.penalty + float(eigenvalues[count:].sum()) / len(a)
    return Modes(a, val, penalty, float(share[count - 1]))


def share_products(fit: RidgeFit, modes: Modes, truth: Float[Tensor, "t k"]) -> SubsetFits:
    """Return the products that fits to all subsets share; truth: targets minus offset."""
    a = modes.a
    root = a.new_zeros(0, a.shape[1]) if modes.val is None else modes.val
    inputs = torch.cat([a, root])
    if len(root) > root.shape[1]:
        root = torch.linalg.qr(root, mode="r").R
    targets = (fit.lin.targets - fit.offset).double()
    products = (_square(a), a.T @ targets)
    return SubsetFits(a, targets, modes.penalty, inputs, truth, products, root, inputs.T @ truth)


def _square(rows: Float[Tensor, "s r"]) -> Float[Tensor, "r r"]:
    """Return rowsᵀ rows, by NumPy, which sees that it is symmetric: half the operations."""
    return torch.from_numpy(rows.numpy().T @ rows.numpy())


def invert_ridge(gram: Float[Tensor, "r r"], penalty: float) -> Float[Tensor, "r r"]:
    """Return (gram + λ)⁻¹."""
    shifted = gram + penalty * torch.eye(len(gram), dtype=gram.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))
