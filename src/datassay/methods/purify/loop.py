"""Remove the samples that raise the variance of influence, refit, repeat, and stop in time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import gammaincinv
from torch import Tensor, nn

from datassay.act.remove.rules import rank_within_group
from datassay.collect.collection import collect
from datassay.collect.curvature.output_geometry import OutputGeometry
from datassay.collect.curvature.output_loss import output_score
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.machine import threads_for
from datassay.methods.purify.arguments import check_arguments, resolve_auto
from datassay.methods.purify.cross_fit import PARTS, CrossFit, cross_fit
from datassay.methods.purify.settings import BY_CROSS_FIT, BY_LABELS, RIDGE, Removal
from datassay.methods.purify.stopping import (
    SMOOTHED,
    held_out_stop,
    inflection_stop,
    validation_stop,
)
from datassay.optional import select_rows
from datassay.progress import Progress, silent
from datassay.results import Tabular, field_names, result
from datassay.score.influence_moments import influence_variance
from datassay.score.label_issues import label_issues
from datassay.score.removal_effects import geometry_effects
from datassay.score.settings import REMOVAL_ORDERS
from datassay.score.variance.pair_influence import geometry_influence
from datassay.train.fitter import ConvexFitter, Fitted, Fitter, fitter
from datassay.train.folds import fold_numbers
from datassay.train.recipe import Recipe

STEP = "purify"
LIMIT = (
    "removal went on to its limit of {} samples and what was removed last was still foreign; raise "
    "max_fraction, or ask whether the data have a majority to keep (partition)."
)


@result
class PurificationTrace(Tabular):
    """Measurements before the first step and after each one; s + 1 points.

    Attributes:
        removed: samples removed so far.
        variance: V[X] of what is kept, under the model fitted to it.
        loss: mean loss of what is kept, nats or half squared target units.
        surprise: mean negative log-likelihood, in nats, of the labels removed in the step, under
            the model refitted without them; NaN at the first point.
        validation: accuracy or R² on the validation set; NaN without one.
        test: the same on the test set, which no decision sees; NaN without one.
    """

    removed: Int[np.ndarray, " points"]
    variance: Float[np.ndarray, " points"]
    loss: Float[np.ndarray, " points"]
    surprise: Float[np.ndarray, " points"]
    validation: Float[np.ndarray, " points"]
    test: Float[np.ndarray, " points"]

    def to_table(self) -> pa.Table:
        """Return one row per point."""
        return pa.table({name: getattr(self, name) for name in field_names(self)})


@result
class Purification(Tabular):
    """The samples to keep, and how they were chosen.

    Attributes:
        keep: [kept] positions, ascending.
        removed: [n − kept] positions, in the order of removal.
        ids: [n].
        trace: measurements of every step, those beyond the stop included.
        steps: how many steps were kept; the point of the trace where it stopped.
        order: the ranking that was used.
        rule: the stopping rule that was used.
        threshold: of the rule "held_out", nats; NaN for others.
        model: the network fitted to what is kept.
        ridge: of that fit, where the model is linear.
        cross_fit: what cross-fitting found; None by another order.
        warnings: what the user should know.
    """

    keep: Int[np.ndarray, " kept"]
    removed: Int[np.ndarray, " removed"]
    ids: np.ndarray
    trace: PurificationTrace
    steps: int
    order: str
    rule: str
    threshold: float
    model: nn.Module
    ridge: float
    cross_fit: CrossFit | None = None
    warnings: tuple[str, ...] = field(default=())

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, removed, and the step of its removal (0: kept)."""
        step = np.zeros(len(self.ids), np.int64)
        sizes = np.diff(self.trace.removed[: self.steps + 1])
        step[self.removed] = np.repeat(np.arange(1, self.steps + 1), sizes)
        return pa.table({"id": self.ids, "removed": step > 0, "step": step})


@checks_arguments
def purify(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    test: SampleSet | None = None,
    loss: str = Removal.loss,
    ridge: float | None = Removal.ridge,
    damping: float = Removal.damping,
    order: str = Removal.order,
    stop: str = Removal.stop,
    threshold: float | None = Removal.threshold,
    step: int | None = Removal.step,
    max_fraction: float = Removal.max_fraction,
    min_per_class: int = Removal.min_per_class,
    beyond: int = Removal.beyond,
    recipe: Recipe | None = None,
    layers: str = Removal.layers,
    projection: int | str | None = Removal.projection,
    seed: int = Removal.seed,
    progress: Progress = silent,
) -> Purification:
    """Remove the samples that do not belong to the majority, a few at a time.

    Linear models lose the labels that a fit to the others finds less likely than half a blind
    guess, if that helps (`cross_fit`); networks the suspects of `label_issues`. For regressions, or
    by an order of influence (S4), each step fits the model to what is kept, ranks by
    δ(z) = V[Z] − V[Z∖z] and removes the largest.

    Args:
        model: at its starting weights. Where all that trains is one dense layer, each fit goes to
            the ridge-penalised minimum; other networks are trained anew from these weights.
        train: n samples.
        val: decides when to stop, where given.
        test: measured at each step and never used.
        loss: "cross_entropy", "mse", or "auto": by the task.
        ridge: of linear models, (ridge/2)‖θ‖² added to the mean loss. None: by "cross_fit" what
            predicts left-out labels best, else 1e-4.
        damping: added to the Hessian for V.
        order: which samples go first.
            - "cross_fit": the least likely labels (linear models, cross-entropy).
            - One of `removal_effects`: the largest effects.
            - "label_issues": of classes, by the network linearised at its starting weights, once.
            - "loss" (the highest training loss), "random": baselines.
            - "auto": "cross_fit" where it can be had, "label_issues" for networks that classify;
              else "adjoint" from 4 samples a weight, where it follows true removal, or "fixed".
        stop: when removal ends.
            - "held_out": by the likelihood of what was removed last; needs no clean set.
            - "validation", "inflection": at the best validation score, or where V falls slower.
            - "suspects": with all that order "cross_fit" or "label_issues" finds foreign.
            - "none": at max_fraction.
            - "auto": "validation" where val is given and was not split off the same data;
              "suspects" by those two orders; else "held_out".
        threshold: of "held_out", nats; None is log 2K for linear models, log 4K for others.
        step: samples removed per step; None: n/100, n/10 by "cross_fit", n/40 where it trains.
        max_fraction: of the samples, never more are removed.
        min_per_class: a class is never left with fewer (or with fewer than it has).
        beyond: further steps to trace after "held_out" has stopped; they are not removed.
        recipe: how networks train; None is Adam, 300 updates of 64 samples.
        layers: of networks, whose influence: "last", the last dense layer alone (exact for it, and
            cheap), or "all" that train, by Gauss-Newton.
        projection: of the Jacobians where layers is "all".
        seed: of batches, projection, held-out parts and "random".
        progress: called with (step, samples removed, most that may be).

    Returns:
        The samples to keep, those removed, and the trace.

    Raises:
        SettingError: a setting is out of range.
        DataError: fewer than 3 samples, fewer than 2 classes, or inputs that are all the same.
        ModelError: outputs do not fit the targets or are not finite.

    Cost: a fit, V or `removal_effects` and an evaluation per step; other orders' scores once.
    Source: S4 §4 (Figs 4, 6, 8), whose every step retrains or recomputes n times; "cross_fit", the
    stopping rules and the protection of small classes are ours. Influence is no default: with 30 %
    wrong labels in 240 digits it costs a linear model 17 points (`papers/s4_purify/orders`).
    """
    settings = Removal(
        loss, ridge, damping, order, stop, threshold, step, max_fraction, min_per_class, beyond,
        layers, projection, seed,
    )  # fmt: skip
    check_arguments(train, val, settings)
    extra_sets = [samples for samples in (val, test) if samples is not None]
    penalty = ridge or RIDGE
    fit = fitter(
        model, train, extra_sets, loss=loss, ridge=penalty, recipe=recipe, layers=layers,
        projection=projection, seed=seed,
    )  # fmt: skip
    has_val = val is not None and not val.split_off  # a part of the user's own
    settings = resolve_auto(settings, train, has_val, fit)
    with threads_for(len(train) * sum(p.numel() for p in model.parameters() if p.requires_grad)):
        suspicion = None
        crossed = None
        if settings.order == BY_LABELS:
            lin = collect(model, train, projection=projection, seed=seed, progress=progress)
            issues = label_issues(lin, groups=train.groups, progress=progress)
            suspicion = _Suspicion(issues.score, issues.to_try)
        elif settings.order == BY_CROSS_FIT:
            assert isinstance(fit, ConvexFitter)
            by_id = np.argsort(train.ids)  # folds do not depend on the order of the rows
            targets = fit.geometry.targets[by_id]
            groups = select_rows(train.groups, by_id)
            folds = torch.empty(len(train), dtype=torch.int64)
            folds[by_id] = fold_numbers(targets, "cross_entropy", PARTS, seed, groups)
            crossed = cross_fit(fit.geometry, folds, ridge=ridge, progress=progress)
            suspicion = _Suspicion(crossed.surprise.numpy(), crossed.is_foreign.numpy())
            penalty = crossed.ridge
            fit = replace(fit, ridge=penalty)
        job = _Job(train, val, test, settings, penalty, np.random.default_rng(seed), suspicion)
        return replace(job.run(fit, progress), cross_fit=crossed)


@result
class _Suspicion:
    """How suspect each sample is, and whether it may go at all."""

    score: Float[np.ndarray, " n"]
    may_go: Bool[np.ndarray, " n"]


@dataclass(slots=True, eq=False)
class _Job:
    samples: SampleSet
    val: SampleSet | None
    test: SampleSet | None
    settings: Removal
    ridge: float
    rng: np.random.Generator
    suspicion: _Suspicion | None  # None by another order

    def run(self, fit: Fitter, progress: Progress) -> Purification:
        """Fit, rank, remove and fit again until the rule stops; return what was removed."""
        n = len(self.samples)
        settings = self.settings
        keep = torch.arange(n)
        fitted = fit.fit(keep)
        if settings.order == "auto":
            order = "adjoint" if 4 * fitted.geometry.features.n_parameters <= n else "fixed"
            settings = self.settings = replace(settings, order=order)
        points = []
        batches = []  # of removed samples, their positions
        stop = None  # steps to keep, once the rule "held_out" has decided
        surprise = float("nan")
        while True:
            kept_geometry = fitted.geometry.subset(keep)
            variance, ranking = self.rank(kept_geometry, keep.numpy())
            points.append(self.point(kept_geometry, fitted.other_outputs, variance, surprise))
            if settings.stop == "held_out":
                surprises = np.array([point["surprise"] for point in points[1:]])
                stop = held_out_stop(surprises, settings.threshold or 0.0)
                if stop is not None and len(batches) >= max(stop + 1, SMOOTHED) + settings.beyond:
                    break
            batch = self.batch(keep, ranking)
            if not len(batch):
                break
            batches.append(keep[batch].numpy())
            keep = torch.as_tensor(np.setdiff1d(keep.numpy(), batches[-1]))
            fitted = fit.fit(keep, fitted)
            surprise = _compute_surprise(fitted, keep, torch.as_tensor(batches[-1]), self.samples)
            progress(STEP, n - len(keep), int(settings.max_fraction * n))
        names = field_names(PurificationTrace)
        trace = PurificationTrace(**{name: np.array([p[name] for p in points]) for name in names})
        steps = len(batches)
        if settings.stop == "validation":
            steps = validation_stop(trace.validation)
        elif settings.stop == "inflection":
            steps = inflection_stop(trace.variance)
        elif stop is not None:
            steps = stop
        removed = np.concatenate([np.empty(0, np.int64), *batches[:steps]])
        keep_idx = np.setdiff1d(np.arange(n), removed)
        held_out = settings.stop == "held_out"
        return Purification(
            keep=keep_idx,
            removed=removed,
            ids=self.samples.ids,
            trace=trace,
            steps=steps,
            order=settings.order,
            rule=settings.stop,
            threshold=float(settings.threshold or 0) if held_out else float("nan"),
            model=fit.final(torch.as_tensor(keep_idx)),
            ridge=self.ridge,
            warnings=(LIMIT.format(len(removed)),) if held_out and stop is None and steps else (),
        )

    def rank(
        self, geometry: OutputGeometry, keep: Int[np.ndarray, " kept"]
    ) -> tuple[float, Int[np.ndarray, " kept"]]:
        """Return V of the kept samples, and their positions in the order of removal."""
        settings = self.settings
        positions = np.arange(len(geometry))
        if settings.order in REMOVAL_ORDERS:
            effects = geometry_effects(
                geometry,
                positions,
                ridge=self.ridge,
                damping=settings.damping,
                order=settings.order,
            )
            return effects.variance, effects.ranking
        pairs = geometry_influence(geometry, positions, self.ridge, settings.damping)
        variance = influence_variance(pairs)
        if settings.order == "random":
            return variance, self.rng.permutation(len(geometry))
        if self.suspicion is not None:
            return variance, np.argsort(-self.suspicion.score[keep], kind="stable")
        assert settings.order == "loss"
        losses = geometry.losses().numpy()
        return variance, np.argsort(-losses, kind="stable")

    def batch(
        self, keep: Int[Tensor, " kept"], ranking: Int[np.ndarray, " kept"]
    ) -> Int[np.ndarray, " batch"]:
        """Return the next samples to remove, positions among the kept; small classes stay."""
        n = len(self.samples)
        settings = self.settings
        n_allowed = min(settings.step or 1, int(settings.max_fraction * n) - (n - len(keep)))
        if n_allowed <= 0:
            return ranking[:0]
        if not self.samples.is_classification:
            return ranking[:n_allowed]
        labels = self.samples.y[keep.numpy()][ranking]
        n_spare = np.maximum(0, np.bincount(labels) - settings.min_per_class)
        may_go = rank_within_group(labels) < n_spare[labels]  # the first n_spare of each class
        if settings.stop == "suspects" and self.suspicion is not None:
            may_go &= self.suspicion.may_go[keep.numpy()][ranking]
        return ranking[may_go][:n_allowed]

    def point(
        self, geometry: OutputGeometry, outputs: Sequence[Tensor], variance: float, surprise: float
    ) -> dict[str, float]:
        """Return name → number after a removal and refit: V, loss, surprise, scores."""
        sets = iter(outputs)  # of the validation set, then of the test set
        return {
            "removed": len(self.samples) - len(geometry),
            "variance": variance,
            "loss": float(geometry.losses().mean()),
            "surprise": surprise,
            "validation": np.nan if self.val is None else output_score(next(sets), self.val),
            "test": np.nan if self.test is None else output_score(next(sets), self.test),
        }


def _compute_surprise(fitted: Fitted, keep: Tensor, batch: Tensor, train: SampleSet) -> float:
    """Return the removed labels' mean negative log-likelihood under the refitted model."""
    geometry = fitted.geometry
    losses = geometry.losses(fitted.temperature)
    if train.is_classification and geometry.kind.has_one_class:
        return float(losses[batch].mean())
    # Normal residuals z: ½ z² + ½ log 2π, averaged over k targets. Their variance is taken from the
    # median of the kept samples' losses, which foreign ones among them do not stretch.
    k = geometry.outputs.shape[1]
    variance = losses[keep].median() / gammaincinv(k / 2, 0.5)  # the median of χ²_k / 2
    variance = variance.clamp_min(torch.finfo(losses.dtype).tiny)
    return float(losses[batch].mean() / (k * variance) + 0.5 * np.log(2 * np.pi))
