"""Weight decay shrinks the minimum along each eigenvector of the Hessian; ℓ1 sets weights to 0."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track


@dataclass(frozen=True, slots=True)
class WeightDecay:
    """Shrinking along the Hessian's eigenvectors, as gradient descent really does it."""

    eigenvalues: Float[np.ndarray, " d"]  # λ of the Hessian, descending
    alphas: Float[np.ndarray, " a"]  # the penalties
    shrinking: Float[np.ndarray, "a d"]  # q_iᵀ w̃ / q_iᵀ w* of the weights that descent reached
    predicted: Float[np.ndarray, "a d"]  # λ_i / (λ_i + α)
    lasso: Float[np.ndarray, "a d"]  # weights under the penalty α ‖w‖₁ instead
    pull: Float[np.ndarray, "a d"]  # −∂J/∂w_j / α there: the sign of w_j, in [−1, 1] where it is 0

    @property
    def agreement(self) -> Agreement:
        """The largest difference of the shrinking from its prediction, and of ℓ1's pull."""
        pull = np.where(self.lasso == 0, self.pull.clip(-1, 1), np.sign(self.lasso))
        gaps = np.abs(self.shrinking - self.predicted), np.abs(self.pull - pull)
        return Agreement(
            "largest difference of both penalties from theory", float(np.max(gaps)), 1e-6
        )


@check_args
def weight_decay(
    *,
    n_features: Annotated[int, whole(2)] = 20,
    n_samples: int = 200,
    alphas: Annotated[tuple[float, ...], rising(1e-06, count=1)] = (0.01, 0.1, 1.0),
    steps: Annotated[int, whole()] = 20_000,
    seed: int = 0,
    progress: Progress = silent,
) -> WeightDecay:
    """Run descent on a least-squares loss with and without the penalty (α/2)‖w‖².

    J(w) = (1/2n) Σ (y_i − xᵢᵀw)²,  H = XᵀX / n = Q Λ Qᵀ,  w̃ = Q (Λ + α)⁻¹ Λ Qᵀ w*
    and by proximal descent with α ‖w‖₁, at whose minimum −∇J is in α ∂‖w‖₁

    Args:
        n_features: d; feature j has standard deviation 2^(−j/2), so the eigenvalues spread.
        n_samples: n, more than d.
        alphas: α, increasing.
        steps: of gradient descent, step size 1 / (λ₁ + α).
        seed: of the draw.
        progress: called after each α.

    Returns:
        Shrinking, measured and predicted.

    Cost: a · steps · d² multiplications; about a second.
    Source: S2 class 2, "Weight decay and hessian interpretation", "lp norm" (p = 2 and 1). Exact.
    """
    whole(n_features + 1)("n_samples", n_samples)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_features)) * 2.0 ** (-np.arange(n_features) / 2)
    y = x @ rng.normal(size=n_features) + 0.1 * rng.normal(size=n_samples)
    hessian, moment = x.T @ x / n_samples, x.T @ y / n_samples
    values, vectors = np.linalg.eigh(hessian)
    values, vectors = values[::-1], vectors[:, ::-1]
    minimum = vectors.T @ np.linalg.solve(hessian, moment)  # Qᵀ w*, [d]
    ratios, lasso = [], []
    for alpha in track(alphas, progress, "weight decay"):
        weights = _descend(hessian + alpha * np.eye(n_features), moment, steps)
        ratios.append(vectors.T @ weights / minimum)
        lasso.append(_descend(hessian, moment, steps, alpha))
    penalties, sparse = np.array(alphas, float), np.array(lasso)
    predicted = values / (values + penalties[:, None])
    pull = (moment - sparse @ hessian) / penalties[:, None]
    return WeightDecay(values.copy(), penalties, np.array(ratios), predicted, sparse, pull)


@add_titles
def weight_decay_plots(result: WeightDecay) -> Figures:
    """Draw the shrinking against the eigenvalue, one line per penalty."""
    figure = axes("eigenvalue λ of the Hessian", "share of the minimum left, q·w̃ / q·w*", log="x")
    for index, alpha in enumerate(result.alphas):
        points = (result.eigenvalues, result.shrinking[index])
        add_data(figure, *points, f"α = {alpha:g}, descent", series=index, mode="markers")
        name = "λ / (λ + α)" if index == 0 else ""
        theory(figure, result.eigenvalues, result.predicted[index], name)
    slope = axes("weight under ℓ1", "pull of the loss over α")
    for index, alpha in enumerate(result.alphas):
        point = (result.lasso[index], result.pull[index])
        add_data(slope, *point, f"α = {alpha:g}, ℓ1", series=index, mode="markers")
    reach = np.abs(result.lasso).max()
    theory(slope, np.array([-reach, 0, 0, reach]), np.array([-1, -1, 1, 1]), "slope of |w|")
    return figure, slope


def _descend(
    hessian: np.ndarray, moment: np.ndarray, steps: int, threshold: float = 0.0
) -> Float[np.ndarray, " d"]:
    weights = np.zeros(len(moment))
    rate = 1 / np.linalg.eigvalsh(hessian)[-1]
    for _ in range(steps):
        weights -= rate * (hessian @ weights - moment)
        weights -= weights.clip(-rate * threshold, rate * threshold)
    return weights
