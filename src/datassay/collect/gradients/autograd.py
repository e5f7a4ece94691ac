"""Values of a batch, and their gradients by plain autograd: what every other way must give."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.batches import failure_message, to_model
from datassay.collect.gradients.blocks import Block, as_matrix
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import keep_activations
from datassay.errors import ModelError
from datassay.models.user_code import user_code

# From the model and a batch to numbers, one or several a sample: [b, ...].
Values = Callable[[nn.Module, Any], Tensor]
# Beside the largest layer's gradients those of a layer below this share are rounding.
NEGLIGIBLE = 1e-5
# Gradients smaller in float64 than in float32 by this factor are rounding.
ROUNDING_APART = 1e-3
# Perturbed weights at which the two precisions are compared.
N_PERTURBED = 3


@contextmanager
def require_gradients(tensors: Sequence[Tensor], *, required: bool = True) -> Iterator[None]:
    """Set requires_grad of tensors inside the context; restore it at the end."""
    before = [tensor.requires_grad for tensor in tensors]
    for tensor in tensors:
        tensor.requires_grad_(required)
    try:
        yield
    finally:
        for tensor, was_required in zip(tensors, before, strict=True):
            tensor.requires_grad_(was_required)


def _perturb_weights(model: nn.Module, seed: int) -> None:
    """Change each weight by up to a tenth, alike in every precision."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight *= (1 + 0.1 * torch.rand(weight.shape, generator=generator)).to(weight)


def sum_gradients(
    model: nn.Module, blocks: list[Block], batch: Any, values: Values, weight: Tensor | float = 1.0
) -> dict[str, Tensor]:
    """Return {block: gradient matrix} of Σ weight · value over a batch, by autograd."""
    parameters = dict(model.named_parameters())
    tensors = [parameters[p] for block in blocks for p in block.parameters]
    with require_gradients(tensors), torch.enable_grad(), keep_activations():
        slopes = slopes_of((values(model, batch) * weight).sum(), tensors)
    by_tensor = iter(slopes)
    return {b.name: as_matrix(b, [next(by_tensor) for _ in b.parameters]) for b in blocks}


def evaluate(model: nn.Module, batch: Any, values: Values) -> Tensor:
    """Compute a batch's values; raise ModelError in one line where the user's code fails."""
    with user_code(partial(failure_message, model, batch)), keep_activations():
        return values(model, batch)


def slopes_of(value: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return a scalar's dense gradient by each tensor; zeros where it does not depend."""
    if not value.requires_grad:
        return [torch.zeros_like(tensor) for tensor in tensors]
    slopes = torch.autograd.grad(value, tensors, allow_unused=True, materialize_grads=True)
    return [slope.to_dense() if slope.is_sparse else slope for slope in slopes]


def find_flat(model: nn.Module, blocks: list[Block], probe: Any, values: Values) -> set[str]:
    """Return names of direct blocks whose gradient is 0 except for rounding."""
    # So do those by a bias before a normalisation. Over a curvature that is rounding too, they
    # would give effects of any size.
    direct = [block for block in blocks if not block.layers]
    if not direct:
        return set()
    truth = sum_gradients(model, blocks, probe, values)
    largest = max(float(slope.norm()) for slope in truth.values())
    dtype = next(p for p in model.parameters() if p.is_floating_point()).dtype
    share = NEGLIGIBLE
    if dtype == torch.float64:
        share = NEGLIGIBLE**2
    small = [b for b in direct if float(truth[b.name].norm()) < share * largest]
    if small:
        small = _find_reached(model, small, probe, values)
    if not small:
        return set()
    sizes = {dtype: torch.zeros(len(small)).double() for dtype in (torch.float64, torch.float32)}
    for dtype in sizes:
        copied = frozen_copy(model, dtype)
        for seed in range(N_PERTURBED):  # at other weights, for rounding may happen to be 0
            _perturb_weights(copied, seed)
            batch = to_model(probe, copied)
            try:
                slopes = sum_gradients(copied, small, batch, values).values()
            except (ModelError, RuntimeError):  # it takes one precision alone
                return set()
            sizes[dtype] += torch.stack([slope.norm().double().cpu() for slope in slopes])
    is_flat = sizes[torch.float64] < ROUNDING_APART * sizes[torch.float32]
    return {block.name for block, flat in zip(small, is_flat.tolist(), strict=True) if flat}


def _find_reached(model: nn.Module, blocks: list[Block], batch: Any, values: Values) -> list[Block]:
    """Return the blocks (single tensors) that the values depend on."""
    parameters = dict(model.named_parameters())
    tensors = [parameters[block.parameters[0]] for block in blocks]
    with require_gradients(tensors), torch.enable_grad(), keep_activations():
        value = values(model, batch).sum()
        if not value.requires_grad:
            return []
        slopes = torch.autograd.grad(value, tensors, allow_unused=True)
    return [block for block, slope in zip(blocks, slopes, strict=True) if slope is not None]
