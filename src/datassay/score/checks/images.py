"""What is wrong with images as images, and properties of them that alone predict the class."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.data.pictures import BLANK, LOOK, Pictures, channels_first
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.score.checks.issue import DataIssue, named_ids

AT_ONCE = 1000  # images
FEWEST = 30  # images that can be judged
PREVALENCE = 0.1  # what more of the images have is no fault (Datalab's)
DARK = 0.32  # all but a hundredth of a dark image's pixels are below it (Datalab's)
BLURRED = -5.0  # modified z-score of sharpness
# Energy of second differences by that of first ones; below it edges are wider than a pixel: a step
# has 2, one blurred by σ pixels 1 / 2σ². Sharper images differ by what they show.
SHARP = 0.25
# Of odd size: interquartile ranges that the log side is off; shorter by longer side, to the usual.
ODD_RANGES, ODD_SHAPE = 3.0, 0.35
BINS = 10
SPURIOUS = 0.7  # part of the way from chance to certainty (Datalab's 1 − 0.3)
ENDS = ("darkest pixels", "brightest pixels")  # columns of the 1st and the 99th percentile
TINY = 1e-9


def image_properties(samples: SampleSet) -> pa.Table | None:
    """Measure brightness, contrast, sharpness and colour of images, and sizes where they differ.

    Args:
        samples: n samples.

    Returns:
        A row per image, of pixels from 0 to 1 reduced to 64 a side: mean, standard deviation, log
        of the energy of second differences by that of first ones, mean difference between channels,
        the 1st and 99th percentiles of the pixels; None: the samples are no images.

    Cost: files are opened once, JPEGs at a fraction of their size; a sort of the pixels.
    """
    if not (parts := [_measure_images(batch) for batch in picture_pixels(samples)]):
        return None
    names = ("brightness", "contrast", "sharpness", "colour", *ENDS)
    columns = dict(zip(names, np.concatenate(parts).astype(float).T, strict=True))
    if isinstance(samples.images, Pictures):
        sizes = [(size.height, size.width) for size in samples.images.sizes]
        if len(set(sizes)) > 1:
            columns |= dict(zip(("height", "width"), np.array(sizes, float).T, strict=True))
    return pa.table(columns)


def picture_pixels(samples: SampleSet) -> Iterator[Float[np.ndarray, "b c h w"]]:
    """Yield batches of images with values in 0..1; files are reduced to 64 pixels a side."""
    if samples.kind != "image":
        return
    if isinstance(samples.images, Pictures):
        yield from (thumbnail[None] for thumbnail in samples.images.thumbnails(LOOK))
        return
    x = np.asarray(coalesce(samples.images, samples.x))
    if channels_first(x.shape[1:]) is None or not x.size:
        return
    low = min(0.0, float(x.min()))
    high = max(1.0, float(x.max()))
    for start in range(0, len(x), AT_ONCE):
        batch = (x[start : start + AT_ONCE].astype(np.float32) - low) / (high - low)
        if batch.ndim == 3:
            batch = batch[:, None]
        yield batch if batch.shape[1] in {1, 3} else np.moveaxis(batch, -1, 1)


def _measure_images(pixels: Float[np.ndarray, "b c h w"]) -> Float[np.ndarray, "b 6"]:
    """Return each image's six properties, in the order of `image_properties`."""
    b, c, height, width = pixels.shape
    step = max(1, max(height, width) // LOOK)
    if step > 1 and min(height, width) >= step:  # reduce: means of step × step pixels
        rows = height // step
        columns = width // step
        trimmed = pixels[..., : rows * step, : columns * step]
        pixels = trimmed.reshape(b, c, rows, step, columns, step).mean((3, 5))
    grey = pixels.mean(1)
    flat = grey.reshape(b, -1)
    first_energy, second_energy = (
        sum((np.diff(grey, order, axis) ** 2).sum((1, 2)) for axis in (1, 2)) for order in (1, 2)
    )
    sharpness = np.log(np.maximum(second_energy, TINY) / np.maximum(first_energy, TINY))
    colour = (pixels.max(1) - pixels.min(1)).mean((1, 2))
    positions = [round(share * (flat.shape[1] - 1)) for share in (0.01, 0.99)]
    percentiles = np.partition(flat, positions, axis=1)[:, positions].T
    return np.stack([flat.mean(1), flat.std(1), sharpness, colour, *percentiles], 1)


def image_issues(train: SampleSet, properties: pa.Table | None) -> list[DataIssue]:
    """Return issues on images that are near-blank, dark, light, blurred or of odd size.

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
    values = {name: properties[name].to_numpy() for name in properties.column_names}
    darkest, brightest = (values[name] for name in ENDS)
    is_blank = values["contrast"] < BLANK
    is_dark = ~is_blank & (brightest < DARK)
    is_light = ~is_blank & (darkest > 1 - DARK)
    deviation = values["sharpness"] - np.median(values["sharpness"])
    is_blurred = deviation < BLURRED * max(1.4826 * float(np.median(np.abs(deviation))), TINY)
    is_blurred &= values["sharpness"] < np.log(SHARP)
    faults = {
        "near-blank images": (is_blank, "All pixels are nearly equal"),
        "dark images": (is_dark, "Nearly all pixels are in the darkest third"),
        "light images": (is_light, "Nearly all pixels are in the brightest third"),
        "blurred images": (is_blurred & ~is_blank, "Far less sharp than the others"),
    }
    if "width" in values:
        log_side = np.log(values["width"] * values["height"]) / 2
        log_shape = np.log(values["width"] / values["height"])
        low, high = np.quantile(log_side, [0.25, 0.75])
        margin = ODD_RANGES * (high - low) + TINY
        is_odd = (log_side < low - margin) | (log_side > high + margin)
        is_odd |= np.abs(log_shape - np.median(log_shape)) >= -np.log(ODD_SHAPE)
        faults["images of odd size"] = is_odd, "Of another size or shape than most"
    return _find_spurious(train, values) + [
        DataIssue(kind, "look", int(mask.sum()), "images", f"{text}: {named_ids(train.ids[mask])}.")
        for kind, (mask, text) in faults.items()
        if 0 < mask.sum() <= PREVALENCE * len(train)
    ]


def _find_spurious(train: SampleSet, values: dict[str, Float[np.ndarray, " n"]]) -> list[DataIssue]:
    """Return an issue on image properties that alone predict the class; [] without any."""
    if not train.is_classification or len(np.unique(train.y)) < 2:
        return []
    classes = np.unique(train.y, return_inverse=True)[1]
    chance = 1 / (classes.max() + 1)
    accuracies = [(alone_accuracy(column, classes), name) for name, column in values.items()]
    threshold = chance + SPURIOUS * (1 - chance)
    telling = sorted([pair for pair in accuracies if pair[0] >= threshold], reverse=True)
    names = ", ".join(f"{name} ({100 * accuracy:.0f} %)" for accuracy, name in telling)
    text = f"One property alone tells the class: {names}; {100 * chance:.0f} % by chance, classes "
    text += "weighed alike. A model may learn that instead of what is shown."
    issue = DataIssue("spurious properties", "look", len(telling), "properties", text)
    return [issue] if telling else []


def alone_accuracy(values: Float[np.ndarray, " n"], classes: Int[np.ndarray, " n"]) -> float:
    """Return the balanced leave-one-out accuracy of predicting the class from values' decile."""
    edges = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
    bins = np.searchsorted(edges, values)
    class_sizes = np.bincount(classes)
    k = len(class_sizes)
    table = np.bincount(bins * k + classes, minlength=(len(edges) + 1) * k).reshape(-1, k)
    share = table / class_sizes  # of the class in the bin, [bins, k]
    share_without = (table - 1) / np.maximum(class_sizes - 1, 1)  # without one sample of it
    runner_up, largest = np.sort(share, 1)[:, -2:].T[..., None]
    is_right = share_without > np.where(share == largest, runner_up, largest)
    return float((table * is_right / class_sizes).sum() / k)
