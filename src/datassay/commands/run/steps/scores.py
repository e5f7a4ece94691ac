"""Scores of one linearisation, and what is left out where n is large.

Retrained networks cost the same for any number of samples, scores grow with it, and effects on
single predictions grow with it times the number of queries.
"""

from __future__ import annotations

from dataclasses import fields
from math import isnan

import numpy as np
from jaxtyping import Float
from torch import nn

from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.progress import Progress
from datassay.score.compare.retraining_check import RetrainingCheck, retraining_check
from datassay.score.effects import Attribution
from datassay.score.influence.linear import SampleInfluence
from datassay.score.influence.methods import influence
from datassay.score.label_issues import SCORE as ISSUES
from datassay.score.label_issues import LabelIssues
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.registry import Context
from datassay.store.location import WITHOUT_ONE, inside, is_local
from datassay.train.fitter import taken_network
from datassay.train.retrain import retrain
from datassay.train.training import TrainedNetworks

# Beyond so many multiplications (about 5 seconds) "auto" leaves the effects on single predictions
# out: they grow with samples times queries.
MOST_EFFECTS_WORK = 5e11
# A rank correlation with really retraining below which the page warns.
FOLLOWS = 0.5
LEFT_OUT = (
    "effects on single predictions, which take samples times validation samples; "
    "--attribution output computes them"
)


def attribution_of(
    settings: RunSettings, form: Form, n: int, m: int, is_classification: bool
) -> str:
    """What the setting "auto" stands for, of n training and m validation samples; others stay.

    Returns:
        "output", of several targets "loss", or "none" where n m effects would take minutes. At
        trained weights "margin" of classes: softmax fixes its logits only up to a common shift.
    """
    if settings.attribution != "auto":
        return settings.attribution
    if 2.0 * n * m * form.n_outputs * form.eigenproblem > MOST_EFFECTS_WORK:
        return "none"
    if is_classification and settings.attribution_at == "trained":
        return "margin"
    return "output" if is_classification or form.n_outputs == 1 else "loss"


def trained_effects(
    model: nn.Module,
    networks: TrainedNetworks,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> tuple[Attribution, Float[np.ndarray, "m k"]]:
    """Effects on single predictions of networks trained on all samples, averaged over them.

    Returns:
        The effects, and what the networks say of the queries: probabilities of classes by their
        mean outputs, or those of targets.
    """
    queries = train if val is None else val
    each = networks.outputs(queries.x).double()
    trained = [taken_network(model, networks, s) for s in range(len(each))]
    outputs = each.mean(0)
    loss = task_loss(train)
    attribution = influence(
        trained, train, val, loss=loss, measure=settings.attribution, top=settings.top,
        seed=settings.seed, progress=progress,
    )  # fmt: skip
    if loss == "cross_entropy":
        outputs = outputs.sigmoid() if outputs.shape[1] == 1 else outputs.softmax(1)
    return attribution, outputs.numpy()


def check_of(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    loo: LeaveOneOut,
    settings: RunSettings,
    progress: Progress,
) -> RetrainingCheck | None:
    """Train the real network without some samples, as the linearised one was, and compare.

    Returns:
        The comparison, of samples drawn at random; None where none was asked for.
    """
    if not settings.check:
        return None
    n, place = len(train), settings.store
    retrained = retrain(
        model, train, val, lr=loo.run.step * (n if settings.reduction == "mean" else 1),
        steps=loo.run.steps, weight_decay=settings.weight_decay, reduction=settings.reduction,
        loss="mse",
        removed=np.sort(np.random.default_rng(settings.seed).permutation(n)[: settings.check]),
        store=inside(place, WITHOUT_ONE) if place is not None and is_local(place) else None,
        progress=progress,
    )  # fmt: skip
    return retraining_check(loo, retrained, seed=settings.seed)


def check_warning(check: RetrainingCheck | None) -> tuple[str, ...]:
    """One warning where the real network does not follow the linearised one."""
    if check is None or check.rank >= FOLLOWS:
        return ()
    return (
        f"retraining without {len(check.ids)} samples changed the network's predictions in another "
        f"order than the scores say (rank correlation {check.rank:.2f}): information and effects "
        "are those of the linearised network, not of the trained one.",
    )


def context_of(
    lin: Linearization,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> Context:
    """What the scores are computed from; settings.attribution as `attribution_of` gives it."""
    options = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return Context(
        lin=lin, train=train, val=val, seed=settings.seed, options=options, progress=progress
    )


def issues_of(
    lin: Linearization, train: SampleSet, settings: RunSettings, progress: Progress
) -> LabelIssues:
    """Label issues as a run finds them."""
    return ISSUES.compute(context_of(lin, train, None, settings, progress))


def score_facts(issues: LabelIssues, influence: SampleInfluence | None) -> dict[str, str]:
    """Who judged the labels, where not the fit alone; influence over all pairs."""
    facts = {}
    if isnan(issues.ridge):
        facts["Labels judged by"] = "; ".join((issues.judge, *issues.warnings))
    elif issues.other_weight:
        both = "" if issues.other_weight == float("inf") else " and the linearised network's fit"
        facts["Labels judged by"] = f"boosted trees (5 folds){both}"
    if influence is not None:
        error = influence.total_variance_error
        facts["Influence"] = (
            f"mean {influence.total_mean:.3g}, variance {influence.total_variance:.3g}"
            f"{f' ± {error:.1g}' if error else ''} over pairs of samples, "
            f"{influence.n_partners:,} partners a sample"
        )
    return facts
