"""Normalising the data rounds the loss surface: descent takes steps in proportion to κ."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay.report import GREY
from datassay_lab.checks import Agreement, check_args, positive, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Steps after which descent counts as stuck: only a wrong step size gets there.
MOST_STEPS = 10**6
# Levels of the contour lines, and pixels of each picture's side.
GRID = 61
PATH = 40  # steps of descent drawn on the contours


@dataclass(frozen=True, slots=True)
class Normalization:
    """Condition numbers and steps of descent, before and after the features are normalised."""

    spreads: Float[np.ndarray, " s"]  # largest over smallest standard deviation of a feature
    # κ = λ₁ / λ_d of the Hessian of the raw data, a bias included.
    raw_condition: Float[np.ndarray, " s"]
    raw_steps: Float[np.ndarray, " s"]  # steps of descent on the raw data, worst of all starts
    normal_condition: Float[np.ndarray, " s"]  # κ once every feature has mean 0 and deviation 1
    normal_steps: Float[np.ndarray, " s"]  # steps on the normalised data
    tolerance: float  # share of the first distance to the minimum at which descent stops
    raw_hessian: Float[np.ndarray, "2 2"]  # of two features of the middle spread, no bias
    normal_hessian: Float[np.ndarray, "2 2"]  # the same normalised

    @property
    def agreement(self) -> Agreement:
        """The largest relative difference between steps and their prediction from κ."""
        condition = np.concatenate([self.raw_condition, self.normal_condition])
        steps = np.concatenate([self.raw_steps, self.normal_steps])
        error = np.abs(steps / predicted_steps(condition, self.tolerance) - 1).max()
        return Agreement("largest relative error of the steps from κ", float(error), 0.05)


@check_args
def normalization(
    *,
    n_samples: Annotated[int, whole(10)] = 200,
    n_features: Annotated[int, whole(2)] = 3,
    spreads: Annotated[tuple[float, ...], rising(1, count=1)] = (1.0, 2.0, 4.0, 8.0, 16.0),
    mean: float = 1.0,
    tolerance: Annotated[float, positive(1)] = 1e-6,
    step_scale: Annotated[float, positive(1.0 + 1e-12)] = 1.0,
    starts: Annotated[int, whole()] = 50,
    seed: int = 0,
    progress: Progress = silent,
) -> Normalization:
    """Run descent on least-squares losses of the same data, raw and normalised.

    k = log(1 / tolerance) / log((κ + 1) / (κ − 1)) ≈ (κ / 2) log(1 / tolerance)

    Args:
        n_samples: of the data.
        n_features: d, 2 or more; their deviations rise evenly in the logarithm from 1 to the
            spread.
        spreads: largest over smallest deviation, increasing.
        mean: of every feature, in its own deviations.
        tolerance: descent stops at this share of its first distance to the minimum.
        step_scale: step size over 2 / (λ₁ + λ_d), the best; at most 1.
        starts: random starts; the slowest counts, as the bound is for the worst.
        seed: of data and starts.
        progress: called after each spread.

    Returns:
        Condition numbers, steps, and two Hessians to draw.

    Cost: steps · starts · d² multiplications; a few seconds.
    Source: S2 class 2, "Data normalization changes the geometry of the loss" (pictures only); the
    rate is that of gradient descent with its best fixed step (Nesterov 2004, Theorem 2.1.15), which
    is an upper bound that the slowest of many starts nearly reaches.
    """
    rng = np.random.default_rng(seed)
    mixing = np.eye(n_features) + 0.25 * rng.normal(size=(n_features, n_features))
    base = rng.normal(size=(n_samples, n_features)) @ mixing
    base /= base.std(0)
    counts, hessians = [], []
    for spread in track(spreads, progress, "normalisation"):
        scales = np.geomspace(1, spread, n_features)
        x = (base + mean) * scales
        for data in (x, (x - x.mean(0)) / x.std(0)):
            hessian = _hessian(np.column_stack([data, np.ones(n_samples)]))
            counts.append(_descend(hessian, tolerance, step_scale, starts, rng))
            hessians.append(_hessian(data[:, [0, -1]]))
    table, middle = np.array(counts).reshape(len(spreads), 2, 2), len(spreads) // 2
    return Normalization(
        np.array(spreads, float),
        *(table[:, 0, 0].copy(), table[:, 0, 1].copy()),
        *(table[:, 1, 0].copy(), table[:, 1, 1].copy()),
        tolerance,
        hessians[2 * middle],
        hessians[2 * middle + 1],
    )


def predicted_steps(
    condition: Float[np.ndarray, " s"], tolerance: float
) -> Float[np.ndarray, " s"]:
    """Return the steps that descent with its best step size needs at most."""
    # tolerance: share of the first distance that is left.
    return np.ceil(math.log(1 / tolerance) / np.log((condition + 1) / (condition - 1)))


@add_titles
def normalization_plots(result: Normalization) -> Figures:
    """Draw steps against κ, and the loss surface before and after."""
    steps = axes("condition number κ of the Hessian", "steps of descent", log="xy")
    add_data(steps, result.raw_condition, result.raw_steps, "raw data", mode="markers", series=1)
    add_data(steps, result.normal_condition, result.normal_steps, "normalised", mode="markers")
    conditions = np.concatenate([result.raw_condition, result.normal_condition])
    line = np.geomspace(conditions.min(), conditions.max(), 60)
    theory(steps, line, predicted_steps(line, result.tolerance), "log(1/tol) / log((κ+1)/(κ−1))")
    return steps, _contours(result.raw_hessian), _contours(result.normal_hessian)


def _hessian(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    return x.T @ x / len(x)


def _descend(
    hessian: Float[np.ndarray, "d d"],
    tolerance: float,
    step_scale: float,
    starts: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return κ, and the steps until every start is within the tolerance."""
    values = np.linalg.eigvalsh(hessian)
    errors = rng.normal(size=(len(hessian), starts))
    errors /= np.linalg.norm(errors, axis=0)
    shrink = np.eye(len(hessian)) - step_scale * 2 / (values[0] + values[-1]) * hessian
    n_steps = 0
    while np.linalg.norm(errors, axis=0).max() > tolerance and n_steps < MOST_STEPS:
        errors = shrink @ errors
        n_steps += 1
    return float(values[-1] / values[0]), float(n_steps)


def _contours(hessian: Float[np.ndarray, "2 2"]) -> "Figure":
    values = np.linalg.eigvalsh(hessian)
    reach = 1.2
    grid = np.linspace(-reach, reach, GRID)
    points = np.stack(np.meshgrid(grid, grid), -1)
    loss = 0.5 * np.einsum("...i,ij,...j", points, hessian, points)
    figure = axes("error of weight 1", "error of weight 2", height=380)
    figure.add_contour(
        x=grid, y=grid, z=np.sqrt(loss), ncontours=14, showscale=False, line={"width": 1},
        contours={"coloring": "lines"}, colorscale=[(0, GREY), (1, GREY)], hoverinfo="skip",
    )  # fmt: skip
    shrink = np.eye(2) - 2 / values.sum() * 0.97 * hessian
    path = [np.array([1.0, 1.0])]
    for _ in range(PATH):
        path.append(shrink @ path[-1])
    points_on_path = np.array(path)
    add_data(figure, points_on_path[:, 0], points_on_path[:, 1], f"descent, {PATH} steps")
    figure.update_xaxes(range=[-reach, reach], constrain="domain")
    figure.update_yaxes(range=[-reach, reach], scaleanchor="x", constrain="domain")
    return figure
