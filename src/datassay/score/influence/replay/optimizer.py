"""Updates of weights as functions of a state and a gradient, as torch's optimisers make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from datassay.rules import at_least, one_of, positive, require

# Second moments v below TINY are raised by EPS_ROOT where updates are differentiated, never where
# they are made. A gradient below Adam's eps moves its weight by lr/eps times itself, up to a point
# that a real change of the samples passes: the derivative there says nothing of it. Raising all
# moments, or those up to EPS_ROOT, loses what the two terms of a step's derivative must cancel to.
TINY, EPS_ROOT = 1e-14, 1e-10
# What torch adds to a norm that clips.
CLIP_EPS = 1e-6

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class State:
    """Weights and what the optimiser remembers.

    Attributes:
        weights: each tensor that trains.
        moments: of Adam the first and second moments, of momentum its buffers; else empty.
    """

    weights: Tensors
    moments: tuple[Tensors, ...]

    def map(self, change) -> State:
        """Apply a change to each tensor."""
        moments = tuple(tuple(map(change, tensors)) for tensors in self.moments)
        return State(tuple(map(change, self.weights)), moments)

    def flat(self) -> list[Tensor]:
        """List all tensors."""
        return [*self.weights, *(t for tensors in self.moments for t in tensors)]

    def rebuild(self, tensors: Sequence[Tensor]) -> State:
        """Return a state of these tensors, in the order of `flat`."""
        k = len(self.weights)
        parts = [tuple(tensors[start : start + k]) for start in range(0, len(tensors), k)]
        return State(parts[0], tuple(parts[1:]))


@dataclass(frozen=True)
class Optimizer:
    """The settings of torch.optim.SGD, Adam or AdamW, with a schedule and clipping.

    Attributes:
        name: "sgd", "adam" or "adamw".
        lr: of every update, or one an update: a schedule.
        momentum: of "sgd".
        dampening: of momentum.
        nesterov: whether momentum is Nesterov's.
        betas: of Adam's moments.
        eps: added to √v.
        weight_decay: of all weights, or by name (others: 0). "sgd" and "adam" add it to the
            gradient, times the weight; "adamw" shrinks the weight.
        decay_towards: "zero", or the weights at the "start".
        clip: most that the norm of all gradients together may be; None: any.
        eps_root: what second moments below 1e-14 are raised by in the derivative.
    """

    name: str = "adam"
    lr: float | Sequence[float] = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float | Mapping[str, float] = 0.0
    decay_towards: str = "zero"
    clip: float | None = None
    eps_root: float = EPS_ROOT

    def check(self, names: Sequence[str], n_updates: int) -> None:
        """Raise where a setting is out of range, or does not suit the weights or the updates."""
        one_of("optimizer", self.name, ("sgd", "adam", "adamw"))
        one_of("decay_towards", self.decay_towards, ("zero", "start"))
        rates = [self.lr] if isinstance(self.lr, int | float) else list(self.lr)
        is_long = isinstance(self.lr, int | float) or len(rates) == n_updates
        rule = f"be one number, or one for each of the {n_updates} updates"
        require(is_long, "lr", rule, f"{len(rates)} numbers")
        at_least("lr", min(rates), 0, finite=True)
        positive("eps_root", self.eps_root, finite=True)
        if isinstance(self.weight_decay, Mapping):
            unknown = [name for name in self.weight_decay if name not in names]
            rule = f"name weights that train, such as {names[0]!r}"
            require(not unknown, "weight_decay", rule, unknown[:1])

    @property
    def is_adam(self) -> bool:
        """Whether it is of Adam's kind."""
        return self.name != "sgd"

    def start(self, weights: Tensors) -> State:
        """Return the state before the first update."""
        n_moments = 2 if self.is_adam else int(self.momentum != 0)
        return State(
            weights, tuple(tuple(map(torch.zeros_like, weights)) for _ in range(n_moments))
        )

    def rate(self, step: int) -> float:
        """Return the step size of update number `step`, from 0."""
        if isinstance(self.lr, int | float):
            return float(self.lr)
        return float(self.lr[step])

    def decays(self, names: Sequence[str]) -> list[float]:
        """Return each weight's decay."""
        if isinstance(self.weight_decay, Mapping):
            return [float(self.weight_decay.get(name, 0.0)) for name in names]
        return [float(self.weight_decay)] * len(names)

    def update(
        self,
        state: State,
        gradients: Tensors,
        step: int,
        decays: Sequence[float],
        anchor: Tensors | None,
        *,
        eps_root: float = 0.0,
    ) -> State:
        """Return the state after update number `step`; `anchor`: where decay leads, None: to 0."""
        rate = self.rate(step)
        weights = state.weights
        if self.clip is not None:
            squares = torch.stack([g.square().sum() for g in gradients]).sum()
            # The slope of a root at 0 is infinite; no gradient of note is as small as this.
            norm = (squares + torch.finfo(squares.dtype).tiny).sqrt()
            share = (self.clip / (norm + CLIP_EPS)).clamp(max=1.0)
            gradients = tuple(g * share for g in gradients)
        drifts = (
            weights if anchor is None else [w - a for w, a in zip(weights, anchor, strict=True)]
        )
        if self.name == "adamw":
            shrunk = zip(weights, drifts, decays, strict=True)
            weights = tuple(w - rate * c * d if c else w for w, d, c in shrunk)
        else:
            pulled = zip(gradients, drifts, decays, strict=True)
            gradients = tuple(g + c * d if c else g for g, d, c in pulled)
        if self.is_adam:
            return self._adam(weights, state.moments, gradients, step, eps_root)
        return self._descend(weights, state.moments, gradients, step)

    def _descend(self, weights, moments, gradients, step: int) -> State:
        rate = self.rate(step)
        if not self.momentum:
            pairs = zip(weights, gradients, strict=True)
            return State(tuple(w - rate * g for w, g in pairs), ())
        fresh = 1.0 if step == 0 else 1 - self.dampening
        pairs = list(zip(moments[0], gradients, strict=True))
        buffers = tuple(self.momentum * b + fresh * g for b, g in pairs)
        if self.nesterov:
            moves = tuple(g + self.momentum * b for g, b in zip(gradients, buffers, strict=True))
        else:
            moves = buffers
        return State(tuple(w - rate * v for w, v in zip(weights, moves, strict=True)), (buffers,))

    def _adam(self, weights, moments, gradients, step: int, eps_root: float) -> State:
        beta, beta_of_squares = self.betas
        means = tuple(beta * m + (1 - beta) * g for m, g in zip(moments[0], gradients, strict=True))
        squares = tuple(
            beta_of_squares * v + (1 - beta_of_squares) * g * g
            for v, g in zip(moments[1], gradients, strict=True)
        )
        rate = self.rate(step) / (1 - beta ** (step + 1))
        bias = 1 - beta_of_squares ** (step + 1)
        moved = []
        for w, m, v in zip(weights, means, squares, strict=True):
            unbiased = v / bias
            if eps_root:
                unbiased = torch.where(unbiased < TINY, unbiased + eps_root, unbiased)
            moved.append(w - rate * m / (unbiased.sqrt() + self.eps))
        return State(tuple(moved), (means, squares))
