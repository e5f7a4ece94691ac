"""Networks at several checkpoints: modules, state dicts, files, and folders as transformers has."""

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
from datassay.optional import coalesce
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
    """Return the request with its networks loaded from `checkpoints`, and notes on the files."""
    # For methods along a training run the networks become the setting "checkpoints".
    base = next((model for model in request.models if isinstance(model, nn.Module)), None)
    if base is None:
        if not isinstance(request.models[0], str | os.PathLike | Mapping):
            unwrap(request.models[0])  # which says that it is no network
        raise SettingError(
            f"model must be a network, or a list with one first; got {request.models[0]!r:.80}. "
            "Weights alone do not say which: [model, 'seed-1.safetensors', ...]."
        )
    notes: list[str] = []
    models = [load_network(base, weights, notes) for weights in _list_checkpoints(request.models)]
    lr = request.settings.get("lr")
    if isinstance(lr, str) and lr != "trainer":
        raise SettingError(f"lr must be a number, one per checkpoint, or 'trainer'; got {lr!r}.")
    if isinstance(lr, str) and checkpoints is None:
        raise SettingError("lr='trainer' needs checkpoints, folders that a Trainer wrote.")
    takes_run = request.method in {"tracin", "segments"}
    if len(models) > 1 and (takes_run or checkpoints is not None):
        rule = f"method {request.method!r} belongs" if takes_run else "checkpoints belong"
        raise SettingError(f"{rule} to one training run; got {len(models)} models. Call for each.")
    if checkpoints is None:
        return replace(request, models=models, notes=tuple(notes))
    networks = [load_network(base, weights, notes) for weights in _list_checkpoints(checkpoints)]
    require(networks, "checkpoints", "hold at least 1 network", "none", remedy="Pass None for one.")
    if not takes_run:
        return replace(request, models=networks, notes=tuple(notes))
    run_settings: dict[str, Any] = {}
    if lr == "trainer" and request.method == "tracin":
        run_settings = {"lr": learning_rates(checkpoints)}
    elif lr == "trainer":
        run_settings, run_notes = trainer_run(checkpoints, networks, request.clip)
        notes += run_notes
    settings = {**request.settings, "checkpoints": networks, **run_settings}
    return replace(request, models=models, settings=settings, notes=tuple(notes))


def trainer_run(
    checkpoints: Any, networks: Sequence[nn.Module], clip: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Return steps, lr and optimizer of a Trainer's run at each checkpoint, and warnings."""
    # clip: the norm that gradients were clipped at; 0: none; None: not known.
    folders = _list_checkpoints(checkpoints)
    states = [_read_trainer_state(folder) for folder in folders]
    steps = [int(state.get("global_step", 0)) for state in states]
    history = [e for e in states[-1].get("log_history", []) if e.get("step", 0) <= steps[-1]]
    updates, notes = _read_updates(folders, networks)
    rates = {}  # step → lr, of the optimisers' states and then of the log
    if updates is not None:
        rates = {step: update.lr for step, update in zip(steps, updates, strict=True)}
    rates |= {e["step"]: float(e["learning_rate"]) for e in history if "learning_rate" in e}
    if not rates or not max(rates.values()) > 0:
        raise SettingError(
            f"lr='trainer' needs a positive learning rate; {_label(folders[-1])} logged none. Give "
            "lr=[...] and steps=[...], one a checkpoint; logging_steps= logs more."
        )
    norms = {e["step"]: float(e["grad_norm"]) for e in history if e.get("grad_norm")}
    max_norm = coalesce(clip, 1.0)
    factors = {step: min(1.0, max_norm / norm) if max_norm else 1.0 for step, norm in norms.items()}
    if clip is None and min(factors.values(), default=1.0) < 1:
        notes.append(
            "gradients are taken as clipped at a norm of 1, the Trainer's default, which the "
            "folders do not say. Give the Trainer itself where max_grad_norm was another."
        )
    lr_of_update = _interpolate(rates, steps) * _interpolate(factors or {0: 1.0}, steps)
    ends = zip([0, *steps], steps, strict=False)
    lr = [float(lr_of_update[start:end].mean()) if end > start else 0.0 for start, end in ends]
    return {"steps": steps, "lr": lr, "optimizer": updates}, notes


def _interpolate(logged: Mapping[int, float], steps: Sequence[int]) -> np.ndarray:
    """Return a value for each update 1 ... steps[-1], interpolated from those logged by step."""
    logged_steps = sorted(logged)
    values = [logged[step] for step in logged_steps]
    return np.interp(np.arange(1, max(steps) + 1), logged_steps, values)


def _read_updates(
    folders: Sequence[Any], networks: Sequence[nn.Module]
) -> tuple[list[Update] | None, list[str]]:
    """Return each folder's optimiser state; None and a note where one is missing or unknown."""
    missing = [folder for folder in folders if not (Path(folder) / OPTIMIZER).is_file()]
    try:
        if not missing:
            pairs = zip(folders, networks, strict=True)
            return [update_of(folder, network) for folder, network in pairs], []
        why = f"{missing[0]} has no {OPTIMIZER} (the Trainer's save_only_model=True leaves it out)"
    except UnknownOptimizerError as error:
        why = str(error)
    return None, [f"the run is taken as plain gradient descent, its order is a guess: {why}"]


def _read_trainer_state(folder: Any) -> dict[str, Any]:
    """Return the trainer_state.json of a checkpoint folder; raise if there is none."""
    file = None
    if isinstance(folder, str | os.PathLike):
        file = Path(folder) / STATE
    if file is None or not file.is_file():
        raise SettingError(
            f"lr='trainer' needs folders with a {STATE}; {_label(folder)} has none. Give "
            "lr=[...], one a checkpoint."
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingError(f"{file} must hold JSON, as a Trainer writes it; {error}.") from error
    if not isinstance(content, dict):
        return {}
    return content


def learning_rates(checkpoints: Any) -> list[float]:
    """Return a Trainer's learning rate at each checkpoint, the last that it logged until then."""
    rates = []
    for folder in _list_checkpoints(checkpoints):
        state = _read_trainer_state(folder)
        last_step = state.get("global_step", float("inf"))
        logged = [e for e in state.get("log_history", []) if "learning_rate" in e]
        lrs = [e["learning_rate"] for e in logged if e.get("step", 0) <= last_step]
        if not lrs or not lrs[-1] > 0:
            why = "is 0" if lrs else "was not logged"
            raise SettingError(
                f"lr='trainer' needs a positive learning rate; that of {_label(folder)} {why}. "
                "Give lr=[...], one a checkpoint, or leave this one out; logging_steps= logs more."
            )
        rates.append(float(lrs[-1]))
    return rates


def _label(source: Any) -> str:
    """Return a checkpoint's name for a message: its path, or its type."""
    if isinstance(source, str | os.PathLike):
        return str(source)
    return f"a {type(source).__name__}"


def _list_checkpoints(source: Any) -> list[Any]:
    """Return checkpoints as a flat list; a run's folder stands for its checkpoint-* folders."""
    if isinstance(source, nn.Module | Mapping):
        return [source]
    if isinstance(source, str | os.PathLike):
        numbers = {}
        for path in Path(source).glob("checkpoint-*"):
            number = path.name.removeprefix("checkpoint-")
            if number.isdigit():
                numbers[path] = int(number)
        return sorted(numbers, key=numbers.__getitem__) or [source]
    if isinstance(source, Sequence):
        return [checkpoint for item in source for checkpoint in _list_checkpoints(item)]
    raise SettingError(
        "checkpoints must be networks, state dicts, or paths of files and folders; got "
        f"{source!r:.80}."
    )


def load_network(base: nn.Module, source: Any, notes: list[str]) -> nn.Module:
    """Return a copy of `base` with the weights of `source`; a source that is a network itself."""
    # notes: what the user should know of the file is appended.
    if isinstance(source, nn.Module):
        return source
    network = copy.deepcopy(unwrap(base))
    if isinstance(source, Mapping):
        load_state(network, source, "the state dict")
    elif Path(source).is_dir():
        notes += _load_folder(network, Path(source))
    else:
        notes += load_weights(network, Path(source))
    return network


def _load_folder(network: nn.Module, folder: Path) -> tuple[str, ...]:
    """Load weights of a folder as `save_pretrained` writes it; return `load_weights`' notes."""
    adapter = _find_file(folder, ADAPTERS)
    if adapter is not None:
        _load_adapter(network, adapter)
        return ()
    file = _find_file(folder, WHOLE)
    if file is not None:
        return load_weights(network, file)
    index = _find_file(folder, SHARDS)
    if index is None:
        raise ModelError(
            f"{folder} must hold {WHOLE[0]} or {ADAPTERS[0]}, or folders called checkpoint-*; it "
            "holds none. Give the files of weights themselves."
        )
    shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    load_state(network, _tensors([folder / Path(name).name for name in shards]), str(folder))
    return ()


def _find_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of the files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    return {name: t for file in files for name, t in state_dicts(file)[0].tensors.items()}


def _load_adapter(network: nn.Module, file: Path) -> None:
    """Load a file of adapter weights into a network of peft."""
    if not hasattr(network, "peft_config"):
        raise ModelError(
            f"{file} holds an adapter, which needs a model that has one; got a "
            f"{type(network).__name__}. Pass model=peft.get_peft_model(model, config)."
        )
    peft: Any = importlib.import_module("peft")  # installed, since the model is peft's
    loaded = _tensors([file])
    expected = peft.get_peft_model_state_dict(network, save_embedding_layers=False)
    mismatches = [name for name in expected.keys() ^ loaded.keys()]
    for name in expected.keys() & loaded.keys():
        if expected[name].shape != loaded[name].shape:
            mismatches.append(name)
    if mismatches:
        raise ModelError(
            f"{file} must hold the model's adapter; {', '.join(sorted(mismatches)[:3])} differ. "
            "Make the model with the same configuration."
        )
    peft.set_peft_model_state_dict(network, loaded)
