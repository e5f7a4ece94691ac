"""Batches of samples that can be read again and again, and a model's outputs for one."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import default_collate

from datassay.collect.fingerprint import numpy_values
from datassay.collect.jacobian.suitable import keep_activations
from datassay.errors import DataError, ModelError
from datassay.optional import as_tuple, text_if
from datassay.results import result

ID_FIELDS = ("id", "ids", "idx")
# What the field is filled up with where samples have different lengths; 0 in others.
PADDING = {"labels": -100}


@result
class Batches:
    """Samples in batches, which can be read again and again."""

    # Called for each new pass; yields (the batch's ids or None, batch).
    parts: Callable[[], Iterator[tuple[np.ndarray | None, Any]]]
    ids: np.ndarray | None  # [n]; None: counted or read on the way
    n: int | None  # None: unknown before the first pass
    subset: "Callable[[Sequence[int]], Batches] | None" = None  # the samples at these positions
    weights: Float[np.ndarray, " n"] | None = None  # in the mean loss, 1 on average; None: all 1
    warnings: tuple[str, ...] = ()
    is_streamed: bool = False  # all samples must be held in memory to take some by position

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield (ids, batch); ids are the samples' positions where none are given."""
        start = 0
        for ids, batch in self.parts():
            size = batch_size(batch)
            if ids is None:
                positions = np.arange(start, start + size)
                ids = positions
                if self.ids is not None:
                    ids = self.ids[positions]
            start += size
            yield ids, batch


class Joined(tuple):
    """One sample, in whose tensors the first axis counts its parts: the nodes of a graph, say."""


class JoinedFields(dict):
    """One sample of several parts, as `Joined`, whose tensors have names."""


def join_parts(batch: Any) -> Joined | JoinedFields:
    """Return a batch marked as a single sample of several parts."""
    if isinstance(batch, Mapping):
        return JoinedFields(batch)
    return Joined(as_tuple(batch))


def batch_size(batch: Any) -> int:
    """Return the number of samples in a batch: its first tensor's length; 1 if joined."""
    if isinstance(batch, Joined | JoinedFields):
        return 1
    for leaf in _list_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return len(leaf)
    raise DataError(
        f"a batch must hold tensors, one row per sample; got a {type(batch).__name__} without. "
        "Give the loader a collate_fn that makes a tuple or dictionary of tensors."
    )


def group_batches(parts: Batches, size: int) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Yield lists of batches with up to `size` samples together, and their positions."""
    group: list[Any] = []
    start = 0
    stop = 0
    for _, batch in parts:
        n_added = batch_size(batch)
        if group and stop + n_added > start + size:
            yield group, np.arange(start, stop)
            group = []
            start = stop
        group.append(batch)
        stop += n_added
    yield group, np.arange(start, stop)


def map_batch(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return a batch of any structure with `change` applied to each tensor."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        changed = {key: map_batch(value, change) for key, value in batch.items()}
        if isinstance(batch, JoinedFields):
            return JoinedFields(changed)
        return changed
    if isinstance(batch, tuple | list):
        return type(batch)(map_batch(value, change) for value in batch)
    return batch


def rows(batch: Any, idx: slice | list[int]) -> Any:
    """Return a batch of the samples at `idx`; tensors without a row per sample stay."""
    if isinstance(batch, Joined | JoinedFields):
        return batch
    size = batch_size(batch)
    return map_batch(batch, lambda t: t[idx] if t.ndim and len(t) == size else t)


def digest_of(value: Any) -> bytes:
    """Return a 32-byte digest of a sample or batch; unknown objects count by their class."""
    sha = hashlib.sha256()
    for leaf in _list_leaves(value):
        sha.update(_content_bytes(leaf))
    return sha.digest()


def has_parts(batch: Any, collate: Callable[[Any], Any], samples: list[Any]) -> bool:
    """Return whether a batch has tensors per part instead of per sample, such as offsets."""
    digests = _digest_parts(batch)
    if not digests:
        return False
    by_sample = [_digest_parts(with_ids(collate([sample]))[1]) for sample in samples]
    return any(digests != by_sample[0] for digests in by_sample)  # else all samples share these


def _digest_parts(batch: Any) -> list[bytes]:
    """Return a digest of each tensor whose length is not the number of samples."""
    size = batch_size(batch)
    tensors: list[Tensor] = []
    map_batch(batch, tensors.append)
    return [digest_of(tensor) for tensor in tensors if tensor.ndim and len(tensor) != size]


def _content_bytes(leaf: Any) -> bytes:
    """Return bytes that identify a tensor, array, picture, text or number of a batch."""
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
    """Return the type, shape and values of a tensor as bytes."""
    values = numpy_values(tensor)
    return f"torch.{values.dtype} {values.shape} ".encode() + values.tobytes()


def _list_leaves(batch: Any) -> Iterator[Any]:
    """Yield the values nested in a batch's mappings, tuples and lists, in order."""
    if isinstance(batch, Mapping | tuple | list):
        values = batch.values() if isinstance(batch, Mapping) else batch
        for value in values:
            yield from _list_leaves(value)
    else:
        yield batch


def with_ids(batch: Any) -> tuple[np.ndarray | None, Any]:
    """Return (ids, batch without its id field); ids are None if there is no such field."""
    if not isinstance(batch, Mapping):
        return None, batch
    name = next((field for field in ID_FIELDS if field in batch), None)
    if name is None:
        return None, batch
    return np.asarray(batch[name]), {key: value for key, value in batch.items() if key != name}


def collate(samples: Sequence[Any]) -> Any:
    """Return samples of one structure as a batch; sequences are padded at the end."""
    # Of dictionaries, ids and fields of numbers are taken, others (texts, say) left out. Where
    # token ids are padded, `attention_mask` is added unless it exists.
    if not isinstance(samples[0], Mapping):
        return default_collate(list(samples))
    batch: dict[str, Any] = {}
    for name, example in samples[0].items():
        values = [sample[name] for sample in samples]
        if name in ID_FIELDS:
            batch[name] = values
        elif is_nested(example):
            batch[name] = collate(values)
        elif not isinstance(example, str | bytes) and example is not None:
            batch[name] = _stack_or_pad([torch.as_tensor(v) for v in values], PADDING.get(name, 0))
    lengths = [len(torch.as_tensor(s["input_ids"])) for s in samples if "input_ids" in s]
    if lengths and "attention_mask" not in batch and len(set(lengths)) > 1:
        batch["attention_mask"] = (
            torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ).long()
    return batch


def is_nested(value: Any) -> bool:
    """Return whether a field holds fields of its own: a mapping, or a tuple of tensors."""
    if isinstance(value, tuple | list):
        return any(isinstance(v, Tensor | np.ndarray) and v.ndim for v in value)
    return isinstance(value, Mapping)


def _stack_or_pad(values: list[Tensor], fill: int) -> Tensor:
    if len({v.shape for v in values}) == 1:
        return torch.stack(values)
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)


IGNORED = -100  # a token's label that does not count, as in torch
TARGETS = ("labels", "label")
LOSS_WEIGHT = "loss_weight"  # of a sample in the training loss, where the batch has this field


def outputs_of(model: nn.Module, batch: Any) -> Tensor:
    """Return the model's logits, [b, ...]; batch: a tuple (x, ..., targets) or a dict."""
    if isinstance(batch, Mapping):
        no_inputs = {*TARGETS, LOSS_WEIGHT}
        inputs = {key: value for key, value in batch.items() if key not in no_inputs}
        shift_labels: Any = getattr(model, "prepare_decoder_input_ids_from_labels", None)
        if shift_labels is not None and "decoder_input_ids" not in inputs:  # encoder and decoder
            inputs["decoder_input_ids"] = shift_labels(labels=tokens_of(batch))
        if "input_ids" in inputs:
            mask = signature(model.forward).parameters.get("attention_mask")
            if mask is not None and mask.default is Parameter.empty:
                inputs.setdefault("attention_mask", torch.ones_like(inputs["input_ids"]))
        with keep_activations():
            outcome = model(**inputs)
    else:
        parts = as_tuple(batch)
        if len(parts) > 1:
            parts = parts[:-1]
        with keep_activations():
            outcome = model(*parts)
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
    if outcome.ndim == 1:
        return outcome[:, None]
    return outcome


def failure_message(model: nn.Module, batch: Any, error: str) -> str:
    """Return a message with the remedy, for an error of the model or loss on a batch."""
    check = "Check"
    if isinstance(batch, Mapping) and batch:
        names = ", ".join(map(repr, batch))
        check = f"Batches have {names} and no other field: check"
    is_double = any(p.dtype == torch.float64 for p in model.parameters())
    precision = text_if(is_double, "take precision='float32' if it runs in no other, ")
    return (
        f"the model and loss must run on the batches given; that raised {error} {check} what the "
        f"loader gives, {precision}or pass loss=lambda model, batch: [b] losses."
    )


def targets_of(batch: Any) -> Tensor | None:
    """Return a batch's targets: a tuple's last item, or "labels"; None without any."""
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in TARGETS if batch.get(name) is not None), None)
    else:
        labels = None
        if isinstance(batch, tuple | list) and len(batch) > 1:
            labels = batch[-1]
    if not isinstance(labels, Tensor):  # names of classes, say
        return None
    return labels


def tokens_of(batch: Any) -> Tensor | None:
    """Return a batch's targets; a text's token ids, padding ignored, if it has none."""
    targets = targets_of(batch)
    if targets is not None or not isinstance(batch, Mapping):
        return targets
    ids = batch.get("input_ids")
    mask = batch.get("attention_mask")
    if ids is None or mask is None:
        return ids
    return ids.masked_fill(mask == 0, IGNORED)


def labels_by_name(batch: Any) -> list[str]:
    """Return a batch's labels that are strings; [] where they are numbers."""
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in TARGETS if name in batch), None)
    else:
        labels = None
        if isinstance(batch, tuple | list) and len(batch) > 1:
            labels = batch[-1]
    if not isinstance(labels, tuple | list):
        return []
    return [v for v in labels if isinstance(v, str)]


def weights_of(batch: Any, reference: Tensor) -> Tensor:
    """Return each sample's loss weight, [b], from "loss_weight"; a scalar 1 without it."""
    # They have the type and device of `reference`.
    weights = None
    if isinstance(batch, Mapping):
        weights = batch.get(LOSS_WEIGHT)
    if weights is None:
        return reference.new_ones(())
    return weights.to(reference)


def to_model(batch: Any, model: nn.Module) -> Any:
    """Move a batch to the model's device and precision; integers stay integers."""
    param = next(p for p in model.parameters() if p.is_floating_point())
    return map_batch(batch, lambda t: t.to(param) if t.is_floating_point() else t.to(param.device))


def describe_shape(value: object) -> str:
    """Return a tensor's shape, "[2, 3]", or the name of the type of what is none."""
    return str(list(value.shape)) if isinstance(value, Tensor) else type(value).__name__
