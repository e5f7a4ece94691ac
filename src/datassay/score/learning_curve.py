"""The kernel's spectrum and what it predicts: which modes are learned when (spectral bias)."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.results import Plotted, result
from datassay.score.linear.eigenbasis import eigenbasis
from datassay.score.linear.training_run import Dynamics, filter_values

# Bands of modes by rank of their eigenvalue, first and last (None: the lowest); modes of a band are
# learned at about the same time.
BANDS = ((1, 1), (2, 10), (11, 100), (101, 1000), (1001, None))
N_TIMES = 60
# Neighbours closer than this share of λ_max count as one eigenvalue: rounding turns their vectors
# into each other, and with them which of the two a residual lies in.
EQUAL = 1e-12
EQUAL_FLOAT32 = 1e-7  # where Jacobians or products are float32


@result
class LearningCurve(Plotted):
    """Predicted training error over time, by eigenmode of the kernel.

    Attributes:
        eigenvalues: [p], descending, kernel unit; the kernel's non-zero spectrum.
        energy: [p], target unit squared: the squared initial residual that lies in each mode; equal
            eigenvalues, of which only the sum is defined, share theirs equally.
        steps: [t], training steps, log-spaced.
        groups: [g] names of bands of modes, such as "modes 1-10".
        residual: [g, t], share of each band's initial squared residual that is left, in [0, 1].
        total: [t], share of the whole initial squared residual that is left.
        lr: the step size, sum-loss convention.
    """

    eigenvalues: Float[np.ndarray, " p"]
    energy: Float[np.ndarray, " p"]
    steps: Float[np.ndarray, " t"]
    groups: tuple[str, ...]
    residual: Float[np.ndarray, "g t"]
    total: Float[np.ndarray, " t"]
    lr: float


@checks_arguments
def learning_curve(lin: Linearization, run: Dynamics) -> LearningCurve:
    """Predict the training error by eigenmodes: large eigenvalues are learnt first.

    Mode i of the residual shrinks by 1 − ℓ_i g(ℓ_i), which is e^{−ητℓ_i} for gradient flow.

    Args:
        lin: the linearisation.
        run: the training run, as `leave_one_out(...).run`; "converged" is treated as flow.

    Returns:
        The spectrum, and the share of the squared residual left at log-spaced steps from 1 to
        100 times the run's.

    Cost: p values per step, beyond the shared decomposition.
    Source: S2 classes 1-2, METHODS §1. Exact for the linearised network; eigenvalues that differ by
    less than 1e-12 λ_max (1e-7 where Jacobians or products are float32) count as equal.
    """
    basis = eigenbasis(lin)
    kind = "flow" if run.kind == "converged" else run.kind
    order = torch.arange(len(basis.eigenvalues) - 1, -1, -1)[: basis.rank]
    ell = basis.eigenvalues[order]
    # The primal rows carry √ℓ, which is divided out.
    energy = basis.project(lin.residual).square().sum(1)
    if not basis.complete:
        energy = energy / basis.eigenvalues.clamp_min(1e-300)
    energy = energy[order]
    is_exact = lin.form.precision == lin.form.products.precision == "float64"
    per_mode = _share_equally(ell, energy, EQUAL if is_exact else EQUAL_FLOAT32)
    steps = np.unique(np.geomspace(1, 100 * run.steps, N_TIMES).round().astype(int))
    runs = [Dynamics(kind, run.step, int(t), run.penalty) for t in steps]
    # Share of each mode's squared residual that is left after each run, [t, p].
    shares = torch.stack([(1 - ell * filter_values(ell, r)).square() for r in runs])
    tiny = torch.finfo(ell.dtype).tiny
    names = []
    residual = []
    for low, high in BANDS:
        if low <= len(ell):
            high = min(high or len(ell), len(ell))
            energies = per_mode[low - 1 : high]
            residual.append((shares[:, low - 1 : high] @ energies) / energies.sum().clamp_min(tiny))
            names.append(f"mode {low}" if low == high else f"modes {low} to {high}")
    total_energy = lin.residual.square().sum()
    unreachable = total_energy - energy.sum()  # outside the kernel's range: never learned
    total = ((shares @ energy) + unreachable) / total_energy.clamp_min(tiny)
    return LearningCurve(
        eigenvalues=ell.numpy(),
        energy=per_mode.numpy(),
        steps=steps.astype(float),
        groups=tuple(names),
        residual=torch.stack(residual).numpy(),
        total=total.numpy(),
        lr=run.step,
    )


def _share_equally(
    ell: Float[Tensor, " p"], energy: Float[Tensor, " p"], tolerance: float
) -> Float[Tensor, " p"]:
    """Return energies averaged over modes of equal eigenvalue."""
    is_new = torch.ones(len(ell), dtype=torch.bool)  # not equal to the one before
    is_new[1:] = ell[:-1] - ell[1:] > tolerance * ell[:1]
    group = is_new.cumsum(0) - 1
    total = energy.new_zeros(int(is_new.sum())).index_add_(0, group, energy)
    return (total / group.bincount())[group]
