"""Influence by the whole Hessian: what a method is given, and those that solve with the Hessian."""

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from datassay.collect.curvature.hessian import (
    LossAt,
    hessian,
    hessian_products,
    loss_gradients,
    mean_gradient,
    output_changes,
)
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import at_least, positive
from datassay.score.effects import OutputChanges

Solve = Callable[[Float[Tensor, "s d"]], Float[Tensor, "s d"]]
"""From gradients to (H + penalty I)⁻¹ times each of them."""


@result
class Problem:
    """One trained network whose samples are to be removed, one at a time.

    Attributes:
        model: at its trained weights.
        train: n training samples.
        val: the queries; None where they are the training samples.
        mean_loss: the mean loss of `train` around the weights.
        queries: inputs of the m queries, as `mean_loss` has them.
        damping: added to the Hessian of the mean loss only to make it invertible.
        weight_decay: added to it because the training loss has it.
        precision: of `mean_loss`.
        removed: positions of the samples to remove, one at a time; None: all.
        seed: of a method's random draws.
        progress: called with (step, units done, units in all).
        warnings: a method appends what the user should know.
    """

    model: nn.Module
    train: SampleSet
    val: SampleSet | None
    mean_loss: LossAt
    queries: Num[Tensor, "m ..."]
    damping: float
    weight_decay: float
    precision: str
    removed: tuple[int, ...] | None = None
    seed: int = 0
    progress: Progress = silent
    warnings: list[str] = field(default_factory=list)

    @property
    def penalty(self) -> float:
        """What is added to the diagonal of the mean loss's Hessian."""
        return self.damping + self.weight_decay


def newton_changes(problem: Problem, solve: Solve) -> Iterator[OutputChanges]:
    """Yield output changes to first order of w − w₋ᵢ = −(1/n) (H + penalty I)⁻¹ (∇ℓ_i − ∇L)."""
    # ∇L, the mean's, is −weight_decay (w − w₀) where training ended: the share of the decay that
    # leaves with each sample. Without decay it is 0 there.
    mean = mean_gradient(problem.mean_loss) if problem.weight_decay > 0 else None
    for start, gradients in gradient_chunks(problem):
        moves = solve(gradients if mean is None else gradients - mean)
        moves = moves / -len(problem.mean_loss)
        self_effect = -(gradients * moves).sum(1).double().cpu()
        yield replace(changes_of(problem, start, moves), self_influence=self_effect)


def gradient_chunks(problem: Problem) -> Iterator[tuple[int, Float[Tensor, "chunk d"]]]:
    """Yield each chunk's first position and its samples' loss gradients."""
    losses = problem.mean_loss
    if problem.removed is not None:
        idx = torch.tensor(problem.removed)
        losses = replace(losses, x=losses.x[idx], y=losses.y[idx])
    n = len(losses)
    size = losses.vectors_at_once
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield start, loss_gradients(losses, start, stop)
        problem.progress("remove samples", stop, n)


def changes_of(problem: Problem, start: int, moves: Float[Tensor, "chunk d"]) -> OutputChanges:
    """Return the output changes and squared weight changes, in float64, of steps w − w₋ᵢ."""
    outputs = output_changes(problem.mean_loss, problem.queries, moves).double().cpu()
    return OutputChanges(start, outputs, moves.double().square().sum(1).cpu())


def exact(problem: Problem) -> Iterator[OutputChanges]:
    """Solve with the Cholesky factor of H + penalty I.

    Args:
        problem: the network, samples and queries.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: the network has too many weights, or H + penalty I is not positive definite.

    Cost: 2 d passes over the samples, d³/3 operations, 2 d² a sample; 2 d² values.
    Source: Koh and Liang (2017), eq. 1. Deviates nowhere.
    """
    d = problem.mean_loss.n_parameters
    matrix = hessian(problem.mean_loss, lambda done: problem.progress("Hessian", done, d))
    matrix.diagonal().add_(problem.penalty)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    pivots = factor.diagonal().square()
    rounding = d * torch.finfo(getattr(torch, problem.precision)).eps * matrix.diagonal().max()
    if failed or pivots.min() <= rounding:
        smallest = float(torch.linalg.eigvalsh(matrix)[0])
        raise SettingError(
            "the Hessian with damping must be positive definite; its smallest eigenvalue is "
            f"{smallest:.3g} at damping + weight_decay = {problem.penalty:g}. Raise damping above "
            f"{problem.penalty - smallest:.3g}, or train until the loss is at a minimum."
        )

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        return torch.cholesky_solve(gradients.double().T, factor).T.to(gradients)

    yield from newton_changes(problem, solve)


def conjugate_gradients(
    problem: Problem, *, tolerance: float = 1e-6, iterations: int = 500
) -> Iterator[OutputChanges]:
    """Solve (H + penalty I) u = ∇ℓ_i for many samples at once, each up to its tolerance.

    Args:
        problem: the network, samples and queries.
        tolerance: for the residual's norm divided by the gradient's.
        iterations: at most; a warning counts samples that need more and names the residual reached.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: a setting is not positive, or a direction has negative curvature.

    Cost: one Hessian product per sample and iteration (about √(λ_max / penalty) iterations); five
    weight vectors for each sample of a chunk.
    Source: Koh and Liang (2017) §3, after Martens (2010). Deviates: every product takes the exact
    Hessian of all samples.
    """
    positive("tolerance", tolerance)
    at_least("iterations", iterations, 1)
    residuals: list[Tensor] = []

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        solution, residual = _solve_by_cg(problem, gradients, tolerance, iterations)
        residuals.append(residual)
        return solution

    yield from newton_changes(problem, solve)
    residual = torch.cat(residuals)
    if (residual > tolerance).any():
        problem.warnings.append(
            f"conjugate gradients did not converge for {int((residual > tolerance).sum())} of "
            f"{len(residual)} samples: after {iterations} iterations the relative residual is up "
            f"to {float(residual.max()):.1e}, not {tolerance:g}. Raise iterations or damping."
        )


def _solve_by_cg(
    problem: Problem, gradients: Float[Tensor, "s d"], tolerance: float, iterations: int
) -> tuple[Float[Tensor, "s d"], Float[Tensor, " s"]]:
    """Run conjugate gradients; return solutions and the relative residuals reached."""
    solution = torch.zeros_like(gradients)
    residual = gradients.clone()
    direction = gradients.clone()
    gradient_sq = gradients.square().sum(1)
    error_sq = gradient_sq.clone()
    for _ in range(iterations):
        rows = (error_sq > tolerance**2 * gradient_sq).nonzero()[:, 0]
        if not len(rows):  # all converged; converged rows take no more products
            break
        active = direction[rows]
        product = hessian_products(problem.mean_loss, active) + problem.penalty * active
        curvature = (active * product).sum(1)
        if not (curvature > 0).all():
            worst = float((curvature / active.square().sum(1)).min())
            raise SettingError(
                "the Hessian with damping must be positive definite; its curvature is "
                f"{worst:.3g} along one direction at damping + weight_decay = "
                f"{problem.penalty:g}. Raise damping above {problem.penalty - worst:.3g} (other "
                "directions may need more), or train until the loss is at a minimum."
            )
        step = (error_sq[rows] / curvature)[:, None]
        solution[rows] += step * active
        residual[rows] -= step * product
        new_sq = residual[rows].square().sum(1)
        direction[rows] = residual[rows] + (new_sq / error_sq[rows])[:, None] * active
        error_sq[rows] = new_sq
    return solution, (error_sq / gradient_sq.clamp_min(torch.finfo(gradient_sq.dtype).tiny)).sqrt()


# Recursions between two checks of the estimate's size.
CHECK_EVERY = 20
# The estimate may exceed what a positive definite Hessian allows by this factor: batches are noisy.
LARGEST_GROWTH = 10.0
# A relative residual above this causes a warning.
NOTABLE_RESIDUAL = 0.1


def lissa(
    problem: Problem,
    *,
    depth: int = 1000,
    scale: float = 1000.0,
    batch_size: int | None = 128,
    repeats: int = 1,
) -> Iterator[OutputChanges]:
    """Iterate v ← ∇ℓ_i + v − (H_batch v + penalty v) / scale, from v = ∇ℓ_i; u = v / scale.

    Args:
        problem: the network, samples and queries.
        depth: recursions. Curvature below scale / depth is not inverted yet.
        scale: must exceed half of the largest eigenvalue of any batch's Hessian plus penalty.
        batch_size: samples per product, drawn without replacement; None takes all of them.
        repeats: independent estimates to average.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: a setting is not positive, or the recursion diverges.

    Cost: per sample depth · repeats Hessian products on a batch and one on all samples; five weight
    vectors for each sample of a chunk. All samples share each batch: the estimate of each has the
    distribution that batches of its own would give, and the weights' passes are done once.
    Source: Agarwal, Bullins and Hazan (2017); Koh and Liang (2017) §3; S1 Table 2 has depth and
    scale 1000, its code batches of 128. Deviates: damping is added to H; both codes write
    v ← ∇ℓ + (1 − damping) v − H v / scale, so their damping times scale is ours (S1: 0.01 · 1000).
    """
    settings = {"depth": depth, "scale": scale, "repeats": repeats, "batch_size": batch_size}
    for name, value in settings.items():
        if value is not None:
            positive(name, value)
    residuals: list[Tensor] = []

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        # Every chunk sees the same batches: results do not depend on how samples are chunked.
        generator = torch.Generator().manual_seed(problem.seed)
        total = torch.zeros_like(gradients)
        for _ in range(repeats):
            total += _estimate_inverse(problem, gradients, depth, scale, batch_size, generator)
        solution = total / (repeats * scale)
        # ‖(H + penalty I) u − ∇ℓ‖ / ‖∇ℓ‖ with the Hessian of all samples.
        product = hessian_products(problem.mean_loss, solution) + problem.penalty * solution
        lengths = gradients.norm(dim=1).clamp_min(torch.finfo(gradients.dtype).tiny)
        residuals.append((product - gradients).norm(dim=1) / lengths)
        return solution

    yield from newton_changes(problem, solve)
    worst = float(torch.cat(residuals).max())
    if worst > NOTABLE_RESIDUAL:
        problem.warnings.append(
            f"LiSSA left a relative residual of up to {worst:.2g}: at depth {depth} and scale "
            f"{scale:g} curvature below {scale / depth:.2g} is not inverted. Raise depth or "
            "repeats, lower scale, or use method='cg'."
        )


def _estimate_inverse(
    problem: Problem,
    gradients: Float[Tensor, "s d"],
    depth: int,
    scale: float,
    batch_size: int | None,
    generator: torch.Generator,
) -> Float[Tensor, "s d"]:
    """Return LiSSA's estimate of scale · (H + penalty I)⁻¹ ∇ℓ_i after `depth` recursions."""
    n = len(problem.mean_loss)
    shrinkage = 1 - problem.penalty / scale
    estimate = gradients.clone()
    for done in range(1, depth + 1):
        batch = None
        if batch_size is not None and batch_size < n:
            batch = torch.randperm(n, generator=generator)[:batch_size]
        product = hessian_products(problem.mean_loss, estimate, batch)
        estimate = estimate.mul_(shrinkage).add_(gradients).sub_(product, alpha=1 / scale)
        if done % CHECK_EVERY == 0 or done == depth:
            # If no step lengthens a vector, a sum of done + 1 terms is at most this long.
            bound = (done + 1) * gradients.norm(dim=1)
            if not (estimate.norm(dim=1) <= LARGEST_GROWTH * bound).all():
                raise SettingError(
                    f"LiSSA must contract; the estimate diverged within {done} recursions at scale "
                    f"{scale:g}. Raise scale above half of the largest curvature of any batch; "
                    "where the Hessian has negative eigenvalues, raise damping."
                )
    return estimate
