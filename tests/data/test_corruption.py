"""Noise and patches against their definitions in S3 §3.6.2."""

import numpy as np
import pytest
from scipy.stats import norm

from datassay.data.corrupt.images import add_noise, add_patches, patch_boxes
from datassay.errors import DataError


def images(n=4, rows=28, columns=28, value=0.5):
    return np.full((n, rows, columns), value)


def test_noise_has_the_mean_and_deviation_that_truncation_leaves():
    sigma, n = 0.3, 400
    noisy = add_noise(images(n), sigma)
    assert 0 <= noisy.min() and noisy.max() <= 1
    inside = norm.cdf(0.5 / sigma) - norm.cdf(-0.5 / sigma)
    count = noisy.size
    assert ((noisy > 0) & (noisy < 1)).mean() == pytest.approx(inside, abs=4 / count**0.5)
    assert noisy.mean() == pytest.approx(0.5, abs=4 * sigma / count**0.5)
    black = add_noise(images(n, value=0.0), sigma)
    assert black.mean() == pytest.approx(sigma / (2 * np.pi) ** 0.5, abs=4 * sigma / count**0.5)
    free = add_noise(images(n, value=0.0), sigma, limits=None)
    assert free.std() == pytest.approx(sigma, rel=4 / (2 * count) ** 0.5)


def test_units_noise_scales_with_the_images():
    x = np.random.default_rng(0).random((5, 3, 4))
    scaled = add_noise(255 * x, 255 * 0.2, limits=(0, 255), seed=3)
    np.testing.assert_allclose(scaled, 255 * add_noise(x, 0.2, seed=3), rtol=1e-12)


def test_corruptions_are_paired_over_their_levels_and_keep_the_images():
    x = np.random.default_rng(1).random((6, 28, 28)).astype(np.float32)
    before = x.copy()
    small, large = (add_noise(x, s, limits=None) - x for s in (0.1, 0.3))
    np.testing.assert_allclose(large, 3 * small, atol=1e-6)
    assert add_noise(x, 0.1).dtype == np.float32
    np.testing.assert_array_equal(add_noise(x, 0.0), x)
    np.testing.assert_array_equal(add_patches(x, 0), x)
    inner, outer = (patch_boxes(6, (28, 28), a) for a in (30, 90))
    assert (inner[:, :2] >= outer[:, :2]).all()
    assert (inner[:, :2] + inner[:, 2:] <= outer[:, :2] + outer[:, 2:]).all()
    np.testing.assert_array_equal(x, before)


def test_patches_are_the_rectangles_of_the_paper():
    n, area = 20_000, 25
    boxes = patch_boxes(n, (28, 28), area, seed=2)
    # The same draws, the paper's words one by one. Nothing of A = 25 is cut at the border.
    rng = np.random.default_rng(2)
    row, column = rng.integers(6, 23, n), rng.integers(6, 23, n)
    ratio = rng.uniform(0.5, 2, n)
    width, height = np.floor(ratio * area**0.5), np.floor(area**0.5 / ratio)
    np.testing.assert_array_equal(boxes[:, 2], height)
    np.testing.assert_array_equal(boxes[:, 3], width)
    np.testing.assert_array_equal(boxes[:, 0] + height // 2, row)
    np.testing.assert_array_equal(boxes[:, 1] + width // 2, column)
    assert set(row) == set(range(6, 23))
    mean = np.prod(boxes[:, 2:], axis=1).mean()
    assert 0.7 * area < mean < area


def test_only_the_covered_pixels_change():
    x = images(30, value=0.5)[:, None].repeat(3, axis=1)  # three channels
    patched = add_patches(x, 300, seed=5)
    for image, (top, left, height, width) in zip(
        patched, patch_boxes(30, (28, 28), 300, seed=5), strict=True
    ):
        assert (image[:, top : top + height, left : left + width] == 0).all()
        assert (image == 0).sum() == 3 * height * width
    rows = add_patches(x[:, 0].reshape(30, 784), 300, image_shape=(28, 28), seed=5)
    np.testing.assert_array_equal(rows, patched[:, 0].reshape(30, 784))


def test_other_sizes_keep_patches_near_the_middle():
    boxes = patch_boxes(2000, (56, 14), 4)
    middle = boxes[:, :2] + boxes[:, 2:] // 2
    assert middle.min(axis=0).tolist() == [12, 3]
    assert middle.max(axis=0).tolist() == [44, 11]
    assert patch_boxes(3, (1, 1), 1).shape == (3, 4)


def test_seeds():
    x = images()
    for corrupt, level in ((add_noise, 0.2), (add_patches, 50)):
        np.testing.assert_array_equal(corrupt(x, level, seed=1), corrupt(x, level, seed=1))
        assert not np.array_equal(corrupt(x, level, seed=1), corrupt(x, level, seed=2))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: add_noise(images(), -0.1), r"sigma must be at least 0 and finite; got -0.1"),
        (lambda: add_noise(images(), float("nan")), r"sigma must be .* got nan"),
        (lambda: add_noise(255 * images(), 0.1), r"within the limits 0.0 to 1.0 .* 127.5"),
        (lambda: add_noise(images(), 0.1, limits=(1, 0)), r"low < high; got \(1, 0\)"),
        (lambda: add_noise(images().astype(np.uint8), 0.1), r"got uint8 .* Divide bytes by 255"),
        (lambda: add_noise(np.zeros(3), 0.1), r"got float64 in shape \[3\]"),
        (lambda: add_noise(images() * np.nan, 0.1), r"x must be finite; got 3,136 values that"),
        (lambda: add_noise(images(), 0.1, seed=-1), r"seed must be an integer"),
        (lambda: add_patches(images(), -1), r"area must be at least 0 and finite; got -1"),
        (lambda: add_patches(images(), 800), r"at most the image's 784 pixels; got 800"),
        (lambda: add_patches(np.zeros((2, 784)), 9), r"image_shape must say the rows"),
        (lambda: add_patches(np.zeros((2, 784)), 9, image_shape=(28, 27)), "the 784 pixels .* 756"),
        (lambda: add_patches(images(), 9, image_shape=(7, 112)), r"image_shape must be \(28, 28\)"),
        (lambda: patch_boxes(2, (28, 0), 0), r"rows, columns, each at least 1; got \(28, 0\)"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(DataError, match=match):
        call()
