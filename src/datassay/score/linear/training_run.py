"""A checked training run of one linearisation: the input of every score by removal."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.linear.dynamics import Dynamics, check_dynamics, filter_values
from datassay.score.linear.eigenbasis import Eigenbasis, eigenbasis
from datassay.score.linear.panels import panels
from datassay.score.settings import Training


@result
class TrainingRun:
    """The linearised network, its training run, and the run that removals compare it with.

    Attributes:
        basis: the kernel's eigenbasis.
        residual: Y − f₀, [n, b, c], float64.
        run: on all samples, sum-loss convention.
        reduction: "sum" or "mean"; under "mean" the runs on fewer samples take larger steps.
    """

    basis: Eigenbasis
    residual: Float[Tensor, "n b c"]
    run: Dynamics
    reduction: str

    def without(self, removed: int) -> Dynamics:
        """The run on n − removed samples."""
        return self.run.without(removed, len(self.residual), self.reduction)

    def trained(self) -> Float[Tensor, "p c"]:
        """Coordinates of w − w₀ after the run on all samples."""
        values = filter_values(self.basis.eigenvalues, self.run)
        return values[:, None] * self.basis.project(self.residual)

    def moved(self) -> Float[Tensor, "n b c"]:
        """f(X) − f₀(X) after the run on all samples, output unit."""
        trained, (n, b, size) = self.trained(), self.basis.rows.shape
        parts = panels(n, b * size)
        return torch.cat([(self.basis.rows[p] * self.basis.metric) @ trained for p in parts])


def training_run(
    lin: Linearization,
    *,
    lr: float | str = Training.lr,
    steps: int = Training.steps,
    weight_decay: float = Training.weight_decay,
    reduction: str = Training.reduction,
    dynamics: str = Training.dynamics,
    progress: Progress = silent,
) -> TrainingRun:
    """Check the settings of a run against the linearisation.

    Args:
        lin: the linearisation; its decomposition is computed once and shared.
        lr: as `leave_one_out` takes it.
        steps: t.
        weight_decay: of the loss as reduced.
        reduction: "sum" or "mean".
        dynamics: "flow", "descent" or "converged".
        progress: called with (step, rows done, rows in all).

    Returns:
        The run, in the sum-loss convention.

    Raises:
        SettingError: a setting is out of range, or descent is unstable.

    Cost: that of `eigenbasis` the first time.
    """
    basis = eigenbasis(lin, progress)
    run = check_dynamics(
        basis.largest,
        len(lin),
        lr=lr,
        steps=steps,
        weight_decay=weight_decay,
        reduction=reduction,
        kind=dynamics,
    )
    return TrainingRun(basis, lin.residual, run, reduction)
