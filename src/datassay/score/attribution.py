"""Signed effect of each training sample on each query: which samples caused an output."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import MOST_COLUMNS, SYMMETRIC_WORK, removal_bytes, step_bytes
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.optional import coalesce
from datassay.plan import EIGEN_WORK, PlanStep, add_work
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.effects import (
    CHUNK_VALUES,
    Attribution,
    OutputChanges,
    effects_of,
    gather,
    outcome,
)
from datassay.score.leave_one_out import LeaveOneOut, RemovalRecord, leave_one_out
from datassay.score.linear.eigenbasis import Eigenbasis
from datassay.score.linear.removal import Removals
from datassay.score.linear.training_run import N_NODES, training_run
from datassay.score.registry import Context, Score, Sizes
from datassay.score.settings import RUN, Queries, Training, check_top

# Columns a block of modes that stand for all outputs.
MODE_RANK = 3
# Passes over an effect that the search for the largest takes, and over an output that it reads.
EFFECT_VALUES, OUTPUT_VALUES = 16.0, 8.0


@checks_arguments
def attribution(
    lin: Linearization,
    *,
    measure: str = Queries.measure,
    top: int | None = Queries.top,
    lr: float | str = Training.lr,
    steps: int = Training.steps,
    weight_decay: float = Training.weight_decay,
    reduction: str = Training.reduction,
    dynamics: str = Training.dynamics,
    progress: Progress = silent,
) -> Attribution:
    """Compute each training sample's effect on each query, in the linearised network.

    effect_ij = g_j(f(x_j)) − g_j(f₋ᵢ(x_j)),  g the outcome, f₋ᵢ exactly as in `leave_one_out`

    Args:
        lin: the linearisation; its validation samples are the queries (the training samples where
            it has none).
        measure: "output" (of the predicted class), "margin" (of the given label) or "loss".
        top: keep only this many samples per query and direction; None keeps the whole matrix up to
            n m = 2^25 values, and beyond that the 20 largest.
        lr: as in `leave_one_out`, like the next four.
        steps: t.
        weight_decay: penalty towards w₀.
        reduction: as `leave_one_out` takes it.
        dynamics: "flow", "descent" or "converged".
        progress: called with (step, samples done, samples in all).

    Returns:
        The effects. Under squared error margins and outputs add up over samples only to first
        order: each effect is that of removing one sample alone.

    Raises:
        SettingError: a setting is out of range, or the outcome does not suit the task.

    Cost: that of `leave_one_out`, with 2 m b p c operations per sample; n m values, or 4 m top.
    Source: METHODS §2, "the same pass gives attribution". Exact for the linearised network.
    """
    run = {"lr": lr, "steps": steps, "weight_decay": weight_decay, "reduction": reduction}
    run["dynamics"] = dynamics
    scores = removal_scores(lin, measure=measure, top=top, progress=progress, **run)
    assert scores.attribution is not None
    return scores.attribution


@result
class RemovalScores:
    """Results of one pass over all removals.

    Attributes:
        leave_one_out: held-out outputs, prediction and weight changes.
        attribution: the effects on each query; None where not requested.
        query_outputs: f_t on the queries, [m, k], output unit, on all samples; None likewise.
    """

    leave_one_out: LeaveOneOut
    attribution: Attribution | None
    query_outputs: Float[np.ndarray, "m k"] | None


def removal_scores(
    lin: Linearization,
    *,
    measure: str = Queries.measure,
    top: int | None = Queries.top,
    progress: Progress = silent,
    **run: Any,
) -> RemovalScores:
    """Compute `leave_one_out` and `attribution` from the same removals, each computed once.

    Args:
        lin: as in `attribution`.
        measure: as in `attribution`.
        top: as in `attribution`.
        progress: called with (step, samples done, samples in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Both results, and the outputs on the queries.

    Raises:
        SettingError: a setting is out of range, or the outcome does not suit the task.

    Cost: that of `attribution`.
    Source: METHODS §2. The prediction change is summed over the outputs here and read off their
    triangular factor in `leave_one_out`: equal up to rounding.
    """
    check_top(top)
    training = training_run(lin, **run, progress=progress)
    basis = training.basis
    rows = basis.query_rows()
    start = coalesce(lin.val_outputs, lin.outputs)
    outputs = start.double() + (rows @ training.fit_weights()).reshape(start.shape)
    if lin.val_outputs is None:
        targets = lin.targets
    else:
        targets = lin.val_targets
    measured = outcome(measure, "mse", outputs, targets, is_classification=lin.labels is not None)
    n, b, c = training.residual.shape
    values = c * max(len(basis.eigenvalues) * (b + 2), 2 * len(rows))  # of one sample
    record = RemovalRecord(lin, training, None)
    parts = record.keep(max(1, min(n, CHUNK_VALUES // values)), progress)
    own_query = None
    if lin.val_outputs is None:
        own_query = np.arange(n)
    changes = effects_of(_changes(basis, rows, parts), outputs, measured)
    method = f"linearized {training.run.kind}"
    name = measured.measure
    effects = gather(changes, measured(outputs), name, lin.ids, method, top, own_query)
    assert effects.prediction_change is not None
    loo = record.leave_one_out(effects.prediction_change)
    return RemovalScores(loo, effects, outputs.numpy())


def _start_measure(options: Mapping[str, Any]) -> str:
    """Return the measure of effects at the start; those at trained networks need no removals."""
    at_trained = options.get("attribution_at") == "trained"
    if at_trained:
        return "none"
    return options.get("attribution", "none")


def _score_removals(context: Context) -> RemovalScores:
    """Compute leave-one-outs and, where asked for, effects on each query at the start."""
    run: dict[str, Any] = {**context.select_options(*RUN), "progress": context.progress}
    if (measure := _start_measure(context.options)) == "none":
        return RemovalScores(leave_one_out(context.lin, **run), None, None)
    return removal_scores(context.lin, measure=measure, **context.select_options("top"), **run)


def removal_steps(sizes: Sizes) -> list[PlanStep]:
    """Plan the decomposition, the removals and, where asked for, the effects."""
    form = sizes.form
    n = sizes.train
    m = sizes.val
    b = sizes.rows
    p = sizes.eigenproblem
    fast = sizes.products
    columns = sizes.outputs // b
    step_size = step_bytes(sizes.form)
    if sizes.is_dual:
        reading = 0.0
        gram = 2.0 * m * b * p**2
    else:
        reading = 2.0 * n * b * p**2
        gram = SYMMETRIC_WORK * (n + m) * b * p**2
    decompose = PlanStep(
        "eigendecomposition", f"{p} x {p} eigenproblem, {'dual' if sizes.is_dual else 'primal'}",
        step_size["eigendecomposition"], add_work({"eigen": EIGEN_WORK * p**3}, {fast: gram}),
    )  # fmt: skip
    attributes = _start_measure(sizes.options) != "none"
    if attributes:
        n_columns = columns
    else:
        n_columns = min(columns, MOST_COLUMNS)
    if attributes and not m:  # the training samples stand in
        m = n
    # The effects hold every changed output; without them products of the queries are smaller.
    queries = m * b
    if not attributes and m * b > p:
        if sizes.is_dual:
            queries = p
        else:
            queries = SYMMETRIC_WORK * p / 2
    modes = not (attributes or sizes.is_dual) and b == 1 and m > p
    n_products = n_columns
    if modes:
        n_products = min(n_columns, MODE_RANK)
    rotated = 4.0 * p**3 if modes else 0.0  # products of the queries, into the eigenbasis
    outputs = {"float64": 2.0 * n * n_products * p * queries}
    # With several rows per sample, leverages are many b x b products, too small to be fast.
    leverages = {"thin" if b == 1 else "small": 2.0 * n * b * p * N_NODES * (b + n_columns)}
    contour = {"thin": 4.0 * n * n_products * p * N_NODES * b}
    work = add_work({fast: reading}, {"float64": rotated}, contour, leverages)
    # Effects hold the changed outputs too, and take fewer removals at once.
    extra_bytes = 0.0
    if attributes:
        extra_bytes = removal_bytes(form, CHUNK_VALUES) - removal_bytes(form)
    leave = PlanStep(
        "leave one out", f"{n} removals, {columns} x {b} outputs, {N_NODES // 2} shifts",
        step_size["leave one out"] + extra_bytes,
        work if attributes else add_work(work, outputs),
    )  # fmt: skip
    if not attributes:
        return [decompose, leave]
    top = min(sizes.options.get("top", n), n)
    values = 3.0 * min(CHUNK_VALUES, n * m * columns * b) + 4.0 * m * top
    detail = f"{n} x {m} effects, the {top} largest kept each way"
    counted = outputs | {"values": n * m * (EFFECT_VALUES + OUTPUT_VALUES * columns * b)}
    return [decompose, leave, PlanStep("attribution", detail, 8.0 * values, counted)]


SCORE = Score(
    name="removals",
    help="What removing a sample changes in the predictions and the weights.",
    compute=_score_removals,
    is_in_text=True,
    cost=removal_steps,
)


def _changes(
    basis: Eigenbasis, rows: Float[Tensor, "rows p"], parts: Iterable[Removals]
) -> Iterator[OutputChanges]:
    """Yield the output changes of chunks of removals, on the queries' rows."""
    for block in parts:
        w = block.coordinates  # [p, chunk, c]
        outputs = (rows @ w.flatten(1)).reshape(-1, basis.rows.shape[1], *w.shape[1:])
        changes = outputs.permute(2, 0, 1, 3).flatten(2)  # of [m, b, chunk, c]
        yield OutputChanges(block.start, changes, basis.squared_weights(w))
