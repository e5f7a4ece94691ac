"""Half the squared error, summed over outputs; torch's criterion is twice that."""

import torch
from torch import Tensor, nn

from datassay.collect.loss import Loss


class SquaredError(Loss):
    """½ ‖f − y‖²."""

    name = "mse"
    criteria = (nn.MSELoss,)
    compares = "values"
    by_criterion = 2.0
    middle = 0.5

    def predict(self, f: Tensor, dim: int = -1) -> Tensor:
        """Return the outputs."""
        return f

    def value(self, f: Tensor, y: Tensor) -> Tensor:
        """Return ½ Σ (f − y)²."""
        return 0.5 * (f - y).square().sum(-1)

    def second_derivative(self, f: Tensor, y: Tensor | None = None) -> Tensor:
        """Return 1."""
        return torch.ones_like(f)


LOSS = SquaredError()
