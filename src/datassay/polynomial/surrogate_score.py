"""How good a surrogate is, sample by sample, beside simpler ones; and how it bears corruption."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from datassay.data.corruption import add_noise, add_patches
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent

Outputs = Callable[[np.ndarray], np.ndarray]
SIGMAS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
AREAS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25)  # shares of the image
STEP = "corrupt validation images"


def score_each(outputs: Float[np.ndarray, "m q"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """What each sample adds to the score: the mean is the accuracy, or R².

    Args:
        outputs: one a class or target.
        samples: m samples with their labels or targets.

    Returns:
        [m], for classes 1 where the largest output is that of the label, else 0; for targets 1
        minus squared error over the targets' variance here, the mean over targets (one that never
        varies here is left out). An R² of a single sample has no meaning, only their mean.
    """
    if samples.is_classification:
        return (outputs.argmax(axis=1) == samples.y).astype(float)
    y = samples.y.reshape(len(samples), -1)
    variance = y.var(axis=0)
    varies = variance > 0
    if not varies.any():
        return np.zeros(len(y))
    error = (y - outputs)[:, varies] ** 2
    return (1 - error / variance[varies]).mean(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateScores:
    """Models from simple to ours, on the same validation samples.

    Attributes:
        names: of the r models, ours last.
        each: [r, m], see `score_each`.
        train: [r], mean score of some training samples.
        n_train: how many these are.
        n_features: of each model, its constant included.
        metric: "accuracy" or "R²".
    """

    names: tuple[str, ...]
    each: Float[np.ndarray, "r m"]
    train: Float[np.ndarray, " r"]
    n_train: int
    n_features: tuple[int, ...]
    metric: str

    def difference(self, other: int) -> tuple[float, float]:
        """By how much ours scores above another, paired over samples.

        Args:
            other: which model.

        Returns:
            Mean, and half the width of its normal 95 % interval; infinite for one sample.
        """
        change = self.each[-1] - self.each[other]
        m = len(change)
        half = 1.96 * float(change.std(ddof=1)) / math.sqrt(m) if m > 1 else math.inf
        return float(change.mean()), half


@dataclass(frozen=True, slots=True, eq=False)
class Robustness:
    """Scores of corrupted validation images.

    Attributes:
        names: of the r models, ours last.
        sigma: [s], standard deviation of noise on every pixel, unit of x.
        area: [a], pixels under a black patch.
        noise_score: [r, s].
        patch_score: [r, a].
        n_samples: how many images.
        metric: "accuracy" or "R²".
    """

    names: tuple[str, ...]
    sigma: Float[np.ndarray, " s"]
    area: Float[np.ndarray, " a"]
    noise_score: Float[np.ndarray, "r s"]
    patch_score: Float[np.ndarray, "r a"]
    n_samples: int
    metric: str

    def relative_drop(self, score: Float[np.ndarray, "r t"]) -> Float[np.ndarray, "r t"]:
        """The share of the score on clean images that is lost.

        Args:
            score: `noise_score` or `patch_score`.

        Returns:
            (A(0) − A(level)) / A(0); NaN where A(0) is not positive.

        Source: S3 §3.6.2.
        """
        clean = np.where(score[:, :1] > 0, score[:, :1], np.nan)
        return (clean - score) / clean


def robustness(
    models: Mapping[str, Outputs],
    samples: SampleSet,
    *,
    sigmas: Sequence[float] = SIGMAS,
    areas: Sequence[float] = AREAS,
    seed: int = 0,
    progress: Progress = silent,
) -> Robustness:
    """Scores of images under growing noise and growing black patches.

    Args:
        models: name → outputs of [m, ...] images.
        samples: images with values in [0, 1].
        sigmas: of the noise; the images are truncated to [0, 1] again.
        areas: of the patches, shares of the image.
        seed: of noise and places; all levels share the draw.
        progress: called after each level.

    Returns:
        The scores, model by model.

    Raises:
        DataError: the samples are no images, or leave [0, 1].

    Cost: one pass of each model a level.
    Source: S3 §3.6.2, Figs 3.23 and 3.24.
    """
    x = samples.x if samples.x.dtype == np.float64 else samples.x.astype(np.float32)
    pixels = np.round(np.array(areas) * x.shape[-1] * x.shape[-2])
    levels = [*((add_noise, s) for s in sigmas), *((add_patches, a) for a in pixels)]
    scores = []
    for done, (corrupted, level) in enumerate(levels, 1):
        spoilt = corrupted(x, float(level), seed=seed)
        scores.append([float(score_each(f(spoilt), samples).mean()) for f in models.values()])
        progress(STEP, done, len(levels))
    found = np.array(scores).T
    s = len(sigmas)
    metric = "accuracy" if samples.is_classification else "R²"
    return Robustness(
        tuple(models), np.array(sigmas), pixels, found[:, :s], found[:, s:], len(x), metric
    )


def is_corruptible(samples: SampleSet) -> bool:
    """Whether noise and patches have a meaning: images with values in [0, 1].

    Args:
        samples: any.

    Returns:
        True or False.
    """
    x: Shaped[np.ndarray, "..."] = samples.x
    return samples.kind == "image" and x.ndim >= 3 and 0 <= float(x.min()) <= float(x.max()) <= 1
