"""A finite network that learns its features predicts better than its own tangent kernel."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay.train import Recipe, train_networks
from datassay_lab.checks import Agreement, check_args, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track
from datassay_lab.wide_network import limit_kernels, regression, tangent_kernel, wide_network

N_TEST = 500
RIDGES = np.geomspace(1e-6, 1e2, 17)  # tried by the kernels, over their mean eigenvalue
RATE = 0.02  # of Adam


@dataclass(frozen=True, slots=True)
class LearnedFeatures:
    """Errors of a network and of its kernels on the same samples."""

    sizes: Float[np.ndarray, " n"]  # training samples
    network: Float[np.ndarray, " n"]  # test error over the targets' variance, mean of the repeats
    own_kernel: Float[np.ndarray, " n"]  # regression with its tangent kernel at the start
    limit_kernel: Float[np.ndarray, " n"]  # with that of infinite width

    @property
    def agreement(self) -> Agreement:
        """The network's error over the better kernel's, with the most samples."""
        ratio = self.network[-1] / min(self.own_kernel[-1], self.limit_kernel[-1])
        return Agreement("error over that of the better kernel", float(ratio), 0.8)


@check_args
def learned_features(
    *,
    n_inputs: Annotated[int, whole(2)] = 15,
    width: Annotated[int, whole()] = 50,
    sizes: Annotated[tuple[int, ...], rising_whole(2, count=2)] = (50, 100, 200, 400, 800),
    steps: Annotated[int, whole()] = 800,
    repeats: Annotated[int, whole()] = 3,
    seed: int = 0,
    progress: Progress = silent,
) -> LearnedFeatures:
    """Fit y = |u·x|, one direction u of many, by a network, and by kernels of the same network.

    f(x) = (1/m) Σ v_i relu(w_i·x),  kernels: f₀(x) + Θ(x, X) (Θ + λI)⁻¹ (y − f₀)

    Args:
        n_inputs: d, standard normal.
        width: m of the network.
        sizes: training samples, increasing; with few the network overfits and the kernels win.
        steps: of Adam, full batches.
        repeats: draws of samples and network.
        seed: of both.
        progress: called after each repeat.

    Returns:
        Test errors. The kernels have the ridge that is best on the test samples, the network none.

    Cost: repeats · (sizes · steps · n · m · d + 17 n³); some ten seconds.
    Source: S2 class 1, "K is fixed!" and "successful nets do not operate in the NTK regime: finite
    nets still outperform their exactly computed infinite width counterparts"; Ghorbani et al.
    (2020), Bach (2017) on targets of one direction.
    """
    errors = np.zeros((3, len(sizes)))
    for repeat in track(range(repeats), progress, "repeats"):
        rng = np.random.default_rng((seed, repeat))
        model = wide_network(n_inputs, width, int(rng.integers(2**31)), scaling="mean field")
        for index, n in enumerate(sizes):
            x = rng.normal(size=(n + N_TEST, n_inputs))
            y = (np.abs(x[:, 0]) - np.sqrt(2 / np.pi)) / np.sqrt(1 - 2 / np.pi)
            recipe = Recipe("adam", RATE, steps, None, "mse", precision="float64")
            fit = train_networks([model], regression(x[:n], y[:n]), torch.arange(n)[None], recipe)
            outputs = fit.outputs(torch.as_tensor(x[n:]))[0, :, 0].numpy()
            own_kernel, start = tangent_kernel(model, x)
            limit = limit_kernels(x, x).tangent
            kernels = _least_error(own_kernel, y - start), _least_error(limit, y)
            errors[:, index] += np.array([((outputs - y[n:]) ** 2).mean(), *kernels]) / repeats
    return LearnedFeatures(np.array(sizes, float), *errors)


@add_titles
def learned_features_plots(result: LearnedFeatures) -> Figures:
    """Draw test errors by the number of samples."""
    figure = axes("training samples", "test error over the targets' variance", log="xy")
    add_data(figure, result.sizes, result.network, "network, all weights trained")
    add_data(figure, result.sizes, result.own_kernel, "its own kernel, best ridge", series=1)
    theory(figure, result.sizes, result.limit_kernel, "kernel at infinite width, best ridge")
    return (figure,)


def _least_error(kernel: Float[np.ndarray, "a a"], y: Float[np.ndarray, " a"]) -> float:
    """Return the least test error of kernel regression over ridges; the last samples test."""
    n = len(y) - N_TEST
    values, vectors = np.linalg.eigh(kernel[:n, :n])
    projections, test_features = vectors.T @ y[:n], kernel[n:, :n] @ vectors
    fits = [test_features @ (projections / (values + ridge * values.mean())) for ridge in RIDGES]
    return float(min(((fit - y[n:]) ** 2).mean() for fit in fits))
