"""Seeded random projections of per-sample Jacobians, tensor by tensor.

Layers are kept apart because their gradients differ in scale (S1 §5). A tensor with no more entries
than asked for is kept whole, so the projection is exact for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.blocks import Block, DenseFactors
from datassay.collect.jacobian import Layers

ProjectionKind = Literal["coordinates", "sparse_sign"]


@dataclass(frozen=True, slots=True)
class TensorProjection:
    """How the d entries of one parameter tensor become p features.

    Attributes:
        kind: "whole" (p = d), "coordinates" or "sparse_sign".
        index: coordinates: [p] the entries kept; sparse_sign: [d] the feature each entry goes to.
        sign: sparse_sign: [d] of ±1; otherwise None.
        scale: factor on the features, so that inner products are unbiased.
        n_features: p; sparse_sign: also of features that no entry goes to.
    """

    kind: Literal["whole", "coordinates", "sparse_sign"]
    index: Int[Tensor, " entries"] | None = None
    sign: Float[Tensor, " d"] | None = None
    scale: float = 1.0
    n_features: int = 0


def tensor_projection(
    size: int, n_features: int | None, kind: ProjectionKind, seed: int
) -> TensorProjection:
    """The projection of one tensor; the same seed gives the same projection everywhere.

    Args:
        size: d, entries of the tensor.
        n_features: p, features wanted; None keeps the tensor whole.
        kind: "coordinates": p entries drawn without replacement, times √(d/p) (S1's code).
            "sparse_sign": every entry goes to one random feature with a random sign.
        seed: of this tensor's draw.

    Returns:
        The projection; E[⟨Pa, Pb⟩] = ⟨a, b⟩ for both kinds.

    Cost: d values.
    Source: S1 §5 (coordinates); Li, Hastie, Church (2006), the sparse sign projection with one
    non-zero a column.
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
    """

    n_features: int | None
    kind: ProjectionKind
    tensors: dict[str, TensorProjection]


def projector(layers: Layers, n_features: int | None, kind: ProjectionKind, seed: int) -> Projector:
    """Draw the projection of every tensor of a model.

    Args:
        layers: the model's collected tensors.
        n_features: p a tensor at most; None keeps everything.
        kind: of projection.
        seed: the tensor at position j draws with a seed of its own, made from this one and j.

    Returns:
        The projector.
    """
    sizes = dict(layers.direct)
    for name, (n_in, n_out, bias) in layers.dense.items():
        sizes |= {f"{name}.weight": n_in * n_out} | ({f"{name}.bias": n_out} if bias else {})
    tensors = {
        name: tensor_projection(size, n_features, kind, 1_000_003 * seed + j)
        for j, (name, size) in enumerate(sizes.items())
    }
    return Projector(n_features, kind, tensors)


def project(blocks: dict[str, Block], projector: Projector) -> Float[Tensor, "n k p"]:
    """Features of a chunk: the projected tensors side by side.

    Args:
        blocks: the chunk's Jacobian, from `jacobian`.
        projector: one projection a tensor.

    Returns:
        Φ for the chunk, in the blocks' precision.

    Cost: sampled coordinates of a dense layer are products of gathered entries of Δ and A: n k p
    multiplications and no full gradient. Other kinds form the full gradient of one chunk.
    """
    parts = []
    for name, block in blocks.items():
        if isinstance(block, DenseFactors):
            parts.append(_project_weight(block, projector.tensors[f"{name}.weight"]))
            if block.bias:
                parts.append(_project_full(block.gradients, projector.tensors[f"{name}.bias"]))
        else:
            parts.append(_project_full(block, projector.tensors[name]))
    return torch.cat(parts, dim=2)


def _project_weight(block: DenseFactors, to: TensorProjection) -> Float[Tensor, "n k p"]:
    if to.kind == "coordinates":
        assert to.index is not None
        n_in = block.inputs.shape[1]
        row, column = to.index // n_in, to.index % n_in
        gathered = block.gradients[:, :, row] * block.inputs[:, None, column]  # [n, k, p]
        return gathered * to.scale
    full = block.gradients[..., None] * block.inputs[:, None, None, :]  # [n, k, n_out, n_in]
    return _project_full(full.flatten(2), to)


def _project_full(gradient: Float[Tensor, "n k d"], to: TensorProjection) -> Tensor:
    if to.kind == "whole":
        return gradient
    assert to.index is not None
    if to.kind == "coordinates":
        return gradient[:, :, to.index] * to.scale
    assert to.sign is not None
    features = gradient.new_zeros(*gradient.shape[:2], to.n_features)
    index, sign = to.index.to(gradient.device), to.sign.to(gradient)
    return features.index_add_(2, index, gradient * sign)
