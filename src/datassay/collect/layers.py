"""Layers: which weights they have, and how gradients by these come from input and output.

`Layers` says how a network's Jacobian is collected, by factors where a layer allows it. A kind of
layer turns its input and its output's gradient into gradients by its weights: a new kind is one
function and one line in `KINDS`; weights of other layers are differentiated directly, which is
slower.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.convolution import Convolution, append_ones


def parameter_name(module: str, parameter: str) -> str:
    """Return a parameter's dotted name in the whole model."""
    if module:
        return f"{module}.{parameter}"
    return parameter


@dataclass(frozen=True, slots=True)
class Layers:
    """Which parameters are collected as factors and which as full Jacobians.

    Attributes:
        dense: module name → (n_in, n_out, has_bias) of the dense layers collected as factors.
        direct: parameter name → number of entries, everything else that trains.
        n_outputs: k.
        convolutions: module name → shape of its output for one sample, [n_out, height, width], of
            the convolutions whose weight and bias, both in `direct`, are differentiated as factors.
        last_layer: name of the dense layer whose output is the network's, whose gradient is the
            identity; empty where there is none.
        takes_integers: whether the network takes whole numbers as integers.
        unvectorized: why samples are differentiated one at a time; empty where together.
    """

    dense: dict[str, tuple[int, int, bool]]
    direct: dict[str, int]
    n_outputs: int
    convolutions: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    last_layer: str = ""
    takes_integers: bool = False
    unvectorized: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Entries of each collected tensor; a dense layer has "name.weight" and "name.bias"."""
        sizes = dict(self.direct)
        for name, (n_in, n_out, has_bias) in self.dense.items():
            sizes[f"{name}.weight"] = n_in * n_out
            if has_bias:
                sizes[f"{name}.bias"] = n_out
        return sizes

    @property
    def n_parameters(self) -> int:
        """Trained parameters in all."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Factors:
    """Gradients Σ_t lhs_t ⊗ rhs_t, over the places t where a sample uses the weights."""

    # [b, places]: lhs_t is 1 in this row (a token id) and 0 elsewhere.
    lhs: Float[Tensor, "b places rows"] | Int[Tensor, "b places"]
    source: Tensor  # rhs, or the input [b, channels, ...] of `convolution`
    convolution: Convolution | None = None

    @property
    def rhs(self) -> Float[Tensor, "b places columns"]:
        """The right factor, [b, places, columns]; a convolution's patches are formed here."""
        if self.convolution is None:
            return self.source
        return self.convolution.patches(self.source)

    @property
    def is_sparse(self) -> bool:
        """Whether `lhs` holds the numbers of single rows."""
        return not self.lhs.is_floating_point()


# One use of the weights in a forward pass: its factors, or its gradients, [b, rows, columns].
Use = Factors | Float[Tensor, "_ _ _"]


def tensors_of(use: Use) -> list[Tensor]:
    """Return the tensors that hold a use: two factors, or one gradient."""
    if isinstance(use, Factors):
        return [use.lhs, use.source]
    return [use]


def matrix(uses: list[Use], rows: int) -> Float[Tensor, "b rows columns"]:
    """Return each sample's gradient as a matrix, summed over the calls of its layer."""
    total = _to_matrix(uses[0], rows)
    for use in uses[1:]:
        total = total + _to_matrix(use, rows)
    return total


def unfold(use: Use, size: int) -> Use:
    """Return a use with one row per sample, merging parts of a sample such as frames."""
    if isinstance(use, Factors):
        if len(use.lhs) == size:
            return use
        lhs, rhs = (t.unflatten(0, (size, -1)).flatten(1, 2) for t in (use.lhs, use.rhs))
        return Factors(lhs, rhs)
    if len(use) == size:
        return use
    return use.unflatten(0, (size, -1)).sum(1)


def weighted_sum(
    uses: list[Use], weights: Float[Tensor, " b"], rows: int
) -> Float[Tensor, "rows columns"]:
    """Return Σ_i weights_i · gradient_i without forming each sample's gradient."""
    total: Tensor | float = 0.0
    for use in uses:
        if not isinstance(use, Factors):
            total = total + torch.tensordot(weights.to(use), use, 1)
            continue
        if use.convolution is not None:
            weighted_rows = use.lhs * weights.to(use.lhs)[:, None, None]
            total = total + use.convolution.gradients(use.source, weighted_rows, 1)[0]
            continue
        weighted_columns = (use.rhs * weights.to(use.rhs)[:, None, None]).flatten(0, 1)
        if use.is_sparse:
            zeros = weighted_columns.new_zeros(rows, weighted_columns.shape[1])
            total = total + zeros.index_add_(0, use.lhs.flatten(), weighted_columns)
        else:
            total = total + use.lhs.flatten(0, 1).T @ weighted_columns
    assert isinstance(total, Tensor)
    return total


def join_samples(uses_of: Sequence[list[Use]], rows: int) -> list[Use]:
    """Return a batch's uses, [b, ...], from those of its samples, [1, ...] each."""
    # Places that a sample lacks are 0. The use is a gradient unless all are factors.
    example = next(uses[0] for uses in uses_of if uses)
    if not all(isinstance(use, Factors) for uses in uses_of for use in uses):
        zeros = torch.zeros_like(matrix([example], rows))
        return [torch.cat([matrix(uses, rows) if uses else zeros for uses in uses_of])]
    joined: list[Use] = []
    for is_sparse in (False, True):  # an embedding's weights may be a dense layer's too
        factors = [
            [use for use in uses if isinstance(use, Factors) and use.is_sparse == is_sparse]
            for uses in uses_of
        ]
        if any(factors):
            joined.append(_join_factors(factors))
    return joined


def _join_factors(factors: Sequence[list[Factors]]) -> Factors:
    """Return one use for a batch from its samples' factors, padded with zeros."""
    example = next(uses[0] for uses in factors if uses)
    unused = Factors(example.lhs[:, :0], example.rhs[:, :0])
    lefts = [torch.cat([use.lhs[0] for use in uses or [unused]]) for uses in factors]
    rights = [torch.cat([use.rhs[0] for use in uses or [unused]]) for uses in factors]
    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return Factors(pad(lefts), pad(rights))


def used_rows(uses: list[Use]) -> Int[Tensor, " r"] | None:
    """Return the weight rows that a batch uses (embeddings), ascending; None: perhaps all."""
    ids = [use.lhs.flatten() for use in uses if isinstance(use, Factors) and use.is_sparse]
    if len(ids) != len(uses):
        return None
    return torch.cat(ids).unique()


def restrict(uses: list[Use], rows: Int[Tensor, " r"]) -> list[Use]:
    """Return sparse uses with row numbers as positions in `rows`."""
    return [
        Factors(torch.searchsorted(rows, use.lhs), use.rhs)
        for use in uses
        if isinstance(use, Factors)
    ]


def rotate(
    use: Use,
    row_basis: Float[Tensor, "rows rows"] | None,
    column_basis: Float[Tensor, "c c"] | None,
) -> Use:
    """Return row_basisᵀ G column_basis for a use's gradients G; a basis of None: identity."""
    # Factors stay factors where this costs fewer operations. Sparse ones ignore the row basis.
    if row_basis is None and column_basis is None:
        return use
    if isinstance(use, Factors):
        n_places = use.lhs.shape[1]
        n_rows = 0 if row_basis is None else len(row_basis)
        n_columns = 0 if column_basis is None else len(column_basis)
        factor_work = n_places * (n_rows**2 + n_columns**2)
        matrix_work = n_rows * n_columns * (n_rows + n_columns)
        if use.is_sparse or factor_work <= matrix_work:
            lhs = use.lhs if row_basis is None or use.is_sparse else use.lhs @ row_basis
            rhs = use.rhs if column_basis is None else use.rhs @ column_basis
            return Factors(lhs, rhs)
        use = _to_matrix(use, use.lhs.shape[-1])
    dense = use if row_basis is None else row_basis.T @ use
    if column_basis is None:
        return dense
    return dense @ column_basis


def _to_matrix(use: Use, rows: int) -> Float[Tensor, "b rows columns"]:
    """Return one use's per-sample gradients, summed over positions."""
    if not isinstance(use, Factors):
        return use
    if use.convolution is not None and rows <= use.lhs.shape[1]:  # else patches are smaller
        return use.convolution.gradients(use.source, use.lhs, len(use.lhs))
    if not use.is_sparse:
        if use.lhs.shape[1] == 1:  # one position: an outer product, which needs no summing
            return use.lhs[:, 0, :, None] * use.rhs[:, 0, None, :]
        return use.lhs.mT @ use.rhs
    b, positions, columns = use.rhs.shape
    total = use.rhs.new_zeros(b * rows, columns)
    index = use.lhs + rows * torch.arange(b, device=use.lhs.device)[:, None]
    return total.index_add_(0, index.flatten(), use.rhs.reshape(b * positions, columns)).view(
        b, rows, columns
    )


def second_moments(uses: list[Use], largest: int) -> tuple[Tensor | None, Tensor | None]:
    """Return Kronecker factors Σ lhs lhsᵀ [rows, rows] and Σ rhs rhsᵀ [columns, columns]."""
    # Sums are over samples and places, in float64; gradients G that are no factors add G Gᵀ and Gᵀ
    # G. None stands for a side longer than `largest`, and for the rows of sparse factors.
    sides: list[Tensor | None] = [None, None]
    is_sparse = any(isinstance(use, Factors) and use.is_sparse for use in uses)
    sources = {id(use.source): use for use in uses if isinstance(use, Factors)}
    formed = {key: use.rhs for key, use in sources.items()}  # patches once
    pairs = [(u.lhs, formed[id(u.source)]) if isinstance(u, Factors) else (u.mT, u) for u in uses]
    for side, parts in enumerate(zip(*pairs, strict=True)):
        if not (side == 0 and is_sparse) and parts[0].shape[-1] <= largest:
            counts = Counter(map(id, parts))  # several outputs' gradients have the same inputs
            tensors = {id(values): values for values in parts}.items()
            factor = torch.cat([counts[key] ** 0.5 * t.flatten(0, 1) for key, t in tensors])
            sides[side] = (factor.T @ factor).double()
    return sides[0], sides[1]


# The map from the gradient by a layer's output to one use of its weights, for a fixed input.
ToUse = Callable[[Tensor], Use]
# (layer, input x, b samples, whether its bias trains) → that map. The weights are a matrix; a bias
# that trains is one more column.
Kind = Callable[[nn.Module, Tensor, int, bool], ToUse]


def is_transposed(layer: nn.Module) -> bool:
    """Return whether the weight is [n_in, n_out], as in transformers' Conv1D of GPT-2."""
    return type(layer).__name__ == "Conv1D" and hasattr(layer, "nf")


def gradient_rule(layer: nn.Module) -> Kind | None:
    """Return the function that turns output gradients into uses; None for unknown layers."""
    if is_transposed(layer):
        return _use_transposed_dense
    if type(layer).__name__.endswith(("RMSNorm", "T5LayerNorm")):
        shapes = [(n, p.ndim) for n, p in layer.named_parameters()]
        if shapes != [("weight", 1)]:
            return None
        return _use_rms_norm
    return KINDS.get(type(layer))


def _by_sample(values: Tensor, b: int) -> Tensor:
    """Reshape to [b, places, size] a tensor whose first axis counts samples or their parts."""
    return values.reshape(b, -1, values.shape[-1])


def _use_dense(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map to factors: output gradients by rows, inputs by columns."""
    inputs = append_ones(_by_sample(x, b), trains_bias)
    return lambda gradient: Factors(_by_sample(gradient, b), inputs)


def _use_transposed_dense(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map to factors of a weight [n_in, n_out], whose bias is one more row."""
    inputs = append_ones(_by_sample(x, b), trains_bias)
    return lambda gradient: Factors(inputs, _by_sample(gradient, b))


def _use_convolution(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map from output gradients to a convolution's factors (groups: gradients)."""
    assert isinstance(layer, nn.Conv2d | nn.Conv1d)
    if x.ndim != layer.weight.ndim:
        raise ValueError("a convolution's input must have a first axis of samples")

    def to_use(gradient: Tensor) -> Use:
        convolution = Convolution(layer, trains_bias, gradient.shape[2:])
        by_place = gradient.flatten(2).mT
        if layer.groups == 1:
            return Factors(by_place, x, convolution)
        return convolution.gradients(x, by_place, len(x))

    return to_use


def _use_embedding(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map from output gradients to factors: rows looked up, gradients there."""
    assert isinstance(layer, nn.Embedding)
    ids = x.reshape(b, -1)

    def to_factors(gradient: Tensor) -> Use:
        columns = _by_sample(gradient, b)
        if layer.padding_idx is not None:  # this row does not train
            columns = columns * (ids != layer.padding_idx)[..., None]
        return Factors(ids, columns)

    return to_factors


def _use_layer_norm(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map from output gradients to gradients by the layer norm's weights."""
    assert isinstance(layer, nn.LayerNorm)
    size = layer.weight.numel()
    normed = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps).reshape(b, -1, size)
    return lambda gradient: _scale_gradients(normed, gradient.reshape(b, -1, size), trains_bias)


def _use_rms_norm(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map from output gradients to an RMS norm's gradients, of any library."""
    # The norm is affine in its weight, so the difference is its derivative, the normalised input.
    weight = cast("Tensor", layer.weight)
    with torch.no_grad():
        at_zero = torch.func.functional_call(layer, {"weight": torch.zeros_like(weight)}, x)
        at_one = torch.func.functional_call(layer, {"weight": torch.ones_like(weight)}, x)
    normalised = _by_sample(at_one - at_zero, b)
    return lambda gradient: _scale_gradients(normalised, _by_sample(gradient, b), trains_bias)


def _use_batch_norm(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    """Return the map from output gradients to a batch norm's gradients (fixed statistics)."""
    assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    normalised = functional.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
    return _scale_channels(normalised, trains_bias)


def _use_group_norm(layer: nn.Module, x: Tensor, b: int, trains_bias: bool) -> ToUse:
    assert isinstance(layer, nn.GroupNorm)
    return _scale_channels(functional.group_norm(x, layer.num_groups, eps=layer.eps), trains_bias)


def _scale_channels(normalised: Tensor, trains_bias: bool) -> ToUse:
    """Return the map to gradients of a scale per channel, for normalised inputs [b, c, ...]."""
    normalised = _move_channels_last(normalised)
    return lambda gradient: _scale_gradients(normalised, _move_channels_last(gradient), trains_bias)


def _move_channels_last(values: Tensor) -> Float[Tensor, "b places channels"]:
    """Return values as [b, places, channels]."""
    if values.ndim > 2:
        return values.flatten(2).mT
    return values[:, None]


def _scale_gradients(normalised: Tensor, gradient: Tensor, trains_bias: bool) -> Use:
    """Return gradients of z = w ∘ x + b, [b, size, 1 or 2], by w and, where it trains, b."""
    by_weight = (normalised * gradient).sum(1)
    if trains_bias:
        return torch.stack([by_weight, gradient.sum(1)], 2)
    return by_weight[..., None]


KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: _use_dense,
    nn.modules.linear.NonDynamicallyQuantizableLinear: _use_dense,
    nn.Conv1d: _use_convolution,
    nn.Conv2d: _use_convolution,
    nn.Embedding: _use_embedding,
    nn.LayerNorm: _use_layer_norm,
    nn.BatchNorm1d: _use_batch_norm,
    nn.BatchNorm2d: _use_batch_norm,
    nn.GroupNorm: _use_group_norm,
}
