"""A training's losses as a function of the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from datassay.collect.curvature.output_loss import check_n_outputs
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import one_output
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.train.recipe import Recipe
from datassay.train.training import stack_weights, train_targets, with_loss


def functional_losses(
    model: nn.Module, train: SampleSet, recipe: Recipe
) -> tuple[nn.Module, dict[str, Tensor], Callable[[dict[str, Tensor], Tensor], Tensor]]:
    """Return a copy of the network, its weights that train, and what `train_networks` descends.

    Args:
        model: at the starting weights.
        train: the samples.
        recipe: loss and precision.

    Returns:
        The copy, the weights by name, and (weights, positions) → [b] losses of the samples there.
    """
    recipe = with_loss(recipe, train)
    dtype = getattr(torch, recipe.precision)
    template = frozen_copy(model, dtype)
    stacked, _ = stack_weights([template])
    x = network_inputs(train.x, template, dtype)
    with torch.no_grad():
        n_outputs = one_output(template, x[:1]).shape[1]
    check_n_outputs(train, n_outputs)
    y = train_targets(train, recipe, n_outputs, dtype).to(x.device)

    def losses(weights: dict[str, Tensor], positions: Tensor) -> Tensor:
        outputs = functional_call(template, weights, (x[positions],))
        return loss_named(recipe.loss).value(outputs, y[positions])

    return template, {name: w[0] for name, w in stacked.items()}, losses
