"""Shallow ReLU network in neural tangent parametrisation: kernel and training."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import skip_init

from datassay.collect import collect
from datassay.data import SampleSet
from datassay.models import Affine
from datassay.progress import Progress, silent
from datassay.train import Recipe, TrainedNetworks, train_networks
from datassay_lab.fits import spread_counts

SCALINGS = ("ntk", "mean field")
OUTPUT_WEIGHTS = ("normal", "cauchy")


def wide_network(
    n_inputs: int,
    width: int,
    seed: int,
    *,
    scaling: str = "ntk",
    output_weights: str = "normal",
) -> nn.Module:
    """Build f(x) = m^(−a) Σ v_i relu(w_i·x) with w_i ~ N(0, I) and v_i ~ N(0, 1)."""
    # The factor is applied before the first layer: relu(c z) = c relu(z), so outputs and gradients
    # are the same, and the network stays a plain stack of dense layers.
    # scaling: "ntk", a = 1/2, or "mean field", a = 1. output_weights: v_i, "normal" or "cauchy"
    # (which has no variance).
    # skip_init: the usual initialisation would draw from torch's global stream.
    draw = torch.Generator().manual_seed(seed)
    hidden = skip_init(nn.Linear, n_inputs, width, bias=False, dtype=torch.float64)
    output = skip_init(nn.Linear, width, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        for layer in (hidden, output):
            cauchy = layer is output and output_weights == "cauchy"
            fill = torch.Tensor.cauchy_ if cauchy else torch.Tensor.normal_
            fill(layer.get_parameter("weight"), generator=draw)
    factor = torch.tensor(float(width) ** (-0.5 if scaling == "ntk" else -1.0)).double()
    scale = Affine(factor, torch.zeros_like(factor))
    return nn.Sequential(scale, hidden, nn.ReLU(), output)


@dataclass(frozen=True, slots=True)
class LimitKernels:
    """Kernels of pairs of inputs at infinite width."""

    tangent: Float[np.ndarray, "n other"]  # Θ = |x||x'| (κ₁ + cos θ κ₀) / 2
    outputs: Float[np.ndarray, "n other"]  # E f(x) f(x') = |x||x'| κ₁ / 2
    # of one unit's share of Θ; a network of width m has 1/m of that.
    variance: Float[np.ndarray, "n other"]


def limit_kernels(x: Float[np.ndarray, "n d"], x_other: Float[np.ndarray, "m d"]) -> LimitKernels:
    """Return the arc-cosine kernels of `wide_network` with both layers trained."""
    # κ₀ = (π − θ)/π,  κ₁ = (sin θ + (π − θ) cos θ)/π,  κ₂ = (3 sin θ cos θ + (π − θ)(1 + 2cos²θ))/π
    # Source: Cho and Saul (2009); Jacot et al. (2018). The factors ½ come from the expectation:
    # κ_k / 2 = E (w·x)^k (w·x')^k over w where both are positive. The variance uses E v⁴ = 3.
    lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(x_other, axis=1)
    cosine = np.clip(x @ x_other.T / lengths, -1, 1)
    angle = np.arccos(cosine)
    kappa0, sine = (np.pi - angle) / np.pi, np.sin(angle) / np.pi
    kappa1 = sine + kappa0 * cosine
    kappa2 = 3 * sine * cosine + kappa0 * (1 + 2 * cosine**2)
    tangent = (kappa1 + cosine * kappa0) / 2
    square = (kappa2 + 2 * cosine * kappa1 + 3 * cosine**2 * kappa0) / 2
    variance = lengths**2 * (square - tangent**2)
    return LimitKernels(lengths * tangent, lengths * kappa1 / 2, variance)


def tangent_kernel(
    model: nn.Module, x: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
    """Return the empirical tangent kernel at the model's weights, and the outputs."""
    lin = collect(model, regression(x, np.arange(len(x)) % 2.0), projection=None, outputs="joint")
    if lin.kernel is not None:
        return lin.kernel.numpy(), lin.outputs[:, 0].double().numpy()
    features = torch.as_tensor(lin.features).double()
    return (features @ features.T).numpy(), lin.outputs[:, 0].double().numpy()


def regression(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> SampleSet:
    """Return regression samples from arrays."""
    return SampleSet(x, y, np.arange(len(x)))


def sphere_samples(
    n: int, n_inputs: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Draw inputs uniformly on the unit sphere, and a target of several smoothnesses."""
    # y = (linear + quadratic + noise) / √3, each of mean square 1 over the samples.
    x = rng.normal(size=(n, n_inputs))
    x /= np.linalg.norm(x, axis=1)[:, None]
    direction, square = rng.normal(size=n_inputs), rng.normal(size=(n_inputs, n_inputs))
    terms = [x @ direction, np.einsum("ni,ij,nj->n", x, square, x), rng.normal(size=n)]
    return x, sum(p / np.sqrt((p**2).mean()) for p in terms) / np.sqrt(3)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A training run with outputs kept at some steps."""

    steps: np.ndarray  # updates made before each record; starts at 0
    outputs: Float[np.ndarray, "t n"]  # outputs at these steps
    networks: TrainedNetworks  # networks with the weights after the last step


def train_and_record(
    model: nn.Module,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    *,
    rate: float,
    record_steps: np.ndarray,
    n_train: int | None = None,
) -> Trajectory:
    """Run full-batch descent on Σ ½(f − y)²; record outputs at the given steps."""
    # rate: step size η of the summed loss. record_steps: increasing; the last one ends the
    # run. n_train: number of training samples, the first ones, at least 8 of 10; only outputs of
    # the others are kept.
    n_used = len(x) if n_train is None else n_train
    steps = int(record_steps[-1]) + 1  # outputs are recorded before an update
    recipe = Recipe("sgd", rate * n_used, steps, None, "mse", precision="float64")
    return watch(model, regression(x, y), recipe, record_steps, n_train=n_used)


def watch(
    model: nn.Module,
    samples: SampleSet,
    recipe: Recipe,
    record_steps: np.ndarray,
    *,
    n_train: int | None = None,
    progress: Progress = silent,
) -> Trajectory:
    """Train a network of one output by full-batch steps and keep its outputs at some of them."""
    # recipe: training settings, with full batches. record_steps: increasing, below the
    # recipe's; outputs are those before the update. n_train: number of training samples, the
    # first ones; only outputs of the others are kept. progress: called with the updates done.
    recorded, step, records = set(record_steps.tolist()), iter(range(recipe.steps)), []

    def observe(_positions: Tensor, outputs: Tensor) -> None:
        if next(step) in recorded:
            records.append(outputs[0, :, 0].double().numpy().copy())

    subset = torch.arange(len(samples) if n_train is None else n_train)[None]
    networks = train_networks([model], samples, subset, recipe, observe=observe, progress=progress)
    return Trajectory(record_steps, np.array(records), networks)


def spread_steps(last: int, count: int = 60) -> np.ndarray:
    """Return step numbers 0, 1, ..., evenly spaced in the logarithm."""
    # count: how many at most, besides 0.
    return np.append(0, spread_counts(1, last, count))
