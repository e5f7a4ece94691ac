"""Which combinations are tried: all that are known to be dangerous, and a draw of the others."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import combinations, product

import numpy as np

from kinds import given
from kinds.judge import N, is_possible
from kinds.rules import ASKED, FITS, INDICES, LABELLED, LABELS, QUERIES, UNLABELLED, Cell

AUTO = "auto, of classes"
SAMPLERS = tuple(given.samplers(N))
ORDERS = tuple(given.streams(np.zeros((1, 1)), np.zeros(1)))
DRAWN, SEEDS, SEED = 300, 4, 34


def of_train_labels() -> list[Cell]:
    """Each kind of training samples with all sorts of labels."""
    return [
        Cell(kind, sampler, AUTO, targets, "some", measure="loss", temperature=2.0)
        for (kind, sampler), targets in product(
            [*((kind, "") for kind in given.KINDS), ("own Dataset", "in order")], LABELS
        )
    ]


def of_samplers() -> list[Cell]:
    """Each sampler, with each Dataset below it; and iterables."""
    loaders = [
        Cell(kind, sampler, AUTO, "a class missing", "some", measure="margin")
        for kind, sampler in product(given.MAPPED, SAMPLERS)
    ]
    selfs = [
        Cell("own Dataset", sampler, AUTO, queries="the training samples", measure="output")
        for sampler in SAMPLERS
    ]
    return [*loaders, *selfs, *(Cell("IterableDataset", order, AUTO) for order in ORDERS)]


def of_queries() -> list[Cell]:
    """Each kind of queries that lack classes, beside arrays and a loader."""
    further = [
        ("arrays", "", "every class"), ("arrays", "", "a class missing"), ("arrays", "", "names"),
        ("arrays", "", "tens"), ("own Dataset", "shuffle=True", "every class"),
        ("own Dataset", "in order", "one class"),
    ]  # fmt: skip
    return [
        Cell(kind, sampler, AUTO, targets, wanted, queries)
        for (kind, sampler, targets), wanted, queries in product(further, ASKED, LABELLED)
        if wanted in {"some", "unknown"} or (wanted == "one" and targets == "every class")
        if wanted == "some" or queries != "the training samples"
    ] + [Cell("arrays", "", AUTO, "names", "indices", queries) for queries in LABELLED[:-1]]


def of_unlabelled() -> list[Cell]:
    """Queries without labels, by all measures."""
    return [
        Cell(kind, sampler, AUTO, queries=queries, measure=measure)
        for (kind, sampler), queries, measure in product(
            [("arrays", ""), ("own Dataset", "shuffle=True")], UNLABELLED, ("output", "loss")
        )
    ]


def of_query_samplers() -> list[Cell]:
    """Each sampler beside queries."""
    return [
        Cell(kind, sampler, AUTO, "every class", wanted, "a loader", drawn)
        for (kind, sampler), wanted, drawn in product(
            [("arrays", ""), ("own Dataset", "in order")], ("all", "some"), SAMPLERS
        )
    ]


def of_losses() -> list[Cell]:
    """Each loss with each of its targets and measures, of arrays and of a loader."""
    return [
        Cell(kind, sampler, name, targets, measure=measure, temperature=temperature)
        for (kind, sampler, temperature), (name, fit) in product(
            [("arrays", "", 2.0), ("own Dataset", "shuffle=True", 1.0)], FITS.items()
        )
        for targets in fit.targets
        if targets not in LABELS or targets in INDICES[:2]
        for measure in fit.measures
    ]


def drawn() -> list[Cell]:
    """All else, at random: kinds of training samples × samplers × losses × targets × queries."""
    rng = np.random.default_rng(SEED)
    results: list[Cell] = []
    starts = [
        *((kind, "") for kind in given.KINDS),
        *product(given.MAPPED, SAMPLERS),
        *(("IterableDataset", order) for order in ORDERS),
    ]
    while len(results) < DRAWN:
        bare = rng.random() < 0.4  # else loaders, of which there are more kinds, would be all
        kind, sampler = starts[rng.integers(len(given.KINDS) if bare else len(starts))]
        loss = str(rng.choice(list(FITS)))
        of_classes = rng.random() < 0.7
        targets = [t for t in FITS[loss].targets if t in INDICES or not of_classes]
        if not targets:
            continue
        query = str(rng.choice(QUERIES))
        cell = Cell(
            kind, sampler, loss, str(rng.choice(targets)), str(rng.choice(ASKED[:3])), query, "",
            str(rng.choice(FITS[loss].measures)), float(rng.choice([1.0, 2.0])),
            int(rng.integers(1, SEEDS)),
        )  # fmt: skip
        if query in UNLABELLED:
            cell = replace(cell, measure="output")
        if is_possible(cell):
            results.append(cell)
    return results


GROUPS = {
    "labels of training samples": of_train_labels, "samplers": of_samplers, "queries": of_queries,
    "queries without labels": of_unlabelled, "samplers of queries": of_query_samplers,
    "losses": of_losses, "drawn at random": drawn,
}  # fmt: skip


@cache
def cells(group: str) -> tuple[Cell, ...]:
    """Of a group, without those that nobody can have."""
    return tuple(dict.fromkeys(cell for cell in GROUPS[group]() if is_possible(cell)))


def few(group: Iterable[Cell]) -> list[Cell]:
    """As few of these as together have each pair of values that any of them has."""
    left = {cell: set(combinations(vars(cell).items(), 2)) for cell in group}
    chosen: list[Cell] = []
    while any(left.values()):
        chosen.append(max(left, key=lambda cell: len(left[cell])))
        now = left.pop(chosen[-1])
        left = {cell: pairs - now for cell, pairs in left.items()}
    return chosen


def everything() -> set[Cell]:
    return {cell for group in GROUPS for cell in cells(group)}
