"""Descent stopped early, or slowed by a schedule, acts like weight decay: α ≈ 1 / Σ ε."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent, track

# Ali, Kolter and Tibshirani (2019), Theorem 2: risk of gradient flow at t over ridge at 1/t.
RISK_BOUND = 1.6862
GRID = 400  # penalties that are tried for each τ
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Weights of stopped descent against those of weight decay."""

    steps: Float[np.ndarray, " t"]  # τ
    times: Float[np.ndarray, " t"]  # τ ε
    best_alphas: Float[np.ndarray, " t"]  # penalty whose weights are nearest to those after τ steps
    mismatch: Float[np.ndarray, " t"]  # ‖w_τ − w̃‖ / ‖w_τ‖ at that penalty
    slope: float  # of log best α against log τε over the path; theory says −1
    stopped_risk: Float[np.ndarray, " t"]  # expected excess error after τ steps over that of w = 0
    ridge_risk: Float[np.ndarray, " t"]  # the same for weight decay with α = 1 / (τ ε)
    eigenvalues: Float[np.ndarray, " d"]  # λ of the Hessian, descending
    stopped: Float[np.ndarray, " d"]  # share of w* along each eigenvector after the middle τ
    decayed: Float[np.ndarray, " d"]  # the same for weight decay with α = 1 / (τ ε)
    slowed_times: Float[np.ndarray, " t"]  # Σ ε_t of descent whose steps shrink as 1/√t
    slowed_alphas: Float[np.ndarray, " t"]  # its nearest penalties
    parameters: Float[np.ndarray, " t"]  # effective: trace of the map from targets to outputs
    decayed_parameters: Float[np.ndarray, " t"]  # the same for weight decay, Σ λ / (λ + α)

    @property
    def agreement(self) -> Agreement:
        """The largest factor between the best penalty and 1 / Σ ε, either way, both schedules."""
        products = (self.best_alphas * self.times, self.slowed_alphas * self.slowed_times)
        factor = float(np.exp(np.abs(np.log(products)).max()))
        return Agreement("largest factor between the best α and 1/Σε", factor, 2.0)


@check_args
def early_stopping(
    *,
    n_features: Annotated[int, whole(2)] = 40,
    n_samples: int = 400,
    steps: Annotated[tuple[int, ...], rising_whole(1, count=3)] = STEPS,
    step_size: Annotated[float, positive(2)] = 0.1,
    noise: Annotated[float, positive()] = 1.0,
    seed: int = 0,
    progress: Progress = silent,
) -> EarlyStopping:
    """Run descent on a least-squares loss from 0; find the weight decay like each moment.

    Qᵀ w_τ = (1 − Π (1 − ε_t λ)) Qᵀ w*,   Qᵀ w̃ = λ / (λ + α) Qᵀ w*

    The steps ε_t are constant, or shrink as 1/√t (S2: "Implicit L2!" at schedules). The effective
    number of parameters is Σ 1 − (1 − ε λ)^τ, the trace of the map from targets to outputs.

    Args:
        n_features: d; feature j has standard deviation 1/j.
        n_samples: n, more than d.
        steps: τ, increasing; for the statement to hold, τ ε λ_d must stay below about 1.
        step_size: ε times the largest eigenvalue, below 2.
        noise: deviation of the targets' noise; the weights behind them are standard Gaussian.
        seed: of the draw.
        progress: called after each τ.

    Returns:
        Best penalties, mismatches and risks.

    Cost: largest τ · d² multiplications; under a second.
    Source: S2 class 3, "Early stopping, L2 norm and learning rate" and "scheduling"; classes 2
    and 3, "the effective learnable parameters are bounded". S2's line "log(1 − x) ≈ x"
    must read −x; with both signs right its result stands. S2 derives it for ε λ ≪ 1 and λ ≪ α
    (so τ ε λ ≪ 1), where both fits are still near 0; over the whole path it is a rule of thumb
    within a factor, as tested here. The risk's bound is for gradient flow.
    """
    whole(n_features + 1)("n_samples", n_samples)
    hessian, moment, truth = _problem(n_features, n_samples, noise, seed)
    values, vectors = np.linalg.eigh(hessian)
    values, vectors = values[::-1].copy(), vectors[:, ::-1]
    minimum = vectors.T @ np.linalg.solve(hessian, moment)  # Qᵀ w*, [d]
    rate = step_size / values[0]
    constant, slowed = np.full(steps[-1], rate), rate / np.sqrt(np.arange(1, steps[-1] + 1))
    path = _path(hessian, moment, steps, constant, progress) @ vectors  # [t, d]
    slow_path = _path(hessian, moment, steps, slowed, silent) @ vectors
    slow_times = slowed.cumsum()[np.array(steps) - 1]
    times = rate * np.array(steps, float)
    best_alphas, mismatch = _nearest_decay(path, values, minimum, times)
    # Risk over the noise, at the truth behind the targets: bias and variance along q_i.
    level, goal = noise**2 / n_samples, vectors.T @ truth
    stopped_share = 1 - (1 - rate * values) ** np.array(steps)[:, None]
    decayed_share = values / (values + 1 / times[:, None])
    return EarlyStopping(
        np.array(steps, float),
        times,
        best_alphas,
        mismatch,
        exponent(times, best_alphas),
        _risk(stopped_share, values, goal, level),
        _risk(decayed_share, values, goal, level),
        values,
        path[len(steps) // 2] / minimum,
        decayed_share[len(steps) // 2],
        slow_times,
        _nearest_decay(slow_path, values, minimum, slow_times)[0],
        _path(hessian, hessian, steps, constant, silent).trace(axis1=1, axis2=2),
        decayed_share.sum(1),
    )


@add_titles
def early_stopping_plots(result: EarlyStopping) -> Figures:
    """Draw best penalties, shares along the eigenvectors, risks."""
    penalty = axes("time Σε of descent", "best matching penalty α", log="xy")
    add_data(penalty, result.times, result.best_alphas, "nearest weight decay", mode="markers")
    slow_pair = (result.slowed_times, result.slowed_alphas)
    add_data(penalty, *slow_pair, "the same, steps shrink as 1/√t", series=1, mode="markers")
    theory(penalty, result.times, 1 / result.times, "α = 1/Σε")
    share = axes("eigenvalue λ of the Hessian", "share of the minimum reached", log="x")
    tau = result.steps[len(result.steps) // 2]
    add_data(share, result.eigenvalues, result.stopped, f"after τ = {tau:g} steps", mode="markers")
    theory(share, result.eigenvalues, result.decayed, "weight decay, α = 1/(τε)")
    risk = axes("time τε of descent", "excess error, w = 0 is 1", log="xy")
    add_data(risk, result.times, result.stopped_risk, "stopped descent")
    add_data(risk, result.times, result.ridge_risk, "weight decay, α = 1/(τε)", series=1)
    bound = RISK_BOUND * result.ridge_risk
    theory(risk, result.times, bound, f"bound, {RISK_BOUND:g} × weight decay")
    count = axes("time τε of descent", "effective parameters", log="x")
    add_data(count, result.times, result.parameters, "stopped descent")
    theory(count, result.times, result.decayed_parameters, "weight decay, α = 1/(τε)")
    return penalty, share, risk, count


def _problem(
    n_features: int, n_samples: int, noise: float, seed: int
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return the Hessian, Xᵀy / n, and the weights behind the targets."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_features)) / np.arange(1, n_features + 1)
    truth = rng.normal(size=n_features)
    y = x @ truth + noise * rng.normal(size=n_samples)
    return x.T @ x / n_samples, x.T @ y / n_samples, truth


def _path(
    hessian: np.ndarray,
    moment: np.ndarray,
    steps: tuple[int, ...],
    rates: Float[np.ndarray, " steps"],
    progress: Progress,
) -> Float[np.ndarray, "t d ..."]:
    """Return the weights after each number of steps; of a moment with columns, as many descents."""
    weights, n_done, path = np.zeros_like(moment), 0, []
    for n_steps in track(steps, progress, "stopped descent"):
        for rate in rates[n_done:n_steps]:
            weights = weights - rate * (hessian @ weights - moment)
        n_done = n_steps
        path.append(weights)
    return np.array(path)


def _nearest_decay(
    path: Float[np.ndarray, "t d"],
    values: Float[np.ndarray, " d"],
    minimum: Float[np.ndarray, " d"],
    times: Float[np.ndarray, " t"],
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Return each moment's penalty within a factor of 30 of 1/(τε) with the nearest weights."""
    factors = np.geomspace(1 / 30, 30, GRID)
    best_alphas, mismatch = [], []
    for weights, time in zip(path, times, strict=True):
        alphas = factors / time
        decayed = values / (values + alphas[:, None]) * minimum  # [grid, d]
        distance = np.linalg.norm(decayed - weights, axis=1) / np.linalg.norm(weights)
        best_alphas.append(alphas[distance.argmin()])
        mismatch.append(distance.min())
    return np.array(best_alphas), np.array(mismatch)


def _risk(
    share: Float[np.ndarray, "t d"],
    values: Float[np.ndarray, " d"],
    goal: Float[np.ndarray, " d"],
    level: float,
) -> Float[np.ndarray, " t"]:
    """Return E (w − truth)ᵀ H (w − truth) over the targets' noise, over that of w = 0."""
    bias = (1 - share) ** 2 @ (values * goal**2)
    variance = level * (share**2).sum(1)
    return (bias + variance) / (values @ goal**2)
