"""Influence of every sample on the others at the linearised network's own minimum.

The linearised network f₀ + Φ w has an exact minimum of its ridge-penalised mean squared error,
where the definition of influence holds exactly. Features are those of every other score:
X(z, z′) = −n Σ e_zᵀ [φ_z M φ_z′ᵀ] e_z′,  M = (ΦᵀΦ + λ)⁻¹,  e = f − y at the minimum.
"""

from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import MOST_PARTNERS, step_bytes
from datassay.collect.linearization import Linearization
from datassay.errors import DataError, SettingError
from datassay.plan import PlanStep
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.rules import at_least
from datassay.score.labels.ridge import ridge_fit
from datassay.score.linear.eigenbasis import FeatureRows, eigenbasis
from datassay.score.linear.panels import operand, panels, product
from datassay.score.registry import Context, Score, Sizes

# Passes over the influence of a pair that its moments take.
PAIR_VALUES = 32.0
MANY = 8000  # samples
_OF = "of the influence X(z, ·) of the sample on the others, at the linearised ridge fit"
_UNIT = "loss per unit of weight"


@result
class SampleInfluence(Tabular):
    """Moments of X(z, z′) over the partners z′ of each sample z, and over all pairs.

    Attributes:
        mean: [n], E[X(z, ·)] over all other samples, loss per unit of weight; exact.
        variance: [n], V[X(z, ·)], over all others, or over the partners drawn.
        skewness: [n], of X(z, ·).
        kurtosis: [n], of X(z, ·); 3 for a normal distribution.
        own: [n], X(z, z): change of its own loss by more weight on z, negative.
        total_mean: E[X] over all pairs; exact.
        total_variance: V[X] over all pairs, or over those used.
        total_variance_error: its standard error; 0 where every pair was used.
        n_partners: samples that each sample was paired with.
        ridge: λ, absolute, of the sum loss; λ/n of the mean loss.
        ids: [n].
    """

    mean: Float[np.ndarray, " n"] = column(
        f"mean {_OF}",
        unit=_UNIT,
        sign="below 0: more weight on it lowers their loss",
        name="influence_mean",
    )
    variance: Float[np.ndarray, " n"] = column(
        f"variance {_OF}", unit=f"({_UNIT})²", name="influence_variance"
    )
    skewness: Float[np.ndarray, " n"] = column(f"skewness {_OF}", name="influence_skewness")
    kurtosis: Float[np.ndarray, " n"] = column(
        f"kurtosis {_OF}", sign="3: as of a normal distribution", name="influence_kurtosis"
    )
    own: Float[np.ndarray, " n"] = column(
        "change of its own loss by more weight on the sample, at the same fit",
        unit=_UNIT,
        sign="below 0; large in size: a wrong label, or rare",
        name="influence_own",
    )
    total_mean: float
    total_variance: float
    total_variance_error: float
    n_partners: int
    ridge: float
    ids: np.ndarray = sample_ids()


def linear_influence(
    lin: Linearization,
    *,
    ridge: float,
    n_partners: int = MOST_PARTNERS,
    seed: int = 0,
    progress: Progress = silent,
) -> SampleInfluence:
    """Compute moments of each sample's influence on the others, at the linearised ridge fit.

    Args:
        lin: the linearisation.
        ridge: λ of the sum loss Σ ½‖f − y‖² + (λ/2)‖w − w₀‖², positive, kernel unit; the one that
            `label_issues` chooses has the least leave-one-out error.
        n_partners: samples that each sample is paired with, at least 3; all where n is not larger.
            Drawn once, the same for every sample.
        seed: of the draw.
        progress: called with (step, samples done, samples in all).

    Returns:
        Moments over partners. H is that of the penalised mean loss, without further damping.

    Raises:
        SettingError: ridge is not positive or n_partners is less than 3.
        DataError: fewer than 4 samples, or the fit leaves no error, so that X is 0.

    Cost: 2 n p (b p + s) operations for s partners from features, 2 n p s from a kernel, and
    2 n s c; a panel and s p values.
    Source: S4 §3 and Koh and Liang (2017), squared error; METHODS §4. Exact for the linearised
    network: the gradient of its loss is 0 by construction.
    """
    if not 0 < ridge < float("inf"):
        raise SettingError(
            f"ridge must be positive, so that the loss has one minimum; got {ridge}. Take "
            "label_issues(lin).ridge."
        )
    at_least("n_partners", n_partners, 3)
    n = len(lin)
    if n < 4:
        raise DataError(f"influence needs at least 4 samples; got {n}. Add samples.")
    partners = np.sort(np.random.default_rng(seed).permutation(n)[:n_partners])
    minimum = _Minimum(lin, ridge, torch.as_tensor(partners), progress)
    sums = _Sums(n, len(partners))
    all_panels = list(panels(n, minimum.values_each))
    results = lin.engine.map(_Minimum.moments, minimum, all_panels)
    for panel, panel_sums in zip(all_panels, results, strict=True):
        sums.add(panel, *panel_sums)
        progress("influence on others", panel.stop, n)
    return sums.result(ridge, lin.ids)


class _Minimum:
    """The ridge fit, and X between its samples and the partners, a panel at a time.

    A sample has b rows in the eigenbasis Q of the kernel, ℓ its eigenvalues, and c outputs a row.
    X(z, z′) = −n (u_z · u_z′)(v_z · v_z′) with scaled = rows √(metric / (ℓ + λ)). Outputs that
    share a row (b = 1): u = scaled, v = e. A row per output (c = 1): u = Σ_b e_b scaled_b, v = 1.

    Where the fit is near the labels (λ below every eigenvalue of a whole basis Q), u · u′ and f − y
    are small differences of large numbers. There QQᵀ = I gives them from the remainder: with the
    residual r = y − f₀, the fit's H = I − R, R = Q λ/(ℓ + λ) Qᵀ, and e = −R r. Then
    scaled = rows √(λ / (ℓ + λ)), and X has the other sign, less n ‖e‖² on the diagonal.
    """

    def __init__(self, lin: Linearization, ridge: float, partners: Tensor, progress: Progress):
        basis = eigenbasis(lin, progress)
        self._basis = basis.sent
        self._residual = lin.residual
        self._partner_idx = partners
        damped = basis.eigenvalues + ridge
        weights = basis.project(self._residual) / damped[:, None]  # [p, c]
        self._is_near = basis.complete and float(basis.eigenvalues[0]) > ridge
        if self._is_near:
            self._weights = -ridge * weights
            numerator = torch.full_like(basis.metric, ridge)
        else:
            self._weights = basis.metric[:, None] * weights
            numerator = basis.metric
        self._scale = (numerator / damped).sqrt()
        # Σ_z rows_zᵀ e_z = −λ W at the minimum: the sum over all partners needs no pass.
        self._sum = -ridge * self._scale[:, None] * weights
        rows = basis.rows
        if isinstance(rows, FeatureRows):
            partner_rows = rows.select(partners)
        else:
            partner_rows = rows[partners]
        u, self._partner_v, _ = self._gradient_factors(partner_rows, partners)
        self._partner_u = operand(u, basis.products, basis.device)  # [s, p]
        self.values_each = (lin.rows_per_sample + 2) * rows.shape[2] + 4 * len(partners)

    def _gradient_factors(
        self, rows: Float[Tensor, "g b p"], idx: Tensor | slice
    ) -> tuple[Float[Tensor, "g p"], Float[Tensor, "g v"], Float[Tensor, " g"]]:
        """Return u, v with ∇ℓ_i = u vᵀ in the basis, of some samples, and ‖e‖², [g]."""
        errors = rows @ self._weights  # f − y at the minimum, [g, b, c]
        if not self._is_near:
            errors = errors - self._residual[idx]
        squared_error = errors.square().sum((1, 2))
        if errors.shape[1] == 1:
            return rows[:, 0] * self._scale, errors[:, 0], squared_error
        u = torch.einsum("gbp,gb->gp", rows, errors[:, :, 0]) * self._scale
        return u, torch.ones(len(rows), 1, dtype=torch.float64), squared_error

    def influence(self, panel: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return influence X of a panel on the partners, [g, s], on itself, [g], and Σ, [g]."""
        # panel: g consecutive samples. Σ: the sum of X over all other samples.
        n = len(self._residual)
        factor = n if self._is_near else -n
        u, v, squared_error = self._gradient_factors(self._basis.rows[panel], panel)
        u_operand = operand(u, self._basis.products, self._basis.device)
        u_products = product(u_operand, self._partner_u.T, self._basis.products).double().cpu()
        on_partners = factor * (u_products * (v @ self._partner_v.T))
        on_self = factor * (u.square().sum(1) * v.square().sum(1))
        on_others = factor * ((u @ self._sum) * v).sum(1) - on_self
        if self._is_near:  # the diagonal of H = I − R
            on_self = on_self - n * squared_error
        return on_partners, on_self, on_others

    def moments(self, panel: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return a panel's moments of influence, [5, g], and sums of X and X² by partner, [s]."""
        # The moments are mean, variance, skewness, kurtosis and X(z, z).
        x, on_self, on_others = self.influence(panel)
        n = len(self._residual)
        s = len(self._partner_idx)
        is_self = self._partner_idx[None] == torch.arange(panel.start, panel.stop)[:, None]
        n_others = s - is_self.sum(1)
        mean = on_others / (n - 1)
        x = x.masked_fill(is_self, 0.0)
        # Centred on the mean over all others, so that the variance over those drawn is unbiased.
        central = (x - mean[:, None]).masked_fill_(is_self, 0.0)
        squares = central.square()
        variance = squares.sum(1) / n_others
        scale = torch.where(variance > 0, variance, 1.0)
        # Powers of these would leave float64: such rows are brought to variance 1 before.
        is_extreme = (scale < 1e-140) | (scale > 1e140)
        central[is_extreme] /= scale[is_extreme, None].sqrt()
        squares[is_extreme] = central[is_extreme].square()
        scale[is_extreme] = 1.0
        skewness = (squares * central).sum(1) / n_others / scale**1.5
        kurtosis = squares.square().sum(1) / n_others / scale**2
        moments = torch.stack([mean, variance, skewness, kurtosis, on_self])
        return moments, x.sum(0), x.square().sum(0)


class _Sums:
    """Moments of each sample over its partners, and sums of each partner over the samples."""

    def __init__(self, n: int, n_partners: int):
        self._n = n
        self._n_partners = n_partners
        self._moments = torch.empty(5, n, dtype=torch.float64)
        self._x_sum = torch.zeros(n_partners, dtype=torch.float64)
        self._x2_sum = torch.zeros(n_partners, dtype=torch.float64)

    def add(self, panel: slice, moments: Tensor, x_sum: Tensor, x2_sum: Tensor) -> None:
        """Add one panel's results, as `_Minimum.moments` returns them."""
        self._moments[:, panel] = moments
        self._x_sum += x_sum
        self._x2_sum += x2_sum

    def result(self, ridge: float, ids: np.ndarray) -> SampleInfluence:
        """Return the result of all panels; raise if influence is the same for all pairs."""
        mean, variance, skewness, kurtosis, on_self = self._moments
        total_mean = float(mean.mean())
        # A sample is no partner of its own: each partner met n − 1 others.
        n_others = self._n - 1
        # Of each partner, E[(X − total mean)²] over the samples.
        squared = (self._x2_sum - 2 * total_mean * self._x_sum) / n_others + total_mean**2
        total_variance = float(squared.mean())
        if not total_variance > 0:
            raise DataError(
                f"influence must differ between pairs of samples; it is {total_mean:.3g} for all. "
                "The samples are identical or fitted without any error: add others."
            )
        s = self._n_partners
        error = float(squared.std()) * ((1 - s / self._n) / s) ** 0.5
        return SampleInfluence(
            *(m.numpy() for m in (mean, variance, skewness, kurtosis, on_self)),
            total_mean=total_mean,
            total_variance=total_variance,
            total_variance_error=error,
            n_partners=s,
            ridge=ridge,
            ids=ids,
        )


def _is_left_out(options: Mapping[str, Any], n: int) -> bool:
    """Return whether a run skips it: for many samples, where no section of a page shows it."""
    return options.get("attribution") == "none" and n > MANY


def _score_run(context: Context) -> SampleInfluence | None:
    """Return influence moments of a run's samples; None where left out, or undefined."""
    if _is_left_out(context.options, len(context.train)):
        return None
    lin = context.lin
    progress = context.progress
    ridge = context.results["label_issues"].ridge
    if isnan(ridge):  # the user's model has none: the network's fit has its own
        ridge = ridge_fit(lin, progress).penalty
    try:
        return linear_influence(lin, ridge=ridge, seed=context.seed, progress=progress)
    except DataError:  # too few samples, or fitted without error
        return None


def influence_steps(sizes: Sizes) -> list[PlanStep]:
    """Return the planned work of `linear_influence`: products and moments; [] if left out."""
    n = sizes.train
    p = sizes.eigenproblem
    n_partners = min(n, MOST_PARTNERS)
    if _is_left_out(sizes.options, n):
        return []
    row_values = 0
    if not sizes.is_dual:  # rows are computed from features, once for the partners, once for all
        row_values = 2 * n * sizes.rows * p
    flops = 2.0 * p * (n * n_partners + row_values)
    work = {sizes.products: flops, "values": PAIR_VALUES * n * n_partners}
    n_bytes = step_bytes(sizes.form)["influence"]
    return [PlanStep("influence", f"{n_partners} partners per sample", n_bytes, work)]


SCORE = Score(
    name="influence",
    help="How much more weight on a sample changes the loss of the others.",
    compute=_score_run,
    is_in_text=True,
    needs=("label_issues",),
    cost=influence_steps,
)
