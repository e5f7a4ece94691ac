"""A training run as a function of its samples' weights, and the derivative of what it leads to.

State s_{t+1} = U_t(s_t, g_t) of weights and moments, with the batch's gradient g_t = (1/b) Σ_i a_i
∇ℓ_i(w_t), a_i = 1 the sample's weight. With λ_T = ∂m/∂s_T of a query's measure m, going back,

    λ_t = ∂U_tᵀ/∂s λ_{t+1} + H_t μ_t,   dm/da_i += (1/b) ∇ℓ_i(w_t)ᵀ μ_t,   μ_t = ∂U_tᵀ/∂g λ_{t+1}

H_t the Hessian of the batch's loss. Few states are kept; those between are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.errors import ModelError, SettingError
from datassay.progress import Progress, silent
from datassay.score.influence.replay.optimizer import TINY, Optimizer, State, Tensors

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
        """The names of the weights, in the order of states."""
        return list(self.start)

    @property
    def anchor(self) -> Tensors | None:
        """Where decay leads; None: to 0."""
        if self.optimizer.decay_towards == "zero":
            return None
        return tuple(self.start.values())

    def first_state(self) -> State:
        """Return the state before the first update."""
        return self.optimizer.start(tuple(w.detach().clone() for w in self.start.values()))

    def gradient(
        self, state: State, step: int, sample_weight: Tensor, *, create_graph: bool = False
    ) -> Tensors:
        """Compute the gradient of a batch's loss; the weights of `state` must require it."""
        losses = self.batch_losses(state.weights, step)
        mean = (losses * sample_weight.to(losses)).mean()
        return torch.autograd.grad(
            mean, state.weights, create_graph=create_graph, materialize_grads=True
        )

    def batch_losses(self, weights: Tensors, step: int) -> Float[Tensor, " b"]:
        """Compute the losses of a batch under weights, with the draws of its update."""
        positions = self.batches[step]
        if weights[0].is_cuda:
            torch.cuda.set_rng_state(self.draws[step], weights[0].device)
        else:
            torch.set_rng_state(self.draws[step])
        losses = self.losses(dict(zip(self.names, weights, strict=True)), positions)
        if isinstance(losses, Tensor) and losses.shape == (len(positions),):
            return losses
        got = list(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise SettingError(
            f"losses must give one loss for each of the {len(positions)} positions; got {got}. "
            "Take reduction='none'."
        )

    def next_state(
        self, state: State, step: int, weight: Float[Tensor, " n"] | None = None
    ) -> State:
        """Compute the state after update number `step`; weight: of all samples, None: 1."""
        if weight is None:
            a = torch.ones(len(self.batches[step]))
        else:
            a = weight[self.batches[step].cpu()]
        leaf = State(tuple(w.detach().requires_grad_() for w in state.weights), state.moments)
        gradients = self.gradient(leaf, step, a)
        decays = self.optimizer.decays(self.names)
        with torch.no_grad():
            return self.optimizer.update(state, gradients, step, decays, self.anchor)

    def train(self, weight: Float[Tensor, " n"] | None = None) -> Weights:
        """Train with these weights of the samples; return the trained tensors."""
        state = self.first_state()
        with torch.random.fork_rng():
            for step in range(len(self)):
                state = self.next_state(state, step, weight)
        return dict(zip(self.names, state.weights, strict=True))

    def record(self) -> tuple[list[State], Weights]:
        """Train; return the states that `segments` start from, and the trained tensors."""
        starts = []
        state = self.first_state()
        with torch.random.fork_rng():
            for segment in segments(len(self)):
                starts.append(state)
                for step in segment:
                    state = self.next_state(state, step)
                    self.progress("train", step + 1, len(self))
        return starts, dict(zip(self.names, state.weights, strict=True))


def make_draws(n_updates: int, seed: int, device: torch.device) -> list[Tensor]:
    """Return states of a device's generator, one an update, drawn from a seed."""
    seeds = torch.Generator().manual_seed(seed)
    numbers = torch.randint(2**62, (n_updates,), generator=seeds).tolist()
    return [torch.Generator(device).manual_seed(number).get_state() for number in numbers]


def segments(n_updates: int) -> list[range]:
    """Split updates so that starts and one segment's states are never more than √(2 n) at once."""
    # Lengths S, S − 1, ..., 1: while segment j is gone through, j + 1 starts are held.
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
    """Compute the derivative of queries by samples' weights, from their gradients at the end.

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
    zeros = starts[-1].map(torch.zeros_like).moments
    adjoints = [State(tuple(slope), zeros) for slope in slopes]
    n_tiny = n_moments = 0
    with torch.random.fork_rng():
        for segment in reversed(segments(len(run))):
            states = [starts.pop()]
            for step in segment[:-1]:
                states.append(run.next_state(states[-1], step))
            for step in reversed(segment):
                update = _DifferentiableUpdate(run, states.pop(), step)
                adjoints, shares = update.carry_back(adjoints)
                effect.index_add_(0, run.batches[step].cpu(), shares.double().cpu())
                n_tiny += update.n_tiny
                n_moments += update.n_moments
                run.progress("go back through training", len(run) - step, len(run))
    return Derivative(effect, n_tiny / max(1, n_moments))


class _DifferentiableUpdate:
    """One update with its graph: of the state, of the gradient, and of the samples' weights."""

    def __init__(self, run: TrainingRun, state: State, step: int):
        optimizer = run.optimizer
        leaf = State(tuple(w.detach().requires_grad_() for w in state.weights), ())
        size = len(run.batches[step])
        self._step = step
        self._weights = leaf.weights
        self._sample_weight = torch.ones(size, device=leaf.weights[0].device, requires_grad=True)
        with torch.enable_grad():
            self._gradients = run.gradient(leaf, step, self._sample_weight, create_graph=True)
            # A second set of leaves: the update is elementwise, the gradient alone is not.
            self._state = state.map(lambda t: t.detach().requires_grad_())
            self._received = tuple(g.detach().requires_grad_() for g in self._gradients)
            self._result = optimizer.update(
                self._state,
                self._received,
                step,
                optimizer.decays(run.names),
                run.anchor,
                eps_root=optimizer.eps_root,
            )
        self.n_tiny = self.n_moments = 0
        if optimizer.is_adam:
            # A moment of 0 is of a weight that never had a gradient.
            bound = TINY * (1 - optimizer.betas[1] ** (step + 1))
            squares = self._result.moments[1]
            self.n_tiny = sum(int(((v > 0) & (v < bound)).sum()) for v in squares)
            self.n_moments = sum(v.numel() for v in squares)

    def carry_back(self, adjoints: Sequence[State]) -> tuple[list[State], Float[Tensor, "b m"]]:
        """Return queries' derivatives by the state before, and by the batch's sample weights."""
        pairs = [self._carry(adjoint) for adjoint in adjoints]
        states = [state for state, _ in pairs]
        if not all(bool(t.isfinite().all()) for state in states for t in state.weights):
            raise ModelError(
                "the derivative of the training run must be finite; it is not before update "
                f"{self._step}. Is a loss there not differentiable twice, or does the run diverge?"
            )
        return states, torch.stack([share for _, share in pairs], 1)

    def _carry(self, adjoint: State) -> tuple[State, Float[Tensor, " b"]]:
        n_weights = len(self._weights)
        slopes = torch.autograd.grad(
            self._result.flat(),
            [*self._state.flat(), *self._received],
            adjoint.flat(),
            retain_graph=True,
            materialize_grads=True,
        )
        direct = self._state.rebuild(slopes[:-n_weights])
        *bends, share = torch.autograd.grad(
            self._gradients,
            [*self._weights, self._sample_weight],
            slopes[-n_weights:],
            retain_graph=True,
            materialize_grads=True,
        )
        weights = tuple(d + h for d, h in zip(direct.weights, bends, strict=True))
        return State(weights, direct.moments), share
