"""Averaging a function over shifts is a low-pass filter with the transfer 2a sinc(ka/π)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import check_choice, check_count, check_sizes
from datassay_lab.curves import axes, finish, measured, theory
from datassay_lab.experiment import Agreement, Experiment, Plot


@dataclass(frozen=True, slots=True)
class ShiftAveraging:
    """The ratio of Fourier coefficients after and before averaging.

    Attributes:
        frequencies: [k], whole numbers, radians per unit of w.
        half_widths: [a], a of the window [−a, a], in the unit of w.
        transfer: [a, k], measured ratio, in the unit of w.
        predicted: [a, k], as the convention says.
        other: [a, k], the other reading of S2's formula.
        w: [t], where the signals are drawn.
        signal: [t], before.
        averaged: [a, t], after, divided by 2a.
    """

    frequencies: Float[np.ndarray, " k"]
    half_widths: Float[np.ndarray, " a"]
    transfer: Float[np.ndarray, "a k"]
    predicted: Float[np.ndarray, "a k"]
    other: Float[np.ndarray, "a k"]
    w: Float[np.ndarray, " t"]
    signal: Float[np.ndarray, " t"]
    averaged: Float[np.ndarray, "a t"]

    @property
    def agreement(self) -> Agreement:
        """The largest difference of the transfer from its prediction, relative to 2a."""
        error = np.abs(self.transfer - self.predicted) / (2 * self.half_widths[:, None])
        return Agreement("largest difference of the transfer / 2a", float(error.max()), 1e-9)


def shift_averaging(
    *,
    n_frequencies: int = 40,
    half_widths: tuple[float, ...] = (0.1, 0.3, 1.0),
    convention: str = "angular",
    nodes: int = 60,
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

    Raises:
        SettingError: a parameter is out of range.

    Cost: a · nodes · 8 n_frequencies² multiplications; negligible.
    Source: S2 class 4, "Intuition with translation invariant/robust functions". Slip in S2: with
    its e^{ikt} and its sinc x = sin(πx)/(πx) the argument is ka/π, not 2ka.
    """
    check_count("n_frequencies", n_frequencies, 2)
    check_sizes("half_widths", half_widths, 1e-6, count=1)
    check_choice("convention", convention, ("angular", "printed"))
    check_count("nodes", nodes, 2)
    rng = np.random.default_rng(seed)
    k = np.arange(1, n_frequencies + 1)
    # Moduli bounded away from 0, so that every ratio can be measured.
    size = rng.uniform(0.5, 1.5, n_frequencies) / k**0.5
    phase = rng.uniform(0, 2 * np.pi, n_frequencies)
    w = np.linspace(0, 2 * np.pi, 8 * n_frequencies, endpoint=False)

    def signal(points: np.ndarray) -> np.ndarray:
        return np.cos(np.multiply.outer(points, k) + phase) @ size

    points, weight = np.polynomial.legendre.leggauss(nodes)
    before, means, transfer = np.fft.rfft(signal(w))[k], [], []
    for place, a in enumerate(half_widths):
        after = np.tensordot(signal(w[:, None] - a * points), a * weight, axes=1)
        means.append(after / (2 * a))
        transfer.append((np.fft.rfft(after)[k] / before).real)
        progress("average", place + 1, len(half_widths))
    widths = np.array(half_widths, float)[:, None]
    rules = [2 * widths * np.sinc(k * widths / np.pi), 2 * widths * np.sinc(2 * k * widths)]
    predicted, other = rules if convention == "angular" else rules[::-1]
    return ShiftAveraging(
        k.astype(float), widths[:, 0], np.array(transfer), predicted, other,
        w, signal(w), np.array(means),
    )  # fmt: skip


def shift_averaging_plots(result: ShiftAveraging) -> tuple[Plot, ...]:
    """The transfer by frequency, and the signal before and after.

    Args:
        result: of `shift_averaging`.

    Returns:
        Two plots.
    """
    figure = axes("frequency k, radians per unit", "transfer / 2a")
    fine = np.linspace(result.frequencies[0], result.frequencies[-1], 300)
    for place, a in enumerate(result.half_widths):
        measured(
            figure, result.frequencies, result.transfer[place] / (2 * a), f"a = {a:g}",
            place=place, mode="markers",
        )  # fmt: skip
        name = "sinc(ka/π)" if place == 0 else ""
        theory(figure, fine, np.sinc(fine * a / np.pi), name)
    line = axes("w", "f, and its mean over [−a, a]")
    measured(line, result.w, result.signal, "f", place=7, mode="lines")
    for place, a in enumerate(result.half_widths):
        measured(line, result.w, result.averaged[place], f"a = {a:g}", place=place, mode="lines")
    return (
        Plot("Averaging over shifts removes high frequencies", finish(figure), "Transfer by k"),
        Plot("The signal gets smoother", finish(line), "A random signal and its averages"),
    )


EXPERIMENT = Experiment(
    name="shift-averaging",
    statement="Averaging a function over shifts in [−a, a] multiplies its Fourier coefficient k by "
    "2a sinc(ka/π): a low-pass filter.",
    formula="f̄(w) = ∫_{−a}^{a} f(w − t) dt  ⇒  f̄^(k) = 2a sinc(ka/π) f̂(k)\nsinc x = sin(πx)/(πx)",
    look_for="Marks lie on the dashed curves, with zeros at ka = π, 2π, …: the wider the window, "
    "the fewer frequencies are left, and only the mean for full invariance. S2 prints sinc(2ka), "
    "which belongs to frequencies in cycles; convention = printed shows that it fails here.",
    source="S2 class 4",
    run=shift_averaging,
    plots=shift_averaging_plots,
)
