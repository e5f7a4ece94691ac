"""A sample's loss as a function of the outputs alone: its value, gradient and Hessian."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from datassay.errors import SettingError

LOSSES = ("cross_entropy", "mse")


def check_loss(loss: str, is_classification: bool) -> None:
    """Refuse a loss that the task does not have.

    Args:
        loss: its name.
        is_classification: whether the targets are classes.

    Raises:
        SettingError: it is unknown, or cross-entropy for a regression.
    """
    allowed = LOSSES if is_classification else ("mse",)
    if loss not in allowed:
        task = "classes" if is_classification else "a regression"
        names = " or ".join(allowed)
        raise SettingError(f"loss must be {names} for {task}; got {loss!r}.")


def output_losses(
    outputs: Float[Tensor, "*batch n k"], targets: Float[Tensor, "*every n k"], loss: str
) -> Float[Tensor, "*batch n"]:
    """Loss of each sample.

    Args:
        outputs: f(x_i), logits for cross-entropy.
        targets: one-hot (or probabilities), or {0, 1} for two classes with one output; [n, k], or
            as many sets of them as the batch has.
        loss: "cross_entropy" (nats) or "mse" (½ squared error, summed over outputs).

    Returns:
        ℓ_i.
    """
    if loss == "mse":
        return 0.5 * (outputs - targets).square().sum(-1)
    if outputs.shape[-1] == 1:  # log(1 + e^f) − y f
        return (functional.softplus(outputs, threshold=50) - targets * outputs)[..., 0]
    return outputs.logsumexp(-1) - (targets * outputs).sum(-1)


def loss_derivatives(
    outputs: Float[Tensor, "*batch n k"], targets: Float[Tensor, "*every n k"], loss: str
) -> tuple[Float[Tensor, "*batch n k"], Float[Tensor, "*batch n k k"]]:
    """Gradient R and Hessian S of each sample's loss with respect to its outputs.

    Args:
        outputs: f(x_i), logits for cross-entropy.
        targets: one-hot (or probabilities), or {0, 1} for two classes with one output; [n, k], or
            as many sets of them as the batch has.
        loss: "cross_entropy" or "mse" (½ squared error).

    Returns:
        R_i and S_i: p − y and diag(p) − ppᵀ (p (1 − p) for one output), or f − y and I.

    Raises:
        SettingError: the loss is unknown.
    """
    k = outputs.shape[-1]
    if loss == "mse":
        identity = torch.eye(k, dtype=outputs.dtype, device=outputs.device)
        return outputs - targets, identity.expand(*outputs.shape, k)
    if loss != "cross_entropy":
        raise SettingError(f"loss must be 'cross_entropy' or 'mse'; got {loss!r}.")
    if k == 1:
        p = torch.sigmoid(outputs)
        return p - targets, (p * (1 - p))[..., None]
    p = outputs.softmax(-1)
    return p - targets, torch.diag_embed(p) - p[..., :, None] * p[..., None, :]
