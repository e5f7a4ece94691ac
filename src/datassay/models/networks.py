"""Reference networks. Each takes raw inputs: scaling is its first layer, not a hidden step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.errors import DataError, ModelError
from datassay.models.known import KNOWN


class Affine(nn.Module):
    """x ↦ x · scale + shift with fixed (not trained) scale and shift, broadcast over samples."""

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor):
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        """Return x · scale + shift, of the same shape."""
        return x * self.scale + self.shift


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of samples, in float64; a deviation of 0 counts as 1."""

    # Of a table one per column, [d]; of images one in all, [].

    mean: Float[Tensor, "*columns"]
    deviation: Float[Tensor, "*columns"]

    @property
    def removed(self) -> Affine:
        """The layer (x − mean) / deviation, in float32."""
        return Affine((1 / self.deviation).float(), (-self.mean / self.deviation).float())

    @property
    def restored(self) -> Affine:
        """The inverse layer, x · deviation + mean, in float32."""
        return Affine(self.deviation.float(), self.mean.float())


def spread(x: np.ndarray, name: str = "x") -> Spread:
    """Return the mean and deviation of inputs: one pair for images, else per column."""
    # name: of the samples, in an error. A constant column gets a deviation of 1, so that it is
    # only centred. The sums are float64, so that the order of the samples does not change what is
    # rounded to float32. Values that float32, in which networks compute, cannot hold apart raise.
    axes = tuple(range(x.ndim))
    count = x.size
    if x.ndim == 2:
        axes = (0,)
        count = len(x)
    n_rows = max(1, 2**22 // max(1, x[:1].size))
    slices = [slice(start, start + n_rows) for start in range(0, len(x), n_rows)]
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        mean = sum(x[s].sum(axes, dtype=np.float64) for s in slices) / count
        variance = sum(np.square(x[s] - mean, dtype=np.float64).sum(axes) for s in slices) / count
    is_constant = x.min(axes) == x.max(axes)
    mean = np.where(is_constant, x.min(axes), mean)
    deviation = np.where(is_constant, 1.0, np.sqrt(variance))
    is_wide = (deviation > 1e-30) & (deviation < 1e30) & (deviation > 1e-6 * np.abs(mean))
    # A constant is only subtracted.
    bad = np.flatnonzero(~np.where(is_constant, np.abs(mean) < 1e30, is_wide))
    if len(bad):
        j = bad[0]
        column = name
        if mean.ndim:
            column = f"column {j} of {name}"
        raise DataError(
            f"{column} must vary by 1e-30 to 1e30, and by more than a millionth of its mean, for "
            f"networks compute in float32; got a mean of {mean.flat[j]:.3g} and a standard "
            f"deviation of {0.0 if is_constant.flat[j] else deviation.flat[j]:.3g}. Take an offset "
            "off, or choose another unit."
        )
    return Spread(torch.as_tensor(mean), torch.as_tensor(deviation))


def linear(input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Build one dense layer: linear regression, or (multinomial) logistic regression by its loss.

    Args:
        input_shape: shape of one sample.
        n_outputs: k.

    Returns:
        The network, [n, *input_shape] → [n, k].
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(_n_values(input_shape), n_outputs))


def mlp(
    input_shape: tuple[int, ...], n_outputs: int, width: int = 512, depth: int = 1
) -> nn.Module:
    """Build a dense ReLU network with `depth` hidden layers of `width` units.

    Args:
        input_shape: shape of one sample.
        n_outputs: k.
        width: units in each hidden layer.
        depth: hidden layers.

    Returns:
        The network, [n, *input_shape] → [n, k].
    """
    layers: list[nn.Module] = [nn.Flatten()]
    n_inputs = _n_values(input_shape)
    for _ in range(depth):
        layers += [nn.Linear(n_inputs, width), nn.ReLU()]
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


def cnn(input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Build the 4-layer convolutional network of S1 App. A.3, for images of 20 x 20 pixels on."""
    channels, height_width = _check_shape(input_shape, "cnn", 20)
    convolutions = [
        nn.Conv2d(channels, 32, 4, stride=2, padding=1),
        nn.Conv2d(32, 32, 4, stride=2, padding=1),
        nn.Conv2d(32, 64, 3),
        nn.Conv2d(64, 256, 3),
    ]
    layers = [module for layer in convolutions for module in (layer, nn.ReLU())]
    n_flat = 256 * _n_values(tuple(length // 4 - 4 for length in height_width))
    head = [nn.Flatten(), nn.Linear(n_flat, 256), nn.ReLU(), nn.Linear(256, n_outputs)]
    return nn.Sequential(_Channels(channels, height_width), *layers, *head)


def lenet5(input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Build LeNet-5 with average pooling and tanh; 28 x 28 inputs are padded to 32 x 32 as in 1998.

    Args:
        input_shape: [channels, height, width] or [height, width], at least 12 x 12 pixels.
        n_outputs: k.

    Returns:
        The network, [n, *input_shape] → [n, k].

    Raises:
        ModelError: the input is no image, or too small.

    Source: LeCun et al. (1998), Fig. 2. Deviates: full connections between the second and third
    feature maps and a linear output layer, as every library builds it today.
    """
    channels, height_width = _check_shape(input_shape, "lenet5", 12)
    n_flat = 16 * _n_values(tuple((length // 2 - 4) // 2 for length in height_width))
    body: list[nn.Module] = [nn.Conv2d(channels, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)]
    body += [nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()]
    head = [nn.Linear(n_flat, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh()]
    return nn.Sequential(_Channels(channels, height_width), *body, *head, nn.Linear(84, n_outputs))


NETWORKS: dict[str, Callable[..., nn.Module]] = dict(
    zip(KNOWN, (linear, linear, mlp, cnn, lenet5), strict=True)
)


class _Channels(nn.Module):
    """A layer that gives [n, h, w] images their channel axis; [n, c, h, w] pass unchanged."""

    def __init__(self, channels: int, height_width: tuple[int, int]):
        super().__init__()
        self.shape = (channels, *height_width)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *self.shape)


def _check_shape(shape: tuple[int, ...], name: str, smallest: int) -> tuple[int, tuple[int, int]]:
    """Return channels and (height, width); raise if inputs are no images, or too small."""
    if len(shape) not in {2, 3}:
        raise ModelError(
            f"{name} takes images, [channels, height, width]; got samples of shape {list(shape)}. "
            "Use --model mlp for rows."
        )
    channels = shape[0] if len(shape) == 3 else 1
    height, width = shape[-2:]
    if min(height, width) < smallest:
        raise ModelError(
            f"{name} needs at least {smallest} x {smallest} pixels; got {height} x {width}. "
            "Use --model mlp for small images."
        )
    return channels, (height, width)


def _n_values(shape: tuple[int, ...]) -> int:
    """Return how many values an array of a shape holds."""
    return int(torch.Size(shape).numel())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, and restore its state at the end.

    Args:
        seed: of every draw inside.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
