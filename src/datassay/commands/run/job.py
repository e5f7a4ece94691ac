"""The main job, `datassay run`: collect once, score every sample, act on it, gather the findings.

load → SampleSet → collect → Linearization → scores → rankings → retrained networks → Findings
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from torch import nn

from datassay.act.remove.removal_curve import train_all
from datassay.act.review.judged import judged
from datassay.collect.collection import collect
from datassay.collect.engine.processes import engine_named
from datassay.collect.form import within_memory
from datassay.collect.linearization import Linearization
from datassay.commands.facts import (
    data_facts,
    model_facts,
    noise_facts,
    seed_facts,
    weights_facts,
)
from datassay.commands.run.findings import Findings
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.acts import act_table
from datassay.commands.run.steps.before import Earlier, before_after
from datassay.commands.run.steps.budget import affordable_networks, budget_fact, forward_work
from datassay.commands.run.steps.check_settings import check_settings as check_run
from datassay.commands.run.steps.comparison import RetrainedNetworks, retrain_and_compare
from datassay.commands.run.steps.groups import by_group
from datassay.commands.run.steps.own_model import own_facts, with_network
from datassay.commands.run.steps.plan import lines, plan
from datassay.commands.run.steps.projection import approximation_facts, chosen_projection
from datassay.commands.run.steps.scores import (
    LEFT_OUT,
    attribution_of,
    check_of,
    check_warning,
    context_of,
    score_facts,
    trained_effects,
)
from datassay.data.back.origin import Origin
from datassay.data.corrupt.adversarial import AdversarialSamples, add_adversarial, check_adversarial
from datassay.data.samples import SampleSet
from datassay.models.build import build_model, given_network
from datassay.models.weights import weights_choice, weights_source
from datassay.progress import Progress, silent
from datassay.report.wording import percent
from datassay.score.attribution import RemovalScores
from datassay.score.label_issues import LabelIssues
from datassay.score.learning_curve import learning_curve
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.registry import computed, further_scores, scores
from datassay.score.sample_information import OF_SGD, SampleInformation
from datassay.store.location import FEATURES, RETRAINED, inside, is_local, shown
from datassay.store.results import ResultStore
from datassay.train.fitter import taken_network
from datassay.train.training import TrainedNetworks


def run(
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress = silent,
    *,
    adversarial: AdversarialSamples | None = None,
    earlier: Earlier | None = None,
    origin: Origin | None = None,
) -> Findings:
    """Everything `datassay run` computes, without writing anything.

    Args:
        train: the training samples; true_y set where label noise was added.
        val: the validation samples; None: the training inputs stand in for them, and retrained
            networks are judged on another fifth of the samples each.
        settings: what to run.
        progress: called with (step, units done, units in all).
        adversarial: which inputs of train were replaced on purpose, from `with_adversarial`.
        earlier: the run before a review, from `earlier_run`; None: none.
        origin: how the samples were read; None: not known.

    Returns:
        The findings, ready for `page` and `files`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    check_run(settings, len(train))
    given, settings = settings, with_network(settings, train)
    model = starting_network(train, settings)
    chosen = chosen_projection(model, train, val, settings, progress)
    settings = chosen.settings
    lin = collected(model, train, val, settings, progress)
    asked = _asked(settings, lin, train, val)
    with within_memory(lin.form):
        results = computed(scores(), context_of(lin, train, val, asked, progress))
    removed, information, issues = (results[n] for n in ("removals", "information", "label_issues"))
    influence, found = results["influence"], results["data_issues"]
    retrained = _retrained(model, train, val, information, issues, adversarial, settings, progress)
    acts = act_table(model, lin, train, val, issues, information, found, settings, progress)
    checked = check_of(model, train, val, removed.leave_one_out, settings, progress)
    facts = _facts(train, val, settings, lin, removed.leave_one_out, model)
    facts |= _spoiled_facts(train, adversarial) | chosen.facts | score_facts(issues, influence)
    facts |= _left_out(settings, asked) | retrained.facts | _seconds_fact(started)
    return Findings(
        samples=train,
        validation=val,
        information=information,
        leave_one_out=removed.leave_one_out,
        issues=issues,
        learning_curve=learning_curve(lin, removed.leave_one_out.run),
        attribution_at=settings.attribution_at,
        **_explained(removed, retrained.networks, model, train, val, asked, progress),
        influence=influence,
        data_issues=found,
        average=results["average_information"],
        **by_group(lin, train, information, settings, progress),
        adversarial=None if adversarial is None else adversarial.replaced,
        check=checked,
        baselines=retrained.baselines,
        projection_quality=chosen.quality,
        removal_curve=retrained.curve,
        contests=retrained.contests,
        acts=acts,
        facts=facts,
        warnings=_warnings(settings, model, lin, chosen.warnings + check_warning(checked)),
        judged=judged(lin, issues),
        scores={one.name: results[one.name] for one in further_scores()},
        origin=origin,
        before=(
            None if earlier is None else before_after(earlier, train, val, issues, given, progress)
        ),
    )


def plan_lines(
    train: SampleSet, val: SampleSet | None, settings: RunSettings
) -> list[RenderableType]:
    """What `run` would compute, for the terminal."""
    return lines(plan(train, val, settings))


def _asked(
    settings: RunSettings, lin: Linearization, train: SampleSet, val: SampleSet | None
) -> RunSettings:
    """The settings with what "auto" means for effects on single predictions."""
    n, m = len(train), len(train if val is None else val)
    attributed = attribution_of(settings, lin.form, n, m, train.is_classification)
    return replace(settings, attribution=attributed)


def _explained(
    removed: RemovalScores,
    networks: TrainedNetworks | None,
    model,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> dict[str, Any]:
    """Effects on single predictions and the predictions: of the start, or of trained networks."""
    attribution, outputs = removed.attribution, removed.query_outputs
    trained = settings.attribution_at == "trained" and settings.attribution != "none"
    if trained and networks is not None:
        attribution, outputs = trained_effects(model, networks, train, val, settings, progress)
    return {"attribution": attribution, "query_outputs": outputs}


def _retrained(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    information: SampleInformation,
    issues: LabelIssues,
    adversarial: AdversarialSamples | None,
    settings: RunSettings,
    progress: Progress,
) -> RetrainedNetworks:
    if not settings.curve_seeds:
        return RetrainedNetworks()
    work = forward_work(model, train)
    seeds = affordable_networks(work, train, val, settings)
    left_out = budget_fact(work, train, val, settings, seeds)
    if not seeds:
        return RetrainedNetworks(facts=left_out)
    store, seed = result_store(settings.store), settings.seed
    models = [model, *(starting_network(train, settings, place) for place in range(1, seeds))]
    replaced = None if adversarial is None else adversarial.replaced
    found = retrain_and_compare(
        models, train, val, information, issues, replaced, seed, progress, store,
        settings.own,
    )  # fmt: skip
    return replace(found, facts=found.facts | left_out)


def with_adversarial(
    train: SampleSet,
    settings: RunSettings,
    fraction: float,
    epsilon: float,
    progress: Progress = silent,
) -> AdversarialSamples:
    """Train one network of the run's kind, then fool it on a fraction of the samples."""
    check_adversarial(train, fraction, epsilon)
    model = starting_network(train, settings)
    networks = train_all([model], train, seed=settings.seed, progress=progress)
    model = taken_network(model, networks)
    return add_adversarial(train, model, fraction, epsilon=epsilon, seed=settings.seed)


def collected(
    model, train: SampleSet, val: SampleSet | None, settings: RunSettings, progress: Progress
) -> Linearization:
    """The linearisation that the settings of a run ask for."""
    return collect(
        model,
        train,
        val,
        allow_trained=settings.allow_trained,
        seed=settings.seed,
        store=None if settings.store is None else inside(settings.store, FEATURES),
        engine=engine_named(settings.engine, workers=settings.workers, address=settings.address),
        progress=progress,
        **settings.collection_settings,
    )


def result_store(location: str | None) -> ResultStore | None:
    """Where retrained networks are kept: beside the features, on a local path only; or None."""
    if location is None or not is_local(location):
        return None
    return ResultStore(inside(location, RETRAINED), {"holds": "retrained networks"})


def starting_network(train: SampleSet, settings: RunSettings, place: int = 0) -> nn.Module:
    """One of the networks of a run, which differ in their seed; the first is linearised.

    Args:
        train: the training samples.
        settings: of the run.
        place: of the network among those of a point.

    Returns:
        The network. With weights, or a network itself, given they differ in their batch order
        only.
    """
    seed = settings.seed + place
    if settings.given is not None:
        return given_network(settings.given, seed)
    return build_model(settings.model, train, weights=settings.weights, seed=seed)


def _warnings(
    settings: RunSettings, model: nn.Module, lin: Linearization, others: tuple[str, ...]
) -> tuple[str, ...]:
    file = settings.weights
    return (() if file is None else weights_choice(file, model)) + lin.warnings + others


def _facts(
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    lin: Linearization,
    loo: LeaveOneOut,
    model: nn.Module,
) -> dict[str, str]:
    run_ = loo.run
    start = "initial weights" if settings.weights is None else "weights from "
    start += "" if settings.weights is None else weights_source(settings.weights, model)
    time_ = "until converged" if run_.kind == "converged" else f"{run_.steps:,} steps"
    facts = {
        **data_facts(train, val),
        **model_facts(
            settings.model, f"{settings.model}, {lin.form.n_parameters:,} parameters, at {start}"
        ),
        "Linearised training": f"{run_.kind}, {time_}, {settings.reduction} loss, "
        f"weight decay {settings.weight_decay:g}",
        "Step size": f"{run_.step:.3g} (sum loss); η·λ_max = "
        f"{run_.step * loo.largest_eigenvalue:.3g}",
        "Jacobian": f"{lin.form.summary}, rank {loo.rank:,}; {lin.form.reason}",
        "Same Jacobian": " ".join(f"--{n} {v or 'none'}" for n, v in lin.form.options.items()),
        **approximation_facts(lin.form),
        "Scores": _precision(lin),
        **own_facts(settings),
        **seed_facts(settings.seed),
        **weights_facts(model),
    }
    if settings.smoothing != "functional":
        noise = f"σ = {settings.sigma:g}"
        noise = f"batches of {settings.batch_size}" if settings.smoothing in OF_SGD else noise
        facts["Information"] = f"{settings.smoothing} smoothing, {noise}"
    if settings.store is not None:
        facts["Store"] = shown(settings.store)
    if settings.command:
        facts["Command"] = settings.command
    return facts


def _seconds_fact(started: float) -> dict[str, str]:
    return {"Seconds": f"{time.perf_counter() - started:.1f}"}


def _left_out(settings: RunSettings, asked: RunSettings) -> dict[str, str]:
    return {"Left out": LEFT_OUT} if settings.attribution != asked.attribution == "none" else {}


def _precision(lin: Linearization) -> str:
    if lin.form.products.precision == "float64" or lin.form.representation == "kernel":
        return "float64"
    return f"float64; products over all rows in {lin.form.products.precision}"


def _spoiled_facts(train: SampleSet, adversarial: AdversarialSamples | None) -> dict[str, str]:
    """What was made wrong on purpose."""
    facts = noise_facts(train)
    if adversarial is not None:
        facts["Adversarial samples"] = (
            f"{adversarial.replaced.sum():,} inputs were replaced on purpose; the step fools a "
            f"trained network on {percent(round(adversarial.success, 3))} of what it got right"
        )
    return facts
