"""The main job, `datassay run`: collect once, score every sample, act on it, gather the findings.

load → SampleSet → collect → Linearization → scores → Findings, complete but for what retraining
measures → retrained networks, actions → Findings
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from torch import nn

from datassay.act.choose.gains import ActionTable
from datassay.act.remove.removal_curve import train_all
from datassay.act.review.judged import judged
from datassay.collect.collection import collect
from datassay.collect.curvature.output_loss import check_n_outputs
from datassay.collect.engine.processes import engine_named
from datassay.collect.form import MOST_COLUMNS, within_memory
from datassay.collect.linearization import Linearization
from datassay.commands.facts import data_facts, model_facts, noise_facts, seed_facts, weights_facts
from datassay.commands.run.findings import PENDING, Findings
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.acts import act_table
from datassay.commands.run.steps.before import Earlier, before_after
from datassay.commands.run.steps.budget import (
    BUDGET,
    affordable_networks,
    budget_fact,
    forward_work,
)
from datassay.commands.run.steps.plan import lines, plan, slowness
from datassay.commands.run.steps.projection import APPROXIMATED, choose_projection
from datassay.commands.run.steps.removal import RetrainedNetworks, retrained_networks
from datassay.commands.run.steps.scores import (
    LEFT_OUT,
    attribution_of,
    check_of,
    check_warning,
    context_of,
    group_totals,
    joint_information,
    score_facts,
    trained_effects,
)
from datassay.commands.run.steps.settings import check_settings as check_run
from datassay.commands.run.steps.settings import retrained_network, starting_network, with_network
from datassay.data.back.origin import Origin
from datassay.data.corrupt.adversarial import AdversarialSamples, add_adversarial, check_adversarial
from datassay.data.samples import SampleSet
from datassay.machine import release_memory
from datassay.models.weights import weights_choice, weights_source
from datassay.optional import coalesce
from datassay.plan import PlanStep
from datassay.progress import OutOfTime, Progress, in_time, silent, until
from datassay.report.wording import percent
from datassay.score.checks.data_issues import checked_ahead
from datassay.score.checks.together import held_together
from datassay.score.checks.units import unit_warning
from datassay.score.labels.judges import judge_in_background
from datassay.score.learning_curve import learning_curve
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.registry import Context, compute_scores, scores, scores_with_sections
from datassay.score.settings import OF_SGD
from datassay.store.location import FEATURES, RETRAINED, inside, is_local, redact
from datassay.store.results import ResultStore
from datassay.train.fitter import taken_network

# Share of a budget by the clock that the removal curve may take: actions, which decide, come after.
CURVE_SHARE = 0.35


def run(
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress = silent,
    *,
    adversarial: AdversarialSamples | None = None,
    earlier: Earlier | None = None,
    origin: Origin | None = None,
    first: Callable[[Findings], object] | None = None,
) -> Findings:
    """Compute everything that `datassay run` shows, without writing anything.

    Args:
        train: the training samples; true_y set where label noise was added.
        val: the validation samples; None: the training inputs stand in for them, and retrained
            networks are judged on another fifth of the samples each.
        settings: what to run.
        progress: called with (step, units done, units in all).
        adversarial: which inputs of train were replaced on purpose, from `with_adversarial`.
        earlier: the run before a review, from `earlier_run`; None: none.
        origin: how the samples were read; None: not known.
        first: called with the scores' findings before anything is retrained; not where nothing is.

    Returns:
        The findings, ready for `page` and `files`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    check_run(settings, len(train))
    user = settings
    settings = with_network(settings, train)
    model = starting_network(train, settings)
    choice = choose_projection(model, train, val, settings, progress)
    settings = choice.settings
    early_checks = checked_ahead(train, val)
    release_memory()
    has_estimator = settings.estimator is not None  # which judges alone; its truth may be an error
    with nullcontext() if has_estimator else judge_in_background(train, settings.seed) as judges:
        lin = collect_run(model, train, val, settings, progress)
        check_n_outputs(train, lin.form.n_outputs)
        n = len(train)
        m = len(coalesce(val, train))
        attributed = attribution_of(settings, lin.form, n, m, train.is_classification)
        context = context_of(lin, train, val, replace(settings, attribution=attributed), progress)
        options = {**context.options, "judges": judges, "checked": early_checks}
        early_context = replace(context, options=options)
        with within_memory(lin.form):
            results = compute_scores(scores(), early_context)
    context = replace(context, results=results)
    removals = results["removals"]
    issues = results["label_issues"]
    facts = _list_facts(train, val, settings, lin, removals.leave_one_out, model)
    facts |= noise_facts(train)
    replaced = None
    if adversarial is not None:
        replaced = adversarial.replaced
        facts["Adversarial samples"] = (
            f"{replaced.sum():,} inputs were replaced on purpose; the step fools a "
            f"trained network on {percent(round(adversarial.success, 3))} of what it got right"
        )
    facts |= choice.facts | score_facts(issues, results["influence"])
    if settings.attribution != attributed == "none":
        facts["Left out"] = LEFT_OUT
    warnings = _list_warnings(train, lin, model, settings, results, origin)
    findings = Findings(
        samples=train,
        validation=val,
        information=results["information"],
        leave_one_out=removals.leave_one_out,
        issues=issues,
        learning_curve=learning_curve(lin, removals.leave_one_out.run),
        attribution_at=settings.attribution_at,
        attribution=removals.attribution,
        query_outputs=removals.query_outputs,
        influence=results["influence"],
        data_issues=results["data_issues"],
        average=results["average_information"],
        groups=group_totals(context),
        adversarial=replaced,
        projection_quality=choice.quality,
        facts=facts | {"Seconds": f"{time.perf_counter() - started:.1f}"},
        warnings=warnings + choice.warnings,
        judged=judged(lin, issues),
        scores={score.name: results[score.name] for score in scores_with_sections()},
        origin=origin,
    )
    if first is not None and (settings.curve_seeds or settings.check or earlier):
        first(replace(findings, pending=PENDING))
    if settings.is_joint:
        findings = replace(findings, **joint_information(context))
    net, config = retrained_network(model, train, settings)
    at_trained = settings.attribution_at == "trained" and attributed != "none"
    is_timed = user.budget is not None and not at_trained  # effects there need networks anyway
    end = started + (user.budget or 0.0) if is_timed else math.inf
    timed = replace(context, progress=in_time(progress))
    with until(end):
        seconds_per_nominal = 1.0
        if is_timed and user.budget and config.curve_seeds:
            seconds_per_nominal = slowness(net, train)
        curve_seconds = CURVE_SHARE * (end - time.perf_counter()) / seconds_per_nominal
        networks = _retrain(net, timed, _with_budget(config, curve_seconds))
        acts_seconds = (end - time.perf_counter()) / seconds_per_nominal
        acts = _compare(net, timed, _with_budget(config, acts_seconds))
    attribution = removals.attribution
    query_outputs = removals.query_outputs
    if at_trained and networks.networks is not None:
        attribution, query_outputs = trained_effects(model, networks.networks, context)
    check = check_of(model, context)
    before = None
    if earlier is not None:
        before, issues = before_after(earlier, train, val, issues, user, progress)
    return replace(
        findings,
        issues=issues,
        judged=judged(lin, issues),
        attribution=attribution,
        query_outputs=query_outputs,
        check=check,
        baselines=networks.baselines,
        removal_curve=networks.curve,
        acts=acts,
        before=before,
        facts=facts
        | networks.facts
        | (_list_cuts(networks, acts, user) if is_timed else {})
        | {"Seconds": f"{time.perf_counter() - started:.1f}"},
        warnings=findings.warnings + check_warning(check),
    )


def _list_warnings(
    train: SampleSet, lin: Linearization, model: nn.Module, settings: RunSettings,
    results: Mapping[str, Any], origin: Origin | None,
) -> tuple[str, ...]:  # fmt: skip
    """Return warnings for the page: on the samples, weights, labels and data, in this order."""
    issues = results["label_issues"]
    data_issues = results["data_issues"]
    warnings = list(train.warnings)
    if settings.weights is not None:
        warnings += weights_choice(settings.weights, model)
    warnings += [*lin.warnings, data_issues.unsearched]
    if issues.sources is not None:
        warnings.append(issues.sources.warning)
    warnings.append(issues.readings)
    if settings.estimator is None:
        warnings += [group.warning for group in held_together(lin, train, issues)]
        if not train.is_classification:
            is_log = origin is not None and bool(origin.inputs.get("log_target"))
            warnings.insert(0, unit_warning(lin, issues, is_log=is_log))
    return tuple(filter(None, warnings))


def _with_budget(settings: RunSettings, seconds: float) -> RunSettings:
    """Return settings with `seconds` as budget of retraining; unchanged if infinite."""
    if seconds == math.inf:
        return settings
    return replace(settings, budget=max(0.0, seconds))


def _compare(model: nn.Module, context: Context, settings: RunSettings) -> ActionTable | None:
    """Return what each action on the data gains; None if not asked for or out of time."""
    try:
        return act_table(model, context, settings)
    except OutOfTime:
        return None


def _list_cuts(networks: RetrainedNetworks, acts: object, settings: RunSettings) -> dict[str, str]:
    """Return the fact of what a time budget left out of the run; {} if nothing."""
    was_cut_short = BUDGET in networks.facts or not networks.facts
    if not (settings.budget and settings.curve_seeds and was_cut_short):
        return {}
    cuts = ["the removal curve"] if networks.curve is None else []
    if acts is None and settings.curve_seeds > 1:
        cuts.append("the actions")
    if cuts:
        text = f"{' and '.join(cuts)} left out"
    else:  # networks without a fact have no curve, which is a cut
        text = networks.facts[BUDGET].partition(":")[0]
    return {BUDGET: f"{text}: the {settings.budget:g} s of --budget, since the start, were over"}


def plan_lines(
    train: SampleSet, val: SampleSet | None, settings: RunSettings
) -> list[RenderableType]:
    """Return what `run` would compute, as lines for the terminal."""
    start = PlanStep("start", "the program loaded, the data read", pilot=time.process_time())
    planned = plan(train, val, settings)
    return lines(replace(planned, steps=(start, *planned.steps)))


def _retrain(model: nn.Module, context: Context, settings: RunSettings) -> RetrainedNetworks:
    """Return the removal curve and the networks trained for it, as many as the budget pays."""
    if not settings.curve_seeds:
        return RetrainedNetworks()
    train = context.train
    work = forward_work(model, train)
    seeds = affordable_networks(work, train, context.val, settings)
    left_out = budget_fact(work, train, context.val, settings, seeds)
    if not seeds:
        return RetrainedNetworks(facts=left_out)
    store = None
    location = settings.store
    if location is not None and is_local(location):  # beside the features, on a local path only
        store = ResultStore(inside(location, RETRAINED), {"holds": "retrained networks"})
    models = [model, *(starting_network(train, settings, k) for k in range(1, seeds))]
    try:
        result = retrained_networks(models, context, store, settings.estimator, settings.model)
    except OutOfTime:
        return RetrainedNetworks()
    return replace(result, facts=result.facts | left_out)


def with_adversarial(
    train: SampleSet,
    settings: RunSettings,
    fraction: float,
    epsilon: float,
    progress: Progress = silent,
) -> AdversarialSamples:
    """Train a network, and replace a fraction of the samples by inputs that fool it."""
    check_adversarial(train, fraction, epsilon)
    model = starting_network(train, settings)
    networks = train_all([model], train, seed=settings.seed, progress=progress)
    model = taken_network(model, networks)
    return add_adversarial(train, model, fraction, epsilon=epsilon, seed=settings.seed)


def collect_run(
    model, train: SampleSet, val: SampleSet | None, settings: RunSettings, progress: Progress
) -> Linearization:
    """Return the network's outputs and Jacobian on the samples, as the settings ask."""
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


def _describe_noise(settings: RunSettings) -> str:
    """Return the noise of the weights in words: σ, and the batch size of SGD if it counts."""
    words = []
    if settings.smoothing not in OF_SGD:
        words.append(f"σ = {settings.sigma:g}")
    if settings.batch_size is not None:
        words.append(f"batches of {settings.batch_size}")
    return ", ".join(words)


def _list_facts(
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    lin: Linearization,
    loo: LeaveOneOut,
    model: nn.Module,
) -> dict[str, str]:
    """Return fact → text for the page: samples, model, training, Jacobian, seed."""
    training = loo.run
    form = lin.form
    products = form.products.precision
    estimator_facts = {}
    approximated = {}
    precision = "float64"
    if products != "float64" and form.representation != "kernel":
        precision += f"; products over all rows in {products}"
    if form.instead_of:  # why it is not exact, and how to get that
        approximated = {APPROXIMATED: f"{form.summary}, instead of {form.instead_of}"}
    if settings.estimator is not None:
        estimator_facts["Your model"] = (
            f"{type(settings.estimator).__name__}: it scores the labels and is retrained on what "
            f"is kept; scores that need gradients (information, effects) are of {settings.model}"
        )
    start = "initial weights"
    if settings.weights is not None:
        start = f"weights from {weights_source(settings.weights, model)}"
    duration = "until converged"
    if training.kind != "converged":
        duration = f"{training.steps:,} steps"
    facts = {
        **data_facts(train, val),
        **model_facts(
            settings.model, f"{settings.model}, {form.n_parameters:,} parameters, at {start}"
        ),
        "Linearised training": f"{training.kind}, {duration}, {settings.reduction} loss, "
        f"weight decay {settings.weight_decay:g}",
        "Step size": f"{training.step:.3g} (sum loss); η·λ_max = "
        f"{training.step * loo.largest_eigenvalue:.3g}",
        "Jacobian": f"{form.summary}, rank {loo.rank:,}; {form.reason}",
        "Same Jacobian": " ".join(f"--{n} {v or 'none'}" for n, v in form.options.items()),
        **approximated,
        "Scores": precision,
        **estimator_facts,
        **seed_facts(settings.seed),
        **weights_facts(model),
    }
    if settings.smoothing != "functional":
        facts["Information"] = f"{settings.smoothing} smoothing, {_describe_noise(settings)}"
    if form.mixtures and form.n_outputs > MOST_COLUMNS:
        facts["Changes"] = f"summed over {MOST_COLUMNS} random mixtures of outputs, within 18 %"
    if settings.store is not None:
        facts["Store"] = redact(settings.store)
    if settings.command:
        facts["Command"] = settings.command
    return facts
