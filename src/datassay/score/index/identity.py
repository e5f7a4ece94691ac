"""What an index belongs to: the network, its code, the loss, the settings and the samples' ids."""

import hashlib
import logging
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from datassay.collect.fingerprint import (
    DIGITS,
    code_fingerprint,
    frozen_fingerprint,
    model_fingerprint,
)
from datassay.collect.gradients.batches import Batches, map_batch, tensor_content
from datassay.collect.gradients.criteria import function_of, of_criterion
from datassay.collect.gradients.objective import Objective
from datassay.errors import DataError, ModelError, SettingError
from datassay.optional import map_optional, text_if
from datassay.store.digests import digest
from datassay.store.location import redact
from datassay.store.manifest import CODE, FEW, differences

logger = logging.getLogger(__name__)

FORMAT = 4
LOSS = "loss"
OWN_TEMPERATURE = "temperature of self-influence"
# Settings of a loss that an index did not have at first.
LATER_SETTINGS = ("averaged", "ignored", "output_weight", "delta", "classes_second")
DEFAULT_LOSS = Objective("custom")


def identity(
    model: nn.Module, loss: Objective, self_influence_loss: Objective | None = None
) -> dict[str, object]:
    """Return JSON values that identify a network and its losses, an entry per cause."""
    # self_influence_loss: that of self-influence; None: the same.
    return {
        **model_fingerprint(model),
        **frozen_fingerprint(model),
        LOSS: describe_loss(loss),
        OWN_TEMPERATURE: (self_influence_loss or loss).temperature,
    }


def describe_loss(loss: Objective) -> dict[str, Any]:
    """Return JSON values that identify a loss; a user's function by its code's digest."""
    return {
        "name": loss.name,
        "smoothing": loss.smoothing,
        "class weight": map_optional(_to_list, loss.class_weight),
        "scale": loss.scale,
        "temperature": loss.temperature,
        **_list_changed_settings(loss),
        "function": map_optional(lambda f: code_fingerprint(_Called(f)), loss.function),
    }


def _to_list(tensor: Tensor) -> list:
    return tensor.double().tolist()


def _list_changed_settings(loss: Objective) -> dict[str, Any]:
    """Return a loss's newer settings that differ from their default, as JSON values."""
    # Defaults are left out, so that an index from before these settings existed still matches.
    settings = {name: getattr(loss, name) for name in LATER_SETTINGS}
    settings["output_weight"] = map_optional(_to_list, loss.output_weight)
    return {name: value for name, value in settings.items() if value != getattr(DEFAULT_LOSS, name)}


class _Called:
    """An object whose attribute is a function, as `code_fingerprint` reads them."""

    def __init__(self, function: Any):
        self.function = function


def objective_of(manifest: Mapping[str, Any], loss: Any, location: str) -> Objective:
    """Return the loss that an index was made with; raise if the user's function is missing."""
    if manifest["function"] and not callable(loss):
        raise SettingError(
            f"loss must be given to ask {redact(location)}: it was made with a function of the "
            "user's. Pass it: open_index(..., loss=...)."
        )
    name = of_criterion(loss).name if isinstance(loss, nn.Module) else loss
    if not manifest["function"] and name not in ("auto", manifest["name"]):
        raise SettingError(
            f"loss must be the one that the index was made with, {manifest['name']!r}; "
            f"{redact(location)} was asked with another. Leave it out."
        )
    weight = manifest["class weight"]
    settings = {name: manifest[name] for name in LATER_SETTINGS if name in manifest}
    if settings.get("output_weight") is not None:
        settings["output_weight"] = torch.tensor(settings["output_weight"])
    result = Objective(
        manifest["name"],
        function_of(loss) if manifest["function"] else None,
        manifest["scale"],
        manifest["temperature"],
        smoothing=manifest["smoothing"],
        class_weight=map_optional(torch.tensor, weight),
        **settings,
    )
    if describe_loss(result) != manifest:
        raise SettingError(
            f"loss must be the one that the index was made with; the function given to "
            f"{redact(location)} has other code. Give the first, or make a new index."
        )
    return result


def check_model(manifest: Mapping[str, Any], model: nn.Module, location: str) -> None:
    """Raise if the network is not the one that the index was made with."""
    current: dict[str, Any] = {**model_fingerprint(model), **frozen_fingerprint(model)}
    stored = {name: manifest[name] for name in {*current, "frozen tensors"} if name in manifest}
    versions: list[str] = []
    code: list[str] = []
    for change in differences(dict(stored.get(CODE) or {}), dict(current.get(CODE) or {})):
        entry = manifest[CODE].get(_changed_entry(change))
        if isinstance(entry, str) and "." in entry and len(entry) != DIGITS:  # no digest: a version
            versions.append(change)
        else:
            code.append(change)
    changes = [change for change in differences(stored, current) if _changed_entry(change) != CODE]
    if code:
        changes.append(f"code ({', '.join(code[:FEW])}{text_if(len(code) > FEW, ', ...')})")
    if changes:
        raise ModelError(
            f"the model must be the one that {redact(location)} was made with; it differs in: "
            f"{', '.join(changes)}. Load that model, or make a new index."
        )
    if versions:
        logger.warning(
            "%s was made with other versions: %s.", redact(location), ", ".join(versions)
        )


def _changed_entry(change: str) -> str:
    """Return the name of the entry that a line of `differences`, "name (...)", is about."""
    return change.partition(" (")[0]


def samples_digest(samples: Batches) -> tuple[str, np.ndarray]:
    """Return the SHA-256 of all batches and ids, and the ids."""
    sha = hashlib.sha256()
    ids = []

    def add_tensor(tensor: Tensor) -> Tensor:
        sha.update(tensor_content(tensor))
        return tensor

    for batch_ids, batch in samples:
        ids.append(np.asarray(batch_ids))
        sha.update(digest({"ids": np.asarray(batch_ids).astype(str)}).encode())
        map_batch(batch, add_tensor)
    return sha.hexdigest(), np.concatenate(ids)


def positions_of(
    groups: Mapping[str, Collection[object]], ids: np.ndarray
) -> list[Int[np.ndarray, " s"]]:
    """Return the positions of each group's samples; raise for unknown ids or empty groups."""
    position_of = {str(sample_id): position for position, sample_id in enumerate(ids.tolist())}
    results = []
    for name, group_ids in groups.items():
        unknown = [sample_id for sample_id in group_ids if str(sample_id) not in position_of]
        if unknown:
            examples = np.asarray(unknown[:3]).tolist()  # Python's values: repr without np.int64
            names = ", ".join(map(repr, examples)) + text_if(len(unknown) > 3, ", ...")
            raise DataError(f"groups must hold ids of the index; {name!r} has {names}.")
        if not len(group_ids):
            raise DataError(f"a group must hold at least 1 id; {name!r} is empty.")
        results.append(np.array([position_of[str(sample_id)] for sample_id in group_ids]))
    return results


def new_ids(ids: np.ndarray, index_ids: np.ndarray) -> np.ndarray:
    """Return ids for appended samples; raise if the index has one of them already."""
    # Where old and new ids both count from 0, the new ones go on where the old ones end.
    if all(a.dtype.kind in "iu" and (a == np.arange(len(a))).all() for a in (ids, index_ids)):
        return ids + len(index_ids)
    is_known = np.isin(ids.astype(str), index_ids.astype(str))
    if is_known.any():
        names = ", ".join(map(repr, ids[is_known][:3].tolist()))
        raise DataError(
            f"ids of appended samples must be new; the index has {names} already. Leave out the "
            "samples that it has, or give these others."
        )
    return ids


def check_unique(ids: np.ndarray) -> None:
    """Raise if two samples have the same id."""
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        names = ", ".join(map(repr, values[counts > 1][:3].tolist()))
        raise DataError(f"ids must be unique; more than once: {names}.")
