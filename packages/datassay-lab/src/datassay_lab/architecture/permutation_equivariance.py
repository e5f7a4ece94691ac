"""A linear layer commutes with all permutations exactly when it is λI + γ11ᵀ."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Float

from datassay.errors import SettingError
from datassay.models import PermutationEquivariant, seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import check_choice, check_count
from datassay_lab.curves import axes, finish, measured, pictures, theory
from datassay_lab.experiment import Agreement, Experiment, Plot
from datassay_lab.fits import relative_error

# Below 3 every circulant has the form; 8! = 40320 matrices still average within a second.
SIZES = (3, 8)


@dataclass(frozen=True, slots=True)
class PermutationEquivariance:
    """Both directions of the lemma, measured.

    Attributes:
        theta: [M, M], a random matrix.
        average: [M, M], its mean πᵀΘπ over the whole group: the nearest matrix that commutes.
        expected: [M, M], λI + γ11ᵀ with λ + γ the mean of the diagonal, γ that of the rest.
        form_error: of `average` against `expected`, relative.
        layer_error: largest |f(πx) − πf(x)| / max|f| of the layer, over random permutations.
        dense_error: the same of a dense layer with random weights.
        dimension: of the matrices that commute with the group; 2 for all permutations.
        drawn: [k], numbers of random permutations averaged.
        distance: [k], of those averages from `expected`, relative to Θ's distance.
        predicted: [k], 1 / √drawn.
    """

    theta: Float[np.ndarray, "M M"]
    average: Float[np.ndarray, "M M"]
    expected: Float[np.ndarray, "M M"]
    form_error: float
    layer_error: float
    dense_error: float
    dimension: int
    drawn: Float[np.ndarray, " k"]
    distance: Float[np.ndarray, " k"]
    predicted: Float[np.ndarray, " k"]

    @property
    def agreement(self) -> Agreement:
        """The larger error of the two directions: only the form commutes, and the form does."""
        error = max(self.form_error, self.layer_error)
        return Agreement("larger relative error of the two directions", error, 1e-12)


def permutation_equivariance(
    *,
    size: int = 6,
    channels: int = 3,
    group: str = "all",
    draws: int = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> PermutationEquivariance:
    """Average a random matrix over a group of permutations, and permute a layer's inputs.

    (1/|G|) Σ_π πᵀΘπ = λI + γ11ᵀ,   f(πx) = πf(x)

    Args:
        size: M, elements of the set, 3 to 8: the group has M! members.
        channels: in and out of the layer that is tested.
        group: "all" permutations, or "cyclic" ones only, for which more matrices commute.
        draws: random permutations averaged at most.
        seed: of the matrix, the layer and the permutations.
        progress: called after each direction.

    Returns:
        Errors of both directions.

    Raises:
        SettingError: a parameter is out of range.

    Cost: M! M² additions; a second at 8.
    Source: S2 class 4, "Permutation equivariant layer"; Zaheer et al. (2017), Lemma 3. S2 needs
    one-to-one σ and this run leaves σ out: with |·| the matrix of rows (1, −1), (1, −1) is
    equivariant too. Slip in S2: its steps name the diagonal λ, but it is λ + γ.
    """
    if not (isinstance(size, int) and SIZES[0] <= size <= SIZES[1]):
        raise SettingError(f"size must be a whole number in 3 to 8 (M! grows); got {size!r}.")
    check_count("channels", channels)
    check_choice("group", group, ("all", "cyclic"))
    check_count("draws", draws, 2)
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(size, size))
    every = _group(size, group)
    average = _mean_conjugate(theta, every)
    shared = (theta.sum() - np.trace(theta)) / (size * (size - 1))
    expected = (np.trace(theta) / size - shared) * np.eye(size) + shared
    progress("average over the group", 1, 2)
    picks = every[rng.integers(len(every), size=(20, draws))]
    counts = np.unique(np.geomspace(1, draws, 20).astype(int))
    spread = np.array([[_mean_conjugate(theta, p[:k]) for p in picks] for k in counts]) - average
    distance = np.sqrt(np.square(spread).sum(axis=(2, 3)).mean(axis=1))
    layer, dense = _layer_errors(rng, size, channels)
    progress("permute the layer's inputs", 2, 2)
    return PermutationEquivariance(
        theta, average, expected, relative_error(average, expected), layer, dense,
        _commutant(every), counts.astype(float), distance / np.linalg.norm(theta - average),
        counts**-0.5,
    )  # fmt: skip


def permutation_equivariance_plots(result: PermutationEquivariance) -> tuple[Plot, ...]:
    """The matrix before and after averaging, and how averages approach the form.

    Args:
        result: of `permutation_equivariance`.

    Returns:
        Two plots.
    """
    images = np.array([result.theta, result.average, result.expected])
    titles = ("random Θ", "mean of πᵀΘπ", "λI + γ11ᵀ")
    figure = axes("random permutations averaged", "distance from the group's mean", log="xy")
    measured(figure, result.drawn, result.distance, "measured", mode="markers")
    theory(figure, result.drawn, result.predicted, "1 / √draws")
    return (
        Plot("Averaging leaves two numbers", pictures(images, titles, columns=3, signed=True),
             "A random matrix, its group average, and the form of the lemma: the last two equal"),
        Plot("Random permutations get there slowly", finish(figure), "Distance against draws"),
    )  # fmt: skip


def _group(size: int, group: str) -> np.ndarray:
    if group == "all":
        return np.array(list(permutations(range(size))))
    return (np.arange(size)[:, None] + np.arange(size)) % size


def _mean_conjugate(theta: np.ndarray, group: np.ndarray) -> Float[np.ndarray, "M M"]:
    return theta[group[:, :, None], group[:, None, :]].mean(axis=0)


def _commutant(group: np.ndarray) -> int:
    """How many matrices commute with the group: the trace of the averaging projection."""
    fixed = (group == np.arange(group.shape[1])).sum(axis=1)
    return round(float(np.square(fixed).mean()))


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


EXPERIMENT = Experiment(
    name="permutation-equivariance",
    statement="A linear layer on a set commutes with every permutation of its elements if and only "
    "if it is λI + γ11ᵀ.",
    formula="f(πx) = πf(x) for all π ∈ S_M  ⇔  Θ = λI + γ11ᵀ",
    look_for="The second picture equals the third: averaging any matrix over all permutations "
    "leaves one number on the diagonal and one beside it, so nothing else commutes. A smaller "
    "group, such as the cyclic one, leaves more numbers (a convolution has M of them) and the "
    "statement fails. It holds for elementwise functions behind the layer if they are one-to-one.",
    source="S2 class 4; Zaheer et al. (2017), Deep Sets",
    run=permutation_equivariance,
    plots=permutation_equivariance_plots,
)
