"""Trained to the end, a wide network's weights have moved by O(1/√m) of their length."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent, track
from datassay_lab.wide_network import (
    SCALINGS,
    limit_kernels,
    sphere_samples,
    train_and_record,
    wide_network,
)

NAMES = ("factor m<sup>−1/2</sup> (NTK)", "factor 1/m (mean field)")


@dataclass(frozen=True, slots=True)
class LazyTraining:
    """How far weights move until the training error vanishes."""

    widths: Float[np.ndarray, " w"]  # m
    # ‖w_T − w₀‖ / ‖w₀‖ of r networks each: first of the factor m^(−1/2), then of 1/m.
    movement: Float[np.ndarray, "two w r"]
    loss: Float[np.ndarray, "two w r"]  # remaining squared training error, in units of the targets'
    predicted: Float[np.ndarray, " w"]  # of the first at large width
    scaling: str  # which of the two the agreement judges

    @property
    def exponents(self) -> tuple[float, float]:
        """Of the mean movement, as a power of the width."""
        ntk, mean_field = np.sqrt((self.movement**2).mean(axis=2))
        return exponent(self.widths, ntk), exponent(self.widths, mean_field)

    @property
    def agreement(self) -> Agreement:
        """How far the fitted exponent is from −1/2."""
        slope = self.exponents[SCALINGS.index(self.scaling)]
        return Agreement("distance of the fitted exponent from −1/2", abs(slope + 0.5), 0.06)


@check_args
def lazy_training(
    *,
    n_samples: Annotated[int, whole(2)] = 40,
    n_inputs: Annotated[int, whole(2)] = 10,
    widths: Annotated[tuple[int, ...], rising_whole(1)] = (64, 256, 1024, 4096),
    steps: Annotated[int, whole()] = 1000,
    repeats: Annotated[int, whole()] = 4,
    scaling: Annotated[str, one_of(SCALINGS)] = "ntk",
    seed: int = 0,
    progress: Progress = silent,
) -> LazyTraining:
    """Train shallow ReLU networks of growing width and measure how far weights move.

    ‖w_T − w₀‖² ≈ rᵀ A r / (m (d + 1)),   A = Θ⁻¹ (I − (I − ηΘ)ᵀ)²,   r = y − f₀

    Args:
        n_samples: n, on the unit sphere.
        n_inputs: d.
        widths: m, increasing.
        steps: T; η is 1 / λ_max of the limit kernel, times m for the factor 1/m, whose kernel is m
            times smaller.
        repeats: networks of each width.
        scaling: judged by the agreement: "ntk", f = m^(−1/2) Σ v relu(w·x), or "mean field",
            f = (1/m) Σ …, which has to learn features.
        seed: of samples and weights.
        progress: called after each network.

    Returns:
        Movements, measured and predicted.

    Cost: 12 n d · repeats · T · Σ m operations; about 10 s.
    Source: S2 class 1, "Weights don't change much when network is sufficiently wide"; Chizat,
    Oyallon and Bach (2019). The prediction is that of the linearised network, averaged over its
    random outputs f₀ of covariance |x||x'| κ₁ / 2. S2 does not say that this depends on the factor
    before the sum: with 1/m (Mei, Montanari and Nguyen 2018) width does not stop the weights.
    """
    rng = np.random.default_rng(seed)
    x, y = sphere_samples(n_samples, n_inputs, rng)
    limit = limit_kernels(x, x)
    rate = 1 / np.linalg.eigvalsh(limit.tangent)[-1]
    movement = np.empty((2, len(widths), repeats))
    loss = np.empty_like(movement)
    for cell in track(np.ndindex(movement.shape), progress, "train networks"):
        kind, width = SCALINGS[cell[0]], widths[cell[1]]
        model = wide_network(n_inputs, width, int(rng.integers(2**31)), scaling=kind)
        eta = rate * (width if kind == "mean field" else 1)
        run = train_and_record(model, x, y, rate=eta, record_steps=np.array([0, steps]))
        start, end = model.state_dict(), run.networks.state
        names = [name for name in start if name.endswith("weight")]
        squared_movement = sum(float((end[name][0] - start[name]).square().sum()) for name in names)
        size = sum(float(start[name].square().sum()) for name in names)
        movement[cell] = (squared_movement / size) ** 0.5
        loss[cell] = ((run.outputs[-1] - y) ** 2).sum() / (y**2).sum()
    sizes = np.array(widths, float)
    # E rᵀ A r over f₀ of covariance K₁: yᵀ A y + tr A K₁
    values, vectors = np.linalg.eigh(limit.tangent)
    projections = (vectors.T @ y) ** 2 + np.einsum("ni,nm,mi->i", vectors, limit.outputs, vectors)
    length = np.sqrt(float((1 - (1 - rate * values) ** steps) ** 2 / values @ projections))
    predicted = length / np.sqrt(sizes * (n_inputs + 1))
    return LazyTraining(sizes, movement, loss, predicted, scaling)


@add_titles
def lazy_training_plots(result: LazyTraining) -> Figures:
    """Draw movement against width, for both factors."""
    figure = axes("width m", "relative movement of the weights", log="xy")
    for index, name in enumerate(NAMES):
        values = result.movement[index].T
        add_data(figure, result.widths, values, name, series=index, mode="markers")
    theory(figure, result.widths, result.predicted, "linearised network, ∝ m<sup>−1/2</sup>")
    return (figure,)
