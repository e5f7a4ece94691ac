"""The linearised training: a checked run in the sum-loss convention, its filter in closed form.

L(w) = Σ_i ½‖f(x_i) − y_i‖² + (λ/2)‖w − w₀‖², step size η.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.linear.eigenbasis import Eigenbasis, eigenbasis
from datassay.score.linear.panels import panels
from datassay.score.settings import Training, check_training

# The default step size is this fraction of 1/λ_max: stable for descent, and no mode oscillates.
AUTO_STEP_FRACTION = 0.5
# Nodes of the contour: a filter is a sum of half as many resolvents, as the others are conjugate.
# Relative error: 3e-11 at 22, 1e-14 at 28, rounding beyond.
N_NODES = 28
# Below this many descent steps the contour is inaccurate and iterating is cheap.
FEWEST_CONTOUR_STEPS = 12


@dataclass(frozen=True, slots=True)
class Dynamics:
    """A training run of the linearised network, in the sum-loss convention.

    Attributes:
        kind: "flow" (gradient flow for time η t), "descent" (t full-batch steps) or "converged".
        step: η, inverse kernel unit.
        steps: training steps t.
        penalty: λ, kernel unit.
    """

    kind: str
    step: float
    steps: int
    penalty: float

    @property
    def time(self) -> float:
        """Training time τ = η t, inverse kernel unit."""
        return self.step * self.steps

    def without_samples(self, removed: int, n: int, reduction: str) -> "Dynamics":
        """Return the run on `removed` fewer samples; η and λ of a mean loss depend on n."""
        if reduction == "sum":
            return self
        share = (n - removed) / n
        penalty = self.penalty
        if reduction == "mean":
            penalty = penalty * share
        return replace(self, step=self.step / share, penalty=penalty)


def check_dynamics(
    largest: float,
    n_samples: int,
    *,
    lr: float | str,
    steps: float,
    weight_decay: float,
    reduction: str,
    kind: str,
) -> Dynamics:
    """Return the run's settings converted to a sum loss; raise if descent is unstable."""
    # largest: eigenvalue of the kernel.
    check_training(lr, steps, weight_decay, reduction, kind)
    per_sample = n_samples if reduction != "sum" else 1
    penalty = weight_decay * per_sample
    scale = 1.0
    if largest + penalty > 0:
        scale = largest + penalty
    if lr == "auto":
        lr = AUTO_STEP_FRACTION * per_sample / scale
    step = float(lr) / per_sample
    run = Dynamics(kind, step, int(steps), penalty)
    reduced = run.without_samples(1, n_samples, reduction)
    fastest = reduced.step * (largest + reduced.penalty)
    if kind == "descent" and fastest >= 2:
        raise SettingError(
            f"lr must be below {float(lr) * 2 / fastest:.4g} so that descent is stable "
            f"(η·λ_max < 2); got lr = {lr}, η·λ_max = {fastest:.4g}. Lower it, or use flow."
        )
    return run


def filter_values(z: Float[Tensor, " p"], run: Dynamics) -> Float[Tensor, " p"]:
    """Compute g(z) of each kernel eigenvalue: trained weights are w₀ + Φᵀ g(Θ) (Y − f₀).

    flow: (1 − e^{−τ(z+λ)}) / (z+λ);  descent: (1 − (1 − η(z+λ))^t) / (z+λ);
    converged: 1 / (z+λ), and 0 at z+λ = 0 (pseudo-inverse).

    Args:
        z: eigenvalues, not negative, kernel unit.
        run: the training run; stable if descent.

    Returns:
        g, inverse kernel unit.

    Cost: p values.
    Source: S1 eqs. 10-11 and 50 (the sign of eq. 50), METHODS §1. Exact.
    """
    rate = z + run.penalty
    positive_rate = torch.where(rate > 0, rate, torch.ones_like(rate))
    if run.kind == "converged":
        return torch.where(rate > 0, 1 / positive_rate, torch.zeros_like(rate))
    if run.kind == "flow":
        learnt = -torch.expm1(-run.time * positive_rate)
    else:
        a = run.step * positive_rate
        # Without cancellation where a < 1.
        learnt = -torch.expm1(run.steps * torch.log1p(-a.clamp_max(1.0)))
        learnt = torch.where(a < 1, learnt, 1 - (1 - a) ** run.steps)
    return torch.where(rate > 0, learnt / positive_rate, run.time)


def iterate(
    basis: Eigenbasis,
    residual: Float[Tensor, "n b c"],
    run: Dynamics,
    removed: Int[Tensor, "chunk size"],
) -> Float[Tensor, "p chunk c"]:
    """Return weights after gradient descent without each set of samples, [p, chunk, c]."""
    rows = basis.whole_rows().flatten(0, 1)  # [n b, p]
    n, b, c = residual.shape
    n_sets = len(removed)
    keep = torch.ones(n, b, n_sets, 1, dtype=torch.float64)
    keep[removed, :, torch.arange(n_sets)[:, None]] = 0
    keep = keep.reshape(n * b, n_sets, 1)
    coordinates = torch.zeros(rows.shape[1], n_sets, c, dtype=torch.float64)
    target = residual.reshape(n * b, 1, c)
    for _ in range(run.steps):
        output_changes = (rows * basis.metric) @ coordinates.flatten(1)  # [n b, n_sets c]
        remaining = keep * (target - output_changes.reshape(n * b, n_sets, c))
        ascent = (rows.T @ remaining.flatten(1)).reshape(coordinates.shape)
        coordinates = coordinates + run.step * (ascent - run.penalty * coordinates)
    return coordinates


@dataclass(frozen=True, slots=True)
class Resolvents:
    """A filter as a sum of resolvents, g(z) ≈ Σ_q Re[weight_q / (z + shift_q)].

    Attributes:
        shifts: [q], kernel unit; the penalty λ is inside.
        weights: [q], unitless.
    """

    shifts: Complex[Tensor, " q"]
    weights: Complex[Tensor, " q"]


def resolvents(run: Dynamics, largest: float) -> Resolvents:
    """Return shifts and weights of resolvents that sum to the run's spectral filter."""
    # Talbot's contour for the inverse Laplace transform. Deleting a sample changes each resolvent
    # by an exact rank-b update, so the sum turns one eigendecomposition into all leave-one-outs.
    # Source: Trefethen, Weideman, Schmelzer (2006), modified Talbot contour; METHODS §2. The filter
    # is right to a relative 1e-13 (1e-11 for 10⁶ steps of descent).
    if run.kind == "converged":
        shift = torch.tensor([run.penalty], dtype=torch.complex128)
        return Resolvents(shift, torch.ones_like(shift))
    # node = N (0.5017 θ cot(0.6407 θ) − 0.6122 + 0.2645 i θ), slope its derivative by θ.
    theta = torch.pi * (2 * torch.arange(1, N_NODES // 2 + 1, dtype=torch.float64) - 1) / N_NODES
    cot = 1 / torch.tan(0.6407 * theta)
    csc2 = 1 / torch.sin(0.6407 * theta) ** 2
    node = N_NODES * torch.complex(0.5017 * theta * cot - 0.6122, 0.2645 * theta)
    slope = N_NODES * torch.complex(
        0.5017 * cot - 0.5017 * 0.6407 * theta * csc2, torch.full_like(theta, 0.2645)
    )
    residue = 2 * slope / (1j * N_NODES) * node.exp()  # 2 ẇ e^ẑ
    if run.kind == "flow":
        return Resolvents(run.penalty + node / run.time, residue / node)
    # Descent: (1 − ηz)^t, with e^{s} = 1 − ηz at the pole; mirrored nodes serve 1 < ηz < 2.
    s = node / run.steps
    factor = s.exp() / run.steps / run.step
    shift = torch.expm1(s) / run.step
    shifts = [shift]
    weights = [residue * factor / shift]
    if run.step * (largest + run.penalty) > 1:
        mirrored = (-s.exp() - 1) / run.step
        shifts.append(mirrored)
        weights.append(-residue * (-1) ** run.steps * factor / mirrored)
    return Resolvents(run.penalty + torch.cat(shifts), torch.cat(weights))


@result
class TrainingRun:
    """The linearised network, its training run, and the run that removals compare it with.

    Attributes:
        basis: the kernel's eigenbasis.
        residual: Y − f₀, [n, b, c], float64.
        run: on all samples, sum-loss convention.
        reduction: of the loss; of a mean loss the runs on fewer samples have their own η and λ.
    """

    basis: Eigenbasis
    residual: Float[Tensor, "n b c"]
    run: Dynamics
    reduction: str

    def leave_out(self, removed: int) -> Dynamics:
        """Return the run on n − removed samples."""
        return self.run.without_samples(removed, len(self.residual), self.reduction)

    def fit_weights(self) -> Float[Tensor, "p c"]:
        """Return the eigenbasis' coordinates of w − w₀ after the run on all samples."""
        values = filter_values(self.basis.eigenvalues, self.run)
        return values[:, None] * self.basis.project(self.residual)

    def fit_outputs(self) -> Float[Tensor, "n b c"]:
        """Return f(X) − f₀(X) after the run on all samples, output unit."""
        coordinates = self.fit_weights()
        n, b, p = self.basis.rows.shape
        changes = torch.empty(n, b, coordinates.shape[1], dtype=torch.float64)
        for panel in panels(n, b * p):
            changes[panel] = (self.basis.rows[panel] * self.basis.metric) @ coordinates
        return changes


@checks_arguments
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
    """Return the training run on the linearisation, with checked settings.

    Args:
        lin: the linearisation; its decomposition is computed once and shared.
        lr: as `leave_one_out` takes it.
        steps: training steps t.
        weight_decay: of the loss as reduced.
        reduction: "sum", "mean" or "mean_same_penalty".
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
