"""What a model gives for a batch, and the targets and weights that the batch has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.batches import mapped
from datassay.errors import ModelError

IGNORED = -100  # a token's label that does not count, as in torch
TARGETS = ("labels", "label")
LOSS_WEIGHT = "loss_weight"  # of a sample in the training loss, where the batch has this field


def outputs_of(model: nn.Module, batch: Any) -> Tensor:
    """What the model gives for a batch: its logits.

    Args:
        model: called with the batch's tensors, targets left out; by name where it is a dictionary.
        batch: (x, ..., targets), or a dictionary with "labels".

    Returns:
        Its output, its `.logits`, or the first of several; one axis more where it is [b].

    Raises:
        ModelError: there is no tensor in what it gives.
    """
    if isinstance(batch, Mapping):
        left_out = {*TARGETS, LOSS_WEIGHT}
        given = {key: value for key, value in batch.items() if key not in left_out}
        shifted = getattr(model, "prepare_decoder_input_ids_from_labels", None)
        if shifted is not None and "decoder_input_ids" not in given:  # an encoder and a decoder
            given["decoder_input_ids"] = shifted(labels=targets_of(batch))
        found = model(**given)
    else:
        parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
        found = model(*(parts[:-1] if len(parts) > 1 else parts))
    found = getattr(found, "logits", found)
    if isinstance(found, Mapping):  # "out" of torchvision's segmentation
        found = found.get("logits", found.get("out"))
    if isinstance(found, tuple | list):
        found = found[0]
    if not isinstance(found, Tensor):
        raise ModelError(
            f"the model must give a tensor, or logits; got {type(found).__name__}. Pass loss= and "
            "measure= as functions of the model and a batch."
        )
    return found[:, None] if found.ndim == 1 else found


def targets_of(batch: Any) -> Tensor | None:
    """The batch's targets.

    Args:
        batch: as in `outputs_of`.

    Returns:
        The last of a tuple; of a dictionary its "labels", or its input_ids where there are none,
        padding not counted; None where there are none, or no numbers.
    """
    if isinstance(batch, Mapping):
        for name in TARGETS:
            if batch.get(name) is not None:
                return _as_tensor(batch[name])
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        if ids is None or mask is None:
            return ids
        return ids.masked_fill(mask == 0, IGNORED)
    return _as_tensor(batch[-1]) if isinstance(batch, tuple | list) and len(batch) > 1 else None


def labels_by_name(batch: Any) -> list[str]:
    """A batch's labels, where they are words.

    Args:
        batch: as in `outputs_of`.

    Returns:
        Mostly empty.
    """
    if isinstance(batch, Mapping):
        given = next((batch[name] for name in TARGETS if name in batch), None)
    else:
        given = batch[-1] if isinstance(batch, tuple | list) and len(batch) > 1 else None
    return [v for v in given if isinstance(v, str)] if isinstance(given, tuple | list) else []


def _as_tensor(given: Any) -> Tensor | None:
    return given if isinstance(given, Tensor) else None  # names of classes, say


def weights_of(batch: Any, like: Tensor) -> Tensor:
    """The samples' own weights in the training loss.

    Args:
        batch: as in `outputs_of`.
        like: whose precision they get.

    Returns:
        [b] of a dictionary with "loss_weight"; else a 1.
    """
    given = batch.get(LOSS_WEIGHT) if isinstance(batch, Mapping) else None
    return torch.ones(()).to(like) if given is None else given.to(like)


def to_model(batch: Any, model: nn.Module) -> Any:
    """The batch on the model's device and in its precision; whole numbers stay what they are.

    Args:
        batch: of tensors.
        model: the network.

    Returns:
        The batch.
    """
    like = next(p for p in model.parameters() if p.is_floating_point())
    return mapped(batch, lambda t: t.to(like) if t.is_floating_point() else t.to(like.device))
