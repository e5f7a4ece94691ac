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

from datassay.collect.gradients.batches import Batches, targets_of, to_model
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.per_sample import Gradients
from datassay.progress import Progress, silent
from datassay.score.influence.block_basis import BlockBasis, gradient_coordinates
from datassay.score.influence.first_order import Measure, each_token
from datassay.score.influence.trained_network import TrainedNetwork


@dataclass(frozen=True, slots=True)
class GradientEncoding:
    """What turns gradients into rows.

    Attributes:
        bases: of the blocks; of exact ones the eigenvectors, not a Cholesky factor.
        kept: block → positions of its kept coordinates, rising.
        share: of the expected mean squared effect that they hold, in [0, 1].
    """

    bases: Mapping[str, BlockBasis]
    kept: Mapping[str, Int[Tensor, " r"]]
    share: float

    @property
    def width(self) -> int:
        """Numbers a row."""
        return sum(map(len, self.kept.values()))

    def restricted(self) -> dict[str, BlockBasis]:
        """The bases with no response but in kept coordinates: effects by these are the rows'."""
        results = {}
        for name, basis in self.bases.items():
            inverse = basis.inverse()
            response = torch.zeros_like(inverse)
            index = self.kept[name].to(inverse.device)
            response[index] = inverse[index]
            results[name] = replace(basis, response=response.view_as(basis.eigenvalues))
        return results

    def rows_of(
        self, network: TrainedNetwork
    ) -> Iterator[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]:
        """Rows of a network's training samples, batch by batch, and their squared lengths."""
        for _, gradients, own in network.both_gradients():
            rows, lengths = self.rows(gradients)
            yield rows, lengths if own is None else self.lengths(own)

    def rows(self, gradients: Gradients) -> tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]:
        """Kept coordinates of a batch's gradients, and the squared length of all of them."""
        pieces: dict[str, Tensor] = {}
        lengths: Tensor | None = None
        for basis, white, rows in self._white(gradients):
            squares = white.square().sum(1).double()
            lengths = squares if lengths is None else lengths + squares
            kept = self.kept[basis.block.name].to(white.device)
            pieces[basis.block.name] = _picked(white, rows, kept, basis.block.shape[1])
        assert lengths is not None, "a batch reaches at least one block"
        some = next(iter(pieces.values()))
        every = [
            pieces[name] if name in pieces else some.new_zeros(len(some), len(kept))
            for name, kept in self.kept.items()
        ]
        return torch.cat(every, 1), lengths

    def lengths(self, gradients: Gradients) -> Float[Tensor, " b"]:
        """‖c‖² of a batch's gradients."""
        every = [white.square().sum(1).double() for _, white, _ in self._white(gradients)]
        return torch.stack(every).sum(0)

    def _white(self, gradients: Gradients) -> Iterator[tuple[BlockBasis, Tensor, Tensor | None]]:
        """Each block's c, and which rows of the weights it is of."""
        for basis, result, rows in gradient_coordinates(dict(self.bases), gradients):
            yield basis, result * basis.inverse(rows).sqrt().to(result), rows


def _picked(white: Tensor, rows: Tensor | None, kept: Tensor, columns: int) -> Tensor:
    """Some coordinates; 0 in rows of the weights that the batch does not use."""
    if rows is None:
        return white[:, kept]
    result = white.new_zeros(len(white), len(kept))
    if len(rows):
        row = kept // columns
        index = torch.searchsorted(rows, row).clamp_max(len(rows) - 1)
        here = rows[index] == row
        result[:, here] = white[:, (index * columns + kept % columns)[here]]
    return result


def encoding(bases: Mapping[str, BlockBasis], share: float, most: int) -> GradientEncoding:
    """Choose the coordinates that are kept."""
    # Source: s² as in the header. On networks with known effects of retraining it keeps as much as
    # the choice by the very samples and queries would (`bench/attribution/index.py`).
    parts = [((b.eigenvalues * b.inverse().view_as(b.eigenvalues)) ** 2) for b in bases.values()]
    held = torch.cat([part.flatten().cpu() for part in parts])
    order = held.argsort(descending=True, stable=True)
    shares = held[order].cumsum(0) / held.sum()
    width = min(most, int((shares < share).sum()) + 1, int((held > 0).sum()))
    chosen = order[:width].sort().values
    kept, start = {}, 0
    for (name, _), part in zip(bases.items(), parts, strict=True):
        inside = (chosen >= start) & (chosen < start + part.numel())
        kept[name] = chosen[inside] - start
        start += part.numel()
    return GradientEncoding(bases, kept, float(shares[width - 1]))


def query_rows(
    network: TrainedNetwork,
    encoding: GradientEncoding,
    measure: Measure,
    queries: Batches,
    progress: Progress = silent,
) -> tuple[Float[Tensor, "m width"], Float[Tensor, " m"]]:
    """Rows of the queries in float32, tokens of a query together, and the measure of each."""
    rows, values, done = [], [], 0
    for ids, batch in queries:
        seen: list[Tensor] = []
        given = to_model(batch, network.model)
        check_classes(network.loss, targets_of(given), network.n_outputs)
        every = network.per_sample.gradients(measure, given, lambda v, s=seen: each_token(v, s))
        turned = torch.stack([encoding.rows(g)[0] for g in every], 1)
        rows.append(turned.flatten(0, 1).float().cpu())
        values.append(seen[0].double().flatten().cpu())
        done += len(ids)
        progress("differentiate the queries", done, queries.n or done)
    return torch.cat(rows), torch.cat(values)
