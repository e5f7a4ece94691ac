"""Networks at several checkpoints: modules, state dicts, files, and folders as transformers has."""

from __future__ import annotations

import copy
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from datassay.collect.jacobian.suitable import unwrap
from datassay.errors import ModelError, SettingError
from datassay.models.checkpoints import state_dicts
from datassay.models.weights import load_state, load_weights
from datassay.rules import require
from datassay.score.influence.optimizer_state import FILE as OPTIMIZER
from datassay.score.influence.optimizer_state import UnknownOptimizerError, Update, update_of
from datassay.score.influence.request import Request

# In a checkpoint of transformers or peft, in the order in which they are looked for.
WHOLE = ("model.safetensors", "pytorch_model.bin")
SHARDS = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
STATE = "trainer_state.json"


def with_checkpoints(request: Request, checkpoints: Any) -> Request:
    """Load the networks of a request."""
    base = next((one for one in request.models if isinstance(one, nn.Module)), None)
    if base is None:
        if not isinstance(request.models[0], str | os.PathLike | Mapping):
            unwrap(request.models[0])  # which says that it is no network
        raise SettingError(
            f"model must be a network, or a list with one first; got {request.models[0]!r:.80}. "
            "Weights alone do not say which: [model, 'seed-1.safetensors', ...]."
        )
    notes: list[str] = []
    models = [_network(base, one, notes) for one in _each(request.models)]
    lr = request.settings.get("lr")
    if isinstance(lr, str) and lr != "trainer":
        raise SettingError(f"lr must be a number, one per checkpoint, or 'trainer'; got {lr!r}.")
    if isinstance(lr, str) and checkpoints is None:
        raise SettingError("lr='trainer' needs checkpoints, folders that a Trainer wrote.")
    along_a_run = request.method in {"tracin", "segments"}
    if len(models) > 1 and (along_a_run or checkpoints is not None):
        what = f"method {request.method!r} belongs" if along_a_run else "checkpoints belong"
        raise SettingError(f"{what} to one training run; got {len(models)} models. Call for each.")
    if checkpoints is None:
        return replace(request, models=models, notes=tuple(notes))
    networks = [_network(base, one, notes) for one in _each(checkpoints)]
    require(networks, "checkpoints", "hold at least 1 network", "none", remedy="Pass None for one.")
    if not along_a_run:
        return replace(request, models=networks, notes=tuple(notes))
    read: dict[str, Any] = {}
    if lr == "trainer" and request.method == "tracin":
        read = {"lr": learning_rates(checkpoints)}
    elif lr == "trainer":
        read, reported = trainer_run(checkpoints, networks, request.clip)
        notes += reported
    settings = {**request.settings, "checkpoints": networks, **read}
    return replace(request, models=models, settings=settings, notes=tuple(notes))


def trainer_run(
    checkpoints: Any, networks: Sequence[nn.Module], clip: float | None
) -> tuple[dict[str, Any], list[str]]:
    """How a Trainer reached its checkpoints: settings of "segments"."""
    folders = _each(checkpoints)
    states = [_trainer_state(one) for one in folders]
    steps = [int(state.get("global_step", 0)) for state in states]
    history = [e for e in states[-1].get("log_history", []) if e.get("step", 0) <= steps[-1]]
    updates, notes = _updates(folders, networks)
    rates = {e["step"]: float(e["learning_rate"]) for e in history if "learning_rate" in e}
    if updates is not None:
        rates = {s: u.lr for s, u in zip(steps, updates, strict=True)} | rates
    if not rates or not max(rates.values()) > 0:
        raise SettingError(
            f"lr='trainer' needs a positive learning rate; {_named(folders[-1])} logged none. Give "
            "lr=[...] and steps=[...], one a checkpoint; logging_steps= logs more."
        )
    norms = {e["step"]: float(e["grad_norm"]) for e in history if e.get("grad_norm")}
    most = 1.0 if clip is None else clip
    kept = {step: min(1.0, most / norm) if most else 1.0 for step, norm in norms.items()}
    if clip is None and min(kept.values(), default=1.0) < 1:
        notes.append(
            "gradients are taken as clipped at a norm of 1, the Trainer's default, which the "
            "folders do not say. Give the Trainer itself where max_grad_norm was another."
        )
    time = _between(rates, steps) * _between(kept or {0: 1.0}, steps)
    ends = zip([0, *steps], steps, strict=False)
    lr = [float(time[a:b].mean()) if b > a else 0.0 for a, b in ends]
    return {"steps": steps, "lr": lr, "optimizer": updates}, notes


def _between(known: Mapping[int, float], steps: Sequence[int]) -> np.ndarray:
    """A number at each update, from those that were logged."""
    index = sorted(known)
    return np.interp(np.arange(1, max(steps) + 1), index, [known[step] for step in index])


def _updates(
    folders: Sequence[Any], networks: Sequence[nn.Module]
) -> tuple[list[Update] | None, list[str]]:
    """What each optimiser's state says; None where one is missing or unknown, with a note."""
    without = [f for f in folders if not (Path(f) / OPTIMIZER).is_file()]
    try:
        if not without:
            pairs = zip(folders, networks, strict=True)
            return [update_of(folder, network) for folder, network in pairs], []
        why = f"{without[0]} has no {OPTIMIZER} (the Trainer's save_only_model=True leaves it out)"
    except UnknownOptimizerError as error:
        why = str(error)
    return None, [f"the run is taken as plain gradient descent, its order is a guess: {why}"]


def _trainer_state(folder: Any) -> dict[str, Any]:
    file = Path(folder) / STATE if isinstance(folder, str | os.PathLike) else None
    if file is None or not file.is_file():
        raise SettingError(
            f"lr='trainer' needs folders with a {STATE}; {_named(folder)} has none. Give "
            "lr=[...], one a checkpoint."
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingError(f"{file} must hold JSON, as a Trainer writes it; {error}.") from error
    return content if isinstance(content, dict) else {}


def learning_rates(checkpoints: Any) -> list[float]:
    """Learning rate at each checkpoint of a Trainer, the last that it logged until then."""
    rates = []
    for one in _each(checkpoints):
        result = _trainer_state(one)
        last = result.get("global_step", float("inf"))
        logged = [e for e in result.get("log_history", []) if "learning_rate" in e]
        known = [e["learning_rate"] for e in logged if e.get("step", 0) <= last]
        if not known or not known[-1] > 0:
            what = "is 0" if known else "was not logged"
            raise SettingError(
                f"lr='trainer' needs a positive learning rate; that of {_named(one)} {what}. Give "
                "lr=[...], one a checkpoint, or leave this one out; logging_steps= logs more."
            )
        rates.append(float(known[-1]))
    return rates


def _named(one: Any) -> str:
    return str(one) if isinstance(one, str | os.PathLike) else f"a {type(one).__name__}"


def _each(given: Any) -> list[Any]:
    """Checkpoints one by one; a run's folder is its checkpoints, in the order of training."""
    if isinstance(given, nn.Module | Mapping):
        return [given]
    if isinstance(given, str | os.PathLike):
        results = [p for p in Path(given).glob("checkpoint-*") if p.name[11:].isdigit()]
        return sorted(results, key=lambda p: int(p.name[11:])) or [given]
    if isinstance(given, Sequence):
        return [inner for one in given for inner in _each(one)]
    raise SettingError(
        "checkpoints must be networks, state dicts, or paths of files and folders; got "
        f"{given!r:.80}."
    )


def _network(base: nn.Module, given: Any, notes: list[str]) -> nn.Module:
    """A copy of the base with these weights, which of a file's is noted; a network as it is."""
    if isinstance(given, nn.Module):
        return given
    network = copy.deepcopy(unwrap(base))
    if isinstance(given, Mapping):
        load_state(network, given, "the state dict")
    elif Path(given).is_dir():
        notes += _load_folder(network, Path(given))
    else:
        notes += load_weights(network, Path(given))
    return network


def _load_folder(network: nn.Module, folder: Path) -> tuple[str, ...]:
    """Weights of a folder as `save_pretrained` writes it; what `load_weights` says of them."""
    adapter = _first(folder, ADAPTERS)
    if adapter is not None:
        _load_adapter(network, adapter)
        return ()
    whole = _first(folder, WHOLE)
    if whole is not None:
        return load_weights(network, whole)
    index = _first(folder, SHARDS)
    if index is None:
        raise ModelError(
            f"{folder} must hold {WHOLE[0]} or {ADAPTERS[0]}, or folders called checkpoint-*; it "
            "holds none. Give the files of weights themselves."
        )
    shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    load_state(network, _tensors([folder / Path(name).name for name in shards]), str(folder))
    return ()


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    return {name: t for file in files for name, t in state_dicts(file)[0].tensors.items()}


def _load_adapter(network: nn.Module, file: Path) -> None:
    if not hasattr(network, "peft_config"):
        raise ModelError(
            f"{file} holds an adapter, which needs a model that has one; got a "
            f"{type(network).__name__}. Pass model=peft.get_peft_model(model, config)."
        )
    peft: Any = importlib.import_module("peft")  # there, since the model is its own
    given = _tensors([file])
    known = peft.get_peft_model_state_dict(network, save_embedding_layers=False)
    wrong = [name for name in known.keys() ^ given.keys()]
    wrong += [n for n in known.keys() & given.keys() if known[n].shape != given[n].shape]
    if wrong:
        raise ModelError(
            f"{file} must hold the model's adapter; {', '.join(sorted(wrong)[:3])} differ. Make "
            "the model with the same configuration."
        )
    peft.set_peft_model_state_dict(network, given)
