"""How much each sample's removal would lower the variance of influence, at four levels of truth."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import OutputGeometry, output_geometry
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import one_of, require
from datassay.score.influence_moments import influence_variance, raw_moments
from datassay.score.information.groups import named_groups
from datassay.score.settings import REMOVAL_ORDERS, Influence
from datassay.score.variance.orders import adjoint, drop_pairs, refit, step
from datassay.score.variance.pair_influence import (
    check_penalties,
    geometry_influence,
    hessian_factor,
)
from datassay.train.convex import fit_convex

SET_ORDERS = ("fixed", "step", "retrain")


@result
class RemovalEffects(Tabular):
    """Effect δ(z) of each sample's removal on the variance of influence.

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
        """Mean of δ(z) · (n − 2)/V; measured ones contradict the +2 of S4's Theorem 2."""
        return float(self.effect.mean() * (len(self.effect) - 2) / self.variance)

    @property
    def ranking(self) -> np.ndarray:
        """Positions of the samples, [n], the largest effect first."""
        return np.argsort(-self.effect, kind="stable")

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, removal_effect."""
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
    """Compute how much removing each sample lowers V[X], the variance of influence over pairs.

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
    one_of("order", order, REMOVAL_ORDERS)
    require(0 <= rerank <= len(train), "rerank", f"lie in 0..{len(train)}", rerank)
    geometry = output_geometry(
        model, train, loss, projection=projection, seed=seed, progress=progress
    )
    return geometry_effects(
        geometry, train.ids, ridge=ridge, damping=damping, order=order, rerank=rerank,
        progress=progress,
    )  # fmt: skip


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
    """Compute `removal_effects` from a computed geometry.

    Args:
        geometry: the model and its n ≥ 3 samples.
        ids: theirs.
        ridge: of the mean loss.
        damping: added to its Hessian.
        order: one of REMOVAL_ORDERS.
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
    n = len(geometry)
    if order in {"fixed", "adjoint"}:
        if order == "fixed":
            effect = drop_pairs(pairs.rows)
        else:
            effect = adjoint(geometry, ridge, damping)
        # Both estimate V[X] without each sample; the largest effects are computed anew.
        recompute = refit if geometry.is_linear and ridge > 0 else step
        recomputed_idx = effect.argsort(descending=True)[:rerank]
    else:
        effect = torch.empty(n, dtype=torch.float64)
        recompute = {"step": step, "retrain": refit}[order]
        recomputed_idx = torch.arange(n)
    is_exact = np.zeros(n, bool)
    if len(recomputed_idx):
        variances = recompute(geometry, ridge, damping, recomputed_idx, progress)
        effect[recomputed_idx] = variance - variances
        is_exact[recomputed_idx.numpy()] = True
    return RemovalEffects(
        effect.numpy(), variance, ids, order, is_exact, pairs.gradient_norm, ridge, damping
    )


def check_pairs_remain(train: SampleSet) -> None:
    """Raise for fewer than 3 samples: pairs must remain without one."""
    if len(train) < 3:
        raise DataError(f"samples must be at least 3, so that pairs remain; got {len(train)}.")


@result
class SetEffects(Tabular):
    """Effects δ(M) of removing sets of samples, and moments E[X_M^k] without them, a row per set.

    Attributes:
        effect: [s], δ(M) = V[Z] − V[Z∖M], squared unit of X. Positive: without the set the variance
            is lower.
        moments: [s, powers], E[X_M^k] for k = 1, 2, ...: raw moments over the pairs left.
        before: [powers], E[X^k] with all samples.
        variance: V[Z].
        size: [s], samples in the set.
        names: [s], the labels, or the sets' positions in the list given.
        order: how it was computed.
    """

    effect: Float[np.ndarray, " s"]
    moments: Float[np.ndarray, "s powers"]
    before: Float[np.ndarray, " powers"]
    variance: float
    size: Int[np.ndarray, " s"]
    names: Shaped[np.ndarray, " s"]
    order: str

    def to_table(self) -> pa.Table:
        """Return one row per set: set, size, removal_effect, and each E[X_M^k]."""
        columns = {"set": self.names, "size": self.size, "removal_effect": self.effect}
        powers = {f"moment_{k}": moment for k, moment in enumerate(self.moments.T, 1)}
        return pa.table(columns | powers)


@checks_arguments
def set_effects(
    model: nn.Module,
    train: SampleSet,
    sets: Sequence[np.ndarray] | Shaped[np.ndarray, " n"],
    *,
    loss: str = Influence.loss,
    ridge: float = Influence.ridge,
    damping: float = Influence.damping,
    order: str = "step",
    powers: int = 2,
    projection: int | str | None = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> SetEffects:
    """Compute how much removing a whole set M lowers V[X], and the moments of X without it.

    The δ(z) of its samples do not add up to δ(M): a planted part hides behind itself.

    Args:
        model: at weights trained on `train`, as `pair_influence` takes it.
        train: n ≥ 3 samples.
        sets: positions of each set's samples, one array per set, or one label per sample, [n], such
            as its class or source; each leaves at least 3 samples.
        loss: training loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        ridge: of the training, (ridge/2)‖θ‖² added to the mean loss.
        damping: added to the Hessian of the penalised mean loss.
        order: "fixed" (only the pairs of M are dropped), "step" (one Newton-like step without M,
            then everything recomputed) or "retrain" (the minimum without M; a dense last layer).
        powers: highest moment, from 2.
        projection: of the Jacobians: features per tensor, None for all, "auto" for as many as fit.
        seed: of the projection.
        progress: called with (step, sets done, sets in all).

    Returns:
        The effects.

    Raises:
        SettingError: a setting or a set is out of range, or a Hessian is singular.
        DataError: X is the same for all pairs.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: per set that of `pair_influence`, a fit for "retrain", and of powers above 2 n² p.
    Source: S4 §3, X_{u_η_M}: each X_M is of the model without M. Theorem 1's mean over all sets of
    a size, ks/(n − 2) · E[X^k], does not hold, as Theorem 2 does not.
    """
    check_penalties(ridge, damping)
    check_sets(train, None)
    check_pairs_remain(train)
    one_of("order", order, SET_ORDERS)
    require(powers >= 2, "powers", "be at least 2", powers)
    names, members = named_groups(sets, len(train))
    fewest = len(train) - max(map(len, members))
    require(fewest >= 3, "sets", "each leave at least 3 samples", f"one that leaves {fewest}")
    geometry = output_geometry(
        model, train, loss, projection=projection, seed=seed, progress=progress
    )
    all_pairs = geometry_influence(geometry, train.ids, ridge, damping)
    variances = []
    moments = []
    for done, member_idx in enumerate(members, 1):
        keep = torch.ones(len(train), dtype=torch.bool)
        keep[member_idx] = False
        ids = train.ids[keep.numpy()]
        if order == "fixed":
            pairs = replace(all_pairs, rows=all_pairs.rows[keep], ids=ids)
        else:
            geometry_without = _remove_set(geometry, keep, ridge, damping, order)
            pairs = geometry_influence(geometry_without, ids, ridge, damping)
        variances.append(influence_variance(pairs))
        moments.append(raw_moments(pairs.rows, powers))
        progress("remove sets", done, len(members))
    variance = influence_variance(all_pairs)
    return SetEffects(
        effect=variance - np.array(variances),
        moments=np.stack(moments),
        before=raw_moments(all_pairs.rows, powers),
        variance=variance,
        size=np.array(list(map(len, members))),
        names=names,
        order=order,
    )


def _remove_set(
    geometry: OutputGeometry, keep: Tensor, ridge: float, damping: float, order: str
) -> OutputGeometry:
    """Return the geometry of the samples to keep, at weights without the others: see `order`."""
    # order: "retrain" fits them, "step" makes one Newton-like step.
    if order == "retrain":
        if geometry.weights is None:
            raise SettingError(
                "order='retrain' needs a model whose one dense layer trains; other layers train "
                "too. Freeze them (requires_grad_(False)), or take order='step'."
            )
        subset = geometry.subset(keep)
        fit = fit_convex(
            subset.features, subset.targets, subset.loss, ridge, start=geometry.weights[None]
        )
        return subset.move_to(fit.weights[0])
    slope, curvature = geometry.derivatives()
    mean_curvature = geometry.features.curvature(curvature) / len(geometry)
    factor = hessian_factor(mean_curvature, ridge + damping)
    share = (~keep).double()  # of each gradient in the sum over those removed
    if ridge > 0:  # as `removal_gradients` has it
        share -= share.mean()
    gradient = geometry.features.pullback(slope * share[:, None]) / len(geometry)
    move = torch.cholesky_solve(gradient[:, None], factor)[:, 0]
    weights = None
    if geometry.weights is not None:
        weights = geometry.weights + move
    outputs = geometry.outputs + geometry.features.outputs(move)
    return replace(geometry, outputs=outputs, weights=weights).subset(keep)
