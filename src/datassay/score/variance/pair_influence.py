"""Influence of every sample on every other, as rows whose products are the pairs.

X(z, z′) = −∇L(z′)ᵀ H⁻¹ ∇L(z) = −a_zᵀ a_z′,  A = G L⁻ᵀ,  H = L Lᵀ

H is the Hessian of the ridge-penalised mean loss plus damping · I. Nothing here is n × n.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import OutputGeometry, output_geometry
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import require
from datassay.score.settings import Influence


@dataclass(frozen=True, slots=True)
class Partners:
    """The samples that one sample influences most.

    Attributes:
        helped: [t] positions of the samples whose loss it lowers most, the most helped first.
        harmed: [t] positions of those whose loss it raises most, the most harmed first.
        help: [t], X(z, z′) of `helped`: loss change per unit of added weight, negative.
        harm: [t], X(z, z′) of `harmed`, positive. Each list ends where its sign does.
    """

    helped: Int[np.ndarray, " helped"]
    harmed: Int[np.ndarray, " harmed"]
    help: Float[np.ndarray, " helped"]
    harm: Float[np.ndarray, " harmed"]


@result
class PairInfluence:
    """X(z, z′) of n samples, block by block.

    Attributes:
        rows: a_z = L⁻¹ ∇L(z), [n, p], float64.
        ids: [n].
        ridge: of the mean loss.
        damping: added to the Hessian, not part of the training. V[X] depends on it: larger damping,
            smaller |X|.
        gradient_norm: ‖∇L + ridge θ‖ of the mean loss where the weights that train are a dense
            layer, ‖∇L‖ otherwise; X is valid only near 0.
    """

    rows: Float[Tensor, "n p"]
    ids: np.ndarray
    ridge: float
    damping: float
    gradient_norm: float

    def __len__(self) -> int:
        return len(self.rows)

    def block(
        self, rows: Int[np.ndarray, " r"] | slice, columns: Int[np.ndarray, " c"] | slice
    ) -> Float[np.ndarray, "r c"]:
        """Return X between two sets: loss change of the second per unit weight of the first."""
        return -(self.rows[rows] @ self.rows[columns].T).numpy()

    def partners(self, position: int, top: int = 5) -> Partners:
        """Return the samples that the one at a position helps and harms most.

        Args:
            position: in 0..n−1.
            top: how many of each at most.

        Returns:
            The partners, without the sample itself.

        Raises:
            SettingError: position or top is out of range.
        """
        if not 0 <= position < len(self) or top < 1:
            raise SettingError(
                f"position must lie in 0..{len(self) - 1} and top be at least 1; got {position} "
                f"and {top}."
            )
        effect = self.block(slice(position, position + 1), slice(None))[0]
        effect[position] = 0.0
        order = np.argsort(effect, kind="stable")
        lowest = order[:top]
        highest = order[::-1][:top]
        helped = lowest[effect[lowest] < 0]
        harmed = highest[effect[highest] > 0]
        return Partners(helped, harmed, effect[helped], effect[harmed])


@checks_arguments
def pair_influence(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Influence.loss,
    ridge: float = Influence.ridge,
    damping: float = Influence.damping,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> PairInfluence:
    """Compute X(z, z′) at a model's trained weights.

    Args:
        model: at weights trained on `train`. Exact where all that trains is one dense layer at
            the end; otherwise Gauss–Newton on (projected) Jacobians.
        train: n samples.
        loss: training loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        ridge: of the training, (ridge/2)‖θ‖² added to the mean loss.
        damping: added to the Hessian of the penalised mean loss.
        projection: of the Jacobians: features per tensor, None for all, "auto" for as many as fit.
        seed: of the projection.
        progress: called with (step, samples done, samples in all).

    Returns:
        The rows whose products are X.

    Raises:
        SettingError: ridge or damping is negative, the loss does not suit, or the Hessian is
            singular.
        DataError: fewer than 2 samples or classes.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: `output_geometry`, 2 n k p² operations for H, p³/3 and n p².
    Source: S4 Lemma 3 (Koh and Liang, 2017). Exact for linear models; otherwise deviates by
    Gauss–Newton's H and by the projection.
    """
    check_penalties(ridge, damping)
    check_sets(train, None)
    geometry = output_geometry(
        model, train, loss, projection=projection, seed=seed, progress=progress
    )
    return geometry_influence(geometry, train.ids, ridge, damping)


def geometry_influence(
    geometry: OutputGeometry, ids: np.ndarray, ridge: float, damping: float
) -> PairInfluence:
    """Return X(z, z′) of a geometry's n samples, whose `ids` these are."""
    slope, curvature = geometry.derivatives()
    gradients = geometry.features.gradients(slope)
    factor = hessian_factor(geometry.features.curvature(curvature) / len(geometry), ridge + damping)
    mean_gradient = gradients.mean(0)
    if geometry.weights is not None:
        mean_gradient = mean_gradient + ridge * geometry.weights
    norm = float(mean_gradient.norm())
    return PairInfluence(whiten(factor, gradients), ids, ridge, damping, norm)


def hessian_factor(
    mean_curvature: Float[Tensor, "*batch p p"], penalty: float
) -> Float[Tensor, "*batch p p"]:
    """Return the Cholesky factor L of each H = mean loss's Hessian + penalty · I; raise if none."""
    hessian = mean_curvature.clone()
    diagonal = hessian.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(hessian)
    rounding = diagonal.shape[-1] * torch.finfo(hessian.dtype).eps * diagonal.amax(-1)
    pivots = factor.diagonal(dim1=-2, dim2=-1).square().amin(-1)
    if failed.any() or not (pivots > rounding).all():
        raise SettingError(singular_hessian(penalty))
    return factor


def singular_hessian(penalty: float) -> str:
    """Return the message about an H without inverse: rule, value and remedy."""
    return (
        "the Hessian of the loss must be positive definite, also without any one sample; it is "
        f"singular at ridge + damping = {penalty:g}. Set damping=0.01, or train with a ridge."
    )


def whiten(factor: Float[Tensor, "p p"], rows: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
    """Return L⁻¹ times each row: inner products are then those in the metric H⁻¹."""
    return torch.linalg.solve_triangular(factor, rows.T, upper=False).T


def check_penalties(ridge: float, damping: float) -> None:
    """Raise if ridge or damping is negative or not finite."""
    for name, value in (("ridge", ridge), ("damping", damping)):
        require(0 <= value < float("inf"), f"{name}", "be a number of at least 0", value)
