"""The wider the network, the closer its training stays to that of its linearisation."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay.score import Dynamics, filter_values
from datassay_lab.checks import Agreement, check_args, one_of, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent
from datassay_lab.wide_network import (
    SCALINGS,
    limit_kernels,
    sphere_samples,
    spread_steps,
    tangent_kernel,
    train_and_record,
    wide_network,
)

SHOWN = 3  # outputs drawn over time
TRAINED = 0.8  # of the inputs; the others are only watched


@dataclass(frozen=True, slots=True)
class LinearizedTraining:
    """Outputs of real networks and of their linearisations, while both train."""

    widths: Float[np.ndarray, " w"]  # m
    steps: Float[np.ndarray, " t"]  # gradient steps made
    # root mean square of f_t − f_t^lin over the repeats and over the inputs that are trained on
    # (first) or only watched, in units of the targets' root mean square.
    gaps: Float[np.ndarray, "two w t"]
    # three outputs of one network of the smallest and of the largest width; the last one is of an
    # input not trained on.
    real: Float[np.ndarray, "two t shown"]
    linear: Float[np.ndarray, "two t shown"]  # the same of its linearisation

    @property
    def largest(self) -> Float[np.ndarray, "two w"]:
        """The largest gap over time at each width."""
        return self.gaps.max(axis=2)

    @property
    def agreement(self) -> Agreement:
        """How far the exponent of the largest gap on training inputs is from −1/2."""
        slope = exponent(self.widths, self.largest[0])
        return Agreement("distance of the fitted exponent from −1/2", abs(slope + 0.5), 0.12)


@check_args
def linearized_training(
    *,
    n_samples: Annotated[int, whole(10)] = 50,
    n_inputs: Annotated[int, whole(2)] = 10,
    widths: Annotated[tuple[int, ...], rising_whole(1)] = (128, 512, 2048, 8192),
    steps: Annotated[int, whole()] = 300,
    repeats: Annotated[int, whole()] = 6,
    scaling: Annotated[str, one_of(SCALINGS)] = "ntk",
    seed: int = 0,
    progress: Progress = silent,
) -> LinearizedTraining:
    """Train a network, beside the closed form for its linearisation at w₀.

    f_t^lin(X) = f₀(X) + Θ(X, X_train) g_t(Θ) (y − f₀),   g_t(λ) = (1 − (1 − ηλ)ᵗ) / λ

    Args:
        n_samples: inputs on the unit sphere; 8 of 10 are trained on.
        n_inputs: d.
        widths: m, increasing.
        steps: of gradient descent, η = 1 / λ_max of the limit kernel.
        repeats: networks of each width.
        scaling: "ntk", or "mean field", for which the gap does not fall.
        seed: of samples and weights.
        progress: called after each network.

    Returns:
        Gaps over time.

    Cost: 12 n d · repeats · steps · Σ m operations; about 5 s.
    Source: S2 class 1, "Taylor expansion of neural network"; Lee et al. (2019), who prove O(m^−½).
    S2's equations drop the factor 2/N between slides; here the loss is Σ ½(f − y)², descent has
    whole steps, and Θ is the network's own at w₀.
    """
    rng = np.random.default_rng(seed)
    x, y = sphere_samples(n_samples, n_inputs, rng)
    rate = 1 / np.linalg.eigvalsh(limit_kernels(x, x).tangent)[-1]
    record, n_train = spread_steps(steps), int(np.ceil(TRAINED * n_samples))
    drawn_inputs = [0, 1, n_samples - 1][:SHOWN]
    sets = (slice(0, n_train), slice(n_train, None))
    squares = np.zeros((2, len(widths), len(record)))
    examples: list[tuple[np.ndarray, np.ndarray]] = []
    for index, width in enumerate(widths):
        eta = rate * (width if scaling == "mean field" else 1)
        for repeat in range(repeats):
            model = wide_network(n_inputs, width, int(rng.integers(2**31)), scaling=scaling)
            run = train_and_record(model, x, y, rate=eta, record_steps=record, n_train=n_train)
            real = run.outputs
            linear = _linearised_outputs(*tangent_kernel(model, x), y[:n_train], eta, record)
            for set_idx, inputs in enumerate(sets):
                squares[set_idx, index] += ((real - linear)[:, inputs] ** 2).mean(axis=1) / repeats
            progress("train networks", index * repeats + repeat + 1, len(widths) * repeats)
        examples.append((real[:, drawn_inputs], linear[:, drawn_inputs]))  # pyrefly: ignore[unbound-name] (repeats > 0)
    narrowest, widest = examples[0], examples[-1]
    return LinearizedTraining(
        np.array(widths, float),
        record.astype(float),
        np.sqrt(squares / (y**2).mean()),
        np.array([narrowest[0], widest[0]]),
        np.array([narrowest[1], widest[1]]),
    )


@add_titles
def linearized_training_plots(result: LinearizedTraining) -> Figures:
    """Draw outputs over time of two networks, and the largest gap by width."""
    gap = axes("width m", "largest gap / size of targets", log="xy")
    for index, name in enumerate(("inputs trained on", "other inputs")):
        add_data(gap, result.widths, result.largest[index], name, series=index, mode="markers")
    line = (result.widths / result.widths[0]) ** -0.5
    level = np.exp(np.mean(np.log(result.largest[0] / line)))
    theory(gap, result.widths, level * line, "slope −1/2, level fitted")
    return _over_time(result, 0), _over_time(result, 1), gap


def _over_time(result: LinearizedTraining, network: int) -> Any:
    title = f"outputs of a network of width {result.widths[-network]:g}"
    figure, names = (
        axes("gradient steps", title, log="x"),
        ("trained on",) * 2 + ("not trained on",),
    )
    for index, name in enumerate(names):
        positive = slice(1, None)  # step 0 has no position on a logarithmic axis
        add_data(
            figure, result.steps[positive], result.real[network, positive, index],
            f"input {index + 1}, {name}", series=index, mode="lines",
        )  # fmt: skip
        theory(
            figure, result.steps[positive], result.linear[network, positive, index],
            "linearised at w<sub>0</sub>" if index == len(names) - 1 else "",
        )  # fmt: skip
    return figure


def _linearised_outputs(
    kernel: np.ndarray, start: np.ndarray, y: np.ndarray, rate: float, record_steps: np.ndarray
) -> Float[np.ndarray, "t n"]:
    """Return the linearised network's outputs after each of these numbers of steps."""
    n = len(y)
    values, vectors = np.linalg.eigh(kernel[:n, :n])
    spectrum = torch.from_numpy(values.clip(0))
    projections, output_features = vectors.T @ (y - start[:n]), kernel[:, :n] @ vectors
    runs = [Dynamics("descent", rate, int(t), 0.0) for t in record_steps]
    filters = np.array([filter_values(spectrum, run).numpy() for run in runs])  # [t, n]
    return start + (filters * projections) @ output_features.T
