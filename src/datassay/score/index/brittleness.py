"""Brittleness: the fewest training samples whose removal turns a prediction."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import nn

from datassay.collect.gradients.batches import Batches, outputs_of, to_model
from datassay.collect.loss import loss_named
from datassay.errors import SettingError
from datassay.progress import Progress
from datassay.results import Tabular, column, result
from datassay.rules import require
from datassay.score.effects import LARGEST_MATRIX

Retrain = Callable[[Int[np.ndarray, " kept"]], nn.Module]
"""From positions of the samples that stay, ascending, to a network trained on them alone."""
PRECISION = 0.05  # of the number of samples, to which bisection determines it


@result
class Brittleness(Tabular):
    """Which samples carry each prediction, one row per query.

    Attributes:
        predicted: [m], the output that is largest; of one output 1 where it is positive, else 0.
        becomes: [m], the output it turns to.
        margin: [m], by how much the prediction leads that one, output unit.
        size: [m], samples whose removal turns it; 0: none were found.
        removed: their positions in the index, those that carry it most first, a [size] array each.
        is_retrained: whether networks trained without them confirm each size.
    """

    predicted: Int[np.ndarray, " m"] = column("the class index that is predicted")
    becomes: Int[np.ndarray, " m"] = column("the class index it turns to")
    margin: Float[np.ndarray, " m"] = column("lead of the prediction over that one", unit="output")
    size: Int[np.ndarray, " m"] = column(
        "samples whose removal turns the prediction", sign="0: none found; few: brittle"
    )
    removed: tuple[np.ndarray, ...]
    is_retrained: bool

    def to_table(self) -> pa.Table:
        """Return one row per query: its number, predicted, becomes, margin and size."""
        columns = {name: getattr(self, name) for name in ("predicted", "becomes", "margin", "size")}
        return pa.table({"query": np.arange(len(self.size)), **columns})


def check(n: int, outputs: Float[np.ndarray, "m ..."], loss: str, share: float) -> None:
    """Raise unless an index supports brittleness: classes, cross-entropy, and small enough."""
    require(0 < share < 1, "most", "be a share of the samples, above 0 and below 1", share)
    if not loss_named(loss).has_one_class or outputs.ndim != 2:
        raise SettingError(
            "brittleness needs an index by cross-entropy, one class per sample; got one by "
            f"{loss}, outputs {list(outputs.shape)}. Ask `query` which samples count."
        )
    m, k = outputs.shape
    if n * m * k > LARGEST_MATRIX:
        raise SettingError(
            f"samples x queries x outputs must be at most {LARGEST_MATRIX:,}; got {n:,} x {m:,} x "
            f"{k}. Ask for fewer queries at a time."
        )


def brittleness(
    effect: Float[np.ndarray, "n columns"],
    outputs: Float[np.ndarray, "m k"],
    queries: Batches,
    share: float,
    retrain: Retrain | None,
    progress: Progress,
) -> Brittleness:
    """Return for each query the smallest set of samples whose removal flips its prediction."""
    # effect: of each sample on each output of each query (columns: m k), with the sample minus
    # without. share: of the samples that may be removed.
    effects = effect.reshape(len(effect), *outputs.shape)
    predicted = _predict_classes(outputs)
    if outputs.shape[1] == 1:  # class 0 has the output 0
        effects = np.concatenate([np.zeros_like(effects), effects], -1)
        outputs = np.concatenate([np.zeros_like(outputs), outputs], -1)
    n, m = len(effects), len(outputs)
    limit = max(1, int(share * n))
    becomes = predicted.copy()
    size = np.zeros(m, int)
    removed = []
    for query, label in enumerate(predicted):
        turn = _find_easiest_flip(effects[:, query], outputs[query], int(label), limit)
        becomes[query] = turn.becomes
        n_needed = turn.n_needed
        if retrain is not None:
            is_turned = partial(_is_turned, retrain, queries, n, query, int(label))
            n_needed = _count_needed(n_needed, turn.order, is_turned)
        if n_needed <= limit:
            size[query] = n_needed
        removed.append(turn.order[: size[query]])
        progress("brittleness", query + 1, m)
    margin = outputs[np.arange(m), predicted] - outputs[np.arange(m), becomes]
    is_retrained = retrain is not None
    return Brittleness(predicted, becomes, margin, size, tuple(removed), is_retrained)


class _Turn(NamedTuple):
    """Removal that turns a prediction, by added effects."""

    becomes: int  # the class that it turns to
    n_needed: int  # of `order`; more than there are where removal does not turn it
    order: Int[np.ndarray, " limit"]  # samples that may go, those that carry it most first


def _find_easiest_flip(
    effects: Float[np.ndarray, "n k"], outputs: Float[np.ndarray, " k"], label: int, limit: int
) -> _Turn:
    """Return the flip of one query's class that needs the fewest samples removed."""
    lead = outputs[label] - outputs
    turns = []
    # The nearest class first: where added effects turn to none, retraining tries that one.
    for candidate in np.argsort(lead, kind="stable").tolist():
        if candidate != label:
            support = effects[:, label] - effects[:, candidate]
            order = np.argsort(-support, kind="stable")[:limit]
            cumulated = np.maximum.accumulate(support[order].cumsum())
            n_needed = 1 + int(np.searchsorted(cumulated, lead[candidate], "right"))
            turns.append(_Turn(candidate, n_needed, order))
    return min(turns, key=lambda turn: turn.n_needed)  # the first of equal ones


def _count_needed(
    n_needed: int, order: Int[np.ndarray, " limit"], is_turned: Callable[[np.ndarray], bool]
) -> int:
    """Return how many samples of `order` must go, by retraining; limit + 1: all are too few."""
    # Starts at `n_needed`, doubles until the prediction turns, then bisects.
    low = 0
    high = min(n_needed, len(order))
    limit = len(order)
    while not is_turned(order[:high]):
        if high == limit:
            return limit + 1
        low = high
        high = min(2 * high, limit)
    while high - low > max(1, int(PRECISION * high)):
        middle = (low + high) // 2
        if is_turned(order[:middle]):
            high = middle
        else:
            low = middle
    return high


def _is_turned(
    retrain: Retrain, queries: Batches, n: int, query: int, predicted: int, removed: np.ndarray
) -> bool:
    """Return whether a network trained without some samples predicts another class for a query."""
    model = retrain(np.delete(np.arange(n), removed))
    return bool(_predict_classes(all_outputs(model, queries))[query] != predicted)


def all_outputs(model: Any, queries: Batches) -> Float[np.ndarray, "m ..."]:
    """Return a network's outputs for the queries, in evaluation mode."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = [outputs_of(model, to_model(batch, model)).double().cpu() for _, batch in queries]
    model.train(was_training)
    return torch.cat(batches).numpy()


def _predict_classes(outputs: Float[np.ndarray, "m k"]) -> Int[np.ndarray, " m"]:
    """Return predicted classes: of largest output; of one output 1 if it is positive."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0).astype(int)
    return outputs.argmax(1)
