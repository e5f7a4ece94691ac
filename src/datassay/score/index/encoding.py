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
from functools import partial

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
    """What turns gradients into rows; symbols are those of the module's formulas.

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
        """Yield encoded gradients of training samples [b, width] and their squared norms."""
        for _, gradients, self_gradients in network.both_gradients():
            rows, lengths = self.rows(gradients)
            yield (rows, lengths if self_gradients is None else self.lengths(self_gradients))

    def rows(self, gradients: Gradients) -> tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]:
        """Return a batch's encoded gradients, unquantised, and their squared norms ‖c‖²."""
        by_block: dict[str, Tensor] = {}
        squared_lengths = []
        for basis, coords, used_rows in gradient_coordinates(dict(self.bases), gradients):
            name = basis.block.name
            squared_lengths.append(self._squared_norm(name, coords, used_rows))
            picked = _pick(coords, used_rows, self.coordinates[name], basis.block.shape[1])
            by_block[name] = picked * self.factors[name]
        assert squared_lengths, "a batch reaches at least one block"
        example = next(iter(by_block.values()))
        columns = [
            by_block[name] if name in by_block else example.new_zeros(len(example), len(idx))
            for name, idx in self.coordinates.items()
        ]
        return self.sketch.mix(torch.cat(columns, 1)), torch.stack(squared_lengths).sum(0)

    def query_rows(self, gradients: Gradients) -> Float[Tensor, "b width"]:
        """Return the rows of a batch's gradients alone."""
        return self.rows(gradients)[0]

    def lengths(self, gradients: Gradients) -> Float[Tensor, " b"]:
        """Return the squared norms ‖c‖² of a batch's gradients in the inverse Hessian."""
        parts = gradient_coordinates(dict(self.bases), gradients)
        squared_lengths = [
            self._squared_norm(basis.block.name, coords, used_rows)
            for basis, coords, used_rows in parts
        ]
        return torch.stack(squared_lengths).sum(0)

    def _squared_norm(
        self, name: str, coords: Float[Tensor, "b p"], used_rows: Tensor | None
    ) -> Float[Tensor, " b"]:
        """Return one block's part of ‖c‖²; `coords` are Uᵀ g, of the rows of weights in use."""
        inverse = self.inverses[name]
        if used_rows is not None:
            inverse = inverse[used_rows]
        return (coords.square() @ inverse.flatten()).double()


def _pick(
    coords: Float[Tensor, "b p"], used_rows: Tensor | None, idx: Int[Tensor, " r"], n_columns: int
) -> Float[Tensor, "b r"]:
    """Return the coordinates at flat positions `idx` of a block; 0 in rows not in use."""
    # `coords` are those of the block's `used_rows`, rising (None: all). Other rows have 0.
    if used_rows is None:
        return coords[:, idx]
    result = coords.new_zeros(len(coords), len(idx))
    if len(used_rows):
        row = idx // n_columns
        position = torch.searchsorted(used_rows, row).clamp_max(len(used_rows) - 1)
        is_used = used_rows[position] == row
        result[:, is_used] = coords[:, (position * n_columns + idx % n_columns)[is_used]]
    return result


def check_gradients(bases: Mapping[str, BlockBasis]) -> None:
    """Raise ModelError if every sample's gradient is 0."""
    if not any(basis.eigenvalues.any() for basis in bases.values()):
        raise ModelError(
            "an index needs gradients; every training sample's is 0, so that none changes any "
            "answer. Check that the outputs depend on the weights, and for units that are off."
        )


def choose_sketch(bases: Mapping[str, BlockBasis], n_bytes: int, seed: int) -> Sketch:
    """Return the sketch of at most n_bytes whose effects should correlate best with exact."""
    # Of effects Σ c c′ with mean squares s², weighted by a and disturbed by ν (Σ a s)², the
    # correlation with exact ones is that of weights, r, times that of noise. What weights leave out
    # costs more of the linear datamodelling score than r says, about r² on two GPTs.
    mean_square = _mean_squares(bases, _join_inverses(bases)).sort(descending=True).values  # s
    total_squares = float(mean_square.square().sum())

    def expected_score(sketch: Sketch) -> float:
        picked = mean_square[: sketch.n_coordinates]
        weighted = _weigh_coordinates(picked, sketch.noise) * picked
        squares = float(weighted.square().sum())
        noise = sketch.noise * float(weighted.sum()) ** 2
        product = float(weighted @ picked)
        return product**2 / (total_squares * squares) * (squares / (squares + noise)) ** 0.5

    return max(sketches(len(mean_square), n_bytes, seed), key=expected_score)


def _join_inverses(bases: Mapping[str, BlockBasis]) -> Float[Tensor, " p"]:
    """Return 1 / (λ + damping) of all blocks' coordinates."""
    return torch.cat([basis.inverse().cpu() for basis in bases.values()])


def _mean_squares(
    bases: Mapping[str, BlockBasis], inverse: Float[Tensor, " p"]
) -> Float[Tensor, " p"]:
    """Return s = λ / (λ + damping) of all blocks' coordinates."""
    return inverse * torch.cat([basis.eigenvalues.flatten().cpu() for basis in bases.values()])


def encode_by(
    bases: Mapping[str, BlockBasis], sketch: Sketch, dtype: torch.dtype
) -> GradientEncoding:
    """Return the encoding by the sketch's coordinates of largest mean square."""
    inverse = _join_inverses(bases)
    mean_square = _mean_squares(bases, inverse)  # s
    by_size = mean_square.argsort(descending=True, stable=True)
    picked = by_size[: sketch.n_coordinates].sort().values
    squares = mean_square.square()
    weights = _weigh_coordinates(mean_square[picked], sketch.noise)  # a
    kept_share = (weights @ squares[picked]) / squares.sum()
    signed_factors = (weights / kept_share * inverse[picked]).sqrt() * sketch.signs()
    inverses = {}
    coordinates = {}
    factors = {}
    start = 0
    for name, basis in bases.items():
        size = basis.eigenvalues.numel()
        inverses[name] = basis.inverse().to(dtype).view_as(basis.eigenvalues)
        is_in_block = (picked >= start) & (picked < start + size)
        coordinates[name] = (picked[is_in_block] - start).to(basis.eigenvalues.device)
        factors[name] = signed_factors[is_in_block].to(basis.eigenvalues.device, dtype)
        start += size
    return GradientEncoding(bases, inverses, coordinates, factors, sketch)


def _weigh_coordinates(mean_square: Float[Tensor, " N"], noise: float) -> Float[Tensor, " N"]:
    """Return weights of coordinates by their mean square: 1 if `noise` is 0, else shrunk."""
    falling = mean_square.sort(descending=True).values
    # thresholds[j]: τ if the j + 1 largest had all the weight. The last s above its own gives τ.
    thresholds = noise * falling.cumsum(0) / (1 + noise * torch.arange(1, len(falling) + 1))
    threshold = thresholds[max(int((falling > thresholds).sum()) - 1, 0)]
    if not threshold:
        return torch.ones_like(mean_square)
    return (1 - threshold / mean_square.clamp_min(LEAST)).clamp_min(0)


def query_rows(
    network: TrainedNetwork,
    encode: Callable[[Gradients], Float[Tensor, "b width"]],
    measure: Measure,
    queries: Batches,
    progress: Progress = silent,
) -> Iterator[tuple[Float[Tensor, "b width"], Float[Tensor, " b"]]]:
    """Yield batches of the queries' encoded gradients, float32, and their measured values."""
    # Where a query has a value per token, each token is a row, those of a query together.
    n_done = 0
    for ids, batch in queries:
        measured: list[Tensor] = []  # `each_token` appends the batch's values
        check_classes(network.loss, network.loss.targets(batch), network.n_outputs)
        inputs = to_model(batch, network.model)
        split = partial(each_token, collected=measured)
        grads = network.per_sample.gradients(measure, inputs, split)
        encoded = torch.stack([encode(g).float() for g in grads], 1)
        yield encoded.flatten(0, 1).cpu(), measured[0].double().flatten().cpu()
        n_done += len(ids)
        progress("differentiate the queries", n_done, queries.n or n_done)
