"""The same samples in every form that users hold them in, and every sampler beside a loader."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import datassay as da

COLUMNS = list("abcdef")
NAMES = ("wolf", "bee", "cat", "ant")  # not in sorted order


class Pairs(Dataset):
    """A user's own Dataset: tensors and labels as plain numbers or words."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = torch.tensor(x), y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, Any]:
        return self.x[i], plain(self.y[i])


class Stream(IterableDataset):
    """Samples one after the other; `order` gives their positions anew for each pass."""

    def __init__(self, x, y, order: Callable[[], Any] | None = None) -> None:
        self.x, self.y = torch.tensor(x), y
        self.order = order or (lambda: range(len(x)))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, Any]]:
        return iter([(self.x[i], plain(self.y[i])) for i in self.order()])


class Own(Sampler):
    """A user's own sampler; `order` is called in each pass."""

    def __init__(self, order: Callable[[], Any], length: int) -> None:
        self.order, self.length = order, length

    def __iter__(self) -> Iterator[int]:
        return iter(self.order())

    def __len__(self) -> int:
        return self.length


class Noisy(Dataset):
    """Each look at a sample draws it anew; what was drawn is written down."""

    def __init__(self, x: np.ndarray, y: np.ndarray, by: str) -> None:
        self.x, self.y, self.by = torch.tensor(x), y, by
        self.drawn: dict[int, list[np.ndarray]] = {i: [] for i in range(len(x))}

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, Any]:
        width = self.x.shape[1]
        noise = {
            "torch": lambda: torch.randn(width).numpy(),
            "numpy": lambda: np.random.normal(size=width),  # noqa: NPY002
            "random": lambda: np.array([random.gauss(0, 1) for _ in range(width)]),
        }[self.by]()
        x = self.x[i] + torch.tensor(np.asarray(noise, dtype=np.float32))
        self.drawn[i].append(x.numpy().astype(np.float64))
        return x, plain(self.y[i])


def plain(value: Any) -> Any:
    """A label as a user's Dataset gives it: an int, a float, a word, or a tensor of several."""
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    return value.item() if isinstance(value, np.generic) else value


def _sample_set(x, y):
    """A SampleSet as `load` would make it, and ids of the user's own."""
    ids = np.arange(100, 100 + len(x))
    if y.dtype.kind == "f":
        return da.SampleSet(x=x, y=y.astype(np.float64), ids=ids)
    names, coded = np.unique(y, return_inverse=True)
    kind = "string" if y.dtype.kind == "U" else "integer"
    return da.SampleSet(
        x=x, y=coded.astype(np.int64), ids=ids, class_names=tuple(map(str, names)), label_type=kind
    )


def _all_named(x, y):
    """A SampleSet whose class_names are all classes, whether or not a sample has each."""
    names = sorted(NAMES)
    return da.SampleSet(
        x=x, y=np.searchsorted(names, y), ids=np.arange(100, 100 + len(x)), class_names=tuple(names)
    )


def _frame(x, y):
    return pd.DataFrame(dict(zip(COLUMNS, x.T, strict=True)) | {"label": y})


def _frame_and_labels(x, y):
    frame = pd.DataFrame(x, columns=COLUMNS)
    return frame, y if y.ndim > 1 else pd.Series(y, name="label")


def _subset(x, y):
    """Every other sample of a larger Dataset, from its end."""
    n = len(x)
    chosen = list(range(2 * n - 1, 0, -2))
    wide = np.random.default_rng(5).normal(size=(2 * n, x.shape[1])).astype(np.float32)
    labels = np.repeat(y[::-1], 2, 0)
    wide[chosen] = x
    labels[chosen] = y
    return Subset(Pairs(wide, labels), chosen)


def _halves(x, y):
    half = len(x) // 2
    return ConcatDataset([Pairs(x[:half], y[:half]), Pairs(x[half:], y[half:])])


def _dictionaries(x, y):
    pairs = zip(x, y, strict=True)
    return [{"x": torch.tensor(row), "labels": torch.tensor(label)} for row, label in pairs]


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "arrays": lambda x, y: (x, y),
    "tensors": lambda x, y: (torch.tensor(x), torch.tensor(y)),
    "SampleSet": _sample_set,
    "SampleSet that names all classes": _all_named,
    "da.load": lambda x, y: da.load((x, y), val_fraction=0)[0],
    "data frame": _frame,
    "data frame and labels": _frame_and_labels,
    "TensorDataset": lambda x, y: TensorDataset(torch.tensor(x), torch.tensor(y)),
    "own Dataset": Pairs,
    "Subset": _subset,
    "ConcatDataset": _halves,
    "list of pairs": lambda x, y: [(row, plain(label)) for row, label in zip(x, y, strict=True)],
    "dictionaries": _dictionaries,
    "IterableDataset": Stream,
}
# What a loader may hold.
MAPPED = (
    "TensorDataset", "own Dataset", "Subset", "ConcatDataset", "list of pairs", "dictionaries",
)  # fmt: skip
# Batches only: no array holds them.
IN_BATCHES = ("dictionaries", "IterableDataset")


def holds(kind: str, y: np.ndarray) -> bool:
    """Whether such targets can be in such a thing at all."""
    words = y.dtype.kind == "U"
    if kind in {"tensors", "TensorDataset", "dictionaries"}:
        return not words
    if kind == "data frame":
        return y.ndim == 1
    one_hot = y.ndim == 2 and ((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all()
    if kind == "SampleSet that names all classes":
        return words and set(y) <= set(NAMES)
    if kind == "da.load":  # it has refusals of its own
        return len(np.unique(y)) > 1 and not one_hot
    return True


@dataclass(frozen=True)
class Drawn:
    """What a sampler gives."""

    arguments: Callable[[Any], dict[str, Any]]  # of the loader, from its Dataset
    ids: list[int]  # positions of the samples that take part, in order
    counts: list[float]  # how much each of them weighs
    outcome: str = "works"
    mentions: tuple[str, ...] = ()
    in_order: bool = False  # the batches' order is that of `ids`
    as_queries: str = "works"  # the outcome for queries
    order: tuple[int, ...] = ()  # of queries


def samplers(n: int) -> dict[str, Drawn]:
    """Every sampler, of a Dataset of n samples, in batches of 4."""
    every = list(range(n))
    known = {"ids": every, "counts": [1.0] * n, "order": tuple(every)}
    chosen = [i for i in every if i % 4 != 1]
    weights = [float(i % 5) for i in every]
    positive = [i for i in every if weights[i]]
    repeated = [*every[: n - 3], 2, 5, 5, 0][::-1]
    distinct = sorted(set(repeated))
    whole = every[: n - n % 4]

    def own(order: Callable[[], Any], length: int = n) -> Callable[[Any], dict[str, Any]]:
        return lambda data: {"batch_size": 4, "sampler": Own(order, length)}

    def batched(inner: Callable[[Any], Any], *, drop: bool = False) -> Callable[[Any], Any]:
        return lambda data: {"batch_sampler": BatchSampler(inner(data), 4, drop)}

    def distributed(replicas: int) -> Callable[[Any], dict[str, Any]]:
        return lambda data: {
            "batch_size": 4,
            "sampler": DistributedSampler(data, replicas, 0, shuffle=True),
        }

    return {
        "in order": Drawn(lambda data: {"batch_size": 4}, **known, in_order=True),
        "shuffle=True": Drawn(lambda data: {"batch_size": 4, "shuffle": True}, **known),
        "SubsetRandomSampler": Drawn(
            lambda data: {"batch_size": 4, "sampler": SubsetRandomSampler(chosen)},
            chosen, [1.0] * len(chosen), as_queries="either", order=tuple(chosen),
        ),
        "BatchSampler(SequentialSampler)": Drawn(
            batched(SequentialSampler), **known, in_order=True
        ),
        "BatchSampler(RandomSampler)": Drawn(batched(RandomSampler), **known),
        "WeightedRandomSampler": Drawn(
            lambda data: {"batch_size": 4, "sampler": WeightedRandomSampler(weights, n)},
            positive, [weights[i] for i in positive], as_queries="refuses",
        ),
        "DistributedSampler, alone": Drawn(distributed(1), **known, as_queries="either"),
        "DistributedSampler, one of two": Drawn(distributed(2), **known, as_queries="either"),
        "own, in a fixed order": Drawn(
            own(lambda: every[::-1]), every[::-1], [1.0] * n, order=tuple(every[::-1])
        ),
        "own, with repeats": Drawn(
            own(lambda: repeated, len(repeated)),
            distinct, [float(repeated.count(i)) for i in distinct], order=tuple(repeated),
        ),
        "own, a permutation each time": Drawn(
            own(lambda: torch.randperm(n).tolist()), **known, as_queries="either"
        ),
        "own, other draws each time": Drawn(
            own(lambda: torch.randint(n, (n,)).tolist()), every, [1.0] * n,
            "refuses", ("order|random|draw|pass|differ|sampler",), as_queries="refuses",
        ),
        "list of batches": Drawn(
            lambda data: {"batch_sampler": [every[i : i + 4] for i in range(0, n, 4)]},
            **known, in_order=True,
        ),
        "drop_last": Drawn(
            lambda data: {"batch_size": 4, "drop_last": True},
            whole, [1.0] * len(whole), "warns", ("drop_last|left out|last",), in_order=True,
            as_queries="either", order=tuple(whole),
        ),
        "BatchSampler with drop_last": Drawn(
            batched(SequentialSampler, drop=True),
            whole, [1.0] * len(whole), "warns", ("drop_last|left out|last",), in_order=True,
            as_queries="either", order=tuple(whole),
        ),
        "shuffle=True, drop_last": Drawn(
            lambda data: {"batch_size": 4, "shuffle": True, "drop_last": True},
            **known, as_queries="either",
        ),
        "RandomSampler with replacement": Drawn(
            lambda data: {"batch_size": 4, "sampler": RandomSampler(data, True, n)},
            **known | {"outcome": "either", "as_queries": "refuses"},
        ),
    }  # fmt: skip


def streams(x: np.ndarray, y: np.ndarray) -> dict[str, Stream]:
    """Iterables whose order is known, or not."""
    n = len(x)
    lengths = iter(range(n, 0, -1))
    return {
        "in a fixed order": Stream(x, y),
        "in another order each time": Stream(x, y, lambda: torch.randperm(n).tolist()),
        "one shorter each time": Stream(x, y, lambda: range(next(lengths))),
    }


def loader(data: Any, drawn: Drawn) -> DataLoader:
    return DataLoader(data, **drawn.arguments(data))
