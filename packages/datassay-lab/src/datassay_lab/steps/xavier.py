"""Effect of initialisation and activation on signal and gradient, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, refuse_if, rising, whole
from datassay_lab.curves import COLOURS, Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

Activation = Callable[[np.ndarray], np.ndarray]
# Name → activation and its derivative.
ACTIVATIONS: dict[str, tuple[Activation, Activation]] = {
    "linear": (lambda z: z, np.ones_like),
    "relu": (lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "sigmoid": (expit, lambda z: expit(z) * expit(-z)),
    "leaky relu": (lambda z: np.maximum(z, 0.1 * z), lambda z: np.where(z > 0, 1, 0.1)),
    "elu": (lambda z: np.where(z > 0, z, np.expm1(-np.abs(z))), lambda z: np.exp(np.minimum(z, 0))),
}
SAMPLES = 32  # inputs that go through each network
NODES = 100  # of the Gauss-Hermite quadrature; even, so that none is at a kink


@dataclass(frozen=True, slots=True)
class Xavier:
    """Second moments of the input of each layer, by activation and gain."""

    activations: tuple[str, ...]  # names of the a activations
    gains: Float[np.ndarray, " g"]  # standard deviation of a weight times √inputs
    layers: Float[np.ndarray, " l"]  # 0 is the first pre-activation
    # mean square of the pre-activations, over networks, units and inputs.
    moment: Float[np.ndarray, "a g l"]
    predicted: Float[np.ndarray, "a g l"]  # for infinite width
    # mean square of a gradient at each layer over that at the last; and for infinite width.
    gradient: Float[np.ndarray, "a g l"]
    predicted_gradient: Float[np.ndarray, "a g l"]
    silent: Float[np.ndarray, " a"]  # share of units whose output is 0

    @property
    def agreement(self) -> Agreement:
        """The largest factor between a measured moment and its prediction, gradients too."""
        ratios = (self.moment / self.predicted, self.gradient / self.predicted_gradient)
        factor = float(np.exp(np.abs(np.log(ratios)).max()))
        return Agreement("largest factor between measured and predicted", factor, 1.3)


@check_args
def xavier(
    *,
    width: Annotated[int, whole(2)] = 400,
    depth: Annotated[int, whole(2)] = 15,
    gains: Annotated[tuple[float, ...], rising(0.1, count=1)] = (0.8, 1.0, 1.4142135623730951, 2.0),
    networks: Annotated[int, whole()] = 20,
    shared_variance: float = 0.0,
    seed: int = 0,
    progress: Progress = silent,
) -> Xavier:
    """Send Gaussian inputs through random networks, gradients back, and measure every layer.

    q_{l+1} = g² E φ(√q_l z)²:  g² q for linear units, (g²/2) q for ReLU, g² E tanh(√q z)²
    gradients: times g² E φ'(√q_l z)² from layer l + 1 to layer l

    Args:
        width: units of every layer and of the input.
        depth: layers after the first.
        gains: g, increasing; weights are N(0, g²/width), so 1 is Xavier and √2 is He.
        networks: independent networks that are averaged.
        shared_variance: share of the variance that all weights of a layer have in common, in
            [0, 1); the derivation needs 0.
        seed: of inputs and weights.
        progress: called after each activation and gain.

    Returns:
        Moments, measured and predicted.

    Cost: 12 · gains · networks · depth · width² · 32 multiplications; some seconds.
    Source: S2 class 3, "Weights initialization" (Xavier: std = 1/√Din). S2's derivation is of one
    linear layer and asks for inputs with mean zero; that only the weights have mean zero is
    enough if Var(x) is read as E x², and so it holds for ReLU with its factor ½ (He et al. 2015).
    S2's "Effectively reduce the complexity of the model!!" does not follow from it. Activations: S2
    class 1, all but Maxout; vanishing gradients and silent ReLUs: S3 §1.1.1.
    """
    refuse_if(
        not 0 <= shared_variance < 1,
        f"shared_variance must lie in [0, 1); got {shared_variance!r}.",
    )
    rng = np.random.default_rng(seed)
    moment = np.zeros((len(ACTIVATIONS), 2, len(gains), depth + 1))
    silent = np.zeros(len(ACTIVATIONS))
    for _ in track(range(networks), progress, "networks"):
        inputs = rng.standard_normal((width, SAMPLES))
        weights = [_weights(rng, width, shared_variance) for _ in range(depth + 1)]
        for a, functions in enumerate(ACTIVATIONS.values()):
            squares, silent_share = _moments(weights, inputs, functions, gains, rng)
            moment[a] += squares / networks
            silent[a] += silent_share / networks
    theories = [[_recursion(f, g, depth) for g in gains] for f in ACTIVATIONS.values()]
    predicted = np.array(theories)  # [a, g, 2, l]
    return Xavier(
        tuple(ACTIVATIONS),
        np.array(gains, float),
        np.arange(depth + 1.0),
        moment[:, 0],
        predicted[:, :, 0],
        moment[:, 1] / moment[:, 1, :, -1:],
        predicted[:, :, 1],
        silent,
    )


@add_titles
def xavier_plots(result: Xavier) -> Figures:
    """Draw the mean square by layer, a line per gain, and gradients at the third gain."""
    plots, slope = [], axes("layer", "mean square of the gradient", log="y")
    gain_3 = min(2, len(result.gains) - 1)
    for a, name in enumerate(result.activations):
        add_data(slope, result.layers, result.gradient[a, gain_3], name, series=a, mode="markers")
        theory(slope, result.layers, result.predicted_gradient[a, gain_3], "", colour=COLOURS[a])
    for a in range(3):
        figure = axes("layer", "mean square of the pre-activations", log="y")
        for g, gain in enumerate(result.gains):
            add_data(figure, result.layers, result.moment[a, g], f"gain {gain:.3g}", series=g,
                     mode="markers")  # fmt: skip
            theory(figure, result.layers, result.predicted[a, g], "theory" if g == 0 else "",
                   colour=COLOURS[g])  # fmt: skip
        plots.append(figure)
    return (*plots, slope)


def _weights(rng: np.random.Generator, width: int, share: float) -> Float[np.ndarray, "w w"]:
    """Draw weights of gain 1; a share of their variance is common to all weights of the layer."""
    noise = rng.standard_normal((width, width))
    return (np.sqrt(1 - share) * noise + np.sqrt(share) * rng.standard_normal()) / np.sqrt(width)


def _moments(
    weights: list[Float[np.ndarray, "w w"]],
    inputs: Float[np.ndarray, "w s"],
    functions: tuple[Activation, Activation],
    gains: tuple[float, ...],
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "2 g l"], float]:
    """Return a network's mean squares of pre-activations and gradients under every gain."""
    # And the share of silent units.
    activation, derivative = functions
    signal = np.concatenate([inputs] * len(gains), 1)  # the gains side by side
    factor = np.repeat(gains, SAMPLES)
    pre_activations = []
    for matrix in weights:
        pre_activations.append((matrix @ signal) * factor)
        signal = activation(pre_activations[-1])
    gradients = [rng.standard_normal(signal.shape)]  # by the last pre-activations
    for matrix, z in zip(weights[:0:-1], pre_activations[-2::-1], strict=True):
        gradients.append(derivative(z) * (matrix.T @ (gradients[-1] * factor)))
    rows = np.array([pre_activations, gradients[::-1]])  # [2, l, w, g s]
    squares = (rows**2).mean(2).reshape(2, len(pre_activations), len(gains), SAMPLES).mean(3)
    return squares.transpose(0, 2, 1), float((signal == 0).mean())


def _recursion(
    functions: tuple[Activation, Activation], gain: float, depth: int
) -> Float[np.ndarray, "2 l"]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights, moments, steps = weights / weights.sum(), [gain**2], []  # inputs of mean square 1
    for _ in range(depth):
        activation, derivative = (f(np.sqrt(moments[-1]) * nodes) for f in functions)
        moments.append(gain**2 * float(weights @ activation**2))
        steps.append(gain**2 * float(weights @ derivative**2))
    return np.array([moments, np.append(np.cumprod(steps[::-1])[::-1], 1.0)])
