"""Corrupted images on purpose: noise on every pixel, or one black patch; how robust is a model?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from datassay import rules
from datassay.data.settings import check_seed
from datassay.errors import DataError

# S3 draws a patch's middle among rows and columns 6 to 22 of 28.
FIRST_MIDDLE, LAST_MIDDLE = 6 / 28, 22 / 28


def add_noise(
    x: Any, sigma: float, *, limits: tuple[float, float] | None = (0.0, 1.0), seed: int = 0
) -> Float[np.ndarray, "n ..."]:
    """Add Gaussian noise to every value, truncated to the range of grey values.

    x′ = min(max(x + σ ε, low), high),  ε ~ N(0, 1) independent

    Args:
        x: images or rows of floating point numbers, [n, ...].
        sigma: σ, unit of x, at least 0.
        limits: (low, high), between which x lies and x′ is truncated; None: no truncation.
        seed: of ε, which is the same for every sigma: curves over sigma are paired.

    Returns:
        [n, ...], dtype of x. Truncation makes the change of black and white pixels half as
        frequent and its mean σ/√(2π) inwards instead of 0.

    Raises:
        DataError: x is no array of finite floating point numbers or leaves the limits, or a
            setting is outside its rule.

    Cost: one normal draw a value.
    Source: S3 §3.6.2, global noise. Deviates nowhere.
    """
    images = _check_images(x)
    rules.at_least("sigma", sigma, 0, finite=True, error=DataError)
    check_seed(seed)
    if limits is not None:
        low, high = limits
        rules.require(
            low < high, "limits", "be (low, high) with low < high", limits, error=DataError
        )
        if images.size and not low <= images.min() <= images.max() <= high:
            raise DataError(
                f"x must lie within the limits {low} to {high} before it is corrupted; got "
                f"{images.min():.4g} to {images.max():.4g}. Scale it, or give its own limits."
            )
    # In the images' own precision: float64 noise would double the memory of 60 000 images.
    noise = np.random.default_rng(seed).standard_normal(images.shape, dtype=images.dtype)
    noise *= images.dtype.type(sigma)
    noise += images
    if limits is None:
        return noise
    return np.clip(noise, *limits, out=noise)


def add_patches(
    x: Any,
    area: float,
    *,
    image_shape: Sequence[int] | None = None,
    value: float = 0.0,
    seed: int = 0,
) -> Float[np.ndarray, "n ..."]:
    """Draw one rectangle of a single value into every image, near its middle.

    Args:
        x: images [n, ..., rows, columns] of floating point numbers, or rows of pixels [n, d].
        area: A, pixels that a patch covers before rounding and clipping, at least 0.
        image_shape: rows, columns of images that are given as rows of pixels; None for others.
        value: of the covered pixels in every channel; 0 is black.
        seed: of the positions and aspect ratios, which are the same for every area.

    Returns:
        Shape and dtype of x; `patch_boxes` says which pixels are covered.

    Raises:
        DataError: x is no array of finite images, or a setting is outside its rule.

    Cost: one copy of x.
    Source: S3 §3.6.2, local noise; positions as in `patch_boxes`.
    """
    images = _check_images(x)
    rows, columns = _find_image_shape(images, image_shape)
    boxes = patch_boxes(len(images), (rows, columns), area, seed=seed)
    patched = images.copy()
    as_images = patched.reshape(len(images), -1, rows, columns)  # a view: the copy is contiguous
    for image, (first_row, first_column, height, width) in zip(as_images, boxes, strict=True):
        image[:, first_row : first_row + height, first_column : first_column + width] = value
    return patched


def patch_boxes(
    n: int, image_shape: Sequence[int], area: float, *, seed: int = 0
) -> Int[np.ndarray, "n 4"]:
    """Return where the patches of `add_patches` lie.

    D ~ U(½, 2),  width = ⌊D √A⌋,  height = ⌊√A / D⌋,  middle row and column uniform on 6..22 of 28

    Args:
        n: images.
        image_shape: rows, columns.
        area: A, pixels, at least 0 and at most all.
        seed: of the draw.

    Returns:
        Of each patch the top row, left column, height and width, from 0, clipped to the image; a
        height or width of 0 is no patch. Patches of an even side reach one pixel further up or
        left of their middle. Their mean area is below A: both sides are rounded down, and large
        ones are cut at the border.

    Raises:
        DataError: a setting is outside its rule.

    Source: S3 §3.6.2. It leaves open whether 6..22 counts from 0 or 1 (here from 0: their mean is
    half a pixel below and right of the middle; from 1, half a pixel above and left) and other
    sizes (here the same shares of rows and columns, rounded to pixels). D is uniform, as printed,
    so that patches are wider than tall on average.
    """
    _check_image_shape(image_shape)
    pixels = int(np.prod(image_shape))
    rules.at_least("area", area, 0, finite=True, error=DataError)
    rule = f"be at most the image's {pixels} pixels"
    rules.require(
        area <= pixels, "area", rule, area, remedy="Give an area in pixels.", error=DataError
    )
    check_seed(seed)
    rng = np.random.default_rng(seed)
    middle_ranges = [
        (round(FIRST_MIDDLE * length), min(round(LAST_MIDDLE * length), length - 1))
        for length in image_shape
    ]
    middles = [rng.integers(low, high + 1, n) for low, high in middle_ranges]
    aspect = rng.uniform(0.5, 2, n)
    root = np.sqrt(area)
    height_width = np.stack([root / aspect, root * aspect], axis=1).astype(np.int64)  # rounds down
    start = np.stack(middles, axis=1) - height_width // 2  # [n, 2]
    end = np.minimum(start + height_width, np.asarray(image_shape))
    start = np.maximum(start, 0)
    return np.concatenate([start, np.maximum(end - start, 0)], axis=1)


def _check_images(x: Any) -> np.ndarray:
    """Return x as an array; raise if it is not of images or rows of finite floats."""
    images = np.asarray(x)
    if images.ndim < 2 or images.dtype not in (np.float32, np.float64):
        raise DataError(
            "x must be images or rows of pixels, [n, ...], of float32 or float64; got "
            f"{images.dtype} in shape {list(images.shape)}. Divide bytes by 255."
        )
    rules.finite("x", images, remedy="Remove them.", error=DataError)
    return images


def _find_image_shape(images: np.ndarray, image_shape: Sequence[int] | None) -> tuple[int, int]:
    """Return the height and width of images; raise if `image_shape` contradicts them."""
    if images.ndim > 2:
        if image_shape is not None and tuple(image_shape) != images.shape[-2:]:
            raise DataError(
                f"image_shape must be {images.shape[-2:]}, the last two axes of x; got "
                f"{tuple(image_shape)}. Leave it out for images."
            )
        return images.shape[-2], images.shape[-1]
    if image_shape is None:
        raise DataError(
            "image_shape must say the rows and columns of images given as rows of pixels; got "
            f"None for x of shape {list(images.shape)}."
        )
    _check_image_shape(image_shape)
    if int(np.prod(image_shape)) != images.shape[1]:
        raise DataError(
            f"image_shape must hold the {images.shape[1]} pixels of each row; got "
            f"{tuple(image_shape)}, {int(np.prod(image_shape))} pixels."
        )
    return int(image_shape[0]), int(image_shape[1])


def _check_image_shape(image_shape: Sequence[int]) -> None:
    if len(image_shape) != 2 or min(image_shape) < 1:
        raise DataError(
            f"image_shape must be rows, columns, each at least 1; got {tuple(image_shape)}."
        )
