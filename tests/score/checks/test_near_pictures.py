"""Copies of pictures that were changed a little are found, and no others."""

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from datassay.data.pictures import Pictures, image_size
from datassay.data.samples import SampleSet
from datassay.score.checks.codes import array_codes
from datassay.score.checks.duplicates import add_near, duplicates
from datassay.score.checks.near_pictures import UNEXPLAINED, _fit_chance_bound, near_pictures

RNG = np.random.default_rng(0)


def disc(side, rng, colours=3):
    """A disc somewhere, of some size and colours, with grain."""
    shades = np.stack([rng.integers(0, 110, 3), rng.integers(140, 256, 3)]).astype(float)
    shades = shades[:, :colours]
    radius = side * rng.uniform(0.2, 0.35)
    y, x = (np.arange(side) - rng.uniform(radius, side - radius) for _ in range(2))
    inside = (y[:, None] ** 2 + x**2 < radius**2).astype(int)
    grain = rng.normal(0, 7, (side, side, colours))
    pixels = (shades[inside] + grain).clip(0, 255).astype(np.uint8)
    return Image.fromarray(pixels.squeeze())


def compressed(image):
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=50)
    return Image.open(stream)


COPIES = {
    "half": lambda i: i.resize((i.width // 2, i.height // 2)),
    "compressed": compressed,
    "grey": lambda i: i.convert("L").convert("RGB"),
    "cropped": lambda i: i.crop((i.width // 20 + 1, i.height // 20 + 1, *i.size)),
    "darker": lambda i: i.point(lambda v: int(v * 0.85)),
}


def folder(root, images):
    for i, image in enumerate(images):
        (root / f"{i:03d}.png").parent.mkdir(exist_ok=True)
        image.save(root / f"{i:03d}.png")
    files = sorted(root.iterdir())
    pictures = Pictures(files, [image_size(file) for file in files])
    x = np.arange(len(files), dtype=np.float32)[:, None]
    return SampleSet(
        x, np.arange(len(x)) % 2, x[:, 0].astype(int), ("a", "b"), "image", images=pictures
    )


def named(samples):
    return {tuple(sorted(pair)) for pair in near_pictures(samples).tolist()}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("side", [40, 96])
def test_changed_copies_are_found_and_no_others(tmp_path, kind, side):
    originals = [disc(side, np.random.default_rng(i)) for i in range(60)]
    copies = [COPIES[kind](image) for image in originals[:5]]
    train = folder(tmp_path, originals + copies)
    assert named(train) == {(i, 60 + i) for i in range(5)}


@pytest.mark.parametrize("colours", [1, 3])
def test_pictures_of_one_class_are_no_copies(colours):
    images = [np.asarray(disc(40, np.random.default_rng(i), colours)) for i in range(300)]
    x = np.stack(images).reshape(300, 40, 40, colours).astype(np.float32)
    train = SampleSet(x, np.arange(300) % 2, np.arange(300), ("a", "b"), kind="image")
    assert not len(near_pictures(train))


def test_what_is_no_picture_or_too_small_has_no_copies():
    x = RNG.normal(size=(40, 8, 8)).astype(np.float32)
    x[1] = x[0]
    for kind in ("image", "row"):
        train = SampleSet(x, np.arange(40) % 2, np.arange(40), ("a", "b"), kind=kind)
        assert not len(near_pictures(train, None))


def test_blank_and_tiny_pictures_are_no_copies_and_hide_none(tmp_path):
    images = [disc(40, np.random.default_rng(i)) for i in range(30)]
    images += [Image.new("RGB", (40, 40), (shade,) * 3) for shade in (0, 0, 90, 110, 255)]
    images += [Image.new("RGB", (1, 1)), Image.new("RGB", (40, 3)), COPIES["half"](images[3])]
    assert named(folder(tmp_path, images)) == {(3, 37)}


def test_copies_join_the_groups_of_equal_rows():
    x = gaussian_filter(RNG.normal(size=(30, 6)), (0, 1))
    x[1] = x[0]
    outcome = duplicates(array_codes(x))
    joined = add_near(outcome, np.array([[1, 5], [7, 9], [0, 1]]))
    assert joined.group.tolist() == outcome.group.tolist()
    assert joined.near[[0, 1, 5]].tolist() == [joined.near[0]] * 3 and joined.near[0] >= 0
    assert joined.near[7] == joined.near[9] != joined.near[0] and (joined.near >= 0).sum() == 5
    assert joined.pairs.tolist() == [[0, 5], [7, 9]] and not joined.one_column.any()


def shapes(side, rng):
    """Some flat shapes, without grain."""
    image = Image.new("RGB", (side, side), tuple(rng.integers(0, 255, 3).tolist()))
    draw = ImageDraw.Draw(image)
    for _ in range(7):
        (left, top), size = rng.integers(0, side - 8, 2).tolist(), int(rng.integers(6, side // 2))
        form = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        form([left, top, left + size, top + size], fill=tuple(rng.integers(0, 255, 3).tolist()))
    return image


def test_copies_of_several_kinds_do_not_hide_each_other(tmp_path):
    """Cropped and lighter copies lie between copies and different pictures."""
    originals = [shapes(64, np.random.default_rng(i)) for i in range(60)]
    kinds = [COPIES["half"], COPIES["grey"], lambda i: i.crop((2, 2, 62, 62)),
             lambda i: i.point(lambda v: min(255, int(v * 1.3)))]  # fmt: skip
    copies = [kinds[i % 4](image) for i, image in enumerate(originals[:24])]
    found = named(folder(tmp_path, originals + copies))
    assert found <= {(i, 60 + i) for i in range(24)}
    assert {(i, 60 + i) for i in range(24) if i % 4 < 2} <= found


@pytest.mark.parametrize("lowest", [0.5, 0.4999, 0.4])
def test_pictures_of_noise_which_are_all_as_unlike_have_a_bound(lowest):
    assert _fit_chance_bound(np.linspace(lowest, 0.5, 300), 1.0) == UNEXPLAINED
