"""Check whether the network was trained on these labels: nothing would then be held out."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from datassay.errors import ModelError

# Weights that fit less than this cannot have memorised the labels.
LEAST_FIT = 0.2
# Random weights of usual size fit less than this of labels that they happen to correlate with.
NOTABLE_FIT = 0.5


def check_initial_fit(
    outputs: Float[Tensor, "n k"],
    targets: Float[Tensor, "n k"],
    val_outputs: Float[Tensor, "m k"],
    val_targets: Float[Tensor, "m k"] | None,
    *,
    is_classification: bool,
    allow_trained: bool,
) -> tuple[str, ...]:
    """Refuse weights that fit the training labels better than labels they cannot know.

    METHODS §0: at weights trained on the same noisy labels the AUROC of label errors falls from
    0.99 to 0.78. Such weights fit their training labels better than the validation labels. The
    fit is 1 − loss / loss of a constant guess; of squared error and, for classes, cross-entropy
    the one that the weights fit better, because outputs trained by the one miss the other's scale.

    Args:
        outputs: f₀ on the training samples.
        targets: their targets.
        val_outputs: f₀ on the validation samples; [0, k] when there are none.
        val_targets: their targets, or None without validation samples.
        is_classification: whether the targets are classes.
        allow_trained: warn instead of raising.

    Returns:
        One warning, or none: that the weights already predict these labels.

    Raises:
        ModelError: the fit to the training labels exceeds a fifth, and the validation loss exceeds
            the training loss by more than 3 standard errors and by a tenth, and allow_trained is
            False.
    """
    outputs, targets, val_outputs = outputs.double(), targets.double(), val_outputs.double()
    losses = [_squared_error, _cross_entropy] if is_classification else [_squared_error]
    relative, loss = min(
        ((loss(outputs, targets, targets), loss) for loss in losses),
        key=lambda pair: float(pair[0].mean()),
    )
    fit = 1 - float(relative.mean())
    share = f"the weights already explain {fit:.0%} of the training targets"
    note = f"{share}: held-out outputs are valid only if they were trained on other data."
    notes = (note,) if fit >= NOTABLE_FIT else ()
    if fit < LEAST_FIT or val_targets is None or len(val_targets) < 2:
        return notes
    val_relative = loss(val_outputs, val_targets.double(), targets)
    gap = float(val_relative.mean() - relative.mean())
    noise = float((relative.var() / len(relative) + val_relative.var() / len(val_relative)).sqrt())
    if gap <= max(3 * noise, 0.1 * float(val_relative.mean())):
        return notes
    message = (
        f"the weights must not have seen these labels; {share} but only "
        f"{1 - float(val_relative.mean()):.0%} of the validation targets, so held-out outputs and "
        "label issues would be blind to what was memorised."
    )
    if allow_trained:
        return (message,)
    raise ModelError(
        f"{message} Start from initial weights, from weights trained on other data, or pass "
        "allow_trained=True (--allow-trained)."
    )


def _squared_error(outputs: Tensor, targets: Tensor, train: Tensor) -> Float[Tensor, " n"]:
    """Of each sample, over the variance of the training targets."""
    spread = (train - train.mean(0)).square().sum(1).mean()
    return (outputs - targets).square().sum(1) / spread.clamp_min(1e-300)


def _cross_entropy(outputs: Tensor, targets: Tensor, train: Tensor) -> Float[Tensor, " n"]:
    """Of each sample, the outputs being logits, over the entropy of the training labels."""
    share = train.mean(0)
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        targets, share = torch.cat([1 - targets, targets], 1), torch.cat([1 - share, share])
    return functional.cross_entropy(outputs, targets, reduction="none") / torch.special.entr(
        share
    ).sum().clamp_min(1e-300)
