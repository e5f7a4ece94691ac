"""Likely label errors from held-out outputs: of one kernel ridge fit, or of the user's model."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.targets import encode_targets, label_type
from datassay.errors import SettingError
from datassay.models.estimators import checked_estimator
from datassay.progress import Progress, silent
from datassay.score.checks.cells import mark_cells
from datassay.score.labels.issues import FEWEST, LabelIssues, mark_top, mask_array
from datassay.score.labels.judges import (
    check_judges,
    checked_groups,
    checked_probabilities,
    checked_trusted,
    further_judges,
    judge_warnings,
    log_probabilities,
)
from datassay.score.labels.likelihood import by_class
from datassay.score.labels.multilabel import find_multilabel_issues, is_multilabel
from datassay.score.labels.noise import (
    TRUSTED,
    Diagnosis,
    Outputs,
    check_noise,
    explain,
    flag_wrong,
    probability,
)
from datassay.score.labels.outliers import Outliers, best_scale, clip_targets, least_share, outliers
from datassay.score.labels.ridge import RidgeFit, judge_steps, ridge_fit
from datassay.score.labels.sources import checked_sources, source_columns
from datassay.score.registry import Context, Score
from datassay.train.folds import FOLDS, held_out_outputs

# Targets worth a look: wrong with a probability, or with a score, above these.
LOOK = 0.1
LOOK_SCORE = -1.0


@checks_arguments
def label_issues(
    data: Linearization | SampleSet | None = None,
    *,
    model: Any = None,
    labels: Any = None,
    pred_probs: Any = None,
    trusted: Any = None,
    groups: Any = None,
    sources: Any = None,
    noise: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> LabelIssues:
    """Score how likely each label is wrong, without a clean set and without training a network.

    Kernel ridge regression on the labels, its penalty chosen by leave-one-out error, gives each
    sample outputs from a fit without it. Calibrated probabilities and the noise that turns true
    labels into given ones are found together by maximum likelihood; one more fit, to the probable
    labels, ranks the samples. Held-out outputs may come from the user's own model instead: there
    is no second fit then.

    Args:
        data: the linearisation; k outputs share its output-averaged kernel, so k costs nothing.
            Several targets a sample that are all 0 or 1 are several labels. With `model`, samples.
            None: `labels` and `pred_probs` alone are judged.
        model: a scikit-learn classifier or regressor, or its class: clones of it are fitted to
            four fifths of x (y the class indices) and judge the rest.
        labels: [n], names or numbers, in place of data where `pred_probs` are all that is known.
        pred_probs: held-out class probabilities of another model, [n, k], such as
            `held_out_probabilities` gives, in the order of class_names (sorted, as scikit-learn
            has them). With samples the judge. With a linearisation another judge, or several as a
            list: each is heard as far as it explains the given labels better; gradient-boosted
            trees and logistic regression do on many tables.
        trusted: [n] bool, samples whose labels somebody knows to be right, drawn as the others
            are; None: none. They are no suspects, calibrate what is said of the others, and from
            20 on narrow `share_wrong`.
        groups: [n], of each sample. It is then also judged by a fit that saw none of its group,
            which gives `held_out`, and what that contradicts is worth a look and within
            `share_wrong`; it may be the group that differs. None: those of the samples, if they
            have any; of a linearisation each sample by itself.
        sources: [n], who or what gave each label, or several such columns by name: where some err
            far more often, their labels are more suspect. None: of samples their own columns.
        noise: "uniform": any other label as often as any; "class": it depends on the class, as
            where cats are called dogs; "auto": whichever explains the labels.
        seed: of the folds and of the model.
        progress: called with (step, samples done, samples in all).

    Returns:
        Score, probability, suggested label, the flag, and the noise found. Of fewer than FEWEST
        samples none is flagged: the others do not tell enough. Probabilities below 0.0001 count
        as that, which `warnings` tells.

    Raises:
        DataError: of several targets per sample most are 0 or 1, but not all; pred_probs are no
            probabilities of these samples.
        ModelError: the kernel is 0: the outputs depend on no weight; or the model cannot be used.
        SettingError: noise is none of these, or of numbers not auto; samples without a model, a
            linearisation with one, or two judges; labels with data, or neither; trusted is no bool
            a sample, or all are; groups are not one a sample, or all the same.

    Cost: the eigendecomposition of the [n, n] kernel (shared with other scores where it is the
    linearisation's own), 70 n² k operations. From features: 2 n b p² operations to read their rows
    twice, 70 n b p k; p² values, a panel and 66 n k values. About 250 evaluations of n k²
    operations to find the noise. Of an estimator: 5 fits.
    Source: METHODS §2 and §2b, beyond confident learning (Northcutt et al. 2021), whose count is
    one end of what is worth a look: no k-fold retraining. Deviates: calibration by intercepts, rows
    of T shrunk to one rate or few pairs beside it, two readings averaged instead of the gate.
    f₀ is subtracted from the labels only where that lowers the leave-one-out error, since the
    outputs of an untrained head are noise. Penalties go from 1e-8 λ_max (1e-6 λ_max where products
    over all rows are not float64) to λ_max.
    """
    if (labels is None) == (data is None) or (labels is not None and pred_probs is None):
        raise SettingError(
            "give samples or a linearisation, or labels= with pred_probs=, not both."
        )
    if data is None:
        data = _make_labelled_samples(labels)
    check_judges(isinstance(data, SampleSet), model, pred_probs)
    is_trusted = checked_trusted(trusted, len(data))
    group_ids = checked_groups(groups, len(data))
    find_issues = partial(
        _find_issues, model=model, pred_probs=pred_probs, is_trusted=is_trusted, noise=noise,
        columns=checked_sources(sources, data), seed=seed, progress=progress,
    )  # fmt: skip
    if isinstance(data, SampleSet):
        if group_ids is None:
            group_ids = data.groups
        if data.groups is not None:
            data = replace(data, groups=None)
    by_sample = mark_cells(find_issues(data, None), data)
    if group_ids is None or (isinstance(data, SampleSet) and pred_probs is not None):
        return by_sample
    return _combine_with_groups(by_sample, find_issues(data, group_ids))


def _make_labelled_samples(labels: Any) -> SampleSet:
    """Return samples with known labels alone; their inputs are their positions."""
    label_values = np.asarray(labels)
    y, _, names = encode_targets(label_values, None, (), "classification")
    rows = np.arange(len(y), dtype=np.float32)[:, None]
    return SampleSet(rows, y, np.arange(len(y)), names, label_type=label_type(label_values))


def _combine_with_groups(by_sample: LabelIssues, by_group: LabelIssues) -> LabelIssues:
    """Return issues by fits without each sample, with those by fits without its group added."""
    # What other groups contradict may as well be an effect of the group: it is worth a look.
    most_wrong = max(by_sample.share_wrong[1], by_group.share_wrong[1])
    is_added = (by_group.is_issue | by_group.worth_a_look) & ~by_sample.worth_a_look
    # No more in all than may be wrong.
    limit = max(0, round(most_wrong * len(is_added)) - int(by_sample.worth_a_look.sum()))
    is_added &= mark_top(torch.from_numpy(np.where(is_added, by_group.score, -np.inf)), limit)
    return replace(
        by_sample,
        held_out=by_group.held_out,
        worth_a_look=by_sample.worth_a_look | is_added,
        share_wrong=(by_sample.share_wrong[0], most_wrong),
        by_group=is_added,
    )


def _find_issues(
    data: Linearization | SampleSet,
    groups: Shaped[np.ndarray, " n"] | None,
    *,
    model: Any,
    pred_probs: Any,
    is_trusted: Bool[Tensor, " n"],
    noise: str,
    columns: Mapping[str, Shaped[np.ndarray, " n"]],
    seed: int,
    progress: Progress,
) -> LabelIssues:
    """Return issues by fits without each sample, or, with groups, without its group."""
    if isinstance(data, SampleSet):
        if groups is not None:
            data = replace(data, groups=groups)
        options = (is_trusted, noise, columns, seed, progress)
        return _find_model_issues(data, model, pred_probs, *options)
    lin = data
    has_several = lin.labels is None and is_multilabel(lin.targets)
    check_noise(noise, is_of_labels=lin.labels is not None or has_several)
    names = () if lin.labels is None else lin.class_names
    if pred_probs is None:
        pred_probs = []
    elif not isinstance(pred_probs, list | tuple):
        pred_probs = [pred_probs]
    other_log_p = [log_probabilities(checked_probabilities(p, len(lin), names)) for p in pred_probs]
    fit = ridge_fit(lin, progress, groups)
    if lin.labels is not None:
        labels = torch.as_tensor(lin.labels)
        return _find_class_issues(fit, labels, noise, other_log_p, is_trusted, columns, progress)
    if has_several:
        return find_multilabel_issues(fit, noise, is_trusted, progress)
    ridges = fit.penalty * torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    diagnosis = best_scale(lin.targets, fit, lambda y: ridge_fit(lin, progress, groups, ridges, y))
    fields = {"ridge": fit.penalty, "ids": lin.ids}
    return _find_target_issues(lin.targets, fit.held_out, diagnosis, is_trusted, **fields)


def _find_class_issues(
    fit: RidgeFit,
    labels: Int[Tensor, " n"],
    noise: str,
    other_log_p: list[Float[Tensor, "n k"]],
    trusted: Bool[Tensor, " n"],
    columns: Mapping[str, Shaped[np.ndarray, " n"]],
    progress: Progress,
) -> LabelIssues:
    """Return label issues of classes, by the label noise that explains the labels best."""
    # other_log_p: log probabilities by further judges. columns: the labels' sources by name.
    has_one_output = fit.held_out.shape[1] == 1  # of two classes

    def refit(classes: Float[Tensor, "n k"]) -> Outputs:
        """Return all judges' outputs, those of the fit to probabilities of the true classes."""
        held_out = fit.held_out_of(classes[:, 1:] if has_one_output else classes, progress)
        return [by_class(held_out), *other_log_p]

    judges = [by_class(fit.held_out), *other_log_p]
    diagnosis = explain(judges, refit, labels, noise, trusted, columns)
    return _build_issues(
        diagnosis,
        labels,
        fit.held_out,
        ridge=fit.penalty,
        ids=fit.lin.ids,
        label_type=fit.lin.label_type,
        class_names=fit.lin.class_names,
        weights=diagnosis.weights if other_log_p else (),
    )


def _build_issues(
    diagnosis: Diagnosis,
    labels: Int[Tensor, " n"],
    held_out: Float[Tensor, "n outputs"],
    **fields: Any,
) -> LabelIssues:
    """Return label issues from the diagnosis of classes and further fields."""
    log_odds = diagnosis.log_odds
    worth_a_look = mask_array(log_odds > 0) | mark_top(log_odds, diagnosis.n_look)
    # A label worth a look is told the likeliest other class.
    other_log_p = diagnosis.posterior.scatter(1, labels[:, None], -torch.inf)
    is_shown = torch.as_tensor(worth_a_look)[:, None]
    suggested = torch.where(is_shown, other_log_p, diagnosis.posterior).argmax(1)
    return LabelIssues(
        score=log_odds.numpy(),
        probability=probability(log_odds).numpy(),
        suggested_label=suggested.numpy(),
        is_issue=mask_array(flag_wrong(log_odds)),
        worth_a_look=worth_a_look,
        share_wrong=diagnosis.share,
        posterior=diagnosis.posterior.exp().numpy(),
        noise=(diagnosis.noise,),
        held_out=held_out.numpy(),
        given_label=labels.numpy(),
        is_predicted=diagnosis.is_predicted,
        sources=diagnosis.sources if diagnosis.is_predicted else None,
        one_way=diagnosis.reading if diagnosis.is_predicted else None,
        **fields,
    )


def _find_model_issues(
    samples: SampleSet, model: Any, pred_probs: Any, trusted: Bool[Tensor, " n"], noise: str,
    columns: Mapping[str, Shaped[np.ndarray, " n"]], seed: int, progress: Progress,
) -> LabelIssues:  # fmt: skip
    """Return issues by the user's model (cross-validated) or given probabilities alone."""
    n = len(samples)
    names = samples.class_names
    gives_probabilities = True
    check_noise(noise, is_of_labels=samples.is_classification)
    if pred_probs is not None:
        held_out = checked_probabilities(pred_probs, n, names)
        judge = "probabilities given"
    else:
        model = checked_estimator(model, is_classification=samples.is_classification)
        held_out = torch.from_numpy(held_out_outputs(model, samples, seed, progress))
        judge = f"{type(model).__name__}, {FOLDS}-fold cross-validation"
        gives_probabilities = hasattr(model, "predict_proba")
    fields = {"ridge": nan, "ids": samples.ids, "judge": judge}
    if not samples.is_classification:
        targets = torch.from_numpy(samples.y.astype(np.float64)).reshape(n, -1)
        diagnosis = outliers(targets, held_out)
        return _find_target_issues(targets, held_out, diagnosis, trusted, **fields)
    labels = torch.as_tensor(samples.y)
    fields |= {"class_names": names, "label_type": samples.label_type}
    judges = [held_out]
    if gives_probabilities:
        fields["warnings"] = judge_warnings(held_out, labels)
        judges = [log_probabilities(held_out)]
    diagnosis = explain(judges, lambda _: judges, labels, noise, trusted, columns)  # no second fit
    return _build_issues(diagnosis, labels, held_out, **fields)


def _find_target_issues(
    targets: Float[Tensor, "n k"], held_out: Float[Tensor, "n k"], diagnosis: Outliers,
    trusted: Bool[Tensor, " n"], **fields: Any,
) -> LabelIssues:  # fmt: skip
    """Return outliers among regression targets as label issues; trusted ones are none."""
    p = diagnosis.probability.masked_fill(trusted, 0.0)
    is_suspect = (p > LOOK) | ((p > 0) & (diagnosis.score > LOOK_SCORE))
    return LabelIssues(
        score=diagnosis.score.masked_fill(trusted, TRUSTED).numpy(),
        probability=p.numpy(),
        suggested_label=clip_targets(diagnosis.expected, targets[p <= 0.5]).squeeze(1).numpy(),
        is_issue=mask_array(p > 0.5),
        worth_a_look=is_suspect.numpy() & (len(p) >= FEWEST),
        share_wrong=(least_share(p), diagnosis.most * float((~trusted).double().mean())),
        posterior=None,
        noise=(),
        held_out=held_out.numpy(),
        given_label=targets.squeeze(1).numpy(),
        **fields,
    )


def _score_run(context: Context) -> LabelIssues:
    """Return a run's label issues, by the user's model or by the network and other classifiers."""
    train = context.train
    progress = context.progress
    noise = context.options.get("label_noise", "auto")
    model = context.options.get("estimator")
    if model is not None:
        return label_issues(
            train, model=model, trusted=train.trusted, groups=train.groups, noise=noise,
            seed=context.seed, progress=progress,
        )  # fmt: skip
    judges = context.options.get("judges")  # a future, where a run has begun to fit them
    if judges:
        models = judges.result()
    else:  # parts of the samples, scored to choose actions: one split is enough
        models = further_judges(train, context.seed, progress, 1)
    issues = label_issues(
        context.lin, noise=noise, pred_probs=[*models.values()], trusted=train.trusted,
        groups=train.groups, sources=source_columns(train), progress=progress,
    )  # fmt: skip
    return mark_cells(replace(issues, judge=", ".join(("linearised network", *models))), train)


SCORE = Score(
    name="label_issues",
    help="How likely a sample's label is wrong.",
    compute=_score_run,
    cost=judge_steps,
    is_in_text=True,
)
