"""Scores of one linearisation, and what is left out where n is large.

Retrained networks cost the same for any number of samples, scores grow with it, and effects on
single predictions grow with it times the number of queries.
"""

from dataclasses import fields
from math import isnan
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.collect.loss import loss_named
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.progress import Progress
from datassay.score.compare.aggregate import Aggregate, aggregate
from datassay.score.compare.retraining_check import RetrainingCheck, retraining_check
from datassay.score.effects import Attribution
from datassay.score.influence.linear import MANY, SampleInfluence
from datassay.score.influence.methods import influence
from datassay.score.information.group_removal import removal_work
from datassay.score.information.groups import SMOOTHINGS, group_information
from datassay.score.information.pairs import nearest_pairs, pair_information
from datassay.score.label_issues import SCORE as ISSUES
from datassay.score.label_issues import LabelIssues
from datassay.score.linear.training_run import N_NODES
from datassay.score.registry import Context
from datassay.score.settings import RUN
from datassay.store.location import WITHOUT_ONE, inside, is_local
from datassay.train.fitter import taken_network
from datassay.train.retrain import retrain
from datassay.train.training import TrainedNetworks

# Beyond so many multiplications (about 5 seconds) "auto" leaves the effects on single predictions
# out: they grow with samples times queries. Likewise whole groups, or pairs (about 4 seconds).
MOST_EFFECTS_WORK = 5e11
MOST_EFFECTS = 5e7
MOST_GROUP_WORK = 3e11
FEWEST_FOR_PAIRS = 3
# The page warns where scores and retraining have a rank correlation below this.
FOLLOWS = 0.5
LEFT_OUT = (
    "effects on single predictions, which take samples times validation samples, and of more than "
    f"{MANY:,} samples influence between pairs; --attribution output computes them"
)


def context_of(
    lin: Linearization,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> Context:
    """Return the inputs of all scores; settings.attribution must not be "auto" any more."""
    options = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return Context(
        lin=lin, train=train, val=val, seed=settings.seed, options=options, progress=progress
    )


def issues_of(
    lin: Linearization, train: SampleSet, settings: RunSettings, progress: Progress
) -> LabelIssues:
    """Return the label issues as a run finds them."""
    return ISSUES.compute(context_of(lin, train, None, settings, progress))


def attribution_of(
    settings: RunSettings, form: Form, n: int, m: int, is_classification: bool
) -> str:
    """Return the measure of effects: as set, or for "auto" what these sizes allow.

    Returns:
        "output", of several targets "loss", or "none" where n m effects are many. At
        trained weights "margin" of classes: softmax fixes its logits only up to a common shift.
    """
    if settings.attribution != "auto":
        return settings.attribution
    effects = float(n * m * form.n_outputs)  # looking through so many takes ten seconds
    if effects > MOST_EFFECTS or 2.0 * effects * form.eigenproblem > MOST_EFFECTS_WORK:
        return "none"
    if is_classification and settings.attribution_at == "trained":
        return "margin"
    if is_classification or form.n_outputs == 1:
        return "output"
    return "loss"


def trained_effects(
    model: nn.Module, networks: TrainedNetworks, context: Context
) -> tuple[Attribution, Float[np.ndarray, "m k"]]:
    """Return effects on single predictions, averaged over networks trained on all samples.

    Returns:
        The effects, and the prediction for each query from the networks' mean outputs:
        probabilities of classes, or targets.
    """
    train = context.train
    val = context.val
    options = context.options
    by_network = networks.outputs(coalesce(val, train).x).double()
    trained = [taken_network(model, networks, s) for s in range(len(by_network))]
    outputs = by_network.mean(0)
    loss = task_loss(train)
    attribution = influence(
        trained, train, val, loss=loss, measure=options["attribution"], top=options["top"],
        seed=context.seed, progress=context.progress,
    )  # fmt: skip
    return attribution, loss_named(loss).predict(outputs).numpy()


def check_of(model: nn.Module, context: Context) -> RetrainingCheck | None:
    """Retrain without some random samples, compare with their scores; None if not asked for."""
    options = context.options
    loo = context.results["removals"].leave_one_out
    if not options["check"]:
        return None
    n = len(context.train)
    store = options["store"]
    lr = loo.run.step  # of the sum of losses
    if options["reduction"] != "sum":
        lr *= n
    retrained = retrain(
        model, context.train, context.val, lr=lr, steps=loo.run.steps,
        weight_decay=options["weight_decay"], reduction=options["reduction"], loss="mse",
        removed=np.sort(np.random.default_rng(context.seed).permutation(n)[: options["check"]]),
        store=inside(store, WITHOUT_ONE) if store is not None and is_local(store) else None,
        progress=context.progress,
    )  # fmt: skip
    return retraining_check(loo, retrained, seed=context.seed)


def check_warning(check: RetrainingCheck | None) -> tuple[str, ...]:
    """Return (warning,) if retrained networks do not follow the linearised one, else ()."""
    if check is None or check.rank >= FOLLOWS:
        return ()
    return (
        f"retraining without {len(check.ids)} samples changed the network's predictions in another "
        f"order than the scores say (rank correlation {check.rank:.2f}): information and effects "
        "are those of the linearised network, not of the trained one.",
    )


def group_totals(context: Context) -> dict[str, Aggregate]:
    """Return "class" and "source" → information summed over the samples of each."""
    information = context.results["information"].information
    groups = _name_groups(context.train).items()
    return {kind: aggregate(information, names, seed=context.seed) for kind, names in groups}


def joint_information(context: Context) -> dict[str, Any]:
    """Return what samples inform together: the findings' `whole_groups` and `pairs`.

    Returns:
        What is lost when all of a class or source is left out, and each sample with the one most
        like it; without what would take minutes, and of smoothings that have them.
    """
    lin = context.lin
    labels = _name_groups(context.train)
    information = context.results["information"].information
    n = len(lin)
    results: dict[str, Any] = {}
    if context.options["smoothing"] not in SMOOTHINGS:
        return results
    settings: dict[str, Any] = context.select_options("smoothing", "sigma", *RUN)
    settings["progress"] = context.progress
    work = group_work(context.train, lin.form)
    results["whole_groups"] = {
        kind: group_information(lin, names, **settings)
        for kind, names in labels.items()
        if work[kind] <= MOST_GROUP_WORK
    }
    m = n
    if lin.val_outputs is not None:
        m = len(lin.val_outputs)
    if n >= FEWEST_FOR_PAIRS and pair_work(n, m, lin.form) <= MOST_GROUP_WORK:
        pairs = nearest_pairs(lin)
        if len(pairs):
            results["pairs"] = pair_information(lin, pairs, alone=information, **settings)
    return results


def group_work(train: SampleSet, form: Form) -> dict[str, float]:
    """Return "class" and "source" → operations of leaving out each whole class or source."""
    n = len(train)
    b = form.n_rows // n
    sizes = {
        kind: np.unique(names, return_counts=True)[1].tolist()
        for kind, names in _name_groups(train).items()
    }
    return {k: removal_work(n, b, form.eigenproblem, s, N_NODES // 2) for k, s in sizes.items()}


def pair_work(n: int, m: int, form: Form) -> float:
    """Return the operations of finding n pairs, by m queries, and leaving them out."""
    p = form.eigenproblem
    b = form.n_rows // n
    return 4.0 * n * p * (m + 60) * form.n_outputs + 2.0 * n * n * b * p


def _name_groups(train: SampleSet) -> dict[str, np.ndarray]:
    """Return "class" and "source" → name of each sample's, [n]; only if there are several."""
    labels = {}
    if train.source is not None:
        labels = {"source": train.source}
    if train.is_classification:
        labels = {"class": np.array(train.class_names)[train.y], **labels}
    return {kind: names for kind, names in labels.items() if len(np.unique(names)) > 1}


def score_facts(issues: LabelIssues, influence: SampleInfluence | None) -> dict[str, str]:
    """Return fact → text for the page: which models judged the labels, error of influence."""
    facts = {}
    if isnan(issues.ridge):  # no fit judged them
        facts["Labels judged by"] = "; ".join((issues.judge, *issues.warnings))
    elif issues.weights:
        weights = ", ".join(f"{weight:.2g}" for weight in issues.weights)
        facts["Labels judged by"] = f"{issues.judge}; heard with weights {weights}"
    if influence is not None:
        error = influence.total_variance_error
        facts["Influence"] = (
            f"mean {influence.total_mean:.3g}, variance {influence.total_variance:.3g}"
            f"{f' ± {error:.1g}' if error else ''} over pairs of samples, "
            f"{influence.n_partners:,} partners per sample"
        )
    return facts
