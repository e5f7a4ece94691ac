"""Ridge-penalised fits of models that are linear in their weights: several at once, to the minimum.

L(θ) = (1/Σ_i v_i) Σ_i v_i ℓ_i(J_i θ) + (ridge/2) ‖θ‖²
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.curvature.output_geometry import OutputFeatures, SharedFeatures
from datassay.collect.loss import Loss, loss_named
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.results import result
from datassay.rules import positive

# Up to here a Newton step costs less than the hundreds of gradients that L-BFGS takes instead.
LARGEST_NEWTON = 1600
MAX_NEWTON_STEPS = 100
MAX_LBFGS_STEPS = 5000
# A fit ends where ‖∇L‖ is below this.
NEWTON_GRADIENT = 1e-9
LBFGS_GRADIENT = 1e-6


@result
class ConvexFit:
    """The minima of several convex fits.

    Attributes:
        weights: θ, [B, p], by output.
        gradient_norm: ‖∇L‖, [B], at those weights, ridge included.
    """

    weights: Float[Tensor, "B p"]
    gradient_norm: Float[Tensor, " B"]


def fit_convex(
    features: OutputFeatures,
    targets: Float[Tensor, "n k"] | Float[Tensor, "B n k"],
    loss: str,
    ridge: float,
    *,
    sample_weight: Float[Tensor, "B n"] | None = None,
    start: Float[Tensor, "B p"] | None = None,
    max_steps: int | None = None,
) -> ConvexFit:
    """Fit B ridge-penalised models to the same samples under B weightings of them.

    Args:
        features: J; the model's outputs are J θ.
        targets: as `Loss.value` takes them, the same for all models or each its own.
        loss: "cross_entropy" or "mse".
        ridge: penalty of the mean loss, (ridge/2)‖θ‖², of every weight (a bias too).
        sample_weight: v, not negative, not all 0 in a row; 0 leaves a sample out. None is one model
            of all samples.
        start: θ to start from; None starts at 0.
        max_steps: None goes on to the minimum; an outer loop that moves the weightings needs no
            more than a step or two each time.

    Returns:
        The minima, with the gradient norm that was reached.

    Raises:
        SettingError: ridge is not positive, so that a minimum need not exist, or it vanishes
            compared with the rounding of the Hessian.

    Cost: a Newton step is 2 B n k p² operations for dense features, 2 B n k² d² for shared ones,
    and B p³/3; beyond 1600 weights L-BFGS, 4 n p operations per step.
    """
    positive("ridge", ridge, why=" so that the fit has one minimum", remedy="Try 0.0001.")
    n = len(features)
    p = features.n_parameters
    weight = coalesce(sample_weight, targets.new_ones(1, n))
    weight = weight / weight.sum(1, keepdim=True)
    if start is None:
        theta = targets.new_zeros(len(weight), p)
    else:
        theta = start.clone()
    problem = _Problem(features, targets, loss_named(loss), ridge, weight)
    minimise = _minimise_by_newton if p <= LARGEST_NEWTON else _minimise_by_lbfgs
    theta = minimise(problem, theta, max_steps)
    return ConvexFit(theta, problem.gradient(theta, features.outputs(theta)).norm(dim=1))


def step_by_class(
    features: SharedFeatures,
    targets: Float[Tensor, "n k"] | Float[Tensor, "B n k"],
    ridge: float,
    *,
    sample_weight: Float[Tensor, "B n"],
    start: Float[Tensor, "B p"],
) -> Float[Tensor, "B p"]:
    """Return the weights of B softmax models after one step that lowers each loss.

    A Newton step whose Hessian is that of each class alone, times k/(k − 1): what the others
    contribute where all classes are equally probable. Halved until the loss falls.

    Args:
        features: J of a dense layer.
        targets: one-hot classes, or probabilities.
        ridge: as `fit_convex` takes it.
        sample_weight: v, as there.
        start: θ before the step.

    Returns:
        θ after it.

    Cost: B n k d² operations, of which a Newton step takes k times as many.
    Source: Böhning (1992) bounds the Hessian likewise, for all θ at once.
    """
    k = features.n_outputs
    weight = sample_weight / sample_weight.sum(1, keepdim=True)
    problem = _Problem(features, targets, loss_named("cross_entropy"), ridge, weight)
    outputs = features.outputs(start)
    prob = outputs.softmax(-1)
    gradient = features.pullback(weight[..., None] * (prob - targets)) + ridge * start
    scale = k / (k - 1) * weight[..., None] * prob * (1 - prob)  # [B, n, k]
    hessian = SharedFeatures(features.x, 1).curvature(scale.mT[..., None, None])  # [B, k, d, d]
    hessian.diagonal(dim1=-2, dim2=-1).add_(ridge)
    by_class = gradient.unflatten(1, (k, -1))[..., None]
    step = -torch.cholesky_solve(by_class, torch.linalg.cholesky(hessian)).flatten(1)
    return _search_line(problem, start, outputs, step, (gradient * step).sum(1))[0]


@result
class _Problem:
    """The losses L of B models, as functions of their weights θ = theta and outputs J θ."""

    features: OutputFeatures
    targets: Float[Tensor, "n k"] | Float[Tensor, "B n k"]
    loss: Loss
    ridge: float
    weight: Float[Tensor, "B n"]  # rows sum to 1

    def value(
        self, theta: Float[Tensor, "B p"], outputs: Float[Tensor, "B n k"]
    ) -> Float[Tensor, " B"]:
        """Return each model's L."""
        losses = self.loss.value(outputs, self.targets)
        return (self.weight * losses).sum(1) + 0.5 * self.ridge * theta.square().sum(1)

    def gradient(
        self, theta: Float[Tensor, "B p"], outputs: Float[Tensor, "B n k"]
    ) -> Float[Tensor, "B p"]:
        """Return each model's ∇L."""
        slope = self.loss.gradient(outputs, self.targets)
        return self.features.pullback(self.weight[..., None] * slope) + self.ridge * theta

    def select(self, keep: Tensor) -> "_Problem":
        """Return the problem restricted to some of the B models."""
        if self.targets.ndim == 2:
            targets = self.targets
        else:
            targets = self.targets[keep]
        return _Problem(self.features, targets, self.loss, self.ridge, self.weight[keep])


def _minimise_by_newton(
    problem: _Problem, theta: Float[Tensor, "B p"], max_steps: int | None
) -> Float[Tensor, "B p"]:
    """Return minima by Newton's method with step halving; converged models leave the batch."""
    active_idx = torch.arange(len(theta))
    for _ in range(max_steps or MAX_NEWTON_STEPS):
        active_problem = problem.select(active_idx)
        weights = theta[active_idx]
        outputs = problem.features.outputs(weights)
        gradient = active_problem.gradient(weights, outputs)
        is_active = gradient.norm(dim=1) > NEWTON_GRADIENT
        if not is_active.any():
            break
        active_idx = active_idx[is_active]
        active_problem = active_problem.select(is_active)
        weights = weights[is_active]
        outputs = outputs[is_active]
        gradient = gradient[is_active]
        new_weights, cannot_improve = _take_newton_step(active_problem, weights, outputs, gradient)
        theta[active_idx] = new_weights
        active_idx = active_idx[~cannot_improve]
        if not len(active_idx):
            break
    return theta


def _take_newton_step(
    problem: _Problem,
    theta: Float[Tensor, "B p"],
    outputs: Float[Tensor, "B n k"],
    gradient: Float[Tensor, "B p"],
) -> tuple[Float[Tensor, "B p"], Tensor]:
    """Return weights after a step, [B, p], and which models' loss falls no more, [B]."""
    inner = problem.weight[..., None, None] * problem.loss.hessian(outputs)
    hessian = problem.features.curvature(inner)
    hessian.diagonal(dim1=-2, dim2=-1).add_(problem.ridge)
    factor, failed = torch.linalg.cholesky_ex(hessian)
    if failed.any():
        largest = float(hessian.diagonal(dim1=-2, dim2=-1).max())
        rounding = hessian.shape[-1] * torch.finfo(hessian.dtype).eps * largest
        raise SettingError(
            "ridge must be large enough that the Hessian is positive definite to rounding; got "
            f"{problem.ridge:g} compared with a curvature of {largest:.1g}. Scale the inputs to "
            f"about 1, or try {10 * rounding:.1g}."
        )
    step = -torch.cholesky_solve(gradient[..., None], factor)[..., 0]
    return _search_line(problem, theta, outputs, step, (gradient * step).sum(1))


def _search_line(
    problem: _Problem,
    theta: Float[Tensor, "B p"],
    outputs: Float[Tensor, "B n k"],
    step: Float[Tensor, "B p"],
    slope: Float[Tensor, " B"],
) -> tuple[Float[Tensor, "B p"], Tensor]:
    """Return weights after a backtracking step, and which models' loss never fell, [B]."""
    # `slope`: ∇L · step, the loss's change for a small step. Models whose loss does not fall stay.
    value = problem.value(theta, outputs)
    size = torch.ones_like(value)
    for _ in range(40):  # halvings at most
        candidate = theta + size[:, None] * step
        new_value = problem.value(candidate, problem.features.outputs(candidate))
        # Armijo's condition. The last term: near the minimum the decrease is below the rounding of
        # the value itself.
        is_worse = new_value > value + 1e-4 * size * slope + 1e-14 * value.abs()
        if not is_worse.any():
            break
        size = torch.where(is_worse, size / 2, size)
    return torch.where(is_worse[:, None], theta, candidate), is_worse


def _minimise_by_lbfgs(
    problem: _Problem, theta: Float[Tensor, "B p"], max_steps: int | None
) -> Float[Tensor, "B p"]:
    """Return the minima by L-BFGS, one model after the other."""
    from scipy.optimize import minimize

    # gtol bounds the largest entry of the gradient, so its norm by √p times as much.
    largest_entry = LBFGS_GRADIENT / theta.shape[1] ** 0.5
    steps = max_steps or MAX_LBFGS_STEPS
    options = {"maxiter": steps, "gtol": largest_entry, "ftol": 0.0}
    minima = []
    for b in range(len(theta)):
        model_b = problem.select(torch.tensor([b]))

        def value_and_gradient(flat: np.ndarray, model_b=model_b) -> tuple[float, np.ndarray]:
            point = torch.from_numpy(flat)[None]
            outputs = model_b.features.outputs(point)
            return float(model_b.value(point, outputs)), model_b.gradient(point, outputs)[0].numpy()

        result = minimize(
            value_and_gradient, theta[b].numpy(), jac=True, method="L-BFGS-B", options=options
        )
        minima.append(torch.from_numpy(result.x))
    return torch.stack(minima)
