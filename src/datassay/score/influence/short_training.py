"""More damping where training was short, by what a Newton step would still gain.

Weights that stopped on their way have moved along steep directions and hardly along flat ones,
w − w₋ᵢ ≈ −(1/n) ∫₀ᵗ exp(−(H + damping) s) ds ∇ℓ_i, which 1/(H + damping + λ) follows with λ near
1/t, alike for all weights. How long t was shows in what is left to learn: the Newton decrement
∇Lᵀ (H + damping + λ)⁻¹ ∇L of the mean loss L is 0 at a minimum.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.gradients.batches import outputs_of, to_model, weights_of
from datassay.collect.gradients.blocks import as_matrix
from datassay.score.influence.trained_network import TrainedNetwork, weights_at

# The decrement may be this share of the loss of a network that knows nothing, at most. Of 0.03,
# 0.1, 0.2, 0.3, 0.5 and 1 that of the best linear datamodelling score on the networks that chose
# (digits and MNIST, 300 samples, a linear model and an MLP, SGD of 1 to 100 epochs).
LEFT_TO_LEARN = 0.3
LANCZOS_STEPS = 40
SMALLEST_STEP = 1e-12  # of the first, below which Lanczos' method has ended
HALVINGS = 40
SMALLEST = 1e-9  # of the upper bound, from which bisection starts


@dataclass(slots=True)
class ShortTraining:
    """What training has left to learn.

    Attributes:
        gradients: ∇L by block name, [rows, columns], float64.
        null_loss: L where all outputs are 0, as of a network that knows nothing.
        damping: λ, absolute, once `solve` found it.
    """

    gradients: Mapping[str, Float[Tensor, "rows columns"]]
    null_loss: float
    damping: float = 0.0

    def solve(self, terms: Iterable[tuple[Float[Tensor, " q"], Float[Tensor, " q"]]]) -> float:
        """Return, and set as `damping`, the least λ ≥ 0 that bounds what is left to learn."""
        # The bound is on the Newton decrement. `terms`: of each block the eigenvalues of H +
        # damping, and the squares of ∇L along them.
        value_parts, square_parts = zip(*terms, strict=True)
        values = torch.cat(value_parts)
        squares = torch.cat(square_parts)
        is_positive = squares > 0
        values = values[is_positive]
        squares = squares[is_positive]
        bound = LEFT_TO_LEARN * self.null_loss
        self.damping = _find_least(lambda added: float((squares / (values + added)).sum()), bound)
        return self.damping


def added_damping(added: Sequence[float]) -> str:
    """Return words on damping added for short training, to follow a method's name; or ""."""
    if not any(added):
        return ""
    values = " and ".join(f"{value:.2g}" for value in added)
    return f", short training: {values} more damping"


def _find_least(decrement: Callable[[float], float], bound: float) -> float:
    """Find the least λ ≥ 0 whose decrement, which falls in λ, is within the bound."""
    if decrement(0.0) <= bound:
        return 0.0
    high = 1.0
    while decrement(high) > bound:
        high *= 10
    low = SMALLEST * high
    for _ in range(HALVINGS):  # of the logarithm
        middle = (low * high) ** 0.5
        if decrement(middle) > bound:
            low = middle
        else:
            high = middle
    return high


def quadrature(
    matrix: Float[Tensor, "p p"], start: Float[Tensor, " p"]
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Return nodes v ≥ 0 and weights w, Σ w f(v) ≈ startᵀ f(matrix) start, by Lanczos' method."""
    # The matrix is positive semidefinite. All its eigenvalues where there are few.
    # Cost: LANCZOS_STEPS of 2 p² operations. A device is waited for once, at the end: steps after
    # the last that counts are taken for nothing.
    n_steps = min(LANCZOS_STEPS, len(start))
    norms = [start.norm()]
    slopes = []
    basis = start.new_empty(n_steps, len(start))
    basis[0] = start / norms[0]
    for step in range(n_steps):
        vector = matrix @ basis[step]
        slopes.append(basis[step] @ vector)
        earlier = basis[: step + 1]
        for _ in range(2):  # twice: one projection leaves what rounding brings back
            vector = vector - earlier.T @ (earlier @ vector)
        norms.append(vector.norm())
        basis[step + 1 : step + 2] = vector / norms[-1]  # nothing after the last step
    diagonal = torch.stack(slopes).cpu()
    lengths = torch.stack(norms).cpu()
    start_norm = lengths[0]
    off_diagonal = lengths[1:]
    if not start_norm > 0:
        return torch.zeros(1).double(), torch.zeros(1).double()
    ends = (off_diagonal <= SMALLEST_STEP * diagonal[0]).nonzero()
    size = n_steps
    if len(ends):
        size = int(ends[0]) + 1
    lower = torch.diag(off_diagonal[: size - 1], -1)
    values, vectors = torch.linalg.eigh(lower + lower.T + torch.diag(diagonal[:size]))
    return values.clamp_min(0), float(start_norm) ** 2 * vectors[0].square()


def left_to_learn(network: TrainedNetwork, damping: float | str) -> ShortTraining | None:
    """Return ∇L by block and the loss of zero outputs; None where damping ignores them."""
    # Damping ignores it where it is a number, or the loss is of values, the user's own, or of next
    # tokens, of which every network leaves most to learn. Cost: one pass forth and back.
    model = network.model
    loss = network.loss
    blocks = network.per_sample.blocks
    if damping != "auto" or not loss.has_temperature or loss.kind.is_of_tokens:
        return None
    parameters = dict(model.named_parameters())
    names = [name for block in blocks for name in block.parameters]
    weights = [parameters[name] for name in names]
    totals = {name: torch.zeros_like(parameters[name], dtype=torch.float64) for name in names}
    null_loss = torch.zeros((), dtype=torch.float64, device=network.device)
    n_done = 0
    for ids, stored in network.train:
        batch = to_model(stored, model)
        drawn = weights_at(network.train, n_done, len(ids))
        n_done += len(ids)
        with torch.enable_grad():
            f, y = loss.align(outputs_of(model, batch), loss.targets(batch))
            sample_weights = weights_of(batch, f) * drawn.to(f)
            value = (loss.of_outputs(f, y).sum(1) * sample_weights).sum()
            gradients = torch.autograd.grad(value, weights, allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                totals[name] += gradient.double()
        null_loss += (loss.of_outputs(torch.zeros_like(f), y).sum(1) * sample_weights).sum()
    means = {name: total.detach() / network.n for name, total in totals.items()}
    matrices = {b.name: as_matrix(b, [means[name] for name in b.parameters]) for b in blocks}
    return ShortTraining(matrices, float(null_loss.detach()) / network.n)
