"""Make a user's network suitable for torch.func: remove wrappers, or refuse with the reason."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from datassay.errors import ModelError
from datassay.models.user_code import user_code

M = TypeVar("M", bound=nn.Module)

# Outputs of samples together and alone differ by less than this share where nothing mixes them.
APART = 1e-3
# Rows of probabilities sum to 1 up to this.
ROUNDING = 1e-4


def unwrapped(model: M) -> M:
    """The network itself, where torch.compile or a data-parallel wrapper was put around it.

    Args:
        model: the network, wrapped or not.

    Returns:
        What is inside, the same weights.

    Raises:
        ModelError: it is no torch module or a TorchScript one, a lazy layer has no weights yet, a
            tensor is on the meta device, sparse, complex or quantized, or batch norm keeps no
            running statistics.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model must be a torch.nn.Module; got a {type(model).__name__}. Write it as one: "
            "logistic regression is nn.Linear(n_features, n_classes) with its coef_ and intercept_."
        )
    model = cast("M", getattr(model, "_orig_mod", model))
    if isinstance(model, nn.DataParallel | DistributedDataParallel):
        model = cast("M", model.module)
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            "the model must be a Python module; got a TorchScript one, which torch.func cannot "
            "vectorise. Pass the module that it was made from."
        )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        _check_tensor(name, tensor)
    for name, module in model.named_modules():
        _check_statistics(name, module)
    return model


def _check_statistics(name: str, module: nn.Module) -> None:
    if isinstance(module, _BatchNorm) and module.running_mean is None:
        raise ModelError(
            f"batch norm must keep running statistics; {name!r} does not, so each output would "
            "depend on the batch. Build it with track_running_stats=True and train it or run it "
            "over the data once in training mode, or use nn.GroupNorm or nn.LayerNorm."
        )


def _check_tensor(name: str, tensor: Tensor) -> None:
    if is_lazy(tensor):
        raise ModelError(
            f"the model must have its weights; {name!r} of a lazy layer has none yet. Call the "
            "model once on a batch, then pass it."
        )
    if tensor.is_meta:
        raise ModelError(
            f"the model must have its weights; {name!r} is on the meta device, without values. "
            "Build it on the processor, or load its weights."
        )
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
        raise ModelError(
            f"the model's tensors must be dense and real; {name!r} is {tensor.dtype}, "
            f"{tensor.layout}. Convert it: copies in another precision would drop a part of it."
        )


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention as products of tensors, as long as this lasts.

    torch's fused kernels know neither many networks or samples at once nor forward derivatives.
    Transformers' masks are made whole, also where nothing is masked: whether that is so would have
    to be read from values, which one sample of many at once has not.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), _whole_masks():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def _whole_masks() -> Iterator[None]:
    masking = sys.modules.get("transformers.masking_utils")  # loaded by a network that needs it
    masks = getattr(masking, "ALL_MASK_ATTENTION_FUNCTIONS", {})
    before = {name: masks[name] for name in ("sdpa", "eager") if name in masks}
    masks.update({name: partial(_whole_mask, mask) for name, mask in before.items()})
    try:
        yield
    finally:
        masks.update(before)


def _whole_mask(mask: Callable[..., object], *given: object, **settings: object) -> object:
    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return mask(*given, **(settings | skips))


@contextmanager
def vectorized(task: str) -> Iterator[None]:
    """Run the network under torch.func; name the problem where a layer cannot.

    Args:
        task: what torch.func is to do, such as "run for many networks at once".

    Raises:
        ModelError: a layer cannot.
    """
    with (
        user_code(
            lambda error: (
                f"every layer must be one that torch.func can {task}; got {error} Replace it by "
                "operations on whole tensors, out of place."
            )
        ),
        plain_attention(),
    ):
        yield


def one_output(model: nn.Module, x: Tensor) -> Tensor:
    """The network's output for one sample.

    Args:
        model: the network.
        x: [1, ...], in its precision.

    Returns:
        [1, k].

    Raises:
        ModelError: it fails on the sample, or its output is not [n, k].
    """
    with user_code(partial(_refused, x)):
        return _matrix(model(x.clone()))


def _refused(x: Tensor, error: str) -> str:
    return (
        f"the model must accept samples of shape {list(x.shape[1:])}; it raised: {error} Reshape "
        "the samples, or change the model's first layer."
    )


def _matrix(output: object) -> Tensor:
    """The output for one sample, checked."""
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 1:
        got = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ModelError(
            f"the model's output must be [n, k], one row a sample; got {got} for one sample. "
            "Wrap the model so that it returns a matrix."
        )
    if not output.is_floating_point() or output.layout != torch.strided:
        raise ModelError(
            "the model's output must be a dense matrix of floating-point numbers; got "
            f"{output.dtype}, {output.layout}. Convert it, or take what decides out of the model: "
            "scores need outputs, not decisions."
        )
    return output


def check_apart(model: nn.Module, x: Tensor) -> None:
    """Refuse a network whose output for a sample depends on the other samples of the batch.

    Args:
        model: the network, in evaluation mode.
        x: [few, ...], in its precision.

    Raises:
        ModelError: outputs of these samples together are not those of each alone.
    """
    # In one block: its end puts the generator back, and noise would look like none.
    with user_code(partial(_refused, x)), torch.no_grad():
        alone = torch.cat([_matrix(model(x[i : i + 1].clone())) for i in range(len(x))])
        try:
            with user_code(str):
                together = model(x.clone())
        except ModelError:  # it takes one sample at a time, which is all that is asked of it
            return
    if together.shape == alone.shape:
        change = float((together - alone).abs().max() / alone.abs().max().clamp_min(1e-30))
        if change <= APART or not math.isfinite(change):  # non-finite outputs are refused elsewhere
            return
        message = f"outputs of {len(x)} samples together differ by {change:.1%} from those of each"
    else:
        message = f"{len(x)} samples give outputs {list(together.shape)}"
    raise ModelError(
        f"each sample's output must depend on that sample alone; {message}. Take out what mixes "
        "the batch or draws at random: statistics over the batch, attention across samples, noise."
    )


def probability_warning(outputs: Tensor, is_classification: bool) -> tuple[str, ...]:
    """Warn where a classifier returns probabilities: scores expect logits.

    Args:
        outputs: f₀, [n, k].
        is_classification: whether the targets are classes.

    Returns:
        One warning, or none.
    """
    if not is_classification or outputs.shape[1] < 2 or outputs.min() < 0:
        return ()
    if (outputs.sum(1) - 1).abs().max() > ROUNDING:
        return ()
    return (
        "the network's outputs are probabilities, each row sums to 1: scores are of squared "
        "errors of these, and cross-entropy takes them for logits. Take the softmax out of it.",
    )
