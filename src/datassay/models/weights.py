"""Weights from files of tensors alone: nothing is unpickled, and what does not fit is reported."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from datassay.errors import ModelError, printable
from datassay.models.checkpoints import NAMED, StateDict, file_and_place, fitting, state_dicts
from datassay.models.networks import Affine

logger = logging.getLogger(__name__)


def load_weights(model: nn.Module, path: Path) -> tuple[str, ...]:
    """Load the whole network's weights, or for a built-in one those of the network inside.

    Of a checkpoint that holds several state dicts, or one inside a dictionary, the one whose names
    fit the model is taken; of several those where the training ended before any average of them
    ("ema", "swa"), then the first. A log line says which.

    Args:
        model: takes the weights, in its own precision.
        path: a .safetensors file, or a state dict or checkpoint that torch saved;
            "weights.pt::ema" names one of its state dicts.

    Returns:
        What the user must know where there was a choice, or an average is all there is; else none.

    Raises:
        ModelError: it cannot be read, holds no state dict (of that name), or none that fits the
            model.
    """
    result = _chosen(model, path)
    if result.told:
        logger.warning("%s: %s", path, result.told)
    target = model
    if _scales(model) and "0.scale" not in result.tensors:
        assert isinstance(model, nn.Sequential)
        target = model[1]
    load_state(target, result.tensors, str(path))
    return _choice(result, path)


def weights_choice(path: Path, model: nn.Module) -> tuple[str, ...]:
    """As `load_weights`, of a file that has been read."""
    return _choice(_chosen(model, path), path)


def _choice(state: StateDict, path: Path) -> tuple[str, ...]:
    file, named = file_and_place(path)
    if named or not (state.others or state.is_average):
        return ()
    kind = "averaged over the training" if state.is_average else "as the training left them"
    if not state.others:
        return (
            printable(
                f"the weights of {file} are {kind} ({state.place or 'it counts its averages'}); it "
                "holds no others of this network. Give the trained weights where these are meant."
            ),
        )
    others = ", ".join(repr(position) for position in state.others)
    return (
        printable(
            f"{file} holds several state dicts of this network: {state.place!r} was taken, not "
            f"{others}. Name another as {file}{NAMED}{state.others[0]}."
        ),
    )


def load_state(model: nn.Module, given: Mapping[str, Tensor], path: str) -> None:
    """Load a state dict that holds exactly the model's tensors."""
    # given: name → tensor; of several names of one tensor, one is enough.
    state, target = dict(given), model
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


def weights_source(path: Path, model: nn.Module) -> str:
    """Which weights a file holds: path, digest, state dict, and precision if not float32."""
    with file_and_place(path)[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    result = _chosen(model, path)
    kinds = {t.dtype for t in result.tensors.values() if t.is_floating_point()}
    names = sorted(str(k).removeprefix("torch.") for k in kinds - {torch.float32})
    turned = f"{' and '.join(names)} turned into the network's precision" if names else ""
    if names:
        logger.warning("%s: %s", path, turned)
    parts = [f"SHA-256 {digest[:16]}", *filter(None, (result.told, turned))]
    return f"{path} ({', '.join(parts)})"


def _chosen(model: nn.Module, path: Path) -> StateDict:
    wanted = [set(model.state_dict())]
    if _scales(model):
        assert isinstance(model, nn.Sequential)
        wanted.append(set(model[1].state_dict()))
    return fitting(state_dicts(path), wanted)


def _scales(model: nn.Module) -> bool:
    """Whether it is one of ours, whose own scaling comes before the network."""
    return isinstance(model, nn.Sequential) and isinstance(model[0], Affine)


def _fill_tied(target: nn.Module, state: dict[str, Tensor], path: str) -> None:
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


def _check_values(name: str, tensor: Tensor, into: Tensor, path: str) -> None:
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
