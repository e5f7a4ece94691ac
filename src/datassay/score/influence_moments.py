"""Moments of influence over all pairs of samples: one sum over samples instead of one over pairs.

With S = Σ a_z, q_z = ‖a_z‖², C = AᵀA, over unordered pairs z ≠ z′ (X is symmetric):
E[X]  = −(‖S‖² − Σ q_z) / (n (n − 1))
E[X²] =  (tr C² − Σ q_z²) / (n (n − 1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.score.pair_influence import (
    PairInfluence,
    check_penalties,
    hessian_factor,
    pair_influence,
    whiten,
)

# Samples whose pairs are all looked at for the third and fourth moments; of more, a random part.
MOST_IN_PAIRS = 4096
GROUPS = 16
CHUNK_SAMPLES = 1024

Gradients = Float[np.ndarray, "n p"] | Float[Tensor, "n p"]


@dataclass(frozen=True, slots=True)
class InfluenceMoments:
    """Moments of X(z, z′) over unordered pairs of different samples.

    Attributes:
        n: samples.
        mean: E[X], loss per unit of weight.
        variance: V[X] = E[X²] − E[X]², exact over all pairs (of the population, not n − 1).
        skewness: E[(X − E[X])³] / V[X]^1.5.
        kurtosis: E[(X − E[X])⁴] / V[X]²; 3 for a normal distribution.
        skewness_error: its standard error; 0 where every pair was looked at.
        kurtosis_error: the same of the kurtosis.
        gradient_norm: of the mean loss with its ridge; NaN where only gradients were given.
        ridge: of the training.
        damping: added to the Hessian.
    """

    n: int
    mean: float
    variance: float
    skewness: float
    kurtosis: float
    skewness_error: float
    kurtosis_error: float
    gradient_norm: float
    ridge: float
    damping: float

    def to_table(self) -> pa.Table:
        """One row, a column a moment."""
        return pa.table({name: [getattr(self, name)] for name in self.__slots__})


def influence_moments(
    model: nn.Module,
    samples: SampleSet,
    *,
    loss: str = "cross_entropy",
    ridge: float = 0.0,
    damping: float = 0.01,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> InfluenceMoments:
    """Mean, variance, skewness and kurtosis of influence over all pairs of samples.

    The variance grows with the heterogeneity of the samples: it is lowest for a pure set and
    highest for an even mix (S4 Figs 3, 5, 7).

    Args:
        model: at weights trained on `samples`, as `pair_influence` takes it.
        samples: n samples.
        loss: what it was trained with, "cross_entropy" (one output: binary) or "mse".
        ridge: of the training, (ridge/2)‖θ‖² beside the mean loss.
        damping: added to the Hessian of the penalised mean loss; compare variances at one damping.
        projection: of the Jacobians: features a tensor, None for all, "auto" for as many as fit.
        seed: of the projection and of the pairs for the third and fourth moments.
        progress: called with (step, samples done, samples in all).

    Returns:
        The moments. Those beyond the second come from all pairs among at most 4096 samples.

    Raises:
        SettingError: ridge or damping is negative, the loss does not suit, or the Hessian is
            singular.
        DataError: fewer than 2 samples or classes.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: `pair_influence`, n p² operations more, and n² p for the third and fourth moments.
    Source: S4 §3; METHODS §4.
    """
    settings = {"loss": loss, "ridge": ridge, "damping": damping, "projection": projection}
    return pair_moments(pair_influence(model, samples, seed=seed, progress=progress, **settings))


def pair_moments(pairs: PairInfluence, seed: int = 0) -> InfluenceMoments:
    """The moments of pairs that are at hand.

    Args:
        pairs: from `pair_influence`.
        seed: of the samples drawn for the third and fourth moments.

    Returns:
        The moments.
    """
    a = pairs.rows
    q = a.square().sum(1)
    mean, variance = first_moments(len(a), a.sum(0), a.T @ a, q)
    chosen = np.random.default_rng(seed).permutation(len(a))[:MOST_IN_PAIRS]
    return InfluenceMoments(
        n=len(a),
        mean=mean,
        variance=variance,
        **_higher_moments(a[chosen], mean, variance, is_all=len(chosen) == len(a)),
        gradient_norm=pairs.gradient_norm,
        ridge=pairs.ridge,
        damping=pairs.damping,
    )


def influence_variance(pairs: PairInfluence) -> float:
    """V[X] alone.

    Args:
        pairs: from `pair_influence`.

    Returns:
        The variance over unordered pairs.

    Cost: n p² operations.
    """
    a = pairs.rows
    return first_moments(len(a), a.sum(0), a.T @ a, a.square().sum(1))[1]


def gradient_moments(
    gradients: Gradients | Callable[[], Iterable[Gradients]],
    hessian: Float[Tensor, "p p"] | None = None,
    *,
    ridge: float = 0.0,
    damping: float = 0.01,
    seed: int = 0,
    progress: Progress = silent,
) -> InfluenceMoments:
    """The moments from gradients alone, in two passes over them.

    Args:
        gradients: ∇L(z), [n, p]; or a function that gives them in chunks of samples, the same each
            time it is called, so that they need not fit in memory.
        hessian: of the mean loss, without ridge and damping; None takes the empirical Fisher
            matrix Σ ∇L ∇Lᵀ / n.
        ridge: of the training.
        damping: added to the Hessian.
        seed: of the samples drawn for the third and fourth moments.
        progress: called with (step, samples done, samples in all); in the first pass nobody knows
            how many there are, so what is done stands for both.

    Returns:
        The moments; gradient_norm is NaN, since the weights are not known.

    Raises:
        SettingError: ridge or damping is negative, or the Hessian is singular.
        DataError: fewer than 2 samples, or gradients that are not finite.

    Cost: 3 n p² operations (n p² of them for Σ ∇L ∇Lᵀ, which tr C² needs too), p³, and 3 p²
    values beside a chunk; the third and fourth moments 4096² p operations and 4096 p values more.
    """
    check_penalties(ridge, damping)
    read = gradients if callable(gradients) else lambda: (gradients,)
    n, total, second = _first_pass(read, progress)
    factor = hessian_factor(second / n if hessian is None else hessian, ridge + damping)
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_IN_PAIRS])
    q, kept, done = [], [], 0
    for chunk in _float64(read):
        a = whiten(factor, chunk)
        q.append(a.square().sum(1))
        kept.append(a[chosen[(chosen >= done) & (chosen < done + len(a))] - done])
        done += len(a)
        progress("moments of influence", done, n)
    c = whiten(factor, whiten(factor, second).T)
    mean, variance = first_moments(n, whiten(factor, total[None])[0], c, torch.cat(q))
    rows = torch.cat(kept)[np.random.default_rng(seed).permutation(len(chosen))]
    higher = _higher_moments(rows, mean, variance, is_all=len(chosen) == n)
    return InfluenceMoments(
        n, mean, variance, **higher, gradient_norm=float("nan"), ridge=ridge, damping=damping
    )


def first_moments(
    n: int, total: Float[Tensor, " p"], second: Float[Tensor, "p p"], q: Float[Tensor, " n"]
) -> tuple[float, float]:
    """E[X] and V[X].

    Args:
        n: samples.
        total: S.
        second: C.
        q: ‖a_z‖².

    Returns:
        Mean and variance over pairs.
    """
    pairs = n * (n - 1)
    mean = float(-(total.square().sum() - q.sum()) / pairs)
    return mean, float((second.square().sum() - q.square().sum()) / pairs) - mean**2


def _first_pass(
    read: Callable[[], Iterable[Gradients]], progress: Progress
) -> tuple[int, Float[Tensor, " p"], Float[Tensor, "p p"]]:
    n, total, second = 0, None, None
    for chunk in _float64(read):
        if not torch.isfinite(chunk).all():
            raise DataError(
                f"gradients must be finite; some among samples {n} to {n + len(chunk) - 1} are "
                "NaN or infinite. Check the model at those samples."
            )
        total = chunk.sum(0) if total is None else total + chunk.sum(0)
        second = chunk.T @ chunk if second is None else second.addmm_(chunk.T, chunk)
        n += len(chunk)
        progress("sums of gradients", n, n)  # how many will come is not known
    if n < 2 or total is None or second is None:
        raise DataError(f"gradients must be of at least 2 samples; got {n}. Add samples.")
    return n, total, second


def _float64(read: Callable[[], Iterable[Gradients]]) -> Iterable[Float[Tensor, "chunk p"]]:
    for part in read():
        for start in range(0, len(part), CHUNK_SAMPLES):
            yield torch.as_tensor(part[start : start + CHUNK_SAMPLES]).double()


def _higher_moments(
    rows: Float[Tensor, "s p"], mean: float, variance: float, *, is_all: bool
) -> dict[str, float]:
    """Skewness and kurtosis over all pairs among the rows; errors from groups of them."""
    if not variance > 0:
        return dict.fromkeys(
            ("skewness", "kurtosis", "skewness_error", "kurtosis_error"), float("nan")
        )
    third, fourth = _central_sums(rows, mean)
    pairs = len(rows) * (len(rows) - 1)
    found = {"skewness": third / pairs / variance**1.5, "kurtosis": fourth / pairs / variance**2}
    if is_all:
        return found | {"skewness_error": 0.0, "kurtosis_error": 0.0}
    groups = np.array([
        (third / variance**1.5, fourth / variance**2)
        for third, fourth in (
            [v / (len(part) * (len(part) - 1)) for v in _central_sums(part, mean)]
            for part in rows.chunk(GROUPS)
        )
    ])
    error = groups.std(0, ddof=1) / GROUPS**0.5
    return found | {"skewness_error": float(error[0]), "kurtosis_error": float(error[1])}


def _central_sums(rows: Float[Tensor, "s p"], mean: float) -> tuple[float, float]:
    """Σ (X − mean)³ and Σ (X − mean)⁴ over ordered pairs."""
    third = fourth = 0.0
    for start in range(0, len(rows), CHUNK_SAMPLES):
        x = -(rows[start : start + CHUNK_SAMPLES] @ rows.T) - mean
        x.diagonal(start).zero_()  # a sample with itself is no pair
        square = x.square()
        third += float((square * x).sum())
        fourth += float(square.square().sum())
    return third, fourth
