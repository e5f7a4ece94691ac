"""Newton's method for the likelihood of the labels: its derivatives in closed form.

With q the posterior and p the calibrated probabilities of a sample, and z = a f + W f + b:
∂L/∂z = q − p,  ∂²L/∂z² = [diag(q) − qqᵀ] − [diag(p) − ppᵀ],  and for the odds u (T = softmax(u)):
∂L/∂u[c, l] = q[c] (1[l = y] − T[c, l]). Derivatives with respect to a, W, b and θ follow by the
chain rule; sums over samples are taken per given label, so that k⁵ and not n k⁴ terms are formed
for T.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def derivatives(
    inputs: Float[Tensor, "n inputs"],
    labels: Int[Tensor, " n"],
    log_p: Float[Tensor, "n k"],
    log_posterior: Float[Tensor, "n k"],
    transition: Float[Tensor, "k k"],
) -> tuple[Float[Tensor, " all"], Float[Tensor, "all all"]]:
    """Gradient and Hessian of the log-likelihood with respect to the mixing matrix and to u.

    Args:
        inputs: f, and 1 for the intercepts.
        labels: given.
        log_p: from the calibration.
        log_posterior: of the true class.
        transition: T.

    Returns:
        Both, of (mixing [inputs, k], u [k, k]) laid out one after the other.

    Cost: 2 n inputs² k² operations and n inputs k² values.
    """
    k = transition.shape[0]
    p, q = log_p.exp(), log_posterior.exp()
    spread = _covariances(q)
    curvature = spread - _covariances(p)  # [n, k, k]
    pairs = (inputs[:, :, None] * inputs[:, None]).flatten(1)
    mixing = (pairs.T @ curvature.flatten(1)).reshape(inputs.shape[1], inputs.shape[1], k, k)
    mixing = mixing.permute(0, 2, 1, 3).reshape(inputs.shape[1] * k, -1)
    # Sums over the samples of each given label y; move[y, c, l] = 1[l = y] − T[c, l].
    move = torch.eye(k, dtype=torch.float64)[:, None, :] - transition
    by_label = torch.zeros(k, k, k, dtype=torch.float64).index_add_(0, labels, spread)
    weighted = (inputs[:, :, None, None] * spread[:, None]).flatten(1)
    crossed = torch.zeros(k, weighted.shape[1], dtype=torch.float64)
    crossed = crossed.index_add_(0, labels, weighted).reshape(k, inputs.shape[1] * k, k)
    cross = torch.einsum("yac,ycl->acl", crossed, move).flatten(1)
    noise = torch.einsum("ycd,ycl,ydm->cldm", by_label, move, move)
    counts = torch.zeros(k, k, dtype=torch.float64).index_add_(0, labels, q).T  # [true, given]
    rows = counts.sum(1)
    noise -= _on_diagonal(rows[:, None, None] * _covariances(transition))
    hessian = torch.cat([
        torch.cat([mixing, cross], 1),
        torch.cat([cross.T, noise.reshape(k * k, -1)], 1),
    ])
    gradient = torch.cat([
        (inputs.T @ (q - p)).flatten(),
        (counts - rows[:, None] * transition).flatten(),
    ])
    return gradient, hessian


def prior_derivatives(
    transition: Float[Tensor, "k k"], right: float, other: float
) -> tuple[Float[Tensor, " u"], Float[Tensor, "u u"]]:
    """The same of right Σ_c log T[c, c] + other / k Σ log T, with respect to u."""
    k = len(transition)
    gradient = right * torch.eye(k, dtype=torch.float64) + other / k - (right + other) * transition
    hessian = -(right + other) * _on_diagonal(_covariances(transition))
    return gradient.flatten(), hessian.reshape(k * k, -1)


def _covariances(p: Float[Tensor, "m k"]) -> Float[Tensor, "m k k"]:
    return torch.diag_embed(p) - p[:, :, None] * p[:, None]


def _on_diagonal(blocks: Float[Tensor, "c k k"]) -> Float[Tensor, "c k c k"]:
    """Blocks of one class each, in a matrix over classes and labels."""
    return torch.einsum("clm,cd->cldm", blocks, torch.eye(len(blocks), dtype=torch.float64))
