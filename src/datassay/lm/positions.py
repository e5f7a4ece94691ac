"""Effects of single places of a sample: which of a text's tokens made its effect.

A sample's loss is the sum of its losses by position, ℓ_i = Σ_t ℓ_it, and so is its gradient. With
v = P ∇m, the direction of a query in the weights, the effect of a position −(1/n) vᵀ ∇ℓ_it is the
derivative of its loss along v: one forward derivative gives those of all positions at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp

from datassay.collect.curvature.hessian import load_forward_mode
from datassay.collect.gradients.batches import Batches, to_model
from datassay.collect.gradients.blocks import as_tensors
from datassay.collect.gradients.objective import Objective
from datassay.collect.jacobian.suitable import plain_attention
from datassay.models.user_code import user_code
from datassay.score.influence.block_basis import BlockBasis
from datassay.score.influence.first_order import Directions
from datassay.score.influence.gradient_methods import Prepared, directions_by_group


def position_effects(
    networks: Sequence[Prepared], queries: Batches, samples: Batches, *, adds: bool
) -> list[Float[np.ndarray, "places m"]]:
    """Return the effect of each token position on m queries, [positions, m] per text.

    Returns:
        One array per sample, [places, m]; over its places they add up to the sample's effect. In a
        batch that was filled up, places at the end are 0. Of next tokens, token t + 1 stands at t.

    Cost: two or three forward passes over the samples a query; a query's gradient is made once.
    """
    share = 1.0 if adds else 1 / len(networks)
    by_query_batch: list[list[np.ndarray]] = []  # then by sample: [places, queries of the batch]
    for _, towards in directions_by_group(networks, queries):
        total: list[np.ndarray] = []
        for prepared, directions in zip(networks, towards, strict=True):
            slopes = _compute_slopes(prepared, directions, samples)
            effects = [-share * prepared.scale * slope for slope in slopes]
            total = [a + b for a, b in zip(total, effects, strict=True)] if total else effects
        by_query_batch.append(total)
    return [np.concatenate(parts, 1) for parts in zip(*by_query_batch, strict=True)]


def _compute_slopes(
    prepared: Prepared, towards: Directions, samples: Batches
) -> Iterator[Float[np.ndarray, "places m"]]:
    """Yield for each sample d(loss at position)/d(weights) along each direction, [places, m]."""
    load_forward_mode()
    network = prepared.network
    directions = _make_directions(prepared, towards)
    parameters = dict(network.model.named_parameters())
    weights = {f"inner.{name}": parameters[name].detach() for name in directions}
    losses_network = _AtPlaces(network.model, network.loss)
    for _, batch in samples:
        batch = to_model(batch, network.model)

        def losses(tensors: dict[str, Tensor], batch: Any = batch) -> Tensor:
            return functional_call(losses_network, tensors, (batch,))

        slopes = []  # of each query, [b, places]
        for k in range(len(towards.values)):
            tangent = {f"inner.{name}": v[k] for name, v in directions.items()}
            with plain_attention(), torch.no_grad(), user_code(_refusal):
                slope = jvp(losses, (weights,), (tangent,))[1]
            slopes.append(slope.double().cpu())
        yield from torch.stack(slopes, 2).numpy()


def _make_directions(prepared: Prepared, towards: Directions) -> dict[str, Tensor]:
    """Return parameter name → each query's direction in the weights, [m, ...]."""
    parameters = dict(prepared.network.model.named_parameters())
    directions = {}
    for name, basis in prepared.bases.items():
        vectors = _to_weights(basis, *towards.by_block[name])
        shapes = [parameters[p].shape for p in basis.block.parameters]
        tensors = as_tensors(basis.block, vectors, shapes)
        directions |= zip(basis.block.parameters, tensors, strict=True)
    return directions


def _to_weights(
    basis: BlockBasis, coordinates: Float[Tensor, "m p"], rows: Tensor | None
) -> Float[Tensor, "m rows columns"]:
    """Return vectors in weight space, [m, rows, columns], from coordinates in a block's basis."""
    # Their products with gradients equal those of the coordinates. `rows`: the rows of the weights
    # that the coordinates are of; None: all.
    if basis.dense_basis is not None:
        return (coordinates @ basis.dense_basis.T).view(-1, *basis.block.shape)
    m = len(coordinates)
    n_rows, columns = basis.block.shape
    if rows is None:
        vectors = coordinates.view(m, n_rows, columns)
    else:
        vectors = coordinates.new_zeros(m, n_rows, columns)
        vectors[:, rows] = coordinates.view(m, len(rows), columns)
    if basis.row_basis is not None:
        vectors = basis.row_basis @ vectors
    if basis.column_basis is None:
        return vectors
    return vectors @ basis.column_basis.T


class _AtPlaces(nn.Module):
    """Losses by position, as a network of its own: what torch.func differentiates."""

    def __init__(self, inner: nn.Module, loss: Objective):
        super().__init__()
        self.inner = inner
        self._loss = loss

    def forward(self, batch: Any) -> Tensor:
        return self._loss.at_places(self.inner, batch)


def _refusal(error: str) -> str:
    return (
        f"the model must have a forward derivative to tell tokens apart; that raised {error} Ask "
        "about whole texts: top=0."
    )
