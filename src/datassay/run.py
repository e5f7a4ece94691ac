"""The main job, `datassay run`: collect once, score every sample, act on it, gather the findings.

load → SampleSet → collect → Linearization → scores → rankings → retrained networks → Findings
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datassay.act.removal_curve import RemovalCurve, removal_curve, task_recipe, train_all
from datassay.act.rivals import Contest, detection_contest, removal_contest
from datassay.act.summarize import KeepSet, summarize, suspects_first
from datassay.collect.collect import collect
from datassay.collect.linearization import Linearization
from datassay.collect.training import sample_losses
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.progress import Progress, silent
from datassay.report.advice import wrong_labels
from datassay.report.findings import HIGHEST_FIRST, LOWEST_FIRST, SUSPECTS_FIRST, Findings
from datassay.score.baselines import Baselines, baselines
from datassay.score.dynamics import check_dynamics
from datassay.score.information import SampleInformation, sample_information
from datassay.score.label_issues import LabelIssues, label_issues
from datassay.score.learning_curve import learning_curve
from datassay.score.leave_one_out import LeaveOneOut, leave_one_out

LOWEST_LOSS_FIRST = "lowest loss first"
LARGEST_MARGIN_FIRST = "largest margin first"
CONTEST_FRACTION = 0.5
# Fewer suspects than this cannot move a validation accuracy measurably.
FEWEST_SUSPECTS = 10


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the main job can be told; every default is what `datassay run DATA` does.

    Attributes:
        model: as for `build_model`.
        weights: checkpoint to start from, or None for initial weights.
        allow_trained: linearise even at weights that have seen these labels, with a warning.
        lr: learning rate, or "auto".
        steps: of the linearised training.
        weight_decay: of the loss as reduced.
        reduction: "sum" or "mean" loss.
        dynamics: "flow", "descent" or "converged".
        projection: "auto", None or features a tensor.
        outputs: "auto", "joint" or "averaged".
        memory: bytes to stay within, or None.
        curve_seeds: networks a ranking and fraction; 0 retrains nothing.
        seed: of weights, projection, batches and random rankings.
        command: what to print on the page as the command to repeat this.
    """

    model: str = "mlp"
    weights: Path | None = None
    allow_trained: bool = False
    lr: float | str = "auto"
    steps: int = 2000
    weight_decay: float = 0.0
    reduction: str = "sum"
    dynamics: str = "flow"
    projection: int | str | None = "auto"
    outputs: str = "auto"
    memory: float | None = None
    curve_seeds: int = 5
    seed: int = 0
    command: str = ""

    @property
    def dynamics_settings(self) -> dict[str, Any]:
        """The arguments that `leave_one_out` takes."""
        names = ("lr", "steps", "weight_decay", "reduction", "dynamics")
        return {name: getattr(self, name) for name in names}

    @property
    def collection_settings(self) -> dict:
        """The arguments that `collect` and `plan_collection` share."""
        names = ("projection", "outputs", "memory")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class _Retrained:
    """What retraining real networks gave; empty when it was switched off."""

    baselines: Baselines | None = None
    curve: RemovalCurve | None = None
    contests: tuple[Contest, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


def run(
    train: SampleSet, val: SampleSet, settings: RunSettings, progress: Progress = silent
) -> Findings:
    """Everything `datassay run` computes, without writing anything.

    Args:
        train: the training samples; true_y set where label noise was added.
        val: the validation samples.
        settings: what to run.
        progress: called with (step, units done, units in all).

    Returns:
        The findings, ready for `write_results`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    check_settings(settings)
    models = starting_networks(train, settings)
    lin = _collected(models[0], train, val, settings, progress)
    loo = leave_one_out(lin, progress=progress, **settings.dynamics_settings)
    information = sample_information(lin, loo=loo)
    progress("judge the labels", 0, 1)
    issues = label_issues(lin)
    spectrum = learning_curve(lin, loo.run)
    progress("judge the labels", 1, 1)
    retrained = _Retrained()
    if settings.curve_seeds:
        retrained = _retrain(models, train, val, information, issues, settings, progress)
    facts = _facts(train, val, settings, lin, loo) | retrained.facts
    facts["Seconds"] = f"{time.perf_counter() - started:.1f}"
    return Findings(
        samples=train,
        validation=val,
        information=information,
        prediction_change=loo.prediction_change,
        weight_change=loo.weight_change,
        issues=issues,
        learning_curve=spectrum,
        baselines=retrained.baselines,
        removal_curve=retrained.curve,
        contests=retrained.contests,
        facts=facts,
        warnings=lin.warnings,
    )


def check_settings(settings: RunSettings) -> None:
    """Refuse, before any work is done, what can be judged without the samples.

    Args:
        settings: of a run.

    Raises:
        SettingError: a setting is outside its rule.
    """
    if settings.curve_seeds < 0:
        raise SettingError(
            f"curve_seeds must be at least 0; got {settings.curve_seeds}. 0 retrains nothing."
        )
    if settings.memory is not None and not settings.memory > 0:
        raise SettingError(
            f"memory must be a positive number of gigabytes; got {settings.memory / 1e9:g}. Leave "
            "it out to use what is free."
        )
    # The kernel is not known yet: with the smallest eigenvalue only the other rules can fail.
    named = {"kind" if k == "dynamics" else k: v for k, v in settings.dynamics_settings.items()}
    check_dynamics(sys.float_info.min, 2, **named)


def _collected(
    model, train: SampleSet, val: SampleSet, settings: RunSettings, progress: Progress
) -> Linearization:
    return collect(
        model,
        train,
        val,
        allow_trained=settings.allow_trained,
        seed=settings.seed,
        progress=progress,
        **settings.collection_settings,
    )


def keep_set(
    train: SampleSet,
    val: SampleSet,
    settings: RunSettings,
    fraction: float,
    iterative: bool,
    drop_suspects: bool = False,
    progress: Progress = silent,
) -> tuple[KeepSet, dict[str, Any]]:
    """Everything `datassay summarize` computes, without writing anything.

    Args:
        train: the training samples.
        val: the validation samples.
        settings: how to collect and to train the linearised network.
        fraction: of the samples to keep.
        iterative: score again after every 5 % removed.
        drop_suspects: remove likely label errors before anything else.
        progress: called with (step, units done, units in all).

    Returns:
        The samples to keep, and what was run, for `keep.json`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    check_settings(settings)
    model = build_model(settings.model, train, weights=settings.weights, seed=settings.seed)
    lin = _collected(model, train, val, settings, progress)
    run_ = settings.dynamics_settings
    issues = label_issues(lin) if drop_suspects else None
    kept = summarize(lin, fraction, iterative=iterative, issues=issues, progress=progress, **run_)
    facts = {
        "command": settings.command,
        "data": train.name,
        "train": len(train),
        "kept": len(kept.keep),
        "fraction": fraction,
        "iterative": iterative,
        "suspects_dropped": 0 if issues is None else int(issues.is_issue.sum()),
        "seed": settings.seed,
        "version": version("datassay"),
        "warnings": list(lin.warnings),
    }
    return kept, facts


def starting_networks(train: SampleSet, settings: RunSettings) -> list:
    """One network a seed; the first is the one that is linearised.

    Args:
        train: the training samples.
        settings: model, weights, seeds.

    Returns:
        max(1, curve_seeds) networks; with weights given they differ only in their batch order.
    """
    return [
        build_model(settings.model, train, weights=settings.weights, seed=settings.seed + s)
        for s in range(max(1, settings.curve_seeds))
    ]


def _retrain(models, train, val, information, issues, settings, progress) -> _Retrained:
    recipe = task_recipe(train)
    trained = train_all(models, train, recipe, settings.seed, progress)
    outputs = trained.outputs(torch.as_tensor(train.x).float())
    losses = sample_losses(outputs, train, recipe)
    rivals = baselines(
        outputs.numpy(),
        losses.double().numpy(),
        train.y,
        train.ids,
        is_classification=train.is_classification,
    )
    info = information.information
    rankings = {
        LOWEST_FIRST: np.argsort(info, kind="stable"),
        HIGHEST_FIRST: np.argsort(-info, kind="stable"),
        LOWEST_LOSS_FIRST: np.argsort(rivals.loss, kind="stable"),
        LARGEST_MARGIN_FIRST: np.argsort(-rivals.margin, kind="stable"),
    }
    if issues.is_issue.any():
        rankings[SUSPECTS_FIRST] = suspects_first(info, issues)
    curve = removal_curve(
        models, train, val, rankings, trained=trained, seed=settings.seed, progress=progress
    )
    measure = f"{curve.metric} after removing half of the samples (higher is better)"
    ours = [name for name in (LOWEST_FIRST, SUSPECTS_FIRST) if name in rankings]
    others = [LOWEST_LOSS_FIRST, LARGEST_MARGIN_FIRST]
    contests = [removal_contest(curve, CONTEST_FRACTION, measure, ours, others)]
    contests += _label_contests(
        models, train, val, issues, information, rivals, trained, settings, progress
    )
    updates = f"{recipe.optimizer}, {recipe.steps} updates of {recipe.batch_size}"
    return _Retrained(rivals, curve, tuple(contests), {"Retraining": updates})


def _label_contests(
    models,
    train: SampleSet,
    val: SampleSet,
    issues: LabelIssues,
    information: SampleInformation,
    rivals: Baselines,
    trained,
    settings: RunSettings,
    progress: Progress,
) -> list[Contest]:
    """Label scores against the truth where it is known, else by what removing the suspects does."""
    wrong = wrong_labels(train)
    if wrong is not None and wrong.any() and not wrong.all():
        scores = {"label issue score": issues.score, "final loss": rivals.loss}
        scores |= {"smallest margin": -rivals.margin, "information": information.information}
        return [detection_contest(wrong, scores, settings.seed)]
    n_suspects = int(issues.is_issue.sum())
    if not FEWEST_SUSPECTS <= n_suspects <= len(train) // 2:
        return []
    ours, *others = "highest label issue score first", "highest loss first", "smallest margin first"
    rankings = {
        ours: np.argsort(-issues.score, kind="stable"),
        others[0]: np.argsort(-rivals.loss, kind="stable"),
        others[1]: np.argsort(rivals.margin, kind="stable"),
    }
    fraction = n_suspects / len(train)
    curve = removal_curve(
        models,
        train,
        val,
        rankings,
        fractions=[fraction],
        trained=trained,
        seed=settings.seed,
        progress=lambda _, done, total: progress("retrain without suspects", done, total),
    )
    measure = f"{curve.metric} after removing the {n_suspects} most suspect labels"
    return [removal_contest(curve, fraction, f"{measure} (higher is better)", [ours], others)]


def _facts(
    train: SampleSet,
    val: SampleSet,
    settings: RunSettings,
    lin: Linearization,
    loo: LeaveOneOut,
) -> dict[str, str]:
    run_ = loo.run
    start = "initial weights" if settings.weights is None else f"weights from {settings.weights}"
    time_ = "until converged" if run_.kind == "converged" else f"{run_.steps:,} steps"
    facts = {
        "Data": f"{train.name}: {len(train):,} training, {len(val):,} validation samples",
        "Model": f"{settings.model}, {lin.form.n_parameters:,} parameters, at {start}",
        "Linearised training": f"{run_.kind}, {time_}, {settings.reduction} loss, "
        f"weight decay {settings.weight_decay:g}",
        "Step size": f"{run_.step:.3g} (sum loss); η·λ_max = "
        f"{run_.step * loo.largest_eigenvalue:.3g}",
        "Jacobian": f"{lin.form.summary}, rank {loo.rank:,}; {lin.form.reason}",
        "Scores": "float64",
        "Seed": str(settings.seed),
        "Version": version("datassay"),
    }
    if train.true_y is not None:
        flipped = int((train.true_y != train.y).sum())
        facts["Label noise"] = f"{flipped:,} labels were flipped on purpose"
    if settings.command:
        facts["Command"] = settings.command
    return facts


def command_line() -> str:
    """The command that this process was started with, as a user would type it.

    Returns:
        "datassay" and its arguments, quoted for a shell.
    """
    import shlex

    return shlex.join(["datassay", *sys.argv[1:]])
