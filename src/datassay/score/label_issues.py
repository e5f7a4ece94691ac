"""Likely label errors from held-out outputs: of one kernel ridge fit, or of the user's model."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.data.samples import LabelType, SampleSet
from datassay.data.targets import as_given
from datassay.errors import DataError, SettingError
from datassay.models.estimators import checked_estimator
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.labels.judges import (
    check_judges,
    checked_probabilities,
    held_out_probabilities,
    judge_warnings,
    judge_weight,
    log_probabilities,
)
from datassay.score.labels.likelihood import SCALE
from datassay.score.labels.noise import Explained, Judge, LabelNoise, check_noise, explain
from datassay.score.labels.outliers import outliers
from datassay.score.labels.ridge import LARGEST_KERNEL, RidgeFit, judge_steps, ridge_fit
from datassay.score.registry import Context, Score
from datassay.train.folds import FOLDS, held_out_outputs

# Of fewer samples none is a suspect: of 2, each contradicts the other.
FEWEST = 6
# By how many nats two judges must explain the labels better than the fit alone.
LEAST_NATS = 5.0
# A weight from which on the other judge speaks alone.
MOST_WEIGHT = 10.0
# Trees judge labels beside the network in tables of so many rows and at most so many classes. Of
# fewer rows they see no more than the network, and hide class pairs from it (Boston, 506 rows:
# 0.80 against 0.875); boosting fits as many trees a round as there are classes.
FEWEST_ROWS, MOST_CLASSES = 1000, 20
# Of several targets per sample, 0 and 1 in this share of the values mean several labels.
MOSTLY = 0.9


@result
class LabelIssues(Tabular):
    """How likely each given label is wrong, one row per sample.

    Attributes:
        given_label: [n], the label that was judged, coded like the suggested one.
        suggested_label: [n]; class index (int64): the likeliest class, of a suspect the likeliest
            other one. Several labels: [n, k], 0 or 1. Regression: the held-out output itself,
            target unit ([n, k] for several targets).
        is_issue: [n] bool, probability > 1/2; False for all where n is below FEWEST.
        score: [n]; higher: more likely mislabelled. Classification: log odds that the label is
            wrong, nats. Regression: the held-out residual's modified z-score minus 3.5, unitless;
            its spread is at least the targets' rounding, so that where most residuals are equal
            only others stand out.
        probability: [n], that the label (of several: at least one) is wrong.
        posterior: [n, k], probability of each true class; of several labels that each is 1; None
            for regression.
        noise: that was found, one for each of several labels; empty for regression.
        held_out: [n, outputs], 1 of two classes, from the fit to the given labels without each. Of
            an estimator its class probabilities (or decision function), or its predictions.
        ridge: the absolute penalty chosen by leave-one-out error, kernel unit; NaN of an estimator
            and of probabilities given.
        ids: [n], the samples' ids.
        class_names: in index order; empty for several labels and for regression.
        label_type: of the user's labels, which class_names are the words of.
        judge: what gave the held-out outputs.
        other_weight: of the other judge, a nat of its log probabilities compared with a unit of the
            fit's outputs; 0: none was given, or it explained nothing that the fit does not.
        warnings: what the user should know about these numbers; empty when nothing.
    """

    given_label: Shaped[np.ndarray, "n ..."] = column(
        "the given label", joint="", values=lambda one: one._as_given(one.given_label)
    )
    suggested_label: Shaped[np.ndarray, "n ..."] = column(
        "the likeliest label, of a suspect the likeliest other one; of a target the held-out "
        "output",
        values=lambda one: one._as_given(one.suggested_label),
    )
    is_issue: Bool[np.ndarray, " n"] = column(
        "whether the label is suspected: wrong_probability above 1/2"
    )
    score: Float[np.ndarray, " n"] = column(
        "log odds that the label is wrong; of targets the held-out residual's modified z-score "
        "minus 3.5",
        unit="nats; of targets none",
        sign="high: more likely wrong; 0: the bound of suspicion",
        name="label_issue_score",
    )
    probability: Float[np.ndarray, " n"] = column(
        "probability that the given label is wrong",
        unit="probability",
        sign="high: more likely wrong",
        name="wrong_probability",
    )
    posterior: Float[np.ndarray, "n k"] | None
    noise: tuple[LabelNoise, ...]
    held_out: Float[np.ndarray, "n outputs"]
    ridge: float
    ids: np.ndarray = sample_ids()
    class_names: tuple[str, ...] = ()
    label_type: LabelType = "string"
    judge: str = "ridge regression on the linearised network"
    other_weight: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def suspects(self) -> Int[np.ndarray, " suspects"]:
        """Positions of the flagged samples, the most suspect first."""
        flagged = np.flatnonzero(self.is_issue)
        return flagged[np.argsort(-self.score[flagged], kind="stable")]

    def expected_precision(self, top: int | None = None) -> float:
        """The share of wrong labels to expect among the most suspect samples.

        Args:
            top: how many of them; None: those that are flagged.

        Returns:
            Their mean probability; nan of none.

        Raises:
            SettingError: top is negative or above n.
        """
        if top is None:
            chosen = self.suspects
        elif 0 <= top <= len(self.score):
            chosen = np.argsort(-self.score, kind="stable")[:top]
        else:
            raise SettingError(f"top must lie in 0 ... {len(self.score)}; got {top}.")
        return float(self.probability[chosen].mean()) if len(chosen) else float("nan")

    def _as_given(self, labels: np.ndarray) -> pa.Array:
        return as_given(labels, self.class_names, self.label_type)


@checks_arguments
def label_issues(
    data: Linearization | SampleSet,
    *,
    model: Any = None,
    pred_probs: Any = None,
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
        model: a scikit-learn classifier or regressor, or its class: clones of it are fitted to
            four fifths of x (y the class indices) and judge the rest.
        pred_probs: held-out class probabilities of another model, [n, k], such as
            `held_out_probabilities` gives, in the order of class_names (sorted, as scikit-learn
            has them). With samples the judge; with a linearisation a second one: both speak where
            that explains the given labels better; gradient-boosted trees do on many tables.
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
            linearisation with one, or two judges.

    Cost: the eigendecomposition of the [n, n] kernel (shared with other scores where it is the
    linearisation's own), 70 n² k operations. From features: 2 n b p² operations to read their rows
    twice, 70 n b p k; p² values, a panel and 66 n k values. About 1000 evaluations of 6 n k²
    operations to find the noise. Of an estimator: 5 fits.
    Source: METHODS §2 and §2b, beyond confident learning (Northcutt et al. 2021): no k-fold
    retraining. Deviates: calibration by a matrix where AIC asks for it, forms of noise by the
    Bayesian information criterion instead of the gate, two calibrations averaged under one rate.
    f₀ is subtracted from the labels only where that lowers the leave-one-out error, since the
    outputs of an untrained head are noise. Penalties go from 1e-8 λ_max (1e-6 λ_max where products
    over all rows are not float64) to λ_max.
    """
    check_judges(isinstance(data, SampleSet), model, pred_probs)
    if isinstance(data, SampleSet):
        return _of_model(data, model, pred_probs, noise, seed, progress)
    lin = data
    several = lin.labels is None and _is_several(lin.targets)
    check_noise(noise, is_of_labels=lin.labels is not None or several)
    other = None
    if pred_probs is not None:
        names = lin.class_names if lin.labels is not None else ()
        other = log_probabilities(checked_probabilities(pred_probs, len(lin), names))
    lin = lin.averaged() if len(lin) <= LARGEST_KERNEL else lin
    fit = ridge_fit(lin, progress)
    if lin.labels is not None:
        return _of_classes(fit, torch.as_tensor(lin.labels), noise, other, progress)
    if several:
        return _of_several(fit, noise, progress)
    return _of_targets(lin.targets, fit.held_out, ridge=fit.penalty, ids=lin.ids)


def _of_classes(
    fit: RidgeFit,
    labels: Int[Tensor, " n"],
    noise: str,
    other: Float[Tensor, "n k"] | None,
    progress: Progress,
) -> LabelIssues:
    is_single = fit.held_out.shape[1] == 1

    def judge(classes: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        held_out = fit.held_out_of(classes[:, 1:] if is_single else classes, progress)
        return _by_class(held_out)

    held_out = _by_class(fit.held_out)
    outcome, weight = explain(held_out, judge, labels, noise), 0.0
    if other is not None:
        both, weight = _by_both(held_out, other, judge, labels, noise)
        better = outcome.criterion - both.criterion > 2 * LEAST_NATS
        outcome, weight = (both, weight) if better else (outcome, 0.0)
    of = {"ridge": fit.penalty, "ids": fit.lin.ids, "label_type": fit.lin.label_type}
    of |= {"class_names": fit.lin.class_names, "other_weight": weight}
    return _explained(outcome, labels, fit.held_out, **of)


def _by_both(
    held_out: Float[Tensor, "n k"],
    other: Float[Tensor, "n k"],
    judge: Judge,
    labels: Int[Tensor, " n"],
    noise: str,
) -> tuple[Explained, float]:
    """The explanation by the fit's outputs plus the other judge's, and the latter's weight."""
    weight = judge_weight(held_out, other, labels)
    if not weight < MOST_WEIGHT:  # the outputs add nothing: their unit is no measure
        scaled = other / MOST_WEIGHT
        return explain(scaled, lambda classes: scaled, labels, noise), weight
    return explain(
        held_out + weight * other, lambda classes: judge(classes) + weight * other, labels, noise
    ), weight


def _explained(
    outcome: Explained, labels: Int[Tensor, " n"], held_out: Float[Tensor, "n outputs"], **of: Any
) -> LabelIssues:
    is_issue = _flagged(outcome.log_odds)
    others = outcome.posterior.scatter(1, labels[:, None], -torch.inf)
    suggested = torch.where(torch.as_tensor(is_issue)[:, None], others, outcome.posterior).argmax(1)
    return LabelIssues(
        score=outcome.log_odds.numpy(),
        probability=torch.sigmoid(outcome.log_odds).numpy(),
        suggested_label=suggested.numpy(),
        is_issue=is_issue,
        posterior=outcome.posterior.exp().numpy(),
        noise=(outcome.noise,),
        held_out=held_out.numpy(),
        given_label=labels.numpy(),
        **of,
    )


def _of_model(
    samples: SampleSet, model: Any, pred_probs: Any, noise: str, seed: int, progress: Progress
) -> LabelIssues:
    """The user's own model as the only judge, by cross-validation or by what it gave."""
    n, names, is_probable = len(samples), samples.class_names, True
    check_noise(noise, is_of_labels=samples.is_classification)
    if pred_probs is not None:
        held_out, judge = checked_probabilities(pred_probs, n, names), "probabilities given"
    else:
        model = checked_estimator(model, is_classification=samples.is_classification)
        held_out = torch.from_numpy(held_out_outputs(model, samples, seed, progress))
        judge = f"{type(model).__name__}, {FOLDS}-fold cross-validation"
        is_probable = hasattr(model, "predict_proba")
    of = {"ridge": nan, "ids": samples.ids, "judge": judge}
    if not samples.is_classification:
        targets = torch.from_numpy(samples.y.astype(np.float64)).reshape(n, -1)
        return _of_targets(targets, held_out, **of)
    labels = torch.as_tensor(samples.y)
    of |= {"class_names": names, "label_type": samples.label_type}
    if is_probable:
        of["warnings"] = judge_warnings(held_out, labels)
    # In the unit that calibration starts from. Soft targets are not fitted: there is no second fit.
    outputs = log_probabilities(held_out) / SCALE if is_probable else held_out
    return _explained(explain(outputs, lambda _: outputs, labels, noise), labels, held_out, **of)


def _of_several(fit: RidgeFit, noise: str, progress: Progress) -> LabelIssues:
    """Each of several labels as two classes; a sample is judged by its worst label."""
    labels = fit.lin.targets.long()

    def judge(column: int):
        def judged(classes: Float[Tensor, "n 2"]) -> Float[Tensor, "n 2"]:
            targets = fit.lin.targets.double().clone()
            targets[:, column] = classes[:, 1]
            return _by_class(fit.held_out_of(targets, progress)[:, column : column + 1])

        return judged

    each = [
        explain(_by_class(fit.held_out[:, j : j + 1]), judge(j), labels[:, j], noise)
        for j in range(labels.shape[1])
    ]
    log_odds = torch.stack([outcome.log_odds for outcome in each], 1)
    all_right = torch.nn.functional.logsigmoid(-log_odds).sum(1)
    score = (-torch.expm1(all_right)).log() - all_right
    return LabelIssues(
        score=score.numpy(),
        probability=(-torch.expm1(all_right)).numpy(),
        suggested_label=torch.where(log_odds > 0, 1 - labels, labels).numpy(),
        is_issue=_flagged(score),
        posterior=torch.stack([results.posterior[:, 1].exp() for results in each], 1).numpy(),
        noise=tuple(computed.noise for computed in each),
        held_out=fit.held_out.numpy(),
        ridge=fit.penalty,
        ids=fit.lin.ids,
        given_label=labels.numpy(),
    )


def _of_targets(
    targets: Float[Tensor, "n k"], held_out: Float[Tensor, "n k"], **of: Any
) -> LabelIssues:
    outcome = outliers(targets, held_out)
    is_one = held_out.shape[1] == 1
    return LabelIssues(
        score=outcome.score.numpy(),
        probability=outcome.probability.numpy(),
        suggested_label=(held_out[:, 0] if is_one else held_out).numpy(),
        is_issue=_flagged(outcome.probability - 0.5),
        posterior=None,
        noise=(),
        held_out=held_out.numpy(),
        given_label=(targets[:, 0] if is_one else targets).numpy(),
        **of,
    )


def _flagged(score: Float[Tensor, " n"]) -> Bool[np.ndarray, " n"]:
    return (score > 0).numpy() & (len(score) >= FEWEST)


def _by_class(held_out: Float[Tensor, "n k"]) -> Float[Tensor, "n classes"]:
    """One column per class: a single output f becomes (1 − f, f)."""
    return torch.cat([1 - held_out, held_out], 1) if held_out.shape[1] == 1 else held_out


def _is_several(targets: Float[Tensor, "n k"]) -> bool:
    """Whether the targets are several labels per sample, each 0 or 1."""
    is_label = (targets == 0) | (targets == 1)
    if targets.shape[1] < 2 or is_label.double().mean() < MOSTLY:
        return False
    if not is_label.all():
        row, column = (int(i) for i in (~is_label).nonzero()[0])
        raise DataError(
            f"several labels per sample must each be 0 or 1; of {targets.numel():,} values "
            f"{int((~is_label).sum()):,} are neither, such as {float(targets[row, column])} in row "
            f"{row}, label {column}. Correct them, or give one target per sample."
        )
    return True


def _of_run(context: Context) -> LabelIssues:
    """By the user's model; of a table's classes with boosted trees besides the fit."""
    train, progress = context.train, context.progress
    noise, model = context.options.get("label_noise", "auto"), context.options.get("own")
    if model is not None:
        return label_issues(train, model=model, noise=noise, seed=context.seed, progress=progress)
    trees = None
    if train.kind == "row" and len(train) >= FEWEST_ROWS and 0 < train.n_classes <= MOST_CLASSES:
        trees = held_out_probabilities(train, seed=context.seed, progress=progress)
    return label_issues(context.lin, noise=noise, pred_probs=trees, progress=progress)


SCORE = Score(
    name="label_issues",
    help="How likely a sample's label is wrong.",
    compute=_of_run,
    cost=judge_steps,
)
