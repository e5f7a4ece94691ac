"""A linear layer commutes with a group exactly when it has one number for each orbit of pairs."""

from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float

from datassay.models import PermutationEquivariant, seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import pixel_orders, relative_error

# Below 3 every circulant has the form; 8! = 40320 matrices still average within a second.
SIZES = (3, 8)
SIDE = 4  # of the images whose pixels the other groups move


@dataclass(frozen=True, slots=True)
class PermutationEquivariance:
    """Both directions of the lemma, measured."""

    theta: Float[np.ndarray, "M M"]  # a random matrix
    # its mean πᵀΘπ over the whole group: the nearest matrix that commutes.
    average: Float[np.ndarray, "M M"]
    # λI + γ11ᵀ with λ + γ the mean of the diagonal, γ that of the rest.
    expected: Float[np.ndarray, "M M"]
    form_error: float  # of `average` against `expected`, relative
    layer_error: float  # largest |f(πx) − πf(x)| / max|f| of the layer, over random permutations
    dense_error: float  # the same of a dense layer with random weights
    dimension: int  # of the matrices that commute with the group; 2 for all permutations
    drawn: Float[np.ndarray, " k"]  # numbers of random permutations averaged
    distance: Float[np.ndarray, " k"]  # of those averages from `expected`, relative to Θ's distance
    predicted: Float[np.ndarray, " k"]  # 1 / √drawn
    groups: tuple[str, ...]  # that move the pixels of an image
    members: Float[np.ndarray, " g"]  # of each
    numbers: Float[np.ndarray, " g"]  # that an equivariant layer may learn: orbits of pairs
    burnside: Float[np.ndarray, " g"]  # the dimension of the matrices that commute
    orbit_error: float  # larger relative one: of numbers per orbit to commute, of others not to

    @property
    def agreement(self) -> Agreement:
        """The larger error of the two directions: only the form commutes, and the form does."""
        error = max(self.form_error, self.layer_error, self.orbit_error)
        return Agreement("larger relative error of the two directions", error, 1e-12)


@check_args
def permutation_equivariance(
    *,
    size: int = 6,
    channels: Annotated[int, whole()] = 3,
    group: Annotated[str, one_of(("all", "cyclic"))] = "all",
    draws: Annotated[int, whole(2)] = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> PermutationEquivariance:
    """Average a random matrix over a group of permutations, and permute a layer's inputs.

    (1/|G|) Σ_π πᵀΘπ = λI + γ11ᵀ,   f(πx) = πf(x)
    any finite group of permutations: Θ_ij = θ(orbit of (i, j)), for shifts a convolution

    Args:
        size: M, elements of the set, 3 to 8: the group has M! members.
        channels: in and out of the layer that is tested.
        group: "all" permutations, or "cyclic" ones only, for which more matrices commute.
        draws: random permutations averaged at most.
        seed: of the matrix, the layer and the permutations.
        progress: called after each direction.

    Returns:
        Errors of both directions.

    Cost: M! M² additions; a second at 8.
    Source: S2 class 4, "Permutation equivariant layer" and "How would you design a new layer?"; for
    one linear layer and finite groups, both directions of Kondor and Trivedi (2018); Zaheer et
    al. (2017), Lemma 3. S2 needs one-to-one σ and this run leaves σ out: with |·| the matrix of
    rows (1, −1), (1, −1) is equivariant too. Slip in S2: its steps name the diagonal λ, but it is
    λ + γ.
    """
    refuse_if(
        not (isinstance(size, int) and SIZES[0] <= size <= SIZES[1]),
        f"size must be a whole number in 3 to 8 (M! grows); got {size!r}.",
    )
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(size, size))
    members = (np.arange(size)[:, None] + np.arange(size)) % size
    if group == "all":
        members = np.array(list(permutations(range(size))))
    average = _mean_conjugate(theta, members)
    shared = (theta.sum() - np.trace(theta)) / (size * (size - 1))
    expected = (np.trace(theta) / size - shared) * np.eye(size) + shared
    progress("average over the group", 1, 2)
    picks = members[rng.integers(len(members), size=(20, draws))]
    counts = np.unique(np.geomspace(1, draws, 20).astype(int))
    spread = np.array([[_mean_conjugate(theta, p[:k]) for p in picks] for k in counts]) - average
    distance = np.sqrt(np.square(spread).sum(axis=(2, 3)).mean(axis=1))
    layer, dense = _layer_errors(rng, size, channels)
    names, orders = _image_groups()
    orbits, dimensions, errors = np.array([_orbits(rng, o) for o in orders]).T
    progress("permute the layer's inputs", 2, 2)
    # As many matrices commute with the group as the trace of the averaging projection.
    fixed = (members == np.arange(size)).sum(axis=1)
    return PermutationEquivariance(
        theta, average, expected, relative_error(average, expected), layer, dense,
        round(float(np.square(fixed).mean())), counts.astype(float),
        distance / np.linalg.norm(theta - average), counts**-0.5, names,
        np.array([len(o) for o in orders], float), orbits, dimensions, float(errors.max()),
    )  # fmt: skip


@add_titles
def permutation_equivariance_plots(result: PermutationEquivariance) -> Figures:
    """Draw the matrix before and after averaging, and how averages converge."""
    images = np.array([result.theta, result.average, result.expected])
    titles = ("random Θ", "mean of πᵀΘπ", "λI + γ11ᵀ")
    figure = axes("random permutations averaged", "distance from the group's mean", log="xy")
    add_data(figure, result.drawn, result.distance, "measured", mode="markers")
    theory(figure, result.drawn, result.predicted, "1 / √draws")
    numbers = axes("members of the group", "numbers that a layer may learn", log="xy")
    for index, name in enumerate(result.groups):
        row = slice(index, index + 1)
        point = (result.members[row], result.numbers[row])
        add_data(numbers, *point, name, series=index, mode="markers")
    theory(numbers, result.members, SIDE**4 / result.members, "pixels² / members")
    return pictures(images, titles, columns=3, signed=True), figure, numbers


def _mean_conjugate(theta: np.ndarray, group: np.ndarray) -> Float[np.ndarray, "M M"]:
    return theta[group[:, :, None], group[:, None, :]].mean(axis=0)


def _image_groups() -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
    """Return the groups' names, and the order of the pixels by each member."""
    turns, shifts = pixel_orders("rotations", SIDE), pixel_orders("shifts", SIDE)
    flip = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)[:, ::-1].ravel()
    symmetries = np.concatenate([turns, turns[:, flip]])
    return ("rotations", "rotations and flips", "shifts"), (turns, symmetries, shifts)


def _orbits(rng: np.random.Generator, orders: np.ndarray) -> tuple[int, float, float]:
    """Return the number of orbits of pixel pairs, the commutant's dimension and the error."""
    p = orders.shape[1]
    orbit = (orders[:, :, None] * p + orders[:, None, :]).min(0)  # its least pair, [p, p]
    layer = rng.normal(size=p * p)[orbit]
    layer_error = max(relative_error(layer[o][:, o], layer) for o in orders)
    average = _mean_conjugate(rng.normal(size=(p, p)), orders)
    form_error = relative_error(average, average.ravel()[orbit])
    fixed = (orders == np.arange(p)).sum(axis=1)
    return len(np.unique(orbit)), float(np.square(fixed).mean()), max(layer_error, form_error)


def _layer_errors(rng: np.random.Generator, size: int, channels: int) -> tuple[float, float]:
    with seeded(int(rng.integers(2**31))):
        layer = PermutationEquivariant(channels, channels).double()
        dense = torch.nn.Linear(size * channels, size * channels, bias=False).double()
    x = torch.tensor(rng.normal(size=(20, size, channels)))

    def flat(x: torch.Tensor) -> torch.Tensor:
        return dense(x.flatten(1)).reshape(x.shape)

    orders = [torch.tensor(rng.permutation(size)) for _ in range(50)]
    with torch.no_grad():
        errors = [
            max(float((f(x[:, o]) - f(x)[:, o]).abs().max()) for o in orders)
            / float(f(x).abs().max())
            for f in (layer, flat)
        ]
    return errors[0], errors[1]
