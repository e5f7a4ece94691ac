"""All leave-one-outs of the linearised network at a finite training time, in one decomposition."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import removal_chunk
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.linear.many_outputs import is_mixed, mix_columns, own_changes
from datassay.score.linear.panels import panels
from datassay.score.linear.removal import (
    ModeRemovals,
    RemovalBlocks,
    Removals,
    deletion,
    has_modes,
    removals,
    run_resolvents,
    takes_few_steps,
)
from datassay.score.linear.training_run import Dynamics, TrainingRun, training_run
from datassay.score.settings import Training

# Columns of p values per sample while removals are computed by blocks of modes.
MODE_COLUMNS = 16


@result
class LeaveOneOut(Tabular):
    """What training without each sample would have changed, one row per sample.

    Attributes:
        prediction_change: Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖², [n], output unit squared, over the validation
            inputs, or over the training inputs when there are none (`on_training_inputs`).
        weight_change: ‖w − w₋ᵢ‖², [n], weight unit squared. With averaged outputs: summed over k
            networks of one output each.
        held_out: f₋ᵢ(x_i), [n, k], output unit: each sample's outputs from the run without it.
        outputs: f_t(X), [n, k], output unit: outputs of the run on all samples.
        n_queries: inputs that prediction_change sums over.
        on_training_inputs: whether those are the training inputs.
        run: the training run, in the sum-loss convention.
        reduction: of the loss; decides how the runs without a sample differ.
        largest_eigenvalue: λ_max(Θ); run.step times it is η·λ_max.
        rank: non-null eigenvalues of Θ.
        ids: [n], the samples' ids.
    """

    prediction_change: Float[np.ndarray, " n"] = column(
        "what removing the sample changes on the validation inputs, summed over them",
        unit="output unit squared",
        sign="high: changes more; never < 0",
    )
    weight_change: Float[np.ndarray, " n"] = column(
        "what removing the sample changes in the weights",
        unit="weight unit squared",
        sign="high: changes more; never < 0",
    )
    held_out: Float[np.ndarray, "n k"] = column(
        "the sample's outputs from the run without it", unit="output unit", joint=""
    )
    outputs: Float[np.ndarray, "n k"]
    n_queries: int
    on_training_inputs: bool
    run: Dynamics
    reduction: str
    largest_eigenvalue: float
    rank: int
    ids: np.ndarray = sample_ids()


@checks_arguments
def leave_one_out(
    lin: Linearization,
    *,
    lr: float | str = Training.lr,
    steps: int = Training.steps,
    weight_decay: float = Training.weight_decay,
    reduction: str = Training.reduction,
    dynamics: str = Training.dynamics,
    progress: Progress = silent,
) -> LeaveOneOut:
    """Train the linearised network on all samples, and on all but each one, in closed form.

    f(x) − f₋ᵢ(x) = Σ_q Re[c_q (Θ(x,X)R_q)[:, i] R_q[i,i]⁻¹ (R_q r)[i]],  R_q = (Θ + s_q)⁻¹

    Args:
        lin: the linearisation.
        lr: learning rate of the loss as reduced; "auto" is 0.5/(λ_max + λ) for a sum loss.
        steps: t, training steps.
        weight_decay: penalty towards w₀, of the loss as reduced: (weight_decay/2)‖w − w₀‖².
        reduction: "sum": loss Σ ½‖f − y‖². "mean": 1/n of it; then η = lr/n, λ = n·weight_decay,
            and the runs without a sample, whose mean is over n − 1, have η = lr/(n − 1) and
            λ = (n − 1)·weight_decay. "mean_same_penalty": they keep λ = n·weight_decay, as S1's
            code does, which is no training that a user can repeat.
        dynamics: "flow" (gradient flow for time η t), "descent" (t full-batch steps), "converged".
        progress: called with (step, samples done, samples in all).

    Returns:
        Held-out outputs, prediction and weight changes.

    Raises:
        SettingError: a setting is out of range, or descent is unstable: η·(λ_max + λ) ≥ 2.

    Cost: one decomposition, 10 p³ operations with p = min(n b, features), shared by all scores of
    this linearisation; then about 2 p (min(m b, p / 2) + 60 b) operations per sample and output
    column (about three columns serve all outputs that share rows, see `ModeRemovals`). Features are
    read in panels; memory: p² values and a chunk.
    Source: METHODS §2, beyond S1 §5, which downdates once per sample. Exact for the linearised
    network up to 1e-8 (|value| + 1e-6 max|value|); of more than MOST_COLUMNS averaged outputs the
    two changes are those of random mixtures, within 18 % (a standard error).
    """
    training = training_run(
        lin, lr=lr, steps=steps, weight_decay=weight_decay, reduction=reduction,
        dynamics=dynamics, progress=progress,
    )  # fmt: skip
    basis = training.basis
    unmixed = None
    if is_mixed(training):
        unmixed = training
        training = replace(unmixed, residual=mix_columns(unmixed.residual))
    c = training.residual.shape[2]
    record = RemovalRecord(lin, training, unmixed)
    # Of a mean loss η and λ differ without a sample.
    is_same_run = training.leave_out(1) == training.run
    if has_modes(basis, c) and is_same_run and not takes_few_steps(training.run):
        return record.leave_one_out(record.keep_modes(progress).numpy())
    chunk = removal_chunk(training.residual.shape, len(basis.eigenvalues))
    measure = basis.squared_predictions()
    prediction_change = torch.empty(len(lin), dtype=torch.float64)
    for block in record.keep(chunk, progress):
        samples = slice(block.start, block.start + len(block.rows))
        prediction_change[samples] = measure(block.coordinates)
    return record.leave_one_out(prediction_change.numpy())


class _ModePanels:
    """Arrays that all panels share when removals are computed by blocks of modes."""

    def __init__(self, training: TrainingRun):
        basis = training.basis
        self._run = training.run
        self._residual = training.residual
        self._trained = training.fit_weights()
        self._projected = basis.project(training.residual)
        self._modes = ModeRemovals(basis, run_resolvents(basis, training.run))
        self._basis = basis.sent

    def changes(self, panel: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return a panel's changes by training, and by leaving each of its samples out."""
        rows = self._basis.rows[panel]
        blocks = RemovalBlocks(rows, self._residual[panel], self._projected)
        _, v = deletion(self._basis, blocks, self._run)
        return rows[:, 0] @ self._trained, *self._modes(rows[:, 0], v)


class RemovalRecord:
    """One pass over all removals that records what `LeaveOneOut` needs.

    The caller computes the prediction changes: from the effects on single queries where it has
    them, else faster by a triangular factor.
    """

    def __init__(self, lin: Linearization, training: TrainingRun, unmixed: TrainingRun | None):
        """Start a record; unmixed: the run on all outputs, if the other's are their mixtures."""
        self._lin = lin
        self._training = training
        self._unmixed = unmixed
        # Changes of each sample's own outputs by training, f(x_i) − f₀(x_i), and by its presence,
        # f(x_i) − f₋ᵢ(x_i). Allocated at once: between chunks' arrays they would fragment memory.
        shape = training.residual.flatten(1).shape
        self._by_training, self._by_presence = torch.empty(2, *shape).double()
        self._squared_weights = torch.empty(len(lin), dtype=torch.float64)

    def keep(self, chunk: int, progress: Progress = silent) -> Iterator[Removals]:
        """Yield the removals chunk by chunk, recording each sample's changes on the way."""
        training = self._training
        basis = self._training.basis
        n = len(training.residual)
        trained = training.fit_weights()
        for block in removals(basis, training.residual, training.run, training.leave_out(1), chunk):
            w = block.coordinates  # [p, chunk, c]
            rows = block.rows * basis.metric  # [chunk, b, p]
            samples = slice(block.start, block.start + len(rows))
            self._by_training[samples] = (rows @ trained).flatten(1)
            self._by_presence[samples] = torch.einsum("iap,pic->iac", rows, w).flatten(1)
            self._squared_weights[samples] = basis.squared_weights(w)
            yield block
            progress("leave each sample out", block.start + w.shape[1], n)

    def keep_modes(self, progress: Progress = silent) -> Float[Tensor, " n"]:
        """Record all removals by blocks of modes; return the squared prediction changes, [n]."""
        training = self._training
        basis = self._training.basis
        n = len(training.residual)
        shared = _ModePanels(training)
        all_panels = list(panels(n, MODE_COLUMNS * basis.rows.shape[2]))
        squared_predictions = torch.empty_like(self._squared_weights)
        results = basis.engine.map(_ModePanels.changes, shared, all_panels)
        for panel, changes in zip(all_panels, results, strict=True):
            (
                self._by_training[panel],
                self._by_presence[panel],
                self._squared_weights[panel],
                squared_predictions[panel],
            ) = changes
            progress("leave each sample out", panel.stop, n)
        return squared_predictions

    def leave_one_out(self, prediction_change: Float[np.ndarray, " n"]) -> LeaveOneOut:
        """Return the leave-one-out result, once all chunks are recorded."""
        lin = self._lin
        training = self._training
        by_training = self._by_training
        by_presence = self._by_presence
        if self._unmixed is not None:
            by_training = self._unmixed.fit_outputs()[:, 0]
            by_presence = own_changes(self._unmixed)
        outputs = lin.outputs.double() + by_training
        val = lin.val_outputs
        return LeaveOneOut(
            held_out=(outputs - by_presence).numpy(),
            outputs=outputs.numpy(),
            prediction_change=prediction_change,
            weight_change=self._squared_weights.numpy(),
            n_queries=len(lin) if val is None else len(val),
            on_training_inputs=val is None,
            run=training.run,
            reduction=training.reduction,
            largest_eigenvalue=training.basis.largest,
            rank=training.basis.rank,
            ids=lin.ids,
        )
