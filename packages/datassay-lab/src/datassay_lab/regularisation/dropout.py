"""Dropout averages an ensemble of masked networks, which scaled weights stand for."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import relative_error

MOST_MASKS = 2**20
CLASSES = 3
ROWS = 40  # samples on which the ensemble is asked


@dataclass(frozen=True, slots=True)
class Dropout:
    """Ensembles of all masks against one network with scaled weights."""

    depths: Float[np.ndarray, " l"]  # hidden layers with dropout
    masks: Float[np.ndarray, " l"]  # how many masks there are
    # largest difference of a probability from the masks' geometric mean.
    geometric: Float[np.ndarray, " l"]
    arithmetic: Float[np.ndarray, " l"]  # the same from their arithmetic mean
    # probability of the first class, geometric mean over all masks.
    ensemble: Float[np.ndarray, "l m"]
    scaled: Float[np.ndarray, "l m"]  # the same of the one network
    ridge_error: float  # relative distance of linear regression under all masks from ridge
    shrinking: Float[np.ndarray, " d"]  # weights of that regression over those without dropout
    ridge_shrinking: Float[np.ndarray, " d"]  # the same of ridge with penalty (1 − p)/p · diag(XᵀX)

    @property
    def agreement(self) -> Agreement:
        """The worse of the two identities: one hidden layer, and linear regression."""
        measure = "largest error of the two exact cases (one layer, ridge)"
        return Agreement(measure, max(float(self.geometric[0]), self.ridge_error), 1e-9)


@check_args
def dropout(
    *,
    width: Annotated[int, whole()] = 6,
    depth: Annotated[int, whole()] = 3,
    keep: Annotated[float, positive(1)] = 0.5,
    n_features: Annotated[int, whole(2)] = 10,
    n_samples: int = 60,
    scale_weights: bool = True,
    train_steps: Annotated[int, whole()] = 400,
    seed: int = 0,
    progress: Progress = silent,
) -> Dropout:
    """Train with dropout, then average over every mask there is.

    E ‖y − (R ∘ X) w‖² = ‖y − X p w‖² + ((1 − p)/p) ‖diag(XᵀX)^½ p w‖²

    Args:
        width: hidden units per layer; L layers have 2^(L · width) masks, at most 2^20 in all.
        depth: deepest network; 1 to `depth` hidden layers are trained.
        keep: p, the probability that a unit stays.
        n_features: d of the linear regression, whose 2^d masks (at most 2^20) are on its inputs.
        n_samples: of the regression, more than d, and of the networks' training set.
        scale_weights: outgoing weights times p at the end, as dropout does; False leaves them.
        train_steps: of Adam, each with fresh masks.
        seed: of all draws.
        progress: called after each network.

    Returns:
        Both comparisons.

    Cost: masks · samples · width² operations; about five seconds, most of it the deepest network.
    Source: S2 class 2, "Dropout is training a large ensemble of models"; the geometric mean is
    from Warde-Farley et al. (2014), ridge from Srivastava et al. (2014), section 9.1. S2 counts
    the masks and leaves open how they are averaged: only the geometric mean, and only with one
    layer of dropout below the softmax, is what the scaled network gives.
    """
    whole(n_features + 1)("n_samples", n_samples)
    refuse_if(
        max(width * depth, n_features) > np.log2(MOST_MASKS),
        f"width · depth and n_features must be <= 20, for 2^20 masks at most; got "
        f"{width * depth} and {n_features}.",
    )
    rng = np.random.default_rng(seed)
    shrinking, ridge = _regression(rng, n_features, n_samples, keep, scale_weights)
    labels = torch.arange(max(n_samples, ROWS)) % CLASSES
    angle = 2 * np.pi * labels.numpy() / CLASSES
    x = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.8 * rng.normal(size=(len(labels), 2))
    x = torch.from_numpy(x)
    ensembles = []
    for layers in range(1, depth + 1):
        generator = torch.Generator().manual_seed(1000 * seed + layers)
        weights = _train(x, labels, [2, *[width] * layers, CLASSES], keep, train_steps, generator)
        ensembles.append(_ensemble(weights, x[:ROWS], keep, scale_weights))
        progress("networks with dropout", layers, depth)
    geometric, arithmetic, scaled = (np.stack(arrays) for arrays in zip(*ensembles, strict=True))
    depths = np.arange(1.0, depth + 1)
    return Dropout(
        depths,
        2.0 ** (width * depths),
        np.abs(geometric - scaled).max((1, 2)),
        np.abs(arithmetic - scaled).max((1, 2)),
        geometric[..., 0].copy(),
        scaled[..., 0].copy(),
        relative_error(shrinking, ridge),
        shrinking,
        ridge,
    )


@add_titles
def dropout_plots(result: Dropout) -> Figures:
    """Draw ensemble against scaled network for two depths, and linear regression."""
    probability = axes("probability by the scaled network", "geometric mean over all masks")
    for position in sorted({0, len(result.depths) - 1}, reverse=True):
        name = f"{result.depths[position]:g} hidden, {result.masks[position]:,.0f} masks"
        add_data(probability, result.scaled[position], result.ensemble[position], name,
                 series=position, mode="markers")  # fmt: skip
    theory(probability, [0, 1], [0, 1], "equal: exact for one hidden layer")
    difference = axes("hidden layers with dropout", "largest difference of a probability", log="y")
    add_data(difference, result.depths, result.geometric, "from the geometric mean")
    add_data(difference, result.depths, result.arithmetic, "from the arithmetic mean", series=1)
    theory(difference, [1, result.depths[-1]], [1e-15, 1e-15], "rounding: exact for one layer")
    difference.update_xaxes(dtick=1)
    ratio = axes("weight of the linear regression", "weight over weight without dropout")
    positions = np.arange(1.0, 1 + len(result.shrinking))
    add_data(ratio, positions, result.shrinking, "mean over all masks", mode="markers")
    theory(ratio, positions, result.ridge_shrinking, "ridge with (1 − p)/p · diag(XᵀX)")
    return probability, difference, ratio


def _regression(
    rng: np.random.Generator, d: int, n: int, keep: float, scale: bool
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return weights over plain weights: the minimiser of the mean over masks, and ridge's."""
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    y = x @ rng.choice((-1.0, 1.0), d) + 0.1 * rng.normal(size=n)
    gram, moment = x.T @ x, x.T @ y
    masks = _all_masks(d)
    chance = keep ** masks.sum(1) * (1 - keep) ** (d - masks.sum(1))
    # Masks of different samples are independent, so their mean is that of one mask for all.
    pair_masks = (masks * chance[:, None]).T @ masks  # E r rᵀ
    fitted = np.linalg.solve(pair_masks * gram, (chance @ masks) * moment)
    ridge = np.linalg.solve(gram + (1 - keep) / keep * np.diag(np.diag(gram)), moment)
    plain_weights = np.linalg.solve(gram, moment)
    return (keep if scale else 1.0) * fitted / plain_weights, ridge / plain_weights


def _all_masks(units: int) -> Float[np.ndarray, "masks units"]:
    return ((np.arange(2**units)[:, None] >> np.arange(units)) & 1).astype(float)


def _train(
    x: Tensor, labels: Tensor, sizes: list[int], keep: float, steps: int, generator: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    draw = {"generator": generator, "dtype": torch.float64}
    weights = [
        (
            (torch.randn(a, b, **draw) * np.sqrt(2 / a)).requires_grad_(),
            torch.zeros(b, dtype=torch.float64, requires_grad=True),
        )
        for a, b in pairwise(sizes)
    ]
    optimizer = torch.optim.Adam([t for pair in weights for t in pair], lr=0.02)
    for _ in range(steps):
        masks = [(torch.rand(len(x), b, **draw) < keep).double() for b in sizes[1:-1]]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(_forward(weights, x, masks), labels).backward()
        optimizer.step()
    return [(matrix.detach(), bias.detach()) for matrix, bias in weights]


def _forward(weights: list[tuple[Tensor, Tensor]], x: Tensor, masks: list[Tensor]) -> Tensor:
    for (matrix, bias), mask in zip(weights[:-1], masks, strict=True):
        x = torch.relu(x @ matrix + bias) * mask
    return x @ weights[-1][0] + weights[-1][1]


def _ensemble(
    weights: list[tuple[Tensor, Tensor]], x: Tensor, keep: float, scale: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return geometric and arithmetic mean over all masks, and the scaled network, [m, classes]."""
    sizes = [matrix.shape[1] for matrix, _ in weights[:-1]]
    all_masks = torch.from_numpy(_all_masks(sum(sizes)))
    log_sum = torch.zeros(len(x), CLASSES, dtype=torch.float64)
    arithmetic_sum = torch.zeros_like(log_sum)
    for chunk in all_masks.split(2**14):
        masks = [m[:, None] for m in chunk.split(sizes, 1)]
        logs = torch.log_softmax(_forward(weights, x, masks), -1)  # [part, m, classes]
        n_active = chunk.sum(1)
        chance = keep**n_active * (1 - keep) ** (sum(sizes) - n_active)
        log_sum += torch.tensordot(chance, logs, 1)
        arithmetic_sum += torch.tensordot(chance, logs.exp(), 1)
    factor = keep if scale else 1.0
    scaled = _forward(weights, x, [torch.full((1,), factor, dtype=torch.float64)] * len(sizes))
    distributions = torch.softmax(log_sum, -1), arithmetic_sum, torch.softmax(scaled, -1)
    return distributions[0].numpy(), distributions[1].numpy(), distributions[2].numpy()
