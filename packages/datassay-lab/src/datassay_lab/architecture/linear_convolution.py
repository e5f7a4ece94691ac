"""Convolution makes gradient descent prefer predictors that are sparse in Fourier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.progress import Progress, part_of, silent
from datassay_lab.checks import Agreement, check_args, positive, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import spread_counts

MARKS = 40  # updates at which the predictors are kept, at most


@dataclass(frozen=True, slots=True)
class LinearConvolution:
    """The predictors that descent reached, and the max-margin predictors that theory names.

    All predictors are scaled to the margin min yᵢ xᵢᵀβ = 1.
    """

    steps: Float[np.ndarray, " t"]  # updates at which the cosines were taken
    dense: Float[np.ndarray, " D"]  # β of the fully connected network
    convolutional: Float[np.ndarray, " D"]  # β of the convolutional network
    dense_theory: Float[np.ndarray, " D"]  # least ‖β‖₂ at margin 1
    convolutional_theory: Float[np.ndarray, " D"]  # least ‖β̂‖₁ at margin 1
    dense_cosine: Float[np.ndarray, " t"]  # of the fully connected β with its theory
    convolutional_cosine: Float[np.ndarray, " t"]  # of the convolutional β with its theory
    cross_cosine: float  # between the two theories; far below 1 where they can be distinguished
    dense_excess: float  # ‖β‖₂ of the fully connected network over the least, minus 1
    convolutional_excess: float  # ‖β̂‖₁ of the convolutional network over the least, minus 1
    cross_excess: float  # ‖β̂‖₁ of the fully connected network over the least, minus 1

    @property
    def agreement(self) -> Agreement:
        """How far either network's norm lies above the least one, at the same margin."""
        excess = max(self.dense_excess, self.convolutional_excess)
        return Agreement("larger excess over the least norm at margin 1", excess, 0.04)


@check_args
def linear_convolution(
    *,
    n_samples: Annotated[int, whole(2)] = 10,
    size: int = 32,
    depth: Annotated[int, whole(1)] = 2,
    steps: Annotated[int, whole(20)] = 6000,
    step_size: Annotated[float, positive()] = 0.3,
    seed: int = 0,
    progress: Progress = silent,
) -> LinearConvolution:
    """Train linear networks on separable samples and compare them with convex programs.

    fully connected: β = W₁ … W_{L−1} w_L → argmin ‖β‖₂,   full-width circular convolution:
    β = w₁ ⊛ … ⊛ w_L → argmin ‖β̂‖_{2/L}, both subject to yᵢ xᵢᵀβ ≥ 1

    Args:
        n_samples: n, fewer than size, so that any labels are separable.
        size: D, length of the inputs, normal; the labels are fair coins.
        depth: L of both networks. The program with ‖β̂‖₁ is that of L = 2.
        steps: of gradient descent on the exponential loss.
        step_size: c of ‖Δw‖ = c max(‖w‖, 1) / √t in step t. The norm grows fast enough for the
            direction to converge, and the steps shrink beside it.
        seed: of the samples and the initial weights.
        progress: called after every tenth of the training of each network.

    Returns:
        Predictors and their cosines with theory.

    Cost: 2 · steps · L D² multiplications; some seconds.
    Source: S2 class 4, "Weights bias for fully connected and convolutions linear networks";
    Gunasekar, Lee, Soudry and Srebro (2018), Theorems 1 and 2. Deviates: normalised steps; the
    paper's constant ones need exponentially many.
    """
    whole(n_samples + 1)("size", size)
    rng = np.random.default_rng(seed)
    signed = rng.normal(size=(n_samples, size)) * rng.choice([-1.0, 1.0], (n_samples, 1))  # y x
    expected = [max_margin(signed, fourier=fourier) for fourier in (False, True)]
    square, start = (size, size), 0.3 / np.sqrt(size)
    dense = [start * rng.normal(size=square) for _ in range(depth - 1)]
    dense.append(start * rng.normal(size=size))
    filters = [start * rng.normal(size=size) for _ in range(depth)]
    paths = []
    for index, (weights, product) in enumerate(((dense, _dense), (filters, _convolution))):
        report = part_of(progress, "train", 10 * index, 20)
        paths.append(_descend(weights, product, signed, steps, step_size, report))
    ends = [path[-1] / (signed @ path[-1]).min() for path in paths]
    cosines = [_cosines(path, beta) for path, beta in zip(paths, expected, strict=True)]
    cross = float(_cosines(expected[0][None], expected[1])[0])
    dense_excess = np.linalg.norm(ends[0]) / np.linalg.norm(expected[0]) - 1
    excess, cross_excess = (_fourier_norm(e) / _fourier_norm(expected[1]) - 1 for e in ends[::-1])
    return LinearConvolution(
        spread_counts(10, steps, MARKS).astype(float), ends[0], ends[1], expected[0], expected[1],
        cosines[0], cosines[1], cross, float(dense_excess), excess, cross_excess,
    )  # fmt: skip


def max_margin(signed: Float[np.ndarray, "n D"], *, fourier: bool) -> Float[np.ndarray, " D"]:
    """Return the predictor of least norm that has margin 1 on every sample."""
    # fourier: take Σ_k |β̂_k| as the norm, otherwise ‖β‖₂.
    import cvxpy

    beta = cvxpy.Variable(signed.shape[1])
    transform = np.fft.fft(np.eye(signed.shape[1]))
    pairs = cvxpy.vstack([transform.real @ beta, transform.imag @ beta])
    norm = cvxpy.sum(cvxpy.norm(pairs, 2, axis=0)) if fourier else cvxpy.norm(beta, 2)
    cvxpy.Problem(cvxpy.Minimize(norm), [signed @ beta >= 1]).solve(solver=cvxpy.CLARABEL)
    return np.asarray(beta.value, float)


@add_titles
def linear_convolution_plots(result: LinearConvolution) -> Figures:
    """Draw the Fourier coefficients of both predictors, and how directions converge."""
    spectrum = axes("frequency k, cycles per input", "|β̂<sub>k</sub>| at margin 1")
    networks = (
        ("fully connected", result.dense, result.dense_theory, "least ‖β‖<sub>2</sub>"),
        (
            "convolutional",
            result.convolutional,
            result.convolutional_theory,
            "least ‖β̂‖<sub>1</sub>",
        ),
    )
    for index, (name, weights, expected, rule) in enumerate(networks):
        k = np.arange(len(weights) // 2 + 1)
        add_data(spectrum, k, np.abs(np.fft.rfft(weights)), name, series=index, mode="markers")
        theory(
            spectrum, k, np.abs(np.fft.rfft(expected)), rule, colour=("#0072b2", "#d55e00")[index]
        )
    angle = axes("gradient steps", "1 − cosine with its own theory", log="xy")
    for index, (name, cosine) in enumerate((
        ("fully connected", result.dense_cosine),
        ("convolutional", result.convolutional_cosine),
    )):
        add_data(angle, result.steps, np.maximum(1 - cosine, 1e-12), name, series=index)
    distance = np.full(2, 1 - result.cross_cosine)
    theory(angle, result.steps[[0, -1]], distance, "between the two theories")
    return spectrum, angle


def _dense(weights: list[Tensor]) -> Float[Tensor, " D"]:
    beta = weights[-1]
    for matrix in weights[-2::-1]:
        beta = matrix @ beta
    return beta


def _convolution(weights: list[Tensor]) -> Float[Tensor, " D"]:
    spectrum = torch.fft.rfft(torch.stack(weights)).prod(dim=0)
    return torch.fft.irfft(spectrum, n=len(weights[0]))


def _descend(
    start: list[np.ndarray], product, signed: np.ndarray, steps: int, size: float, report: Progress
) -> Float[np.ndarray, "t D"]:
    weights = [torch.tensor(w, requires_grad=True) for w in start]
    x, path, marks = torch.tensor(signed), [], set(spread_counts(10, steps, MARKS).tolist())
    for step in range(1, steps + 1):
        # ∇ log Σ exp(−margin): the direction of the exponential loss without its underflow.
        loss = torch.logsumexp(-(x @ product(weights)), dim=0)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            scale = max(_length(weights), 1.0) / _length(gradients) / step**0.5
            for w, g in zip(weights, gradients, strict=True):
                w -= size * scale * g
        if step in marks:
            path.append(product(weights).detach().numpy())
        if step % max(1, steps // 10) == 0:
            report("train", 10 * step // steps, 10)
    return np.array(path)


def _length(parts: Sequence[Tensor]) -> float:
    return float(sum(p.square().sum() for p in parts)) ** 0.5


def _fourier_norm(beta: np.ndarray) -> float:
    return float(np.abs(np.fft.fft(beta)).sum())


def _cosines(path: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, " t"]:
    return path @ beta / (np.linalg.norm(path, axis=1) * np.linalg.norm(beta))
