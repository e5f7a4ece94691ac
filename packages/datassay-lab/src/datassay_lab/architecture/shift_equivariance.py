"""Circular convolution commutes with shifts; padding, stride and rotation break that."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import digit_images, relative_error


@dataclass(frozen=True, slots=True)
class ShiftEquivariance:
    """How far a convolutional network is from commuting with shifts and rotations.

    Errors are ‖φ(gx) − gφ(x)‖ / ‖φ(x)‖ over all images, unitless.
    """

    shifts: Float[np.ndarray, " s"]  # columns by which images are shifted, around the edge
    shift_error: Float[np.ndarray, " s"]  # of the network as set (circular by default)
    # of its outputs after global average pooling, which should not change.
    pooled_error: Float[np.ndarray, " s"]
    zero_error: Float[np.ndarray, " s"]  # with zeros around the images instead
    interior_error: float  # largest of `zero_error` over rows and columns that no edge can reach
    stride_error: Float[np.ndarray, " s"]  # pooled, with stride 2
    angles: Float[np.ndarray, " a"]  # degrees
    rotation_error: Float[np.ndarray, " a"]  # random filters
    isotropic_error: Float[np.ndarray, " a"]  # filters that a quarter turn leaves unchanged
    # : x, φ(x) of one channel, φ(gx), and |φ(gx) − gφ(x)|, g a shift.
    images: Float[np.ndarray, "4 H H"]

    @property
    def agreement(self) -> Agreement:
        """The largest error of equivariance before, and of invariance after pooling."""
        error = float(max(self.shift_error.max(), self.pooled_error.max()))
        return Agreement("largest relative error over all shifts", error, 1e-12)


@check_args
def shift_equivariance(
    *,
    n_images: Annotated[int, whole()] = 50,
    size: Annotated[int, whole(12)] = 16,
    channels: Annotated[int, whole()] = 8,
    padding: Annotated[str, one_of(("circular", "zeros"))] = "circular",
    n_angles: Annotated[int, whole(2)] = 25,
    seed: int = 0,
    progress: Progress = silent,
) -> ShiftEquivariance:
    """Pass digits through two random ReLU convolutions, before and after moving them.

    φ(T_α x) = T_α φ(x),   pooled: Σ_u φ(T_α x)(u) = Σ_u φ(x)(u)

    Args:
        n_images: digits.
        size: H, side of the canvas on whose middle a digit lies, at least 12 pixels and even.
        channels: of both convolutions, 3 x 3.
        padding: "circular", for which the statement holds, or "zeros".
        n_angles: rotations between 0 and 90 degrees.
        seed: of the filters and of the choice of digits.
        progress: called after the shifts and after the rotations.

    Returns:
        Errors by shift and by angle.

    Cost: (4 size + 2 n_angles) passes of two convolutions; about a second.
    Source: S2 class 4, "Convolution operation and equivariance". Exact on a torus. Deviates: S2's
    matrix repeats σ⟨w, gx⟩ in every row; row i holds σ⟨g_i w, x⟩.
    """
    refuse_if(size % 2, f"size must be even, so that stride 2 fits around it; got {size}.")
    rng = np.random.default_rng(seed)
    digits, _ = digit_images(seed, n_images)
    edge = (size - 8) // 2
    x = np.pad(digits, ((0, 0), (edge, size - 8 - edge), (edge, size - 8 - edge)))[:, None]
    filters = [torch.tensor(_filters(rng, channels, c)) for c in (1, channels)]
    shifts = np.arange(size)
    shifted = [np.roll(x, s, axis=-1) for s in shifts]
    outputs = [_network(m, filters, padding) for m in shifted]
    zeros = [_network(m, filters, "zeros") for m in shifted]
    strided = [_network(m, filters, "circular", stride=2).mean(axis=(2, 3)) for m in shifted]
    progress("shifts", 1, 2)
    angles = np.linspace(0, 90, n_angles)
    # Corners and edges averaged: every rotation by 90 degrees leaves the filters as they are.
    round_filters = [
        torch.stack([torch.rot90(f, k, (2, 3)) for k in range(4)]).mean(dim=0) for f in filters
    ]
    rotation = [_rotation_error(x, a, filters) for a in angles]
    isotropic = [_rotation_error(x, a, round_filters) for a in angles]
    progress("rotations", 2, 2)
    step = size // 2  # far enough for the digit to cross the edge
    difference = np.abs(outputs[step] - np.roll(outputs[0], step, axis=-1))
    images = (x[0, 0], outputs[0][0, 0], outputs[step][0, 0], difference[0, 0])
    pooled = [p.mean(axis=(2, 3)) for p in outputs]
    return ShiftEquivariance(
        shifts.astype(float), _shift_errors(outputs), _pooled_errors(pooled), _shift_errors(zeros),
        max(_interior_error(zeros[0], zeros[s], s) for s in range(size)), _pooled_errors(strided),
        angles, np.array(rotation), np.array(isotropic), np.array(images),
    )  # fmt: skip


@add_titles
def shift_equivariance_plots(result: ShiftEquivariance) -> Figures:
    """Draw errors by shift and by angle, and one image on its way."""
    figure = axes("shift, pixels", "error relative to the output")
    for index, (name, error) in enumerate((
        ("network", result.shift_error),
        ("network, pooled", result.pooled_error),
        ("zeros at the edge", result.zero_error),
        ("stride 2, pooled", result.stride_error),
    )):
        add_data(figure, result.shifts, error, name, series=index)
    theory(figure, result.shifts, np.zeros(len(result.shifts)), "theory, circular")
    angle = axes("angle of the rotation, degrees", "error relative to the output")
    add_data(angle, result.angles, result.rotation_error, "random filters", series=1)
    add_data(angle, result.angles, result.isotropic_error, "filters with quarter-turn symmetry")
    theory(angle, result.angles, np.zeros(len(result.angles)), "if it commuted")
    titles = ("image x", "φ(x)", "φ(gx), g a shift", "|φ(gx) − gφ(x)|")
    return figure, angle, pictures(result.images, titles, columns=4)


def _filters(rng: np.random.Generator, n_out: int, n_in: int) -> Float[np.ndarray, "o i 3 3"]:
    return rng.normal(size=(n_out, n_in, 3, 3)) / np.sqrt(9 * n_in)


def _network(
    x: np.ndarray, filters: list[Tensor], padding: str, stride: int = 1
) -> Float[np.ndarray, "n c h w"]:
    values = torch.tensor(x)
    for index, kernel in enumerate(filters):
        mode = "circular" if padding == "circular" else "constant"
        padded = functional.pad(values, (1, 1, 1, 1), mode=mode)
        values = functional.relu(functional.conv2d(padded, kernel, stride=1 if index else stride))
    return values.numpy()


def _shift_errors(outputs: list[np.ndarray]) -> Float[np.ndarray, " s"]:
    pairs = ((output, np.roll(outputs[0], s, axis=-1)) for s, output in enumerate(outputs))
    return np.array([relative_error(output, expected) for output, expected in pairs])


def _pooled_errors(pooled: list[np.ndarray]) -> Float[np.ndarray, " s"]:
    return np.array([relative_error(p, pooled[0]) for p in pooled])


def _interior_error(unshifted: np.ndarray, shifted: np.ndarray, shift: int) -> float:
    """Return the error where both outputs are two pixels or more from every edge."""
    size = unshifted.shape[-1]
    columns = np.arange(size)
    is_interior = (columns >= 2) & (columns < size - 2)
    is_interior &= np.roll(is_interior, shift)
    gap = np.abs(shifted - np.roll(unshifted, shift, axis=-1))[..., 2:-2, :][..., is_interior]
    return float(gap.max(initial=0) / np.abs(unshifted).max())


def _rotation_error(x: np.ndarray, angle: float, filters: list[Tensor]) -> float:
    output = _network(_rotate(x, angle), filters, "circular")
    return relative_error(output, _rotate(_network(x, filters, "circular"), angle))


def _rotate(x: np.ndarray, angle: float) -> Float[np.ndarray, "n c h w"]:
    from scipy.ndimage import rotate

    return rotate(x, angle, axes=(2, 3), reshape=False, order=3, mode="constant")
