"""The table of actions of a run: what could be done with its samples, each measured on others."""

from contextlib import suppress
from dataclasses import replace
from math import isnan

import numpy as np
from torch import nn

from datassay.act.actions.review import expected_review_gain
from datassay.act.choose.action import COPIES, RELABEL, REMOVE
from datassay.act.choose.compare import compare_actions
from datassay.act.choose.gains import ActionGain, ActionTable
from datassay.act.choose.kinds import action_kinds
from datassay.act.choose.learner import Chosen, best_learner
from datassay.act.choose.looks import base_predictions
from datassay.act.choose.parts import Part, fifths
from datassay.act.choose.screen import find_costliest_group, screen
from datassay.collect.linearization import Linearization
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.budget import ActPlan, act_plan, forward_work, seconds_of
from datassay.commands.run.steps.scores import issues_of
from datassay.commands.run.steps.settings import starting_network
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.optional import take_first
from datassay.progress import OutOfTime, silent
from datassay.score.checks.data_issues import LEAST_NEW, DataIssues
from datassay.score.checks.weak_groups import find_weak_groups
from datassay.score.label_issues import LabelIssues
from datassay.score.labels.ridge import ridge_fit
from datassay.score.registry import Context
from datassay.stats import LEAVE, TRY
from datassay.train.learner import Estimators, Learner, Networks, table_learner

# Models of each size on the learning curve that tells what more samples would gain.
CURVE_MODELS = 2
NEARLY = 1.25  # up to so many times as many labels as were corrected are called the same ones


def act_table(model: nn.Module, context: Context, settings: RunSettings) -> ActionTable | None:
    """Return what each action gains on held-out samples.

    None where the budget pays for no comparison, or where nothing predicts the labels: what then
    seems to gain does so by chance.
    """
    train = context.train
    val = context.val
    budget = seconds_of(settings, context.train)
    if settings.curve_seeds < 2 or not budget > 0:  # before work is counted
        return None
    if not context.results["label_issues"].is_predicted:
        return None
    plan = act_plan(forward_work(model, train), train, val, settings)
    if plan is None:
        return None
    parts = _make_parts(context, settings, plan)
    if not all(_can_judge(fold) for fold in parts):
        return None
    # If the time of a fit is not known, comparing begins with the baseline and measures it.
    base = [] if plan.per_fit is None else base_predictions(parts)
    choice = Chosen("", parts, base, plan.per_fit)
    if settings.is_open:
        choice = best_learner(choice, budget=budget)
    parts = choice.parts
    base = choice.base
    table = compare_actions(
        parts, budget=budget, per_fit=choice.per_fit, base=base, seed=settings.seed,
        progress=context.progress,
    )  # fmt: skip
    settings = replace(settings, table_model=choice.name)
    fold = parts[0]
    learner = learner_of(fold.train, settings, CURVE_MODELS, 0)
    scores = take_first(base)
    issues = context.results["data_issues"]
    rows = []
    estimates = [kind.estimate for kind in action_kinds().values() if kind.estimate is not None]
    with suppress(OutOfTime):
        for estimate in estimates:
            row = estimate(learner, fold.train, fold.scoring_rule, whole=scores, seed=settings.seed)
            if row is not None:
                rows.append(replace(row, note=_name_wanted(fold, issues, settings)))
    scale = len(train) / len(fold.train)
    n_suspects = int(context.results["label_issues"].to_try.sum())
    counts = {RELABEL: n_suspects, REMOVE: n_suspects, COPIES: int(issues.is_copy.sum())}
    actions = [_scale_to_all(row, scale, counts) for row in (*table.actions, *rows)]
    review = expected_review_gain(context.results["label_issues"], table.score)
    actions = _add_review(actions, review, n_suspects)
    left_out = (*table.left_out, *filter(None, [choice.note]))
    name = settings.model
    if settings.estimator is not None:
        name = type(settings.estimator).__name__
    return replace(table, actions=tuple(actions), left_out=left_out, model=choice.name or name)


def _add_review(actions: list[ActionGain], review: ActionGain | None, n: int) -> list[ActionGain]:
    """Return the actions and the review's forecast gain, unless correcting was measured."""
    # Where correcting nearly the same labels was measured, that says more than a forecast.
    is_measured = any(row.kind == RELABEL for row in actions)
    is_replaced = is_measured and review is not None and review.changed <= NEARLY * n
    if review is None or review.advice != TRY or is_replaced:
        return actions
    return [*actions, review]


def _scale_to_all(row: ActionGain, scale: float, counts: dict[str, int]) -> ActionGain:
    """Return a row measured on a part of the samples, its counts scaled to all of them."""
    changed = counts.get(row.kind.split("+")[0], round(row.changed * scale))
    cost = changed
    if row.cost != row.changed:
        cost = round(row.cost * scale)
    if not changed and row.changed:
        row = replace(row, note="only parts of the samples have suspects", advice=LEAVE)
    return replace(row, changed=changed, cost=cost)


def _can_judge(fold: Part) -> bool:
    """Return whether targets vary in both parts, so that a score can change."""
    held_out = fold.held_out
    train = fold.train
    varies = train.is_classification or bool((held_out.y != held_out.y[:1]).any())
    return len(held_out) > 1 and varies and len(np.unique(train.y, axis=0)) > 1


def _make_parts(context: Context, settings: RunSettings, plan: ActPlan) -> list[Part]:
    """Return the splits to measure gains on: the validation part, or each fifth held out."""
    lin = context.lin
    train = context.train
    val = context.val
    issues = context.results["label_issues"]
    information = context.results["information"].information
    copies = context.results["data_issues"].copies
    # Each part takes the kind of noise found in all labels: four fifths tell it less well, and the
    # search takes long.
    noise_models = issues.noise if train.is_classification else ()
    if noise_models:
        kind = noise_models[0].kind
    else:
        kind = settings.label_noise

    def rescore(sub: Linearization, samples: SampleSet) -> tuple[LabelIssues, float]:
        result = issues_of(sub, samples, replace(settings, label_noise=kind), context.progress)
        return result, _choose_penalty(sub, result)

    def learner(samples: SampleSet, index: int) -> Learner:
        return learner_of(samples, settings, plan.seeds, index)

    if val is not None and not val.split_off:
        new_rows = np.flatnonzero(~context.results["data_issues"].repeated)
        # Samples that a model has seen judge nothing; where no others are left, they have to.
        if LEAST_NEW <= len(new_rows) < len(val):
            lin = lin.judged_on(new_rows)
            val = val.subset(new_rows)
        fields = train, val, lin, issues, information, _choose_penalty(lin, issues), None
        return [Part(*fields, learner(train, 0), copies=copies)]
    noise = None
    if noise_models:
        noise = noise_models[0].transition
    return fifths(
        lin, train, information, plan.parts, noise=noise,
        share=issues.share_wrong, copies=copies, judge=rescore, learner=learner, seed=settings.seed,
        doubt=None if issues.noise else issues.probability,
    )  # fmt: skip


def _choose_penalty(lin: Linearization, issues: LabelIssues) -> float:
    """Return the ridge penalty that judged the labels; else that of a ridge fit."""
    if isnan(issues.ridge):
        return ridge_fit(lin, silent).penalty
    return issues.ridge


def learner_of(train: SampleSet, settings: RunSettings, seeds: int, index: int) -> Learner:
    """Return what is retrained for each action: a table's model, an estimator, or networks."""
    seed = settings.seed + seeds * index
    if settings.table_model:
        return table_learner(settings.table_model, train, repeats=seeds, seed=seed)
    if settings.estimator is not None:
        return Estimators(settings.estimator, seeds, seed)
    models = [starting_network(train, settings, seeds * index + s) for s in range(seeds)]
    return Networks(models, seed=seed)


def _name_wanted(fold: Part, issues: DataIssues, settings: RunSettings) -> str:
    """Return a note on the class, source or weak group of which more samples would help most."""
    if fold.lin is None:
        return ""
    try:
        closed = screen(fold.lin, fold.train, fold.penalty, fold.scoring_rule, settings.seed)
        order = np.argsort(issues.ids)
        # Where the fold's samples are in the run's.
        rows = order[np.searchsorted(issues.ids, fold.train.ids, sorter=order)]
        weak, _ = find_weak_groups(fold.train, fold.issues.held_out, issues.telling.take(rows))
        group = find_costliest_group(closed, fold.train, settings.seed, weak)
    except DataError:
        return ""
    if group is None:
        return ""
    name, cost, ids = group
    phrase = f"most of {name} (such as {', '.join(map(str, ids[:3]))})"
    return f"{phrase}: half of these less costs {100 * cost:.1f} points in closed form"
