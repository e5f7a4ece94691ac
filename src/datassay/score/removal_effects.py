"""How much each sample's removal would lower the variance of influence, at four levels of truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import nn

from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import OutputGeometry, output_geometry
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.influence_moments import influence_variance
from datassay.score.settings import Influence
from datassay.score.variance.orders import adjoint, fixed, refit, step
from datassay.score.variance.pair_influence import check_penalties, geometry_influence

ORDERS = ("fixed", "adjoint", "step", "retrain")


@result
class RemovalEffects(Tabular):
    """δ(z) of every sample.

    Attributes:
        effect: [n], δ(z) = V[Z] − V[Z∖z], squared unit of X. Positive: without the sample the
            variance is lower.
        variance: V[Z].
        ids: [n].
        order: how it was computed.
        exact: [n], whether V[Z∖z] was recomputed at weights without the sample: always for "step"
            and "retrain", for other orders the `rerank` largest effects.
        gradient_norm: of the penalised mean loss; the orders assume that it is near 0.
        ridge: of the training.
        damping: added to the Hessian.
    """

    effect: Float[np.ndarray, " n"]
    variance: float
    ids: np.ndarray
    order: str
    exact: np.ndarray
    gradient_norm: float
    ridge: float
    damping: float

    @property
    def mean_effect(self) -> float:
        """(V − mean of V[Z∖z]) · (n − 2)/V; data contradict the +2 of S4's Theorem 2."""
        return float(self.effect.mean() * (len(self.effect) - 2) / self.variance)

    @property
    def ranking(self) -> np.ndarray:
        """[n] positions, the largest effect first."""
        return np.argsort(-self.effect, kind="stable")

    def to_table(self) -> pa.Table:
        """One row per sample: id, removal_effect."""
        return pa.table({"id": self.ids, "removal_effect": self.effect})


@checks_arguments
def removal_effects(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Influence.loss,
    ridge: float = Influence.ridge,
    damping: float = Influence.damping,
    order: str = "adjoint",
    rerank: int = 0,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> RemovalEffects:
    """How much each sample's removal lowers V[X], the variance of influence over pairs.

    Args:
        model: at weights trained on `train`, as `pair_influence` takes it.
        train: n ≥ 3 samples.
        loss: training loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        ridge: of the training, (ridge/2)‖θ‖² added to the mean loss.
        damping: added to the Hessian of the penalised mean loss.
        order: "fixed" (only the pairs of z are dropped), "adjoint" (H on n − 1 samples exactly, θ
            to first order), "step" (S4's code: one Newton-like step, then everything recomputed, n
            times) or "retrain" (the minimum without z, n times; a dense last layer only).
        rerank: how many of the largest effects to recompute at the refitted weights (linear models
            with a ridge; others by "step").
        projection: of the Jacobians: features per tensor, None for all, "auto" for as many as fit.
        seed: of the projection.
        progress: called with (step, units done, units in all).

    Returns:
        The effects.

    Raises:
        SettingError: a setting is out of range, or the Hessian is singular.
        DataError: fewer than 3 samples or 2 classes, or X is the same for all pairs.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: see each order; "adjoint" is a few times `influence_moments`.
    Source: S4 §4 and METHODS §4. S4's Theorem 2 (mean effect 2 V/n) does not hold as printed: its
    Lemma 6 has a sign error; `mean_effect` is the measured figure.
    """
    check_penalties(ridge, damping)
    check_sets(train, None)
    check_pairs_remain(train)
    if order not in ORDERS:
        names = ", ".join(repr(name) for name in ORDERS)
        raise SettingError(f"order must be one of {names}; got {order!r}.")
    require(0 <= rerank <= len(train), "rerank", f"lie in 0..{len(train)}", rerank)
    geometry = output_geometry(
        model, train, loss, projection=projection, seed=seed, progress=progress
    )
    return geometry_effects(
        geometry,
        train.ids,
        ridge=ridge,
        damping=damping,
        order=order,
        rerank=rerank,
        progress=progress,
    )


def geometry_effects(
    geometry: OutputGeometry,
    ids: np.ndarray,
    *,
    ridge: float,
    damping: float,
    order: str,
    rerank: int = 0,
    progress: Progress = silent,
) -> RemovalEffects:
    """`removal_effects` from a computed geometry.

    Args:
        geometry: the model and its n ≥ 3 samples.
        ids: theirs.
        ridge: of the mean loss.
        damping: added to its Hessian.
        order: one of ORDERS.
        rerank: as in `removal_effects`.
        progress: called with (step, removals done, removals in all).

    Returns:
        The effects.

    Raises:
        SettingError: a Hessian is singular, or the order does not suit the model.
        DataError: X is the same for all pairs.
    """
    pairs = geometry_influence(geometry, ids, ridge, damping)
    variance = influence_variance(pairs)
    everyone = torch.arange(len(geometry))
    exact = np.zeros(len(geometry), bool)
    if order in {"fixed", "adjoint"}:
        effect = fixed(pairs.rows) if order == "fixed" else adjoint(geometry, ridge, damping)
        chosen = effect.argsort(descending=True)[:rerank]
        if rerank:
            again = refit if geometry.is_linear and ridge > 0 else step
            effect[chosen] = variance - again(geometry, ridge, damping, chosen, progress)
            exact[chosen.numpy()] = True
    else:
        again = {"step": step, "retrain": refit}[order]
        effect = variance - again(geometry, ridge, damping, everyone, progress)
        exact[:] = True
    return RemovalEffects(
        effect.numpy(), variance, ids, order, exact, pairs.gradient_norm, ridge, damping
    )


def check_pairs_remain(train: SampleSet) -> None:
    """Refuse fewer than 3 samples: pairs must remain without one."""
    if len(train) < 3:
        raise DataError(f"samples must be at least 3, so that pairs remain; got {len(train)}.")
