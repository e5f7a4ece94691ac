"""Samples that are drawn at random each time they are read, as augmentation does: one draw each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from datassay.collect.gradients.batches import digest_of
from datassay.errors import DataError
from datassay.models.user_code import user_code

# Samples that are read twice, to see whether they are drawn anew.
LOOKED_AT = 8
SEED = 0


class Drawn:
    """A Dataset whose random draws depend on the sample's index alone: the same in every pass."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        with fixed_draws(SEED, index):
            return self._dataset[index]


@contextmanager
def generators_kept() -> Iterator[None]:
    """The generators of torch, NumPy and Python are as before when this ends."""
    numpy = np.random.get_state()  # noqa: NPY002 users draw from the global generator
    python, own = random.getstate(), torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)
        torch.set_rng_state(own)


@contextmanager
def fixed_draws(*seeds: Any) -> Iterator[None]:
    """Draws of torch, NumPy and Python by a seed.

    Args:
        seeds: numbers or words.
    """
    seed = random.Random(repr(seeds)).getrandbits(32)
    with generators_kept():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 the user's own draws
        torch.default_generator.manual_seed(seed)  # of the processor alone
        yield


def settled(dataset: Any, indices: Sequence[Any], name: str) -> tuple[Any, tuple[str, ...]]:
    """A Dataset that gives the same samples each time it is read.

    Args:
        dataset: by index.
        indices: of its samples.
        name: of the argument, for errors.

    Returns:
        It, or one draw of each sample; and a warning where it is that.

    Raises:
        DataError: samples differ from one reading to the next whatever the seeds of torch, NumPy
            and Python are; or the Dataset raised.

    Cost: a few samples are read twice.
    """
    places = np.linspace(0, len(indices) - 1, min(LOOKED_AT, len(indices))).astype(int)
    few = [indices[place] for place in places.tolist()]
    if not _differ(lambda i: dataset[i], few, name):
        return dataset, ()
    drawn = Drawn(dataset)
    if _differ(lambda i: drawn[i], few, name):
        raise DataError(
            f"{name} must give the same sample each time it is read; its Dataset draws at random "
            "from a generator of its own. Switch augmentation off, or read it once: "
            "list(dataset)."
        )
    return drawn, (
        f"{name} is drawn at random each time it is read, as augmentation does: one draw of each "
        "sample is taken, the same in every pass. Effects of other draws may differ.",
    )


def collates_alike(
    collate: Callable[[Any], Any], dataset: Any, indices: Sequence[Any], name: str
) -> bool:
    """Whether a collate function gives the same batch of the same samples.

    Args:
        collate: samples → a batch.
        dataset: settled.
        indices: of its samples.
        name: of the argument, for errors.

    Returns:
        False where it draws at random, as a masked language model's does.
    """
    few = list(indices[:2])
    return not _differ(lambda some: collate([dataset[i] for i in some]), [few], name)


def _differ(read: Callable[[Any], Any], asked: Sequence[Any], name: str) -> bool:
    def refused(error: str) -> str:
        return (
            f"{name}: its Dataset or collate function raised {error} Mend it; nothing was computed."
        )

    with user_code(refused, DataError), generators_kept():
        first = [digest_of(read(one)) for one in asked]
        return first != [digest_of(read(one)) for one in asked]
