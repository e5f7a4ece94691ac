"""A deep network learns the low frequencies of a target before the high ones."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from torch import nn

from datassay.models import mlp, seeded
from datassay.progress import Progress, part_of, silent
from datassay.score import rank_correlation
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, one_of, positive, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.wide_network import regression, spread_steps, tangent_kernel, watch

INPUTS = ("coordinate", "waves")
LEARNED = 0.5  # share of a sine's amplitude


@dataclass(frozen=True, slots=True)
class SpectralBias:
    """When each sine of a sum is learned."""

    frequencies: Float[np.ndarray, " k"]  # periods in the interval
    steps: Float[np.ndarray, " t"]  # of Adam
    # of the outputs at each frequency, geometric mean over the networks, in units of the target's.
    amplitudes: Float[np.ndarray, "t k"]
    # steps until each network first has half the amplitude; twice all steps where it never has.
    times: Float[np.ndarray, "r k"]
    # 1 / eigenvalue of the tangent kernel at the start at each frequency, scaled to the times'
    # geometric mean.
    predicted: Float[np.ndarray, " k"]

    @property
    def typical(self) -> Float[np.ndarray, " k"]:
        """Geometric mean over the networks of the steps until learned."""
        return np.exp(np.log(self.times).mean(axis=0))

    @property
    def agreement(self) -> Agreement:
        """Whether higher means later."""
        rho = float(rank_correlation(self.frequencies, self.typical))
        return Agreement(
            "rank correlation of frequency and time to learn it", rho, 0.85, "at least"
        )


@check_args
def spectral_bias(
    *,
    n_frequencies: Annotated[int, whole(3)] = 10,
    n_samples: int = 128,
    width: Annotated[int, whole()] = 128,
    depth: Annotated[int, whole()] = 4,
    steps: Annotated[int, whole(10)] = 2000,
    lr: Annotated[float, positive(1.0)] = 1e-3,
    repeats: Annotated[int, whole()] = 3,
    inputs: Annotated[str, one_of(INPUTS)] = "coordinate",
    seed: int = 0,
    progress: Progress = silent,
) -> SpectralBias:
    """Train deep ReLU networks on a sum of sines of equal amplitude and watch its spectrum.

    y(z) = Σ_k sin(2πkz + φ_k),   k = 1 … n_frequencies,   z = i / n − 1/2

    Args:
        n_frequencies: sines in the target.
        n_samples: n, evenly spaced, at least 4 for the highest frequency's period.
        width: of each hidden layer.
        depth: hidden layers.
        steps: of Adam on full batches.
        lr: its step size.
        repeats: networks, each with phases of its own.
        inputs: "coordinate": 2z. "waves": cos and sin of every frequency, which take the bias away.
        seed: of phases and weights.
        progress: called after each step.

    Returns:
        Amplitudes over time, and when each is learned.

    Cost: 6 n · parameters · steps · repeats operations; about 6 s.
    Source: S2 class 2, "An example"; Rahaman et al. (2018), section 3. Deviates in size: they take
    frequencies 5, 10, …, 50, 200 samples, 6 layers of 256 units and 80 000 steps. The prediction
    is that of the tangent kernel under plain descent; Adam is faster on small eigenvalues.
    """
    whole(4 * n_frequencies)("n_samples", n_samples)
    rng = np.random.default_rng(seed)
    k = np.arange(1, n_frequencies + 1)
    angles = 2 * np.pi * np.outer(np.arange(n_samples) / n_samples, k)  # [n, k]
    x = 2 * angles[:, :1] / (2 * np.pi) - 1
    if inputs == "waves":
        x = np.hstack([np.cos(angles), np.sin(angles)])
    record_steps = spread_steps(steps - 1, 150)
    amplitudes = np.empty((repeats, len(record_steps), n_frequencies))
    rates = np.zeros(n_frequencies)
    recipe = Recipe("adam", lr, steps, None, "mse")
    for repeat in range(repeats):
        y = np.sin(angles + rng.uniform(0, 2 * np.pi, n_frequencies)).sum(axis=1)
        model = _network(x.shape[1], width, depth, int(rng.integers(2**31)))
        # Mean of qᵀΘq over the cosine and the sine of each frequency, |q| = 1.
        kernel, waves = tangent_kernel(model, x)[0], (np.cos(angles), np.sin(angles))
        by_wave = [np.einsum("nk,nm,mk->k", w, kernel, w) / (w**2).sum(axis=0) for w in waves]
        rates += np.mean(by_wave, axis=0) / repeats
        report = part_of(progress, "train networks", repeat * steps, repeats * steps)
        outputs = watch(model, regression(x, y), recipe, record_steps, progress=report).outputs
        amplitudes[repeat] = 2 / n_samples * np.abs(np.fft.rfft(outputs, axis=1))[:, k]
    # First step from which on half of each amplitude is reached and kept.
    is_short = amplitudes < LEARNED
    last_idx = len(record_steps) - 1 - is_short[:, ::-1].argmax(axis=1)  # last one below half
    last_idx = np.where(is_short.any(axis=1), last_idx, -1)
    times = np.append(record_steps + 1, 2 * (record_steps[-1] + 1))[last_idx + 1].astype(float)
    scale = np.exp((np.log(times).mean(axis=0) + np.log(rates)).mean())
    mean = np.exp(np.log(amplitudes.clip(1e-6)).mean(axis=0))
    return SpectralBias(k.astype(float), record_steps + 1.0, mean, times, scale / rates)


@add_titles
def spectral_bias_plots(result: SpectralBias) -> Figures:
    """Draw amplitudes as a map of frequency and step, and time to learn by frequency."""
    spectrum = axes("steps of Adam", "frequency k", log="x")
    spectrum.add_heatmap(
        x=result.steps, y=result.frequencies, z=result.amplitudes.T, zmin=0, zmax=1,
        colorscale=[[0, "#ffffff"], [0.5, "#4f9fcc"], [1, "#004a77"]],
        colorbar={"title": {"text": "share learned", "side": "right"}, "thickness": 14},
        hovertemplate="step %{x}, frequency %{y}: %{z:.2f}<extra></extra>",
    )  # fmt: skip
    add_data(spectrum, result.typical, result.frequencies, "half learned", series=1, mode="lines")
    theory(spectrum, result.predicted, result.frequencies, "∝ 1 / eigenvalue")
    spectrum.update_xaxes(range=[0, float(np.log10(result.steps[-1]))])
    times = axes("frequency k", "steps until half is learned", log="xy")
    add_data(times, result.frequencies, result.times, "one network each", mode="markers")
    theory(times, result.frequencies, result.predicted, "∝ 1 / eigenvalue of the tangent kernel")
    return spectrum, times


def _network(n_inputs: int, width: int, depth: int, seed: int) -> nn.Module:
    with seeded(seed):
        return mlp((n_inputs,), 1, width, depth)
