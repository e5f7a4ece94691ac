"""The tangent kernel of a network of width m is within O(1/√m) of its limit."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent, relative_error, track
from datassay_lab.wide_network import OUTPUT_WEIGHTS, limit_kernels, tangent_kernel, wide_network


@dataclass(frozen=True, slots=True)
class NtkWidth:
    """Empirical tangent kernels against the analytic one."""

    widths: Float[np.ndarray, " w"]  # m
    errors: Float[np.ndarray, "w r"]  # ‖Θ_m − Θ‖ / ‖Θ‖ of r networks each, Frobenius
    predicted: Float[np.ndarray, " w"]  # root of the expected squared error
    cosines: Float[np.ndarray, " c"]  # of the angle between two inputs of length 1
    profile: Float[np.ndarray, " c"]  # Θ of these pairs
    narrow: Float[np.ndarray, " c"]  # the same of one network of the smallest width
    wide: Float[np.ndarray, " c"]  # of the largest width

    @property
    def exponent(self) -> float:
        """Of the mean error, as a power of the width."""
        return exponent(self.widths, np.sqrt((self.errors**2).mean(axis=1)))

    @property
    def agreement(self) -> Agreement:
        """How far the fitted exponent is from −1/2."""
        measure = "distance of the fitted exponent from −1/2"
        return Agreement(measure, abs(self.exponent + 0.5), 0.1)


@check_args
def ntk_width(
    *,
    n_samples: Annotated[int, whole(2)] = 40,
    n_inputs: Annotated[int, whole(2)] = 10,
    widths: Annotated[tuple[int, ...], rising_whole(1)] = (64, 256, 1024, 4096, 16_384),
    repeats: Annotated[int, whole()] = 10,
    output_weights: Annotated[str, one_of(OUTPUT_WEIGHTS)] = "normal",
    seed: int = 0,
    progress: Progress = silent,
) -> NtkWidth:
    """Compare the kernel J Jᵀ of f(x) = m^(−1/2) Σ v_i relu(w_i·x), random weights, with its limit.

    Θ(x, x') = |x||x'| (κ₁ + cos θ κ₀) / 2,   κ₀ = (π − θ)/π,   κ₁ = (sin θ + (π − θ) cos θ)/π

    Args:
        n_samples: inputs on the unit sphere.
        n_inputs: d.
        widths: m, increasing.
        repeats: networks of each width.
        output_weights: v_i, "normal", or "cauchy", without variance: then there is no limit.
        seed: of the inputs and the weights.
        progress: called after each network.

    Returns:
        Errors, measured and predicted.

    Cost: repeats · Σ m · (n² + n d) multiplications; about 5 s.
    Source: S2 class 1, "Calculate the kernel for f(w, x) = Σ v_i σ(w_i·x)"; Jacot, Gabriel and
    Hongler (2018). S2 leaves out the factor m^(−1/2), without which the kernel grows like m; S2's
    slide also asks for no variance of the weights: here w_i ~ N(0, I), v_i ~ N(0, 1).
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_inputs))
    x /= np.linalg.norm(x, axis=1)[:, None]
    limit = limit_kernels(x, x)
    errors = np.empty((len(widths), repeats))
    for cell in track(np.ndindex(errors.shape), progress, "tangent kernels"):
        start = int(rng.integers(2**31))
        model = wide_network(n_inputs, widths[cell[0]], start, output_weights=output_weights)
        errors[cell] = relative_error(tangent_kernel(model, x)[0], limit.tangent)
    sizes = np.array(widths, float)
    predicted = np.sqrt(limit.variance.sum() / sizes) / np.linalg.norm(limit.tangent)
    # Cosines from 1 to −1, and unit vectors that have them with the first.
    angles = np.linspace(0, np.pi, 121)
    directions = np.zeros((len(angles), n_inputs))
    directions[:, 0], directions[:, 1] = np.cos(angles), np.sin(angles)
    cosines = directions[:, 0].copy()
    models = (
        wide_network(n_inputs, width, seed, output_weights=output_weights)
        for width in (widths[0], widths[-1])
    )
    narrow, wide = (tangent_kernel(model, directions)[0][0] for model in models)
    profile = limit_kernels(directions[:1], directions).tangent[0]
    return NtkWidth(sizes, errors, predicted, cosines, profile, narrow, wide)


@add_titles
def ntk_width_plots(result: NtkWidth) -> Figures:
    """Draw the error against width, and the kernel as a function of the angle."""
    error = axes("width m", "relative error of the kernel", log="xy")
    add_data(error, result.widths, result.errors.T, "one network each", mode="markers")
    theory(error, result.widths, result.predicted, "predicted, ∝ m<sup>−1/2</sup>")
    shape = axes("cosine between two inputs of length 1", "tangent kernel Θ(x, x')")
    add_data(
        shape, result.cosines, result.narrow, f"m = {result.widths[0]:g}", series=1, mode="lines"
    )
    add_data(shape, result.cosines, result.wide, f"m = {result.widths[-1]:g}", mode="lines")
    theory(shape, result.cosines, result.profile, "m → ∞")
    return error, shape
