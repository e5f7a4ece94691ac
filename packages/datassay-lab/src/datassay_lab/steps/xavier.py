"""Effect of the initialisation on the size of the signal, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, checked, refuse_if, rising, whole
from datassay_lab.curves import COLOURS, Figures, axes, measured, theory, titled
from datassay_lab.fits import tracked

Activation = Callable[[np.ndarray], np.ndarray]
ACTIVATIONS: dict[str, Activation] = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
}
SAMPLES = 32  # inputs that go through each network
NODES = 101  # of the Gauss-Hermite quadrature for tanh


@dataclass(frozen=True, slots=True)
class Xavier:
    """Second moments of the input of each layer, by activation and gain."""

    activations: tuple[str, ...]  # names of the a activations
    gains: Float[np.ndarray, " g"]  # standard deviation of a weight times √inputs
    layers: Float[np.ndarray, " l"]  # 0 is the first pre-activation
    # mean square of the pre-activations, over networks, units and inputs.
    moment: Float[np.ndarray, "a g l"]
    predicted: Float[np.ndarray, "a g l"]  # for infinite width

    @property
    def agreement(self) -> Agreement:
        """The largest factor between a measured moment and its prediction."""
        factor = float(np.exp(np.abs(np.log(self.moment / self.predicted)).max()))
        return Agreement("largest factor between measured and predicted", factor, 1.3)


@checked
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
    """Send Gaussian inputs through random networks and measure every layer.

    q_{l+1} = g² E φ(√q_l z)²:  g² q for linear units, (g²/2) q for ReLU, g² E tanh(√q z)²

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

    Cost: 3 · gains · networks · depth · width² · 32 multiplications; some seconds.
    Source: S2 class 3, "Weights initialization" (Xavier: std = 1/√Din). S2's derivation is of one
    linear layer and asks for inputs with mean zero; that only the weights have mean zero is
    enough if Var(x) is read as E x², and so it holds for ReLU with its factor ½ (He et al. 2015).
    S2's "Effectively reduce the complexity of the model!!" does not follow from it.
    """
    refuse_if(
        not 0 <= shared_variance < 1,
        f"shared_variance must lie in [0, 1); got {shared_variance!r}.",
    )
    rng = np.random.default_rng(seed)
    moment = np.zeros((len(ACTIVATIONS), len(gains), depth + 1))
    for _ in tracked(range(networks), progress, "networks"):
        first = rng.standard_normal((width, SAMPLES))
        weights = [_weights(rng, width, shared_variance) for _ in range(depth + 1)]
        for a, activation in enumerate(ACTIVATIONS.values()):
            moment[a] += _moments(weights, first, activation, gains) / networks
    return Xavier(
        tuple(ACTIVATIONS),
        np.array(gains, float),
        np.arange(depth + 1.0),
        moment,
        np.array([[_recursion(f, g, depth) for g in gains] for f in ACTIVATIONS.values()]),
    )


@titled
def xavier_plots(result: Xavier) -> Figures:
    """One figure per activation: mean square by layer, one line per gain."""
    plots = []
    for a in range(len(result.activations)):
        figure = axes("layer", "mean square of the pre-activations", log="y")
        for g, gain in enumerate(result.gains):
            measured(figure, result.layers, result.moment[a, g], f"gain {gain:.3g}", series=g,
                     mode="markers")  # fmt: skip
            theory(figure, result.layers, result.predicted[a, g], "theory" if g == 0 else "",
                   colour=COLOURS[g])  # fmt: skip
        plots.append(figure)
    return tuple(plots)


def _weights(rng: np.random.Generator, width: int, share: float) -> Float[np.ndarray, "w w"]:
    """Weights of gain 1; a share of their variance is common to all weights of the layer."""
    own = rng.standard_normal((width, width))
    return (np.sqrt(1 - share) * own + np.sqrt(share) * rng.standard_normal()) / np.sqrt(width)


def _moments(
    weights: list[Float[np.ndarray, "w w"]],
    first: Float[np.ndarray, "w s"],
    activation: Activation,
    gains: tuple[float, ...],
) -> Float[np.ndarray, "g l"]:
    """Mean squares of the pre-activations of one network under every gain."""
    signal = np.concatenate([first] * len(gains), 1)  # the gains side by side
    factor = np.repeat(gains, SAMPLES)
    squares = []
    for matrix in weights:
        before = (matrix @ signal) * factor
        squares.append((before**2).mean(0).reshape(len(gains), SAMPLES).mean(1))
        signal = activation(before)
    return np.array(squares).T


def _recursion(activation: Activation, gain: float, depth: int) -> Float[np.ndarray, " l"]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    moments = [gain**2]  # the inputs have mean square 1
    for _ in range(depth):
        moments.append(gain**2 * float(weights @ activation(np.sqrt(moments[-1]) * nodes) ** 2))
    return np.array(moments)
