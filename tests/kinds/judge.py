"""Run a combination, and compare what comes of it with what must."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import datassay as da
from datassay.errors import DatassayError
from kinds import given, truth
from kinds.rules import IGNORED, LABELS, OTHER_TARGETS, Cell, Expected, K, expected

N, M = 14, 7
INTEGERS = (np.int64, np.int32, np.uint8)
DAMPING = 0.5
ONE_OUTPUT = ("classes of one output", "one class of one output", "one value")


@cache
def inputs(seed: int, role: str) -> np.ndarray:
    n = {"train": N, "queries": M, "more": 6}[role]
    rng = np.random.default_rng([seed, n])
    return rng.normal(size=(n, truth.WIDTH)).astype(np.float32)


def labels_of(cell: Cell, role: str) -> np.ndarray:
    """Targets as their user holds them."""
    n = len(inputs(cell.seed, role))
    rng = np.random.default_rng([cell.seed, n, 1])
    if cell.targets in OTHER_TARGETS:
        return _other(cell.targets, n, rng, role)
    labels = LABELS[cell.targets]
    drawn = labels.train if role == "train" else labels.queries[cell.asked]
    y = np.array(drawn)[rng.permutation(np.arange(n) % len(drawn))]
    return y if y.dtype.kind == "U" else y.astype(INTEGERS[cell.seed % len(INTEGERS)])


def _other(name: str, n: int, rng: np.random.Generator, role: str) -> np.ndarray:
    if name == "one value":
        return (rng.integers(-7, 8, n) / 8 + 1 / 16).astype(np.float32)
    if name == "values":
        return (rng.integers(-7, 8, (n, K)) / 8 + 1 / 16).astype(np.float32)
    if name == "probabilities":
        return (rng.multinomial(8, [0.4, 0.3, 0.2, 0.1], n) / 8).astype(np.float32)
    if name == "one-hot":
        return np.eye(K, dtype=np.float32)[rng.permutation(np.arange(n) % K)]
    if name.startswith("several labels"):
        both = np.r_[[[1, 1, 0, 0]], rng.integers(0, 2, (n - 1, K))]
        return both.astype(np.float32 if name == "several labels" else np.int64)
    if name == "some to ignore":
        y = rng.permutation(np.arange(n) % K)
        return np.where(np.arange(n) % 6 == 3, IGNORED, y) if role == "train" else y
    one = name == "one class of one output"
    return np.ones(n, int) if one else rng.permutation(np.arange(n) % 2)


def coded(cell: Cell, y: np.ndarray, *, smoothed: bool) -> Tensor | None:
    """Targets as the definition has them, [n, k]; None: they are unknown."""
    if cell.targets in ONE_OUTPUT:
        return torch.tensor(y).double()[:, None]
    if y.ndim == 2:
        return torch.tensor(y).double()
    classes = cell.classes
    if y.dtype.kind != "U" and classes and isinstance(classes[0], str):
        classes = list(range(K))  # whole numbers with names: outputs
    if classes is None or not np.isin(y, [*classes, IGNORED]).all():
        return None
    hard = torch.tensor(y[:, None] == np.array(classes)).double()
    share = cell.fit.smoothing if smoothed else 0.0
    return ((1 - share) * hard + share / K) * hard.sum(1, keepdim=True)


def n_outputs(cell: Cell) -> int:
    return 1 if cell.targets in ONE_OUTPUT else K


@cache
def derivatives(k: int, end: str, seed: int, role: str) -> truth.Derivatives:
    return truth.derivatives(truth.network(k, end), inputs(seed, role))


def rows(samples: truth.Derivatives, chosen: list[int]) -> truth.Derivatives:
    return truth.Derivatives(samples.f[chosen], tuple(b[chosen] for b in samples.blocks))


def training(cell: Cell) -> tuple[list[int], list[float]]:
    """Positions of the samples that take part, and how much each weighs."""
    if cell.sampler and cell.kind != "IterableDataset":
        drawn = given.samplers(N)[cell.sampler]
        return drawn.ids, drawn.counts
    return list(range(N)), [1.0] * N


def query_order(cell: Cell, ids: list[int]) -> tuple[str, list[int]]:
    """Where the queries' rows are, and which in what order."""
    if cell.queries == "the training samples":
        return "train", ids
    if cell.queries == "one sample":
        return "queries", [_one(cell)]
    if cell.query_sampler:
        return "queries", list(given.samplers(M)[cell.query_sampler].order)
    return "queries", list(range(M))


def _one(cell: Cell) -> int:
    """The query that is asked alone: of a class that nobody knows, where there are such."""
    if cell.targets not in LABELS or cell.asked != "unknown":
        return 3
    known = [*LABELS[cell.targets].train, *(cell.classes or ())]
    return int(np.flatnonzero(~np.isin(labels_of(cell, "queries"), known))[0])


def definition(cell: Cell, **changed: Any) -> np.ndarray:
    """[n, m] by brute force, samples in the order of `training`."""
    ids, counts = training(cell)
    y = labels_of(cell, "train")
    targets = coded(cell, y, smoothed=True)
    role, order = query_order(cell, ids)
    theirs = coded(cell, labels_of(cell, role), smoothed=cell.measure == "loss")
    k, end = n_outputs(cell), cell.fit.end
    shares = torch.tensor(counts).double() / sum(counts)
    of_train = rows(changed.get("train", derivatives(k, end, cell.seed, "train")), ids)
    return truth.effects(
        of_train, targets[ids], shares,
        rows(derivatives(k, end, cell.seed, role), order),
        None if theirs is None else theirs[order],
        loss=cell.fit.loss, measure=cell.measure, temperature=cell.temperature, damping=DAMPING,
    )  # fmt: skip


def train_of(cell: Cell) -> Any:
    x, y = inputs(cell.seed, "train"), labels_of(cell, "train")
    if cell.kind == "IterableDataset":
        stream = given.streams(x, y)[cell.sampler or "in a fixed order"]
        return DataLoader(stream, batch_size=4) if cell.sampler else stream
    data = given.KINDS[cell.kind](x, y)
    return given.loader(data, given.samplers(N)[cell.sampler]) if cell.sampler else data


def queries_of(cell: Cell) -> Any:
    """As they are given; None: the training samples."""
    x = inputs(cell.seed, "queries")
    if cell.queries == "the training samples":
        return None
    alone: dict[str, Callable[[], Any]] = {
        "x alone, array": lambda: x,
        "x alone, tensor": lambda: torch.tensor(x),
        "x alone, TensorDataset": lambda: TensorDataset(torch.tensor(x)),
        "x alone, loader": lambda: DataLoader(TensorDataset(torch.tensor(x)), batch_size=4),
        "x alone, dictionaries": lambda: [{"x": row} for row in torch.tensor(x)],
    }
    if cell.queries in alone:
        return alone[cell.queries]()
    y = labels_of(cell, "queries")
    if cell.queries == "one sample":
        one = slice(_one(cell), _one(cell) + 1)
        return x[one], y[one]
    if cell.queries in {"a loader", "a shuffled loader"}:
        data = given.Pairs(x, y)
        shuffled = cell.queries == "a shuffled loader"
        if cell.query_sampler:
            return given.loader(data, given.samplers(M)[cell.query_sampler])
        return DataLoader(data, batch_size=3, shuffle=shuffled)
    return given.KINDS[cell.queries](x, y)


def answer(cell: Cell, work: list[str]) -> Any:
    """What the library says; `work` gets the steps it reports."""
    return answer_of(cell, train_of(cell), queries_of(cell), work)


ITS_OWN: Any = object()


def answer_of(cell: Cell, train: Any, queries: Any = ITS_OWN, work: list[str] | None = None) -> Any:
    """Of samples that may be others than the combination says."""
    work = [] if work is None else work
    return da.influence(
        truth.network(n_outputs(cell), cell.fit.end),
        train,
        queries_of(cell) if queries is ITS_OWN else queries,
        loss=cell.fit.given(), measure=cell.measure, curvature="blocks", damping=DAMPING,
        temperature=cell.temperature, precision="float64",
        progress=lambda step, done, total: work.append(step),
    )  # fmt: skip


def failure(cell: Cell, ask: Callable[[Cell, list[str]], Any] = answer) -> str:
    """What is wrong; empty: nothing."""
    must, work = expected(cell, N), []

    def right(found: Any) -> str:
        wrong = difference(cell, found) or _of_method(cell, found.method)
        if wrong or must.outcome != "warns":
            return wrong
        message = " ".join(found.warnings)
        missing = [p for p in must.mentions if not re.search(p, message, re.IGNORECASE)]
        return f"said nothing of {missing}" if missing else ""

    return outcome(must, lambda: ask(cell, work), right, lambda e: _refused(cell, must, e, work))


def outcome(
    must: Expected,
    ask: Callable[[], Any],
    right: Callable[[Any], str],
    refused: Callable[[DatassayError], str] = lambda error: "",
) -> str:
    """What is wrong with what comes of a question: an answer, a refusal, or anything else."""
    try:
        result = ask()
    except DatassayError as error:
        allowed = must.outcome in {"refuses", "either"}
        return refused(error) if allowed else f"refused: {str(error)[:200]}"
    except Exception as error:  # noqa: BLE001  the judge tells of whatever comes
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    return "answered, where it must refuse" if must.outcome == "refuses" else right(result)


def _of_method(cell: Cell, method: str) -> str:
    """Whether the method names the temperature where it was applied, and nowhere else."""
    applied = cell.fit.loss.softened and cell.temperature != 1
    return "" if ("temperature" in method) == applied else f"method is {method!r}"


def _refused(cell: Cell, must: Expected, error: DatassayError, work: list[str]) -> str:
    # Labels of a loader are looked at as the first pass over it comes to them.
    if work and not (cell.targets == "a class too many" and set(work) == {"fit the curvature"}):
        return f"refused after work ({work[0]}): {str(error)[:100]}"
    reported = re.search("|".join(must.mentions), str(error), re.IGNORECASE)
    return "" if reported else f"refused without a mention of {must.mentions}: {str(error)[:200]}"


def difference(cell: Cell, found: Any, most: float = 1e-6) -> str:
    """How an answer differs from the definition by more than `most`; empty: not."""
    ids, _ = training(cell)
    start = 100 if cell.kind.startswith("SampleSet") else 0
    theirs = (np.asarray(found.ids) - start).tolist()
    if sorted(theirs) != sorted(ids):
        return f"ids are {theirs}, not {ids}"
    in_order = not cell.sampler or cell.kind == "IterableDataset"
    if in_order and theirs != ids:
        return f"ids are out of order: {theirs}"
    right = definition(cell)[[ids.index(i) for i in theirs]]
    if cell.queries == "the training samples":
        right = right[:, [ids.index(i) for i in theirs]]
    return unequal(found.effect, right, most)


def unequal(effect: np.ndarray, right: np.ndarray, most: float = 1e-6) -> str:
    """How far effects are from the right ones; empty: no further than rounding."""
    if effect.shape != right.shape:
        return f"effects are {effect.shape}, not {right.shape}"
    if not np.isfinite(effect).all():
        return "effects are not finite"
    correlation = np.corrcoef(effect.ravel(), right.ravel())[0, 1]
    far = np.abs(effect - right).max() / np.abs(right).max()
    if correlation >= 1 - most and far <= most:
        return ""
    return f"wrong: correlation {correlation:.4f}, differs by {far:.2g}"


def is_possible(cell: Cell) -> bool:
    """Whether a user can hold these samples so."""
    if not given.holds(cell.kind, labels_of(cell, "train")):
        return False
    words = labels_of(cell, "queries").dtype.kind == "U"
    if cell.queries in given.KINDS and not given.holds(cell.queries, labels_of(cell, "queries")):
        return False
    if cell.queries in {"a loader", "a shuffled loader"} and words:
        return False
    return cell.measure in cell.fit.measures and cell.targets in cell.fit.targets
