"""Batches of samples that can be read again and again, and what a model gives for one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import default_collate

from datassay.collect.fingerprint import numpy_values
from datassay.errors import DataError, ModelError
from datassay.results import result

ID_FIELDS = ("id", "ids", "idx")
# What the field is filled up with where samples have different lengths; 0 in others.
PADDING = {"labels": -100}


@result
class Batches:
    """Samples in batches, which can be read again and again."""

    # Called for a new pass over (ids or None, batch).
    parts: Callable[[], Iterator[tuple[np.ndarray | None, Any]]]
    ids: np.ndarray | None  # [n]; None: counted or read on the way
    n: int | None  # None: unknown before the first pass
    subset: Callable[[Sequence[int]], Batches] | None = None  # the samples at these positions
    weights: Float[np.ndarray, " n"] | None = None  # in the mean loss, 1 on average; None: all 1
    warnings: tuple[str, ...] = ()
    streamed: bool = False  # all samples must be held in memory to take some by position

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any]]:
        start = 0
        for ids, batch in self.parts():
            size = batch_size(batch)
            if ids is None:
                positions = np.arange(start, start + size)
                ids = positions if self.ids is None else self.ids[positions]
            start += size
            yield ids, batch


def batch_size(batch: Any) -> int:
    """How many samples a batch holds: the length of its first tensor, however deep."""
    for leaf in _leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return len(leaf)
    raise DataError(
        f"a batch must hold tensors, one row per sample; got a {type(batch).__name__} without. "
        "Give the loader a collate_fn that makes tensors."
    )


def grouped(parts: Batches, size: int) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Batches held together, up to `size` samples of them, and the positions of their samples."""
    group: list[Any] = []
    start = count = 0
    for _, batch in parts:
        more = batch_size(batch)
        if group and count + more > size:
            yield group, np.arange(start, start + count)
            group, start, count = [], start + count, 0
        group.append(batch)
        count += more
    yield group, np.arange(start, start + count)


def mapped(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """A batch of the same form, tensors changed; a dictionary of any kind becomes a plain one."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(mapped(value, change) for value in batch)
    return batch


def rows(batch: Any, chosen: slice | list[int]) -> Any:
    """Some samples of a batch; tensors that do not have one row per sample stay."""
    size = batch_size(batch)
    return mapped(batch, lambda t: t[chosen] if t.ndim and len(t) == size else t)


def digest_of(value: Any) -> bytes:
    """32 bytes that tell a sample or batch from another; of objects of other kinds their class."""
    sha = hashlib.sha256()
    for leaf in _leaves(value):
        sha.update(_content(leaf))
    return sha.digest()


def _content(leaf: Any) -> bytes:
    if isinstance(leaf, Tensor):
        return tensor_content(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind != "O":
        return f"{leaf.dtype} {leaf.shape} ".encode() + leaf.tobytes()
    if hasattr(leaf, "getbands"):  # of Pillow
        image: Any = leaf
        return f"{image.mode} {image.size} ".encode() + image.tobytes()
    if isinstance(leaf, str | bytes | int | float | np.generic | None):
        return repr(leaf).encode()
    return type(leaf).__name__.encode()


def tensor_content(tensor: Tensor) -> bytes:
    """Type, shape and values of a tensor as bytes."""
    values = numpy_values(tensor)
    return f"torch.{values.dtype} {values.shape} ".encode() + values.tobytes()


def _leaves(batch: Any) -> Iterator[Any]:
    values = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, Mapping | tuple | list):
        for value in values:
            yield from _leaves(value)
    else:
        yield batch


def with_ids(batch: Any) -> tuple[np.ndarray | None, Any]:
    """A batch's own ids, where a field is called so, and the batch without them."""
    if not isinstance(batch, Mapping):
        return None, batch
    name = next((field for field in ID_FIELDS if field in batch), None)
    if name is None:
        return None, batch
    return np.asarray(batch[name]), {key: value for key, value in batch.items() if key != name}


def collate(samples: Sequence[Any]) -> Any:
    """Put samples of one form together; fields of different lengths are filled up at their end."""
    # Of dictionaries, fields of numbers and the id are taken, others (texts, say) left out; where
    # one is filled up, `attention_mask` says so if it was not there.
    if not isinstance(samples[0], Mapping):
        return default_collate(list(samples))
    batch: dict[str, Any] = {}
    for name, first in samples[0].items():
        values = [sample[name] for sample in samples]
        if name in ID_FIELDS:
            batch[name] = values
        elif not isinstance(first, str | bytes) and first is not None:
            batch[name] = _stacked([torch.as_tensor(v) for v in values], PADDING.get(name, 0))
    lengths = [len(torch.as_tensor(s["input_ids"])) for s in samples if "input_ids" in s]
    if lengths and "attention_mask" not in batch and len(set(lengths)) > 1:
        batch["attention_mask"] = (
            torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ).long()
    return batch


def _stacked(values: list[Tensor], fill: int) -> Tensor:
    if len({v.shape for v in values}) == 1:
        return torch.stack(values)
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)


IGNORED = -100  # a token's label that does not count, as in torch
TARGETS = ("labels", "label")
LOSS_WEIGHT = "loss_weight"  # of a sample in the training loss, where the batch has this field


def outputs_of(model: nn.Module, batch: Any) -> Tensor:
    """What the model gives for a batch, (x, ..., targets) or a dictionary: its logits."""
    if isinstance(batch, Mapping):
        left_out = {*TARGETS, LOSS_WEIGHT}
        given = {key: value for key, value in batch.items() if key not in left_out}
        shifted: Any = getattr(model, "prepare_decoder_input_ids_from_labels", None)
        if shifted is not None and "decoder_input_ids" not in given:  # an encoder and a decoder
            given["decoder_input_ids"] = shifted(labels=targets_of(batch))
        outcome = model(**given)
    else:
        parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
        outcome = model(*(parts[:-1] if len(parts) > 1 else parts))
    outcome = getattr(outcome, "logits", outcome)
    if isinstance(outcome, Mapping):  # "out" of torchvision's segmentation
        outcome = outcome.get("logits", outcome.get("out"))
    if isinstance(outcome, tuple | list):
        outcome = outcome[0]
    if not isinstance(outcome, Tensor):
        raise ModelError(
            f"the model must give a tensor, or logits; got {type(outcome).__name__}. Pass loss= "
            "and measure= as functions of the model and a batch."
        )
    return outcome[:, None] if outcome.ndim == 1 else outcome


def targets_of(batch: Any) -> Tensor | None:
    """The last of a tuple; of a dictionary its "labels", else its input_ids without padding."""
    if isinstance(batch, Mapping):
        for name in TARGETS:
            if batch.get(name) is not None:
                return batch[name] if isinstance(batch[name], Tensor) else None
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        if ids is None or mask is None:
            return ids
        return ids.masked_fill(mask == 0, IGNORED)
    last = batch[-1] if isinstance(batch, tuple | list) and len(batch) > 1 else None
    return last if isinstance(last, Tensor) else None  # names of classes, say


def labels_by_name(batch: Any) -> list[str]:
    """A batch's labels where they are words; mostly empty."""
    if isinstance(batch, Mapping):
        given = next((batch[name] for name in TARGETS if name in batch), None)
    else:
        given = batch[-1] if isinstance(batch, tuple | list) and len(batch) > 1 else None
    return [v for v in given if isinstance(v, str)] if isinstance(given, tuple | list) else []


def weights_of(batch: Any, like: Tensor) -> Tensor:
    """The samples' own weights in the training loss, [b] of "loss_weight"; else a 1."""
    given = batch.get(LOSS_WEIGHT) if isinstance(batch, Mapping) else None
    return torch.ones(()).to(like) if given is None else given.to(like)


def to_model(batch: Any, model: nn.Module) -> Any:
    """The batch on the model's device and in its precision; whole numbers stay what they are."""
    like = next(p for p in model.parameters() if p.is_floating_point())
    return mapped(batch, lambda t: t.to(like) if t.is_floating_point() else t.to(like.device))
