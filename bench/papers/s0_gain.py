"""What a last layer retrained under weights gains on test images, beside retraining without any.

S0's gain of a model is that of the best of its retrainings on the test set itself, which the best
of ten copies of nothing would have too. Beside it stand the mean over retrainings, and the
retraining chosen on one half of the test images and scored on the other, both ways round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from bench.stats import best_mean_error, interval
from jaxtyping import Bool, Float
from scipy.stats import bootstrap
from torch import nn

from datassay.act import Weightings, head_problem
from datassay.data import SampleSet
from datassay.train import HeadRecipe, TrainedHeads

UNIFORM, S0 = 0, 1  # positions of the two weightings that every run has
PAIR = (20, 40.0)  # k and m of S0's images


@dataclass(frozen=True, slots=True, eq=False)
class Retrained:
    """One network before and after: before [m] and right [seeds, weightings, m] test images."""

    before: Bool[np.ndarray, " m"]
    right: Bool[np.ndarray, "S M m"]


def retrained(
    network: nn.Module,
    train: SampleSet,
    test: SampleSet,
    pairs: Sequence[tuple[int, float]],
    recipes: Sequence[HeadRecipe],
    n_seeds: int,
) -> list[Retrained]:
    """By each recipe, the layer retrained with uniform weights and with those of each (k, m)."""
    problem = head_problem(network, train)
    weightings = Weightings(problem, max(k for k, _ in pairs), "auto")
    weights = np.stack([np.full(len(train), 1 / len(train)), *(weightings(*p) for p in pairs)])
    features = problem.head.features(test)
    before = problem.head.outputs(features).argmax(1).numpy() == test.y
    seeds = tuple(range(n_seeds))
    found = (problem.train(weights, recipe, seeds=seeds) for recipe in recipes)
    return [Retrained(before, right(trained, features, test.y)) for trained in found]


def right(trained: TrainedHeads, features: torch.Tensor, y: np.ndarray) -> np.ndarray:
    """[seeds, weightings, m], which images each layer gets right."""
    return trained.outputs(features).argmax(-1).numpy() == y


def halves(n: int) -> Bool[np.ndarray, " n"]:
    """A random half of the images, of seed 0."""
    return np.isin(np.arange(n), np.random.default_rng(0).permutation(n)[: n // 2])


def both_ways(n: int, gain: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """gain(choose, score) with the halves in one role and in the other: the mean."""
    half = halves(n)
    return (gain(half, ~half) + gain(~half, half)) / 2


def figures(cells: Sequence[Retrained]) -> dict[str, object]:
    """Best, mean ± se and gains by S0's own k and m, in per cent, with 95 % intervals."""
    base = 100 * np.array([c.before.mean() for c in cells])
    found: dict[str, object] = {"baseline": best_mean_error(base)}
    for name, j in (("uniform", UNIFORM), ("vbsw", S0)):
        accuracy = 100 * np.stack([c.right[:, j].mean(-1) for c in cells])  # [networks, S]
        top, change = accuracy.max(1), [c.right[:, j].mean(0) - c.before for c in cells]
        found |= {
            f"{name}_best_of_retrainings": best_mean_error(top),
            f"{name}_all": best_mean_error(accuracy.mean(1)),
            f"{name}_s0_gain": [float((top - base).max()), *interval(top - base)],
            f"{name}_mean_gain": interval(accuracy.mean(1) - base),
            f"{name}_mean_gain_over_images": over_images(np.mean(change, 0)),
            f"{name}_chosen_gain": interval([_chosen(c, j) for c in cells]),
        }
    between = [c.right[:, S0].mean(0) - c.right[:, UNIFORM].mean(0) for c in cells]
    best = np.stack([c.right.mean(-1).max(0) for c in cells])  # [networks, weightings]
    return found | {
        "vbsw_minus_uniform": interval([100 * d.mean() for d in between]),
        "vbsw_minus_uniform_over_images": over_images(np.mean(between, 0)),
        "vbsw_minus_uniform_s0_gain": interval(100 * (best[:, S0] - best[:, UNIFORM])),
    }


def tuned(cells: Sequence[Retrained], pairs: Sequence[tuple[int, float]]) -> dict[str, object]:
    """Mean gain where (k, m) is chosen by the other networks, on the half that is not scored."""
    names = [f"k {k}, m {m:g}" for k, m in pairs]
    picks: set[str] = set()

    def gains(i: int) -> np.ndarray:
        def gain(choose: np.ndarray, score: np.ndarray) -> np.ndarray:
            rest = [c.right[:, 1:, choose].mean((0, 2)) for j, c in enumerate(cells) if j != i]
            pick = int(np.mean(rest, 0).argmax())
            picks.add(names[pick])
            accuracy = cells[i].right[..., score].mean((0, 2))
            before = cells[i].before[score].mean()
            return 100 * (accuracy[pick + 1] - np.array([before, accuracy[UNIFORM]]))

        return both_ways(len(cells[i].before), gain)

    found = np.stack([gains(i) for i in range(len(cells))])
    mean = 100 * np.mean([c.right.mean((0, 2)) for c in cells], 0)
    return {
        "tuned_mean_gain": interval(found[:, 0]),
        "tuned_minus_uniform": interval(found[:, 1]),
        "tuned_picks": sorted(picks),
        "accuracy_by_pair": dict(zip(["uniform", *names], mean.round(3).tolist(), strict=True)),
    }


def over_images(difference: Float[np.ndarray, " m"]) -> list[float]:
    """Mean in per cent and its 95 % bootstrap interval over images, paired."""
    found = bootstrap(
        (100 * difference,), np.mean, n_resamples=2000, batch=200, method="percentile", rng=0
    ).confidence_interval
    return [round(float(v), 4) for v in (100 * difference.mean(), found.low, found.high)]


def _chosen(cell: Retrained, j: int) -> float:
    def gain(choose: np.ndarray, score: np.ndarray) -> np.ndarray:
        seed = cell.right[:, j, choose].mean(-1).argmax()
        return 100 * (cell.right[seed, j, score].mean() - cell.before[score].mean())

    return float(both_ways(len(cell.before), gain))
