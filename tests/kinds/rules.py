"""What must come of each combination, by the rules for classes, rows and losses alone.

A class that is a whole number which the network's outputs index is that output, everywhere. Words,
and other numbers, are classes in sorted order where the training samples have one for each output.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from kinds import given, truth
from kinds.given import NAMES

K = 4
IGNORED = 255


@dataclass(frozen=True)
class Labels:
    """Labels of training samples and of queries."""

    train: list[Any]
    queries: dict[str, list[Any]]  # by what is asked
    classes: list[Any] | None  # in the order of the outputs; None: no such order, so refused
    is_range: bool = False  # whole numbers that the outputs index
    mentions: tuple[str, ...] = ()  # in the warning or error


def _range(train: list[int]) -> Labels:
    queries = {"all": [0, 1, 2, 3], "some": [1, 3], "one": [2], "unknown": [1, 7]}
    return Labels(train, queries, [0, 1, 2, 3], is_range=True)


def _named(
    train: list[Any], *, works: bool, unknown: Any, mentions: tuple[str, ...] = ()
) -> Labels:
    known = sorted(set(train))
    queries = {
        "all": known,
        "some": known[1:3],
        "one": [known[-1]],
        "unknown": [known[0], unknown],
        "indices": [1, 3],
    }
    return Labels(train, queries, known if works else None, mentions=mentions)


MAPPED_NUMBERS = ("label|class",)
ORDER = "order|random|draw|pass|differ|sampler"
LABELS: dict[str, Labels] = {
    "every class": _range([0, 1, 2, 3]),
    "a class missing": _range([0, 2, 3]),
    "the first class missing": _range([1, 2, 3]),
    "one class": _range([2]),
    "numbers from 1": _named([1, 2, 3, 4], works=True, unknown=0, mentions=MAPPED_NUMBERS),
    "tens": _named([10, 20, 30, 40], works=True, unknown=15, mentions=MAPPED_NUMBERS),
    "tens, one missing": _named([10, 30, 40], works=False, unknown=15, mentions=MAPPED_NUMBERS),
    "a class too many": _named([0, 1, 2, 3, 4], works=False, unknown=9, mentions=MAPPED_NUMBERS),
    "names": _named(list(NAMES), works=True, unknown="zebra"),
    "names, one missing": _named(
        list(NAMES[:3]), works=False, unknown="zebra", mentions=MAPPED_NUMBERS
    ),
    "names, one too many": _named(
        [*NAMES, "yak"], works=False, unknown="zebra", mentions=MAPPED_NUMBERS
    ),
}
ASKED = ("all", "some", "one", "unknown")
OTHER_TARGETS = (
    "classes of one output", "one class of one output", "one value", "values", "probabilities",
    "one-hot", "several labels", "several labels, whole numbers", "some to ignore",
)  # fmt: skip
WEIGHT = [0.5, 2.0, 1.0, 0.25]
POSITIVE = [2.0, 1.0, 0.5, 3.0]


def _parts(model, batch):
    """Outputs and targets of a batch of any form."""
    if isinstance(batch, dict):
        return model(x=batch["x"]), batch["labels"]
    return model(batch[0]), batch[-1]


def own_of_classes(model, batch):
    f, y = _parts(model, batch)
    return functional.cross_entropy(f, y.long(), reduction="none")


def own_of_values(model, batch):
    f, y = _parts(model, batch)
    return (f - y.to(f).reshape(f.shape)).square().square().mean(1)


@dataclass(frozen=True)
class Fit:
    """A loss as its user writes it, with its definition."""

    given: Callable[[], Any]
    loss: truth.Loss | None  # by definition; None: it is refused
    targets: tuple[str, ...]
    measures: tuple[str, ...]
    end: str = "outputs"  # of the network
    smoothing: float = 0.0  # of the labels
    outcome: str = "works"
    mentions: tuple[str, ...] = ()


CLASSES = tuple(LABELS)
INDICES = tuple(name for name, labels in LABELS.items() if labels.is_range)
ALL = ("output", "margin", "loss")
CE = truth.cross_entropy()
LOSS = ("loss",)
VALUES = ("one value", "values")
OWN = truth.Loss(CE.value, is_own=True)
OWN_OF_VALUES = truth.Loss(lambda f, t: (f - t).square().square().mean(), is_own=True)
SEVERAL = ("several labels", "several labels, whole numbers")
BINARY = ("classes of one output", "one class of one output")
FITS: dict[str, Fit] = {
    "auto, of classes": Fit(lambda: "auto", CE, CLASSES, ALL),
    "'cross_entropy'": Fit(lambda: "cross_entropy", CE, CLASSES, ALL),
    "CrossEntropyLoss(label_smoothing)": Fit(
        lambda: nn.CrossEntropyLoss(label_smoothing=0.25), CE, CLASSES, ALL, smoothing=0.25
    ),
    "CrossEntropyLoss(weight)": Fit(
        lambda: nn.CrossEntropyLoss(weight=torch.tensor(WEIGHT)),
        truth.cross_entropy(WEIGHT), CLASSES, ALL,
    ),
    "CrossEntropyLoss(ignore_index)": Fit(
        lambda: nn.CrossEntropyLoss(ignore_index=IGNORED), CE, ("some to ignore", *INDICES), ALL
    ),
    "F.cross_entropy": Fit(lambda: functional.cross_entropy, CE, CLASSES, ALL),
    "NLLLoss": Fit(lambda: nn.NLLLoss(), CE, CLASSES, ALL, end="log_softmax"),
    "'mse', of classes": Fit(lambda: "mse", truth.squares(0.5), CLASSES, ALL),
    "own, of classes": Fit(lambda: own_of_classes, OWN, INDICES, LOSS),
    "auto, of softmax": Fit(
        lambda: "auto", None, INDICES, ALL, end="softmax", outcome="refuses", mentions=("softmax",)
    ),
    "CrossEntropyLoss, of softmax": Fit(
        lambda: nn.CrossEntropyLoss(), CE, INDICES, ALL, "softmax", 0.0, "warns", ("softmax",)
    ),
    "auto, of log_softmax": Fit(lambda: "auto", CE, INDICES, ALL, end="log_softmax"),
    "auto, of one output": Fit(lambda: "auto", truth.binary(), BINARY, ALL),
    "'cross_entropy', of one output": Fit(
        lambda: "cross_entropy", truth.binary(), BINARY, ALL
    ),
    "'cross_entropy', of probabilities": Fit(
        lambda: "cross_entropy", CE, ("probabilities", "one-hot"), LOSS
    ),
    "CrossEntropyLoss, of probabilities": Fit(
        lambda: nn.CrossEntropyLoss(), CE, ("probabilities", "one-hot"), LOSS
    ),
    "F.cross_entropy, of probabilities": Fit(
        lambda: functional.cross_entropy, CE, ("probabilities",), LOSS
    ),
    "auto, of one-hot rows": Fit(
        lambda: "auto", None, ("one-hot",), LOSS, outcome="refuses", mentions=("one-hot",)
    ),
    "auto, of several labels": Fit(
        lambda: "auto", truth.several_labels(1.0), SEVERAL, LOSS
    ),
    "'bce'": Fit(lambda: "bce", truth.several_labels(1.0), SEVERAL, LOSS),
    "BCEWithLogitsLoss": Fit(
        lambda: nn.BCEWithLogitsLoss(), truth.several_labels(1 / K), ("several labels",), LOSS
    ),
    "BCEWithLogitsLoss(pos_weight, weight)": Fit(
        lambda: nn.BCEWithLogitsLoss(
            pos_weight=torch.tensor(POSITIVE), weight=torch.tensor(WEIGHT)
        ),
        truth.several_labels(1 / K, POSITIVE, WEIGHT), ("several labels",), LOSS,
    ),
    "auto, of values": Fit(lambda: "auto", truth.squares(0.5), VALUES, LOSS),
    "auto, of probabilities": Fit(
        lambda: "auto", None, ("probabilities",), LOSS, outcome="refuses", mentions=("probabilit",)
    ),
    "auto, of one value": Fit(lambda: "auto", truth.squares(0.5), ("one value",), ("output",)),
    "'mse'": Fit(lambda: "mse", truth.squares(0.5), (*VALUES, "one-hot"), LOSS),
    "MSELoss": Fit(
        lambda: nn.MSELoss(), truth.sum_of(torch.square), VALUES, LOSS
    ),
    "F.mse_loss": Fit(lambda: functional.mse_loss, truth.sum_of(torch.square), VALUES, LOSS),
    "HuberLoss": Fit(lambda: nn.HuberLoss(), truth.HUBER, VALUES, LOSS),
    "SmoothL1Loss": Fit(lambda: nn.SmoothL1Loss(), truth.HUBER, VALUES, LOSS),
    "L1Loss": Fit(lambda: nn.L1Loss(), truth.ABSOLUTE, VALUES, LOSS),
    "own, of values": Fit(lambda: own_of_values, OWN_OF_VALUES, VALUES, LOSS),
}  # fmt: skip

# Queries, by how they are held; those without labels are named so.
UNLABELLED = ("x alone, array", "x alone, tensor", "x alone, TensorDataset", "x alone, loader",
              "x alone, dictionaries")  # fmt: skip
QUERIES = (
    *given.KINDS, "one sample", "a loader", "a shuffled loader", "the training samples",
    *UNLABELLED,
)  # fmt: skip
LABELLED = tuple(kind for kind in QUERIES if kind not in UNLABELLED)


@dataclass(frozen=True)
class Expected:
    """Outcome of a combination: "works", "warns", "refuses" or "either", answers being right."""

    outcome: str = "works"
    mentions: tuple[str, ...] = ()  # patterns: warnings must match each, the error one


@dataclass(frozen=True)
class Cell:
    """One combination."""

    kind: str  # of the training samples
    sampler: str  # of a loader of them; of an iterable, its order; empty: no loader
    loss: str
    targets: str = "every class"
    asked: str = "all"  # which classes the queries have
    queries: str = "arrays"
    query_sampler: str = ""  # of a loader of queries; empty: none
    measure: str = "loss"
    temperature: float = 1.0
    seed: int = 0

    @property
    def fit(self) -> Fit:
        return FITS[self.loss]

    @property
    def classes(self) -> list[Any] | None:
        """What each class is called, in the order of the outputs; None: these are refused."""
        if self.targets not in LABELS:
            return list(range(K))
        if self.kind == "SampleSet that names all classes":
            return sorted(NAMES)
        return LABELS[self.targets].classes

    @property
    def in_batches(self) -> bool:
        """Whether the training samples come in batches, which nobody has seen all of."""
        return bool(self.sampler) or self.kind in given.IN_BATCHES


def expected(cell: Cell, n: int) -> Expected:
    """The outcome, by the rules."""
    of_loss = Expected(cell.fit.outcome, cell.fit.mentions)
    results = [_of_rows(cell, n), of_loss, _of_classes(cell), _of_queries(cell, n)]
    for outcome in ("refuses", "either", "warns"):
        same = [one for one in results if one.outcome == outcome]
        if same:  # of several errors, any may come first
            is_open = any(not one.mentions for one in same)
            return Expected(outcome, () if is_open else sum((one.mentions for one in same), ()))
    return Expected()


def _of_rows(cell: Cell, n: int) -> Expected:
    if cell.kind == "IterableDataset":
        known = cell.sampler in {"", "in a fixed order"}
        return Expected() if known else Expected("refuses", (ORDER,))
    if not cell.sampler:
        return Expected()
    drawn = given.samplers(n)[cell.sampler]
    return Expected(drawn.outcome, drawn.mentions)


def _of_classes(cell: Cell) -> Expected:
    if cell.targets not in LABELS:
        return Expected()
    labels = LABELS[cell.targets]
    if labels.is_range:
        return Expected()
    if cell.classes is None:
        return Expected("refuses", () if cell.in_batches else labels.mentions)
    if cell.in_batches:
        return Expected("refuses")
    words = labels.train[0] in NAMES
    return Expected() if words else Expected("warns", labels.mentions)


def _of_queries(cell: Cell, n: int) -> Expected:
    if cell.queries == "the training samples":
        return Expected()
    if cell.queries in UNLABELLED:
        return Expected() if cell.measure == "output" else Expected("refuses", ("label|target",))
    words = cell.targets in LABELS and LABELS[cell.targets].train[0] in NAMES
    if cell.asked == "unknown" and cell.loss == "own, of classes" and cell.in_batches:
        return Expected("either")  # only the loss knows which labels it takes
    if cell.asked == "unknown" and cell.measure != "output":
        return Expected("refuses", ("bee|numbers",) if words else ("class|label",))
    if cell.asked in {"unknown", "indices"}:  # labels that are not used; numbers with names
        return Expected("either")
    if cell.query_sampler:
        return Expected(given.samplers(n)[cell.query_sampler].as_queries)
    mapped = cell.targets in LABELS and not LABELS[cell.targets].is_range
    batches = cell.queries in {"a loader", "a shuffled loader", *given.IN_BATCHES}
    return Expected("either") if mapped and batches else Expected()
