"""Short rows whose inner products are influence: the eigendirections that hold most of it.

In the eigenbasis U of a block's Hessian, with eigenvalues λ, a gradient g has the coordinates

c = (λ + damping)^(−1/2) Uᵀ g,    effect of i on j to first order = −(1/n) Σ_blocks c_iᵀ c_j.

Gradients have a mean square of about s = λ / (λ + damping) at a coordinate, so that its part of the
mean squared effect is about s². The coordinates with the largest s² of all blocks are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import Batches, to_model
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.recording import Gradients
from datassay.errors import ModelError
from datassay.progress import Progress, silent
from datassay.score.influence.block_basis import BlockBasis, gradient_coordinates
from datassay.score.influence.first_order import Measure, each_token
from datassay.score.influence.trained_network import TrainedNetwork

LEAST = 1e-300  # beside s², of coordinates without curvature


@dataclass(frozen=True, slots=True)
class GradientEncoding:
    """What turns gradients into rows.

    Attributes:
        bases: of the blocks; of exact ones the eigenvectors, not a Cholesky factor.
        coordinates: block → positions of its kept coordinates, rising.
        share: of the expected mean squared effect that they hold, in [0, 1].
    """

    bases: Mapping[str, BlockBasis]
    coordinates: Mapping[str, Int[Tensor, " r"]]
    share: float

    @property
    def width(self) -> int:
        """Numbers a row."""
        return sum(map(len, self.coordinates.values()))

    def restrict(self) -> dict[str, BlockBasis]:
        """Return bases that respond in kept coordinates only: their effects are the rows'."""
        results = {}
        for name, basis in self.bases.items():
            inverse = basis.inverse()
            response = torch.zeros_like(inverse)
            index = self.coordinates[name].to(inverse.device)
            response[index] = inverse[index]
            results[name] = replace(basis, response=response.view_as(basis.eigenvalues))
        return results

    def rows_of(
        self, network: TrainedNetwork
    ) -> Iterator[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]:
        """Yield the rows of a network's training samples and their squared lengths by batch."""
        for _, gradients, own_loss in network.both_gradients():
            rows, lengths = self.rows(gradients)
            yield rows, lengths if own_loss is None else self.lengths(own_loss)

    def rows(self, gradients: Gradients) -> tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]:
        """Return kept coordinates of a batch's gradients, and the squared length over all."""
        pieces: dict[str, Tensor] = {}
        lengths: Tensor | None = None
        for basis, white, rows in self._white(gradients):
            squares = white.square().sum(1).double()
            if lengths is None:
                lengths = squares
            else:
                lengths = lengths + squares
            idx = self.coordinates[basis.block.name].to(white.device)
            pieces[basis.block.name] = _pick(white, rows, idx, basis.block.shape[1])
        assert lengths is not None, "a batch reaches at least one block"
        piece = next(iter(pieces.values()))
        columns = [
            pieces[name] if name in pieces else piece.new_zeros(len(piece), len(idx))
            for name, idx in self.coordinates.items()
        ]
        return torch.cat(columns, 1), lengths

    def lengths(self, gradients: Gradients) -> Float[Tensor, " b"]:
        """Return the squared lengths ‖c‖² of a batch's gradients."""
        squares = [white.square().sum(1).double() for _, white, _ in self._white(gradients)]
        return torch.stack(squares).sum(0)

    def _white(self, gradients: Gradients) -> Iterator[tuple[BlockBasis, Tensor, Tensor | None]]:
        """Yield each block's basis, the gradients' coordinates c there, and c's weight rows."""
        for basis, result, rows in gradient_coordinates(dict(self.bases), gradients):
            yield basis, result * basis.inverse(rows).sqrt().to(result), rows


def _pick(white: Tensor, rows: Tensor | None, idx: Tensor, columns: int) -> Tensor:
    """Pick some coordinates; 0 in rows of the weights that the batch does not use."""
    if rows is None:
        return white[:, idx]
    result = white.new_zeros(len(white), len(idx))
    if len(rows):
        row = idx // columns
        index = torch.searchsorted(rows, row).clamp_max(len(rows) - 1)
        is_used = rows[index] == row
        result[:, is_used] = white[:, (index * columns + idx % columns)[is_used]]
    return result


def check_gradients(bases: Mapping[str, BlockBasis]) -> None:
    """Raise ModelError where no sample has a gradient."""
    if not any(basis.eigenvalues.any() for basis in bases.values()):
        raise ModelError(
            "an index needs gradients; every training sample's is 0, so that none changes any "
            "answer. Check that the outputs depend on the weights, and for units that are off."
        )


def encoding(bases: Mapping[str, BlockBasis], share: float, max_width: int) -> GradientEncoding:
    """Choose the coordinates that are kept; raise ModelError where there are none."""
    check_gradients(bases)
    # Source: s² as in the header. On networks with known effects of retraining it keeps as much as
    # the choice by the very samples and queries would (`bench/attribution/index.py`).
    by_block = [_energy(basis) for basis in bases.values()]
    energy = torch.cat([energies.flatten().cpu() for energies in by_block])
    order = energy.argsort(descending=True, stable=True)
    shares = energy[order].cumsum(0) / energy.sum()
    if share < 1:
        width = int((shares < share).sum()) + 1
    else:
        width = len(energy)
    width = min(max_width, width, int((energy > 0).sum()))
    largest = order[:width].sort().values
    idx_of = {}
    start = 0
    for (name, _), energies in zip(bases.items(), by_block, strict=True):
        in_block = (largest >= start) & (largest < start + energies.numel())
        idx_of[name] = largest[in_block] - start
        start += energies.numel()
    return GradientEncoding(bases, idx_of, float(shares[width - 1]))


def _energy(basis: BlockBasis) -> Tensor:
    """Return s² at each coordinate; those without curvature, as a Huber loss has, come last."""
    inverse = basis.inverse().view_as(basis.eigenvalues)
    return (basis.eigenvalues * inverse) ** 2 + LEAST * (inverse > 0).double()


def query_rows(
    network: TrainedNetwork,
    encoding: GradientEncoding,
    measure: Measure,
    queries: Batches,
    progress: Progress = silent,
) -> tuple[Float[Tensor, "m width"], Float[Tensor, " m"]]:
    """Return the queries' rows in float32, tokens of a query together, and the measure of each."""
    rows = []
    values = []
    n_done = 0
    for ids, batch in queries:
        tokens: list[Tensor] = []
        check_classes(network.loss, network.loss.targets(batch), network.n_outputs)
        inputs = to_model(batch, network.model)
        grads = network.per_sample.gradients(measure, inputs, lambda v, s=tokens: each_token(v, s))
        encoded = torch.stack([encoding.rows(g)[0] for g in grads], 1)
        rows.append(encoded.flatten(0, 1).float().cpu())
        values.append(tokens[0].double().flatten().cpu())
        n_done += len(ids)
        progress("differentiate the queries", n_done, queries.n or n_done)
    return torch.cat(rows), torch.cat(values)
