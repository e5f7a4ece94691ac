"""Weights from files of tensors alone: nothing is unpickled, and what does not fit is reported."""

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from datassay.errors import ModelError, printable
from datassay.models.checkpoints import NAMED, StateDict, best_match, file_and_place, state_dicts
from datassay.models.networks import Affine
from datassay.optional import text_if
from datassay.store.digests import file_digest

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
    state = _find_state(model, path)
    if state.description:
        logger.warning("%s: %s", path, state.description)
    target = model
    if _starts_with_scaling(model) and "0.scale" not in state.tensors:
        assert isinstance(model, nn.Sequential)
        target = model[1]
    load_state(target, state.tensors, str(path))
    return _note_choice(state, path)


def weights_choice(path: Path, model: nn.Module) -> tuple[str, ...]:
    """Return the notes of `load_weights` about a file whose weights were loaded already."""
    return _note_choice(_find_state(model, path), path)


def _note_choice(state: StateDict, path: Path) -> tuple[str, ...]:
    """Return (note,) on which state dict of several in a file was loaded, else ()."""
    file, requested = file_and_place(path)
    if requested or not (state.other_places or state.is_average):
        return ()
    kind = "as the training left them"
    if state.is_average:
        kind = "averaged over the training"
    if not state.other_places:
        note = (
            f"the weights of {file} are {kind} ({state.place or 'it counts its averages'}); it "
            "holds no others of this network. Give the trained weights where these are meant."
        )
        return (printable(note),)
    alternatives = ", ".join(map(repr, state.other_places))
    note = (
        f"{file} holds several state dicts of this network: {state.place!r} was taken, not "
        f"{alternatives}. Name another as {file}{NAMED}{state.other_places[0]}."
    )
    return (printable(note),)


def load_state(model: nn.Module, tensors: Mapping[str, Tensor], path: str) -> None:
    """Load a state dict that holds exactly the model's tensors."""
    # tensors: by name; of a tensor with several names in the model, one name is enough.
    state = dict(tensors)
    _fill_tied(model, state, path)
    expected = model.state_dict()
    misfits = [f"{printable(name)} unknown" for name in state.keys() - expected.keys()]
    for name, tensor in expected.items():
        shape = list(state[name].shape) if name in state else "missing"
        if shape != list(tensor.shape):
            misfits.append(f"{name} {shape} instead of {list(tensor.shape)}")
    if misfits:
        raise ModelError(
            f"{path} must hold every tensor of the model in its shape, and no other; got "
            f"{', '.join(sorted(misfits)[:3])}{text_if(len(misfits) > 3, ', ...')}. Check --model "
            "against the checkpoint."
        )
    for name, tensor in expected.items():
        _check_values(name, state[name], tensor, path)
    model.load_state_dict(state)


def weights_source(path: Path, model: nn.Module) -> str:
    """Return a file of weights in words: path, digest, state dict, dtype."""
    file, _ = file_and_place(path)
    digest = file_digest(file)
    state = _find_state(model, path)
    dtypes = {t.dtype for t in state.tensors.values() if t.is_floating_point()}
    names = sorted(str(k).removeprefix("torch.") for k in dtypes - {torch.float32})
    conversion = ""
    if names:
        conversion = f"{' and '.join(names)} turned into the network's precision"
        logger.warning("%s: %s", path, conversion)
    parts = [f"SHA-256 {digest[:16]}", *filter(None, (state.description, conversion))]
    return f"{path} ({', '.join(parts)})"


def _find_state(model: nn.Module, path: Path) -> StateDict:
    """Return the state dict in a file that fits the model, or the network inside it."""
    expected = [set(model.state_dict())]
    if _starts_with_scaling(model):
        assert isinstance(model, nn.Sequential)
        expected.append(set(model[1].state_dict()))
    return best_match(state_dicts(path), expected)


def _starts_with_scaling(model: nn.Module) -> bool:
    """Return whether a network is a built-in one, whose first layer scales the inputs."""
    return isinstance(model, nn.Sequential) and isinstance(model[0], Affine)


def _fill_tied(model: nn.Module, state: dict[str, Tensor], path: str) -> None:
    """Add tied tensors missing from the state under their other names; raise if they differ."""
    groups: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), []).append(name)
    for names in groups.values():
        present = [name for name in names if name in state]
        for name in present[1:]:
            if not torch.equal(state[name], state[present[0]]):
                raise ModelError(
                    f"{path} must hold the same values for {present[0]} and {name}, which are one "
                    "tensor of the model; they differ. Check --model against the checkpoint."
                )
        state |= {name: state[present[0]] for name in names if present and name not in state}


def _check_values(name: str, tensor: Tensor, target: Tensor, path: str) -> None:
    """Raise ModelError unless a tensor is dense, of the target's kind, and finite in its dtype."""
    kind = f"{tensor.dtype}".removeprefix("torch.")
    if tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        kind = "sparse or quantized"
        if tensor.is_meta:
            kind = "on the meta device"
    elif tensor.is_floating_point() == target.is_floating_point() and not tensor.is_complex():
        cast = tensor.to(target.dtype)
        if not cast.is_floating_point() or cast.isfinite().all() or not target.isfinite().all():
            return
        kind = f"not finite in the model's {str(target.dtype).removeprefix('torch.')}"
    raise ModelError(
        f"{path} must hold finite, dense numbers of the model's kind; {name} is {kind}. Save the "
        "weights again, as model.state_dict() has them."
    )
