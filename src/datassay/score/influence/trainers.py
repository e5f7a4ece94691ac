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
        decay_notes: on its weight decay, where the optimiser's state is not used; or empty.
        clip: norm that its gradients are clipped at; 0: none.
    """

    model: nn.Module
    train: DataLoader
    queries: Any
    loss: Any
    notes: tuple[str, ...]
    decay_notes: tuple[str, ...]
    clip: float


def is_trainer(model: Any) -> bool:
    """Return whether this is a transformers Trainer, or looks like one."""
    names = ("model", "train_dataset", "data_collator", "args")
    return not isinstance(model, nn.Module) and all(hasattr(model, name) for name in names)


def from_trainer(trainer: Any, queries: Any, val: Any, loss: Any) -> FromTrainer:
    """Return a Trainer's network, samples, loss, and notes on its training."""
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
    batch_size = int(getattr(trainer.args, "per_device_train_batch_size", 8))
    queries = coalesce(queries, val)
    if not (queries is None or isinstance(queries, DataLoader)):
        queries = DataLoader(queries, batch_size, collate_fn=collate)
    smoothing = float(getattr(trainer.args, "label_smoothing_factor", 0.0) or 0.0)
    if isinstance(loss, str) and loss == "auto":
        loss = Objective("auto", smoothing=smoothing)
    weight_decay = getattr(trainer.args, "weight_decay", 0.0)
    decay_notes = ()
    if weight_decay:
        decay_notes = (
            f"the Trainer's weight decay of {weight_decay:g} is its optimiser's and no part of the "
            "loss: weight_decay= counts it as a penalty.",
        )
    model = _remove_mixed_precision(trainer.model)
    train = DataLoader(trainer.train_dataset, batch_size, collate_fn=collate)
    clip = float(getattr(trainer.args, "max_grad_norm", 0.0) or 0.0)
    return FromTrainer(
        model, train, queries, loss, _list_notes(trainer), decay_notes=decay_notes, clip=clip
    )


class _Collate:
    """Puts samples together as the Trainer does, and keeps their ids."""

    def __init__(self, trainer: Any):
        self._collate: Callable[[Sequence[Any]], Any] = trainer.data_collator
        self._names: set[str] | None = None  # of the columns that the model takes; None: all
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
        """Return a sample's columns that the model takes, without ids."""
        return {
            name: value
            for name, value in sample.items()
            if name not in ID_FIELDS and (self._names is None or name in self._names)
        }


def _remove_mixed_precision(model: nn.Module) -> nn.Module:
    """Return a copy without accelerate's mixed-precision forward, which refers to the model."""
    if "_original_forward" not in vars(model):
        return model
    network = copy.deepcopy(model)
    vars(network)["forward"] = vars(network).pop("_original_forward")
    return network


def _list_notes(trainer: Any) -> tuple[str, ...]:
    """Return a note if the Trainer's loss is the user's own; else ()."""
    method = getattr(type(trainer), "compute_loss", None)
    module = getattr(method, "__module__", "")
    is_own = method is not None and not module.startswith("transformers.")
    if not is_own and getattr(trainer, "compute_loss_func", None) is None:
        return ()
    return (
        "the Trainer's own compute_loss is not used, which means over batches: the loss here "
        "is the task's. Pass loss=lambda model, batch: [b] losses for another.",
    )
