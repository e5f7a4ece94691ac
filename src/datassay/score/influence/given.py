"""The samples of a request as one network's outputs index them: the one rule for labels."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.gradients.batches import IGNORED, outputs_of, to_model
from datassay.collect.gradients.criteria import label_rules
from datassay.collect.gradients.reading import Read, samples_or_batches
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import typed_copy
from datassay.data.samples import SampleSet
from datassay.data.targets import Coding, recode_for_outputs, recode_like
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.score.influence.trained_network import TrainedNetwork

# Training samples that are predicted to see whether labels are what the network has learnt.
N_PREDICTED = 64
FEWEST = 50
DOUBT = "the network predicts the given label of"  # how that warning begins
AS_IT_IS = "as it is"  # treatment of a column that needs no preparation


def given_sets(model: nn.Module, train: Any, val: Any, loss: Any) -> tuple[Read, Read | None]:
    """Return training samples and queries as read, labels coded as the network's output indices."""
    coding = coding_of(model, loss)
    samples = samples_or_batches(train, "train", None, coding)
    if isinstance(samples, SampleSet):
        samples = _index_labels(samples, coding)
    if val is None:
        return samples, None
    return samples, query_set(coding, val, samples if isinstance(samples, SampleSet) else None)


def coding_of(model: nn.Module, loss: Any) -> Coding:
    """Return the rules by which labels become output indices: the output shape and the loss."""
    kind, ignored = label_rules(loss)
    is_own = kind == "own"
    return Coding(output_shape(model), kind == "values", is_own=is_own, ignored=ignored)


def query_set(
    coding: Coding,
    val: Any,
    reference: SampleSet | None,
    name: str = "val",
    *,
    are_queries: bool = True,
) -> Read:
    """Return queries as read, their labels coded as those of `reference`, the training samples."""
    coding = replace(coding, is_training=False)
    samples = samples_or_batches(val, name, reference, coding, are_queries=are_queries)
    if not isinstance(samples, SampleSet):
        return samples
    if samples is not val and samples.preparation is not None:
        _check_prepared(samples, reference, name)
    if reference is not None:
        return recode_like(samples, reference)
    return _index_labels(samples, coding, beside_loader=True)


def _check_prepared(samples: SampleSet, reference: SampleSet | None, name: str) -> None:
    """Raise if a query table's columns were scaled by their own rows, not by the training's."""
    if reference is not None and reference.preparation is not None:
        return
    assert samples.preparation is not None
    prepared = [c.name for c in samples.preparation.columns if c.treatment != AS_IT_IS]
    if prepared:
        raise DataError(
            f"{name} must be prepared as the training samples were; nothing here says how columns "
            f"such as {prepared[0]!r} were made numbers of. Pass arrays, or both as data frames."
        )


def _index_labels(samples: SampleSet, coding: Coding, *, beside_loader: bool = False) -> SampleSet:
    """Return samples with labels as indices of outputs [n, k]; as they are for other outputs."""
    if not samples.is_classification:
        return samples
    shape = coding.shape(samples.x[:1])
    if len(shape) != 2:
        return samples
    return recode_for_outputs(samples, shape[1], beside_loader=beside_loader, is_own=coding.is_own)


def warn_if_labels_mismatch(network: TrainedNetwork) -> list[str]:
    """Return a warning if the network predicts the given labels no better than by chance."""
    k = network.n_outputs
    samples = network.train
    if k is None or samples.subset is None or network.n < FEWEST:
        return []
    if not samples.is_streamed:  # of a stream the first samples are predicted
        positions = np.linspace(0, network.n - 1, N_PREDICTED).astype(int)
        samples = samples.subset(np.unique(positions).tolist())
    n_right = 0
    total = 0
    for _, batch in samples:
        with torch.no_grad():
            inputs = to_model(batch, network.model)
            f, y = network.loss.align(
                outputs_of(network.model, inputs), network.loss.targets(inputs)
            )
        if f.shape[1] > 1 or y.is_floating_point():  # several labels, or probabilities
            return []
        if k == 1:
            predicted = (f[..., 0] > 0).long()
        else:
            predicted = f.argmax(-1)
        n_right += int((predicted == y).sum())
        total += int((y != IGNORED).sum())
        if total >= N_PREDICTED:
            break
    n_classes = max(k, 2)
    chance = total / n_classes
    deviation = (chance * (1 - 1 / n_classes)) ** 0.5
    if n_right > chance + deviation:
        return []
    return [
        f"{DOUBT} {n_right} of {total} training samples, no more "
        "than by chance. Were labels or inputs coded otherwise when it was trained, or are these "
        "other weights?"
    ]


def output_shape(model: nn.Module) -> Callable[[np.ndarray], tuple[int, ...]]:
    """Return a function from inputs x to the shape of the network's outputs on them."""

    @lru_cache(maxsize=1)
    def copy_model() -> nn.Module:
        return typed_copy(model, torch.float32)

    def measure_shape(x: np.ndarray) -> tuple[int, ...]:
        def describe(error: str) -> str:
            sizes = ", ".join(["n", *map(str, x.shape[1:])])
            return (
                f"the model must run on samples [{sizes}]; that raised {error} Give samples as it "
                "was trained on."
            )

        inputs = network_inputs(np.ascontiguousarray(x), copy_model(), torch.float32)
        with user_code(describe), torch.no_grad():
            return tuple(outputs_of(copy_model(), (inputs,)).shape)

    return measure_shape
