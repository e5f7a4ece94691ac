"""How much accuracy models lose on corrupted images, level by level (S3 §3.6.2)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.data.corrupt.images import add_noise, add_patches
from datassay.errors import ModelError, SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import one_of, require

STEP = "corrupt and predict"
# The text of S3 names σ = 0.3 and A = 55 and 100; both ranges end well beyond.
SIGMAS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
AREAS = (0.0, 10.0, 25.0, 40.0, 55.0, 70.0, 85.0, 100.0, 125.0, 150.0, 175.0, 200.0)
Z_95 = 1.959964
Predictor = Callable[[np.ndarray], Any]


@result
class Robustness(Tabular):
    """Hits of each model at each level of a corruption.

    Attributes:
        corruption: "noise", whose levels are σ in the unit of x, or "patches", whose levels are
            areas in pixels.
        names: of the m models.
        levels: [l], ascending; the first is 0, the images as they are.
        hits: [m, l, n], share of a sample's corrupted copies that a model labels correctly.
    """

    corruption: str
    names: tuple[str, ...]
    levels: Float[np.ndarray, " l"]
    hits: Float[np.ndarray, "m l n"]

    @property
    def accuracy(self) -> Float[np.ndarray, "m l"]:
        """[m, l], in [0, 1], A of S3."""
        return self.hits.mean(axis=2)

    @property
    def accuracy_half_width(self) -> Float[np.ndarray, "m l"]:
        """[m, l], half the 95 % interval over samples and their corruptions."""
        return _half_width(self.hits)

    @property
    def drop(self) -> Float[np.ndarray, "m l"]:
        """[m, l], (A(0) − A(level)) / A(0); 0 is robust, 1 has nothing right.

        The text of S3 §3.6.2 defines this and calls it negative; its figures show −drop, since
        there the higher curve is the better one.
        """
        accuracy = self.accuracy
        return 1 - accuracy / accuracy[:, :1]

    @property
    def drop_half_width(self) -> Float[np.ndarray, "m l"]:
        """[m, l], half the 95 % interval over samples and their corruptions."""
        # Each sample's part in the drop, to first order: the delta method for a ratio.
        clean = self.hits[:, :1]
        parts = (1 - self.drop[..., None]) * clean - self.hits
        return _half_width(parts / clean.mean(2, keepdims=True))

    def to_table(self) -> pa.Table:
        """Return a table with one row per model and level."""
        m, n_levels = self.accuracy.shape
        return pa.table({
            "model": np.repeat(np.array(self.names), n_levels),
            "corruption": np.repeat(np.array([self.corruption]), m * n_levels),
            "level": np.tile(self.levels, m),
            "accuracy": self.accuracy.ravel(),
            "accuracy_half_width": self.accuracy_half_width.ravel(),
            "drop": self.drop.ravel(),
            "drop_half_width": self.drop_half_width.ravel(),
        })


def robustness(
    predictors: Mapping[str, Predictor],
    x: np.ndarray,
    y: np.ndarray,
    *,
    corruption: str = "noise",
    levels: Sequence[float] | None = None,
    draws: int = 3,
    image_shape: Sequence[int] | None = None,
    limits: tuple[float, float] | None = (0.0, 1.0),
    seed: int = 0,
    progress: Progress = silent,
) -> Robustness:
    """Measure the accuracy on corrupted images of models trained on clean ones.

    Args:
        predictors: name → model, a function from images like x to labels [n].
        x: test images, [n, rows, columns], [n, channels, rows, columns] or rows of pixels [n, d].
        y: [n], their labels.
        corruption: "noise": `add_noise`, levels are σ; "patches": `add_patches`, levels are areas.
        levels: at least 0, in any order; 0 is added. None: SIGMAS or AREAS.
        draws: corrupted copies of each image at each level.
        image_shape: rows, columns, for patches on images given as rows of pixels.
        limits: between which noisy values are truncated.
        seed: of the corruptions, the same for every model and level.
        progress: called with (step, levels · draws done, levels · draws in all).

    Returns:
        Hits of each model; every model sees the same corrupted images.

    Raises:
        SettingError: no model, an unknown corruption, a negative level, or draws below 1.
        DataError: the images do not suit the corruption.
        ModelError: a model's labels are not one per sample, or none of them is right on the images
            as they are, so that no relative drop exists.

    Cost: 1 + levels · draws predictions of all images by each model.
    Source: S3 §3.6.2, Figs 3.23 and 3.24. Beyond it: several copies of each image, intervals.
    """
    one_of("corruption", corruption, ["noise", "patches"])
    corrupt = partial(add_patches, image_shape=image_shape)
    if corruption == "noise":
        corrupt = partial(add_noise, limits=limits)
    if not predictors or draws < 1:
        raise SettingError(
            f"robustness needs at least 1 predictor and 1 draw; got {len(predictors)} and {draws}."
        )
    if levels is None:
        levels = AREAS
        if corruption == "noise":
            levels = SIGMAS
    all_levels = np.unique([0.0, *levels])
    require(all_levels[0] == 0, "levels", "be at least 0", list(levels))
    hits = np.zeros((len(predictors), len(all_levels), len(y)))
    for row, (name, predictor) in enumerate(predictors.items()):
        hits[row, 0] = _mark_hits(name, predictor, x, y)
        if not hits[row, 0].any():
            raise ModelError(
                f"{name} must get some of the clean samples right so that a relative drop exists; "
                f"got 0 of {len(y)}. Check its labels against y."
            )
    seeds = np.random.SeedSequence(seed).generate_state(draws)
    jobs = product(range(1, len(all_levels)), seeds)
    for n_done, (level_idx, draw_seed) in enumerate(jobs, start=1):
        corrupted = corrupt(x, float(all_levels[level_idx]), seed=int(draw_seed))
        for row, (name, predictor) in enumerate(predictors.items()):
            hits[row, level_idx] += _mark_hits(name, predictor, corrupted, y) / draws
        progress(STEP, n_done, (len(all_levels) - 1) * draws)
    return Robustness(corruption, tuple(predictors), all_levels, hits)


def _mark_hits(name: str, predictor: Predictor, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask of correctly labelled samples; raise unless each gets a label."""
    labels = np.asarray(predictor(x))
    if labels.shape != y.shape:
        raise ModelError(
            f"{name} must give one label per sample, {list(y.shape)}; got {list(labels.shape)}. "
            "Pass a function that returns labels, such as an estimator's predict."
        )
    return labels == y


def _half_width(values: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "..."]:
    """Return half the 95 % interval of the mean over the last axis."""
    return Z_95 * values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
