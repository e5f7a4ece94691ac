"""One model fitted again and again to parts of its samples, and what it says on all of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.convex import fit_convex
from datassay.collect.output_features import OutputFeatures
from datassay.collect.output_geometry import OutputGeometry, output_geometry, with_weights
from datassay.collect.training import Recipe, train_networks
from datassay.data.samples import SampleSet
from datassay.progress import Progress, part_of, silent


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A model fitted to a part of the samples.

    Attributes:
        at: outputs and Jacobians of all n samples at its weights, kept or not.
        others: its outputs on each of the other sets, [m, k] with an m of its own.
        model: the network at its weights.
    """

    at: OutputGeometry
    others: tuple[Float[Tensor, "_ k"], ...]
    model: nn.Module


@dataclass(frozen=True, slots=True, eq=False)
class ConvexFitter:
    """Fits of a model whose one dense layer trains: to the minimum, from the last weights.

    Attributes:
        model: the network.
        at: its geometry on all samples.
        others: Jacobians of the other sets.
        ridge: of the mean loss.
    """

    model: nn.Module
    at: OutputGeometry
    others: tuple[OutputFeatures, ...]
    ridge: float

    def fit(self, keep: Int[Tensor, " kept"], last: Fitted | None = None) -> Fitted:
        """Fit to the samples at `keep`, starting from an earlier fit."""
        weight = self.at.outputs.new_zeros(1, len(self.at))
        weight[0, keep] = 1.0
        start = None if last is None or last.at.weights is None else last.at.weights[None]
        at = self.at
        found = fit_convex(
            at.features, at.targets, at.loss, self.ridge, sample_weight=weight, start=start
        ).weights[0]
        fitted = replace(at, outputs=at.features.outputs(found), weights=found)
        others = tuple(features.outputs(found) for features in self.others)
        return Fitted(fitted, others, with_weights(self.model, found))


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFitter:
    """Trainings of any network from its starting weights.

    Attributes:
        model: the network at its starting weights.
        samples: all n.
        others: the other sets.
        recipe: how it is trained.
        projection: of the Jacobians.
        seed: of the batches and of the projection.
        progress: called with (step, updates done, updates in all) of each training.
    """

    model: nn.Module
    samples: SampleSet
    others: tuple[SampleSet, ...]
    recipe: Recipe
    projection: int | str | None
    seed: int
    progress: Progress = silent

    def fit(self, keep: Int[Tensor, " kept"], last: Fitted | None = None) -> Fitted:
        """Train on the samples at `keep`; earlier fits are not continued."""
        del last  # warm starts would remember what was removed
        told = part_of(self.progress, "train on what is kept", 0, self.recipe.steps)
        networks = train_networks(
            [self.model], self.samples, keep[None], self.recipe, seed=self.seed, progress=told
        )
        model = with_state(self.model, {n: t[0] for n, t in networks.state.items()})
        at = output_geometry(
            model, self.samples, self.recipe.loss, projection=self.projection, seed=self.seed
        )
        dtype = next(iter(networks.state.values())).dtype
        others = tuple(
            networks.outputs(torch.as_tensor(s.x).to(dtype))[0].double() for s in self.others
        )
        return Fitted(at, others, model)


Fitter = ConvexFitter | NetworkFitter


def fitter(
    model: nn.Module,
    samples: SampleSet,
    others: Sequence[SampleSet] = (),
    *,
    loss: str,
    ridge: float,
    recipe: Recipe | None = None,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Fitter:
    """How to fit this model: to the minimum where it is linear in what trains, else by training.

    Args:
        model: at its starting weights.
        samples: n samples, of which parts will be kept.
        others: sets whose outputs are wanted after each fit.
        loss: "cross_entropy" or "mse".
        ridge: of linear models, (ridge/2)‖θ‖² beside the mean loss.
        recipe: of other networks; None is Adam, 300 updates of 64 samples.
        projection: of their Jacobians.
        seed: of their batches and projection.
        progress: called with (step, updates done, updates in all).

    Returns:
        The fitter.

    Raises:
        SettingError: the loss or the projection does not suit.
        ModelError: outputs do not fit the targets.
    """
    probe = samples.subset(torch.arange(min(2, len(samples))).numpy())
    if not output_geometry(model, probe, loss, projection=1).is_linear:
        recipe = replace(recipe or Recipe(), loss=loss)
        return NetworkFitter(model, samples, tuple(others), recipe, projection, seed, progress)
    at = output_geometry(model, samples, loss)
    features = tuple(output_geometry(model, s, loss).features for s in others)
    return ConvexFitter(model, at, features, ridge)


def with_state(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """A copy of a network with other weights.

    Args:
        model: the network.
        state: name → tensor, all of its state.

    Returns:
        The copy, in the model's precision.
    """
    copied = copy.deepcopy(model)
    copied.load_state_dict(state)
    return copied
