"""Forms of label noise: T[c, l] = P(given l | true c), and which of its entries are one parameter.

T = softmax over l of θ[ties[c, l]], with θ = 0 on the diagonal: each form is a matrix of ties.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.results import result

FormName = Literal["one rate", "one rate per class", "one target per class", "full"]
LEAST_ODDS = 1e-6
# Wrong labels that a class's own target must have beyond what the common rate gives.
LEAST_COUNT = 4.0


@result
class NoiseForm:
    """One form of label noise among k classes.

    Attributes:
        name: "one rate" (any other label as often as any), "one rate per class", "one target a
            class" (one rate for all, and for some classes a label of their own), or "full".
        ties: [k, k]; the parameter of each entry off the diagonal, −1 on it.
        n_chosen: targets chosen by looking; each counts as one more parameter.
    """

    name: FormName
    ties: Int[Tensor, "k k"]
    n_chosen: int = 0

    @property
    def is_class_dependent(self) -> bool:
        """Whether the noise depends on the class."""
        return self.name != "one rate"

    @property
    def size(self) -> int:
        """Parameters of T."""
        return int(self.ties.max()) + 1

    @property
    def n_parameters(self) -> int:
        """Parameters and choices, for the Bayesian information criterion."""
        return self.size + self.n_chosen

    def log_transition(self, parameters: Float[Tensor, " size"]) -> Float[Tensor, "k k"]:
        """T in logarithms; differentiable."""
        entries = torch.where(self.ties < 0, 0.0, parameters[self.ties.clamp_min(0)])
        return torch.log_softmax(entries, 1)

    def parameters(self, transition: Float[Tensor, "k k"]) -> Float[Tensor, " size"]:
        """The parameters nearest a transition matrix: odds against the diagonal, averaged."""
        diagonal = transition.diagonal().clamp_min(LEAST_ODDS)
        odds = (transition / diagonal[:, None]).clamp_min(LEAST_ODDS)
        tied = self.ties >= 0
        sums = torch.zeros(self.size, dtype=torch.float64).index_add_(
            0, self.ties[tied], odds[tied]
        )
        return (sums / self.ties[tied].bincount(minlength=self.size)).log()


def evenly(k: int, rate: float) -> Float[Tensor, "k k"]:
    """T of one rate of wrong labels, spread evenly."""
    spread = torch.full((k, k), rate / max(1, k - 1), dtype=torch.float64)
    return spread.fill_diagonal_(1 - rate)


def one_rate(k: int) -> NoiseForm:
    """Wrong labels spread evenly, as often in each class: 1 parameter."""
    return NoiseForm("one rate", _off_diagonal(k, torch.zeros(k, k, dtype=torch.int64)))


def one_rate_per_class(k: int) -> NoiseForm:
    """Wrong labels spread evenly, each class with its own rate: k parameters."""
    rows = torch.arange(k)[:, None].expand(k, k)
    return NoiseForm("one rate per class", _off_diagonal(k, rows))


def full(k: int) -> NoiseForm:
    """Any transition matrix: k (k − 1) parameters."""
    ties = torch.full((k, k), -1)
    ties[~torch.eye(k, dtype=torch.bool)] = torch.arange(k * (k - 1))
    return NoiseForm("full", ties)


def one_target_per_class(target: Int[Tensor, " k"], active: Bool[Tensor, " k"]) -> NoiseForm:
    """One rate for all, and a rate of its own from each active class to its target."""
    k = len(target)
    ties = torch.zeros(k, k, dtype=torch.int64)
    rows = torch.arange(k)[active]
    ties[rows, target[active]] = 1 + torch.arange(len(rows))
    return NoiseForm("one target per class", _off_diagonal(k, ties), len(rows))


def targets(transition: Float[Tensor, "k k"]) -> Int[Tensor, " k"]:
    """The likeliest wrong label of each class."""
    return (transition - torch.diag(transition.diagonal())).argmax(1)


def with_own_target(
    transition: Float[Tensor, "k k"], per_class: Float[Tensor, " k"], target: Int[Tensor, " k"]
) -> Bool[Tensor, " k"]:
    """Which classes' target gets LEAST_COUNT wrong labels more than by the common rate."""
    k = len(target)
    own = transition.gather(1, target[:, None])[:, 0]
    common = (1 - transition.diagonal() - own) / max(1, k - 2)
    return (own - common) * per_class >= LEAST_COUNT


def _off_diagonal(k: int, ties: Tensor) -> Tensor:
    return torch.where(torch.eye(k, dtype=torch.bool), -1, ties)
