"""Retraining real networks: their losses and margins, and what removal costs."""

from dataclasses import field
from typing import Any

import numpy as np

from datassay.act.remove.removal_curve import (
    HIGHEST_FIRST,
    LOWEST_FIRST,
    SUSPECTS_FIRST,
    RemovalCurve,
    removal_curve,
    task_recipe,
    train_all,
    usable_fractions,
)
from datassay.act.remove.summarize import suspects_first
from datassay.optional import text_if
from datassay.results import result
from datassay.score.compare.retraining_check import Baselines, baselines
from datassay.score.registry import Context
from datassay.store.results import ResultStore
from datassay.train.folds import make_splits
from datassay.train.learner import Estimators
from datassay.train.training import TrainedNetworks, sample_losses

NOT_JUDGED = "left out: R² needs validation targets that differ"
FIFTHS = (
    "each network is judged on another fifth of the samples, which it never saw; the scores, which "
    "rank the rest, know all of them"
)


@result
class RetrainedNetworks:
    """The results of retraining real networks; empty if that was switched off."""

    baselines: Baselines | None = None  # loss and margin of the networks trained on all samples
    curve: RemovalCurve | None = None  # what removing samples costs
    networks: TrainedNetworks | None = None  # those trained on all samples, one per seed
    facts: dict[str, str] = field(default_factory=dict)  # how the networks were trained


def retrained_networks(
    models: list,
    context: Context,
    store: ResultStore | None = None,
    estimator: Any = None,
    name: str = "networks",
) -> RetrainedNetworks:
    """Train networks on all samples and on what each ranking keeps.

    Without a validation part each network of the curve gives up another fifth of the samples, on
    which it is judged; the rankings then order the rest. The user's own model, where there is one,
    is retrained in the networks' place.

    Returns:
        Losses and margins, and the removal curve.
    """
    train = context.train
    val = context.val
    seed = context.seed
    progress = context.progress
    results = context.results
    info = results["information"].information
    issues = results["label_issues"]
    parts = make_splits(train, val, len(models), seed)
    if not parts.is_possible:
        return RetrainedNetworks(facts={"Retraining": NOT_JUDGED})
    recipe = task_recipe(train)
    trained = train_all(models, train, recipe, seed, progress, store)
    outputs = trained.outputs(train.x)
    losses = sample_losses(outputs, train, recipe)
    network_baselines = baselines(
        outputs.numpy(), losses.double().numpy(), train.y, train.ids,
        is_classification=train.is_classification,
    )  # fmt: skip
    rankings = {
        LOWEST_FIRST: np.argsort(info, kind="stable"),
        HIGHEST_FIRST: np.argsort(-info, kind="stable"),
    }
    if issues.is_issue.any():
        rankings[SUSPECTS_FIRST] = suspects_first(info, issues)
    curve_start = trained
    if val is None and estimator is None:
        curve_start = train_all(models, train, recipe, seed, progress, store, parts.train_idx)
    learners = models
    options = dict[str, Any](trained=curve_start, store=store)
    if estimator is not None:
        learners = Estimators(estimator, len(models), seed, dtype=None)
        options = {}
    curve = removal_curve(
        learners, train, val, rankings, fractions=usable_fractions(parts.train_idx.shape[1]),
        seed=seed, progress=progress, **options,
    )  # fmt: skip
    updates = f"{name}, {recipe.optimizer}, {recipe.steps} updates of {recipe.batch_size}"
    if estimator is not None:
        updates = f"{type(estimator).__name__}, fitted anew"
    facts = {"Retraining": updates + text_if(val is None, f"; {FIFTHS}")}
    return RetrainedNetworks(network_baselines, curve, trained, facts)
