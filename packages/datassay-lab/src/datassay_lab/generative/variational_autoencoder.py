"""Gradients flow through z = μ + σε, and the bound they raise stays below log p(x)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.data import load
from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, latent_map, pictures, theory
from datassay_lab.fits import relative_error, spread_counts

BATCH = 64
CHECKS = 12
# Draws of the importance-weighted bound, and of the bound itself, when they are reported.
WEIGHTS, DRAWS = 50, 50
NODES = 24
STEP = 1e-4
GRID = 10
# A digit's pixels, and those of its frame in the pictures.
SIDE, FRAME = 8, 1


HIDDEN = 64
CODES = 2
# Quadrature over the plane of codes: the prior's mass outside ±6 is below 1e-8.
GRID_END, GRID_POINTS = 6.0, 97


class Variational(nn.Module):
    """Encoder to means and log variances of two codes, decoder to logits of the pixels."""

    def __init__(self, n_pixels: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(n_pixels, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2 * CODES)
        )
        # Smooth, so that the exact bound can be differentiated by differences.
        self.decoder = nn.Sequential(
            nn.Linear(CODES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, n_pixels),
        )  # fmt: skip

    def encode(self, x: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """Return mean [n, 2] and log variance [n, 2] of the codes of each image."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return mean, log_variance

    def log_likelihood(self, x: Float[Tensor, "... d"], z: Float[Tensor, "... 2"]) -> Tensor:
        """Return log p(x | z), nats, of images with pixels 0 and 1."""
        logits = self.decoder(z)
        return (x * logits - nn.functional.softplus(logits)).sum(-1)


def kl_to_standard(mean: Float[Tensor, "... k"], log_variance: Float[Tensor, "... k"]) -> Tensor:
    """Return KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (μ² + σ² − 1 − ln σ²)."""
    # mean: μ. log_variance: ln σ².
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1)


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the log density of N(μ, σ²) at z, its axes independent."""
    # mean: μ, [..., k]. log_variance: ln σ², [..., k].
    square = (z - mean) ** 2 / log_variance.exp()
    return -0.5 * (square + log_variance + torch.log(torch.tensor(2 * torch.pi))).sum(-1)


def lower_bound(
    model: Variational,
    x: Float[Tensor, "n d"],
    noise: Float[Tensor, "m n 2"],
    *,
    trick: bool = True,
    beta: float = 1.0,
) -> Float[Tensor, " n"]:
    """Return each image's ELBO, E_q log p(x | z) − β KL(q ‖ p), the expectation over draws."""
    # noise: ε, [m, n, 2], standard normal. trick: whether gradients flow through z = μ + σε;
    # without, the sample is a constant. beta: weight of the KL term; 1 is the bound.
    # Source: Kingma and Welling (2014).
    mean, log_variance = model.encode(x)
    z = mean + (log_variance / 2).exp() * noise
    z = z if trick else z.detach()
    return model.log_likelihood(x, z).mean(0) - beta * kl_to_standard(mean, log_variance)


def importance_bound(
    model: Variational, x: Float[Tensor, "n d"], noise: Float[Tensor, "m n 2"]
) -> Float[Tensor, " n"]:
    """Return the log mean of m importance weights p(x, z) / q(z | x), a tighter bound."""
    # noise: ε, [m, n, 2].
    # Source: Burda, Grosse and Salakhutdinov (2016).
    mean, log_variance = model.encode(x)
    z = mean + (log_variance / 2).exp() * noise
    zero = torch.zeros_like(z)
    weights = model.log_likelihood(x, z) + log_normal(z, zero, zero)
    weights = weights - log_normal(z, mean, log_variance)
    return weights.logsumexp(0) - torch.log(torch.tensor(float(len(noise))))


def evidence(model: Variational, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Return log p(x) = log ∫ p(x | z) p(z) dz, summed over a grid of codes."""
    axis = torch.linspace(-GRID_END, GRID_END, GRID_POINTS, dtype=x.dtype)
    z = torch.cartesian_prod(axis, axis)
    logits = model.decoder(z)  # [g, d]
    joint = x @ logits.T - nn.functional.softplus(logits).sum(-1)
    joint = joint + log_normal(z, torch.zeros_like(z), torch.zeros_like(z))
    return joint.logsumexp(-1) + 2 * torch.log(axis[1] - axis[0])


@dataclass(frozen=True, slots=True)
class VariationalAutoencoder:
    """A variational autoencoder of digits with two codes."""

    steps: Int[np.ndarray, " c"]  # of training, where the bounds were taken
    bound: Float[np.ndarray, " c"]  # ELBO, mean over held-out digits, nats
    weighted: Float[np.ndarray, " c"]  # importance-weighted bound of 50 draws, nats
    log_p: Float[np.ndarray, " c"]  # log p(x) by quadrature, nats
    # derivatives of the bound by each digit's μ and ln σ², by quadrature, nats.
    exact: Float[np.ndarray, " g"]
    through: Float[np.ndarray, " g"]  # the same, by drawing z and going back through it
    # the same, by the score function: log p(x | z) ∇ log q(z), same draws.
    score: Float[np.ndarray, " g"]
    codes: Float[np.ndarray, "n 2"]  # means of the held-out digits' codes
    labels: Int[np.ndarray, " n"]  # their classes
    decoded: Float[np.ndarray, "h w"]  # digits decoded from the prior's quantiles, side by side
    sampled: Float[np.ndarray, "h w"]  # digits decoded from draws of the prior

    @property
    def agreement(self) -> Agreement:
        """How far gradients through the sample are from the exact ones."""
        error = relative_error(self.through, self.exact)
        return Agreement("relative error of gradients through z", error, 0.1)


@check_args
def variational_autoencoder(
    *,
    steps: Annotated[int, whole(CHECKS)] = 3000,
    n_digits: Annotated[int, whole()] = 24,
    draws: Annotated[int, whole(2)] = 4000,
    beta: Annotated[float, positive()] = 1.0,
    trick: bool = True,
    seed: int = 0,
    progress: Progress = silent,
) -> VariationalAutoencoder:
    """Train a variational autoencoder, and check its gradient and its bound by quadrature.

    z = μ(x) + σ(x) ε,  ELBO = E log p(x | z) − KL(N(μ, σ²) ‖ N(0, I)) ≤ log p(x)

    Args:
        steps: of Adam, batches of 64.
        n_digits: whose gradients are compared.
        draws: of ε for each of them.
        beta: weight of the KL term while training; 1 is the bound.
        trick: whether gradients flow through z; without, in training and in the comparison, the
            sample is a constant to the encoder.
        seed: of starting weights, batches and draws.
        progress: called at each check of the bound.

    Returns:
        Bounds over training, gradients, codes and decoded digits.

    Cost: about 10 seconds.
    Source: S2 class 5, "Variational autoencoder", where the loss is not written: it is minus the
        bound above (Kingma and Welling 2014). Digits are made black and white at half ink, so
        that p(x | z) is a probability. Two codes, so that log p(x) can be summed on a grid.
    """
    train, held_out = load("digits")
    sets = (part.x.reshape(len(part), -1) > 0.5 for part in (train, held_out))
    x, x_new = (torch.tensor(part).double() for part in sets)
    generator = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = Variational(x.shape[1]).double()
    checks = spread_counts(max(1, steps / 100), steps, CHECKS)
    curves = []
    for step in _train_steps(model, x, steps, generator, trick, beta):
        if step in checks:
            with torch.no_grad():
                bound = lower_bound(model, x_new, _normal(generator, DRAWS, len(x_new)))
                weighted = importance_bound(model, x_new, _normal(generator, WEIGHTS, len(x_new)))
                bounds = (bound, weighted, evidence(model, x_new))
            curves.append(tuple(float(part.mean()) for part in bounds))
            progress("training", step, steps)
    digits = x_new[:n_digits]
    noise = _normal(generator, draws, len(digits))
    by_path, by_score = _sample_gradients(model, digits, noise, trick)
    bound, weighted, log_p = np.array(curves).T
    decoded, sampled = _pictures(model, generator)
    with torch.no_grad():
        codes = model.encode(x_new)[0].numpy()
    return VariationalAutoencoder(
        checks, bound, weighted, log_p, _exact_gradients(model, digits), by_path, by_score,
        codes, np.asarray(held_out.y), decoded, sampled,
    )  # fmt: skip


@add_titles
def variational_autoencoder_plots(result: VariationalAutoencoder) -> Figures:
    """Draw bounds over training, gradients, the plane of codes, decoded digits."""
    bounds = axes("steps of training", "nats a held-out digit", log="x")
    add_data(bounds, result.steps, result.bound, "ELBO")
    add_data(bounds, result.steps, result.weighted, "50 weighted draws", series=1)
    theory(bounds, result.steps, result.log_p, "log p(x)")
    gradients = axes("exact derivative of the bound", "derivative from draws", height=400)
    add_data(gradients, result.exact, result.score, "score function", series=1, mode="markers")
    add_data(gradients, result.exact, result.through, "through z = μ + σε", mode="markers")
    ends = np.array([result.exact.min(), result.exact.max()])
    theory(gradients, ends, ends, "equal")
    spread = 1.6 * float(np.abs(result.exact).max())
    gradients.update_yaxes(range=[-spread, spread])
    images = pictures(
        np.array([result.decoded, result.sampled]),
        ("decoded from a grid of codes", "decoded from draws of N(0, I)"), columns=2, side=430,
    )  # fmt: skip
    codes = latent_map(result.codes, result.labels, "mean of the first code", "of the second")
    return bounds, gradients, codes, images


def _normal(generator: torch.Generator, draws: int, n: int) -> Float[Tensor, "m n 2"]:
    return torch.randn(draws, n, CODES, generator=generator, dtype=torch.float64)


def _train_steps(
    model: Variational, x: Tensor, steps: int, generator: torch.Generator, trick: bool, beta: float
) -> Iterator[int]:
    """Train the model in place; yield the number of steps done after each."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(1, steps + 1):
        batch = x[torch.randint(len(x), (BATCH,), generator=generator)]
        noise = _normal(generator, 1, BATCH)
        optimizer.zero_grad()
        (-lower_bound(model, batch, noise, trick=trick, beta=beta).mean()).backward()
        optimizer.step()
        yield step


def _sample_gradients(
    model: Variational, x: Tensor, noise: Tensor, trick: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds' derivatives by μ and ln σ²: through the sample, and by scores."""
    codes = torch.cat([p.detach() for p in model.encode(x)], -1).requires_grad_()
    mean, log_variance = codes.chunk(2, -1)
    z = mean + (log_variance / 2).exp() * noise
    z = z if trick else z.detach()
    bound = model.log_likelihood(x, z).mean(0) - kl_to_standard(mean, log_variance)
    (path_gradient,) = torch.autograd.grad(bound.sum(), codes, retain_graph=True)
    with torch.no_grad():
        likelihood = model.log_likelihood(x, z)[..., None]
        deviation = (log_variance / 2).exp()
        scores = torch.cat([noise / deviation, (noise**2 - 1) / 2], -1)  # ∇ log q at z
        slope = torch.cat([mean, (deviation**2 - 1) / 2], -1)  # ∇ KL
        score = (likelihood * scores).mean(0) - slope
    return path_gradient.numpy().ravel(), score.numpy().ravel()


def _exact_gradients(model: Variational, x: Tensor) -> Float[np.ndarray, " g"]:
    """Compute the same derivatives by Gauss–Hermite quadrature and central differences."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    grid = torch.cartesian_prod(torch.tensor(nodes), torch.tensor(nodes))[:, None]  # [q, 1, 2]
    mass = torch.tensor(np.outer(weights, weights).ravel() / (2 * np.pi))[:, None]

    def bound(codes: Tensor) -> Tensor:
        mean, log_variance = codes.chunk(2, -1)
        likelihood = model.log_likelihood(x, mean + (log_variance / 2).exp() * grid)
        return (mass * likelihood).sum(0) - kl_to_standard(mean, log_variance)

    with torch.no_grad():
        codes = torch.cat(model.encode(x), -1)
        shifts = STEP * torch.eye(2 * CODES, dtype=codes.dtype)
        slopes = [(bound(codes + shift) - bound(codes - shift)) / (2 * STEP) for shift in shifts]
    return torch.stack(slopes, -1).numpy().ravel()


def _pictures(model: Variational, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
    # Equal steps of probability, so that every part of the prior gets its share of the picture.
    quantiles = torch.special.ndtri((torch.arange(GRID, dtype=torch.float64) + 0.5) / GRID)
    prior_draws = _normal(generator, 1, GRID**2)[0]
    with torch.no_grad():
        images = [model.decoder(z).sigmoid().numpy()
                  for z in (torch.cartesian_prod(quantiles, quantiles), prior_draws)]  # fmt: skip
    frame = ((0, 0), (FRAME, FRAME), (FRAME, FRAME))
    tile, side = SIDE + 2 * FRAME, GRID * (SIDE + 2 * FRAME)
    decoded, sampled = (
        np
        .pad(image.reshape(-1, SIDE, SIDE), frame)
        .reshape(GRID, GRID, tile, tile)
        .transpose(0, 2, 1, 3)
        .reshape(side, side)
        for image in images
    )
    return decoded, sampled
