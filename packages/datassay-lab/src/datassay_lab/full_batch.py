"""Fit a small network by full-batch least squares."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


def fit_by_lbfgs(
    network: nn.Module, inputs: Float[Tensor, "n d"], targets: Float[Tensor, "n k"], iterations: int
) -> None:
    """Minimise the mean over samples of ‖f(x) − y‖² by L-BFGS.

    Args:
        network: changed in place.
        inputs: [n, d], in the network's precision.
        targets: [n, k].
        iterations: most iterations, with at most two evaluations each on average.

    Cost: 6 n · parameters per evaluation; memory of 200 values per parameter.
    """
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=iterations, max_eval=2 * iterations, history_size=50,
        tolerance_grad=1e-9, tolerance_change=1e-12, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = ((network(inputs) - targets) ** 2).sum(1).mean()
        value.backward()
        return value

    optimizer.step(loss)
