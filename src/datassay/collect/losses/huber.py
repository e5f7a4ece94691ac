"""The Huber loss, summed over outputs; torch's smooth ℓ1 loss is that, divided by its width."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.loss import Loss


class Huber(Loss):
    """½ (f − y)² where |f − y| < δ, and δ (|f − y| − ½ δ) beyond."""

    name = "huber"
    criteria = (nn.HuberLoss, nn.SmoothL1Loss)
    compares = "values"

    def settings_of(self, criterion: Any) -> dict[str, Any]:
        """Return the width delta, and 1 / delta as scale for smooth ℓ1, of a torch criterion."""
        if isinstance(criterion, nn.SmoothL1Loss):
            return {"scale": 1 / criterion.beta, "delta": float(criterion.beta)}
        return {"delta": float(criterion.delta)}

    def value(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the sum over outputs."""
        return functional.huber_loss(f, y, reduction="none", delta=self.delta).sum(-1)

    def second_derivative(self, f: Tensor, y: Tensor | None = None) -> Tensor:
        """Return 1 where the loss is a square, else 0."""
        assert y is not None
        return ((f - y).abs() < self.delta).to(f)


LOSS = Huber()
