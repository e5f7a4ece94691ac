"""Checks of a user's network for torch.func: wrappers are removed, unsuitable ones refused."""

import copy
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils import checkpoint

from datassay.errors import ModelError
from datassay.models.user_code import user_code

# Whose parts alone may be shared.
CONTAINERS = (dict, list, tuple, nn.Module)
M = TypeVar("M", bound=nn.Module)

# Outputs of samples together and alone differ by less than this share where nothing mixes them.
APART = 1e-3
# Rows of probabilities sum to 1 up to this.
ROUNDING = 1e-4


def unwrap(model: M) -> M:
    """Return the network inside torch.compile or data-parallel wrappers; raise if unusable."""
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
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise ModelError(
                f"batch norm must keep running statistics; {name!r} does not, so each output would "
                "depend on the batch. Build it with track_running_stats=True and train it or run "
                "it over the data once in training mode, or use nn.GroupNorm or nn.LayerNorm."
            )
    return model


def copy_network(model: M) -> M:
    """Return a deep copy of a network that shares what cannot be copied, such as locks."""
    try:
        return copy.deepcopy(model)
    except Exception:  # noqa: BLE001 whatever the objects that it keeps raise
        memo: dict[int, object] = {}
        visited: set[int] = set()
        for module in reversed(list(model.modules())):
            _share_uncopyable(module, memo, visited)
    with user_code(
        lambda error: (
            f"the model must be one that can be copied; that raised {error} Let copy.deepcopy take "
            "it, or build one like it and load its state_dict there."
        )
    ):
        return copy.deepcopy(model, memo)


def keep_type(model: nn.Module, dtype: torch.dtype) -> None:
    """Set a network's weights to a type that its own code can no longer change."""
    # torch.func dies where weights that it put there change their type.
    for module in model.modules():
        vars(module).pop("_apply", None)
    model.to(dtype)
    for module in model.modules():
        module._apply = partial(_apply_if_moved, module)


def _apply_if_moved(
    module: nn.Module, change: Callable[[Tensor], Tensor], recurse: bool = True
) -> nn.Module:
    """Return the layer, changed only if `change` moves its tensors to another device."""
    tensor = next(chain(module.parameters(), module.buffers()), None)
    if tensor is None or change(tensor.new_empty(0)).device == tensor.device:
        return module
    return type(module)._apply(module, change, recurse)


def _share_uncopyable(value: object, memo: dict[int, object], visited: set[int]) -> None:
    """Add the parts of a value that deepcopy cannot copy to `memo`, so that they are shared."""
    if id(value) in visited:  # parts may hold each other
        return
    visited.add(id(value))
    if isinstance(value, Tensor):
        try:
            memo[id(value)] = value.detach()
        except RuntimeError:  # what a hook kept of a run by torch.func
            memo[id(value)] = value
        return
    contents = list(getattr(value, "__dict__", {}).values())
    if isinstance(value, dict):
        contents += value.values()
    if isinstance(value, list | tuple):
        contents += value
    for item in contents:
        if not isinstance(item, nn.Module) and not _is_copied(item, memo):
            _share_uncopyable(item, memo, visited)
    if not contents or not (isinstance(value, CONTAINERS) or _is_copied(value, memo)):
        memo[id(value)] = value


def _is_copied(value: object, memo: dict[int, object]) -> bool:
    """Return whether deepcopy can copy a value that shares the parts in `memo`."""
    try:
        copy.deepcopy(value, dict(memo))
    except Exception:  # noqa: BLE001 likewise
        return False
    return True


def _check_tensor(name: str, tensor: Tensor) -> None:
    """Raise ModelError unless a parameter or buffer has dense, real values."""
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
            f"{tensor.layout}. Give it real parameters: a complex one's real and imaginary parts, "
            "joined in forward by torch.complex, a sparse one's to_dense()."
        )


@contextmanager
def plain_attention() -> Iterator[None]:
    """Replace fused attention and compiled code by plain operations inside the block."""
    # torch's fused kernels support neither vmap nor forward derivatives. Transformers' masks are
    # made in full, also where nothing is masked: vmap cannot read from values whether it is.
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), _build_full_masks(), _skip_compiler_import():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)


@contextmanager
def keep_activations() -> Iterator[None]:
    """Run activation checkpoints as plain code inside the block, as autograd.grad needs."""
    before = checkpoint.CheckpointFunction
    stand_in: Any = SimpleNamespace(apply=lambda function, _, *inputs: function(*inputs))
    checkpoint.CheckpointFunction = stand_in
    try:
        yield
    finally:
        checkpoint.CheckpointFunction = before


@contextmanager
def _skip_compiler_import() -> Iterator[None]:
    """Keep torch.func from importing torch's compiler, which takes a second."""
    # It asks the compiler to leave the backward pass alone, which one never imported does.
    if "torch._dynamo" in sys.modules:
        yield
        return
    stand_in: Any = _NoCompiler()
    torch._dynamo = stand_in
    try:
        yield
    finally:
        if vars(torch).get("_dynamo") is stand_in:  # else it was imported in the meantime
            del torch._dynamo


class _NoCompiler:
    """A stand-in for `torch._dynamo`: any use but that of `_disable` imports it."""

    compiled_autograd = SimpleNamespace(_disable=nullcontext)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch._dynamo"), name)


@contextmanager
def _build_full_masks() -> Iterator[None]:
    """Make transformers build all attention masks in full inside the block."""
    masking = sys.modules.get("transformers.masking_utils")  # loaded by a network that needs it
    masks = getattr(masking, "ALL_MASK_ATTENTION_FUNCTIONS", {})
    before = {name: masks[name] for name in ("sdpa", "eager") if name in masks}
    masks.update({name: partial(_full_mask, mask) for name, mask in before.items()})
    try:
        yield
    finally:
        masks.update(before)


def _full_mask(mask: Callable[..., object], *arguments: object, **settings: object) -> object:
    """Call a mask function of transformers, without its leave to skip the mask."""
    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return mask(*arguments, **(settings | skips))


@contextmanager
def run_vectorized(task: str) -> Iterator[None]:
    """Run a network under torch.func inside the block; name the task where that fails."""
    with (
        user_code(
            lambda error: (
                f"every layer must be one that torch.func can {task}; got {error} Replace it by "
                "operations on whole tensors, out of place."
            )
        ),
        plain_attention(),
        keep_activations(),
    ):
        yield


def one_output(model: nn.Module, x: Tensor) -> Tensor:
    """Run the network on one sample; return its output, [1, k], checked."""
    with user_code(partial(_input_error, x)):
        return _check_matrix(model(x.clone()))


def _input_error(x: Tensor, error: str) -> str:
    return (
        f"the model must accept samples of shape {list(x.shape[1:])}; it raised: {error} Reshape "
        "the samples, or change the model's first layer."
    )


def _check_matrix(output: object) -> Tensor:
    """Return one sample's output; raise unless it is a dense float matrix [1, k]."""
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 1:
        if isinstance(output, Tensor):
            actual = list(output.shape)
        else:
            actual = type(output).__name__
        raise ModelError(
            f"the model's output must be [n, k], one row per sample; got {actual} for one sample. "
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
    """Raise ModelError if a sample's output depends on the others in its batch."""
    # Also of random outputs, as of dropout that is on. x: a few samples.
    # Both forward passes are in one block: its end restores torch's random generator, and the
    # second pass would repeat the first one's noise.
    with user_code(partial(_input_error, x)), torch.no_grad():
        separate = torch.cat([_check_matrix(model(x[i : i + 1].clone())) for i in range(len(x))])
        try:
            with user_code(str):
                joint = model(x.clone())
        except ModelError:  # it takes one sample at a time, which is enough
            return
    if joint.shape == separate.shape:
        change = float((joint - separate).abs().max() / separate.abs().max().clamp_min(1e-30))
        if change <= APART or not math.isfinite(change):  # non-finite outputs are refused elsewhere
            return
        message = f"outputs of {len(x)} samples together differ by {change:.1%} from those of each"
    else:
        message = f"{len(x)} samples give outputs {list(joint.shape)}"
    raise ModelError(
        f"each sample's output must depend on that sample alone; {message}. Take out what mixes "
        "the batch or draws at random: statistics over the batch, attention across samples, noise."
    )


def probability_warning(outputs: Tensor, is_classification: bool) -> tuple[str, ...]:
    """Return a warning if a classifier returns probabilities; scores expect logits."""
    if not is_classification or outputs.shape[1] < 2 or outputs.min() < 0:
        return ()
    if (outputs.sum(1) - 1).abs().max() > ROUNDING:
        return ()
    return (
        "the network's outputs are probabilities, each row sums to 1: scores are of squared "
        "errors of these, and cross-entropy takes them for logits. Take the softmax out of it.",
    )


# Weights that fit less than this cannot have memorised the labels.
LEAST_FIT = 0.2
# Random weights of usual size fit less than this of labels that they happen to correlate with.
NOTABLE_FIT = 0.5


def check_initial_fit(
    outputs: Float[Tensor, "n k"],
    targets: Float[Tensor, "n k"],
    val_outputs: Float[Tensor, "m k"],
    val_targets: Float[Tensor, "m k"] | None,
    *,
    is_classification: bool,
    allow_trained: bool,
) -> tuple[str, ...]:
    """Return warnings if the weights already fit; raise if they fit training labels better."""
    # METHODS §0: at weights trained on the same noisy labels the AUROC of label errors falls from
    # 0.99 to 0.78. The fit is 1 − loss / loss of a constant guess. For classes the loss is squared
    # error or cross-entropy, whichever the weights fit better: that has the outputs' scale.
    outputs = outputs.double()
    targets = targets.double()
    val_outputs = val_outputs.double()
    if is_classification:
        losses = [_relative_squared_error, _relative_cross_entropy]
    else:
        losses = [_relative_squared_error]
    relative, loss = min(
        ((loss(outputs, targets, targets), loss) for loss in losses),
        key=lambda pair: float(pair[0].mean()),
    )
    fit = 1 - float(relative.mean())
    share = f"the weights already explain {fit:.0%} of the training targets"
    note = f"{share}: held-out outputs are valid only if they were trained on other data."
    notes = ()
    if fit >= NOTABLE_FIT:
        notes = (note,)
    if fit < LEAST_FIT or val_targets is None or len(val_targets) < 2:
        return notes
    val_relative = loss(val_outputs, val_targets.double(), targets)
    gap = float(val_relative.mean() - relative.mean())
    noise = float((relative.var() / len(relative) + val_relative.var() / len(val_relative)).sqrt())
    if gap <= max(3 * noise, 0.1 * float(val_relative.mean())):
        return notes
    message = (
        f"the weights must not have seen these labels; {share} but only "
        f"{1 - float(val_relative.mean()):.0%} of the validation targets, so held-out outputs and "
        "label issues would be blind to what was memorised."
    )
    if allow_trained:
        return (message,)
    raise ModelError(
        f"{message} Start from initial weights, from weights trained on other data, or pass "
        "allow_trained=True (--allow-trained)."
    )


def _relative_squared_error(outputs: Tensor, targets: Tensor, train: Tensor) -> Float[Tensor, " n"]:
    """Return each sample's squared error over the variance of the training targets."""
    variance = (train - train.mean(0)).square().sum(1).mean()
    return (outputs - targets).square().sum(1) / variance.clamp_min(1e-300)


def _relative_cross_entropy(outputs: Tensor, targets: Tensor, train: Tensor) -> Float[Tensor, " n"]:
    """Return each sample's cross-entropy divided by the training labels' entropy."""
    class_shares = train.mean(0)
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        targets = torch.cat([1 - targets, targets], 1)
        class_shares = torch.cat([1 - class_shares, class_shares])
    entropy = torch.special.entr(class_shares).sum()
    losses = functional.cross_entropy(outputs, targets, reduction="none")
    return losses / entropy.clamp_min(1e-300)
