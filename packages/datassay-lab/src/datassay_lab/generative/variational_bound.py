"""Small variational autoencoder with two codes: ELBO, importance-weighted bound, log p(x)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

HIDDEN = 64
CODES = 2
# Quadrature over the plane of codes: the prior's mass outside ±6 is below 1e-8.
GRID_END, GRID_POINTS = 6.0, 97


class Variational(nn.Module):
    """Encoder to means and log variances of two codes, decoder to logits of pixels.

    Args:
        n_pixels: of an image.
    """

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
        """Mean [n, 2] and log variance [n, 2] of the codes of each image."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return mean, log_variance

    def log_likelihood(self, x: Float[Tensor, "... d"], z: Float[Tensor, "... 2"]) -> Tensor:
        """Log p(x | z), nats, of images with pixels 0 and 1."""
        logits = self.decoder(z)
        return (x * logits - nn.functional.softplus(logits)).sum(-1)


def kl_to_standard(mean: Float[Tensor, "... k"], log_variance: Float[Tensor, "... k"]) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (μ² + σ² − 1 − ln σ²)."""
    # mean: μ. log_variance: ln σ².
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1)


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Log density of N(μ, σ²) at z, its axes independent."""
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
    """ELBO of each image, E_q log p(x | z) − β KL(q ‖ p), the expectation over draws."""
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
    """Log of the mean of m importance weights p(x, z) / q(z | x), a tighter bound of log p(x)."""
    # noise: ε, [m, n, 2].
    # Source: Burda, Grosse and Salakhutdinov (2016).
    mean, log_variance = model.encode(x)
    z = mean + (log_variance / 2).exp() * noise
    zero = torch.zeros_like(z)
    weights = model.log_likelihood(x, z) + log_normal(z, zero, zero)
    weights = weights - log_normal(z, mean, log_variance)
    return weights.logsumexp(0) - torch.log(torch.tensor(float(len(noise))))


def evidence(model: Variational, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Log p(x) = log ∫ p(x | z) p(z) dz, summed over a grid of codes."""
    axis = torch.linspace(-GRID_END, GRID_END, GRID_POINTS, dtype=x.dtype)
    z = torch.cartesian_prod(axis, axis)
    logits = model.decoder(z)  # [g, d]
    joint = x @ logits.T - nn.functional.softplus(logits).sum(-1)
    joint = joint + log_normal(z, torch.zeros_like(z), torch.zeros_like(z))
    return joint.logsumexp(-1) + 2 * torch.log(axis[1] - axis[0])
