"""Where a generator has learnt the data, the value of the best discriminator is −2 ln 2."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from datassay.data import load
from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import spread_counts

LOSSES = ("saturating", "non-saturating")
FLOOR = -2 * math.log(2)
# Two normal densities of equal weight, at ±CENTRE.
CENTRE, WIDTH_OF_MODE = 1.5, 0.5
EDGES = np.linspace(-6, 6, 81)
CHECKED, CHECKS = 20_000, 20
HIDDEN = 32
DIGIT_CODES, DIGIT_INNER, DIGIT_NOISE, SHOWN = 16, 3, 0.1, 20
SIDE = 8


@dataclass(frozen=True, slots=True)
class Gan:
    """A generator on the line through its training, and digits of another."""

    steps: Int[np.ndarray, " c"]  # updates of the generator
    best: Float[np.ndarray, " c"]  # V of the best discriminator against it, from histograms, nats
    trained: Float[np.ndarray, " c"]  # V of the discriminator in training, nats
    middles: Float[np.ndarray, " m"]  # of the histogram's bins
    data: Float[np.ndarray, " m"]  # share of the data in each bin
    early: Float[np.ndarray, " m"]  # share of the generator's samples, at the middle check
    late: Float[np.ndarray, " m"]  # at the end
    fakes: Float[np.ndarray, "s h w"]  # generated digits
    nearest: Float[np.ndarray, "s h w"]  # the training digit nearest to each

    @property
    def agreement(self) -> Agreement:
        """How far the best discriminator's value is above its floor at the end."""
        excess = float(self.best[-1]) - FLOOR
        return Agreement("V of the best discriminator + 2 ln 2, nats", excess, 0.05)


@check_args
def gan(
    *,
    steps: int = 1200,
    inner: Annotated[int, whole()] = 5,
    digit_steps: Annotated[int, whole()] = 1200,
    loss: Annotated[str, one_of(LOSSES)] = "saturating",
    seed: int = 0,
    progress: Progress = silent,
) -> Gan:
    """Train a generator against a discriminator, on a mixture of two normals and on digits.

    min_G max_D V = E ln D(x) + E ln(1 − D(G(z))),  max_D V = 2 JS(p ‖ p_g) − 2 ln 2

    Args:
        steps: of the generator on the line, batches of 256.
        inner: steps of the discriminator before each of them.
        digit_steps: of the generator of digits, batches of 64.
        loss: that the generator descends: saturating (S2's) or non-saturating.
        seed: of weights and draws.
        progress: called at each check.

    Returns:
        Values through training, histograms and digits.

    Cost: about 15 seconds; (inner + 1) · steps passes of two small networks.
    Source: S2 class 6, "Training loop", with its inner loop for D and its descent on
        ln(1 − D(G(z))); Goodfellow et al. (2014). Ours: Adam with a falling step size; noise
        on all digits and dropout in their discriminator, without which one digit is all it makes.
        V of the best discriminator is read off histograms; what falls outside their range counts
        in the outermost bins.
    """
    whole(CHECKS)("steps", steps)
    recipe = AdversarialRecipe(steps, inner, 256, 2e-3, loss)
    with seeded(seed):
        checks, best_values, trained_values, (data, early, late) = _train_on_line(recipe, progress)
        recipe = AdversarialRecipe(digit_steps, DIGIT_INNER, 64, 5e-4, recipe.loss)
        fakes, nearest = _train_digits(recipe, progress)
    middles = (EDGES[1:] + EDGES[:-1]) / 2
    return Gan(checks, best_values, trained_values, middles, data, early, late, fakes, nearest)


@add_titles
def gan_plots(result: Gan) -> Figures:
    """Draw values over training, histograms, and digits."""
    values = axes("steps of the generator", "value V, nats", log="x")
    add_data(values, result.steps, result.best, "best discriminator")
    add_data(values, result.steps, result.trained, "the one in training", series=1)
    theory(values, result.steps, np.full(len(result.steps), FLOOR), "−2 ln 2")
    width = result.middles[1] - result.middles[0]
    densities = axes("x", "density")
    add_data(densities, result.middles, result.early / width, "G, early", series=4, mode="lines")
    add_data(densities, result.middles, result.late / width, "G, at the end", mode="lines")
    theory(densities, result.middles, result.data / width, "data")
    count = len(result.fakes)
    images = np.concatenate([result.fakes, result.nearest])
    names = [""] * len(images)
    names[0], names[count] = "generated", "nearest"
    return values, densities, pictures(images, names, columns=10, side=120)


def best_value(p: Float[np.ndarray, " m"], q: Float[np.ndarray, " m"]) -> float:
    """Return V of D = p / (p + q), that is 2 JS(p ‖ q) − 2 ln 2."""
    # p: shares of the data in bins.
    # Source: S2 class 6; Goodfellow et al. (2014), theorem 1.
    total = p + q
    parts = [a[a > 0] @ np.log(a[a > 0] / total[a > 0]) for a in (p, q)]
    return float(sum(parts))


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
    """Return V = E ln D(x) + E ln(1 − D(G(z))), nats."""
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
    """Train D by `inner` ascent steps on V, then G by one descent step, in turn."""
    # discriminator: D's logit, [n, 1], trained in place. draw_real: n → n real samples.
    # draw_noise: n → n inputs of the generator. recipe: steps, batch, rates and loss. observe:
    # called after each generator step with the number of steps done.
    # Source: S2 class 6, "Training loop"; Goodfellow et al. (2014), algorithm 1.
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=recipe.rate, betas=BETAS)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2 * recipe.rate, betas=BETAS)
    schedules = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, recipe.steps)
        for optimizer in (g_optimizer, d_optimizer)
    ]
    for step in range(recipe.steps):
        for _ in range(recipe.inner):
            with torch.no_grad():
                fake = generator(draw_noise(recipe.batch))
            d_optimizer.zero_grad()
            loss = -value(discriminator(draw_real(recipe.batch)), discriminator(fake))
            loss.backward()
            d_optimizer.step()
        g_optimizer.zero_grad()
        logits = discriminator(generator(draw_noise(recipe.batch)))
        # ln(1 − D) is flat where D is near 0, at the start; −ln D is steep there.
        generator_loss = -softplus(logits) if recipe.loss == "saturating" else softplus(-logits)
        generator_loss.mean().backward()
        g_optimizer.step()
        for schedule in schedules:
            schedule.step()
        observe(step + 1)


def tanh_network(n_inputs: int, width: int, n_outputs: int) -> nn.Sequential:
    """Build a network with two hidden layers of tanh units."""
    return nn.Sequential(
        nn.Linear(n_inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
        nn.Linear(width, n_outputs),
    )  # fmt: skip


def _train_on_line(
    recipe: AdversarialRecipe, progress: Progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    generator, discriminator = tanh_network(1, HIDDEN, 1), tanh_network(1, HIDDEN, 1)
    checks = spread_counts(1, recipe.steps, CHECKS)
    best_values, trained_values, histograms = [], [], []

    def draw_noise(n: int) -> Tensor:
        return torch.randn(n, 1)

    @torch.no_grad()
    def observe(step: int) -> None:
        if step not in checks:
            return
        real, fake = _mixture(CHECKED), generator(draw_noise(CHECKED))
        histograms.append([_shares(real), _shares(fake)])
        best_values.append(best_value(*histograms[-1]))
        trained_values.append(float(value(discriminator(real), discriminator(fake))))
        progress("line", step, recipe.steps)

    train_adversaries(generator, discriminator, _mixture, draw_noise, recipe, observe)
    shares = (histograms[-1][0], histograms[len(histograms) // 2][1], histograms[-1][1])
    return checks, np.array(best_values), np.array(trained_values), shares


def _mixture(n: int) -> Tensor:
    sign = 2.0 * torch.randint(0, 2, (n, 1)) - 1
    return CENTRE * sign + WIDTH_OF_MODE * torch.randn(n, 1)


def _shares(x: Tensor) -> Float[np.ndarray, " m"]:
    clipped = np.clip(x.numpy().ravel(), EDGES[0], EDGES[-1])
    return np.histogram(clipped, EDGES)[0] / len(clipped)


class _Blurred(nn.Module):
    """A generator whose samples get the same noise as the data."""

    def __init__(self, generator: nn.Module) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, z: Tensor) -> Tensor:
        return _blur(self.generator(z))


def _blur(x: Tensor) -> Tensor:
    return x + DIGIT_NOISE * torch.randn_like(x)


def _train_digits(recipe: AdversarialRecipe, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    train, _ = load("digits")
    data = torch.tensor(np.asarray(train.x)).float().reshape(len(train), -1)
    pixels = data.shape[1]
    generator = nn.Sequential(
        nn.Linear(DIGIT_CODES, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
        nn.Linear(128, pixels), nn.Sigmoid(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Linear(pixels, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3),
        nn.Linear(128, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1),
    )  # fmt: skip
    period = max(1, recipe.steps // CHECKS)

    def observe(step: int) -> None:
        if step % period == 0:
            progress("digits", step, recipe.steps)

    train_adversaries(
        _Blurred(generator), discriminator,
        lambda n: _blur(data[torch.randint(len(data), (n,))]),
        lambda n: torch.randn(n, DIGIT_CODES), recipe, observe,
    )  # fmt: skip
    with torch.no_grad():
        fakes = generator(torch.randn(SHOWN, DIGIT_CODES))
    nearest = data[torch.cdist(fakes, data).argmin(1)]
    fakes, nearest = (x.reshape(SHOWN, SIDE, SIDE).numpy().astype(float) for x in (fakes, nearest))
    return fakes, nearest
