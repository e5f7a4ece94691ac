"""The cross-entropies of several labels per sample, each 0 or 1, summed over outputs."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.loss import Loss
from datassay.errors import SettingError
from datassay.optional import map_optional


class BinaryCrossEntropy(Loss):
    """Σ log(1 + e^f) − y f."""

    name = "bce"
    criteria = (nn.BCEWithLogitsLoss,)
    compares = "classes"

    def settings_of(self, criterion: Any) -> dict[str, Any]:
        """Return pos_weight and weight of a torch criterion, under our names."""
        if criterion.weight is not None and criterion.weight.ndim > 1:
            raise SettingError(
                "nn.BCEWithLogitsLoss(weight=) must be one number per output; got "
                f"{list(criterion.weight.shape)}. Give samples their weights as 'loss_weight'."
            )
        return {"class_weight": criterion.pos_weight, "output_weight": criterion.weight}

    def predict(self, f: Tensor, dim: int = -1) -> Tensor:
        """Return the labels' probabilities."""
        return f.sigmoid()

    def value(self, f: Tensor, y: Tensor) -> Tensor:
        """Return binary cross-entropy in nats, summed over outputs."""
        output_weight = map_optional(lambda w: w.to(f), self.output_weight)
        positive_weight = map_optional(lambda w: w.to(f), self.class_weight)
        return functional.binary_cross_entropy_with_logits(
            f, y, output_weight, pos_weight=positive_weight, reduction="none"
        ).sum(-1)

    def second_derivative(self, f: Tensor, y: Tensor | None = None) -> Tensor:
        """Return p (1 − p)."""
        p = f.sigmoid()
        return p * (1 - p)

    def weights(self, f: Tensor, y: Tensor) -> Tensor:
        """Return each output's weight, times `class_weight` where its target is 1."""
        factor = torch.ones(*f.shape[:-1], 1).to(f)
        if self.class_weight is not None:
            factor = factor * (1 + y * (self.class_weight.to(f) - 1))
        if self.output_weight is not None:
            factor = factor * self.output_weight.to(f)
        return factor


LOSS = BinaryCrossEntropy()
