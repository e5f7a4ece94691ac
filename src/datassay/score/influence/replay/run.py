"""A training run as a function of its samples' weights, and the derivative of what it leads to.

State s_{t+1} = U_t(s_t, g_t) of weights and moments, with the batch's gradient g_t = (1/b) Σ_i a_i
∇ℓ_i(w_t), a_i = 1 the sample's weight. With λ_T = ∂m/∂s_T of a query's measure m, going back,

    λ_t = ∂U_tᵀ/∂s λ_{t+1} + H_t μ_t,   dm/da_i += (1/b) ∇ℓ_i(w_t)ᵀ μ_t,   μ_t = ∂U_tᵀ/∂g λ_{t+1}

H_t the Hessian of the batch's loss. Few states are kept; those between are computed again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import describe_shape
from datassay.errors import ModelError, SettingError
from datassay.progress import Progress, silent
from datassay.score.influence.replay.optimizer import Decay, Optimizer, State, Tensors

Weights = dict[str, Tensor]
Losses = Callable[[Weights, Tensor], Tensor]  # (weights, positions [b]) → [b]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """All that decides a training run.

    Attributes:
        losses: (weights, positions) → the losses of the samples there, whose mean is descended.
        start: name → weights at first.
        batches: positions of each update's samples.
        optimizer: its settings.
        draws: the state of torch's generator before each update, that of the weights' device.
        progress: called with (step, updates done, updates in all).
    """

    losses: Losses
    start: Mapping[str, Tensor]
    batches: Sequence[Int[Tensor, " b"]]
    optimizer: Optimizer
    draws: Sequence[Tensor]
    progress: Progress = silent

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def names(self) -> list[str]:
        """Names of the weights, in the order of states."""
        return list(self.start)

    @property
    def decay(self) -> Decay:
        """How the weights decay, and where to."""
        return self.optimizer.decay_of(self.start)

    def first_state(self) -> State:
        """Return the state before the first update."""
        return self.optimizer.start(tuple(w.detach().clone() for w in self.start.values()))

    def gradient(
        self, weights: Tensors, step: int, sample_weight: Tensor, *, create_graph: bool = False
    ) -> Tensors:
        """Return the gradient of a batch's mean weighted loss by the trainable weights."""
        losses = self.batch_losses(weights, step)
        mean = (losses * sample_weight.to(losses)).mean()
        return torch.autograd.grad(mean, weights, create_graph=create_graph, materialize_grads=True)

    def batch_losses(self, weights: Tensors, step: int) -> Float[Tensor, " b"]:
        """Return the losses of update `step`'s batch, [b], with its random draws repeated."""
        positions = self.batches[step]
        if weights[0].is_cuda:
            torch.cuda.set_rng_state(self.draws[step], weights[0].device)
        else:
            torch.set_rng_state(self.draws[step])
        losses = self.losses(dict(zip(self.names, weights, strict=True)), positions)
        if isinstance(losses, Tensor) and losses.shape == (len(positions),):
            return losses
        raise SettingError(
            f"losses must give one loss for each of the {len(positions)} positions; got "
            f"{describe_shape(losses)}. Take reduction='none'."
        )

    def advance(self, state: State, step: int, weight: Float[Tensor, " n"] | None = None) -> None:
        """Apply update number `step` to a state in place; weight: of each sample, None: 1."""
        positions = self.batches[step]
        if weight is None:
            sample_weight = torch.ones(len(positions))
        else:
            sample_weight = weight[positions.cpu()]
        weights = tuple(w.detach().requires_grad_() for w in state.weights)
        gradients = self.gradient(weights, step, sample_weight)
        with torch.no_grad():
            self.optimizer.update(state, gradients, step, self.decay)

    def train(self, weight: Float[Tensor, " n"] | None = None) -> Weights:
        """Return the weights trained with each sample's loss times `weight`."""
        state = self.first_state()
        with torch.random.fork_rng():
            for step in range(len(self)):
                self.advance(state, step, weight)
        return dict(zip(self.names, state.weights, strict=True))

    def record(self) -> tuple[list[State], Weights]:
        """Train; return the states before each of `segments`, and the trained weights."""
        starts = []
        state = self.first_state()
        with torch.random.fork_rng():
            for segment in segments(len(self)):
                starts.append(state.map(torch.clone))
                for step in segment:
                    self.advance(state, step)
                    self.progress("train", step + 1, len(self))
        return starts, dict(zip(self.names, state.weights, strict=True))


def make_draws(n_updates: int, seed: int, device: torch.device) -> list[Tensor]:
    """Return random generator states, one per update, drawn from a seed."""
    seeds = torch.Generator().manual_seed(seed)
    update_seeds = torch.randint(2**62, (n_updates,), generator=seeds).tolist()
    return [torch.Generator(device).manual_seed(s).get_state() for s in update_seeds]


def segments(n_updates: int) -> list[range]:
    """Split the updates into consecutive ranges of falling length, for checkpointing."""
    # Lengths S, S − 1, ..., 1: while segment j is at hand, j + 1 starts are held. With the states
    # of the segment that is never more than √(2 n) at once.
    size = 1
    while size * (size + 1) // 2 < n_updates:
        size += 1
    ranges = []
    start = 0
    while start < n_updates:
        stop = min(start + size, n_updates)
        ranges.append(range(start, stop))
        start = stop
        size -= 1
    return ranges


@dataclass(frozen=True, slots=True)
class Derivative:
    """What going back through a run gives.

    Attributes:
        effect: dm/da_i of each query, [n, m].
        softened: share of the second moments, over updates, that `eps_root` raised.
    """

    effect: Float[Tensor, "n m"]
    softened: float


def differentiate_run(
    run: TrainingRun, starts: list[State], slopes: Sequence[Tensors], n_samples: int
) -> Derivative:
    """Compute the derivative of each query by each sample's weight, back through the run.

    Args:
        run: the training.
        starts: of its segments, as `record` returns them; used up.
        slopes: of each query, its gradient by the trained weights.
        n_samples: n.

    Returns:
        The derivative.

    Raises:
        ModelError: it is not finite.
    """
    effect = torch.zeros(n_samples, len(slopes), dtype=torch.float64)
    adjoints = [State(tuple(slope), starts[-1].map(torch.zeros_like).moments) for slope in slopes]
    n_tiny = 0
    with torch.random.fork_rng():
        for segment in reversed(segments(len(run))):
            states = [starts.pop()]
            for step in segment[:-1]:
                states.append(states[-1].map(torch.clone))
                run.advance(states[-1], step)
            for step in reversed(segment):
                adjoints, effects, n_softened = _pull_back_update(run, states.pop(), step, adjoints)
                effect.index_add_(0, run.batches[step].cpu(), effects.double().cpu())
                n_tiny += n_softened
                run.progress("go back through training", len(run) - step, len(run))
    n_moments = len(run) * sum(w.numel() for w in run.start.values())
    return Derivative(effect, n_tiny / n_moments)


def _pull_back_update(
    run: TrainingRun, state: State, step: int, adjoints: Sequence[State]
) -> tuple[list[State], Float[Tensor, "b m"], int]:
    """Return the queries' derivatives by the state before an update, from those after it.

    Returns:
        Derivatives by the state before; (1/b) ∇ℓ_iᵀ μ of the batch's samples; and how many second
        moments were softened.

    Raises:
        ModelError: a derivative is not finite.
    """
    weights = tuple(w.detach().requires_grad_() for w in state.weights)
    device = weights[0].device
    sample_weight = torch.ones(len(run.batches[step]), device=device, requires_grad=True)
    with torch.enable_grad():
        gradients = run.gradient(weights, step, sample_weight, create_graph=True)
    detached = tuple(g.detach() for g in gradients)
    results = []
    sample_effects = []
    n_tiny = 0
    for index, adjoint in enumerate(adjoints):
        is_last = index + 1 == len(adjoints)
        moments = state.moments if is_last else state.map(torch.clone).moments
        with torch.no_grad():
            direct, mu, n_tiny = run.optimizer.pull_back(
                State(state.weights, moments), detached, step, run.decay, adjoint
            )
        *hessian_products, by_sample = torch.autograd.grad(  # H μ, and μ's part of each sample
            gradients,
            [*weights, sample_weight],
            mu,
            retain_graph=not is_last,
            materialize_grads=True,
        )
        pairs = zip(direct.weights, hessian_products, strict=True)
        by_weights = tuple(by_update + product for by_update, product in pairs)
        results.append(State(by_weights, direct.moments))
        sample_effects.append(by_sample)
    effects = torch.stack(sample_effects, 1)
    if not bool(effects.isfinite().all()):
        raise ModelError(
            "the derivative of the training run must be finite; it is not at update "
            f"{step}. Is a loss there not differentiable twice, or does the run diverge?"
        )
    return results, effects, n_tiny
