"""Open an index that was made: what it belongs to is compared, nothing is unpickled."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.gradients.objective import Objective
from datassay.collect.jacobian.suitable import unwrap
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.score.index.identity import FORMAT, check_model, objective_of
from datassay.score.index.opened import Index
from datassay.score.index.segment import (
    Segment,
    noted_parts,
    own_run,
    segment_manifest,
    stored_segment,
)
from datassay.score.index.sketch import Sketch
from datassay.score.settings import Influence
from datassay.store.digests import digest_of_values
from datassay.store.features import FeatureStore, Layout, features_manifest
from datassay.store.location import normal, redact

FOLDER = "network"
# Entries of a configuration that name code to be fetched and run, or other packages.
FETCHED = {"auto_map", "custom_pipelines", "quantization_config"}
# Attributes of a configuration that its JSON lacks, and their values that need torch alone.
IMPLEMENTATIONS = ("_attn_implementation", "_experts_implementation")
OF_TORCH = ("eager", "sdpa", "grouped_mm", "batched_mm")


def keep_network(location: str, run: Mapping[str, object], model: nn.Module) -> None:
    """Store a transformers network's configuration and weights; do nothing for others."""
    model = unwrap(model)
    if type(model) is not _find_transformers_class(type(model).__name__):
        return
    state = {name: t.detach().cpu() for name, t in model.state_dict().items()}
    half_types = {torch.bfloat16, torch.float16}  # stored as float32: NumPy has no bfloat16
    arrays = {
        name: (t.float() if t.dtype in half_types else t).numpy() for name, t in state.items()
    }
    layout = Layout({"train": 1}, {name: (a.shape, a.dtype) for name, a in arrays.items()}, 1)
    meta = {
        "class": type(model).__name__,
        "config": json.loads(model.config.to_json_string(use_diff=False)),
        "implementations": {name: getattr(model.config, name, None) for name in IMPLEMENTATIONS},
        "types": {name: str(t.dtype).removeprefix("torch.") for name, t in state.items()},
        "arrays": {name: [list(a.shape), a.dtype.str] for name, a in arrays.items()},
    }
    store = FeatureStore(f"{location}/{FOLDER}", run, layout, meta)
    if store.list_unfinished():
        store.put(0, {name: a[None] for name, a in arrays.items()})


def stored_network(location: str) -> nn.Module | None:
    """Return the network stored in an index; None if there is none, or an unknown class."""
    manifest = features_manifest(f"{location}/{FOLDER}")
    if manifest is None:
        return None
    meta = manifest["free"]
    network_class = _find_transformers_class(meta["class"])
    if network_class is None:
        return None
    arrays = {n: (tuple(shape), np.dtype(d)) for n, (shape, d) in meta["arrays"].items()}
    layout = Layout({"train": 1}, arrays, 1)
    store = FeatureStore(f"{location}/{FOLDER}", own_run(manifest), layout, meta)
    if store.list_unfinished():
        return None
    state = {
        name: torch.from_numpy(store.get(0, name)[0]).to(getattr(torch, dtype))
        for name, dtype in meta["types"].items()
    }
    try:
        config = network_class.config_class.from_dict(remove_remote_code(meta["config"]))
        for name, value in meta.get("implementations", {}).items():
            if name in IMPLEMENTATIONS and value in OF_TORCH:
                setattr(config, name, value)
        model = network_class(config)
        floating = next(t.dtype for t in state.values() if t.is_floating_point())
        model.to(floating).load_state_dict(state)
    except (TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the network of {redact(location)} must fit {meta['class']} of this transformers; "
            f"{str(error).splitlines()[0][:200]} Give the model itself: open_index(..., model)."
        ) from None
    return model.eval()


def remove_remote_code(config: Any) -> Any:
    """Return a configuration without entries that would download code."""
    if isinstance(config, list):
        return [remove_remote_code(value) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        name: remove_remote_code(value)
        for name, value in config.items()
        if name not in FETCHED and "implementation" not in name
    }


def _find_transformers_class(name: str) -> Any:
    """Return the transformers model class of this name; None without one."""
    try:
        import transformers
    except ImportError:
        return None
    candidate = getattr(transformers, name, None)
    if isinstance(candidate, type) and issubclass(candidate, transformers.PreTrainedModel):
        return candidate
    return None


def open_index(
    location: str | Path,
    model: nn.Module | None = None,
    *,
    loss: Any = Influence.loss,
    device: str | None = None,
) -> Index:
    """Return the index stored at a location.

    Args:
        location: path or fsspec URL.
        model: the network at the weights that it was made with; None: one of transformers is built
            again from the index, with others only what is stored can be read (`self_influence`,
            `to_table`).
        loss: the function, where the training loss was one of the user's; of others "auto": it is
            read from the index.
        device: to compute gradients on; None: where the model is.

    Returns:
        The index. Nothing of it is unpickled.

    Raises:
        DataError: there is none, it is unfinished or damaged, or another version made it.
        ModelError: another network, other weights or other code; each is named.
        SettingError: another loss.
    """
    folder = normal(location)
    manifest = _read_index_manifest(folder)["free"]["index"]
    if model is None:
        model = stored_network(folder)
    if model is not None:
        check_model(manifest, model, folder)
    return read_index(folder, model, objective_of(manifest["loss"], loss, folder), device)


def _read_index_manifest(folder: str) -> dict[str, Any]:
    """Return an index's manifest; raise if there is none, or of another version."""
    rows_manifest = segment_manifest(folder, 0)
    manifest = rows_manifest["free"].get("index") if rows_manifest is not None else None
    if rows_manifest is None or manifest is None:
        raise DataError(
            f"location must hold an index; {redact(folder)} has none. Make it: index(), or "
            "datassay index."
        )
    if manifest["version"] != FORMAT:
        raise DataError(
            f"the index must be of version {FORMAT}; {redact(folder)} has version "
            f"{manifest['version']}, of another datassay. Make it anew, or update datassay."
        )
    return rows_manifest


def read_index(folder: str, model: nn.Module | None, loss: Objective, device: str | None) -> Index:
    """Return the index in a folder, with the network and loss that it was made with."""
    rows_manifest = _read_index_manifest(folder)
    manifest = rows_manifest["free"]["index"]
    segments = list(_open_segments(folder, manifest))
    sizes = rows_manifest["free"]["sketch"]
    seed = int(manifest["seed"])
    class_names = tuple(rows_manifest["free"].get("class names") or ())
    # Stands for the training samples: queries' labels are coded by its class names.
    example = SampleSet(np.zeros((1, 1)), np.zeros(1, np.int64), np.arange(1), class_names)
    return Index(
        location=folder,
        manifest=manifest,
        segments=segments,
        loss=loss,
        sketch=Sketch(sizes["coordinates"], sizes["width"], sizes["bits"], seed),
        fidelity=rows_manifest["free"]["fidelity"],
        model=model,
        device=device,
        example=example if class_names else None,
    )


def _open_segments(folder: str, index_manifest: Mapping[str, Any]) -> Iterator[Segment]:
    """Yield an index's segments in order; raise if one is foreign or unfinished."""
    noted = noted_parts(folder) or []
    number = 0
    while (manifest := segment_manifest(folder, number)) is not None:
        if manifest["run"].get("of") != index_manifest["of"]:
            raise DataError(
                f"the rows of an index must be its own; {redact(folder)}/rows-{number} is of "
                "another one. Put its own back."
            )
        if noted:
            if number >= len(noted):
                return  # an appending that was interrupted
            if noted[number] != digest_of_values(manifest["run"]):
                raise DataError(
                    f"the parts of an index must be in their order; {redact(folder)}/rows-{number} "
                    "is another one of them. Put it back."
                )
        store = stored_segment(folder, number, manifest)
        command = "the appending" if number else "index(...)"
        if n := len(store.list_unfinished()):
            raise DataError(
                f"an index must be finished; {redact(folder)}/rows-{number} lacks {n:,} of "
                f"{len(store.chunks):,} chunks. Run {command} again: it goes on."
            )
        if not noted:
            raise DataError(
                f"an index must be finished; {redact(folder)} does not say which parts it has. Run "
                "index(...) again: it goes on."
            )
        yield Segment(store)
        number += 1
    if number < len(noted):
        raise DataError(
            f"an index must be whole; {redact(folder)} lacks rows-{number}, of {len(noted)} "
            "parts. Put it back, or append the same samples anew."
        )
