"""Repeated fits of one model to parts of its samples, with outputs for all samples."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.curvature.output_geometry import (
    OutputFeatures,
    OutputGeometry,
    output_geometry,
    with_weights,
)
from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.jacobian.suitable import unwrap
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.progress import Progress, part_of, silent
from datassay.results import result
from datassay.rules import one_of
from datassay.train.convex import fit_convex
from datassay.train.recipe import Recipe
from datassay.train.training import TrainedNetworks, train_networks

# Share of the kept samples on which a network's temperature is fitted.
CALIBRATION = 0.1
MAX_TEMPERATURE = 8.0

M = TypeVar("M", bound=nn.Module)


@result
class Fitted:
    """A model fitted to a part of the samples.

    Attributes:
        geometry: outputs and Jacobians at its weights of all n samples, also of those left out.
        other_outputs: its outputs on each of the other sets, [m, k] with each set's own m.
        temperature: divisor that calibrates its logits; 1 where the fit is no more certain than its
            ridge allows.
    """

    geometry: OutputGeometry
    other_outputs: tuple[Float[Tensor, "_ k"], ...]
    temperature: float = 1.0


@result
class ConvexFitter:
    """Fits of a model of which one dense layer trains: to the minimum, from the last weights.

    Attributes:
        model: the network.
        geometry: outputs and Jacobians on all samples.
        other_features: Jacobians of the other sets.
        ridge: of the mean loss.
    """

    model: nn.Module
    geometry: OutputGeometry
    other_features: tuple[OutputFeatures, ...]
    ridge: float

    def fit(self, keep: Int[Tensor, " kept"], earlier: Fitted | None = None) -> Fitted:
        """Return the fit to the samples at `keep`, started from the `earlier` fit's weights."""
        geometry = self.geometry
        sample_weight = geometry.outputs.new_zeros(1, len(geometry))
        sample_weight[0, keep] = 1.0
        start = None
        if earlier is not None and earlier.geometry.weights is not None:
            start = earlier.geometry.weights[None]
        weights = fit_convex(
            geometry.features,
            geometry.targets,
            geometry.loss,
            self.ridge,
            sample_weight=sample_weight,
            start=start,
        ).weights[0]
        fitted = replace(geometry, outputs=geometry.features.outputs(weights), weights=weights)
        return Fitted(fitted, tuple(features.outputs(weights) for features in self.other_features))

    def final(self, keep: Int[Tensor, " kept"]) -> nn.Module:
        """Return the network fitted to the samples at `keep`."""
        geometry = self.fit(keep).geometry
        assert geometry.weights is not None
        return with_weights(self.model, geometry.weights)


@result
class NetworkFitter:
    """Trainings of any network from its starting weights.

    A fit to classes leaves out a random tenth of the samples, on which the temperature is fitted:
    trained networks are surer than they are right, and more so the longer they train.

    Attributes:
        model: the network at its starting weights.
        samples: all n.
        other_sets: the other sets.
        recipe: how it is trained.
        layers: whose Jacobians: "all" that train, or "last", the last dense layer alone.
        projection: of the Jacobians.
        seed: of the batches, of the tenth left out and of the projection.
        progress: called with (step, updates done, updates in all) of each training.
    """

    model: nn.Module
    samples: SampleSet
    other_sets: tuple[SampleSet, ...]
    recipe: Recipe
    layers: str
    projection: int | str | None
    seed: int
    progress: Progress = silent

    def fit(self, keep: Int[Tensor, " kept"], earlier: Fitted | None = None) -> Fitted:
        """Train on the samples at `keep` (classification holds out a tenth for calibration)."""
        del earlier  # warm starts would remember what was removed
        order = np.random.default_rng((self.seed, len(keep))).permutation(len(keep))
        n_calibration = 0
        if loss_named(self.recipe.loss).has_one_class:
            n_calibration = round(CALIBRATION * len(keep))
        calibration_idx = keep[order[:n_calibration]]
        train_idx = keep[np.sort(order[n_calibration:])]
        networks = self._train(train_idx)
        model = taken_network(self.model, networks)
        geometry = output_geometry(
            last_layer_only(model) if self.layers == "last" else model,
            self.samples,
            self.recipe.loss,
            projection=self.projection,
            seed=self.seed,
        )
        other_outputs = tuple(networks.outputs(s.x)[0] for s in self.other_sets)
        temperature = 1.0
        if n_calibration:
            outputs = geometry.outputs[calibration_idx]
            temperature = best_temperature(outputs, geometry.targets[calibration_idx])
        return Fitted(geometry, tuple(out.double() for out in other_outputs), temperature)

    def final(self, keep: Int[Tensor, " kept"]) -> nn.Module:
        """Return the network trained on all the samples at `keep`."""
        return taken_network(self.model, self._train(keep))

    def _train(self, keep: Int[Tensor, " kept"]) -> TrainedNetworks:
        report = part_of(self.progress, "train on what is kept", 0, self.recipe.steps)
        return train_networks(
            [self.model], self.samples, keep[None], self.recipe, seed=self.seed, progress=report
        )


Fitter = ConvexFitter | NetworkFitter


def fitter(
    model: nn.Module,
    train: SampleSet,
    others: Sequence[SampleSet] = (),
    *,
    loss: str = "auto",
    ridge: float,
    recipe: Recipe | None = None,
    layers: str = "last",
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Fitter:
    """Return the fitter of a model: convex if it is linear in its trainable weights.

    Args:
        model: at its starting weights.
        train: n samples, of which parts will be kept.
        others: sets whose outputs are wanted after each fit.
        loss: "cross_entropy", "mse", or "auto": by the task.
        ridge: of linear models, (ridge/2)‖θ‖² added to the mean loss.
        recipe: of other networks; None is Adam, 300 updates of 64 samples.
        layers: of other networks, whose Jacobians: "last", the last dense layer alone, or "all".
        projection: of their Jacobians.
        seed: of their batches and projection.
        progress: called with (step, updates done, updates in all).

    Returns:
        The fitter.

    Raises:
        SettingError: the loss, the layers or the projection does not suit.
        ModelError: outputs do not fit the targets.
    """
    one_of("layers", layers, ("last", "all"))
    loss = task_loss(train, loss)
    probe = train.subset(torch.arange(min(2, len(train))).numpy())
    if not output_geometry(model, probe, loss, projection=1).is_linear:
        recipe = replace(recipe or Recipe(), loss=loss)
        return NetworkFitter(
            model, train, tuple(others), recipe, layers, projection, seed, progress
        )
    geometry = output_geometry(model, train, loss)
    features = tuple(output_geometry(model, s, loss).features for s in others)
    return ConvexFitter(model, geometry, features, ridge)


def last_layer_only(model: nn.Module) -> nn.Module:
    """Return a copy with all but the last dense layer frozen, so that its geometry is exact."""
    copied = copy.deepcopy(model)
    dense = [m for m in copied.modules() if isinstance(m, nn.Linear)]
    if not dense:
        raise ModelError(
            "layers='last' needs a dense layer (nn.Linear); the model has none. Take layers='all'."
        )
    copied.requires_grad_(False)
    dense[-1].requires_grad_(True)
    return copied


def best_temperature(outputs: Float[Tensor, "m k"], targets: Float[Tensor, "m k"]) -> float:
    """Return the temperature in [1/8, 8] that minimises the mean held-out loss."""
    # Source: Guo et al. (2017), temperature scaling.

    def mean_loss(log_t: float) -> float:
        scaled = outputs * float(np.exp(-log_t))
        return float(loss_named("cross_entropy").value(scaled, targets).mean())

    from scipy.optimize import minimize_scalar  # slow to import

    limit = float(np.log(MAX_TEMPERATURE))
    optimum = minimize_scalar(mean_loss, bounds=(-limit, limit), method="bounded")
    return float(np.exp(optimum.x))


def taken_network(model: M, networks: TrainedNetworks, index: int = 0) -> M:
    """Return a copy of the model with the weights of one of the trained networks.

    Args:
        model: of their architecture; left untouched.
        networks: what was trained.
        index: which of them.

    Returns:
        A copy with the trained weights.
    """
    copied = copy.deepcopy(unwrap(model))
    # Not load_state_dict: it wants tied weights under each name, and no unsaved buffers.
    tensors = dict(copied.named_parameters()) | dict(copied.named_buffers())
    with torch.no_grad():
        for name, stacked in networks.state.items():
            tensors[name].copy_(stacked[index])
    return copied
