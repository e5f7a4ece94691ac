"""Effects of removing each sample on each query: from chunks to one result."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.loss import loss_named
from datassay.errors import SettingError
from datassay.results import Meaning, Tabular, result, with_meanings
from datassay.rules import require
from datassay.score.settings import DEFAULT_TOP, OUTCOMES, check_top


@result
class Outcome:
    """One number per query, as a function of the network's outputs.

    Attributes:
        measure: "output": the output of the class that the network predicts (the only output, where
            there is one). "margin": how far the given label leads: its output minus the largest
            other one (squared error) or its log odds (cross-entropy). "loss": of the given target.
        loss: "mse" or "cross_entropy": what the network is trained with.
        targets: [m, k], one-hot for classes ({0, 1} for two classes with one output).
        predicted: [m], the class that the network predicts; fixed, also when outputs change.
        is_classification: whether targets are classes.
    """

    measure: str
    loss: str
    targets: Float[Tensor, "m k"]
    predicted: Int[Tensor, " m"]
    is_classification: bool

    def __call__(self, outputs: Float[Tensor, "... m k"]) -> Float[Tensor, "... m"]:
        """Return each query's outcome under these outputs: output, margin or loss."""
        if self.measure == "output":
            if outputs.shape[-1] == 1:
                return outputs[..., 0]
            predicted = self.predicted.expand(outputs.shape[:-1])[..., None]
            return outputs.gather(-1, predicted)[..., 0]
        loss = loss_named(self.loss)
        if self.measure == "margin":
            return loss.margin(outputs, self.targets)
        return loss.value(outputs, self.targets)


def outcome(
    measure: str,
    loss: str,
    outputs: Float[Tensor, "m k"],
    targets: Float[Tensor, "m k"] | None,
    *,
    is_classification: bool,
) -> Outcome:
    """Return the function from outputs to the queries' outcome; raise if it does not suit.

    Args:
        measure: "output", "margin" or "loss".
        loss: "mse" or "cross_entropy".
        outputs: of the network trained on all samples; they decide the predicted class.
        targets: of the queries; None where none are known (then only "output" can be asked).
        is_classification: whether targets are classes.

    Returns:
        The outcome.

    Raises:
        SettingError: measure is unknown, a margin is asked of a regression, one output of several,
            or a loss or margin without targets.
    """
    require(measure in OUTCOMES, "measure", "be 'output', 'margin' or 'loss'", repr(measure))
    if measure == "margin" and not is_classification:
        raise SettingError("measure='margin' needs classes; this is a regression. Use 'loss'.")
    if measure == "output" and not is_classification and outputs.shape[1] > 1:
        raise SettingError(
            f"measure='output' needs one target; got {outputs.shape[1]}. Use 'loss', which sums "
            "them."
        )
    if targets is None:
        if measure != "output":
            raise SettingError(f"measure={measure!r} needs the queries' targets. Use 'output'.")
        targets = torch.zeros_like(outputs)
    return Outcome(measure, loss, targets.double(), outputs.argmax(1), is_classification)


# Up to this many values (256 MiB) the whole matrix is kept; above, the largest effects per query.
LARGEST_MATRIX = 2**25
# Values that the changed outputs of one chunk of samples may hold, 64 MiB.
CHUNK_VALUES = 2**23
MEASURED_VALUES = 2**19  # whose outcome is taken at a time
EFFECTS = {
    "query": Meaning("position of the query among the validation samples"),
    "query_id": Meaning("id of the query; of a training sample where none is held out"),
    "direction": Meaning("raises or lowers the query's measure"),
    "rank": Meaning("among the samples of that direction, from 1"),
    "id": Meaning("id of the training sample"),
    "effect": Meaning(
        "what the training sample's presence adds to the query's measure",
        "of the measure that `of` names",
        "above 0: its presence raises the measure",
    ),
    "of": Meaning("which measure: output, margin or loss"),
}


@result
class TopEffects:
    """The samples with the largest effects on each query.

    Attributes:
        raising: [m, t], positions of the training samples whose presence raises the query's outcome
            most, largest first; filled up with samples that lower it, if too few raise it.
        raising_effect: [m, t], their effects.
        lowering: [m, t], those whose presence lowers it most, most negative first; likewise.
        lowering_effect: [m, t], their effects.

    Where the training samples are the queries, a query's effect on itself counts as 0 here.
    """

    raising: Int[np.ndarray, "m t"]
    raising_effect: Float[np.ndarray, "m t"]
    lowering: Int[np.ndarray, "m t"]
    lowering_effect: Float[np.ndarray, "m t"]


@result
class Attribution(Tabular):
    """Effect of every training sample on every query: its outcome with the sample minus without.

    Attributes:
        effect: [n, m], outcome unit; None where only the largest were stored (`top`).
        top: the largest effects per query, always stored.
        total: Σ_j effect, [n], over all queries.
        prediction_change: Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖², [n], output unit squared; None where only the
            outcome was differentiated, not each output.
        weight_change: ‖w − w₋ᵢ‖², [n], weight unit squared; None where several checkpoints' steps
            add up.
        outcome: [m], outcome of each query with all samples.
        measure: "output", "margin" or "loss"; see `Outcome`.
        method: how the removal was computed.
        ids: [n], the training samples' ids.
        warnings: what the user should know about these numbers; may be empty.
        self_influence: how much its presence lowers each sample's own loss, [n], loss unit: large
            for wrong labels and rare samples; of a loss softened by `influence(temperature="auto")`
            it is that of the loss itself (`method` says so). None in the linearised network (see
            `leave_one_out`).
    """

    effect: Float[np.ndarray, "n m"] | None
    top: TopEffects
    total: Float[np.ndarray, " n"]
    prediction_change: Float[np.ndarray, " n"] | None
    weight_change: Float[np.ndarray, " n"] | None
    outcome: Float[np.ndarray, " m"]
    measure: str
    method: str
    ids: np.ndarray
    warnings: tuple[str, ...] = ()
    self_influence: Float[np.ndarray, " n"] | None = None

    def to_table(self) -> pa.Table:
        """Return one row per query and top sample: query, direction, rank, id, effect."""
        # Each direction ends where its sign does: with few samples the last one raising may lower.
        top = self.top
        directions = [
            (top.raising, top.raising_effect, top.raising_effect > 0, "raises"),
            (top.lowering, top.lowering_effect, top.lowering_effect < 0, "lowers"),
        ]
        table = pa.concat_tables([
            pa.table({
                "query": np.nonzero(is_kept)[0],
                "direction": pa.array([word] * int(is_kept.sum()), pa.string()),
                "rank": np.nonzero(is_kept)[1] + 1,
                "id": self.ids[samples[is_kept]],
                "effect": effects[is_kept],
            })
            for samples, effects, is_kept, word in directions
        ])
        return with_meanings(table, EFFECTS)


@result
class OutputChanges:
    """Changes by removing each sample of one chunk, from any method.

    Attributes:
        start: position of the chunk's first sample.
        outputs: f(x_j) − f₋ᵢ(x_j), [chunk, m, k].
        weights: ‖w − w₋ᵢ‖², [chunk].
        self_influence: −∇ℓ_iᵀ(w − w₋ᵢ), [chunk]; None where it is not computed.
    """

    start: int
    outputs: Float[Tensor, "chunk m k"]
    weights: Float[Tensor, " chunk"]
    self_influence: Float[Tensor, " chunk"] | None = None


@result
class Effects:
    """Effects of each sample of one chunk on the queries' outcomes.

    Attributes:
        start: position of the chunk's first sample.
        effect: outcome with minus without, [chunk, m].
        prediction: Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖², [chunk], or None.
        weight: ‖w − w₋ᵢ‖², [chunk], or None.
        self_influence: fall of its own loss by its presence, [chunk], or None.
    """

    start: int
    effect: Float[Tensor, "chunk m"]
    prediction: Float[Tensor, " chunk"] | None
    weight: Float[Tensor, " chunk"] | None
    self_influence: Float[Tensor, " chunk"] | None = None


def effects_of(
    changes: Iterable[OutputChanges],
    outputs: Float[Tensor, "m k"],
    measured: Outcome,
    *,
    is_first_order: bool = False,
) -> Iterator[Effects]:
    """Yield effects on the outcome from chunks of output changes."""
    # outputs: of the network trained on all samples.
    with_all = measured(outputs)
    slope = None
    if is_first_order:
        slope = torch.func.grad(lambda f: measured(f).sum())(outputs)
    for chunk in changes:
        # A few samples at a time: an outcome takes several copies of what it is computed from.
        output_changes = chunk.outputs.split(max(1, MEASURED_VALUES // outputs.numel()))
        if slope is None:
            effects = [with_all - measured(outputs - change) for change in output_changes]
        else:
            effects = [(change * slope).sum(2) for change in output_changes]
        yield Effects(
            start=chunk.start,
            effect=torch.cat(effects),
            prediction=torch.cat([change.square().sum((1, 2)) for change in output_changes]),
            weight=chunk.weights,
            self_influence=chunk.self_influence,
        )


def gather(
    chunks: Iterable[Effects],
    with_all: Float[Tensor, " m"],
    measure: str,
    ids: np.ndarray,
    method: str,
    top: int | None,
    own_query: Int[np.ndarray, " n"] | None = None,
) -> Attribution:
    """Return the attribution of n samples collected from chunks of their effects."""
    # with_all: the outcome of each query. own_query: each sample's position among the queries, or
    # −1; None: none is a query.
    n, m = len(ids), len(with_all)
    check_top(top)
    is_whole = top is None and n * m <= LARGEST_MATRIX
    effects = torch.empty(n if is_whole else 0, m, dtype=torch.float64)
    keep = min(top or DEFAULT_TOP, n)
    raising = _Leaders(keep, keeps_largest=True)
    lowering = _Leaders(keep, keeps_largest=False)
    total = torch.empty(n, dtype=torch.float64)
    by_name: dict[str, list[Any]] = {"prediction": [], "weight": [], "self_influence": []}
    for chunk in chunks:
        rows = slice(chunk.start, chunk.start + len(chunk.effect))
        if is_whole:
            effects[rows] = chunk.effect
        effect = chunk.effect
        if own_query is not None:  # a sample that is its own query counts as 0 there
            queries = torch.as_tensor(own_query)[rows]
            effect = effect.clone()
            idx = (queries >= 0).nonzero()[:, 0]
            effect[idx, queries[idx]] = 0
        raising.update(effect, chunk.start)
        lowering.update(effect, chunk.start)
        total[rows] = chunk.effect.sum(1)
        for name, values in by_name.items():
            values.append(getattr(chunk, name))
    columns = {
        name: None if any(v is None for v in values) else torch.cat(values).numpy()
        for name, values in by_name.items()
    }
    return Attribution(
        effect=effects.numpy() if is_whole else None,
        top=TopEffects(
            raising.samples.T.numpy(),
            raising.effects.T.numpy(),
            lowering.samples.T.numpy(),
            lowering.effects.T.numpy(),
        ),
        total=total.numpy(),
        prediction_change=columns["prediction"],
        weight_change=columns["weight"],
        self_influence=columns["self_influence"],
        outcome=with_all.numpy(),
        measure=measure,
        method=method,
        ids=ids,
    )


class _Leaders:
    """The largest, or smallest, effects on each query so far, and their samples, [t, m] each."""

    def __init__(self, keep: int, *, keeps_largest: bool):
        self._keep = keep
        self._keeps_largest = keeps_largest
        self.effects = torch.empty(0)
        self.samples = torch.empty(0, dtype=torch.int64)

    def update(self, effect: Float[Tensor, "chunk m"], start: int) -> None:
        """Merge a chunk's effects, samples from `start` on, into the most extreme so far."""
        samples = torch.arange(start, start + len(effect))[:, None].expand_as(effect)
        if len(self.effects):
            effect = torch.cat([self.effects, effect])
            samples = torch.cat([self.samples, samples])
        keep = min(self._keep, len(effect))
        self.effects, order = effect.topk(keep, dim=0, largest=self._keeps_largest)
        self.samples = samples.gather(0, order)
