"""Removal to first order in each sample's weight, from gradients of losses and queries' measures.

w − w₋ᵢ ≈ −(1/n) P ∇ℓ_i,  outcome with i − without ≈ −(1/n) ∇mᵀ P ∇ℓ_i

P is the inverse of the damped Hessian, block by block in its eigenbasis. One gradient per sample
and one a query; nothing of size n × n beyond the effects asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.gradients.batches import IGNORED, outputs_of, to_model
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.objective import Objective, is_one_hot
from datassay.collect.layers import matrix
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.score.effects import Attribution, Effects, outcome
from datassay.score.influence.block_basis import BlockBasis, gradient_coordinates
from datassay.score.influence.request import TRUSTED
from datassay.score.influence.trained_network import TrainedNetwork, weights_at
from datassay.score.settings import OUTCOMES


@dataclass(frozen=True, slots=True)
class Measure:
    """Values of queries, to be differentiated by the weights.

    Attributes:
        name: "output", "margin", "loss", or "custom".
        objective: the training loss.
        function: (model, batch) → [b] or [b, tokens], where it is the user's own.
        deciders: the networks whose mean output decides which class "output" is of; empty: each
            network its own.
    """

    name: str
    objective: Objective
    function: Callable[[nn.Module, Any], Tensor] | None = None
    deciders: tuple[nn.Module, ...] = ()

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the measured value of each query, [b], or of each of its tokens, [b, tokens]."""
        if self.function is not None:
            values = self.function(model, batch)
            if not isinstance(values, Tensor) or values.ndim not in {1, 2}:
                if isinstance(values, Tensor):
                    got = list(values.shape)
                else:
                    got = type(values).__name__
                raise SettingError(
                    f"measure must give [b], one value per query, or [b, tokens]; got {got}."
                )
            return values
        if self.name == "loss":
            return self.objective.losses(model, batch)
        f, y = self._outputs_and_targets(model, batch)
        kind = self.objective.kind
        is_of_values = kind.compares == "values"
        k = f.shape[-1]
        if kind.compares == "classes" and not kind.has_one_class and k > 1:
            raise SettingError(
                f"measure={self.name!r} needs one class per sample; these have several labels. Use "
                "'loss'."
            )
        are_numbers = y.is_floating_point()  # values, or probabilities of classes
        if self.name == "margin" and are_numbers and kind.has_one_class and k > 1:
            raise SettingError(
                "measure='margin' needs one class per sample; these have probabilities of classes. "
                "Use 'loss'."
            )
        is_class = not are_numbers or not is_of_values or is_one_hot(y)
        if are_numbers:
            counts = torch.ones_like(f[..., 0])
            encoded = y.flatten(0, 1)
        else:
            counts = (y != IGNORED).to(f)
            encoded = _encode(y.flatten(), k)
        flat = f.flatten(0, 1)
        loss_name = "mse" if is_of_values else "cross_entropy"
        deciding = self._deciding_outputs(batch, flat)
        measure = outcome(self.name, loss_name, deciding, encoded, is_classification=is_class)
        return (measure(flat).view(counts.shape) * counts).sum(1)

    def _outputs_and_targets(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return aligned outputs, [b, places, k], and targets, [b, places] or of that shape."""
        outputs = outputs_of(model, batch)
        targets = self.objective.targets(batch)
        if targets is None:
            targets = self._placeholder_targets(outputs)
        return self.objective.align(outputs, targets)

    def _placeholder_targets(self, outputs: Tensor) -> Tensor:
        """Return zeros as targets of unlabelled queries; raise if the measure needs targets."""
        if self.name != "output":
            raise SettingError(
                f"measure={self.name!r} needs the queries' targets. Give them, or take 'output'."
            )
        if outputs.ndim > 2:
            raise SettingError(
                "measure='output' without query targets needs one output per class; these have "
                f"one per token or pixel, {list(outputs.shape)}. Give targets, or your own measure."
            )
        if self.objective.kind.has_one_class or outputs.shape[1] > 1:  # classes, all of them
            return torch.zeros(len(outputs), dtype=torch.long, device=outputs.device)
        return torch.zeros_like(outputs)

    def _deciding_outputs(self, batch: Any, own_outputs: Tensor) -> Tensor:
        """Return the outputs whose largest is the predicted class, [b · tokens, k]."""
        # own_outputs: of the network itself; with deciders their mean stands instead.
        if not self.deciders:
            return own_outputs.detach()
        deciders = self.deciders
        if self.name != "output":
            deciders = deciders[:1]
        with torch.no_grad():
            outputs = [self._outputs_and_targets(model, batch)[0] for model in deciders]
        return torch.stack(outputs).mean(0).flatten(0, 1)


def _encode(y: Tensor, k: int) -> Tensor:
    """Return labels as one-hot rows, [n, k]; for k = 1 as 0 or 1, [n, 1]."""
    if k == 1:
        return (y == 1).double()[:, None]
    return (y[:, None] == torch.arange(k).to(y)).double()  # one_hot cannot be vectorised


def measure_of(measure: Any, loss: Objective, *, has_several: bool = False) -> Measure:
    """Return the `Measure` that a name such as "margin", or the user's function, stands for."""
    # "output" becomes "loss" where no output is the one: `has_several`, or a loss of the user's.
    loss = replace(loss, temperature=1.0)  # a query's own loss is not softened
    if callable(measure):
        function: Any = measure
        return Measure("custom", loss, function)
    if measure not in OUTCOMES:
        raise SettingError(
            "measure must be 'output', 'margin', 'loss' or a function of the model and a batch; "
            f"got {measure!r}."
        )
    if loss.kind.compares == "own" and measure == "margin":
        raise SettingError(
            "measure='margin' is not defined by a loss of your own. Use 'loss', or a function of "
            "the model and a batch."
        )
    if measure == "output" and (has_several or loss.kind.compares == "own"):
        measure = "loss"
    return Measure(measure, loss)


@dataclass(slots=True)
class Directions:
    """Queries' gradients ∇m times P, in each block's basis.

    Attributes:
        values: [m], the measure of each query.
        by_block: block name → [m, p] and the rows of the weights that p stands for; None: all.
    """

    values: Float[Tensor, " m"]
    by_block: dict[str, tuple[Float[Tensor, "m p"], Tensor | None]]


def directions(
    network: TrainedNetwork, bases: dict[str, BlockBasis], queries: Iterable[Any], measure: Measure
) -> Directions:
    """Return the queries' values, [m], and P ∇(value) by block; tokens count as queries."""
    values: list[Tensor] = []
    pieces: dict[str, list[tuple[Tensor, Tensor | None]]] = {name: [] for name in bases}
    for batch in queries:
        check_classes(network.loss, network.loss.targets(batch), network.n_outputs)
        batch = to_model(batch, network.model)
        collected: list[Tensor] = []  # `each_token` appends the batch's values
        split = partial(each_token, collected=collected)
        by_token = list(network.per_sample.gradients(measure, batch, split))
        measured = collected[0]
        values.append(measured.double().flatten().cpu())
        for name, basis in bases.items():
            rotated = [basis.coordinates(grads[name]) for grads in by_token if name in grads]
            if not rotated:  # the batch does not use the block: coordinates of no row
                no_coords = torch.zeros(measured.numel(), 0).to(measured)
                pieces[name].append((no_coords, measured.new_zeros(0).long()))
                continue
            _, rows = rotated[0]
            coords = torch.stack([coords for coords, _ in rotated], 1).flatten(0, 1)
            pieces[name].append((coords * basis.inverse(rows).to(coords), rows))
    by_block = {name: _join(batches, bases[name].block.shape) for name, batches in pieces.items()}
    return Directions(torch.cat(values), by_block)


def each_token(values: Tensor, collected: list[Tensor]) -> list[Tensor]:
    """Return cotangents that select each token's value alone; append the values to `collected`."""
    collected.append(values)
    if values.ndim == 1:
        return [torch.ones_like(values)]
    unit = torch.eye(values.shape[1], dtype=values.dtype, device=values.device)
    return [unit[t].expand_as(values) for t in range(values.shape[1])]


def _join(
    pieces: list[tuple[Tensor, Tensor | None]], shape: tuple[int, int]
) -> tuple[Tensor, Tensor | None]:
    """Return batches' coordinates joined, [m, rows · columns], and the weight rows covered."""
    # 0 in the rows that a batch does not use. None: all rows.
    if all(rows is None for _, rows in pieces):
        return torch.cat([values for values, _ in pieces]), None
    all_rows = torch.cat([
        torch.arange(shape[0]) if r is None else r.cpu() for _, r in pieces
    ]).unique()
    device = pieces[0][0].device
    padded = [p.new_zeros(len(p), len(all_rows), shape[1]) for p, _ in pieces]
    for target, (values, used_rows) in zip(padded, pieces, strict=True):
        rows = used_rows.cpu() if used_rows is not None else all_rows
        positions = torch.searchsorted(all_rows, rows)
        target[:, positions] = values.view(len(values), len(rows), shape[1])
    return torch.cat(padded).flatten(1), all_rows.to(device)


def removal_effects(
    network: TrainedNetwork,
    bases: dict[str, BlockBasis],
    towards: Directions,
    scale: float,
    step: str = "remove samples",
) -> Iterator[Effects]:
    """Yield, in chunks, each sample's effect on each query, [chunk, m], and self-influence."""
    # scale: factor of all effects, 1/n or a step size.
    start = 0
    m = len(towards.values)
    samples = coalesce(network.removed, network.train)
    weight_directions = (
        {} if network.self_influence_loss is None else _weight_directions(bases, towards)
    )
    for size, gradients, own_grads in network.both_gradients():
        effect = torch.zeros(size, m, dtype=torch.float64, device=network.device)
        self_effect = effect.new_zeros(size)
        for name, direction in weight_directions.items():
            if name in gradients:
                rows = bases[name].block.shape[0]
                effect -= (matrix(gradients.pop(name), rows).flatten(1) @ direction.T).double()
        for basis, coords, rows in gradient_coordinates(bases, gradients):
            direction, q_rows = towards.by_block[basis.block.name]
            effect -= _multiply(coords, rows, direction, q_rows, basis.block.shape[1]).double()
            if own_grads is None:
                self_effect += _squared_length(basis, coords, rows)
        for basis, coords, rows in gradient_coordinates(bases, own_grads or {}):
            self_effect += _squared_length(basis, coords, rows)
        weights = weights_at(samples, start, size) * scale  # a sample drawn twice weighs two
        yield Effects(
            start=start,
            effect=effect.cpu() * weights[:, None],
            prediction=None,
            weight=None,
            self_influence=self_effect.cpu() * weights,
        )
        start += size
        network.progress(step, start, network.n)


def _weight_directions(
    bases: dict[str, BlockBasis], towards: Directions
) -> dict[str, Float[Tensor, "m size"]]:
    """Return {block: the queries' directions by weights, [m, size]}, of blocks used in full."""
    # So that only the gradients of self-influence need coordinates.
    return {
        name: bases[name].to_weight_axes(direction)
        for name, (direction, rows) in towards.by_block.items()
        if rows is None
    }


def _squared_length(basis: BlockBasis, coords: Tensor, rows: Tensor | None) -> Float[Tensor, " b"]:
    """Return one block's part of gᵀ P g of each gradient g; `coords` are those of g."""
    return (coords.square() @ basis.inverse(rows).to(coords)).double()


def average_effects(streams: list[Iterator[Effects]], share: float) -> Iterator[Effects]:
    """Yield chunks of effects summed over networks, times `share`."""
    # streams: of each network, with the same chunks.
    names = ("effect", "prediction", "weight", "self_influence")
    for parts in zip(*streams, strict=True):
        if len({(p.start, len(p.effect)) for p in parts}) > 1:
            raise SettingError("several models must have one architecture; their sizes differ.")
        values = {name: [getattr(p, name) for p in parts] for name in names}
        sums: dict[str, Any] = {
            name: None if any(term is None for term in terms) else torch.stack(terms).sum(0) * share
            for name, terms in values.items()
        }
        yield Effects(parts[0].start, **sums)


def _multiply(
    coords: Tensor, rows: Tensor | None, matrix: Tensor, q_rows: Tensor | None, columns: int
) -> Float[Tensor, "b m"]:
    """Return inner products of samples' and queries' coordinates over the rows that both have."""
    # `rows` are those of `coords`, `q_rows` those of `matrix`, rising; None: all. A row has
    # `columns` coordinates.
    if q_rows is None and rows is None:
        return coords @ matrix.T
    if not matrix.shape[1]:
        return coords.new_zeros(len(coords), len(matrix))
    n_rows = coords.shape[1] // columns
    rows = coalesce(rows, torch.arange(n_rows, device=coords.device))
    q_rows = coalesce(q_rows, torch.arange(matrix.shape[1] // columns, device=coords.device))
    is_shared = torch.isin(rows, q_rows)
    q_positions = torch.searchsorted(q_rows, rows[is_shared])
    shared_coords = coords.view(len(coords), n_rows, columns)[:, is_shared].flatten(1)
    return shared_coords @ matrix.view(len(matrix), -1, columns)[:, q_positions].flatten(1).T


def too_far(result: Attribution) -> list[str]:
    """Return a warning where effects are too large to trust a linear model; else no warning."""
    extremes = (result.top.raising_effect, result.top.lowering_effect)
    largest = max(float(np.abs(effects).max()) for effects in extremes)
    if largest <= TRUSTED or result.measure == "custom":
        return []
    return [
        f"single effects on the {result.measure} reach {largest:.1f}, further than a linear model "
        "of the network can be trusted: read them as an order, not as sizes. Several networks from "
        "other seeds, averaged, or more damping bring them nearer."
    ]
