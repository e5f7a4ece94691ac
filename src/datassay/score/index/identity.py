"""What an index belongs to: the network, its code, the loss, the settings and the samples' ids."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from datassay.collect.fingerprint import (
    DIGITS,
    code_fingerprint,
    frozen_fingerprint,
    model_fingerprint,
)
from datassay.collect.gradients.batches import Batches, mapped, tensor_content
from datassay.collect.gradients.criteria import function_of, of_criterion
from datassay.collect.gradients.objective import Objective
from datassay.errors import DataError, ModelError, SettingError
from datassay.store.location import redact
from datassay.store.manifest import CODE, FEW, differences, digest

logger = logging.getLogger(__name__)

FORMAT = 3
LOSS, OWN_TEMPERATURE = "loss", "temperature of self-influence"
FURTHER = ("averaged", "ignored", "output_weight", "delta", "classes_second")
PLAIN = Objective("custom")


def identity(
    model: nn.Module, loss: Objective, own_loss: Objective | None = None
) -> dict[str, object]:
    """A network and its losses as plain JSON values, one entry per cause of difference."""
    return {
        **model_fingerprint(model),
        **frozen_fingerprint(model),
        LOSS: described(loss),
        OWN_TEMPERATURE: (own_loss or loss).temperature,
    }


def described(loss: Objective) -> dict[str, Any]:
    """A loss as plain JSON values; of a user's function its code."""
    weight, function = loss.class_weight, loss.function
    return {
        "name": loss.name,
        "smoothing": loss.smoothing,
        "class weight": None if weight is None else weight.double().tolist(),
        "scale": loss.scale,
        "temperature": loss.temperature,
        **_further(loss),
        "function": None if function is None else code_fingerprint(_Called(function)),
    }


def _further(loss: Objective) -> dict[str, Any]:
    """Settings that most losses leave as they are: an index without them has the defaults."""
    own = {name: getattr(loss, name) for name in FURTHER}
    weight = own["output_weight"]
    own["output_weight"] = None if weight is None else weight.double().tolist()
    return {name: value for name, value in own.items() if value != getattr(PLAIN, name)}


class _Called:
    """An object whose attribute is a function, as `code_fingerprint` reads them."""

    def __init__(self, function: Any):
        self.function = function


def objective_of(manifest: Mapping[str, Any], given: Any, location: str) -> Objective:
    """The loss that an index was made with; a function of the user's must be given again."""
    if manifest["function"] and not callable(given):
        raise SettingError(
            f"loss must be given to ask {redact(location)}: it was made with a function of the "
            "user's. Pass it: open_index(..., loss=...)."
        )
    name = of_criterion(given).name if isinstance(given, nn.Module) else given
    if not manifest["function"] and name not in ("auto", manifest["name"]):
        raise SettingError(
            f"loss must be the one that the index was made with, {manifest['name']!r}; "
            f"{redact(location)} was asked with another. Leave it out."
        )
    weight, further = manifest["class weight"], {n: manifest[n] for n in FURTHER if n in manifest}
    if further.get("output_weight") is not None:
        further["output_weight"] = torch.tensor(further["output_weight"])
    result = Objective(
        manifest["name"],
        function_of(given) if manifest["function"] else None,
        manifest["smoothing"],
        None if weight is None else torch.tensor(weight),
        manifest["scale"],
        manifest["temperature"],
        **further,
    )
    if described(result) != manifest:
        raise SettingError(
            f"loss must be the one that the index was made with; the function given to "
            f"{redact(location)} has other code. Give the first, or make a new index."
        )
    return result


def check_model(manifest: Mapping[str, Any], model: nn.Module, location: str) -> None:
    """Refuse another network than the index's: each difference is named; versions are logged."""
    here: dict[str, Any] = {**model_fingerprint(model), **frozen_fingerprint(model)}
    there = {name: manifest.get(name) for name in {*here, "frozen tensors"} if name in manifest}
    changed = differences(dict(there.get(CODE) or {}), dict(here.get(CODE) or {}))
    versions: list[str] = []
    code: list[str] = []
    for text in changed:
        of = manifest[CODE].get(text.partition(" (")[0])
        (versions if _is_version(of) else code).append(text)
    reported = [one for one in differences(there, here) if one.partition(" (")[0] != CODE]
    if code:
        reported.append(f"code ({', '.join(code[:FEW])}{', ...' if len(code) > FEW else ''})")
    if reported:
        raise ModelError(
            f"the model must be the one that {redact(location)} was made with; it differs in: "
            f"{', '.join(reported)}. Load that model, or make a new index."
        )
    if text := ", ".join(versions):
        logger.warning("%s was made with other versions: %s.", redact(location), text)


def _is_version(text: object) -> bool:
    """Whether an entry of the code's fingerprint is a version, not a digest."""
    return isinstance(text, str) and "." in text and len(text) != DIGITS


def samples_digest(samples: Batches) -> tuple[str, np.ndarray]:
    """SHA-256 over every tensor of every batch and the ids; the ids."""
    sha, ids = hashlib.sha256(), []
    for some, batch in samples:
        ids.append(np.asarray(some))
        sha.update(digest({"ids": np.asarray(some).astype(str)}).encode())
        mapped(batch, lambda t: (sha.update(tensor_content(t)), t)[1])
    return sha.hexdigest(), np.concatenate(ids)


def positions_of(
    groups: Mapping[str, Collection[object]], ids: np.ndarray
) -> list[Int[np.ndarray, " s"]]:
    """Positions of each group's samples; unknown ids and empty groups are refused."""
    known = {str(one): index for index, one in enumerate(ids.tolist())}
    results = []
    for name, some in groups.items():
        lost = [one for one in some if str(one) not in known]
        if lost:
            which = ", ".join(map(repr, lost[:3])) + (", ..." if len(lost) > 3 else "")
            raise DataError(f"groups must hold ids of the index; {name!r} has {which}.")
        if not len(some):
            raise DataError(f"a group must hold at least 1 id; {name!r} is empty.")
        results.append(np.array([known[str(one)] for one in some]))
    return results


def new_ids(ids: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Ids of appended samples; those that were only counted are counted on, known ones refused."""
    n = len(there)
    counted = ids.dtype.kind in "iu" and there.dtype.kind in "iu"
    if counted and (ids == np.arange(len(ids))).all() and (there == np.arange(n)).all():
        return ids + n
    double = np.isin(ids.astype(str), there.astype(str))
    if double.any():
        which = ", ".join(map(repr, ids[double][:3].tolist()))
        raise DataError(
            f"ids of appended samples must be new; the index has {which} already. Leave out the "
            "samples that it has, or give these others."
        )
    return ids


def check_unique(ids: np.ndarray) -> None:
    """Refuse two samples of one id."""
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        which = ", ".join(map(repr, values[counts > 1][:3].tolist()))
        raise DataError(f"ids must be unique; {which} occurs more than once.")
