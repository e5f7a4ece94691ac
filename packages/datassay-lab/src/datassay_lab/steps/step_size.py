"""The step size of SGD sets a floor of the loss; schedules lower it, 2 / λ₁ is the edge."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, whole
from datassay_lab.curves import COLOURS, Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent, spread_counts, track

SCHEDULES = ("small", "large", "step decay", "cosine", "1/t")
KEPT = 120  # moments of the loss that are kept
# Shares of the edge 2 / λ₁ at which floors are measured; the last is beyond it.
SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 1.02])
FLOOR_STEPS = 400  # steps over which a floor is averaged, after as many time constants


@dataclass(frozen=True, slots=True)
class StepSize:
    """Excess loss of SGD under five schedules, and its floor under constant steps."""

    schedules: tuple[str, ...]  # names of the five
    steps: Float[np.ndarray, " k"]  # moments that were kept, from 1
    loss: Float[np.ndarray, "c k"]  # mean excess loss ½ (w − w*)ᵀ H (w − w*) over the runs
    expected: Float[np.ndarray, "c k"]  # its expectation, exact
    shares: Float[np.ndarray, " s"]  # step size over the edge 2 / λ₁, those below 1
    floors: Float[np.ndarray, " s"]  # excess loss at which constant steps stay, measured
    predicted: Float[np.ndarray, " s"]  # (ε/2) Σ σ² / (2 − ε λ_i)
    beyond: float  # share of the edge, above 1, that was tried as well
    growth: float  # loss there at the end over that at the start; above 1 it diverges
    decay: float  # exponent of t in the loss of the 1/t schedule over its last tenfold

    @property
    def agreement(self) -> Agreement:
        """The largest relative error of a floor."""
        error = float(np.abs(self.floors / self.predicted - 1).max())
        return Agreement("largest relative error of the loss floor", error, 0.05)


@check_args
def step_size(
    *,
    n_features: Annotated[int, whole()] = 10,
    condition: Annotated[float, positive()] = 20.0,
    noise: Annotated[float, positive()] = 1.0,
    small: Annotated[float, positive(1)] = 0.01,
    large: Annotated[float, positive(1)] = 0.3,
    steps: Annotated[int, whole(100)] = 10_000,
    runs: Annotated[int, whole(2)] = 400,
    momentum: float = 0.0,
    seed: int = 0,
    progress: Progress = silent,
) -> StepSize:
    """Run descent with noisy gradients on a quadratic loss, by five schedules and nine steps.

    w ← w − ε_t (H (w − w*) + σ ξ),  ξ ~ N(0, 1):  floor ½ Σ ε σ² / (2 − ε λ_i)

    Args:
        n_features: d.
        condition: κ; the eigenvalues fall from 1 to 1/κ.
        noise: σ of the gradient's noise along each eigenvector.
        small: constant small step, over the edge 2 / λ₁.
        large: constant large step, over the edge; decaying schedules start there. Below 1.
        steps: of each schedule.
        runs: independent runs that are averaged.
        momentum: heavy-ball momentum of the constant steps, in [0, 1); the floor's formula is
            for 0.
        seed: of starts and noise.
        progress: called after each schedule.

    Returns:
        Losses and floors, measured and predicted.

    Cost: (5 · steps + the floors' steps) · runs · d normal draws; some seconds.
    Source: S2 class 3, "Learning rate is important" and "Learning rate for SGD: scheduling"
    (pictures only); the floor is the fixed point of v = (1 − ε λ)² v + ε² σ², the rate 1/t is
    that of Robbins and Monro (1951). S2's remark "Implicit L2!" at schedules is the experiment
    early-stopping: the sum of the step sizes is its time.
    """
    refuse_if(
        condition < 1 or not 0 <= momentum < 1,
        f"condition must be >= 1 and momentum in [0, 1); got {condition!r} and {momentum!r}.",
    )
    rng = np.random.default_rng(seed)
    values = np.geomspace(1, 1 / condition, n_features)
    start = 10 * noise * rng.normal(size=n_features)
    rules = schedules(small, large, steps, condition)
    moments = spread_counts(1, steps, KEPT)
    loss = []
    for rule in track(rules, progress, "schedules"):
        loss.append(_run(values, start, noise, rule, moments, runs, rng))
    sizes = 2 * SHARES[:-1]
    floors = [_floor(values, noise, size, runs, momentum, rng) for size in sizes]
    is_late = moments >= steps / 10
    edge = 2 * float(SHARES[-1])
    diverging = _run(values, start, noise, lambda _t: edge, np.array([1, 300]), runs, rng)
    return StepSize(
        SCHEDULES,
        moments.astype(float),
        np.array(loss),
        np.array([_expected_loss(values, start, noise, rule, moments) for rule in rules]),
        SHARES[:-1].copy(),
        np.array(floors),
        (0.5 * sizes[:, None] * noise**2 / (2 - sizes[:, None] * values)).sum(1),
        float(SHARES[-1]),
        float(diverging[1] / diverging[0]),
        exponent(moments[is_late].astype(float), loss[-1][is_late]),
    )


def schedules(
    small: float, large: float, steps: int, condition: float
) -> tuple[Callable[[int], float], ...]:
    """Return the step sizes ε_t of the five schedules, for a largest eigenvalue of 1."""
    # small: constant small step over the edge, 2. large: constant large step over the edge.
    # condition: κ; 1/t needs c λ_d > 1/2 for its rate, and has c λ_d = 2.
    low, high, scale = 2 * small, 2 * large, 2 * condition
    return (
        lambda _t: low,
        lambda _t: high,
        lambda t: high * 0.1 ** (4 * t // steps),
        lambda t: 0.5 * high * (1 + np.cos(np.pi * t / steps)),
        lambda t: scale / (t + scale / high),
    )


@add_titles
def step_size_plots(result: StepSize) -> Figures:
    """Draw the loss under the schedules, and floors by step size."""
    losses = axes("step t", "excess loss, mean of the runs", log="xy", height=420)
    for index, name in enumerate(result.schedules):
        add_data(losses, result.steps, result.loss[index], name, series=index, mode="lines")
    for index in range(len(result.schedules)):
        is_last = index == len(result.schedules) - 1
        theory(losses, result.steps, result.expected[index], "expected" if is_last else "")
    floor = axes("step size over the edge 2/λ₁", "floor of the excess loss", log="xy")
    add_data(floor, result.shares, result.floors, "constant steps", mode="markers")
    theory(floor, result.shares, result.predicted, "(ε/2) Σ σ²/(2 − ελ)")
    low, high = result.predicted.min(), result.predicted.max()
    floor.add_scatter(
        x=[1, 1], y=[low, high], mode="lines", name="edge of stability",
        line={"color": COLOURS[1], "width": 2, "dash": "dot"},
    )  # fmt: skip
    return losses, floor


def _run(
    values: Float[np.ndarray, " d"],
    start: Float[np.ndarray, " d"],
    noise: float,
    rule: Callable[[int], float],
    moments: np.ndarray,
    runs: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, " k"]:
    errors, recorded, losses = np.tile(start, (runs, 1)), set(moments.tolist()), []
    for t in range(int(moments[-1])):
        draw = rng.standard_normal(errors.shape)
        errors -= rule(t) * (errors * values + noise * draw)
        if t + 1 in recorded:
            losses.append(0.5 * (errors**2 @ values).mean())
    return np.array(losses)


def _expected_loss(
    values: Float[np.ndarray, " d"],
    start: Float[np.ndarray, " d"],
    noise: float,
    rule: Callable[[int], float],
    moments: np.ndarray,
) -> Float[np.ndarray, " k"]:
    """Return E ½ Σ λ e², by the recursion of E e² along each eigenvector."""
    square, recorded, losses = start**2, set(moments.tolist()), []
    for t in range(int(moments[-1])):
        size = rule(t)
        square = (1 - size * values) ** 2 * square + (size * noise) ** 2
        if t + 1 in recorded:
            losses.append(0.5 * values @ square)
    return np.array(losses)


def _floor(
    values: Float[np.ndarray, " d"],
    noise: float,
    size: float,
    runs: int,
    momentum: float,
    rng: np.random.Generator,
) -> float:
    """Return the mean loss at rest; the runs start there and first forget how."""
    slowest = np.abs(1 - size * values).max()
    warm = int(np.ceil(6 / -np.log(slowest)))
    errors = np.sqrt(size / (values * (2 - size * values))) * noise
    errors = errors * rng.standard_normal((runs, len(values)))
    velocity, total = np.zeros_like(errors), 0.0
    for t in range(warm + FLOOR_STEPS):
        draw = rng.standard_normal(errors.shape)
        velocity = momentum * velocity - size * (errors * values + noise * draw)
        errors = errors + velocity
        total += 0.5 * (errors**2 @ values).mean() if t >= warm else 0.0
    return float(total / FLOOR_STEPS)
