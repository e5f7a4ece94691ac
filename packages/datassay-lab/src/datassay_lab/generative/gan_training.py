"""Training loop of a generative adversarial network, as in S2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

# Adam of both networks: less momentum than usual, as each loss changes while the other learns.
BETAS = (0.5, 0.9)


@dataclass(frozen=True, slots=True)
class AdversarialRecipe:
    """How the two networks are trained."""

    steps: int  # updates of the generator
    inner: int  # updates of the discriminator before each of them
    batch: int  # real samples per update, and as many generated ones
    # initial step size of the generator's Adam, decaying linearly to 0. The discriminator's is
    # twice that.
    rate: float
    # loss of the generator: "saturating", ln(1 − D(G(z))), as in S2 and the minimax game, or
    # "non-saturating", −ln D(G(z)).
    loss: str


def value(real: Float[Tensor, "..."], fake: Float[Tensor, "..."]) -> Float[Tensor, ""]:
    """V = E ln D(x) + E ln(1 − D(G(z))), nats."""
    # real: logits of D at real samples. fake: logits of D at generated ones.
    # Source: S2 class 6, "Value function". S2's cross-entropy beside it has ŷ instead of y (−Σ ŷ
    # ln ŷ …) and loses its minus sign on the way to V.
    return -softplus(-real).mean() - softplus(fake).mean()


def train_adversaries(
    generator: nn.Module,
    discriminator: nn.Module,
    draw_real: Callable[[int], Tensor],
    draw_noise: Callable[[int], Tensor],
    recipe: AdversarialRecipe,
    observe: Callable[[int], None],
) -> None:
    """Alternate `inner` ascent steps of D on V and one descent step of G."""
    # discriminator: D's logit, [n, 1], trained in place. draw_real: n → n real samples.
    # draw_noise: n → n inputs of the generator. recipe: steps, batch, rates and loss. observe:
    # called after each generator step with the number of steps done.
    # Source: S2 class 6, "Training loop"; Goodfellow et al. (2014), algorithm 1.
    fakers = torch.optim.Adam(generator.parameters(), lr=recipe.rate, betas=BETAS)
    judges = torch.optim.Adam(discriminator.parameters(), lr=2 * recipe.rate, betas=BETAS)
    schedules = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, recipe.steps)
        for optimizer in (fakers, judges)
    ]
    for step in range(recipe.steps):
        for _ in range(recipe.inner):
            with torch.no_grad():
                fake = generator(draw_noise(recipe.batch))
            judges.zero_grad()
            loss = -value(discriminator(draw_real(recipe.batch)), discriminator(fake))
            loss.backward()
            judges.step()
        fakers.zero_grad()
        logits = discriminator(generator(draw_noise(recipe.batch)))
        # ln(1 − D) is flat where D is near 0, at the start; −ln D is steep there.
        descended = -softplus(logits) if recipe.loss == "saturating" else softplus(-logits)
        descended.mean().backward()
        fakers.step()
        for schedule in schedules:
            schedule.step()
        observe(step + 1)


def tanh_network(n_inputs: int, width: int, n_outputs: int) -> nn.Sequential:
    """Two hidden layers of tanh units."""
    return nn.Sequential(
        nn.Linear(n_inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
        nn.Linear(width, n_outputs),
    )  # fmt: skip
