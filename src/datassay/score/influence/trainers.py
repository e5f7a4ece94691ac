"""A transformers Trainer as what is explained; nothing here imports transformers."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from datassay.collect.gradients.batches import ID_FIELDS, TARGETS
from datassay.collect.gradients.objective import Objective
from datassay.errors import SettingError
from datassay.optional import coalesce


@dataclass(frozen=True, slots=True)
class FromTrainer:
    """What a Trainer says of its training.

    Attributes:
        model: its network, as it is now.
        train: its training samples, in batches as it makes them.
        queries: likewise; None: the training samples.
        loss: "auto" with its label smoothing, or the user's own.
        notes: what of its training is not in this loss.
        decay: a note on its weight decay, where the optimiser's state is not used; or empty.
        clip: norm that its gradients are clipped at; 0: none.
    """

    model: nn.Module
    train: DataLoader
    queries: Any
    loss: Any
    notes: tuple[str, ...]
    decay: tuple[str, ...]
    clip: float


def is_trainer(model: Any) -> bool:
    """Return whether this is a transformers Trainer, or looks like one."""
    names = ("model", "train_dataset", "data_collator", "args")
    return not isinstance(model, nn.Module) and all(hasattr(model, name) for name in names)


def from_trainer(trainer: Any, queries: Any, val: Any, loss: Any) -> FromTrainer:
    """Take a Trainer apart: its network, samples, loss and notes on its training."""
    if queries is not None and val is not None:
        raise SettingError(
            "a Trainer has its own training samples; give the queries alone: "
            "influence(trainer, queries)."
        )
    if trainer.train_dataset is None:
        raise SettingError(
            "the Trainer must have a train_dataset to attribute to. Give it one, or call "
            "influence(trainer.model, train, queries)."
        )
    collate = _Collate(trainer)
    size = int(getattr(trainer.args, "per_device_train_batch_size", 8))
    loader = coalesce(queries, val)
    if not (loader is None or isinstance(loader, DataLoader)):
        loader = DataLoader(loader, size, collate_fn=collate)
    smoothing = float(getattr(trainer.args, "label_smoothing_factor", 0.0) or 0.0)
    if isinstance(loss, str) and loss == "auto":
        loss = Objective("auto", smoothing=smoothing)
    train = DataLoader(trainer.train_dataset, size, collate_fn=collate)
    clip = float(getattr(trainer.args, "max_grad_norm", 0.0) or 0.0)
    weight_decay = getattr(trainer.args, "weight_decay", 0.0)
    decay = (
        f"the Trainer's weight decay of {weight_decay:g} is its optimiser's and no part of the "
        "loss: weight_decay= counts it as a penalty.",
    ) * bool(weight_decay)
    model = _remove_mixed_precision(trainer.model)
    return FromTrainer(model, train, loader, loss, _list_notes(trainer), decay, clip)


class _Collate:
    """Puts samples together as the Trainer does, and keeps their ids."""

    def __init__(self, trainer: Any):
        self._collate: Callable[[Sequence[Any]], Any] = trainer.data_collator
        self._names: set[str] | None = None
        if getattr(trainer.args, "remove_unused_columns", True):
            base = getattr(trainer.model, "get_base_model", lambda: trainer.model)()
            labels = getattr(trainer, "label_names", None) or ()
            takes = inspect.signature(base.forward).parameters
            self._names = {*takes, *TARGETS, "label_ids", *labels}

    def __call__(self, samples: Sequence[Any]) -> Any:
        if not isinstance(samples[0], Mapping):
            return self._collate(samples)
        batch = dict(self._collate([self._select(sample) for sample in samples]))
        for name in ID_FIELDS:
            if name in samples[0]:
                batch[name] = [sample[name] for sample in samples]
        return batch

    def _select(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        if self._names is None:
            names = sample.keys()
        else:
            names = sample.keys() & self._names
        return {name: sample[name] for name in sample if name in names and name not in ID_FIELDS}


def _remove_mixed_precision(model: nn.Module) -> nn.Module:
    """Remove accelerate's mixed precision, whose forward would run the network it was made of."""
    if "_original_forward" not in vars(model):
        return model
    network = copy.deepcopy(model)
    vars(network)["forward"] = vars(network).pop("_original_forward")
    return network


def _list_notes(trainer: Any) -> tuple[str, ...]:
    method = getattr(type(trainer), "compute_loss", None)
    module = getattr(method, "__module__", "")
    is_own = method is not None and not module.startswith("transformers.")
    if not is_own and getattr(trainer, "compute_loss_func", None) is None:
        return ()
    return (
        "the Trainer's own compute_loss is not used, which means over batches: the loss here "
        "is the task's. Pass loss=lambda model, batch: [b] losses for another.",
    )
