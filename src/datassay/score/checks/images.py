"""What is wrong with images as images, and properties of them that alone predict the class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.data.pictures import BLANK, LOOK, Pictures, channels_first
from datassay.data.samples import SampleSet
from datassay.score.checks.issue import DataIssue, named_ids

AT_ONCE = 1000  # images
FEWEST, PREVALENCE = 30, 0.1  # images; what more of them have is how they are (Datalab's bound)
DARK = 0.32  # all but a hundredth of the pixels are darker (Datalab's); of light ones, lighter
BLURRED = -5.0  # modified z-score of sharpness
# Energy of second differences by that of first ones, below which edges are wider than a pixel: a
# step has 2, one blurred by σ pixels 1 / 2σ². Where all have steps, some differ for what they show.
SHARP = 0.25
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
    if not (parts := [_measured(some) for some in picture_pixels(samples)]):
        return None
    names = ("brightness", "contrast", "sharpness", "colour", *ENDS)
    columns = dict(zip(names, np.concatenate(parts).astype(float).T, strict=True))
    if isinstance(samples.images, Pictures):
        sizes = [(size.height, size.width) for size in samples.images.sizes]
        if len(set(sizes)) > 1:
            columns |= dict(zip(("height", "width"), np.array(sizes, float).T, strict=True))
    return pa.table(columns)


def picture_pixels(samples: SampleSet) -> Iterator[Float[np.ndarray, "b c h w"]]:
    """Yield images of 0 to 1, files reduced to 64 pixels a side; nothing of what is none."""
    if samples.kind != "image":
        return
    if isinstance(samples.images, Pictures):
        yield from (one[None] for one in samples.images.thumbnails(LOOK))
        return
    x = np.asarray(samples.x if samples.images is None else samples.images)
    if channels_first(x.shape[1:]) is None or not x.size:
        return
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    for start in range(0, len(x), AT_ONCE):
        some = (x[start : start + AT_ONCE].astype(np.float32) - low) / (high - low)
        some = some[:, None] if some.ndim == 3 else some
        yield some if some.shape[1] in {1, 3} else np.moveaxis(some, -1, 1)


def _measured(pixels: Float[np.ndarray, "b c h w"]) -> Float[np.ndarray, "b 6"]:
    b, c, height, width = pixels.shape
    step = max(1, max(height, width) // LOOK)
    if step > 1 and min(height, width) >= step:  # means of squares
        cut = pixels[..., : height // step * step, : width // step * step]
        pixels = cut.reshape(b, c, height // step, step, width // step, step).mean((3, 5))
    grey = pixels.mean(1)
    flat = grey.reshape(b, -1)
    first, second = (
        sum((np.diff(grey, order, axis) ** 2).sum((1, 2)) for axis in (1, 2)) for order in (1, 2)
    )
    sharpness = np.log(np.maximum(second, 1e-9) / np.maximum(first, 1e-9))
    colour = (pixels.max(1) - pixels.min(1)).mean((1, 2))
    ends = [round(share * (flat.shape[1] - 1)) for share in (0.01, 0.99)]
    ends = np.partition(flat, ends, axis=1)[:, ends].T
    return np.stack([flat.mean(1), flat.std(1), sharpness, colour, *ends], 1)


def image_issues(train: SampleSet, properties: pa.Table | None) -> list[DataIssue]:
    """Images that are near-blank, dark, light, blurred or of odd size.

    Args:
        train: n samples.
        properties: of them, from `image_properties`.

    Returns:
        An issue for each fault that at most a tenth of the images have, and one where a property
        alone predicts the class: more are how the images are.

    Source: faults and bounds of cleanvision, as Datalab sets them. Deviates: blur by differences
    against other images, light by the darkest hundredth, near-blank by deviation, not entropy.
    """
    if properties is None or len(train) < FEWEST:
        return []
    of = {name: properties[name].to_numpy() for name in properties.column_names}
    blank = of["contrast"] < BLANK
    dark, light = (~blank & m for m in (of[ENDS[1]] < DARK, of[ENDS[0]] > 1 - DARK))
    away = of["sharpness"] - np.median(of["sharpness"])
    blurred = away < BLURRED * max(1.4826 * float(np.median(np.abs(away))), 1e-9)
    blurred &= of["sharpness"] < np.log(SHARP)
    faults = {
        "near-blank images": (blank, "All pixels are nearly equal"),
        "dark images": (dark, "Nearly all pixels are in the darkest third"),
        "light images": (light, "Nearly all pixels are in the brightest third"),
        "blurred images": (blurred & ~blank, "Far less sharp than the others"),
    }
    if "width" in of:
        side, shape = np.log(of["width"] * of["height"]) / 2, np.log(of["width"] / of["height"])
        low, high = np.quantile(side, [0.25, 0.75])
        margin = ODD_RANGES * (high - low) + 1e-9
        odd = (side < low - margin) | (side > high + margin)
        odd |= np.abs(shape - np.median(shape)) >= -np.log(ODD_SHAPE)
        faults["images of odd size"] = odd, "Of another size or shape than most"
    return _spurious(train, of) + [
        DataIssue(kind, "look", int(m.sum()), "images", f"{text}: {named_ids(train.ids[m])}.")
        for kind, (m, text) in faults.items()
        if 0 < m.sum() <= PREVALENCE * len(train)
    ]


def _spurious(train: SampleSet, of: dict[str, Float[np.ndarray, " n"]]) -> list[DataIssue]:
    """Properties by which the class is predicted far better than by chance."""
    if not train.is_classification or len(np.unique(train.y)) < 2:
        return []
    classes = np.unique(train.y, return_inverse=True)[1]
    chance = 1 / (classes.max() + 1)
    alone = [(alone_accuracy(values, classes), name) for name, values in of.items()]
    alone = sorted([a for a in alone if a[0] >= chance + SPURIOUS * (1 - chance)], reverse=True)
    named = ", ".join(f"{name} ({100 * share:.0f} %)" for share, name in alone)
    text = f"One property alone tells the class: {named}; {100 * chance:.0f} % by chance, classes "
    text += "weighed alike. A model may learn that instead of what is shown."
    issue = DataIssue("spurious properties", "look", len(alone), "properties", text)
    return [issue] * bool(alone)


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
