"""A linear autoencoder learns the principal subspace, and a curved one loses less."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from datassay.data import SampleSet, load
from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay.train import Recipe, taken_network, train_networks
from datassay_lab.checks import Agreement, check_args, refuse_if, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, latent_map, pictures, theory
from datassay_lab.fits import fit_by_lbfgs, track

HIDDEN = 128
SHOWN = 6
MOST_CODES = 32
SIDE = 8


@dataclass(frozen=True, slots=True)
class Autoencoder:
    """Reconstructions through a bottleneck: principal components and two autoencoders."""

    bottlenecks: Int[np.ndarray, " b"]  # code sizes
    # sine of the largest angle between the linear decoder's and the principal subspace.
    angles: Float[np.ndarray, " b"]
    # mean squared distance of held-out digits from their reconstructions, squared ink: principal
    # components, linear, curved.
    lost: Float[np.ndarray, "b 3"]
    # of the held-out digits by a curved autoencoder with a bottleneck of 2.
    codes: Float[np.ndarray, "n 2"]
    labels: Int[np.ndarray, " n"]  # their classes
    # digits, and their reconstructions at the largest bottleneck below 10: principal components,
    # linear, curved.
    shown: Float[np.ndarray, "4 s h w"]

    @property
    def agreement(self) -> Agreement:
        """The largest angle between learnt and principal subspace."""
        return Agreement(
            "largest sine of the angle to the subspace", float(self.angles.max()), 0.01
        )


@check_args
def autoencoder(
    *,
    bottlenecks: Annotated[tuple[int, ...], rising_whole(2)] = (2, 4, 8, 16),
    iterations: Annotated[int, whole()] = 500,
    steps: Annotated[int, whole()] = 2000,
    seed: int = 0,
    progress: Progress = silent,
) -> Autoencoder:
    """Fit autoencoders of digits with bottlenecks of several sizes.

    L(W) = Σ_i ‖x_i − g(f(x_i))‖²,  f to k numbers, g back

    Args:
        bottlenecks: k, increasing, the first 2, at most 32.
        iterations: of L-BFGS for the linear ones.
        steps: of Adam for the curved ones, batches of 64.
        seed: of starting weights and batches.
        progress: called after each bottleneck.

    Returns:
        Angles, losses, codes and pictures.

    Cost: about 2 seconds per bottleneck.
    Source: S2 class 5, "Autoencoders", which asks for the loss: it is the squared distance above.
        Baldi and Hornik (1989): every minimum of the linear one is the principal subspace, though
        its code is any basis of it, not the components themselves.
    """
    refuse_if(
        bottlenecks[0] != 2 or bottlenecks[-1] > MOST_CODES,
        f"bottlenecks must start at 2 and end at {MOST_CODES} at most; got {bottlenecks!r}.",
    )
    train, held_out = load("digits")
    mean = _flat(train).mean(0)
    x, x_new = _flat(train) - mean, _flat(held_out) - mean
    basis = np.linalg.svd(x, full_matrices=False)[2]
    angles, losses, pictured, codes = [], [], [], x_new[:, :2]
    for index, size in enumerate(track(bottlenecks, progress, "bottlenecks")):
        subspace = basis[:size]
        linear = _linear(x, size, iterations, seed)
        nonlinear = _fit_nonlinear(x, size, steps, seed)
        outputs = [x_new @ subspace.T @ subspace, _apply(linear, x_new), _apply(nonlinear, x_new)]
        losses.append([float(((out - x_new) ** 2).sum(1).mean()) for out in outputs])
        directions = np.linalg.qr(linear.state_dict()["1.weight"].numpy())[0]
        # What is left of the learnt directions outside the subspace: exact for small angles, too.
        angles.append(float(np.linalg.norm(directions - subspace.T @ (subspace @ directions), 2)))
        pictured = [out[:SHOWN] for out in outputs] if size < 10 or not pictured else pictured
        codes = _apply(nonlinear[: len(nonlinear) // 2], x_new) if not index else codes
    images = np.array([x_new[:SHOWN], *pictured]) + mean
    return Autoencoder(
        np.array(bottlenecks), np.array(angles), np.array(losses), codes,
        np.asarray(held_out.y), images.reshape(4, -1, SIDE, SIDE),
    )  # fmt: skip


@add_titles
def autoencoder_plots(result: Autoencoder) -> Figures:
    """Draw losses, reconstructed digits, and the plane of codes."""
    figure = axes("size of the bottleneck", "lost, squared ink a digit", log="xy")
    add_data(figure, result.bottlenecks, result.lost[:, 1], "linear", mode="markers")
    add_data(figure, result.bottlenecks, result.lost[:, 2], "curved", series=1)
    theory(figure, result.bottlenecks, result.lost[:, 0], "principal components")
    figure.update_xaxes(tickvals=result.bottlenecks, ticktext=[str(b) for b in result.bottlenecks])
    count = result.shown.shape[1]
    names = [""] * (4 * count)
    names[::count] = ["digit", "components", "linear", "curved"]
    images = np.clip(result.shown.reshape(-1, SIDE, SIDE), 0, 1)
    digits = pictures(images, names, columns=count, side=120)
    return figure, digits, latent_map(result.codes, result.labels, "first code", "second code")


def _flat(samples: SampleSet) -> Float[np.ndarray, "n 64"]:
    return np.asarray(samples.x, float).reshape(len(samples), -1)


def _linear(x: Float[np.ndarray, "n d"], size: int, iterations: int, seed: int) -> nn.Sequential:
    inputs = torch.tensor(x)
    with seeded(seed):
        network = nn.Sequential(nn.Linear(x.shape[1], size), nn.Linear(size, x.shape[1])).double()
    fit_by_lbfgs(network, inputs, inputs, iterations)
    return network


def _fit_nonlinear(x: Float[np.ndarray, "n d"], size: int, steps: int, seed: int) -> nn.Sequential:
    """Fit encoder and decoder of five layers each, no activation at the code between them."""
    d, half = x.shape[1], HIDDEN // 2
    with seeded(seed):
        encoder = (nn.Linear(d, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, half), nn.ReLU())
        decoder = (nn.Linear(half, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, d))
        network = nn.Sequential(
            *encoder, nn.Linear(half, size), nn.Linear(size, half), nn.ReLU(), *decoder
        )
    samples = SampleSet(x=x.astype(np.float32), y=x, ids=np.arange(len(x)))
    recipe = Recipe(lr=2e-3, steps=steps, batch_size=64, loss="mse")
    trained = train_networks([network], samples, torch.arange(len(x))[None], recipe, seed=seed)
    return taken_network(network, trained).double()


def _apply(network: nn.Module, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
    with torch.no_grad():
        return network(torch.tensor(x)).numpy()
