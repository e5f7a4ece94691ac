"""Removals where a network has hundreds of outputs: sums over them by random mixtures."""

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import MOST_COLUMNS
from datassay.collect.jacobian.per_sample import mixing
from datassay.score.linear.panels import panels
from datassay.score.linear.removal import (
    penalised_fits,
    resolvent_values,
    run_resolvents,
    takes_few_steps,
    weighted_blocks,
)
from datassay.score.linear.training_run import TrainingRun


def mix_columns(values: Float[Tensor, "*n c"], limit: int = MOST_COLUMNS) -> Float[Tensor, "*n s"]:
    """Return at most `limit` random mixtures of columns, of equal expected sum of squares."""
    c = values.shape[-1]
    if c <= limit:
        return values
    return values @ mixing(c, limit).to(values)


def is_mixed(training: TrainingRun) -> bool:
    """Return whether a run's many outputs may be replaced by fewer random mixtures."""
    _, b, c = training.residual.shape
    run = training.run
    is_same_without = run == training.leave_out(1)
    has_minimum_norm = run.kind == "converged" and not run.penalty > 0
    is_by_resolvents = not takes_few_steps(run) and not has_minimum_norm
    return is_same_without and is_by_resolvents and b == 1 and c > MOST_COLUMNS


def own_changes(training: TrainingRun) -> Float[Tensor, "n c"]:
    """Return f(x_i) − f₋ᵢ(x_i) for all outputs, [n, c], in a run by resolvents."""
    # W_i is linear in the residuals, with the same factors for all outputs: q n p + n p c
    # operations, not q n p c. With the row z_i, b = rowsᵀ r, and `remain` and `base` of `Penalised`
    # own_i = Σ_p z_ip (Re Σ_q g_iq remain_qp) b_p + Re Σ_q g_iq base r_i,
    # g_iq = Σ_p metric_p z_ip² K_pq / (base + Σ_p remain_qp z_ip²).
    basis = training.basis
    run = training.leave_out(1)
    residual = training.residual
    projected = basis.project(residual)
    fits = penalised_fits(basis, projected[:, :1], run)
    assert fits is not None
    real, imaginary = resolvent_values(basis.eigenvalues, run_resolvents(basis, run)).chunk(2, 1)
    kernel = (torch.complex(real, -imaginary) * basis.metric[:, None]).T  # [q, p]
    results = []
    for panel in panels(len(residual), len(projected)):
        rows = basis.rows[panel]
        denominator = fits.base + weighted_blocks(rows, fits.remain)[:, :, 0, 0]  # [q, g]
        g = weighted_blocks(rows, kernel)[:, :, 0, 0] / denominator
        weights = (g.T @ fits.remain).real * rows[:, 0]
        direct = fits.base * g.real.sum(0)[:, None] * residual[panel, 0]
        results.append(weights @ projected + direct)
    return torch.cat(results)
