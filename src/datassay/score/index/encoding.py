"""Short rows whose inner products are influence: the weightiest coordinates, folded and rounded.

In the eigenbasis U of a block's Hessian, with eigenvalues λ, a gradient g has the coordinates

c = (λ + damping)^(−1/2) Uᵀ g,    effect of i on j to first order = −(1/n) Σ_blocks c_iᵀ c_j.

Gradients have a mean square of about s = λ / (λ + damping) at a coordinate. Rows and queries have
√a c, with

a = max(0, 1 − τ / s),    τ = ν Σ a s,

ν the sketch's noise: of all weights a those with the least squared error of the effects,
Σ (1 − a)² s² + ν (Σ a s)². Then all are divided by Σ a s² / Σ s², so that effects do not shrink.
Rows are sketches of the coordinates with the largest s.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import Batches, to_model
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.recording import Gradients
from datassay.errors import ModelError
from datassay.progress import Progress, silent
from datassay.score.index.sketch import Sketch, sketches
from datassay.score.influence.block_basis import BlockBasis, gradient_coordinates
from datassay.score.influence.first_order import Measure, each_token
from datassay.score.influence.trained_network import TrainedNetwork

LEAST = 1e-300  # that a mean square is divided by


@dataclass(frozen=True, slots=True)
class GradientEncoding:
    """What turns gradients into rows.

    Attributes:
        bases: of the blocks; of exact ones the eigenvectors, not a Cholesky factor.
        inverses: block → 1 / (λ + damping), of λ's shape.
        coordinates: block → positions of the coordinates that rows are of, rising.
        factors: block → ±√(a / (λ + damping)) of these, a as divided.
        sketch: from the coordinates of all blocks to a row.
    """

    bases: Mapping[str, BlockBasis]
    inverses: Mapping[str, Tensor]
    coordinates: Mapping[str, Int[Tensor, " r"]]
    factors: Mapping[str, Float[Tensor, " r"]]
    sketch: Sketch

    def rows_of(
        self, network: TrainedNetwork
    ) -> Iterator[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]:
        """Yield the rows of a network's training samples and their squared lengths by batch."""
        for _, gradients, own_loss in network.both_gradients():
            rows, lengths = self.rows(gradients)
            yield rows, lengths if own_loss is None else self.lengths(own_loss)

    def rows(self, gradients: Gradients) -> tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]:
        """Return the rows of a batch's gradients, not rounded, and the squared lengths ‖c‖²."""
        pieces: dict[str, Tensor] = {}
        squares = []
        for basis, coords, used_rows in gradient_coordinates(dict(self.bases), gradients):
            name = basis.block.name
            squares.append(self._length(name, coords, used_rows))
            picked = _pick(coords, used_rows, self.coordinates[name], basis.block.shape[1])
            pieces[name] = picked * self.factors[name]
        assert squares, "a batch reaches at least one block"
        piece = next(iter(pieces.values()))
        columns = [
            pieces[name] if name in pieces else piece.new_zeros(len(piece), len(idx))
            for name, idx in self.coordinates.items()
        ]
        return self.sketch.mix(torch.cat(columns, 1)), torch.stack(squares).sum(0)

    def query_rows(self, gradients: Gradients) -> Float[Tensor, "b width"]:
        """Return the rows of a batch's gradients alone."""
        return self.rows(gradients)[0]

    def lengths(self, gradients: Gradients) -> Float[Tensor, " b"]:
        """Return the squared lengths ‖c‖² of a batch's gradients."""
        parts = gradient_coordinates(dict(self.bases), gradients)
        squares = [
            self._length(basis.block.name, coords, used_rows) for basis, coords, used_rows in parts
        ]
        return torch.stack(squares).sum(0)

    def _length(
        self, name: str, coords: Float[Tensor, "b p"], used_rows: Tensor | None
    ) -> Float[Tensor, " b"]:
        """Return the part of ‖c‖² in one block."""
        inverse = self.inverses[name] if used_rows is None else self.inverses[name][used_rows]
        return (coords.square() @ inverse.flatten()).double()


def _pick(coords: Tensor, used_rows: Tensor | None, idx: Tensor, columns: int) -> Tensor:
    """Pick some coordinates; 0 in rows of the weights that the batch does not use."""
    if used_rows is None:
        return coords[:, idx]
    result = coords.new_zeros(len(coords), len(idx))
    if len(used_rows):
        row = idx // columns
        index = torch.searchsorted(used_rows, row).clamp_max(len(used_rows) - 1)
        is_used = used_rows[index] == row
        result[:, is_used] = coords[:, (index * columns + idx % columns)[is_used]]
    return result


def check_gradients(bases: Mapping[str, BlockBasis]) -> None:
    """Raise ModelError where no sample has a gradient."""
    if not any(basis.eigenvalues.any() for basis in bases.values()):
        raise ModelError(
            "an index needs gradients; every training sample's is 0, so that none changes any "
            "answer. Check that the outputs depend on the weights, and for units that are off."
        )


def choose_sketch(bases: Mapping[str, BlockBasis], n_bytes: int, seed: int) -> Sketch:
    """Return the sketch of at most so many bytes that is expected to keep most."""
    # Of effects Σ c c′ with mean squares s², weighted by a and disturbed by ν (Σ a s)², the
    # correlation with exact ones is that of weights, r, times that of noise. What weights leave out
    # costs more of the linear datamodelling score than r says, about r² on two GPTs.
    energy = _energy(bases, _inverse(bases)).sort(descending=True).values
    total_squares = float(energy.square().sum())

    def score(sketch: Sketch) -> float:
        largest = energy[: sketch.n_coordinates]
        weighted = _weights(largest, sketch.noise) * largest
        squares = float(weighted.square().sum())
        noise = sketch.noise * float(weighted.sum()) ** 2
        along = float(weighted @ largest)
        return along**2 / (total_squares * squares) * (squares / (squares + noise)) ** 0.5

    return max(sketches(len(energy), n_bytes, seed), key=score)


def _inverse(bases: Mapping[str, BlockBasis]) -> Float[Tensor, " p"]:
    return torch.cat([basis.inverse().cpu() for basis in bases.values()])


def _energy(bases: Mapping[str, BlockBasis], inverse: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """Return s of all blocks' coordinates."""
    return inverse * torch.cat([basis.eigenvalues.flatten().cpu() for basis in bases.values()])


def encode_by(
    bases: Mapping[str, BlockBasis], sketch: Sketch, dtype: torch.dtype
) -> GradientEncoding:
    """Return the encoding by these bases and this sketch."""
    inverse = _inverse(bases)
    energy = _energy(bases, inverse)
    order = energy.argsort(descending=True, stable=True)[: sketch.n_coordinates]
    largest = order.sort().values
    squares = energy.square()
    weights = _weights(energy[largest], sketch.noise)
    kept_share = (weights @ squares[largest]) / squares.sum()
    roots = (weights / kept_share * inverse[largest]).sqrt() * sketch.signs()
    inverses = {}
    coordinates = {}
    factors = {}
    start = 0
    for name, basis in bases.items():
        size = basis.eigenvalues.numel()
        inverses[name] = basis.inverse().to(dtype).view_as(basis.eigenvalues)
        in_block = (largest >= start) & (largest < start + size)
        coordinates[name] = (largest[in_block] - start).to(basis.eigenvalues.device)
        factors[name] = roots[in_block].to(basis.eigenvalues.device, dtype)
        start += size
    return GradientEncoding(bases, inverses, coordinates, factors, sketch)


def _weights(energy: Float[Tensor, " N"], noise: float) -> Float[Tensor, " N"]:
    """Return a of coordinates with the mean squares s: 1 where the sketch has no noise."""
    largest = energy.sort(descending=True).values
    # τ, were those up to each one the only ones with a weight: they are, up to the last above it.
    bounds = noise * largest.cumsum(0) / (1 + noise * torch.arange(1, len(largest) + 1))
    bound = bounds[max(int((largest > bounds).sum()) - 1, 0)]
    return (1 - bound / energy.clamp_min(LEAST)).clamp_min(0) if bound else torch.ones_like(energy)


def query_rows(
    network: TrainedNetwork,
    encode: Callable[[Gradients], Float[Tensor, "b width"]],
    measure: Measure,
    queries: Batches,
    progress: Progress = silent,
) -> Iterator[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]:
    """Yield the queries' rows in float32, tokens of a query together, and the measure of each."""
    n_done = 0
    for ids, batch in queries:
        tokens: list[Tensor] = []
        check_classes(network.loss, network.loss.targets(batch), network.n_outputs)
        inputs = to_model(batch, network.model)
        grads = network.per_sample.gradients(measure, inputs, lambda v, s=tokens: each_token(v, s))
        encoded = torch.stack([encode(g).float() for g in grads], 1)
        yield encoded.flatten(0, 1).cpu(), tokens[0].double().flatten().cpu()
        n_done += len(ids)
        progress("differentiate the queries", n_done, queries.n or n_done)
