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
SMALLEST_STEP = 1e-12
HALVINGS = 40
SMALLEST = 1e-9


@dataclass(slots=True)
class ShortTraining:
    """What training has left to learn.

    Attributes:
        gradients: ∇L by block name, [rows, columns], float64.
        unknowing: L where all outputs are 0, as of a network that knows nothing.
        damping: λ, absolute, once it was found.
    """

    gradients: Mapping[str, Float[Tensor, "rows columns"]]
    unknowing: float
    damping: float = 0.0

    def solve(self, parts: Iterable[tuple[Float[Tensor, " q"], Float[Tensor, " q"]]]) -> float:
        """Find the least λ ≥ 0 by which the decrement is small enough; keep it in `damping`."""
        # parts: of each block the eigenvalues of H + damping, and the squares of ∇L along them.
        values, weights = (torch.cat(t) for t in zip(*parts, strict=True))
        values, weights = values[weights > 0], weights[weights > 0]
        bound = LEFT_TO_LEARN * self.unknowing
        self.damping = _find_least(lambda added: float((weights / (values + added)).sum()), bound)
        return self.damping


def added_damping(added: Sequence[float]) -> str:
    """Return the words of a method's name for what was added to damping; empty for nothing."""
    words = " and ".join(f"{a:.2g}" for a in added)
    if not any(added):
        return ""
    return f", short training: {words} more damping"


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
            high = high
        else:
            low = low
            high = middle
    return high


def quadrature(
    matrix: Float[Tensor, "p p"], start: Float[Tensor, " p"]
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Return nodes v ≥ 0 and weights w, Σ w f(v) ≈ startᵀ f(matrix) start, by Lanczos' method."""
    # The matrix is positive semidefinite. All its eigenvalues where there are few.
    # Cost: LANCZOS_STEPS of 2 p² operations. A device is waited for once, at the end: steps after
    # the last that counts are taken for nothing.
    steps = min(LANCZOS_STEPS, len(start))
    sizes = [start.norm()]
    slopes = []
    basis = start.new_empty(steps, len(start))
    basis[0] = start / sizes[0]
    for step in range(steps):
        moved = matrix @ basis[step]
        slopes.append(basis[step] @ moved)
        so_far = basis[: step + 1]
        for _ in range(2):  # rounding would let it come back to where it was
            moved = moved - so_far.T @ (so_far @ moved)
        sizes.append(moved.norm())
        basis[step + 1 : step + 2] = moved / sizes[-1]
    diagonal = torch.stack(slopes).cpu()
    lengths = torch.stack(sizes).cpu()
    length = lengths[0]
    lengths = lengths[1:]
    if not length > 0:
        return torch.zeros(1).double(), torch.zeros(1).double()
    ends = (lengths <= SMALLEST_STEP * diagonal[0]).nonzero()
    size = steps
    if len(ends):
        size = int(ends[0]) + 1
    lower = torch.diag(lengths[: size - 1], -1)
    values, vectors = torch.linalg.eigh(lower + lower.T + torch.diag(diagonal[:size]))
    return values.clamp_min(0), float(length) ** 2 * vectors[0].square()


def left_to_learn(network: TrainedNetwork, damping: float | str) -> ShortTraining | None:
    """Measure what a network's training left to learn, from ∇L; None where damping ignores it."""
    # None where damping follows no length of training: it is a number, or the loss is of values,
    # the user's own, or of next tokens, of which every network leaves most to learn. Cost: one pass
    # forth and back.
    model = network.model
    loss = network.loss
    blocks = network.per_sample.blocks
    if damping != "auto" or not loss.has_temperature or loss.kind.is_of_tokens:
        return None
    parameters = dict(model.named_parameters())
    names = [name for block in blocks for name in block.parameters]
    total = {name: torch.zeros_like(parameters[name], dtype=torch.float64) for name in names}
    unknowing = torch.zeros((), dtype=torch.float64, device=network.device)
    done = 0
    for ids, stored in network.train:
        batch = to_model(stored, model)
        drawn = weights_at(network.train, done, len(ids))
        done += len(ids)
        with torch.enable_grad():
            f, y = loss.align(outputs_of(model, batch), loss.targets(batch))
            weight = weights_of(batch, f) * drawn.to(f)
            value = (loss.of_outputs(f, y).sum(1) * weight).sum()
            weights = [parameters[name] for name in names]
            gradients = torch.autograd.grad(value, weights, allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.double()
        unknowing += (loss.of_outputs(torch.zeros_like(f), y).sum(1) * weight).sum()
    means = {name: summed.detach() / network.n for name, summed in total.items()}
    matrices = {b.name: as_matrix(b, [means[name] for name in b.parameters]) for b in blocks}
    return ShortTraining(matrices, float(unknowing.detach()) / network.n)
