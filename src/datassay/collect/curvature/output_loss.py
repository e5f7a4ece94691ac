"""A sample's loss as a function of the outputs alone: its value, gradient and Hessian."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from datassay.data.samples import SampleSet
from datassay.data.targets import recode_for_outputs
from datassay.errors import ModelError, SettingError
from datassay.optional import text_if
from datassay.rules import one_of, require

LOSSES = ("cross_entropy", "mse")


def task_loss(samples: SampleSet, loss: str | nn.Module = "auto") -> str:
    """Return a task's loss: "auto" is "cross_entropy" for classes and "mse" for targets."""
    if loss == "auto" or (samples.is_classification and _is_plain(loss)):
        if samples.is_classification:
            return "cross_entropy"
        return "mse"
    if isinstance(loss, nn.MSELoss):
        raise SettingError(
            "loss must be 'mse' here, half the squared error summed over outputs: of k outputs k/2 "
            f"times {loss}, so that weight_decay and damping of yours are multiplied by it."
        )
    allowed = ("mse",)
    task = "a regression"
    if samples.is_classification:
        allowed = LOSSES
        task = "classes"
    require(loss in allowed, "loss", f"be {' or '.join(allowed)} for {task}", repr(loss))
    return str(loss)


def _is_plain(loss: object) -> bool:
    """Return whether a criterion of torch is the mean cross-entropy itself."""
    if type(loss) is not nn.CrossEntropyLoss or loss.weight is not None:
        return False
    return (loss.ignore_index, loss.label_smoothing, loss.reduction) == (-100, 0.0, "mean")


def check_n_outputs(samples: SampleSet, n_outputs: int) -> None:
    """Raise ModelError unless k is one per class (or 1 for two classes), or one a target."""
    if samples.is_classification:
        allowed = {1, 2}
        if samples.n_classes != 2:
            allowed = {samples.n_classes}
        rule = f"{samples.n_classes} outputs, one per class"
        rule += text_if(len(allowed) > 1, " (or 1 for two classes)")
    else:
        n_targets = 1
        if samples.y.ndim != 1:
            n_targets = samples.y.shape[1]
        plural = text_if(n_targets > 1, "s")
        allowed = {n_targets}
        rule = f"{n_targets} output{plural}, one a target"
    if n_outputs not in allowed:
        raise ModelError(f"the model must have {rule}; got {n_outputs}. Change its last layer.")


def output_losses(
    outputs: Float[Tensor, "*batch n k"], targets: Float[Tensor, "*every n k"], loss: str
) -> Float[Tensor, "*batch n"]:
    """Compute ℓ_i: "cross_entropy" (nats, of logits) or "mse" (½ squared error over outputs)."""
    # Targets are one-hot (or probabilities), or {0, 1} for two classes with one output.
    if loss == "mse":
        return 0.5 * (outputs - targets).square().sum(-1)
    if outputs.shape[-1] == 1:  # log(1 + e^f) − y f
        return (functional.softplus(outputs, threshold=50) - targets * outputs)[..., 0]
    return outputs.logsumexp(-1) - (targets * outputs).sum(-1)


def loss_derivatives(
    outputs: Float[Tensor, "*batch n k"], targets: Float[Tensor, "*every n k"], loss: str
) -> tuple[Float[Tensor, "*batch n k"], Float[Tensor, "*batch n k k"]]:
    """Return gradient R and Hessian S of each sample's loss with respect to its outputs.

    Returns:
        R_i and S_i: p − y and diag(p) − ppᵀ (p (1 − p) for one output), or f − y and I.
    """
    k = outputs.shape[-1]
    if loss == "mse":
        identity = torch.eye(k, dtype=outputs.dtype, device=outputs.device)
        return outputs - targets, identity.expand(*outputs.shape, k)
    one_of("loss", loss, LOSSES)
    if k == 1:
        p = torch.sigmoid(outputs)
        return p - targets, (p * (1 - p))[..., None]
    p = outputs.softmax(-1)
    return p - targets, torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


def curvature_root(outputs: Float[Tensor, "n k"], loss: str) -> Float[Tensor, "n k r"]:
    """Compute a root T of each sample's Hessian in its outputs, S = T Tᵀ, of full column rank.

    With s = √p, a unit vector, diag(p) − ppᵀ = diag(s) (I − ssᵀ) diag(s), and the Householder
    reflection that takes the first axis to −s has a basis of s's complement as its other columns.

    Returns:
        T_i: r = k − 1 for cross-entropy of several outputs, whose S ignores a shift; else r = k.
    """
    n, k = outputs.shape
    identity = torch.eye(k, dtype=outputs.dtype, device=outputs.device)
    if loss == "mse":
        return identity.expand(n, k, k)
    if k == 1:
        p = torch.sigmoid(outputs)
        return (p * (1 - p)).sqrt()[..., None]
    s = outputs.softmax(1).sqrt()
    v = s + identity[0]
    reflection = identity - v[:, :, None] * v[:, None] / (1 + s[:, :1, None])  # vᵀv = 2 + 2 s₁
    return s[:, :, None] * reflection[:, :, 1:]


def output_score(outputs: Float[Tensor, "m k"], samples: SampleSet) -> float:
    """Return the accuracy of the outputs' classes, in [0, 1], or R² averaged over targets."""
    samples = recode_for_outputs(samples, outputs.shape[1], is_own=True)
    y = torch.as_tensor(samples.y)
    if samples.is_classification:
        if outputs.shape[1] == 1:
            predicted = (outputs[:, 0] > 0).long()
        else:
            predicted = outputs.argmax(1)
        return float((predicted == y).double().mean())
    y = y.double().reshape(len(y), -1)
    error = (outputs - y).square().sum(0)
    return float((1 - error / (y - y.mean(0)).square().sum(0)).mean())


def margins(outputs: Float[np.ndarray, "m k"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """Return by how much the given label leads the outputs; in a regression −largest error."""
    if not samples.is_classification:
        return -np.abs(outputs - samples.y.reshape(outputs.shape)).max(1)
    if outputs.shape[1] == 1:  # above ½: the second class
        return (outputs[:, 0] - 0.5) * (2 * samples.y - 1)
    of_label = outputs[np.arange(len(samples)), samples.y]
    rivals = outputs.copy()
    rivals[np.arange(len(samples)), samples.y] = -np.inf
    return of_label - rivals.max(1)


def predicted_class(outputs: Float[np.ndarray, "m k"]) -> Int[np.ndarray, " m"]:
    """Return the index of the largest output's class; one output decides between two at ½."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0.5).astype(np.int64)
    return outputs.argmax(1)
