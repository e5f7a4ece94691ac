"""A convolutional network decides by texture unless texture is made useless."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int
from torch import nn

from datassay.progress import Progress, part_of, silent
from datassay.report import BLUE, VERMILION
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, one_of, whole
from datassay_lab.curves import Figures, add_titles, axes, pictures, theory
from datassay_lab.fits import accuracy, fit_network, outputs

SIDE = 24  # of the images, pixels
SHAPES = ("disc", "square", "triangle", "cross")
PERIOD = 4.0  # of the stripes, pixels
CONFLICTS = 400
NETWORKS = ("pooling", "small patches", "no pooling", "pooling, random textures")


@dataclass(frozen=True, slots=True)
class TextureShape:
    """What networks answer where shape and texture name different classes."""

    networks: tuple[str, ...]  # [4]; the first three were trained on agreeing cues
    shape: Float[np.ndarray, " m"]  # share of answers that name the shape
    texture: Float[np.ndarray, " m"]  # share of answers that name the texture
    accuracy: Float[np.ndarray, " m"]  # on new images of the kind that each was trained on
    # : one of every class with agreeing cues, then four conflicts.
    images: Float[np.ndarray, "i H W"]
    titles: tuple[str, ...]  # [8], what they show

    @property
    def shape_share(self) -> Float[np.ndarray, " m"]:
        """Shape's part of the answers that name either cue."""
        return self.shape / (self.shape + self.texture)

    @property
    def agreement(self) -> Agreement:
        """What training on random textures adds to the shape's share."""
        gain = float(self.shape_share[3] - self.shape_share[0])
        return Agreement("gain of the shape's share by random textures", gain, 0.7, "at least")


@check_args
def texture_shape(
    *,
    n_train: Annotated[int, whole(8)] = 1200,
    steps: Annotated[int, whole()] = 400,
    remedy: Annotated[str, one_of(("random", "agreeing"))] = "random",
    seed: int = 0,
    progress: Progress = silent,
) -> TextureShape:
    """Train small CNNs on shapes filled with stripes and test them where the cues conflict.

    shape share = #(answer = shape) / #(answer = shape or texture)

    Args:
        n_train: images a training set, four classes: a shape with stripes of one direction.
        steps: of Adam, batches of 64.
        remedy: textures of the last training set: "random", so that only shape tells the class,
            or "agreeing", which changes nothing.
        seed: of images and networks.
        progress: called with the updates done of the four trainings.

    Returns:
        Shares of answers on cue conflicts.

    Cost: 4 · steps · 64 · 2 million multiplications; about 10 seconds.
    Source: S2 class 5, "Or texture?"; Geirhos et al. (2019); small patches: Brendel and Bethge
    (2019). Deviates: synthetic shapes and stripes instead of ImageNet and style transfer.
    """
    rng = np.random.default_rng(seed)
    kinds = ("agreeing", "agreeing", "agreeing", remedy)
    builds = (_network, _patches, _dense_head, _network)
    conflict, shapes, textures = _images(rng, CONFLICTS, "conflict")
    rows, accuracies = [], []
    for index, (kind, build) in enumerate(zip(kinds, builds, strict=True)):
        x, labels, _ = _images(rng, n_train, kind)
        report = part_of(progress, "train", index * steps, len(kinds) * steps)
        recipe = Recipe(lr=5e-3, steps=steps)
        model = fit_network(build, x, labels, recipe, seed=seed + index, progress=report)
        answers = outputs(model, conflict).argmax(axis=1)
        rows.append([(answers == shapes).mean(), (answers == textures).mean()])
        new_images, truth, _ = _images(rng, CONFLICTS, kind)
        accuracies.append(accuracy(model, new_images, truth))
    shares = np.array(rows)
    agreeing = _images(np.random.default_rng(seed), 4, "agreeing")[0]
    pairs = zip(shapes[:4], textures[:4], strict=True)
    titles = (*SHAPES, *(f"{SHAPES[s]}, stripes of {SHAPES[t]}" for s, t in pairs))
    return TextureShape(
        NETWORKS, shares[:, 0], shares[:, 1], np.array(accuracies),
        np.concatenate([agreeing, conflict[:4]]), titles,
    )  # fmt: skip


@add_titles
def texture_shape_plots(result: TextureShape) -> Figures:
    """Draw answers on cue conflicts by training, and some images."""
    figure = axes("", "share of answers on cue conflicts")
    positions = np.arange(len(result.networks))
    for name, share, colour in (
        ("texture's class", result.texture, VERMILION),
        ("shape's class", result.shape, BLUE),
    ):
        figure.add_bar(x=positions, y=share, name=name, marker_color=colour)
    theory(figure, [-0.5, len(positions) - 0.5], [0.25, 0.25], "chance")
    labels = [name.replace(", ", ",<br>") for name in result.networks]
    figure.update_xaxes(tickvals=positions, ticktext=labels, range=[-0.5, len(positions) - 0.5])
    figure.update_layout(bargap=0.4)
    examples = pictures(result.images, result.titles, columns=4, side=150)
    return figure, examples


def _body() -> list[nn.Module]:
    """Build layers that see whole shapes: the last filters look at 18 of the 24 pixels."""
    body = [nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    body += [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return [*body, nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]


def _network() -> nn.Sequential:
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, len(SHAPES))]
    return nn.Sequential(*_body(), *head)


def _dense_head() -> nn.Sequential:
    """Build a network with a dense head, which knows where in the image a feature is."""
    head = [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * (SIDE // 8) ** 2, len(SHAPES))]
    return nn.Sequential(*_body(), *head)


def _patches() -> nn.Sequential:
    """Build a bag of local features: patches of 5 x 5 pixels vote, wherever they are."""
    body = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(SHAPES)))


def _images(
    rng: np.random.Generator, n: int, kind: str
) -> tuple[Float[np.ndarray, "n H W"], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Draw images; return them with the classes of their shapes and of their textures."""
    classes = len(SHAPES)
    shapes = np.arange(n) % classes
    textures = {
        "agreeing": shapes,
        "conflict": (shapes + rng.integers(1, classes, n)) % classes,
        "random": rng.integers(classes, size=n),
    }[kind]
    images = [_image(rng, int(s), int(t)) for s, t in zip(shapes, textures, strict=True)]
    return np.array(images), shapes, textures


def _image(rng: np.random.Generator, shape: int, texture: int) -> Float[np.ndarray, "H W"]:
    centre = SIDE / 2 - 0.5 + rng.uniform(-2, 2, 2)
    size = rng.uniform(6, 8)
    row, column = np.mgrid[:SIDE, :SIDE] - centre[:, None, None]
    angle = np.pi * texture / len(SHAPES)
    stripe_axis = row * np.sin(angle) + column * np.cos(angle)
    stripes = 0.5 + 0.5 * np.cos(2 * np.pi * stripe_axis / PERIOD + rng.uniform(0, 2 * np.pi))
    is_inside = _shape_mask(SHAPES[shape], row / size, column / size)
    return is_inside * (0.2 + 0.8 * stripes) + 0.05 * rng.normal(size=(SIDE, SIDE))


def _shape_mask(shape: str, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return where the shape is; all four have areas of 2.3 to 3.2 squared radii."""
    if shape == "disc":
        return np.hypot(row, column) < 1
    if shape == "square":
        return np.maximum(np.abs(row), np.abs(column)) < 0.85
    if shape == "triangle":
        return (row < 0.9) & (np.abs(column) < 0.65 * (row + 1.1))
    thin = np.minimum(np.abs(row), np.abs(column)) < 0.35
    return thin & (np.maximum(np.abs(row), np.abs(column)) < 1.15)
