"""Descent on factors of a matrix from a small start finds low rank, deeper factors more so."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

# Below 2 / λ₁ of the loss at its minimum for up to 5 factors, as the target has norm 1.
RATE = 0.3
# What figures show for 0: the convex solver's own tolerance.
FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class MatrixCompletion:
    """How well factors and the nuclear norm fill in a low-rank matrix."""

    observed: Float[np.ndarray, " c"]  # entries that were seen
    unknowns: float  # r (2 d − r), the degrees of freedom of the matrix
    depths: Float[np.ndarray, " l"]  # factors
    error: Float[np.ndarray, "l c"]  # ‖W − M‖ / ‖M‖, median of the matrices
    nuclear_error: Float[np.ndarray, " c"]  # the same of the solution of least nuclear norm
    apart: Float[np.ndarray, "l c"]  # ‖W − W_nuclear‖ / ‖W_nuclear‖, largest over the matrices
    # singular values of the first matrix a third of the way up: of each depth, of the nuclear
    # norm's, and of the matrix itself.
    spectrum: Float[np.ndarray, "m d"]

    @property
    def agreement(self) -> Agreement:
        """How far depth 2 and the nuclear norm are apart with the most entries."""
        measure = "distance of two factors from the nuclear norm, most entries"
        return Agreement(measure, float(self.apart[0, -1]), 0.02)


@check_args
def matrix_completion(
    *,
    size: Annotated[int, whole(3)] = 20,
    rank: Annotated[int, whole()] = 2,
    observed: Annotated[tuple[int, ...], rising_whole(1)] = (120, 140, 160, 200, 240, 320),
    deepest: Annotated[int, whole(2)] = 4,
    start: Annotated[float, positive()] = 1e-5,
    steps: Annotated[int, whole()] = 20_000,
    matrices: Annotated[int, whole()] = 3,
    seed: int = 0,
    progress: Progress = silent,
) -> MatrixCompletion:
    """Fill in low-rank matrices by descent on their factors, and by the nuclear norm.

    ℓ(W_L ⋯ W₁) = ½ Σ_Ω ((W_L ⋯ W₁)_ij − M_ij)²;   min ‖W‖_* subject to W_ij = M_ij on Ω

    Args:
        size: d of the d × d matrices, scaled to largest singular value 1.
        rank: r of the matrices, below d.
        observed: entries that are seen, increasing; the sets are nested.
        deepest: depths 2 to this are tried.
        start: scale of the first product; each factor's entries are Gaussian.
        steps: of gradient descent, step size 0.3.
        matrices: how many matrices are drawn.
        seed: of matrices, observed entries and starts.
        progress: called during each descent, and after each convex program.

    Returns:
        Errors by depth and number of entries, and the nuclear norm's.

    Cost: 3 · deepest · steps · matrices · observed counts · d³ multiplications; about 10 s, and as
    much for the convex programs.
    Source: S2 class 3, "Matrix completion and nuclear norm", after Gunasekar et al. (2017), whose
    conjecture S2 states. With few entries it does not hold: factors from a small start prefer low
    rank even where another solution has a smaller nuclear norm (Arora et al. 2019; Razin and Cohen
    2020). What is tested is where both must meet: entries enough for the nuclear norm to recover.
    """
    refuse_if(
        rank >= size or observed[-1] > size**2 or deepest > 5,
        "rank must be < size, observed at most size², deepest at most 5; got "
        f"{rank}, {observed[-1]} and {deepest} for size {size}.",
    )
    import cvxpy

    generator = torch.Generator().manual_seed(seed)
    targets, masks = _problems(size, rank, observed, matrices, generator)
    nuclear = []
    for target, mask in track(zip(targets, masks, strict=True), progress, "nuclear norm"):
        nuclear.append(_least_nuclear_norm(cvxpy, target.numpy(), mask.numpy()))
    convex = torch.from_numpy(np.stack(nuclear))
    products, draw = [], {"generator": generator, "dtype": torch.float64}
    for depth in range(2, deepest + 1):
        scale = start ** (1 / depth) / size**0.5
        draws = (torch.randn(size, size, **draw) for _ in range(depth))
        factors = [scale * factor.repeat(len(targets), 1, 1) for factor in draws]
        products.append(_descend(factors, targets, masks, steps, progress))
    estimates = torch.stack(products)  # [l, matrices · c, d, d]
    _check_finite(estimates)
    by_count = (len(products), matrices, len(observed))
    middle = (len(observed) - 1) // 3
    examples = torch.stack([*estimates[:, middle], convex[middle], targets[middle]])
    return MatrixCompletion(
        np.array(observed, float),
        float(rank * (2 * size - rank)),
        np.arange(2.0, deepest + 1),
        _relative(estimates - targets, targets).reshape(by_count).median(1).values.numpy(),
        _relative(convex - targets, targets).reshape(by_count[1:]).median(0).values.numpy(),
        _relative(estimates - convex, convex).reshape(by_count).amax(1).numpy(),
        torch.linalg.svdvals(examples).numpy(),
    )


@add_titles
def matrix_completion_plots(result: MatrixCompletion) -> Figures:
    """Draw recovery errors, distance from the nuclear norm, and singular values."""
    error = axes("observed entries", "relative error of the matrix", log="y")
    distance = axes("observed entries", "distance from the nuclear norm's", log="y")
    values = axes("singular value, by rank", "singular value", log="y")
    positions = np.arange(1.0, 1 + min(8, result.spectrum.shape[1]))
    spectrum = np.maximum(result.spectrum[:, : len(positions)], FLOOR)
    for index, depth in enumerate(result.depths):
        name = f"{depth:g} factors"
        add_data(error, result.observed, result.error[index], name, series=index)
        add_data(distance, result.observed, result.apart[index], name, series=index)
        add_data(values, positions, spectrum[index], name, series=index)
    floor = np.maximum(result.nuclear_error, FLOOR)
    theory(error, result.observed, floor, "least nuclear norm")
    limit = np.full(2, result.agreement.limit)
    theory(distance, result.observed[[0, -1]], limit, "limit that two factors must keep")
    add_data(values, positions, spectrum[-2], "least nuclear norm", series=len(result.depths))
    theory(values, positions, spectrum[-1], "the matrix")
    return error, distance, values


def _problems(
    size: int, rank: int, observed: tuple[int, ...], matrices: int, generator: torch.Generator
) -> tuple[Float[Tensor, "b d d"], Float[Tensor, "b d d"]]:
    """Return each matrix once for each number of entries, and masks of the entries."""
    draw = {"generator": generator, "dtype": torch.float64}
    full = torch.randn(matrices, size, rank, **draw) @ torch.randn(matrices, rank, size, **draw)
    full /= torch.linalg.matrix_norm(full, 2)[:, None, None]
    order = torch.rand(matrices, size**2, **draw).argsort(1).argsort(1)  # place in the queue
    is_seen = order[:, None] < torch.tensor(observed)[:, None]
    targets = full[:, None].expand(-1, len(observed), -1, -1)
    return targets.reshape(-1, size, size).clone(), is_seen.double().reshape(-1, size, size)


def _descend(
    factors: list[Tensor], targets: Tensor, mask: Tensor, steps: int, progress: Progress
) -> Float[Tensor, "b d d"]:
    for step in range(steps):
        partial = [factors[0]]
        for factor in factors[1:]:
            partial.append(factor @ partial[-1])  # W_k ⋯ W₁
        residual = (partial[-1] - targets) * mask
        for k in range(len(factors) - 1, 0, -1):
            gradient, residual = residual @ partial[k - 1].mT, factors[k].mT @ residual
            factors[k] = factors[k] - RATE * gradient
        factors[0] = factors[0] - RATE * residual
        if step % 200 == 199 or step == steps - 1:
            progress(f"descent on {len(factors)} factors", step + 1, steps)
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    return product


def _least_nuclear_norm(
    cvxpy, target: Float[np.ndarray, "d d"], mask: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "d d"]:
    unknown = cvxpy.Variable(target.shape)
    constraints = [cvxpy.multiply(mask, unknown) == mask * target]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(unknown)), constraints)
    problem.solve(solver=cvxpy.SCS, eps=1e-6, max_iters=50_000)
    return np.asarray(unknown.value, float)


def _relative(difference: Tensor, reference: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(difference) / torch.linalg.matrix_norm(reference)


def _check_finite(values: Tensor) -> None:
    refuse_if(
        not torch.isfinite(values).all(),
        "start must be so small that descent stays finite; it did not. Lower it.",
    )
