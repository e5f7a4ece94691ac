"""A class activation map splits a logit over the image: where the network looks."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import digit_images, fit_network

DIGIT = 8  # pixels
CELL = 2  # pixels a side that one position of the map covers
TESTED, SHOWN = 300, 4
PLACES = 3  # where each training digit is put
CLASSES = 10


@dataclass(frozen=True, slots=True)
class ClassActivation:
    """Maps of the predicted class on test images, one digit somewhere on each canvas."""

    # share of the map's positive mass in the digit's box, ascending.
    inside: Float[np.ndarray, " m"]
    untrained: Float[np.ndarray, " m"]  # the same before training, ascending
    shallow: Float[np.ndarray, " m"]  # the same of another network, one convolution deep, trained
    shallow_accuracy: float  # of that network
    alike: float  # mean correlation of both networks' maps of the same image
    area: float  # share of the canvas that the box covers: `inside` of a map that looks everywhere
    identity_error: float  # largest |mean of the map − (logit − bias)|
    accuracy: float  # on the test images, 0 to 1
    images: Float[np.ndarray, "s H H"]  # some canvases
    maps: Float[np.ndarray, "s H H"]  # their maps, logit per position, enlarged to the canvas
    classes: Int[np.ndarray, " s"]  # as predicted

    @property
    def agreement(self) -> Agreement:
        """The mean share of positive mass in the digit's box."""
        share = float(self.inside.mean())
        return Agreement("mean share of the map inside the digit's box", share, 0.5, "at least")


@check_args
def class_activation(
    *,
    canvas: Annotated[int, whole(12)] = 20,
    n_train: Annotated[int, whole(20)] = 1400,
    steps: Annotated[int, whole()] = 600,
    noise: Annotated[float, positive()] = 0.1,
    seed: int = 0,
    progress: Progress = silent,
) -> ClassActivation:
    """Train a small CNN on digits at random places and map the evidence for its answer.

    f_c(x) = b_c + mean_u CAM_c(u),   CAM_c(u) = Σ_k w_{ck} A_k(u)

    Args:
        canvas: side in pixels, even and at least 12; the digit covers 8 x 8 of it.
        n_train: digits to train on, each at three places; another 300 are tested.
        steps: of Adam, batches of 64.
        noise: standard deviation of normal noise all over the canvas, in units of full ink.
        seed: of digits, places, noise and network.
        progress: called with the updates done.

    Returns:
        Shares inside the box, and example maps.

    Cost: steps · 64 · 4 million multiplications; about 10 seconds.
    Source: S2 class 5, "Where is a ANN looking at? Class activation mapping"; Zhou et al. (2016).
    Exact for global average pooling and one dense layer. Deviates: we divide by the number of
    places, so that the mean of the map, not its sum, is the logit without its bias.
    """
    refuse_if(canvas % CELL, f"canvas must be even, as the map has half its side; got {canvas}.")
    rng = np.random.default_rng(seed)
    order = np.r_[np.tile(np.arange(n_train), PLACES), n_train : n_train + TESTED]
    digits, labels = (a[order] for a in digit_images(seed, n_train + TESTED))
    images, boxes = _place_digits(rng, digits, canvas, noise)
    recipe = Recipe(lr=0.01, steps=steps)
    test_rows, digits_and_labels = slice(-TESTED, None), (images[:-TESTED], labels[:-TESTED])
    model, shallow = (
        fit_network(build, *digits_and_labels, recipe, seed=seed, progress=progress)
        for build in (_network, _shallow)
    )
    with seeded(seed):
        untrained = _network()
    maps, answers, error = _maps(model, images[test_rows])
    shallow_maps, guesses, _ = _maps(shallow, images[test_rows])
    all_maps = (maps, _maps(untrained, images[test_rows])[0], shallow_maps)
    shares = [_share_inside(m, boxes[test_rows]) for m in all_maps]
    pairs = zip(maps.reshape(TESTED, -1), shallow_maps.reshape(TESTED, -1), strict=True)
    return ClassActivation(
        shares[0], shares[1], shares[2], float((guesses == labels[test_rows]).mean()),
        float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs])), (DIGIT / canvas) ** 2, error,
        float((answers == labels[test_rows]).mean()), images[test_rows][:SHOWN],
        np.kron(maps[:SHOWN], np.ones((CELL, CELL))), answers[:SHOWN],
    )  # fmt: skip


@add_titles
def class_activation_plots(result: ClassActivation) -> Figures:
    """Draw some images with their maps, and the share inside the box over all."""
    # Each picture fills its own scale; maps are signed, and so images go from white to orange.
    images = np.concatenate([result.images, result.maps])
    titles = ["image"] * len(result.images) + [f"speaks for {c}" for c in result.classes]
    examples = pictures(images, titles, columns=len(result.images), signed=True, shared=False)
    figure = axes("share of the map inside the digit's box", "share of images below")
    rank = (np.arange(len(result.inside)) + 1) / len(result.inside)
    add_data(figure, result.untrained, rank, "before training", series=1, mode="lines")
    add_data(figure, result.inside, rank, "trained", mode="lines")
    add_data(figure, result.shallow, rank, "trained, one convolution", series=2, mode="lines")
    theory(figure, [result.area] * 2, [0, 1], "share of the area")
    return examples, figure


def _network() -> nn.Sequential:
    body = [nn.Conv2d(1, 12, 5, padding=2), nn.ReLU()]
    body += [nn.Conv2d(12, 24, 5, stride=CELL, padding=2), nn.ReLU()]
    body += [nn.Conv2d(24, 32, 3, padding=1), nn.ReLU()]
    return nn.Sequential(
        nn.Sequential(*body), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES)
    )


def _shallow() -> nn.Sequential:
    body = nn.Sequential(nn.Conv2d(1, 32, 7, stride=CELL, padding=3), nn.ReLU())
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))


def _place_digits(
    rng: np.random.Generator, digits: np.ndarray, side: int, noise: float
) -> tuple[Float[np.ndarray, "n H W"], Float[np.ndarray, "n H W"]]:
    """Place digits on noisy canvases; return these, and 1 where the box of the digit is."""
    images = noise * rng.normal(size=(len(digits), side, side))
    boxes = np.zeros_like(images)
    corners = rng.integers(side - DIGIT + 1, size=(len(digits), 2))
    for image, box, digit, (row, column) in zip(images, boxes, digits, corners, strict=True):
        image[row : row + DIGIT, column : column + DIGIT] += digit
        box[row : row + DIGIT, column : column + DIGIT] = 1
    return images, boxes


def _maps(
    model: nn.Module, images: np.ndarray
) -> tuple[Float[np.ndarray, "n h w"], Int[np.ndarray, " n"], float]:
    """Return maps of the predicted class, the predictions, and the error of the identity."""
    assert isinstance(model, nn.Sequential)
    head = model[-1]
    assert isinstance(head, nn.Linear)
    x = torch.tensor(images[:, None], dtype=torch.float32)
    with torch.no_grad():
        logits = model(x)
        answer = logits.argmax(dim=1)
        maps = torch.einsum("nk,nkhw->nhw", head.weight[answer], model[0](x))
        evidence = logits.gather(1, answer[:, None])[:, 0] - head.bias[answer]
        error = float((maps.mean(dim=(1, 2)) - evidence).abs().max())
    return maps.double().numpy(), answer.numpy(), error


def _share_inside(maps: np.ndarray, boxes: np.ndarray) -> Float[np.ndarray, " n"]:
    mass = np.maximum(np.kron(maps, np.ones((CELL, CELL))), 0)
    total = np.maximum(mass.sum(axis=(1, 2)), 1e-12)
    return np.sort((mass * boxes).sum(axis=(1, 2)) / total)
