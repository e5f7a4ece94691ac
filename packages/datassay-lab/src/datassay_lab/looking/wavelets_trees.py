"""Haar wavelets and a small tree: an interpretable baseline for images."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.models import mlp
from datassay.progress import Progress, silent
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, one_of, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import accuracy, digit_images, fit_network, track

SIDE = 8  # of the digits, pixels
TRAINED = 1200  # digits that fit trees and network; the others test
SHOWN = 6
TENTH = 6  # of 64 coefficients


@dataclass(frozen=True, slots=True)
class WaveletsTrees:
    """How sparse digits are in the Haar basis, and how well small trees tell them apart."""

    parseval_error: float  # largest relative difference of Σ coefficients² from Σ pixels²
    kept: Float[np.ndarray, " c"]  # numbers of coefficients kept, the largest of each image
    # their share of the energy in the basis as set, mean over images.
    energy: Float[np.ndarray, " c"]
    pixel_energy: Float[np.ndarray, " c"]  # the same of the brightest pixels
    tenth: float  # `energy` of the largest tenth, 6 of 64
    leaves: Float[np.ndarray, " t"]  # of the trees
    tree: Float[np.ndarray, " t"]  # test accuracy of trees on coefficients, mean over draws
    pixel_tree: Float[np.ndarray, " t"]  # on pixels
    network: float  # test accuracy of a dense network on pixels, first draw
    rules: str  # of the smallest tree on coefficients, first draw; cNN is coefficient NN
    wavelets: Float[np.ndarray, "b 8 8"]  # the basis images that this tree uses most
    names: tuple[str, ...]  # [6], their numbers and shares of the tree's importance

    @property
    def agreement(self) -> Agreement:
        """What coefficients add to the accuracy of the smallest tree."""
        gain = float(self.tree[0] - self.pixel_tree[0])
        return Agreement("gain of the smallest tree over pixels", gain, 0.05, "at least")


@check_args
def wavelets_trees(
    *,
    leaves: Annotated[tuple[int, ...], rising_whole(10, count=1)] = (10, 15, 20, 30, 60, 120),
    basis: Annotated[str, one_of(("haar", "random"))] = "haar",
    draws: Annotated[int, whole()] = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> WaveletsTrees:
    """Fit decision trees on wavelet coefficients and on pixels of digits.

    c = H x,  HHᵀ = I,  Σ c² = Σ x²

    Args:
        leaves: of the trees at most, increasing; a tree of k leaves has k rules.
        basis: "haar", or a "random" orthonormal one.
        draws: splits into 1200 digits for training and 597 for the test.
        seed: of the splits.
        progress: called after each draw.

    Returns:
        Energies and accuracies.

    Cost: 2 · draws · len(leaves) trees on 1200 x 64 numbers; a few seconds.
    Source: S2 class 5, "Wavelets", "Trees are highly interpretable"; Mallat (1989) for the basis.
    """
    rng = np.random.default_rng(seed)
    transform = haar_basis(SIDE)
    if basis == "random":
        transform = np.linalg.qr(rng.normal(size=(SIDE**2, SIDE**2)))[0]
    images, labels = digit_images(seed)
    x = images.reshape(len(images), -1)
    coefficients = x @ transform.T
    norms = np.square(x).sum(axis=1)
    build, recipe = partial(mlp, (1, SIDE, SIDE), 10, width=64), Recipe(lr=2e-3, steps=600)
    model = fit_network(build, images[:TRAINED], labels[:TRAINED], recipe, seed=seed)
    network = accuracy(model, images[TRAINED:], labels[TRAINED:])
    scores = []
    for draw in track(range(draws), progress, "trees"):
        order = np.arange(len(x)) if draw == 0 else rng.permutation(len(x))
        feature_sets = (f[order] for f in (coefficients, x))
        scores.append([_tree_scores(f, labels[order], leaves, seed) for f in feature_sets])
    tree, pixel_tree = np.mean(scores, axis=0)
    rules, used_terms, shares = _smallest_tree(coefficients, labels, leaves[0], seed)
    energy, pixel_energy = _energy(coefficients), _energy(x)
    return WaveletsTrees(
        float(np.abs(np.square(coefficients).sum(axis=1) / norms - 1).max()),
        np.arange(1.0, len(energy) + 1), energy, pixel_energy, float(energy[TENTH - 1]),
        np.array(leaves, float), tree, pixel_tree, network, rules,
        transform[used_terms].reshape(-1, SIDE, SIDE),
        tuple(f"c{b}: {share:.0%}" for b, share in zip(used_terms, shares, strict=True)),
    )  # fmt: skip


def haar_basis(side: int) -> Float[np.ndarray, "p p"]:
    """Return the orthonormal 2-D Haar basis of a square image, one basis image per row."""
    # side: a power of two; p = side².
    images = [np.full((side, side), 1 / side)]
    width = side
    while width > 1:
        flat, step = np.ones(width), np.repeat([1.0, -1.0], width // 2)
        corners = [(r, c) for r in range(0, side, width) for c in range(0, side, width)]
        for shape in (np.outer(step, flat), np.outer(flat, step), np.outer(step, step)):
            for row, column in corners:
                image = np.zeros((side, side))
                image[row : row + width, column : column + width] = shape / width
                images.append(image)
        width //= 2
    return np.array(images).reshape(len(images), -1)


@add_titles
def wavelets_trees_plots(result: WaveletsTrees) -> Figures:
    """Draw accuracy by leaves, energy by coefficients, and the smallest tree's wavelets."""
    figure = axes("leaves of the tree", "test accuracy", log="x")
    add_data(figure, result.leaves, result.tree, "tree on coefficients")
    add_data(figure, result.leaves, result.pixel_tree, "tree on pixels", series=1)
    theory(figure, result.leaves, np.full(len(result.leaves), result.network), "dense network")
    energy = axes("numbers kept of each image, of 64", "share of its energy")
    add_data(energy, result.kept, result.energy, "largest coefficients")
    add_data(energy, result.kept, result.pixel_energy, "brightest pixels", series=1)
    theory(energy, [1, 64], [1, 1], "all (Parseval)")
    wavelets = pictures(result.wavelets, result.names, columns=SHOWN, signed=True, shared=False)
    return figure, energy, wavelets


def _tree_scores(
    features: np.ndarray, labels: np.ndarray, leaves: tuple[int, ...], seed: int
) -> Float[np.ndarray, " t"]:
    from sklearn.tree import DecisionTreeClassifier

    trees = (DecisionTreeClassifier(max_leaf_nodes=k, random_state=seed) for k in leaves)
    fitted = (tree.fit(features[:TRAINED], labels[:TRAINED]) for tree in trees)
    return np.array([tree.score(features[TRAINED:], labels[TRAINED:]) for tree in fitted])


def _smallest_tree(
    features: np.ndarray, labels: np.ndarray, leaves: int, seed: int
) -> tuple[str, list[int], list[float]]:
    """Fit the tree; return its rules, and its most used features' numbers and importances."""
    from sklearn.tree import DecisionTreeClassifier, export_text

    tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)
    tree.fit(features[:TRAINED], labels[:TRAINED])
    shares = tree.feature_importances_
    most_used = np.argsort(-shares, kind="stable")[:SHOWN]
    names = [f"c{k}" for k in range(features.shape[1])]
    return export_text(tree, feature_names=names), most_used.tolist(), shares[most_used].tolist()


def _energy(coefficients: np.ndarray) -> Float[np.ndarray, " c"]:
    sorted_power = np.sort(np.square(coefficients), axis=1)[:, ::-1]
    shares = np.cumsum(sorted_power, axis=1) / sorted_power.sum(axis=1, keepdims=True)
    return shares.mean(axis=0)
