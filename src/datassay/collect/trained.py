"""Has the network already seen these labels? Then its held-out outputs are not held out."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from datassay.errors import ModelError


def initial_fit_warning(
    outputs: Float[Tensor, "n k"],
    targets: Float[Tensor, "n k"],
    val_outputs: Float[Tensor, "m k"],
    val_targets: Float[Tensor, "m k"] | None,
    allow_trained: bool,
) -> tuple[str, ...]:
    """Compare how well the weights already fit the training labels and labels they cannot know.

    METHODS §0: at weights trained on the same noisy labels the AUROC of label errors falls from
    0.99 to 0.78. Such weights fit their training labels better than the validation labels.

    Args:
        outputs: f₀ on the training samples.
        targets: their targets.
        val_outputs: f₀ on the validation samples; [0, k] when there are none.
        val_targets: their targets, or None when they cannot be compared.
        allow_trained: warn instead of raising.

    Returns:
        One warning, or none: that the weights already predict these labels.

    Raises:
        ModelError: the fit to the training labels exceeds that to the validation labels by more
            than 3 standard errors and both a tenth of the variance, and allow_trained is False.
    """
    spread = (targets - targets.mean(0)).square().sum(1).mean().clamp_min(1e-300)
    error = (outputs.double() - targets).square().sum(1) / spread
    explained = 1 - float(error.mean())
    if explained < 0.1:
        return ()
    share = f"the weights already explain {explained:.0%} of the training targets' variance"
    if val_targets is None or len(val_targets) < 2:
        return (f"{share}: held-out outputs are valid only if they were trained on other data.",)
    val_error = (val_outputs.double() - val_targets).square().sum(1) / spread
    gap = float(val_error.mean() - error.mean())
    noise = float((error.var() / len(error) + val_error.var() / len(val_error)).sqrt())
    if gap <= max(3 * noise, 0.1 * float(val_error.mean())):
        return (f"{share}: held-out outputs are valid only if they were trained on other data.",)
    message = (
        f"the weights must not have seen these labels; {share} but only "
        f"{1 - float(val_error.mean()):.0%} of the validation targets', so held-out outputs and "
        "label issues would be blind to what was memorised."
    )
    if allow_trained:
        return (message,)
    raise ModelError(
        f"{message} Start from initial weights, from weights trained on other data, or pass "
        "allow_trained=True (--allow-trained)."
    )
