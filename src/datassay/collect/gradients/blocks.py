"""The weights by which gradients are taken, in blocks by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.layers import gradient_rule, is_transposed
from datassay.errors import ModelError, SettingError


@dataclass(frozen=True, slots=True)
class Block:
    """Weights whose gradients are one matrix per sample."""

    name: str  # of the layer, or of the tensor
    shape: tuple[int, int]  # rows and columns of the gradients
    parameters: tuple[str, ...]  # a weight and, as the last column (transposed: row), its bias
    layers: tuple[str, ...] = ()  # that use them; empty where they are differentiated directly
    is_transposed: bool = False  # whether the weight is [n_in, n_out]

    @property
    def size(self) -> int:
        """The number of weights."""
        return prod(self.shape)

    @property
    def has_bias(self) -> bool:
        """Whether the bias trains with the weight."""
        return bool(self.layers) and len(self.parameters) == 2


def chosen_parameters(
    model: nn.Module, pattern: str | Sequence[str] | None
) -> dict[str, nn.Parameter]:
    """Return {name: parameter} of all that train, or whose names match a pattern."""
    parameters = dict(model.named_parameters())
    if pattern is None:
        results = {n: p for n, p in parameters.items() if p.requires_grad}
        if not results:
            raise ModelError(
                "the model must have a trainable parameter; every one is frozen, or there is none. "
                "Set requires_grad on those to attribute to, or name them: parameters='classifier'."
            )
        return results
    if isinstance(pattern, str):
        patterns = [pattern]
    else:
        patterns = list(pattern)
    globs = [p if set(p) & set("*?[") else f"*{escape(p)}*" for p in patterns]
    results = {n: p for n, p in parameters.items() if any(fnmatchcase(n, g) for g in globs)}
    if not results:
        raise SettingError(
            f"parameters must be part of a parameter's name; none has {pattern!r}. The model has "
            f"{', '.join(list(parameters)[:3])}, ... ({len(parameters)} in all)."
        )
    return results


def blocks_of(
    model: nn.Module, tensors: dict[str, nn.Parameter], direct: frozenset[str] = frozenset()
) -> list[Block]:
    """Return one block per layer of a known kind, and per remaining tensor, in order."""
    # Tensors in `direct` get blocks of their own.
    names = {id(p): n for n, p in tensors.items()}
    layers_of: dict[str, list[str]] = {}  # weight → the layers that use it
    for path, layer in model.named_modules():
        tensor_names = {n: names.get(id(p)) for n, p in layer.named_parameters(recurse=False)}
        weight = tensor_names.get("weight")
        if gradient_rule(layer) and weight and weight not in direct:
            layers_of.setdefault(weight, []).append(path)
    results = []
    for weight, layers in layers_of.items():
        results.append(_make_layer_block(model, tensors, names, weight, layers, direct))
    covered = {p for block in results for p in block.parameters}
    for name, tensor in tensors.items():
        if name not in covered:
            shape = [s for s in tensor.shape if s > 1] or [1]
            results.append(Block(name, (shape[0], prod(shape[1:])), (name,)))
    order = {n: i for i, n in enumerate(tensors)}
    return sorted(results, key=lambda block: order[block.parameters[0]])


def _make_layer_block(model, tensors, names, weight, layers, direct) -> Block:
    """Return the block of a layer's weight, with its bias as one more column (or row)."""
    # `names` are the tensors' names by id, `layers` the layers that use the weight.
    layer = model.get_submodule(layers[0])
    bias = names.get(id(getattr(layer, "bias", None)))
    # A bias beside a weight that layers share would be a column of one of them alone.
    has_bias = bias is not None and bias not in direct and len(layers) == 1
    rows = len(tensors[weight])
    if isinstance(layer, nn.LayerNorm):
        rows = tensors[weight].numel()
    columns = tensors[weight].numel() // rows
    transposed = is_transposed(layer)
    parameters = (weight,)
    if bias is not None and has_bias:
        parameters = (weight, bias)
        if transposed:
            rows += 1
        else:
            columns += 1
    name = layers[0] or weight
    return Block(name, (rows, columns), parameters, tuple(layers), transposed)


def as_matrix(block: Block, tensors: list[Tensor]) -> Float[Tensor, "rows columns"]:
    """Return a block's tensors as one matrix: the bias is the weight's last column (or row)."""
    weight = tensors[0]
    if not block.has_bias:
        return weight.reshape(block.shape)
    if block.is_transposed:
        return torch.cat([weight, tensors[1][None]])
    return torch.cat([weight.reshape(block.shape[0], -1), tensors[1].reshape(block.shape[0], 1)], 1)


def as_tensors(
    block: Block, matrices: Float[Tensor, "m rows columns"], shapes: Sequence[torch.Size]
) -> list[Tensor]:
    """Return a block's matrices [m, rows, columns] as tensors; the inverse of `as_matrix`."""
    m = len(matrices)
    if not block.has_bias:
        return [matrices.reshape(m, *shapes[0])]
    if block.is_transposed:
        return [matrices[:, :-1].reshape(m, *shapes[0]), matrices[:, -1].reshape(m, *shapes[1])]
    weight = matrices[..., :-1]
    bias = matrices[..., -1]
    return [weight.reshape(m, *shapes[0]), bias.reshape(m, *shapes[1])]
