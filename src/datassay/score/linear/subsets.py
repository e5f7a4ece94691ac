"""Ridge fits to subsets of the samples, and the closed form of every removal from each."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.results import result
from datassay.score.labels.ridge import RidgeFit
from datassay.score.linear.eigenbasis import FeatureRows

ROWS_AT_ONCE = 8192
MODES = 512  # of the kernel, at most: a subset's system is no larger
HELD = 0.95  # share of the fit's degrees of freedom that the modes hold, if there are enough


@result
class Modes:
    """Samples in the kernel's leading modes.

    Attributes:
        a: the training samples, [n, r].
        val: the validation samples, [m, r].
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
        targets: Y, given, less the offset, [n, k].
        penalty: λ, kernel unit.
        inputs: P, that are predicted, the n samples first, [t, r].
        truth: their targets T, less the offset, [t, k].
        products: AᵀA, [r, r], and AᵀY, [r, k].
        root: of the other inputs' products, [v, r]: rootᵀ root = PᵀP − AᵀA.
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
        """Return the mean squared error on other inputs that each removal of a subset adds, and w.

        w₋ᵢ = w − q_i ρ_i,  q = A (AᵀA + λ)⁻¹,  ρ_i = (y_i − A_i w) / (1 − q_i · A_i),
        ‖P w₋ᵢ − T‖² − ‖P w − T‖² = −2 ρ_i · q_i (gram w − sent) + ‖ρ_i‖² q_i gram q_iᵀ,
        less what its own input has part in it, where A_i w₋ᵢ = y_i − ρ_i; gram = PᵀP, sent = PᵀT.

        Returns:
            What each removal adds, and w.
        """
        if len(subset) > self.a.shape[1]:
            return self._gains_primal(subset)
        # The dual form: 1 − q · A would cancel where the fit meets the targets.
        a = self.a[subset]
        inverse = invert_ridge(a @ a.T, self.penalty)  # [s, s]
        solved = inverse @ self.targets[subset]
        residual = solved / inverse.diagonal()[:, None]
        weights = a.T @ solved
        return self._changes(subset, a, inverse @ a, residual, weights), weights

    def _gains_primal(self, subset: Int[Tensor, " s"]) -> tuple[Tensor, Tensor]:
        n = len(self.a)
        is_out = torch.ones(n, dtype=torch.bool)
        is_out[subset] = False
        total, sent = self.products
        if 2 * len(subset) > n:  # fewer are left out
            out_idx = is_out.nonzero()[:, 0]
            gram = total - _square(self.a[out_idx])
            sent = sent - self.a[out_idx].T @ self.targets[out_idx]
        else:
            gram = _square(self.a[subset])
            sent = self.a[subset].T @ self.targets[subset]
        inverse = invert_ridge(gram, self.penalty)  # [r, r]
        weights = inverse @ sent
        gain = []
        for chunk in subset.split(ROWS_AT_ONCE):
            a = self.a[chunk]
            q = a @ inverse
            residual = (self.targets[chunk] - a @ weights) / (1 - (q * a).sum(1))[:, None]
            gain.append(self._changes(chunk, a, q, residual, weights))
        return torch.cat(gain), weights

    def _changes(self, subset: Int[Tensor, " s"], a, q, residual, weights) -> Float[Tensor, " s"]:
        """Return what removals add to the mean squared error on other inputs."""
        total, _ = self.products
        fitted = total @ weights + self.root.T @ (self.root @ weights)
        slope = q @ (fitted - self.cross)  # [s, k]
        curvature = q.square() @ total.diagonal() + (q @ self.root.T).square().sum(1)
        gain = -2 * (residual * slope).sum(1) + residual.square().sum(1) * curvature
        truth = self.truth[subset]
        gain -= (self.targets[subset] - residual - truth).square().sum(1)
        gain += (a @ weights - truth).square().sum(1)
        return gain / (len(self.truth) - 1)


def read_modes(fit: RidgeFit) -> Modes:
    """Return the samples in the modes that hold HELD of a fit's degrees of freedom."""
    basis = fit.basis
    idx = basis.eigenvalues.argsort(descending=True)
    eigenvalues = basis.eigenvalues[idx]
    freedom = eigenvalues / (eigenvalues + fit.penalty)
    share = freedom.cumsum(0) / freedom.sum()
    count = min(MODES, basis.rank, int((share < HELD).sum()) + 1)
    idx = idx[:count]
    a = basis.leading(count)[:, 0]
    val = None
    if basis.val is not None and fit.lin.val_targets is not None:
        if isinstance(basis.val, FeatureRows):
            val = basis.val.modes(idx)[:, 0]
        else:
            val = basis.val[:, 0, idx] / basis.metric[idx].sqrt()
    # Of a sample the other modes hold little in common with any other: they act as a penalty.
    penalty = fit.penalty + float(eigenvalues[count:].sum()) / len(a)
    return Modes(a, val, penalty, float(share[count - 1]))


def share_products(fit: RidgeFit, modes: Modes, truth: Float[Tensor, "t k"]) -> SubsetFits:
    """Return what the fits to all subsets share; `truth` are all inputs' targets less offset."""
    a = inputs = modes.a
    root = a.new_zeros(0, a.shape[1])
    if modes.val is not None:
        inputs = torch.cat([a, modes.val])
        root = modes.val
        if len(root) > root.shape[1]:
            root = torch.linalg.qr(root, mode="r").R
    targets = (fit.lin.targets - fit.offset).double()
    products = _square(a), a.T @ targets
    return SubsetFits(a, targets, modes.penalty, inputs, truth, products, root, inputs.T @ truth)


def _square(rows: Float[Tensor, "s r"]) -> Float[Tensor, "r r"]:
    """Compute rowsᵀ rows, by NumPy in half the operations: it is symmetric."""
    return torch.from_numpy(rows.numpy().T @ rows.numpy())


def invert_ridge(gram: Float[Tensor, "r r"], penalty: float) -> Float[Tensor, "r r"]:
    """Compute (gram + λ)⁻¹."""
    shifted = gram + penalty * torch.eye(len(gram), dtype=gram.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))
