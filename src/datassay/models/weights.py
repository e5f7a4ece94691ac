"""Weights from files of tensors alone: nothing is unpickled, and what does not fit is told."""

from __future__ import annotations

import hashlib
import logging
import zipfile
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from datassay.errors import ModelError, printable
from datassay.models.networks import Affine
from datassay.models.user_code import brief

logger = logging.getLogger(__name__)


def load_weights(model: nn.Module, path: Path) -> None:
    """Load the whole network's weights, or for a built-in one those of the network inside.

    Args:
        model: takes the weights, in its own precision.
        path: a .safetensors file, or a state dict that torch saved.

    Raises:
        ModelError: it cannot be read, holds more than tensors, or they do not fit the model.
    """
    state = _read(path)
    target = model
    if isinstance(model, nn.Sequential) and isinstance(model[0], Affine) and "0.scale" not in state:
        target = model[1]
    _fill_tied(target, state, path)
    expected = target.state_dict()
    wrong = [
        f"{name} {'missing' if name not in state else list(state[name].shape)} instead of "
        f"{list(tensor.shape)}"
        for name, tensor in expected.items()
        if name not in state or state[name].shape != tensor.shape
    ] + [f"{printable(name)} unknown" for name in state.keys() - expected.keys()]
    if wrong:
        raise ModelError(
            f"{path} must hold every tensor of the model in its shape, and no other; got "
            f"{', '.join(sorted(wrong)[:3])}{', ...' if len(wrong) > 3 else ''}. Check --model "
            "against the checkpoint."
        )
    for name, tensor in expected.items():
        _check_values(name, state[name], tensor, path)
    target.load_state_dict(state)


def weights_source(path: Path) -> str:
    """Which weights a file holds, for a page.

    Args:
        path: one that `load_weights` has read.

    Returns:
        Its path, the beginning of its SHA-256, and its precision where float32 is another.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    kinds = {t.dtype for t in _read(path).values() if t.is_floating_point()}
    names = sorted(str(k).removeprefix("torch.") for k in kinds - {torch.float32})
    turned = f", {' and '.join(names)} turned into the network's precision" if names else ""
    if names:
        logger.warning("%s: %s", path, turned[2:])
    return f"{path} (SHA-256 {digest[:16]}{turned})"


def _read(path: Path) -> dict[str, Tensor]:
    rule = f"{path} must be a .safetensors file or a plain state dict of tensors"
    remedy = "Save it with safetensors or torch.save(model.state_dict())."
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"{rule}; it is no regular file. {remedy}")
    try:
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        _check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{rule}; reading it raised {brief(error)} {remedy}") from error
    except Exception as error:
        # Not torch's words: they advise to unpickle.
        raise ModelError(f"{rule}; it is damaged, or holds more than tensors. {remedy}") from error
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise ModelError(
            f"{path} must hold a state dict of tensors; got {type(state).__name__}. Save "
            "model.state_dict() alone."
        )
    return {str(name): tensor for name, tensor in state.items()}


def _check_archive(path: Path) -> None:
    """Refuse an archive whose checksums fail, which torch does not look at, or that is a bomb."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            held = sum(entry.file_size for entry in archive.infolist())
            if held > path.stat().st_size or archive.testzip():  # torch does not compress
                raise ValueError(path)


def _fill_tied(target: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Give tensors of several names, of which files may hold one, all of their names."""
    groups: dict[int, list[str]] = {}
    for name, tensor in target.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), []).append(name)
    for names in groups.values():
        held = [name for name in names if name in state]
        for name in held[1:]:
            if not torch.equal(state[name], state[held[0]]):
                raise ModelError(
                    f"{path} must hold the same values for {held[0]} and {name}, which are one "
                    "tensor of the model; they differ. Check --model against the checkpoint."
                )
        state |= {name: state[held[0]] for name in names if held and name not in state}


def _check_values(name: str, tensor: Tensor, into: Tensor, path: Path) -> None:
    kind = f"{tensor.dtype}".removeprefix("torch.")
    if tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        kind = "on the meta device" if tensor.is_meta else "sparse or quantized"
    elif tensor.is_floating_point() == into.is_floating_point() and not tensor.is_complex():
        held = tensor.to(into.dtype)
        if not held.is_floating_point() or held.isfinite().all() or not into.isfinite().all():
            return
        kind = f"not finite in the model's {str(into.dtype).removeprefix('torch.')}"
    raise ModelError(
        f"{path} must hold finite, dense numbers of the model's kind; {name} is {kind}. Save the "
        "weights again, as model.state_dict() has them."
    )
