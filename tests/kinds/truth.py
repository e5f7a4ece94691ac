"""Influence by its definition: Jacobians and losses by torch.func, in float64, nothing of ours.

effect[i, q] = −p_i Σ_b ∇m_qᵀ (H_b + d mean(diag H_b) I)⁻¹ ∇ℓ_i,  H_b = Σ_i p_i J_iᵀ S_i J_i

p_i is the sample's share of the training loss, S_i the Hessian of T ℓ(f / T) in the outputs f; of a
loss of the user's own H_b = Σ_i p_i ∇ℓ_i ∇ℓ_iᵀ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn import functional

WIDTH, HIDDEN = 6, 5


class Net(nn.Module):
    """Two layers; called by `x`, so that dictionaries reach it too."""

    def __init__(self, k: int, end: str = "outputs", seed: int = 0) -> None:
        super().__init__()
        self.end = end
        with torch.random.fork_rng():
            torch.manual_seed(100 * k + seed)
            self.first, self.last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, k)

    def forward(self, x):
        f = self.last(torch.tanh(self.first(x)))
        if self.end == "outputs":
            return f
        return f.softmax(-1) if self.end == "softmax" else f.log_softmax(-1)


@dataclass(frozen=True)
class Loss:
    """A loss of one sample's outputs f [k] and targets t [k]."""

    value: Callable[[Tensor, Tensor], Tensor]  # (f, t) → a number
    margin: Callable[[Tensor, Tensor], Tensor] | None = None  # how far the given class leads
    softened: bool = False  # the temperature is applied
    is_own: bool = False  # its curvature is that of its own gradients


def log_odds(f, t):
    return (t * f).sum() - torch.where(t > 0, -torch.inf, f).logsumexp(0)


def lead(f, t):
    return (t * f).sum() - torch.where(t > 0, -torch.inf, f).amax()


def cross_entropy(weight=None) -> Loss:
    """−Σ_c w_c t_c log p_c."""
    w = 1.0 if weight is None else torch.tensor(weight).double()
    return Loss(lambda f, t: -(w * t * f.log_softmax(0)).sum(), log_odds, softened=True)


def binary() -> Loss:
    return Loss(
        lambda f, t: (functional.softplus(f) - t * f).sum(),
        lambda f, t: (f * (2 * t - 1)).sum(),
        softened=True,
    )


def squares(scale: float) -> Loss:
    return Loss(lambda f, t: scale * (f - t).square().sum(), lead)


def sum_of(term: Callable[[Tensor], Tensor], *, is_own: bool = False) -> Loss:
    """The mean over outputs of a function of the residual."""
    return Loss(lambda f, t: term(f - t).mean(), is_own=is_own)


def several_labels(scale: float, positive=1.0, weight=1.0) -> Loss:
    """Binary cross-entropy of each output; positive targets and outputs may weigh more."""
    plus, each = torch.as_tensor(positive).double(), torch.as_tensor(weight).double()

    def value(f, t):
        terms = plus * t * functional.softplus(-f) + (1 - t) * functional.softplus(f)
        return scale * (each * terms).sum()

    return Loss(value, softened=True)


HUBER = sum_of(lambda r: torch.where(r.abs() <= 1, 0.5 * r.square(), r.abs() - 0.5))
ABSOLUTE = sum_of(torch.abs, is_own=True)


@dataclass(frozen=True)
class Derivatives:
    """Outputs f [n, k], and their Jacobians by each layer's weights and bias, [n, k, p] each."""

    f: Tensor
    blocks: tuple[Tensor, ...]


def derivatives(net: Net, x: np.ndarray) -> Derivatives:
    weights = {name: p.detach().double() for name, p in net.named_parameters()}
    inputs = torch.tensor(np.asarray(x)).double()

    def one(w, row):
        return functional_call(net, w, (row,))

    by_weight = vmap(jacrev(one), (None, 0))(weights, inputs)
    blocks = [
        torch.cat([by_weight[f"{layer}.{part}"].flatten(2) for part in ("weight", "bias")], 2)
        for layer in ("first", "last")
    ]
    return Derivatives(vmap(one, (None, 0))(weights, inputs), tuple(blocks))


def effects(
    train: Derivatives,
    targets: Tensor,
    shares: Tensor,
    queries: Derivatives,
    query_targets: Tensor | None,
    *,
    loss: Loss,
    measure: str,
    temperature: float,
    damping: float,
    fitted: tuple[Derivatives, Tensor, Tensor] | None = None,
) -> np.ndarray:
    """[n, m]: the measure with the sample minus without.

    `fitted` is what the curvature is of (samples, targets, shares), where not of the training
    samples: rows that were appended do not change it.
    """
    t = temperature if loss.softened else 1.0
    gradients = _gradients(train, targets, loss, t)
    curved, curved_targets, curved_shares = fitted or (train, targets, shares)
    of_measure = _measured(queries, query_targets, loss, measure)
    total = 0.0
    for b, mine in enumerate(gradients):
        h = _hessian(curved, b, curved_targets, curved_shares, loss, t)
        h = h + damping * h.diagonal().mean() * torch.eye(len(h)).double()
        theirs = torch.einsum("mk,mkp->mp", of_measure, queries.blocks[b])
        total = total - mine @ torch.linalg.solve(h, theirs.T)
    return (shares[:, None] * total).numpy()


def _gradients(samples: Derivatives, targets: Tensor, loss: Loss, t: float) -> list[Tensor]:
    residual = vmap(grad(lambda f, y: t * loss.value(f / t, y)))(samples.f, targets)
    return [torch.einsum("nk,nkp->np", residual, block) for block in samples.blocks]


def _hessian(samples, b, targets, shares, loss, t) -> Tensor:
    if loss.is_own:
        g = _gradients(samples, targets, loss, t)[b]
        return (shares[:, None] * g).T @ g
    s = vmap(jacrev(grad(lambda f, y: t * loss.value(f / t, y))))(samples.f, targets)
    block = samples.blocks[b]
    return torch.einsum("n,nkp,nkl,nlq->pq", shares, block, s, block)


def _measured(queries: Derivatives, targets: Tensor | None, loss: Loss, measure: str) -> Tensor:
    """Gradients of the measure by the outputs, [m, k]."""
    if measure == "output":
        return functional.one_hot(queries.f.argmax(1), queries.f.shape[1]).double()
    function = loss.value if measure == "loss" else loss.margin
    if queries.f.shape[1] == 1 and measure == "margin" and loss.margin is lead:
        function = _side_of_half
    return vmap(grad(function))(queries.f, targets)


def _side_of_half(f, t):
    return ((f - 0.5) * (2 * t - 1)).sum()


@cache
def network(k: int, end: str) -> Net:
    return Net(k, end)
