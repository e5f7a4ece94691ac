"""Retraining real networks: what removal costs, and the comparison with baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool

from datassay.act.remove.baselines import Contest, detection_contest, removal_contest
from datassay.act.remove.removal_curve import (
    HIGHEST_FIRST,
    ISSUES_FIRST,
    LOWEST_FIRST,
    SUSPECTS_FIRST,
    RemovalCurve,
    removal_curve,
    task_recipe,
    train_all,
    usable_fractions,
)
from datassay.act.remove.summarize import suspects_first
from datassay.data.samples import wrong_labels
from datassay.results import result
from datassay.score.compare.retraining_check import Baselines, baselines
from datassay.score.registry import Context
from datassay.store.results import ResultStore
from datassay.train.folds import judging
from datassay.train.learner import Estimators
from datassay.train.training import TrainedNetworks, sample_losses

LOWEST_LOSS_FIRST = "lowest loss first"
LARGEST_MARGIN_FIRST = "largest margin first"
CONTEST_FRACTION = 0.5
NOT_JUDGED = "left out: R² needs validation targets that differ"
FIFTHS = (
    "each network is judged on another fifth of the samples, which it never saw; the scores, which "
    "rank the rest, know all of them"
)
# Fewer suspects than this cannot move a validation accuracy measurably.
FEWEST_SUSPECTS = 10


@result
class RetrainedNetworks:
    """What retraining real networks gave; empty when it was switched off."""

    baselines: Baselines | None = None  # loss and margin of the networks trained on all samples
    curve: RemovalCurve | None = None  # what removing samples costs
    contests: tuple[Contest, ...] = ()  # our rankings compared with their baselines
    networks: TrainedNetworks | None = None  # those trained on all samples, one per seed
    facts: dict[str, str] = field(default_factory=dict)  # how the networks were trained


def retrain_and_compare(
    models: list,
    context: Context,
    adversarial: Bool[np.ndarray, " n"] | None = None,
    store: ResultStore | None = None,
    own: Any = None,
    name: str = "networks",
) -> RetrainedNetworks:
    """Train networks on all samples and on what each ranking keeps, and compare the rankings.

    Without a validation part each network of the comparison gives up another fifth of the samples,
    on which it is judged; the rankings then order the rest. The user's own model, where there is
    one, is retrained in the networks' place.

    Returns:
        Losses and margins, the removal curve, and the comparison with baselines.
    """
    train, val, seed, progress = context.train, context.val, context.seed, context.progress
    results = context.results
    info, issues = results["information"].information, results["label_issues"]
    parts = judging(train, val, len(models), seed)
    if not parts.is_possible:
        return RetrainedNetworks(facts={"Retraining": NOT_JUDGED})
    recipe = task_recipe(train)
    trained = train_all(models, train, recipe, seed, progress, store)
    outputs = trained.outputs(train.x)
    losses = sample_losses(outputs, train, recipe)
    others = baselines(
        outputs.numpy(), losses.double().numpy(), train.y, train.ids,
        is_classification=train.is_classification,
    )  # fmt: skip
    scores = {
        "label issue score": issues.score,
        "information": info,
        "final loss": others.loss,
        "smallest margin": -others.margin,
    }
    rankings = {
        LOWEST_FIRST: np.argsort(info, kind="stable"),
        HIGHEST_FIRST: np.argsort(-info, kind="stable"),
        LOWEST_LOSS_FIRST: np.argsort(others.loss, kind="stable"),
        LARGEST_MARGIN_FIRST: np.argsort(-others.margin, kind="stable"),
    }
    if issues.is_issue.any():
        rankings[SUSPECTS_FIRST] = suspects_first(info, issues)
    whole = trained
    if val is None and own is None:
        whole = train_all(models, train, recipe, seed, progress, store, parts.rest)
    if own is None:
        curve_of = partial(removal_curve, models, train, val, trained=whole, store=store)
    else:
        fits = Estimators(own, len(models), seed, dtype=None)
        curve_of = partial(removal_curve, fits, train, val)
    curve = curve_of(
        rankings, fractions=usable_fractions(parts.rest.shape[1]), seed=seed, progress=progress,
        only=dict.fromkeys((LOWEST_LOSS_FIRST, LARGEST_MARGIN_FIRST), CONTEST_FRACTION),
    )  # fmt: skip
    contests = _removal_contests(curve)
    wrong = wrong_labels(train)
    if wrong is not None and wrong.any() and not wrong.all():
        order = ("label issue score", "final loss", "smallest margin", "information")
        contests.append(detection_contest(wrong, {name: scores[name] for name in order}, seed))
    else:
        contests += _suspects_contest(curve_of, context, others)
    if adversarial is not None and adversarial.any() and not adversarial.all():
        order = ("information", "label issue score", "final loss", "smallest margin")
        of, what = {name: scores[name] for name in order}, "the adversarial samples"
        contests.append(detection_contest(adversarial, of, seed, what=what, n_ours=2))
    updates = f"{recipe.optimizer}, {recipe.steps} updates of {recipe.batch_size}"
    updates = f"{name}, {updates}" if own is None else f"{type(own).__name__}, fitted anew"
    facts = {"Retraining": updates + ("" if val is not None else f"; {FIFTHS}")}
    return RetrainedNetworks(others, curve, tuple(contests), trained, facts)


def _removal_contests(curve: RemovalCurve) -> list[Contest]:
    """Our rankings beside their rivals with half of the samples removed, where 2 then remain."""
    if CONTEST_FRACTION not in curve.fractions:
        return []
    measure = f"{curve.metric} after removing half of the samples (higher is better)"
    ours = [name for name in (LOWEST_FIRST, SUSPECTS_FIRST) if name in curve.rankings]
    others = [LOWEST_LOSS_FIRST, LARGEST_MARGIN_FIRST]
    return [removal_contest(curve, CONTEST_FRACTION, measure, ours, others)]


def _suspects_contest(
    curve_of: Callable[..., RemovalCurve], context: Context, rivals: Baselines
) -> list[Contest]:
    """Label scores where no truth is known: by what removing the suspects does."""
    issues, train = context.results["label_issues"], context.train
    n_suspects = int(issues.is_issue.sum())
    if not FEWEST_SUSPECTS <= n_suspects <= len(train) // 2:
        return []
    ours, *others = ISSUES_FIRST, "highest loss first", "smallest margin first"
    rankings = {
        ours: np.argsort(-issues.score, kind="stable"),
        others[0]: np.argsort(-rivals.loss, kind="stable"),
        others[1]: np.argsort(rivals.margin, kind="stable"),
    }
    fraction = n_suspects / len(train)
    curve = curve_of(
        rankings, fractions=[fraction], seed=context.seed,
        progress=lambda _, *counts: context.progress("retrain without suspects", *counts),
    )  # fmt: skip
    measure = f"{curve.metric} after removing the {n_suspects} most suspect labels"
    return [removal_contest(curve, fraction, f"{measure} (higher is better)", [ours], others)]
