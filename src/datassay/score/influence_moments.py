"""Moments of influence over all pairs of samples: one sum over samples instead of one over pairs.

With S = Σ a_z, q_z = ‖a_z‖², C = AᵀA, over unordered pairs z ≠ z′ (X is symmetric):
E[X]  = −(‖S‖² − Σ q_z) / (n (n − 1))
E[X²] =  (tr C² − Σ q_z²) / (n (n − 1))
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import Tabular
from datassay.score.linear.panels import add_products
from datassay.score.settings import Influence
from datassay.score.variance.pair_influence import (
    PairInfluence,
    check_penalties,
    hessian_factor,
    pair_influence,
    whiten,
)

# Up to this many samples all pairs enter the third and fourth moments; of more, a random part.
MOST_IN_PAIRS = 4096
CHUNK_SAMPLES = 1024

Gradients = Float[np.ndarray, "n p"] | Float[Tensor, "n p"]


@dataclass(frozen=True, slots=True)
class InfluenceMoments(Tabular):
    """Moments of X(z, z′) over unordered pairs of different samples.

    Attributes:
        n: samples.
        mean: E[X], loss per unit of weight.
        variance: V[X] = E[X²] − E[X]², exact over all pairs (of the population, not n − 1).
        skewness: E[(X − E[X])³] / V[X]^1.5.
        kurtosis: E[(X − E[X])⁴] / V[X]²; 3 for a normal distribution.
        skewness_error: its standard error; 0 where every pair was used.
        kurtosis_error: the same for the kurtosis.
        gradient_norm: of the mean loss, ridge included; NaN where only gradients were given.
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
        """Return one row, a column per moment."""
        return pa.table({name: [getattr(self, name)] for name in self.__slots__})


@checks_arguments
def influence_moments(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Influence.loss,
    ridge: float = Influence.ridge,
    damping: float = Influence.damping,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> InfluenceMoments:
    """Compute mean, variance, skewness and kurtosis of influence over all pairs of samples.

    The variance grows with the heterogeneity of the samples: it is lowest for a pure set and
    highest for an even mix (S4 Figs 3, 5, 7).

    Args:
        model: at weights trained on `train`, as `pair_influence` takes it.
        train: n samples.
        loss: training loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        ridge: of the training, (ridge/2)‖θ‖² added to the mean loss.
        damping: added to the Hessian of the penalised mean loss; compare variances at one damping.
        projection: of the Jacobians: features per tensor, None for all, "auto" for as many as fit.
        seed: of the projection and of the pairs for the third and fourth moments.
        progress: called with (step, samples done, samples in all).

    Returns:
        The moments. Those beyond the second come from all pairs among at most 4096 samples.

    Raises:
        SettingError: ridge or damping is negative, the loss does not suit, or the Hessian is
            singular.
        DataError: fewer than 3 samples or 2 classes, or X is the same for all pairs.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: `pair_influence`, n p² operations more, and n² p for the third and fourth moments.
    Source: S4 §3; METHODS §4.
    """
    settings = {"loss": loss, "ridge": ridge, "damping": damping, "projection": projection}
    pairs = pair_influence(model, train, seed=seed, progress=progress, **settings)
    return pair_moments(pairs, seed)


def pair_moments(pairs: PairInfluence, seed: int = 0) -> InfluenceMoments:
    """Return the moments of known pairs; the third and fourth by random samples."""
    a = pairs.rows
    q = a.square().sum(1)
    mean, variance = first_moments(len(a), a.sum(0), a.T @ a, q)
    idx = np.random.default_rng(seed).permutation(len(a))[:MOST_IN_PAIRS]
    return InfluenceMoments(
        n=len(a),
        mean=mean,
        variance=variance,
        **_estimate_higher_moments(a[idx], mean, variance, len(a)),
        gradient_norm=pairs.gradient_norm,
        ridge=pairs.ridge,
        damping=pairs.damping,
    )


def influence_variance(pairs: PairInfluence) -> float:
    """Return V[X], without the other moments."""
    a = pairs.rows
    return first_moments(len(a), a.sum(0), a.T @ a, a.square().sum(1))[1]


def raw_moments(rows: Float[Tensor, "n p"], powers: int) -> Float[np.ndarray, " powers"]:
    """Return E[X^k] over all pairs of different samples for k = 1 … powers."""
    sums = np.zeros(powers)
    for start in range(0, len(rows), CHUNK_SAMPLES):
        x = -(rows[start : start + CHUNK_SAMPLES] @ rows.T)
        x.diagonal(start).zero_()  # a sample with itself is no pair
        power = torch.ones_like(x)
        for k in range(powers):
            power *= x
            sums[k] += float(power.sum())
    return sums / (len(rows) * (len(rows) - 1))


def gradient_moments(
    gradients: Gradients | Callable[[], Iterable[Gradients]],
    hessian: Float[Tensor, "p p"] | None = None,
    *,
    ridge: float = Influence.ridge,
    damping: float = Influence.damping,
    seed: int = 0,
    progress: Progress = silent,
) -> InfluenceMoments:
    """Compute the moments from gradients alone, in two passes over them.

    Args:
        gradients: ∇L(z), [n, p]; or a function that gives them in chunks of samples, the same each
            time it is called, so that they need not fit in memory.
        hessian: of the mean loss, without ridge and damping; None takes the empirical Fisher
            matrix Σ ∇L ∇Lᵀ / n.
        ridge: of the training.
        damping: added to the Hessian.
        seed: of the samples drawn for the third and fourth moments.
        progress: called with (step, samples done, samples in all); the first pass does not know the
            total and reports the samples done as both.

    Returns:
        The moments; gradient_norm is NaN, since the weights are not known.

    Raises:
        SettingError: ridge or damping is negative, or the Hessian is singular or not [p, p].
        DataError: fewer than 3 samples, gradients that are not finite or not [n, p], chunks that
            change between the passes, or X is the same for all pairs.

    Cost: 2 n p² operations (half of them for the upper half of Σ ∇L ∇Lᵀ, which tr C² needs too), 2
    p³, and 5 p² values and a chunk; the third and fourth moments 2 · 4096² p operations and 8192 p
    values more.
    """
    check_penalties(ridge, damping)
    read = gradients if callable(gradients) else lambda: (gradients,)
    n, total, products = _sum_gradients(read, progress)
    if hessian is not None and hessian.shape != products.shape:
        raise SettingError(
            f"hessian must be {list(products.shape)}, as wide as the gradients; got "
            f"{list(hessian.shape)}. Flatten the weights."
        )
    factor = hessian_factor(coalesce(hessian, products / n), ridge + damping)
    idx = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_IN_PAIRS])
    q = []
    rows = []
    n_done = 0
    for chunk in _read_chunks(read):
        a = whiten(factor, chunk)
        q.append(a.square().sum(1))
        in_chunk = (idx >= n_done) & (idx < n_done + len(a))
        rows.append(a[idx[in_chunk] - n_done])
        n_done += len(a)
        progress("moments of influence", n_done, n)
    if n_done != n:
        raise DataError(
            f"gradients must be the same at each call; the first gave {n} samples, the second "
            f"{n_done}. Pass a function that starts anew, not one that returns a used-up iterator."
        )
    c = whiten(factor, whiten(factor, products).T)
    mean, variance = first_moments(n, whiten(factor, total[None])[0], c, torch.cat(q))
    higher = _estimate_higher_moments(torch.cat(rows), mean, variance, n)
    return InfluenceMoments(
        n, mean, variance, **higher, gradient_norm=float("nan"), ridge=ridge, damping=damping
    )


def first_moments(
    n: int, total: Float[Tensor, " p"], c: Float[Tensor, "p p"], q: Float[Tensor, " n"]
) -> tuple[float, float]:
    """Return mean and variance of X from sums of gradients; raise if X does not vary."""
    pairs = n * (n - 1)
    mean = float(-(total.square().sum() - q.sum()) / pairs)
    squares = float(c.square().sum())
    variance = (squares - float(q.square().sum())) / pairs - mean**2
    if not variance > n * torch.finfo(torch.float64).eps * squares / pairs:
        raise DataError(
            f"influence must differ between pairs of samples; it is {mean:.3g} for all {pairs // 2}"
            ". The samples are identical, too few, or fitted without any error: add others."
        )
    return mean, variance


def _sum_gradients(
    read: Callable[[], Iterable[Gradients]], progress: Progress
) -> tuple[int, Float[Tensor, " p"], Float[Tensor, "p p"]]:
    """Return the number of gradients, Σ g, and Σ g gᵀ."""
    n = 0
    total = None
    products = None
    for chunk in _read_chunks(read):
        _check_chunk(chunk, n, total)
        if total is None or products is None:
            p = chunk.shape[1]
            total = chunk.new_zeros(p)
            products = chunk.new_zeros(p, p)
        total += chunk.sum(0)
        add_products(chunk, products)
        n += len(chunk)
        progress("sums of gradients", n, n)  # the total is not known yet
    if n < 3 or total is None or products is None:
        raise DataError(f"gradients must be of at least 3 samples; got {n}. Add samples.")
    return n, total, products.triu() + products.triu(1).T


def _check_chunk(chunk: Tensor, n: int, total: Tensor | None) -> None:
    """Raise if a chunk of gradients has another shape than before, or is not finite."""
    if chunk.ndim != 2 or (total is not None and chunk.shape[1] != len(total)):
        before = ""
        if total is not None:
            before = f" after [n, {len(total)}]"
        raise DataError(
            f"gradients must be [n, p], the same p in every chunk; got {list(chunk.shape)}{before}."
            " Flatten what belongs to one sample."
        )
    if not torch.isfinite(chunk).all():
        raise DataError(
            f"gradients must be finite; some among samples {n} to {n + len(chunk) - 1} are NaN or "
            "infinite. Check the model at those samples."
        )


def _read_chunks(read: Callable[[], Iterable[Gradients]]) -> Iterable[Tensor]:
    """Yield gradients in float64, in chunks of at most CHUNK_SAMPLES."""
    for gradients in read():
        for start in range(0, len(gradients), CHUNK_SAMPLES):
            chunk = gradients[start : start + CHUNK_SAMPLES]
            # A memory-mapped array may be read-only, which torch only takes as a copy.
            if not isinstance(chunk, Tensor):
                chunk = torch.from_numpy(np.array(chunk, np.float64))
            yield chunk.double()


def _estimate_higher_moments(
    rows: Float[Tensor, "s p"], mean: float, variance: float, n: int
) -> dict[str, float]:
    """Return skewness and kurtosis over pairs among s of n rows, with standard errors."""
    s = len(rows)
    third, fourth = _sum_central_powers(rows, mean)
    # Each sample's mean over its partners.
    means_by_name = {
        "skewness": third / (s - 1) / variance**1.5,
        "kurtosis": fourth / (s - 1) / variance**2,
    }
    moments = {}
    for name, means in means_by_name.items():
        moments[name] = float(means.mean())
        # A mean over pairs errs by twice the error of the mean of `means` (Hoeffding's projection);
        # drawing s of n without replacement leaves 1 − s/n of its variance.
        moments[f"{name}_error"] = 2 * float(means.std()) * ((1 - s / n) / s) ** 0.5
    return moments


def _sum_central_powers(
    rows: Float[Tensor, "s p"], mean: float
) -> tuple[Float[Tensor, " s"], Float[Tensor, " s"]]:
    """Return Σ (X − mean)³ and Σ (X − mean)⁴ over each sample's partners, [s]."""
    third = []
    fourth = []
    for start in range(0, len(rows), CHUNK_SAMPLES):
        x = -(rows[start : start + CHUNK_SAMPLES] @ rows.T) - mean
        x.diagonal(start).zero_()  # a sample with itself is no pair
        squares = x.square()
        third.append((squares * x).sum(1))
        fourth.append(squares.square().sum(1))
    return torch.cat(third), torch.cat(fourth)
