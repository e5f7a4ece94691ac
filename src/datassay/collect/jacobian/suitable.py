"""Make a user's network suitable for torch.func: remove wrappers, or refuse with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from datassay.errors import ModelError

M = TypeVar("M", bound=nn.Module)

# Outputs of samples together and alone differ by less than this share where nothing mixes them.
APART = 1e-3
# Rows of probabilities sum to 1 up to this.
ROUNDING = 1e-4
# What the forward code of somebody's network raises on inputs it does not take.
FORWARD_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)


def unwrapped(model: M) -> M:
    """The network itself, where torch.compile or a data-parallel wrapper was put around it.

    Args:
        model: the network, wrapped or not.

    Returns:
        What is inside, the same weights.

    Raises:
        ModelError: it is no torch module or a TorchScript one, or a lazy layer has no weights yet.
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
        if is_lazy(tensor):
            raise ModelError(
                f"the model must have its weights; {name!r} of a lazy layer has none yet. Call the "
                "model once on a batch, then pass it."
            )
    return model


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention as products of tensors, as long as this lasts.

    torch's fused kernels know neither many networks or samples at once nor forward derivatives.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def vectorized(task: str) -> Iterator[None]:
    """Run the network under torch.func; name the problem where a layer cannot.

    Args:
        task: what torch.func is to do, such as "run for many networks at once".

    Raises:
        ModelError: a layer cannot.
    """
    try:
        with plain_attention():
            yield
    except FORWARD_ERRORS as error:
        raise ModelError(
            f"every layer must be one that torch.func can {task}; got {first_line(error)} Replace "
            "it by operations on whole tensors, out of place."
        ) from error


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
    try:
        output = model(x.clone())
    except FORWARD_ERRORS as error:
        raise ModelError(
            f"the model must accept samples of shape {list(x.shape[1:])}; it raised: "
            f"{first_line(error)} Reshape the samples, or change the model's first layer."
        ) from error
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 1:
        got = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ModelError(
            f"the model's output must be [n, k], one row a sample; got {got} for one sample. "
            "Wrap the model so that it returns a matrix."
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
    with torch.no_grad():
        alone = torch.cat([one_output(model, x[i : i + 1]) for i in range(len(x))])
        try:
            together = model(x.clone())
        except FORWARD_ERRORS:  # it takes one sample at a time, which is all that is asked of it
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


def first_line(error: Exception) -> str:
    """An error in one line.

    Args:
        error: of torch, or of somebody's network.

    Returns:
        Its type and the first line of what it says, as a sentence.
    """
    text = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {text[0].rstrip('.')}."
