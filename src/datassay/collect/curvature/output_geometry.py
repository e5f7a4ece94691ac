"""A trained model as influence sees it: outputs, targets, loss and the Jacobians of the outputs."""

import copy
from dataclasses import replace

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from datassay.collect.choose_form import LARGEST_EIGENPROBLEM, check_projection, coordinates_for
from datassay.collect.collection import network_targets
from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.jacobian.blocks import DenseFactors
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import (
    inspect_layers,
    jacobian,
    typed_copy,
    vectorizable_layers,
)
from datassay.collect.jacobian.projection import ProjectionKind, project, projector
from datassay.collect.layers import Layers
from datassay.collect.loss import Loss, loss_named
from datassay.collect.settings import Collection
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
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

    features: "OutputFeatures"
    outputs: Float[Tensor, "n k"]
    targets: Float[Tensor, "n k"]
    loss: str
    weights: Float[Tensor, " p"] | None

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def kind(self) -> Loss:
        """The loss's formulas."""
        return loss_named(self.loss)

    @property
    def is_linear(self) -> bool:
        """Whether the outputs are linear in the weights, so that nothing here is approximate."""
        return self.weights is not None

    def derivatives(self) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k k"]]:
        """Return gradient and Hessian of each sample's loss in its outputs."""
        return self.kind.gradient(self.outputs, self.targets), self.kind.hessian(self.outputs)

    def losses(self, temperature: float = 1.0) -> Float[Tensor, " n"]:
        """Return each sample's loss, of its outputs divided by a temperature."""
        return self.kind.value(self.outputs / temperature, self.targets)

    def subset(self, keep: Tensor) -> "OutputGeometry":
        """Return the geometry of only the samples at `keep`."""
        return replace(
            self,
            features=self.features.subset(keep),
            outputs=self.outputs[keep],
            targets=self.targets[keep],
        )

    def move_to(self, weights: Float[Tensor, " p"]) -> "OutputGeometry":
        """Return the geometry of a linear model at other weights, without collecting anew."""
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
    """Collect outputs and their Jacobians at the model's present weights, in one pass.

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
    frozen = typed_copy(model, torch.float64)
    x = network_inputs(train.x, frozen, next(frozen.parameters()).dtype)
    layers = vectorizable_layers(frozen, inspect_layers(frozen, x[:1]), x)
    targets = network_targets(train, layers.n_outputs)
    linear_model = _read_linear_model(frozen, layers, x, progress)
    if linear_model is None:
        n_features = _choose_projection(layers, len(train), projection)
        projections = projector(layers, n_features, projection_kind, seed)
        weights = None
        p = sum(t.n_features for t in projections.tensors.values())
        jacobians = torch.empty(len(x), layers.n_outputs, p, dtype=torch.float64)
        outputs = torch.empty(len(x), layers.n_outputs, dtype=torch.float64)
        for start in range(0, len(x), CHUNK_SAMPLES):
            chunk = slice(start, start + CHUNK_SAMPLES)
            outputs[chunk], blocks = jacobian(frozen, layers, x[chunk])
            jacobians[chunk] = project(blocks, projections)
            progress("collect Jacobians", min(chunk.stop, len(x)), len(x))
        features = DenseFeatures(jacobians)
    else:
        features, outputs, weights = linear_model
    if not torch.isfinite(outputs).all():
        bad = train.ids[int((~torch.isfinite(outputs)).any(1).nonzero()[0])]
        raise ModelError(
            f"the model's outputs must be finite; sample {bad} gives NaN or infinity. Check the "
            "weights and the scale of the inputs."
        )
    return OutputGeometry(features, outputs, targets, loss, weights)


def _read_linear_model(
    frozen: nn.Module, layers: Layers, x: Num[Tensor, "n ..."], progress: Progress
) -> 'tuple[SharedFeatures, Float[Tensor, "n k"], Float[Tensor, " p"]] | None':
    """Return features, outputs and weights if only a last dense layer trains; else None."""
    # None for other models.
    if layers.direct or len(layers.dense) != 1:
        return None
    weight = next(frozen.parameters())
    identity = torch.eye(layers.n_outputs, dtype=weight.dtype, device=x.device)
    inputs = []
    outputs = []
    for chunk in x.split(CHUNK_SAMPLES):
        f, blocks = jacobian(frozen, layers, chunk)
        (block,) = blocks.values()
        assert isinstance(block, DenseFactors)
        if block.gradients.shape[1:] != identity.shape or (block.gradients != identity).any():
            return None
        ones = block.inputs.new_ones(len(chunk), int(block.has_bias))
        inputs.append(torch.cat([block.inputs, ones], 1))
        outputs.append(f)
        progress("collect Jacobians", sum(map(len, outputs)), len(x))
    features = SharedFeatures(torch.cat(inputs).cpu(), layers.n_outputs)
    trained = [p.detach() for p in frozen.parameters() if p.requires_grad]
    weights = torch.cat([p.reshape(len(p), -1) for p in trained], 1).flatten().cpu()
    all_outputs = torch.cat(outputs).cpu()
    # A derivative of 1 is not enough: something fixed may be added to what the layer gives.
    if not torch.allclose(all_outputs, features.outputs(weights), rtol=1e-9, equal_nan=True):
        return None
    return features, all_outputs, weights


def with_weights(model: nn.Module, weights: Float[Tensor, " p"]) -> nn.Module:
    """Return a copy of a linear model with new weights, [w_1, b_1, w_2, ...] by output."""
    copied = copy.deepcopy(model)
    trained = [p for p in copied.parameters() if p.requires_grad]
    widths = [p[0].numel() for p in trained]
    parts = weights.reshape(len(trained[0]), -1).split(widths, 1)
    with torch.no_grad():
        for parameter, values in zip(trained, parts, strict=True):
            parameter.copy_(values.reshape(parameter.shape))
    return copied


def _choose_projection(layers: Layers, n: int, projection: int | str | None) -> int | None:
    """Return the projection size per tensor that fits the memory; None: no projection."""
    if projection != "auto":
        check_projection(projection)
        assert not isinstance(projection, str)
        return projection
    room = available_memory() / 4 / (8 * n * layers.n_outputs)
    limit = int(min(LARGEST_EIGENPROBLEM, max(1, room)))
    if layers.n_parameters <= limit:
        return None
    return max(1, coordinates_for(layers, limit + 1) - 1)


# Values that one chunk of products may hold, 256 MiB in float64.
CHUNK_VALUES = 2**25
# Blocks of a batch from which one product of all x_i x_iᵀ costs less than a product each.
MANY_BLOCKS = 256


@result
class DenseFeatures:
    """Jacobian rows, held in full.

    Attributes:
        jacobian: J, [n, k, p], output unit per weight unit.
    """

    jacobian: Float[Tensor, "n k p"]

    def __len__(self) -> int:
        return len(self.jacobian)

    @property
    def n_outputs(self) -> int:
        """Outputs per sample, k."""
        return self.jacobian.shape[1]

    @property
    def n_parameters(self) -> int:
        """Weights, p."""
        return self.jacobian.shape[2]

    def outputs(self, weights: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n k"]:
        """Compute J_i w, the outputs that weights give."""
        flat = weights @ self.jacobian.flatten(0, 1).T
        return flat.reshape(*weights.shape[:-1], *self.jacobian.shape[:2])

    def gradients(self, slopes: Float[Tensor, "n k"]) -> Float[Tensor, "n p"]:
        """Compute J_iᵀ r_i for each sample."""
        return torch.bmm(slopes[:, None], self.jacobian)[:, 0]

    def along(self, moves: Float[Tensor, "n p"]) -> Float[Tensor, "n k"]:
        """Compute J_i Δ_i, each sample along a move of its own."""
        return torch.bmm(self.jacobian, moves[..., None])[..., 0]

    def pullback(self, slopes: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch p"]:
        """Compute Σ_i J_iᵀ r_i."""
        return slopes.flatten(-2) @ self.jacobian.flatten(0, 1)

    def curvature(self, inner: Float[Tensor, "*batch n k k"]) -> Float[Tensor, "*batch p p"]:
        """Return Σ_i J_iᵀ S_i J_i for symmetric S = inner. Cost: 2 n k p² operations each."""
        p = self.n_parameters
        total = inner.new_zeros(*inner.shape[:-3], p, p)
        for rows in _chunks(len(self), self.n_outputs * p * inner.shape[:-3].numel()):
            jacobian = self.jacobian[rows]
            weighted = inner[..., rows, :, :] @ jacobian
            total += weighted.flatten(-3, -2).mT @ jacobian.flatten(0, 1)
        return total

    def quadratic(self, middle: Float[Tensor, "p p"]) -> Float[Tensor, "n k k"]:
        """Compute J_i M J_iᵀ.  Cost: 2 n k p² operations."""
        chunks = _chunks(len(self), self.n_outputs * self.n_parameters)
        jacobians = [self.jacobian[rows] for rows in chunks]
        return torch.cat([(jacobian @ middle) @ jacobian.mT for jacobian in jacobians])

    def rows(self, chunk: slice) -> Float[Tensor, "chunk k p"]:
        """Return J for a slice of the samples."""
        return self.jacobian[chunk]

    def subset(self, keep: Tensor) -> "DenseFeatures":
        """Return the features of the samples at `keep`."""
        return DenseFeatures(self.jacobian[keep])


@result
class SharedFeatures:
    """The Jacobian of a dense layer f_a = w_aᵀ x: all outputs see the same input.

    Weights are [w_1, ..., w_k], flat, p = k d.

    Attributes:
        x: inputs of the layer, [n, d], with a column of ones where it has a bias.
        n_outputs: k.
    """

    x: Float[Tensor, "n d"]
    n_outputs: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_parameters(self) -> int:
        """Weights, p = k d."""
        return self.n_outputs * self.x.shape[1]

    def outputs(self, weights: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n k"]:
        """Compute J_i w, the outputs that weights give."""
        by_output = weights.unflatten(-1, (self.n_outputs, -1))  # [*batch, k, d]
        return self.x @ by_output.mT

    def gradients(self, slopes: Float[Tensor, "n k"]) -> Float[Tensor, "n p"]:
        """Compute J_iᵀ r_i for each sample."""
        return (slopes[:, :, None] * self.x[:, None]).flatten(1)

    def along(self, moves: Float[Tensor, "n p"]) -> Float[Tensor, "n k"]:
        """Compute J_i Δ_i, each sample along a move of its own."""
        return torch.bmm(moves.unflatten(1, (self.n_outputs, -1)), self.x[..., None])[..., 0]

    def pullback(self, slopes: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch p"]:
        """Compute Σ_i J_iᵀ r_i."""
        return (slopes.mT @ self.x).flatten(-2)

    def curvature(self, inner: Float[Tensor, "*batch n k k"]) -> Float[Tensor, "*batch p p"]:
        """Return Σ_i J_iᵀ S_i J_i, S symmetric.  Cost: n k² d² operations, half in a batch."""
        n, d = self.x.shape
        k = self.n_outputs
        batch = inner.shape[:-3]
        has_many_blocks = batch.numel() * k * (k + 1) // 2 >= MANY_BLOCKS
        # [*batch, k, k, d, d]: block [a, c] is Σ_i S_i[a, c] x_i x_iᵀ.
        if batch and has_many_blocks and n * d * (d + 1) // 2 <= CHUNK_VALUES:
            blocks = self._curvature_blocks(inner)
        else:
            blocks = inner.new_empty(*batch, k, k, d, d)
            width = max(1, CHUNK_VALUES // max(1, batch.numel() * n * d))
            for a, start in [(row, column) for row in range(k) for column in range(row, k, width)]:
                columns = slice(start, start + width)
                weighted = inner[..., a, columns, None] * self.x[:, None]  # [*batch, n, width, d]
                block = (weighted.flatten(-2).mT @ self.x).unflatten(-2, (-1, d))
                blocks[..., a, columns, :, :] = block
                blocks[..., columns, a, :, :] = block
        return blocks.transpose(-3, -2).reshape(*batch, k * d, k * d)

    def _curvature_blocks(
        self, inner: Float[Tensor, "*batch n k k"]
    ) -> Float[Tensor, "*batch k k d d"]:
        """Return all blocks Σ_i S_i[a, c] x_i x_iᵀ, from one product of upper halves."""
        (a, c), output_pair = _index_upper_half(self.n_outputs)
        (i, j), input_pair = _index_upper_half(self.x.shape[1])
        halves = inner[..., a, c].mT @ (self.x[:, i] * self.x[:, j])
        return halves[..., output_pair, :][..., input_pair]

    def quadratic(self, middle: Float[Tensor, "p p"]) -> Float[Tensor, "n k k"]:
        """Compute J_i M J_iᵀ, M symmetric.  Cost: n k² d² operations."""
        n, d = self.x.shape
        k = self.n_outputs
        products = middle.new_empty(n, k, k)
        for a in range(k):
            # x_iᵀ M_ac for outputs c ≥ a, of which M has a block [d, d] each.
            products_left = (self.x @ middle[a * d : (a + 1) * d, a * d :]).unflatten(1, (k - a, d))
            row = (products_left @ self.x[..., None])[..., 0]
            products[:, a, a:] = row
            products[:, a:, a] = row
        return products

    def rows(self, chunk: slice) -> Float[Tensor, "chunk k p"]:
        """Return J for a slice of the samples."""
        x = self.x[chunk]
        return torch.einsum("ab,nd->nabd", torch.eye(self.n_outputs, dtype=x.dtype), x).flatten(2)

    def subset(self, keep: Tensor) -> "SharedFeatures":
        """Return the features of the samples at `keep`."""
        return SharedFeatures(self.x[keep], self.n_outputs)


OutputFeatures = DenseFeatures | SharedFeatures


def _index_upper_half(size: int) -> tuple[Tensor, Tensor]:
    """Return (rows, columns) of the upper half, and the pair of each entry, [size, size]."""
    upper = torch.triu_indices(size, size)
    rows, columns = upper
    pair = torch.empty(size, size, dtype=torch.int64)
    pair[rows, columns] = torch.arange(upper.shape[1])
    pair[columns, rows] = torch.arange(upper.shape[1])
    return upper, pair


def _chunks(n: int, values_each: int) -> list[slice]:
    """Return slices of n samples that hold CHUNK_VALUES at most, or one sample."""
    size = max(1, CHUNK_VALUES // max(1, values_each))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
