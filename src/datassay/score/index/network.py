"""The network of an index, where it can be built again from plain data: one of transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.jacobian.suitable import unwrapped
from datassay.errors import DataError
from datassay.score.index.curvature import own_run
from datassay.store.features import FeatureStore, Layout, features_manifest
from datassay.store.location import shown

FOLDER = "network"
# Entries of a configuration that name code to be fetched and run, or other packages.
FETCHED = {"auto_map", "custom_pipelines", "quantization_config"}


def keep_network(location: str, run: Mapping[str, object], model: nn.Module) -> None:
    """Store configuration and weights of a network whose class transformers has; no others."""
    model = unwrapped(model)
    if type(model) is not _known(type(model).__name__):
        return
    state = {name: t.detach().cpu() for name, t in model.state_dict().items()}
    arrays = {name: _plain(t).numpy() for name, t in state.items()}
    layout = Layout({"train": 1}, {n: (a.shape, a.dtype) for n, a in arrays.items()}, 1)
    free = {
        "class": type(model).__name__,
        "config": json.loads(model.config.to_json_string(use_diff=False)),  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
        "types": {name: str(t.dtype).removeprefix("torch.") for name, t in state.items()},
        "arrays": {name: [list(a.shape), a.dtype.str] for name, a in arrays.items()},
    }
    store = FeatureStore(f"{location}/{FOLDER}", run, layout, free)
    if store.unfinished():
        store.put(0, {name: a[None] for name, a in arrays.items()})


def kept_network(location: str) -> nn.Module | None:
    """The network of an index in evaluation mode; None where it was not kept."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return None
    free = manifest["free"]
    kind = _known(free["class"])
    if kind is None:
        return None
    arrays = {n: (tuple(shape), np.dtype(d)) for n, (shape, d) in free["arrays"].items()}
    layout = Layout({"train": 1}, arrays, 1)
    store = FeatureStore(f"{location}/{FOLDER}", own_run(manifest), layout, free)
    if store.unfinished():
        return None
    state = {
        name: torch.from_numpy(store.get(0, name)[0]).to(getattr(torch, dtype))
        for name, dtype in free["types"].items()
    }
    try:
        model = kind(kind.config_class.from_dict(without_fetched(free["config"])))
        floating = next(t.dtype for t in state.values() if t.is_floating_point())
        model.to(floating).load_state_dict(state)
    except (TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the network of {shown(location)} must fit {free['class']} of this transformers; "
            f"{str(error).splitlines()[0][:200]} Give the model itself: open_index(..., model)."
        ) from None
    return model.eval()


def without_fetched(config: Any) -> Any:
    """A configuration without what would fetch code: an index may come from anyone."""
    if isinstance(config, list):
        return [without_fetched(value) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        name: without_fetched(value)
        for name, value in config.items()
        if name not in FETCHED and "implementation" not in name
    }


def _known(name: str) -> Any:
    """The class of this name, if it is a network of transformers."""
    try:
        import transformers
    except ImportError:
        return None
    found = getattr(transformers, name, None)
    is_network = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    return found if is_network else None


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Of a type that NumPy has."""
    return tensor.float() if tensor.dtype in {torch.bfloat16, torch.float16} else tensor
