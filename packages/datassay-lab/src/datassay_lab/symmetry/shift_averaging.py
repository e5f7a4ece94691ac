"""Averaging a function over shifts is a low-pass filter with the transfer 2a sinc(ka/π)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track


@dataclass(frozen=True, slots=True)
class ShiftAveraging:
    """The ratio of Fourier coefficients after and before averaging."""

    frequencies: Float[np.ndarray, " k"]  # whole numbers, radians per unit of w
    half_widths: Float[np.ndarray, " a"]  # a of the window [−a, a], in the unit of w
    transfer: Float[np.ndarray, "a k"]  # measured ratio, in the unit of w
    predicted: Float[np.ndarray, "a k"]  # as the convention says
    other: Float[np.ndarray, "a k"]  # the other reading of S2's formula
    w: Float[np.ndarray, " t"]  # where the signals are drawn
    signal: Float[np.ndarray, " t"]  # before
    averaged: Float[np.ndarray, "a t"]  # after, divided by 2a

    @property
    def agreement(self) -> Agreement:
        """The largest difference of the transfer from its prediction, relative to 2a."""
        error = np.abs(self.transfer - self.predicted) / (2 * self.half_widths[:, None])
        return Agreement("largest difference of the transfer / 2a", float(error.max()), 1e-9)


@check_args
def shift_averaging(
    *,
    n_frequencies: Annotated[int, whole(2)] = 40,
    half_widths: Annotated[tuple[float, ...], rising(1e-06, count=1)] = (0.1, 0.3, 1.0),
    convention: Annotated[str, one_of(("angular", "printed"))] = "angular",
    nodes: Annotated[int, whole(2)] = 60,
    seed: int = 0,
    progress: Progress = silent,
) -> ShiftAveraging:
    """Average a random periodic signal over shifts in [−a, a] and compare spectra by FFT.

    f̄(w) = ∫_{−a}^{a} f(w − t) dt,   f̄^(k) = f̂(k) ∫_{−a}^{a} e^{ikt} dt = 2a sinc(ka/π) f̂(k)

    Args:
        n_frequencies: of the signal of period 2π, all of them present.
        half_widths: a, increasing.
        convention: "angular", sinc(ka/π) as the transform e^{ikt} needs, or "printed": sinc(2ka)
            as S2 prints, which is right where k counts cycles and the transform is e^{2πikt}.
        nodes: of the Gauss-Legendre rule for the average; exact for these signals to rounding.
        seed: of the signal.
        progress: called after each a.

    Returns:
        Transfers, measured and predicted.

    Cost: a · nodes · 8 n_frequencies² multiplications; negligible.
    Source: S2 class 4, "Intuition with translation invariant/robust functions". Slip in S2: with
    its e^{ikt} and its sinc x = sin(πx)/(πx) the argument is ka/π, not 2ka.
    """
    rng = np.random.default_rng(seed)
    k = np.arange(1, n_frequencies + 1)
    # Moduli bounded away from 0, so that every ratio can be measured.
    size = rng.uniform(0.5, 1.5, n_frequencies) / k**0.5
    phase = rng.uniform(0, 2 * np.pi, n_frequencies)
    w = np.linspace(0, 2 * np.pi, 8 * n_frequencies, endpoint=False)

    def signal(points: np.ndarray) -> np.ndarray:
        return np.cos(np.multiply.outer(points, k) + phase) @ size

    points, weight = np.polynomial.legendre.leggauss(nodes)
    spectrum, means, transfer = np.fft.rfft(signal(w))[k], [], []
    for a in track(half_widths, progress, "average"):
        averaged = np.tensordot(signal(w[:, None] - a * points), a * weight, axes=1)
        means.append(averaged / (2 * a))
        transfer.append((np.fft.rfft(averaged)[k] / spectrum).real)
    widths = np.array(half_widths, float)[:, None]
    rules = [2 * widths * np.sinc(k * widths / np.pi), 2 * widths * np.sinc(2 * k * widths)]
    predicted, alternative = rules if convention == "angular" else rules[::-1]
    return ShiftAveraging(
        k.astype(float), widths[:, 0], np.array(transfer), predicted, alternative,
        w, signal(w), np.array(means),
    )  # fmt: skip


@add_titles
def shift_averaging_plots(result: ShiftAveraging) -> Figures:
    """Draw the transfer by frequency, and the signal before and after."""
    figure = axes("frequency k, radians per unit", "transfer / 2a")
    grid = np.linspace(result.frequencies[0], result.frequencies[-1], 300)
    for index, a in enumerate(result.half_widths):
        add_data(
            figure, result.frequencies, result.transfer[index] / (2 * a), f"a = {a:g}",
            series=index, mode="markers",
        )  # fmt: skip
        name = "sinc(ka/π)" if index == 0 else ""
        theory(figure, grid, np.sinc(grid * a / np.pi), name)
    line = axes("w", "f, and its mean over [−a, a]")
    add_data(line, result.w, result.signal, "f", series=7, mode="lines")
    for index, a in enumerate(result.half_widths):
        add_data(line, result.w, result.averaged[index], f"a = {a:g}", series=index, mode="lines")
    return figure, line
