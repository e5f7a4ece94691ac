"""What is wrong with images as images, and properties of them that alone predict the class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.data.pictures import Pictures, channels_first
from datassay.data.samples import SampleSet
from datassay.score.checks.issue import DataIssue, named_ids

SIDE = 64  # pixels to which images are reduced (cleanvision's for blur)
AT_ONCE = 1000
FEWEST = 30
PREVALENCE = 0.1  # what more of the images have is how they are (Datalab's bound)
DARK = 0.32  # all but a hundredth of the pixels are darker (Datalab's); of light ones, lighter
BLANK = 0.02  # standard deviation of the pixels
BLURRED = -5.0  # modified z-score of the sharpness
COLOURLESS = 0.004  # mean difference between channels: one of 255 levels
ODD_RANGES, ODD_SHAPE = 3.0, 0.35  # interquartile ranges of the side; shorter by longer side
BINS, SPURIOUS = 10, 0.7  # of the way from chance to certainty (Datalab's 1 − 0.3)
ENDS = "darkest pixels", "brightest pixels"


def image_properties(samples: SampleSet) -> pa.Table | None:
    """Brightness, contrast, sharpness and colour of each image, and its size where sizes differ.

    Args:
        samples: n samples.

    Returns:
        A row per image, of pixels from 0 to 1 reduced to 64 a side: mean, standard deviation, log
        of the energy of second differences by that of first ones, mean difference between channels,
        both hundredths of the pixels' order; None of what is no image.

    Cost: files are opened once, JPEGs at a fraction of their size; a sort of the pixels.
    """
    parts = [_measured(some) for some in _pixels(samples)]
    if not parts:
        return None
    names = ("brightness", "contrast", "sharpness", "colour", *ENDS)
    columns = dict(zip(names, np.concatenate(parts).astype(float).T, strict=True))
    if isinstance(samples.images, Pictures):
        sizes = [(size.height, size.width) for size in samples.images.sizes]
        if len(set(sizes)) > 1:
            columns |= dict(zip(("height", "width"), np.array(sizes, float).T, strict=True))
    return pa.table(columns)


def _pixels(samples: SampleSet) -> Iterator[Float[np.ndarray, "b c h w"]]:
    if samples.kind != "image":
        return
    if isinstance(samples.images, Pictures):
        yield from (one[None] for one in samples.images.thumbnails(SIDE))
        return
    x = np.asarray(samples.x if samples.images is None else samples.images)
    if channels_first(x.shape[1:]) is None or not x.size:
        return
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    for start in range(0, len(x), AT_ONCE):
        some = (x[start : start + AT_ONCE].astype(np.float32) - low) / (high - low)
        if some.ndim == 3:
            some = some[:, None]
        yield some if some.shape[1] in {1, 3} else np.moveaxis(some, -1, 1)


def _measured(pixels: Float[np.ndarray, "b c h w"]) -> Float[np.ndarray, "b 6"]:
    b, c, height, width = pixels.shape
    step = max(1, max(height, width) // SIDE)
    if step > 1 and min(height, width) >= step:  # means of squares
        cut = pixels[..., : height // step * step, : width // step * step]
        pixels = cut.reshape(b, c, height // step, step, width // step, step).mean((3, 5))
    grey = pixels.mean(1)
    flat = grey.reshape(b, -1)
    energy = [
        sum((np.diff(grey, order, axis) ** 2).sum((1, 2)) for axis in (1, 2)) for order in (1, 2)
    ]
    sharpness = np.log(np.maximum(energy[1], 1e-9) / np.maximum(energy[0], 1e-9))
    colour = (pixels.max(1) - pixels.min(1)).mean((1, 2))
    ends = [round(share * (flat.shape[1] - 1)) for share in (0.01, 0.99)]
    ends = np.partition(flat, ends, axis=1)[:, ends].T
    return np.stack([flat.mean(1), flat.std(1), sharpness, colour, *ends], 1)


def image_issues(train: SampleSet, properties: pa.Table | None) -> list[DataIssue]:
    """Images that are near-blank, dark, light, blurred, grey among coloured or of odd size.

    Args:
        train: n samples.
        properties: of them, from `image_properties`.

    Returns:
        An issue for each fault that at most a tenth of the images have, and one where a property
        alone predicts the class: more are how the images are.

    Source: the faults and bounds of cleanvision, as cleanlab's Datalab sets them. Deviates: blur is
    judged by the ratio of differences against that of the other images, light ones by the darkest
    hundredth, near-blank ones by their deviation instead of entropy.
    """
    if properties is None or len(train) < FEWEST:
        return []
    of = {name: properties[name].to_numpy() for name in properties.column_names}
    blank = of["contrast"] < BLANK
    dark, light = (~blank & m for m in (of[ENDS[1]] < DARK, of[ENDS[0]] > 1 - DARK))
    away = of["sharpness"] - np.median(of["sharpness"])
    blurred = away < BLURRED * max(1.4826 * float(np.median(np.abs(away))), 1e-9)
    faults = (
        ("near-blank images", blank, "All pixels are nearly equal"),
        ("dark images", dark, "Nearly all pixels are in the darkest third"),
        ("light images", light, "Nearly all pixels are in the brightest third"),
        ("blurred images", blurred & ~blank, "Far less sharp than the others"),
        (
            "greyscale images",
            ~(blank | dark | light) & (of["colour"] < COLOURLESS),
            "Without colour, unlike others",
        ),
        ("images of odd size", _odd(of), "Of another size or shape than most"),
    )
    issues = _spurious(train, of)
    for kind, which, text in faults:
        if 0 < which.sum() <= PREVALENCE * len(train):
            text = f"{text}: {named_ids(train.ids[which])}."
            issues.append(DataIssue(kind, "look", int(which.sum()), "images", text))
    return issues


def _odd(of: dict[str, Float[np.ndarray, " n"]]) -> Bool[np.ndarray, " n"]:
    if "width" not in of:
        return np.zeros(len(of["contrast"]), bool)
    side, shape = np.log(of["width"] * of["height"]) / 2, np.log(of["width"] / of["height"])
    low, high = np.quantile(side, [0.25, 0.75])
    margin = ODD_RANGES * (high - low) + 1e-9
    usual = np.abs(shape - np.median(shape)) < -np.log(ODD_SHAPE)
    return (side < low - margin) | (side > high + margin) | ~usual


def _spurious(train: SampleSet, of: dict[str, Float[np.ndarray, " n"]]) -> list[DataIssue]:
    """Properties by which the class is predicted far better than by chance."""
    if not train.is_classification or len(np.unique(train.y)) < 2:
        return []
    classes = np.unique(train.y, return_inverse=True)[1]
    k = int(classes.max()) + 1
    accuracy = {name: alone_accuracy(values, classes) for name, values in of.items()}
    names = [n for n, share in accuracy.items() if share - 1 / k >= SPURIOUS * (1 - 1 / k)]
    if not names:
        return []
    names.sort(key=lambda name: -accuracy[name])
    named = named_ids(np.array([f"{name} ({100 * accuracy[name]:.0f} %)" for name in names]))
    text = f"One property alone tells the class: {named}; {100 / k:.0f} % by chance, classes "
    text += "weighed alike. A model may learn that instead of what is shown."
    return [DataIssue("spurious properties", "look", len(names), "properties", text)]


def alone_accuracy(values: Float[np.ndarray, " n"], classes: Int[np.ndarray, " n"]) -> float:
    """Balanced accuracy of the likeliest class within tenths of a property, each image left out."""
    edges = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
    bins, size = np.searchsorted(edges, values), np.bincount(classes)
    k = len(size)
    table = np.bincount(bins * k + classes, minlength=(len(edges) + 1) * k).reshape(-1, k)
    share, left = table / size, (table - 1) / np.maximum(size - 1, 1)
    second, first = np.sort(share, 1)[:, -2:].T[..., None]
    is_right = left > np.where(share == first, second, first)
    return float((table * is_right / size).sum() / k)
