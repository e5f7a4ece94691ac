"""Data fill few dimensions, and far outside them a ReLU network is sure of itself."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from datassay.data import load
from datassay.models import mlp, seeded
from datassay.progress import Progress, silent
from datassay.score import nearest_neighbors
from datassay.train import Recipe, TrainedNetworks, taken_network, train_networks
from datassay_lab.checks import Agreement, check_args, one_of, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory

ACTIVATIONS = ("relu", "tanh")
FAR = 100.0  # data radii at which confidence is judged
DISTANCES = np.append(np.geomspace(0.1, FAR, 30), 1000.0)
PIECE = 1e7  # data radii: beyond every kink of the network


KEPT = 0.9  # share of the ratios; the largest depend on the manifold's edge and curvature


@dataclass(frozen=True, slots=True)
class IntrinsicDimension:
    """An estimated dimension and the line whose slope it is."""

    log_ratio: Float[np.ndarray, " m"]  # ln(r₂ / r₁) of the samples, rising
    log_left: Float[np.ndarray, " m"]  # −ln(1 − F), F the share of samples with a smaller ratio
    dimension: float  # slope of the line through 0


def intrinsic_dimension(x: Float[np.ndarray, "n d"]) -> IntrinsicDimension:
    """Estimate the dimension by two nearest neighbours: r₂ / r₁ has CDF 1 − μ^(−D).

    Args:
        x: [n, d]; duplicates (r₁ = 0) are left out.

    Returns:
        The dimension.

    Cost: that of `nearest_neighbors`.
    Source: Facco et al. (2017), with their cut of the largest tenth; Ansuini et al. (2019) use it
    on networks' layers.
    """
    distances = nearest_neighbors(x, 3, search="exact").distance[:, 1:]
    distances = distances[distances[:, 0] > 0]
    ratio = np.sort(np.log(distances[:, 1] / distances[:, 0]))
    n_kept = int(KEPT * len(ratio))
    log_left = -np.log1p(-np.arange(1, n_kept + 1) / len(ratio))
    log_ratio = ratio[:n_kept]
    slope = float(log_ratio @ log_left / (log_ratio @ log_ratio))
    return IntrinsicDimension(log_ratio, log_left, slope)


@dataclass(frozen=True, slots=True)
class OutOfDistribution:
    """Confidence of a classifier of digits along random rays, and the digits' dimension."""

    # from the mean digit, in mean distances of a digit (data radii).
    distances: Float[np.ndarray, " t"]
    confidence: Float[np.ndarray, "rays t"]  # largest probability
    predicted: Float[np.ndarray, "rays t"]  # of the affine piece at infinity
    on_data: float  # mean confidence on digits not trained on
    accuracy: float  # on these
    n_pixels: int  # the ambient dimension
    # ln(r₂ / r₁) of digits, and of digits with each pixel shuffled among them.
    log_ratio: Float[np.ndarray, "two m"]
    log_left: Float[np.ndarray, "two m"]  # −ln of the share of samples with a larger ratio
    dimensions: Float[np.ndarray, " two"]  # their slopes
    # dimension of the digits behind each layer: the trained network's, and the same untrained.
    layers: Float[np.ndarray, "two l"]

    @property
    def agreement(self) -> Agreement:
        """Mean confidence far from all data."""
        far_confidence = self.confidence[:, np.argmin(np.abs(self.distances - FAR))]
        measure = f"mean confidence {FAR:g} data radii from the digits"
        return Agreement(measure, float(far_confidence.mean()), 0.96, "at least")


@check_args
def out_of_distribution(
    *,
    width: Annotated[int, whole(2)] = 64,
    depth: Annotated[int, whole()] = 2,
    steps: Annotated[int, whole()] = 600,
    n_rays: Annotated[int, whole()] = 300,
    activation: Annotated[str, one_of(ACTIVATIONS)] = "relu",
    seed: int = 0,
    progress: Progress = silent,
) -> OutOfDistribution:
    """Train a classifier of digits, and walk away from them in random directions.

    f(x₀ + t u) = t V u + a beyond the last kink of the ray, V u the network's without biases

    Args:
        width: of each hidden layer.
        depth: hidden layers.
        steps: of Adam, batches of 64.
        n_rays: u, uniform directions from the mean digit x₀.
        activation: "relu", or "tanh", whose outputs are bounded.
        seed: of split, weights and rays.
        progress: called after each step.

    Returns:
        Confidences and dimensions.

    Cost: 6 parameters · 64 · steps operations, and n² d of the 1797 digits; about 2 s.
    Source: S2 class 2, "However... Ood" and "Intuition: data manifold hypothesis"; Hein,
    Andriushchenko and Bitterwolf (2019), Theorem 3.1; Facco et al. (2017). S2 shows the manifold's
    dimension of a network's layers (Ansuini et al. 2019). Theirs rises first; here it only falls.
    """
    train, test = load("digits", val_fraction=0.3, seed=seed)
    with seeded(seed):
        model = _network(train.input_shape, width, depth, activation)
    recipe = Recipe("adam", 3e-3, steps, 64, precision="float64")
    all_rows = torch.arange(len(train))[None]
    networks = train_networks([model], train, all_rows, recipe, seed=seed, progress=progress)
    digits = torch.from_numpy(np.concatenate([train.x, test.x]).astype(float))
    layers = [_by_layer(net.double(), digits) for net in (taken_network(model, networks), model)]
    x = train.x.astype(float)
    mean = x.mean(axis=0)
    radius = np.linalg.norm((x - mean).reshape(len(x), -1), axis=1).mean()
    rng = np.random.default_rng(seed)
    rays = rng.normal(size=(n_rays, *mean.shape))
    rays *= radius / np.linalg.norm(rays.reshape(n_rays, -1), axis=1)[:, None, None, None]
    ray_logits = np.array([_logits(networks, mean + t * rays) for t in DISTANCES])
    near_logits, far_logits = (_logits(networks, mean + t * rays) for t in (PIECE, 2 * PIECE))
    slope, offset = (far_logits - near_logits) / PIECE, 2 * near_logits - far_logits
    affine = DISTANCES[:, None, None] * slope + offset
    outputs = _logits(networks, test.x.astype(float))
    ratio, tail, dimensions = _dimensions(np.concatenate([x, test.x]).reshape(-1, mean.size), rng)
    return OutOfDistribution(
        DISTANCES, _confidence(ray_logits).T, _confidence(affine).T,
        float(_confidence(outputs).mean()), float((outputs.argmax(axis=1) == test.y).mean()),
        mean.size, ratio, tail, dimensions, np.array(layers),
    )  # fmt: skip


@add_titles
def out_of_distribution_plots(result: OutOfDistribution) -> Figures:
    """Draw confidence by distance, and the lines whose slopes are the dimensions."""
    confidence = axes("distance from the mean digit, in data radii", "confidence", log="x")
    for ray in range(min(5, len(result.confidence))):
        name = "" if ray else "single rays"
        add_data(confidence, result.distances, result.confidence[ray], name, series=4, mode="lines")
    confidence.update_traces(line_width=1)
    add_data(confidence, result.distances, result.confidence.mean(axis=0), "mean of all rays")
    theory(confidence, result.distances, result.predicted.mean(axis=0), "affine piece at infinity")
    level = np.full(len(result.distances), result.on_data)
    theory(confidence, result.distances, level, "digits not trained on", colour="#8a94a0")
    confidence.update_yaxes(range=[0, 1.05])
    shape = axes("ln(r<sub>2</sub> / r<sub>1</sub>), two nearest neighbours", "−ln(1 − share)")
    for index, name in enumerate(("digits", "pixels shuffled")):
        x, y = result.log_ratio[index], result.log_left[index]
        add_data(shape, x, y, name, series=index, mode="markers")
        slope = result.dimensions[index]
        ends = np.array([0, x[-1]])
        theory(shape, ends, slope * ends, f"slope {slope:.1f}")
    shape.update_traces(marker_size=3, selector={"mode": "markers"})
    layer = axes("layer, 0 the pixels", "intrinsic dimension of the digits")
    steps = np.arange(float(result.layers.shape[1]))
    add_data(layer, steps, result.layers[0], "trained network")
    theory(layer, steps, result.layers[1], "the same, untrained")
    return confidence, shape, layer


def _by_layer(network: nn.Module, x: torch.Tensor) -> list[float]:
    """Return the samples' intrinsic dimension behind each activation, the inputs first."""
    hidden = [x]
    for module in network.children():
        x = module(x)
        if isinstance(module, nn.ReLU | nn.Tanh):
            hidden.append(x)
    estimates = (intrinsic_dimension(h.detach().flatten(1).numpy()) for h in (*hidden, x))
    return [f.dimension for f in estimates]


def _network(shape: tuple[int, ...], width: int, depth: int, activation: str) -> nn.Module:
    model = mlp(shape, 10, width, depth)
    if activation == "relu":
        return model
    layers = (nn.Tanh() if isinstance(m, nn.ReLU) else m for m in model.children())
    return nn.Sequential(*layers)


def _logits(networks: TrainedNetworks, x: np.ndarray) -> Float[np.ndarray, "n k"]:
    return networks.outputs(torch.from_numpy(x))[0].numpy()


def _confidence(logits: np.ndarray) -> np.ndarray:
    """Return the largest probability: 1 / Σ e^(f − max f)."""
    return 1 / np.exp(logits - logits.max(axis=-1, keepdims=True)).sum(axis=-1)


def _dimensions(x: Float[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return the samples' lines and slopes, and those of the columns, each shuffled."""
    dimensions: list[IntrinsicDimension] = [
        intrinsic_dimension(values) for values in (x, rng.permuted(x, axis=0))
    ]
    m = min(len(f.log_ratio) for f in dimensions)
    return (
        np.array([f.log_ratio[:m] for f in dimensions]),
        np.array([f.log_left[:m] for f in dimensions]),
        np.array([f.dimension for f in dimensions]),
    )
