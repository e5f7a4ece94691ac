"""The tangent kernel of a network of width m is within O(1/√m) of its limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import check_choice, check_count, check_counts
from datassay_lab.curves import axes, finish, measured, theory
from datassay_lab.experiment import Agreement, Experiment, Plot
from datassay_lab.fits import exponent, relative_error
from datassay_lab.wide_network import (
    OUTPUT_WEIGHTS,
    limit_kernels,
    tangent_kernel,
    wide_network,
)


@dataclass(frozen=True, slots=True)
class NtkWidth:
    """Empirical tangent kernels against the analytic one.

    Attributes:
        widths: [w], m.
        errors: [w, r], ‖Θ_m − Θ‖ / ‖Θ‖ of r networks each, Frobenius.
        predicted: [w], root of the expected squared error.
        cosines: [c], of the angle between two inputs of length 1.
        profile: [c], Θ of these pairs.
        narrow: [c], the same of one network of the smallest width.
        wide: [c], of the largest width.
    """

    widths: Float[np.ndarray, " w"]
    errors: Float[np.ndarray, "w r"]
    predicted: Float[np.ndarray, " w"]
    cosines: Float[np.ndarray, " c"]
    profile: Float[np.ndarray, " c"]
    narrow: Float[np.ndarray, " c"]
    wide: Float[np.ndarray, " c"]

    @property
    def exponent(self) -> float:
        """Of the mean error, as a power of the width."""
        return exponent(self.widths, np.sqrt((self.errors**2).mean(axis=1)))

    @property
    def agreement(self) -> Agreement:
        """How far the fitted exponent is from −1/2."""
        what = "distance of the fitted exponent from −1/2"
        return Agreement(what, abs(self.exponent + 0.5), 0.1)


def ntk_width(
    *,
    n_samples: int = 40,
    n_inputs: int = 10,
    widths: tuple[int, ...] = (64, 256, 1024, 4096, 16_384),
    repeats: int = 10,
    output_weights: str = "normal",
    seed: int = 0,
    progress: Progress = silent,
) -> NtkWidth:
    """The kernel J Jᵀ of f(x) = m^(−1/2) Σ v_i relu(w_i·x) at random weights, both layers counted.

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

    Raises:
        SettingError: a parameter is out of range.

    Cost: repeats · Σ m · (n² + n d) multiplications; about 5 s.
    Source: S2 class 1, "Calculate the kernel for f(w, x) = Σ v_i σ(w_i·x)"; Jacot, Gabriel and
    Hongler (2018). S2 leaves out the factor m^(−1/2), without which the kernel grows like m; S2's
    slide also asks for no variance of the weights: here w_i ~ N(0, I), v_i ~ N(0, 1).
    """
    check_count("n_samples", n_samples, 2)
    check_count("n_inputs", n_inputs, 2)
    check_counts("widths", widths, 1)
    check_count("repeats", repeats)
    check_choice("output_weights", output_weights, OUTPUT_WEIGHTS)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_samples, n_inputs))
    x /= np.linalg.norm(x, axis=1)[:, None]
    limit = limit_kernels(x, x)
    errors = np.empty((len(widths), repeats))
    for place, width in enumerate(widths):
        for repeat in range(repeats):
            start = int(rng.integers(2**31))
            model = wide_network(n_inputs, width, start, output_weights=output_weights)
            errors[place, repeat] = relative_error(tangent_kernel(model, x)[0], limit.tangent)
            progress("tangent kernels", place * repeats + repeat + 1, len(widths) * repeats)
    sizes = np.array(widths, float)
    predicted = np.sqrt(limit.variance.sum() / sizes) / np.linalg.norm(limit.tangent)
    cosines, fan = _fan(n_inputs)
    models = (
        wide_network(n_inputs, width, seed, output_weights=output_weights)
        for width in (widths[0], widths[-1])
    )
    narrow, wide = (tangent_kernel(model, fan)[0][0] for model in models)
    profile = limit_kernels(fan[:1], fan).tangent[0]
    return NtkWidth(sizes, errors, predicted, cosines, profile, narrow, wide)


def ntk_width_plots(result: NtkWidth) -> tuple[Plot, ...]:
    """Error against width, and the kernel as a function of the angle.

    Args:
        result: of `ntk_width`.

    Returns:
        Two plots.
    """
    error = axes("width m", "relative error of the kernel", log="xy")
    for repeat in range(result.errors.shape[1]):
        name = "" if repeat else "one network each"
        measured(error, result.widths, result.errors[:, repeat], name, mode="markers")
    theory(error, result.widths, result.predicted, "predicted, ∝ m<sup>−1/2</sup>")
    shape = axes("cosine between two inputs of length 1", "tangent kernel Θ(x, x')")
    measured(
        shape, result.cosines, result.narrow, f"m = {result.widths[0]:g}", place=1, mode="lines"
    )
    measured(shape, result.cosines, result.wide, f"m = {result.widths[-1]:g}", mode="lines")
    theory(shape, result.cosines, result.profile, "m → ∞")
    return (
        Plot(
            "The kernel's error falls with the root of the width",
            finish(error),
            "Marks of single networks around a dashed line of slope −1/2",
        ),
        Plot(
            "A wide network has the kernel of the limit",
            shape,
            "Kernel against cosine: a wide network's lies on the limit's, a narrow one's beside it",
        ),
    )


def _fan(n_inputs: int) -> tuple[np.ndarray, Float[np.ndarray, "c d"]]:
    """Cosines from 1 to −1, and unit vectors that have them with the first."""
    angles = np.linspace(0, np.pi, 121)
    fan = np.zeros((len(angles), n_inputs))
    fan[:, 0], fan[:, 1] = np.cos(angles), np.sin(angles)
    return fan[:, 0].copy(), fan


EXPERIMENT = Experiment(
    name="ntk-width",
    statement="The tangent kernel of a random shallow ReLU network approaches its analytic limit "
    "like width^(−1/2).",
    formula="Θ(x, x') = |x||x'| (κ₁ + cos θ κ₀) / 2\n"
    "κ₀ = (π − θ)/π,   κ₁ = (sin θ + (π − θ) cos θ)/π",
    look_for="Marks scatter around the dashed line, which is computed from the variance of one "
    "unit, not fitted. The second figure shows the kernel itself: the widest network's curve lies "
    "on the dashed one. Output weights without a variance (Cauchy) break it: then no width is "
    "enough.",
    source="S2 class 1; Jacot, Gabriel and Hongler (2018), Cho and Saul (2009)",
    run=ntk_width,
    plots=ntk_width_plots,
)
