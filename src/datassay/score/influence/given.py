"""The samples of a request as one network's outputs index them: the one rule for labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.gradients.criteria import takes_values
from datassay.collect.gradients.objective import outputs_of
from datassay.collect.gradients.reading import Read, samples_or_batches
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.outputs import Coding, indexed, named_alike
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.models.user_code import user_code

AS_IT_IS = "as it is"  # of a column that needs no preparation


def given_sets(model: nn.Module, train: Any, val: Any, loss: Any) -> tuple[Read, Read | None]:
    """Training samples and queries, their labels as the network's outputs have them.

    Args:
        model: the network.
        train: as in `samples_or_batches`.
        val: the queries, likewise; None: there are none.
        loss: of the training, as in `objective`.

    Returns:
        Both. Whole numbers that index outputs stay what they are; names, and other numbers, are
        those of the training set.

    Raises:
        DataError: samples are not usable, or which label is which output cannot be told.
        ModelError: the network cannot be run.
    """
    shape = output_shape(model)
    own = takes_values(loss)
    given = samples_or_batches(train, "train", None, Coding(shape, own))
    if isinstance(given, SampleSet) and not own:
        given = _indexed(given, shape)
    if val is None:
        return given, None
    return given, query_set(shape, val, given if isinstance(given, SampleSet) else None, own)


def query_set(
    shape: Callable[[np.ndarray], tuple[int, ...]],
    val: Any,
    like: SampleSet | None,
    own: bool,
    name: str = "val",
    *,
    queries: bool = True,
) -> Read:
    """Samples that follow those of the training.

    Args:
        shape: from `output_shape`.
        val: as in `samples_or_batches`.
        like: the training samples; None: a loader, or what has no names of classes.
        own: whether the loss compares numbers, or is the user's own.
        name: of the argument, for errors.
        queries: whether they are queries; else further training samples.

    Returns:
        The samples.

    Raises:
        DataError: they are not usable, or a label is no class of the training.
        ModelError: the network cannot be run.
    """
    coding = Coding(shape, own, is_training=False)
    found = samples_or_batches(val, name, like, coding, queries=queries)
    if not isinstance(found, SampleSet):
        return found
    if found is not val and found.preparation is not None:
        _check_prepared(found, like, name)
    if like is not None:
        return named_alike(found, like)
    return found if own else _indexed(found, shape, beside_loader=True)


def _check_prepared(found: SampleSet, like: SampleSet | None, name: str) -> None:
    """Refuse a table whose columns would be prepared by its own rows."""
    if like is not None and like.preparation is not None:
        return
    assert found.preparation is not None
    changed = [c.name for c in found.preparation.columns if c.treatment != AS_IT_IS]
    if changed:
        raise DataError(
            f"{name} must be prepared as the training samples were; nothing here says how columns "
            f"such as {changed[0]!r} were made numbers of. Pass arrays, or both as data frames."
        )


def _indexed(
    samples: SampleSet,
    shape: Callable[[np.ndarray], tuple[int, ...]],
    *,
    beside_loader: bool = False,
) -> SampleSet:
    if not samples.is_classification:
        return samples
    found = shape(samples.x[:1])
    return indexed(samples, found[-1], beside_loader=beside_loader) if len(found) == 2 else samples


def output_shape(model: nn.Module) -> Callable[[np.ndarray], tuple[int, ...]]:
    """The shape of a network's outputs, asked when it is needed.

    Args:
        model: the network; left untouched.

    Returns:
        From a sample's inputs, [1, ...], to [1, ...].
    """

    @lru_cache(maxsize=1)
    def copied() -> nn.Module:
        return frozen_copy(model, torch.float32)

    def shape(x: np.ndarray) -> tuple[int, ...]:
        def refused(error: str) -> str:
            return (
                f"the model must run on samples of shape {list(x.shape[1:])}; that raised {error} "
                "Give samples as it was trained on."
            )

        given = network_inputs(np.ascontiguousarray(x), copied(), torch.float32)
        with user_code(refused), torch.no_grad():
            return tuple(outputs_of(copied(), (given,)).shape)

    return shape
