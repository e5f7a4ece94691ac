"""First-layer filters take up the structure of the images that train them."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from datassay.models import seeded
from datassay.progress import Progress, part_of, silent
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, positive, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import accuracy, digit_images, fit_network

SIDE = 8  # of the digits, pixels
SHOWN = 6
TESTED = 300


@dataclass(frozen=True, slots=True)
class FirstFilters:
    """Filters before and after training, and how smooth they are.

    Smoothness is the correlation of a filter's weights with those one pixel to the right or
    below: 0 in the mean for random weights, towards 1 for smooth ones.
    """

    # smoothness of the filters after training on the images as set, ascending.
    trained: Float[np.ndarray, " M"]
    random: Float[np.ndarray, " M"]  # before training, ascending
    # after training on images whose pixels were shuffled, ascending.
    shuffled: Float[np.ndarray, " M"]
    # mean energy of the trained filters by |frequency| 0, 1, …, shares.
    spectrum: Float[np.ndarray, " r"]
    random_spectrum: Float[np.ndarray, " r"]  # of the random ones
    asymmetry: float  # ‖G − PGP‖ / ‖G‖ of G = WᵀW after training, P the mirror left to right
    mirrored_asymmetry: float  # the same with every training image mirrored too
    accuracy: float  # on 300 test images, 0 to 1
    # those of largest norm after training: before it, and after.
    filters: Float[np.ndarray, "f 8 8"]

    @property
    def agreement(self) -> Agreement:
        """The mean smoothness that training added."""
        gain = float(self.trained.mean() - self.random.mean())
        return Agreement("gain of neighbour correlation by training", gain, 0.15, "at least")


@check_args
def first_filters(
    *,
    width: Annotated[int, whole(SHOWN)] = 60,
    steps: Annotated[int, whole()] = 800,
    start: Annotated[float, positive()] = 0.1,
    shuffle_pixels: bool = False,
    seed: int = 0,
    progress: Progress = silent,
) -> FirstFilters:
    """Train a dense ReLU network on digits and look at the weights of its first layer.

    Args:
        width: M, hidden units, at least 6.
        steps: of gradient descent on batches of 64, step size 0.2.
        start: the first layer's initial weights relative to PyTorch's. Large ones keep their
            noise under what is learned.
        shuffle_pixels: train on images whose pixels have changed places, all in the same way: as
            learnable for dense layers, but without neighbours.
        seed: of the digits, the weights and the shuffling.
        progress: called with the updates done of three trainings.

    Returns:
        Filters, their smoothness and their symmetry.

    Cost: three trainings of 74 M weights; a few seconds.
    Source: S2 class 1, "Symmetries/regularities in data are reflected in the learned weights", and
    class 5, "Are filters interpretable?". Deviates: dense filters of 8 x 8 digits, where S2 shows
    those of a large convolutional network.
    """
    images, labels = digit_images(seed)
    order = np.random.default_rng(seed).permutation(SIDE * SIDE)
    scattered = images.reshape(-1, SIDE * SIDE)[:, order].reshape(images.shape)
    inputs = scattered if shuffle_pixels else images
    build = partial(_network, width, start)
    with_mirrored = np.concatenate([images, images[:, :, ::-1]])
    models = []
    for index, (x, y) in enumerate((
        (inputs, labels),
        (scattered, labels),
        (with_mirrored, np.tile(labels, 2)),
    )):
        report = part_of(progress, "train", index * steps, 3 * steps)
        rows = np.arange(len(y)) % len(labels) < len(labels) - TESTED
        recipe = Recipe("sgd", lr=0.2, steps=steps)
        models.append(fit_network(build, x[rows], y[rows], recipe, seed=seed, progress=report))
    with seeded(seed):
        initial = _filters(build())
    final, shuffled, mirrored = (_filters(model) for model in models)
    largest = np.argsort(-np.square(final).sum(axis=(1, 2)))[:SHOWN]
    test = slice(-TESTED, None)
    return FirstFilters(
        _smoothness(final), _smoothness(initial), _smoothness(shuffled),
        _spectrum(final), _spectrum(initial), _asymmetry(final), _asymmetry(mirrored),
        accuracy(models[0], inputs[test], labels[test]),
        np.concatenate([initial[largest], final[largest]]),
    )  # fmt: skip


@add_titles
def first_filters_plots(result: FirstFilters) -> Figures:
    """Draw filters before and after training, their smoothness and their spectrum."""
    half = len(result.filters) // 2
    titles = ["random"] * half + ["trained"] * half
    figure = axes("correlation of neighbouring weights", "share of filters below")
    rank = (np.arange(len(result.trained)) + 1) / len(result.trained)
    add_data(figure, result.random, rank, "before training", series=7, mode="lines")
    add_data(figure, result.shuffled, rank, "trained, shuffled pixels", series=1, mode="lines")
    add_data(figure, result.trained, rank, "trained", mode="lines")
    theory(figure, [0, 0], [0, 1], "random weights, mean")
    energy = axes("|frequency|, cycles per image", "share of the filters' energy")
    radius = np.arange(len(result.spectrum))
    add_data(energy, radius, result.spectrum, "trained")
    theory(energy, radius, result.random_spectrum, "random weights")
    filters = pictures(result.filters, titles, columns=half, signed=True, shared=False, side=130)
    return filters, figure, energy


def _network(width: int, start: float) -> nn.Sequential:
    dense = nn.Linear(SIDE * SIDE, width)
    with torch.no_grad():
        dense.weight *= start
    return nn.Sequential(nn.Flatten(), dense, nn.ReLU(), nn.Linear(width, 10))


def _filters(model: nn.Module) -> Float[np.ndarray, "M 8 8"]:
    weights = next(model.parameters()).detach()
    return weights.double().numpy().reshape(-1, SIDE, SIDE)


def _smoothness(filters: np.ndarray) -> Float[np.ndarray, " M"]:
    pixels, neighbours = (
        np.concatenate([a.reshape(len(a), -1), b.reshape(len(b), -1)], axis=1)
        for a, b in (
            (filters[:, :, :-1], filters[:, :-1]),
            (filters[:, :, 1:], filters[:, 1:]),
        )
    )
    pixels, neighbours = (p - p.mean(axis=1, keepdims=True) for p in (pixels, neighbours))
    lengths = np.linalg.norm(pixels, axis=1) * np.linalg.norm(neighbours, axis=1)
    return np.sort((pixels * neighbours).sum(axis=1) / lengths)


def _spectrum(filters: np.ndarray) -> Float[np.ndarray, " r"]:
    k = np.fft.fftfreq(SIDE, 1 / SIDE)
    radius = np.hypot(k[:, None], k).round().astype(int)
    power = np.square(np.abs(np.fft.fft2(filters)))
    shares = (power / power.sum(axis=(1, 2), keepdims=True)).mean(axis=0)
    return np.bincount(radius.ravel(), shares.ravel())


def _asymmetry(filters: np.ndarray) -> float:
    flat, mirrored = (f.reshape(len(f), -1) for f in (filters, filters[:, :, ::-1]))
    gram = flat.T @ flat
    return float(np.linalg.norm(gram - mirrored.T @ mirrored) / np.linalg.norm(gram))
