"""Seeded random projections of per-sample Jacobians, tensor by tensor.

Layers are kept apart because their gradients differ in scale (S1 §5). A tensor with no more entries
than asked for is kept whole, so the projection is exact for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.jacobian.blocks import Block, ConvolutionFactors, DenseFactors
from datassay.collect.layers import Layers

ProjectionKind = Literal["coordinates", "sparse_sign"]
# Signs draw from seeds of their own, so that they say nothing about which coordinates are kept.
MIXING_SEED = 2**40
# All entries of a convolution's weight are formed where at least 1 / WHOLE_FROM of a row is kept.
WHOLE_FROM = 2


@dataclass(frozen=True, slots=True)
class TensorProjection:
    """The map from the d entries of one parameter tensor to p features."""

    kind: Literal["whole", "coordinates", "sparse_sign"]  # whole: p = d
    # The entries kept, [p]; of sparse_sign the feature each entry goes to, [d], under a sign of ±1.
    index: Int[Tensor, " entries"] | None = None
    sign: Float[Tensor, " d"] | None = None
    scale: float = 1.0  # of the features, so that inner products are unbiased
    n_features: int = 0  # p, which counts the features of sparse_sign that no entry goes to


def tensor_projection(
    size: int, n_features: int | None, kind: ProjectionKind, seed: int
) -> TensorProjection:
    """Return a random projection P of a tensor's `size` entries, fixed by the seed.

    Returns:
        P with E[⟨Pa, Pb⟩] = ⟨a, b⟩. "coordinates": p entries drawn without replacement, times
        √(d/p) (S1 §5). "sparse_sign": every entry goes to one random feature with a random sign
        (Li, Hastie, Church 2006, one non-zero a column).
    """
    if n_features is None or size <= n_features:
        return TensorProjection("whole", n_features=size)
    generator = torch.Generator().manual_seed(seed)
    if kind == "coordinates":
        index = torch.randperm(size, generator=generator)[:n_features].sort().values
        return TensorProjection(kind, index, None, (size / n_features) ** 0.5, n_features)
    index = torch.randint(n_features, (size,), generator=generator)
    sign = torch.randint(2, (size,), generator=generator).double() * 2 - 1
    return TensorProjection(kind, index, sign, 1.0, n_features)


@dataclass(frozen=True, slots=True)
class Projector:
    """The projections of every collected tensor.

    Attributes:
        n_features: p a tensor at most; None keeps everything.
        kind: "coordinates" or "sparse_sign".
        tensors: tensor name → its projection; a dense layer has "name.weight" and "name.bias".
        mixing: tensor name → ±1, [k, its n_features]: the signs by which the k outputs are added
            up into one row per sample; None keeps a row per output.
    """

    n_features: int | None
    kind: ProjectionKind
    tensors: dict[str, TensorProjection]
    mixing: dict[str, Float[Tensor, "k p"]] | None = None

    def move(self, device: str) -> "Projector":
        """Return the projector with its tensors on a device, so that no chunk moves them."""

        def send(t: Tensor | None) -> Any:
            if t is None:
                return None
            return t.to(device)

        tensors = {
            name: replace(p, index=send(p.index), sign=send(p.sign))
            for name, p in self.tensors.items()
        }
        mixing = self.mixing and {name: send(signs) for name, signs in self.mixing.items()}
        return replace(self, tensors=tensors, mixing=mixing)


def projector(
    layers: Layers,
    n_features: int | None,
    kind: ProjectionKind,
    seed: int,
    *,
    averaged: bool = False,
) -> Projector:
    """Return the random projections of all tensors of a model.

    Args:
        layers: the model's collected tensors.
        n_features: p a tensor at most; None keeps everything.
        kind: of projection.
        seed: the tensor at position j draws with a seed of its own, made from this one and j.
        averaged: one row per sample instead of k; its inner products estimate the mean of the k
            outputs' kernels without bias. Feature j is Σ_a s_aj φ_aj / √k, with φ_a the features of
            output a and random signs s. Products of different outputs cancel in the mean; what they
            leave is less than the error of taking one random output a feature.

    Returns:
        The projector.
    """
    tensors = {
        name: tensor_projection(size, n_features, kind, 1_000_003 * seed + j)
        for j, (name, size) in enumerate(layers.sizes.items())
    }
    if not averaged:
        return Projector(n_features, kind, tensors)
    mixing = {
        name: _draw_signs(
            layers.n_outputs, projection.n_features, MIXING_SEED + 1_000_003 * seed + j
        )
        for j, (name, projection) in enumerate(tensors.items())
    }
    return Projector(n_features, kind, tensors, mixing)


def _draw_signs(k: int, n_features: int, seed: int) -> Float[Tensor, "k p"]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, (k, n_features), generator=generator).float() * 2 - 1


def project(
    blocks: Mapping[str, Block | ConvolutionFactors], projector: Projector
) -> Float[Tensor, "n rows p"]:
    """Return a chunk's projected Jacobians, [n, rows, p], tensors side by side.

    Returns:
        Φ. Coordinates of a dense layer are products of gathered entries of Δ and A: n k p
        multiplications and no full gradient; those of a convolution as many at every position.
        Other kinds form the full gradient of one chunk.
    """
    parts = []  # [n, rows, p of the tensor]
    for name, block in blocks.items():
        if isinstance(block, DenseFactors):
            parts.append(_project_dense(block, f"{name}.weight", projector))
            if block.has_bias:
                parts.append(_project_full(block.gradients, f"{name}.bias", projector))
        elif isinstance(block, ConvolutionFactors):
            parts.append(_project_convolution(block, name, projector))
        else:
            parts.append(_project_full(block, name, projector))
    return torch.cat(parts, dim=2)


def _project_dense(block: DenseFactors, name: str, projector: Projector) -> Tensor:
    """Return a dense weight's projected gradients, [n, rows, p]."""
    projection = projector.tensors[name]
    if projection.kind == "coordinates":
        row, column = _split_index(projection, block.inputs.shape[1])
        gathered = _mix_outputs(_gather(block.gradients, row), name, projector)  # [n, rows, p]
        return gathered.mul_(_gather(block.inputs, column)[:, None]).mul_(projection.scale)
    full = block.gradients[..., None] * block.inputs[:, None, None, :]  # [n, k, n_out, n_in]
    return _project_full(full.flatten(2), name, projector)


def _project_convolution(block: ConvolutionFactors, name: str, projector: Projector) -> Tensor:
    """Return a convolution's projected gradients, [n, rows, p], by the kept entries alone."""
    projection = projector.tensors[name]
    if projection.kind != "coordinates":
        return _project_full(block.product, name, projector)
    n, _, n_out, _ = block.gradients.shape
    n_in = block.patches.shape[1]
    table, entry_idx = _group_by_row(*_split_index(projection, n_in), n_out)
    if WHOLE_FROM * table.shape[1] >= n_in:  # one product of all, whose patches are not copied
        return _project_full(block.product, name, projector)
    patches = block.patches.index_select(1, table.flatten().to(block.patches.device))
    patches = patches.view(n, *table.shape, -1)  # [n, n_out, width, positions]
    entries = block.gradients.transpose(1, 2) @ patches.mT  # [n, n_out, k, width]
    features = _gather(entries.transpose(1, 2).flatten(2), entry_idx).mul_(projection.scale)
    return _mix_outputs(features, name, projector)


def _group_by_row(row: Tensor, column: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return the kept columns of each row, [n_rows, width], and each coordinate's index there."""
    # `row`, ascending, and `column` are those of the coordinates kept. Rows that keep fewer are
    # filled up with column 0, whose products nobody reads.
    n_kept = row.bincount(minlength=n_rows)
    first_of_row = n_kept.cumsum(0) - n_kept
    position = torch.arange(len(row), device=row.device) - first_of_row[row]
    table = column.new_zeros(n_rows, int(n_kept.max()))
    table[row, position] = column
    return table, row * table.shape[1] + position


def _project_full(gradient: Float[Tensor, "n k d"], name: str, projector: Projector) -> Tensor:
    """Return a tensor's full gradients projected, [n, rows, p]."""
    projection = projector.tensors[name]
    if projection.kind == "whole":
        return _mix_outputs(gradient, name, projector)
    assert projection.index is not None
    if projection.kind == "coordinates":
        features = _gather(gradient, projection.index.to(gradient.device)) * projection.scale
    else:
        assert projection.sign is not None
        features = gradient.new_zeros(*gradient.shape[:2], projection.n_features)
        index = projection.index.to(gradient.device)
        sign = projection.sign.to(gradient)
        features.index_add_(2, index, gradient * sign)
    return _mix_outputs(features, name, projector)


def _split_index(projection: TensorProjection, n_in: int) -> tuple[Tensor, Tensor]:
    """Return the row and the column of each coordinate kept, in a weight of n_in columns."""
    assert projection.index is not None
    return projection.index // n_in, projection.index % n_in


def _gather(values: Float[Tensor, "... d"], index: Int[Tensor, " p"]) -> Float[Tensor, "... p"]:
    """Return values[..., index], which torch does several times faster as a gather."""
    return values.gather(-1, index.to(values.device).expand(*values.shape[:-1], -1))


def _mix_outputs(
    features: Float[Tensor, "n k p"], name: str, projector: Projector
) -> Float[Tensor, "n rows p"]:
    """Return features summed over k outputs with random signs, if the projector mixes them."""
    if projector.mixing is None:
        return features
    signs = projector.mixing[name].to(features) / features.shape[1] ** 0.5
    return (features * signs).sum(1, keepdim=True)
