"""Influence through the training of a network by our own recipe."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from datassay.collect.collection import network_targets
from datassay.collect.curvature.output_loss import check_n_outputs, task_loss
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import keep_activations, one_output
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.score.effects import Attribution, Effects, gather, outcome
from datassay.score.influence.checkpoints import load_network
from datassay.score.influence.replay.optimizer import Optimizer
from datassay.score.influence.replay.run import Weights
from datassay.score.influence.replay.training_loop import replay
from datassay.score.influence.request import Request
from datassay.train.batches import batches
from datassay.train.recipe import Recipe, network_recipe
from datassay.train.retrain import check_removed
from datassay.train.training import stack_weights, train_targets, with_loss


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The settings of method "replay".

    Attributes:
        model: the trained network.
        start: the network before training, its state dict, or a file of it.
        recipe: of the training; None: as `trained_network` trains, `network_recipe` of n samples.
        per_query: whether each query has effects of its own; False: their mean alone, by one pass
            back.
        check: as in `replay`.
    """

    model: nn.Module
    start: Any = None
    recipe: Recipe | None = None
    per_query: bool = True
    check: bool = True


def by_replay(request: Request, train: SampleSet, val: SampleSet | None) -> Attribution:
    """Return effects of each sample through the whole training run, which is run again."""
    settings = OwnRun(request.models[0], **request.settings)
    _check_request(request, settings.start)
    recipe = settings.recipe or network_recipe(len(train))
    recipe = replace(recipe, loss=task_loss(train, _training_loss(request, recipe)))
    if request.precision is not None:
        recipe = replace(recipe, precision=request.precision)
    notes = list(request.notes)
    network = load_network(settings.model, settings.start, notes)
    if request.device is not None:
        network = frozen_copy(network, getattr(torch, recipe.precision)).to(request.device)
    template, weights, losses = functional_losses(network, train, recipe)
    queries = coalesce(val, train)
    x = network_inputs(queries.x, template, getattr(torch, recipe.precision))
    trained = dict(settings.model.named_parameters())
    with torch.no_grad():
        trained = {name: trained[name].to(w) for name, w in weights.items()}
        outputs = functional_call(template, trained, (x,)).double().cpu()
    targets = network_targets(queries, outputs.shape[1])
    is_class = queries.is_classification
    measured = outcome(request.measure, recipe.loss, outputs, targets, is_classification=is_class)

    def measure(state: Weights) -> Tensor:
        """Return the queries' outcomes under some weights, or their mean."""
        values = measured(functional_call(template, state, (x,)).double().cpu())
        return values if settings.per_query else values.mean()[None]

    result = replay(
        losses,
        weights,
        _list_batches(len(train), recipe, request.seed),
        Optimizer(
            recipe.optimizer, recipe.lr, weight_decay=recipe.weight_decay, decay_towards="start"
        ),
        measure,
        trained=trained,
        n_samples=len(train),
        check=settings.check,
        seed=request.seed,
        progress=request.progress,
    )
    idx = np.array(check_removed(request.removed, len(train)))  # None: all
    own_query = idx if val is None and settings.per_query else None
    name = f"replay of {recipe.steps} updates by {recipe.optimizer}"
    if result.smoothness is not None:
        name += f", smooth to {result.smoothness.agreement:.2f}"
    effects = [Effects(0, result.effect[idx], None, None)]
    ids = train.ids[idx]
    gathered = gather(effects, result.outcome, measured.measure, ids, name, request.top, own_query)
    return replace(gathered, warnings=(*notes, *result.warnings))


def _check_request(request: Request, start: Any) -> None:
    """Raise for settings that do not go with method "replay"."""
    if start is None:
        raise SettingError(
            "method 'replay' needs start=, the network (or its state dict) at the weights that "
            "training began from; the model is the trained one. A loop of your own: "
            "datassay.score.replay."
        )
    inapplicable = {
        "parameters": request.parameters is not None,
        "weight_decay": bool(request.weight_decay),
        "damping": request.damping != "auto",
        "curvature": request.curvature != "auto",
        "temperature": request.temperature != "auto",
    }
    names = [name for name, is_set in inapplicable.items() if is_set]
    if names:
        raise SettingError(
            f"method 'replay' follows the training itself and takes no {names[0]}. Leave it out; "
            "recipe= has the settings of the training."
        )
    if callable(request.measure):
        raise SettingError(
            "measure must be 'output', 'margin' or 'loss' of method 'replay'. With your own, call "
            "datassay.score.replay, whose measure is a function of the weights."
        )


def _training_loss(request: Request, recipe: Recipe) -> str:
    """Return the name of the training's loss; raise if it is not one of the recipe's."""
    if not isinstance(request.loss, str):
        raise SettingError(
            "loss must be 'auto', 'cross_entropy' or 'mse' of method 'replay'. With your own, call "
            "datassay.score.replay."
        )
    return recipe.loss if request.loss == "auto" else request.loss


def _list_batches(n: int, recipe: Recipe, seed: int) -> list[Tensor]:
    """Return the positions of the samples in each update's batch, as training drew them."""
    idx = torch.arange(n)
    # The batches of a training of one network; inputs and targets play no part.
    drawn = batches(idx, idx, idx[None], recipe.steps, recipe.batch_size, seed, torch.float32)
    return [batch.positions[0] for batch in drawn]


def functional_losses(
    model: nn.Module, train: SampleSet, recipe: Recipe
) -> tuple[nn.Module, dict[str, Tensor], Callable[[dict[str, Tensor], Tensor], Tensor]]:
    """Return the network's copy, its trainable weights, and the training losses as a function.

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
        with keep_activations():
            outputs = functional_call(template, weights, (x[positions],))
        return loss_named(recipe.loss).value(outputs, y[positions])

    return template, {name: w[0] for name, w in stacked.items()}, losses
