"""Smoothing covariances of the trained weights, as pure functions over orthonormal coordinates."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.errors import SettingError
from datassay.results import result

# Eigenvalues of a covariance below this fraction of its largest count as rounding: they are
# computed to about p · 2⁻⁵², so those above have three correct digits or more.
NULL_FRACTION = 1e-10


def gradient_covariance(gradients: Float[Tensor, "p n"]) -> Float[Tensor, "p p"]:
    """Covariance of the per-sample loss gradients, Λ = (1/n) G Gᵀ − g gᵀ.

    Args:
        gradients: G, one column per sample. A term that all share, such as weight decay, drops out.

    Returns:
        Λ, gradient unit squared; rank at most n − 1.

    Cost: 2 p² n operations.
    Source: S1 App. C. Exact.
    """
    centred = gradients - gradients.mean(1, keepdim=True)
    return centred @ centred.T / gradients.shape[1]


def steady_state_covariance(
    noise: Float[Tensor, "p p"], curvature: Float[Tensor, " p"], scale: float
) -> Float[Tensor, "p p"]:
    """Covariance Σ of the weights of SGD around its minimum, H Σ + Σ H = scale · Λ.

    Σ_ij = scale Λ_ij / (h_i + h_j)

    Args:
        noise: Λ in the eigenbasis of H.
        curvature: h, eigenvalues of H, the Hessian of the SUM loss; all positive.
        scale: n² η / b for a sum loss of step η and batches of b: SGD then adds n times the batch's
            mean gradient, so its noise is n² Λ / b.

    Returns:
        Σ, weight unit squared.

    Cost: p² values.
    Source: S1 Prop. 5.1 and eq. 14, whose right side (η/b)Λ mixes the sum loss's H with the mean
    gradient's Λ; here it is n²(η/b)Λ. The limit of small steps: terms of order η h are left out.
    """
    return scale * noise / (curvature[:, None] + curvature)


@result
class GaussianNoise:
    """A Gaussian N(0, Σ) whose covariance may be singular, ready for quadratic forms.

    Attributes:
        factor: [r, p], Σ⁺ = factorᵀ factor over the r directions that Σ reaches.
        threshold: eigenvalues of Σ at most this, weight unit squared, count as null.
    """

    factor: Float[Tensor, "r p"]
    threshold: float

    @property
    def rank(self) -> int:
        """r, the directions with noise."""
        return len(self.factor)

    def information(self, changes: Float[Tensor, "p g"]) -> Float[Tensor, " g"]:
        """½ Δᵀ Σ⁺ Δ in nats; a lower bound where part of Δ lies outside Σ's range."""
        return 0.5 * (self.factor @ changes).square().sum(0)

    def inside(self, changes: Float[Tensor, "p g"]) -> Float[Tensor, " g"]:
        """Squared length of the part of Δ in Σ's range."""
        directions = self.factor / self.factor.norm(dim=1, keepdim=True)
        return (directions @ changes).square().sum(0)


def gaussian_noise(
    covariance: Float[Tensor, "p p"], null_fraction: float = NULL_FRACTION
) -> GaussianNoise:
    """Factor a covariance, its null directions left out.

    Args:
        covariance: Σ, symmetric, no eigenvalue below 0 by more than rounding.
        null_fraction: eigenvalues below this fraction of the largest are null.

    Returns:
        The factor of the pseudo-inverse.

    Raises:
        SettingError: Σ is 0, so that information would be infinite.

    Cost: about 10 p³ operations; p² values.
    """
    eigenvalues, directions = torch.linalg.eigh(covariance)
    threshold = null_fraction * float(eigenvalues[-1])
    if not threshold > 0:
        raise SettingError(
            "the smoothing covariance must not be 0, or every change would inform without limit; "
            "got Σ = 0. Smooth with 'functional' or 'isotropic', or set a penalty."
        )
    kept = eigenvalues > threshold
    return GaussianNoise((directions[:, kept] / eigenvalues[kept].sqrt()).T, threshold)
