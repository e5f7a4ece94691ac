"""The same of an index: made once, asked often, and added to."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import datassay as da
from datassay.errors import DatassayError
from kinds import given, judge, truth
from kinds.rules import LABELS, Cell, Expected, expected

ROUNDING = 1e-4  # of rows in float32
AUTO = "auto, of classes"
ASKING = ("arrays", "tensors", "SampleSet", "own Dataset", "Subset", "list of pairs",
          "dictionaries", "a loader", "one sample")  # fmt: skip
# Training samples of an index, and what may be appended to it.
MADE = (
    Cell("arrays", "", AUTO, "every class"),
    Cell("arrays", "", AUTO, "a class missing", temperature=2.0),
    Cell("arrays", "", AUTO, "one class"),
    Cell("arrays", "", AUTO, "names"),
    Cell("arrays", "", AUTO, "tens"),
    Cell("SampleSet that names all classes", "", AUTO, "names, one missing"),
    Cell("SampleSet", "", AUTO, "the first class missing"),
    Cell("Subset", "", "CrossEntropyLoss(weight)", "a class missing"),
    Cell("own Dataset", "shuffle=True", AUTO, "every class"),
    Cell("own Dataset", "in order", "own, of classes", "a class missing"),
    Cell("own Dataset", "SubsetRandomSampler", AUTO, "every class"),
    Cell("own Dataset", "WeightedRandomSampler", AUTO, "every class"),
    Cell("dictionaries", "", "'mse', of classes", "a class missing"),
    Cell("arrays", "", "auto, of several labels", "several labels"),
    Cell("TensorDataset", "shuffle=True", "MSELoss", "values"),
)
REFUSED = (
    Cell("arrays", "", AUTO, "names, one missing"),
    Cell("own Dataset", "in order", AUTO, "tens"),
    Cell("own Dataset", "own, other draws each time", AUTO, "every class"),
)
REOPENED, ADDED_TO = MADE[:6], MADE[:4]
MORE = ("arrays", "Subset", "list of pairs", "a loader")


def asked_of(cell: Cell) -> list[Cell]:
    """An index with all queries that it is asked."""
    which = ("some", "one", "unknown") if cell.targets in LABELS else ("all",)
    all_ = [replace(cell, queries=kind, asked=one) for one, kind in product(which, ASKING)]
    return [cell for cell in all_ if judge.is_possible(cell)]


def failures(cell: Cell, folder: Path, some: slice, *, reopened: bool) -> dict[Cell, str]:
    """What is wrong with an index's answers to some of what it is asked, by combination."""
    try:
        index = made(cell, folder)
        network = truth.network(judge.n_outputs(cell), cell.fit.end)
        index = da.open_index(folder, network) if reopened else index
    except DatassayError as error:
        return {cell: f"no index: {str(error)[:200]}"}
    all_ = {one: query_failure(one, index) for one in asked_of(cell)[some]}
    return {one: why for one, why in all_.items() if why}


def made(cell: Cell, folder: Path) -> Any:
    fit = cell.fit
    return da.index(
        truth.network(judge.n_outputs(cell), fit.end), judge.train_of(cell), folder,
        loss=fit.given(), curvature="blocks", damping=judge.DAMPING, temperature=cell.temperature,
        bytes_per_sample=2**20, precision="float64",
    )  # fmt: skip


def refusal(cell: Cell, folder: Path) -> str:
    """What is wrong where an index must be refused."""
    return judge.outcome(Expected("refuses"), lambda: made(cell, folder), lambda result: "")


def query_failure(cell: Cell, index: Any) -> str:
    """What is wrong with an answer about queries."""
    return judge.outcome(
        expected(cell, judge.N),
        lambda: index.query(judge.queries_of(cell), top=None, measure=cell.measure),
        lambda result: judge.difference(cell, result, ROUNDING),
    )


def append_failure(cell: Cell, kind: str, folder: Path) -> str:
    """What is wrong with an index that samples were added to."""
    x, y = judge.inputs(cell.seed, "more"), judge.labels_of(cell, "more")
    data = given.KINDS["own Dataset" if kind == "a loader" else kind](x, y)
    data = DataLoader(data, batch_size=4) if kind == "a loader" else data
    must = expected(replace(cell, queries=kind), judge.N)
    wanted = replace(cell, asked="some") if cell.targets in LABELS else cell

    def ask() -> Any:
        index = made(cell, folder).append(data)
        return index.query(judge.queries_of(wanted), top=None, measure=cell.measure)

    return judge.outcome(must, ask, lambda result: _appended(wanted, y, result))


def _appended(cell: Cell, y: np.ndarray, found: Any) -> str:
    """Effects of both together, in the curvature of the first."""
    k, end = judge.n_outputs(cell), cell.fit.end
    old = judge.derivatives(k, end, cell.seed, "train")
    new = judge.derivatives(k, end, cell.seed, "more")
    first = judge.coded(cell, judge.labels_of(cell, "train"), smoothed=True)
    targets = torch.cat([first, judge.coded(cell, y, smoothed=True)])
    queries = judge.derivatives(k, end, cell.seed, "queries")
    n = len(targets)
    true = truth.effects(
        truth.Derivatives(
            torch.cat([old.f, new.f]),
            tuple(torch.cat(pair) for pair in zip(old.blocks, new.blocks, strict=True)),
        ),
        targets, torch.full((n,), 1 / n).double(), queries,
        judge.coded(cell, judge.labels_of(cell, "queries"), smoothed=cell.measure == "loss"),
        loss=cell.fit.loss, measure=cell.measure, temperature=cell.temperature,
        damping=judge.DAMPING,
        fitted=(old, first, torch.full((judge.N,), 1 / judge.N).double()),
    )  # fmt: skip
    return judge.unequal(found.effect, true, ROUNDING)
