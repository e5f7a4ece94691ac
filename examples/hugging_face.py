"""VBSW on a pre-trained encoder of Hugging Face transformers, in two ways.

Sentence pairs with labels, as tab-separated files with the columns sentence1, sentence2, label:

    pip install "datassay[hf]"
    python examples/hugging_face.py google/bert_uncased_L-2_H-128_A-2 train.tsv dev.tsv

(a) S0's way: the encoder stays, its features give the weights, the last layer is trained again
under them and put back. (b) The whole network is fine-tuned, each sample's loss times its weight.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

from datassay.act import Reweighted, reweight
from datassay.data import SampleSet
from datassay.estimators import SampleWeightTrainerMixin
from datassay.models import FIELDS, TokenLogits, token_array


def read(path: str | Path, tokenizer: Any, names: tuple[str, ...] = ()) -> SampleSet:
    """The pairs of a file as token ids; names fixes the order of the classes."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    first, second = ([row[key] for row in rows] for key in ("sentence1", "sentence2"))
    labels = [row["label"] for row in rows]
    names = names or tuple(sorted(set(labels)))
    return SampleSet(
        x=token_array(tokenizer(first, second, padding=True, truncation=True, max_length=128)),
        y=np.array([names.index(label) for label in labels], np.int64),
        ids=np.arange(len(rows)),
        class_names=names,
    )


def retrained_head(model: nn.Module, train: SampleSet, val: SampleSet) -> Reweighted:
    """(a): the last layer under local-variance weights; `.model.model` is the whole network."""
    return reweight(TokenLogits(model), train, val, n_neighbors=10, max_ratio=20)


class WeightedTrainer(SampleWeightTrainerMixin, Trainer):
    """(b): any Trainer, each sample's loss times its weight."""


def rows(samples: SampleSet, weights: np.ndarray | None = None) -> list[dict[str, Any]]:
    """One dictionary per sample, as a Trainer reads them; weights are brought to a mean of 1."""
    dictionaries = [
        dict(zip(FIELDS, x, strict=False), labels=int(y))
        for x, y in zip(samples.x, samples.y, strict=True)
    ]
    if weights is not None:
        for row, weight in zip(dictionaries, weights / weights.mean(), strict=True):
            row["sample_weight"] = float(weight)
    return dictionaries


def fine_tuned(
    model: Any, train: SampleSet, val: SampleSet, weights: np.ndarray, out: str, epochs: float = 3
) -> WeightedTrainer:
    """(b): the model trained in place; the Trainer has its logs."""
    arguments = TrainingArguments(
        out,
        num_train_epochs=epochs,
        per_device_train_batch_size=16,
        learning_rate=5e-5,
        remove_unused_columns=False,  # lets sample_weight through
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = WeightedTrainer(
        model, arguments, train_dataset=rows(train, weights), eval_dataset=rows(val)
    )
    trainer.train()
    return trainer


def main(name: str, train_file: str, val_file: str, out: str = "fine-tuned") -> None:
    """Both ways on one encoder; the second network is saved in `out`."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    train = read(train_file, tokenizer)
    val = read(val_file, tokenizer, train.class_names)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=train.n_classes)
    result = retrained_head(model, train, val)
    print(f"accuracy with the last layer retrained: {result.after:.3f}")
    network: Any = result.model.model
    trainer = fine_tuned(network, train, val, result.weights, out)
    logits = trainer.predict(trainer.eval_dataset).predictions  # type: ignore[arg-type]
    print(f"accuracy with all of it fine-tuned: {(np.argmax(logits, 1) == val.y).mean():.3f}")
    network.save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
