"""A trained model as influence sees it: outputs, targets, loss and the Jacobians of the outputs."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from datassay.collect.choose_form import LARGEST_EIGENPROBLEM
from datassay.collect.collection import network_targets
from datassay.collect.curvature.output_features import DenseFeatures, OutputFeatures, SharedFeatures
from datassay.collect.curvature.output_loss import loss_derivatives, task_loss
from datassay.collect.jacobian.blocks import DenseFactors
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import Layers, frozen_copy, inspect_layers, jacobian
from datassay.collect.jacobian.projection import ProjectionKind, project, projector
from datassay.collect.settings import Collection
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.machine import available_memory
from datassay.progress import Progress, silent
from datassay.results import result

CHUNK_SAMPLES = 64


@result
class OutputGeometry:
    """The mean loss of n samples around a model's weights, to second order in the outputs.

    Exact for a model that is linear in the weights that train; for others the Gauss–Newton form.

    Attributes:
        features: J, of the (projected) weights that train.
        outputs: f(x_i), [n, k], float64.
        targets: [n, k]; classes are one-hot, two classes with one output are {0, 1}.
        loss: "cross_entropy" or "mse" (½ squared error, summed over outputs).
        weights: [p], those that train, where the model is linear in them; None otherwise.
    """

    features: OutputFeatures
    outputs: Float[Tensor, "n k"]
    targets: Float[Tensor, "n k"]
    loss: str
    weights: Float[Tensor, " p"] | None

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def is_linear(self) -> bool:
        """Whether the outputs are linear in the weights, so that nothing here is approximate."""
        return self.weights is not None

    def derivatives(self) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k k"]]:
        """Gradient and Hessian of each sample's loss in its outputs."""
        return loss_derivatives(self.outputs, self.targets, self.loss)

    def subset(self, keep: Tensor) -> OutputGeometry:
        """That of the samples at `keep`, at the same weights."""
        return replace(
            self,
            features=self.features.subset(keep),
            outputs=self.outputs[keep],
            targets=self.targets[keep],
        )

    def moved(self, weights: Float[Tensor, " p"]) -> OutputGeometry:
        """The same model at other weights; linear models only."""
        assert self.weights is not None
        change = self.features.outputs(weights - self.weights)
        return replace(self, outputs=self.outputs + change, weights=weights)


def output_geometry(
    model: nn.Module,
    train: SampleSet,
    loss: str = "auto",
    *,
    projection: int | str | None = Collection.projection,
    projection_kind: ProjectionKind = "coordinates",
    seed: int = Collection.seed,
    progress: Progress = silent,
) -> OutputGeometry:
    """One pass over the samples at the model's present weights.

    Args:
        model: [n, *input_shape] → [n, k]; copied, run in evaluation mode. Where all that trains is
            one dense layer at the end (a linear model, or a network whose other layers are frozen),
            the geometry is exact and small.
        train: n samples.
        loss: "cross_entropy", "mse", or "auto": by the task.
        projection: of other models' Jacobians: features a parameter tensor, None for all of them,
            "auto" for as many as fit, at most 4096 in all.
        projection_kind: of projection, "coordinates" or "sparse_sign".
        seed: of the projection.
        progress: called with (step, samples done, samples in all).

    Returns:
        The geometry.

    Raises:
        SettingError: the loss or the projection does not suit.
        ModelError: outputs do not fit the targets or are not finite, or a layer cannot be
            vectorised.

    Cost: one forward pass for a dense last layer; else k + 1 passes and n k p values.
    """
    loss = task_loss(train, loss)
    frozen = frozen_copy(model, torch.float64)
    like = next(frozen.parameters())
    x = network_inputs(train.x, frozen, like.dtype)
    layers = inspect_layers(frozen, x[:1])
    targets = network_targets(train, layers.n_outputs)
    shared = _shared_features(frozen, layers, x, progress)
    if shared is None:
        each = _features_a_tensor(layers, len(train), projection)
        features, outputs = _dense_features(
            frozen, layers, x, each, projection_kind, seed, progress
        )
        weights = None
    else:
        features, outputs, weights = shared
    if not torch.isfinite(outputs).all():
        bad = train.ids[int((~torch.isfinite(outputs)).any(1).nonzero()[0])]
        raise ModelError(
            f"the model's outputs must be finite; sample {bad} gives NaN or infinity. Check the "
            "weights and the scale of the inputs."
        )
    return OutputGeometry(features, outputs, targets, loss, weights)


def _shared_features(
    frozen: nn.Module, layers: Layers, x: Num[Tensor, "n ..."], progress: Progress
) -> tuple[SharedFeatures, Float[Tensor, "n k"], Float[Tensor, " p"]] | None:
    """Inputs, outputs and weights of the one dense layer that trains, where it ends the model."""
    if layers.direct or len(layers.dense) != 1:
        return None
    like = next(frozen.parameters())
    identity = torch.eye(layers.n_outputs, dtype=like.dtype, device=x.device)
    inputs, outputs = [], []
    for part in x.split(CHUNK_SAMPLES):
        f, blocks = jacobian(frozen, layers, part)
        (block,) = blocks.values()
        assert isinstance(block, DenseFactors)
        if block.gradients.shape[1:] != identity.shape or (block.gradients != identity).any():
            return None
        ones = block.inputs.new_ones(len(part), int(block.bias))
        inputs.append(torch.cat([block.inputs, ones], 1))
        outputs.append(f)
        progress("collect Jacobians", sum(map(len, outputs)), len(x))
    features, weights = (
        SharedFeatures(torch.cat(inputs).cpu(), layers.n_outputs),
        _last_weights(frozen),
    )
    all_outputs = torch.cat(outputs).cpu()
    # A derivative of 1 is not enough: something fixed may be added to what the layer gives.
    if not torch.allclose(all_outputs, features.outputs(weights), rtol=1e-9, equal_nan=True):
        return None
    return features, all_outputs, weights


def _dense_features(
    frozen: nn.Module,
    layers: Layers,
    x: Num[Tensor, "n ..."],
    projection: int | None,
    kind: ProjectionKind,
    seed: int,
    progress: Progress,
) -> tuple[DenseFeatures, Float[Tensor, "n k"]]:
    to = projector(layers, projection, kind, seed)
    size = sum(t.n_features for t in to.tensors.values())
    rows = torch.empty(len(x), layers.n_outputs, size, dtype=torch.float64)
    outputs = torch.empty(len(x), layers.n_outputs, dtype=torch.float64)
    for start in range(0, len(x), CHUNK_SAMPLES):
        stop = min(start + CHUNK_SAMPLES, len(x))
        f, blocks = jacobian(frozen, layers, x[start:stop])
        rows[start:stop], outputs[start:stop] = project(blocks, to), f
        progress("collect Jacobians", stop, len(x))
    return DenseFeatures(rows), outputs


def _last_weights(frozen: nn.Module) -> Float[Tensor, " p"]:
    """The weights that train, [w_1, b_1, w_2, b_2, ...] by output, as SharedFeatures has them."""
    trained = [p.detach() for p in frozen.parameters() if p.requires_grad]
    return torch.cat([p.reshape(len(p), -1) for p in trained], 1).flatten().cpu()


def with_weights(model: nn.Module, weights: Float[Tensor, " p"]) -> nn.Module:
    """A copy of a model that is linear in what trains, at other weights.

    Args:
        model: whose one dense layer trains.
        weights: [w_1, b_1, w_2, b_2, ...] by output, flat.

    Returns:
        The copy, in the model's own precision.
    """
    copied = copy.deepcopy(model)
    trained = [p for p in copied.parameters() if p.requires_grad]
    widths = [p[0].numel() for p in trained]
    parts = weights.reshape(len(trained[0]), -1).split(widths, 1)
    with torch.no_grad():
        for parameter, part in zip(trained, parts, strict=True):
            parameter.copy_(part.reshape(parameter.shape))
    return copied


def _features_a_tensor(layers: Layers, n: int, projection: int | str | None) -> int | None:
    """Features a tensor at most, such that all of them fit; None keeps everything."""
    if projection != "auto":
        if projection is not None and (not isinstance(projection, int) or projection < 1):
            raise SettingError(
                f"projection must be 'auto', None or a positive whole number; got {projection!r}."
            )
        return projection
    room = available_memory() / 4 / (8 * n * layers.n_outputs)
    most = int(min(LARGEST_EIGENPROBLEM, max(1, room)))
    if layers.n_parameters <= most:
        return None
    sizes = list(layers.direct.values())
    for n_in, n_out, bias in layers.dense.values():
        sizes += [n_in * n_out] + [n_out] * bias
    fits = [t for t in range(1, most + 1) if sum(min(size, t) for size in sizes) <= most]
    return max(fits, default=1)
