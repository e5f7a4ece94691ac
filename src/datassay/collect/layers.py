"""Layers: which weights they have, and how gradients by these come from input and output.

`Layers` says how a network's Jacobian is collected, by factors where a layer allows it. A kind of
layer turns its input and its output's gradient into gradients by its weights: a new kind is one
function and one line in `KINDS`; weights of other layers are differentiated directly, which is
slower.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


def parameter_name(module: str, parameter: str) -> str:
    """Return the name of a layer's parameter in the whole model."""
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
        integers: whether the network takes whole numbers as integers.
        unvectorized: why samples are differentiated one at a time; empty where together.
    """

    dense: dict[str, tuple[int, int, bool]]
    direct: dict[str, int]
    n_outputs: int
    convolutions: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    last_layer: str = ""
    integers: bool = False
    unvectorized: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Entries of each collected tensor; a dense layer has "name.weight" and "name.bias"."""
        sizes = dict(self.direct)
        for name, (n_in, n_out, bias) in self.dense.items():
            sizes |= {f"{name}.weight": n_in * n_out} | ({f"{name}.bias": n_out} if bias else {})
        return sizes

    @property
    def n_parameters(self) -> int:
        """Trained parameters in all."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Factors:
    """Gradients Σ_t left_t ⊗ right_t, over the places t where a sample uses the weights."""

    # [b, places]: the one row that is 1 (a token id).
    lhs: Float[Tensor, "b places rows"] | Int[Tensor, "b places"]
    rhs: Float[Tensor, "b places columns"]

    @property
    def is_sparse(self) -> bool:
        """Whether the left factors are single rows, by number."""
        return not self.lhs.is_floating_point()


# One use of the weights in a forward pass: its factors, or its gradients, [b, rows, columns].
Use = Factors | Float[Tensor, "_ _ _"]


def tensors_of(use: Use) -> list[Tensor]:
    """Return the tensors that a use consists of."""
    if isinstance(use, Factors):
        return [use.lhs, use.rhs]
    return [use]


def matrix(uses: list[Use], rows: int) -> Float[Tensor, "b rows columns"]:
    """Compute the gradients, [b, rows, columns], summed over all uses of the weights."""
    total = _to_matrix(uses[0], rows)
    for use in uses[1:]:
        total = total + _to_matrix(use, rows)
    return total


def unfold(use: Use, size: int) -> Use:
    """Return a use by samples where a network folds their parts, such as frames, into one axis."""
    if isinstance(use, Factors):
        if len(use.rhs) == size:
            return use
        pair = (t.unflatten(0, (size, -1)).flatten(1, 2) for t in (use.lhs, use.rhs))
        return Factors(*pair)
    if len(use) == size:
        return use
    return use.unflatten(0, (size, -1)).sum(1)


def weighted_sum(
    uses: list[Use], weights: Float[Tensor, " b"], rows: int
) -> Float[Tensor, "rows columns"]:
    """Sum the gradients over samples, each times a weight, without forming those of a sample."""
    total: Tensor | float = 0.0
    for use in uses:
        if not isinstance(use, Factors):
            total = total + torch.tensordot(weights.to(use), use, 1)
            continue
        weighted_columns = (use.rhs * weights.to(use.rhs)[:, None, None]).flatten(0, 1)
        if use.is_sparse:
            into = weighted_columns.new_zeros(rows, weighted_columns.shape[1])
            total = total + into.index_add_(0, use.lhs.flatten(), weighted_columns)
        else:
            total = total + use.lhs.flatten(0, 1).T @ weighted_columns
    assert isinstance(total, Tensor)
    return total


def join_samples(uses_of: Sequence[list[Use]], rows: int) -> list[Use]:
    """Join the uses of single samples to those of a batch; places that a sample lacks are 0."""
    example = next(uses[0] for uses in uses_of if uses)
    factors = [[use for use in uses if isinstance(use, Factors)] for uses in uses_of]
    if not isinstance(example, Factors) or list(map(len, factors)) != list(map(len, uses_of)):
        zeros = torch.zeros_like(matrix([example], rows))
        return [torch.cat([matrix(uses, rows) if uses else zeros for uses in uses_of])]
    unused = Factors(example.lhs[:, :0], example.rhs[:, :0])
    lefts = [torch.cat([use.lhs[0] for use in uses or [unused]]) for uses in factors]
    rights = [torch.cat([use.rhs[0] for use in uses or [unused]]) for uses in factors]
    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return [Factors(pad(lefts), pad(rights))]


def used_rows(uses: list[Use]) -> Int[Tensor, " r"] | None:
    """Return the rows of the weights that the batch uses, in order; None where it may use all."""
    ids = [use.lhs.flatten() for use in uses if isinstance(use, Factors) and use.is_sparse]
    if len(ids) != len(uses):
        return None
    return torch.cat(ids).unique()


def restrict(uses: list[Use], rows: Int[Tensor, " r"]) -> list[Use]:
    """Map the rows of sparse uses to positions in a selection, as `used_rows` returns it."""
    return [
        Factors(torch.searchsorted(rows, use.lhs), use.rhs)
        for use in uses
        if isinstance(use, Factors)
    ]


def rotate(
    uses: list[Use],
    row_basis: Float[Tensor, "rows rows"] | None,
    column_basis: Float[Tensor, "c c"] | None,
) -> list[Use]:
    """Return gradients in another basis, leftᵀ G right, in the form that costs fewer operations."""
    return [_rotate_use(use, row_basis, column_basis) for use in uses]


def _rotate_use(use: Use, row_basis: Tensor | None, column_basis: Tensor | None) -> Use:
    """Return leftᵀ G right of one use, as factors if these cost fewer operations."""
    if isinstance(use, Factors):
        positions = use.rhs.shape[1]
        n_left = 0 if row_basis is None else len(row_basis)
        n_right = 0 if column_basis is None else len(column_basis)
        n_both = n_left * n_right
        if use.is_sparse or positions * (n_left**2 + n_right**2) <= n_both * (n_left + n_right):
            if row_basis is None or use.is_sparse:
                a = use.lhs
            else:
                a = use.lhs @ row_basis
            return Factors(a, use.rhs if column_basis is None else use.rhs @ column_basis)
        use = _to_matrix(use, use.lhs.shape[-1])
    dense = use if row_basis is None else row_basis.T @ use
    if column_basis is None:
        return dense
    return dense @ column_basis


def _to_matrix(use: Use, rows: int) -> Tensor:
    if not isinstance(use, Factors):
        return use
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
    """Sum left leftᵀ and right rightᵀ over samples and places: Kronecker factors."""
    # Returns [rows, rows] and [columns, columns] in float64, Σ G Gᵀ and Σ Gᵀ G of gradients G that
    # are no factors. None where a side is larger than `largest`, or left factors are single rows.
    sides: list[Tensor | None] = [None, None]
    sparse = any(isinstance(use, Factors) and use.is_sparse for use in uses)
    pairs = [(u.lhs, u.rhs) if isinstance(u, Factors) else (u.mT, u) for u in uses]
    for side, parts in enumerate(zip(*pairs, strict=True)):
        if not (side == 0 and sparse) and parts[0].shape[-1] <= largest:
            factor = torch.cat([rows.flatten(0, 1) for rows in parts])
            sides[side] = (factor.T @ factor).double()
    return sides[0], sides[1]


# From its output's gradient to one use of a layer's weights, whose input is fixed.
Given = Callable[[Tensor], Use]
# From the layer, its input, the number of samples and whether its bias trains. The weights are a
# matrix: a column more for the bias.
Kind = Callable[[nn.Module, Tensor, int, bool], Given]


def is_transposed(layer: nn.Module) -> bool:
    """Return whether the weight is [n_in, n_out], as in transformers' Conv1D of GPT-2."""
    return type(layer).__name__ == "Conv1D" and hasattr(layer, "nf")


def kind_of(layer: nn.Module) -> Kind | None:
    """Return the function that gives gradients by a layer's weights; None where none is known."""
    if is_transposed(layer):
        return _transposed_dense
    if type(layer).__name__.endswith(("RMSNorm", "T5LayerNorm")):
        shapes = [(n, p.ndim) for n, p in layer.named_parameters()]
        if shapes != [("weight", 1)]:
            return None
        return _root_mean_square
    return KINDS.get(type(layer))


def _by_sample(values: Tensor, b: int) -> Tensor:
    """Reshape to [b, places, size] a tensor whose first axis counts samples or their parts."""
    return values.reshape(b, -1, values.shape[-1])


def _append_bias(inputs: Tensor, bias: bool) -> Tensor:
    if bias:
        return functional.pad(inputs, (0, 1), value=1.0)
    return inputs


def _dense(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    inputs = _append_bias(_by_sample(x, b), bias)
    return lambda gradient: Factors(_by_sample(gradient, b), inputs)


def _transposed_dense(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    """Return the map from output gradients to factors, for a weight [n_in, n_out] and its bias."""
    inputs = _append_bias(_by_sample(x, b), bias)
    return lambda gradient: Factors(inputs, _by_sample(gradient, b))


def _convolution(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    """Return the map to factors, patches as a dense layer's inputs; with groups, to gradients."""
    assert isinstance(layer, nn.Conv2d | nn.Conv1d)
    windows = patches(layer, x)  # [b, channels · kernel, places], of frames [b · frames, ...]
    b = len(windows)
    if layer.groups == 1:
        inputs = _append_bias(windows.mT, bias)
        return lambda gradient: Factors(gradient.reshape(b, gradient.shape[1], -1).mT, inputs)
    split = windows.reshape(b, layer.groups, -1, windows.shape[-1])

    def to_gradients(gradient: Tensor) -> Use:
        gradient = gradient.reshape(b, gradient.shape[1], -1)
        products = gradient.reshape(b, len(split[0]), -1, gradient.shape[-1]) @ split.mT
        result = products.flatten(1, 2)
        if bias:
            return torch.cat([result, gradient.sum(2)[..., None]], 2)
        return result

    return to_gradients


def patches(layer: nn.Conv2d | nn.Conv1d, x: Tensor) -> Float[Tensor, "b size places"]:
    """Return what a convolution's kernel sees at each place: channels · kernel, in weight order."""
    sizes = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if isinstance(layer.padding, str):
        spread = [d * (k - 1) for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
        if layer.padding == "valid":
            ends = [0] * len(spread)
        else:
            ends = [s // 2 for s in spread]
        extra = [
            s - 2 * e if layer.padding == "same" else 0 for s, e in zip(spread, ends, strict=True)
        ]
        x = functional.pad(x, [v for added in reversed(extra) for v in (0, added)])
        sizes[2] = tuple(ends)
    if layer.padding_mode != "zeros":
        widths = [v for size in reversed(cast("tuple", sizes[2])) for v in (size, size)]
        x = functional.pad(x, widths, layer.padding_mode)
        sizes[2] = (0,) * len(layer.kernel_size)
    if isinstance(layer, nn.Conv1d):  # unfold knows two axes
        x = x[:, :, None]
        row_axis = (1, 1, 0, 1)
        sizes = [(axis, *size) for axis, size in zip(row_axis, sizes, strict=True)]
    kernel, dilation, padding, stride = (cast("tuple", size) for size in sizes)
    return functional.unfold(x, kernel, dilation, padding, stride)


def _embedding(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    assert isinstance(layer, nn.Embedding)
    ids = x.reshape(b, -1)
    # The row of padding does not train.
    trains = None
    if layer.padding_idx is not None:
        trains = (ids != layer.padding_idx)[..., None]

    def use(gradient: Tensor) -> Use:
        columns = _by_sample(gradient, b)
        return Factors(ids, columns if trains is None else columns * trains)

    return use


def _layer_norm(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    assert isinstance(layer, nn.LayerNorm)
    size = layer.weight.numel()
    normed = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps).reshape(b, -1, size)
    return lambda gradient: _scale(normed, gradient.reshape(b, -1, size), bias)


def _root_mean_square(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    """Return the map to gradients for any library's RMS norm: affine in its weight."""
    weight = cast("Tensor", layer.weight)
    with torch.no_grad():
        at_zero, at_one = (
            torch.func.functional_call(layer, {"weight": weight * 0 + v}, x) for v in (0, 1)
        )
    normalised = _by_sample(at_one - at_zero, b)
    return lambda gradient: _scale(normalised, _by_sample(gradient, b), bias)


def _batch_norm(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    normalised = functional.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
    return _scale_channels(normalised, bias)


def _group_norm(layer: nn.Module, x: Tensor, b: int, bias: bool) -> Given:
    assert isinstance(layer, nn.GroupNorm)
    return _scale_channels(functional.group_norm(x, layer.num_groups, eps=layer.eps), bias)


def _scale_channels(normalised: Tensor, bias: bool) -> Given:
    normalised = _channels_last(normalised)
    return lambda gradient: _scale(normalised, _channels_last(gradient), bias)


def _channels_last(values: Tensor) -> Tensor:
    if values.ndim > 2:
        return values.flatten(2).mT
    return values[:, None]


def _scale(normalised: Tensor, gradient: Tensor, bias: bool) -> Use:
    """Return gradients of z = w ∘ x + b, [b, size, 1 or 2], by w and, where it trains, b."""
    by_weight = (normalised * gradient).sum(1)
    if bias:
        return torch.stack([by_weight, gradient.sum(1)], 2)
    return by_weight[..., None]


KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: _dense,
    nn.modules.linear.NonDynamicallyQuantizableLinear: _dense,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
}
