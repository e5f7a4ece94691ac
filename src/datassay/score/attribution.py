"""Signed effect of each training sample on each query: which samples caused an output."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import MOST_COLUMNS, SYMMETRIC_WORK, removal_bytes, step_bytes
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
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

# Columns of a block of modes that stand for all outputs, as `ModeRemovals` has them.
MODE_RANK = 3
# Passes over an effect that the search for the largest takes, and over an output that it reads.
EFFECT_VALUES = 16.0
OUTPUT_VALUES = 8.0


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
        steps: training steps t.
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
    """Compute `leave_one_out` and `attribution` from the same removals of samples.

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
    n, b, c = training.residual.shape
    if lin.val_outputs is None:  # the queries are the training samples
        start_outputs = lin.outputs
        targets = lin.targets
        own_query = np.arange(n)
    else:
        start_outputs = lin.val_outputs
        targets = lin.val_targets
        own_query = None
    changes = (rows @ training.fit_weights()).reshape(start_outputs.shape)
    outputs = start_outputs.double() + changes
    measured = outcome(measure, "mse", outputs, targets, is_classification=lin.labels is not None)
    sample_values = c * max(len(basis.eigenvalues) * (b + 2), 2 * len(rows))
    record = RemovalRecord(lin, training, None)
    blocks = record.keep(max(1, min(n, CHUNK_VALUES // sample_values)), progress)
    effects = effects_of(_change_outputs(basis, rows, blocks), outputs, measured)
    method = f"linearized {training.run.kind}"
    gathered = gather(effects, measured(outputs), measured.measure, lin.ids, method, top, own_query)
    assert gathered.prediction_change is not None
    loo = record.leave_one_out(gathered.prediction_change)
    return RemovalScores(loo, gathered, outputs.numpy())


def _start_measure(options: Mapping[str, Any]) -> str:
    """Return the measure of effects in the linearised network, or "none"."""
    # Effects at trained networks need none of its removals.
    if options.get("attribution_at") == "trained":
        return "none"
    return options.get("attribution", "none")


def _score_removals(context: Context) -> RemovalScores:
    """Return a run's leave-one-outs and, where asked for, effects on each query."""
    run: dict[str, Any] = {**context.select_options(*RUN), "progress": context.progress}
    measure = _start_measure(context.options)
    if measure == "none":
        return RemovalScores(leave_one_out(context.lin, **run), None, None)
    return removal_scores(context.lin, measure=measure, **context.select_options("top"), **run)


def removal_steps(sizes: Sizes) -> list[PlanStep]:
    """Return the planned work: decomposition, removals and, where asked for, effects."""
    n = sizes.train
    b = sizes.rows
    p = sizes.eigenproblem
    columns = sizes.outputs // b
    decomposition = _plan_decomposition(sizes)
    has_effects = _start_measure(sizes.options) != "none"
    m = sizes.val
    n_columns = min(columns, MOST_COLUMNS)
    if has_effects:
        n_columns = columns
        m = m or n  # without validation samples the training samples are the queries
    # The effects hold every changed output; without them products of the queries are smaller.
    n_query_rows = m * b
    if not has_effects and m * b > p:
        n_query_rows = p if sizes.is_dual else SYMMETRIC_WORK * p / 2
    is_by_modes = not (has_effects or sizes.is_dual) and b == 1 and m > p
    n_products = n_columns
    rotation = 0.0  # of the queries' products, into the eigenbasis
    if is_by_modes:
        n_products = min(n_columns, MODE_RANK)
        rotation = 4.0 * p**3
    outputs = {"float64": 2.0 * n * n_products * p * n_query_rows}
    # With several rows per sample, leverages are many b x b products, too small to be fast.
    leverages = {"thin" if b == 1 else "small": 2.0 * n * b * p * N_NODES * (b + n_columns)}
    contour = {"thin": 4.0 * n * n_products * p * N_NODES * b}
    read_rows = {sizes.products: 0.0 if sizes.is_dual else 2.0 * n * b * p**2}
    work = add_work(read_rows, {"float64": rotation}, contour, leverages)
    detail = f"{n} removals, {columns} x {b} outputs"
    n_bytes = step_bytes(sizes.form)["leave one out"]
    if not has_effects:
        removal = PlanStep("leave one out", detail, n_bytes, add_work(work, outputs))
        return [decomposition, removal]
    # Effects hold the changed outputs too, and take fewer removals at once.
    n_bytes += removal_bytes(sizes.form, CHUNK_VALUES) - removal_bytes(sizes.form)
    removal = PlanStep("leave one out", detail, n_bytes, work)
    top = min(sizes.options.get("top", n), n)
    n_values = 3.0 * min(CHUNK_VALUES, n * m * columns * b) + 4.0 * m * top
    detail = f"{n} x {m} effects, the {top} largest kept each way"
    work = outputs | {"values": n * m * (EFFECT_VALUES + OUTPUT_VALUES * columns * b)}
    return [decomposition, removal, PlanStep("attribution", detail, 8.0 * n_values, work)]


def _plan_decomposition(sizes: Sizes) -> PlanStep:
    """Return the plan's step for the eigendecomposition."""
    p = sizes.eigenproblem
    n_bytes = step_bytes(sizes.form)["eigendecomposition"]
    if sizes.is_dual:
        form = "dual"
        products = 2.0 * sizes.val * sizes.rows * p**2
    else:
        form = "primal"
        products = SYMMETRIC_WORK * (sizes.train + sizes.val) * sizes.rows * p**2
    work = add_work({"eigen": EIGEN_WORK * p**3}, {sizes.products: products})
    return PlanStep("eigendecomposition", f"{p} x {p} eigenproblem, {form}", n_bytes, work)


SCORE = Score(
    name="removals",
    help="What removing a sample changes in the predictions and the weights.",
    compute=_score_removals,
    is_in_text=True,
    cost=removal_steps,
)


def _change_outputs(
    basis: Eigenbasis, rows: Float[Tensor, "rows p"], blocks: Iterable[Removals]
) -> Iterator[OutputChanges]:
    """Yield how the queries' outputs change as each sample is removed, chunk by chunk."""
    for block in blocks:
        w = block.coordinates  # [p, chunk, c]
        outputs = (rows @ w.flatten(1)).reshape(-1, basis.rows.shape[1], *w.shape[1:])
        changes = outputs.permute(2, 0, 1, 3).flatten(2)  # of [m, b, chunk, c]
        yield OutputChanges(block.start, changes, basis.squared_weights(w))
