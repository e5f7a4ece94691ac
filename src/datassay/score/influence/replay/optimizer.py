"""Updates of weights as functions of a state and a gradient, as torch's optimisers make them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from datassay.rules import at_least, in_interval, one_of, positive, require

# Second moments v below TINY are raised by EPS_ROOT where updates are differentiated, never where
# they are made. A gradient below Adam's eps moves its weight by lr/eps times itself, up to a point
# that a real change of the samples passes: the derivative there says nothing of it. Raising all
# moments, or those up to EPS_ROOT, loses what the two terms of a step's derivative must cancel to.
TINY = 1e-14
EPS_ROOT = 1e-10
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

    def map(self, function: Callable[[Tensor], Tensor]) -> "State":
        """Return the state with a function of each tensor."""
        moments = tuple(tuple(map(function, tensors)) for tensors in self.moments)
        return State(tuple(map(function, self.weights)), moments)

    def parts(self) -> tuple[Tensors, ...]:
        """Return the weights and each kind of moments."""
        return self.weights, *self.moments


@dataclass(frozen=True, slots=True)
class Decay:
    """How much each weight decays, and where to.

    Attributes:
        rates: of each weight; 0: it stays.
        anchor: where they decay to; None: to 0.
    """

    rates: list[float]
    anchor: Tensors | None

    def drifts(self, weights: Tensors) -> Tensors:
        """Return weights minus what they decay towards: 0, or the starting weights."""
        if self.anchor is None:
            return weights
        return tuple(w - a for w, a in zip(weights, self.anchor, strict=True))


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
        """Raise where a setting is out of range, or does not suit the weights or n_updates."""
        one_of("optimizer", self.name, ("sgd", "adam", "adamw"))
        one_of("decay_towards", self.decay_towards, ("zero", "start"))
        rates = [self.lr] if isinstance(self.lr, int | float) else list(self.lr)
        is_long = isinstance(self.lr, int | float) or len(rates) == n_updates
        rule = f"be one number, or one for each of the {n_updates} updates"
        require(is_long, "lr", rule, f"{len(rates)} numbers")
        at_least("lr", min(rates), 0, finite=True)
        positive("eps_root", self.eps_root, finite=True)
        for name in ("eps", "momentum", "dampening"):
            at_least(name, getattr(self, name), 0, finite=True)
        for beta in self.betas:
            in_interval("betas", beta, 0, 1, "[)")
        if self.clip is not None:
            positive("clip", self.clip)
        has_momentum = bool(self.momentum) and not self.is_adam
        rule = "go with momentum of 'sgd' alone, without dampening"
        require(not self.nesterov or (has_momentum and not self.dampening), "nesterov", rule, True)
        require(has_momentum or not self.momentum, "momentum", "go with 'sgd' alone", self.name)
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
        zeros = [tuple(map(torch.zeros_like, weights)) for _ in range(n_moments)]
        return State(weights, tuple(zeros))

    def rate(self, step: int) -> float:
        """Return the step size of update number `step`, from 0."""
        if isinstance(self.lr, int | float):
            return float(self.lr)
        return float(self.lr[step])

    def decay_of(self, start: Mapping[str, Tensor]) -> Decay:
        """Return the decay of weights, from their names and their values at the start."""
        if isinstance(self.weight_decay, Mapping):
            rates = [float(self.weight_decay.get(name, 0.0)) for name in start]
        else:
            rates = [float(self.weight_decay)] * len(start)
        if self.decay_towards == "zero":
            return Decay(rates, None)
        return Decay(rates, tuple(start.values()))

    def update(self, state: State, gradients: Tensors, step: int, decay: Decay) -> None:
        """Make update number `step` to a state, in place, by a batch's gradients."""
        rate = self.rate(step)
        gradients, _ = self._clip(gradients)
        gradients = self._add_decay(state.weights, gradients, decay)
        if self.name == "adamw" and any(decay.rates):
            drifts = decay.drifts(state.weights)
            for w, drift, decay_rate in zip(state.weights, drifts, decay.rates, strict=True):
                w.sub_(drift, alpha=rate * decay_rate)
        if self.is_adam:
            rate, bias = self._corrections(step)
            self._accumulate(state.moments, gradients)
            for w, m, v in zip(state.weights, *state.moments, strict=True):
                w.addcdiv_(m, (v / bias).sqrt_().add_(self.eps), value=-rate)
            return
        moves = self._update_momentum(state.moments, gradients, step)
        for w, move in zip(state.weights, moves, strict=True):
            w.sub_(move, alpha=rate)

    def pull_back(
        self, state: State, gradients: Tensors, step: int, decay: Decay, adjoint: State
    ) -> tuple[State, Tensors, int]:
        """Propagate the derivative by the state after an update back to the state before it.

        Args:
            state: before the update; its moments are used up.
            gradients: of its batch.
            step: its number.
            decay: of the weights.
            adjoint: derivative by the state after the update; its moments are used up.

        Returns:
            The derivative by the state before, at a fixed gradient; that by the gradient; how many
            second moments were softened.
        """
        clipped, norm = self._clip(gradients)
        n_tiny = 0
        if self.is_adam:
            full = self._add_decay(state.weights, clipped, decay)
            moments, slopes, n_tiny = self._pull_back_adam(state.moments, full, step, adjoint)
        else:
            moments, slopes = self._pull_back_descent(step, adjoint)
        by_weights = []
        for a, slope, decay_rate in zip(adjoint.weights, slopes, decay.rates, strict=True):
            if self.name == "adamw":
                a = a * (1 - self.rate(step) * decay_rate)
            elif decay_rate:
                a = torch.add(a, slope, alpha=decay_rate)
            by_weights.append(a)
        by_gradients = self._pull_back_clip(gradients, norm, slopes)
        return State(tuple(by_weights), moments), by_gradients, n_tiny

    def _clip(self, gradients: Tensors) -> tuple[Tensors, Tensor | None]:
        """Return gradients scaled to a norm of at most `clip`, and their norm before."""
        if self.clip is None:
            return gradients, None
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        share = (self.clip / (norm + CLIP_EPS)).clamp(max=1.0)
        return tuple(g * share for g in gradients), norm

    def _pull_back_clip(self, gradients: Tensors, norm: Tensor | None, slopes: Tensors) -> Tensors:
        """Return the derivative by gradients before clipping, from that by the clipped ones."""
        # Of g c / (‖g‖ + e): (c / (‖g‖ + e)) (s − g (g·s) / (‖g‖ (‖g‖ + e))).
        if norm is None or self.clip is None or float(norm) + CLIP_EPS <= self.clip:
            return slopes
        total = norm + CLIP_EPS
        pairs = list(zip(gradients, slopes, strict=True))
        product = torch.stack([(g * s).sum() for g, s in pairs]).sum() / (norm * total)
        return tuple((s - product * g) * (self.clip / total) for g, s in pairs)

    def _add_decay(self, weights: Tensors, gradients: Tensors, decay: Decay) -> Tensors:
        """Return gradients plus rate · drift, except for AdamW, whose decay is decoupled."""
        if self.name == "adamw" or not any(decay.rates):
            return gradients
        triples = zip(gradients, decay.drifts(weights), decay.rates, strict=True)
        return tuple(torch.add(g, drift, alpha=rate) for g, drift, rate in triples)

    def _update_momentum(self, moments, gradients, step: int) -> Tensors:
        """Return SGD's update directions; momentum buffers are updated in place."""
        if not self.momentum:
            return gradients
        for buffer, g in zip(moments[0], gradients, strict=True):
            buffer.mul_(self.momentum).add_(g, alpha=self._buffer_share(step))
        if not self.nesterov:
            return moments[0]
        pairs = zip(gradients, moments[0], strict=True)
        return tuple(torch.add(g, b, alpha=self.momentum) for g, b in pairs)

    def _pull_back_descent(self, step: int, adjoint: State) -> tuple[tuple[Tensors, ...], Tensors]:
        """Return the derivatives by momentum's buffers before an update, and by its gradients."""
        moves = tuple(-self.rate(step) * a for a in adjoint.weights)
        if not self.momentum:
            return (), moves
        reach = self.momentum if self.nesterov else 1.0
        pairs = zip(adjoint.moments[0], moves, strict=True)
        buffers = tuple(torch.add(b, move, alpha=reach) for b, move in pairs)
        slopes = tuple(self._buffer_share(step) * b for b in buffers)
        if self.nesterov:
            slopes = tuple(s + move for s, move in zip(slopes, moves, strict=True))
        return (tuple(self.momentum * b for b in buffers),), slopes

    def _buffer_share(self, step: int) -> float:
        """Return the share of a gradient that goes into momentum's buffer: 1 of the first."""
        return 1.0 if step == 0 else 1 - self.dampening

    def _accumulate(self, moments, gradients) -> None:
        """Update Adam's moments by a gradient, in place."""
        beta, beta_of_squares = self.betas
        for m, v, g in zip(*moments, gradients, strict=True):
            m.lerp_(g, 1 - beta)
            v.mul_(beta_of_squares).addcmul_(g, g, value=1 - beta_of_squares)

    def _corrections(self, step: int) -> tuple[float, float]:
        """Return Adam's step size, corrected for the bias of the first moments, and v's bias."""
        rate = self.rate(step) / (1 - self.betas[0] ** (step + 1))
        return rate, 1 - self.betas[1] ** (step + 1)

    def _pull_back_adam(
        self, moments, gradients, step: int, adjoint: State
    ) -> tuple[tuple[Tensors, ...], Tensors, int]:
        """Return derivatives by moments and gradients, and the number of softened v near 0."""
        # Overwrites `moments` and those of `adjoint`.
        rate, bias = self._corrections(step)
        beta, beta_of_squares = self.betas
        self._accumulate(moments, gradients)
        slopes = []
        n_tiny = 0
        for mean, root, gradient, by_weight, by_mean, by_square in zip(
            *moments, gradients, *adjoint.parts(), strict=True
        ):
            is_tiny = root.div_(bias) < TINY
            if bool(is_tiny.any()):
                n_tiny += int((root[is_tiny] > 0).sum())  # 0: the weight never had a gradient
                root[is_tiny] += self.eps_root
            root.sqrt_()
            denominator = root + self.eps
            by_step = by_weight / denominator  # of −rate m / (√v̂ + eps)
            by_mean.sub_(by_step, alpha=rate)
            by_step.mul_(mean).div_(denominator.mul_(root))
            by_square.add_(by_step, alpha=rate / (2 * bias))
            slope = (by_mean * (1 - beta)).addcmul_(
                gradient, by_square, value=2 * (1 - beta_of_squares)
            )
            by_mean.mul_(beta)
            by_square.mul_(beta_of_squares)
            slopes.append(slope)
        return adjoint.moments, tuple(slopes), n_tiny
