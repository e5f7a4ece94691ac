"""What a loss is: a place's loss as a function of its outputs, with its derivatives in them.

Each loss is one module of `collect/losses` whose `LOSS` registers it. No other file compares names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.errors import SettingError
from datassay.plugins import modules_in

# With up to MOST_SUMMED outputs and one place a sample, the Hessian is the sum over a whole root;
# else it is estimated from DRAWS random vectors, or one where a sample has several places.
MOST_SUMMED, DRAWS = 16, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """What a criterion of torch can set besides its reduction."""

    smoothing: float = 0.0  # of the labels, in [0, 1)
    class_weight: Tensor | None = None  # [k], of cross_entropy; of bce, for its positive targets
    output_weight: Tensor | None = None  # [k], nn.BCEWithLogitsLoss(weight=)
    delta: float = 1.0  # of huber, where the loss turns from a square to a line


class Loss(LossSettings):
    """The loss of one place, summed over its k outputs f; this class stands for the user's own.

    Targets y have the shape of f, [..., k], or are classes, [...], where labels choose one output.

    Attributes:
        name: as users give it.
        criteria: of torch, that are this loss.
        compares: "classes", whose outputs are logits and may be softened; "values"; or "own".
        has_one_class: whether labels are classes, each choosing one of the outputs.
        is_of_tokens: whether targets are the inputs' tokens, each by the outputs before it.
        by_criterion: the factor by which torch's criterion is larger than this loss.
        middle: of one output, the value that divides two classes.
    """

    name = "custom"
    criteria: tuple[type[nn.Module], ...] = ()
    compares = "own"
    has_one_class = False
    is_of_tokens = False
    by_criterion = 1.0
    middle = 0.0

    def settings_of(self, criterion: Any) -> dict[str, Any]:
        """Return the settings of an `Objective` that a criterion of torch stands for."""
        return {}

    def predict(self, f: Tensor, dim: int = -1) -> Tensor:
        """Return what the targets are compared with: probabilities along `dim`, or values."""
        raise NotImplementedError

    def value(self, f: Float[Tensor, "*batch k"], y: Tensor) -> Float[Tensor, "*batch"]:
        """Return the loss, in nats or half squared output unit."""
        raise NotImplementedError

    def gradient(self, f: Float[Tensor, "*batch k"], y: Tensor) -> Float[Tensor, "*batch k"]:
        """Return the derivative of the loss without settings by the outputs."""
        return self.predict(f) - y

    def second_derivative(self, f: Tensor, y: Tensor | None = None) -> Tensor:
        """Return the Hessian's diagonal, [..., k], of a loss that is a sum over outputs."""
        raise NotImplementedError

    def hessian(self, f: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k k"]:
        """Return the Hessian S of the loss without settings in the outputs."""
        return torch.diag_embed(self.second_derivative(f))

    def root(self, f: Float[Tensor, "n k"], y: Tensor | None = None) -> Float[Tensor, "n k r"]:
        """Return a root T of the Hessian, S = T Tᵀ, of full column rank r."""
        return torch.diag_embed(self.second_derivative(f, y).sqrt())

    def weights(self, f: Tensor, y: Tensor) -> Float[Tensor, "..."]:
        """Return the factor that settings give the Hessian at each place, [..., 1 or k]."""
        return torch.ones(*f.shape[:-1], 1).to(f)

    def roots(
        self,
        f: Float[Tensor, "b places k"],
        y: Tensor,
        weight: Tensor,
        generator: torch.Generator,
        n_wanted: int = MOST_SUMMED,
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Yield vectors v with Σ v vᵀ = weight · S at each position, S the Hessian in f."""
        # n_wanted: vectors that suffice; more are yielded where fewer would tell little.
        n_places, k = f.shape[1:]
        if k <= MOST_SUMMED and n_places == 1:
            for vector in self.root(f[:, 0], y[:, 0]).unbind(-1):
                yield weight.sqrt() * vector[:, None]
            return
        n_draws = 1 if n_places > 1 else DRAWS
        for vector in self.draw(f, y, n_draws, generator):
            yield (weight / n_draws).sqrt() * vector

    def draw(
        self, f: Tensor, y: Tensor, draws: int, generator: torch.Generator
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Yield random vectors v whose mean v vᵀ is S at each place; here S is diagonal."""
        root = self.second_derivative(f, y).sqrt()
        for _ in range(draws):
            signs = torch.randint(0, 2, f.shape, generator=generator).to(f) * 2 - 1
            yield root * signs

    def margin(self, f: Float[Tensor, "*batch k"], y: Tensor) -> Float[Tensor, "*batch"]:
        """Return the label's output minus the best rival; of one output, its side of the middle."""
        if f.shape[-1] == 1:
            return (f[..., 0] - self.middle) * (2 * y[..., 0] - 1)
        return (y * f).sum(-1) - self.rival_output(f.masked_fill(y.bool(), -torch.inf))

    def rival_output(self, f: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
        """Return what a label's output is compared with: the largest other; the label's is −∞."""
        return f.amax(-1)


@cache
def losses() -> dict[str, Loss]:
    """Return all losses by name, with that of the user's own functions."""
    registered = [module.LOSS for module in modules_in("datassay.collect.losses")]
    return {loss.name: loss for loss in (*registered, Loss())}


def loss_named(name: str) -> Loss:
    """Return the loss of a name."""
    loss = losses().get(name)
    if loss is None:
        raise SettingError(f"loss must be one of {', '.join(losses())}; got {name!r}.")
    return loss
