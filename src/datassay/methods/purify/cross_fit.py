"""Cross-fitting: samples whose label is too unlikely under a fit that never saw it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.optional import take_first
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.labels.likelihood import by_class
from datassay.train.convex import fit_convex

PARTS = 10
# Penalties that are tried, of the mean loss; the largest first, from which the next one starts.
RIDGES = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4)
ROUNDS, NEWTON_STEPS = 6, 2
# Shares of the samples: rounds end where fewer change, and nothing goes where fewer would.
FEW_CHANGES, FEWEST = 0.005, 0.02
# Standard errors by which held-out accuracy on the given labels has to rise; where it rises by SURE
# after half of the tenths, the others are left out. Of 100 drawn sets with noise 1.0 and 1.5 harmed
# two by a point or more, 2.0 none.
LEAST_ERRORS, SURE = 2.0, 3.0
# More weights than this are fitted to the leading directions of the layer's inputs alone.
MOST_WEIGHTS = 800


@result
class CrossFit:
    """Result of cross-fitting: which labels the others' fit contradicts.

    Attributes:
        surprise: [n], −log p_−i(y_i | x_i) under the fit to the samples kept, nats.
        is_suspect: [n], labels that the others' fit contradicts.
        is_foreign: [n], whether a sample is to go: the suspects, where that is sure to help.
        ridge: of the mean loss, best for what is kept.
        gain: of held-out accuracy on the given labels by removal; NaN where none would go.
        error: its standard error.
        before: held-out accuracy on the given labels without removal.
    """

    surprise: Float[Tensor, " n"]
    is_suspect: Bool[Tensor, " n"]
    is_foreign: Bool[Tensor, " n"]
    ridge: float
    gain: float = math.nan
    error: float = math.nan
    before: float = math.nan

    @property
    def n_suspects(self) -> int:
        """How many labels the others' fit contradicts."""
        return int(self.is_suspect.sum())


def cross_fit(
    geometry: OutputGeometry,
    folds: Int[Tensor, " n"],
    *,
    ridge: float | None = None,
    progress: Progress = silent,
) -> CrossFit:
    """Find samples whose label contradicts a linear model of the others, if removing them helps.

    Keep S, at first all samples. In each round the ridge that predicts the labels of S best,
    each left out of its fit, is chosen among RIDGES (after the first round: the last one or the
    next smaller). Then S is all samples, kept before or not, with

        p_−i(y_i | x_i) ≥ 1/(2K),   f_−i = f_i + (I − Q_i S_i)⁻¹ Q_i g_i,   Q_i = J_i H⁻¹ J_iᵀ / |S|

    where g_i and S_i are the gradient and the Hessian of the loss in the outputs, H that of the
    penalised mean loss in the weights; f_−i = f_i for a sample outside S. It ends where at most
    0.5 % change, where less than half would stay, or after six rounds.

    The same is done without each tenth, under the ridges that the whole took, and the tenth's
    labels, as given, are predicted with and without removal; labels wrong at random cost both
    alike. Samples go only where accuracy rises by more than 2 standard errors, and where they are
    at least 2 %. Five tenths are enough where accuracy does not rise, or by more than 3.

    Args:
        geometry: of a model linear in what trains, under cross-entropy.
        folds: which tenth each sample is in, from 0.
        ridge: the only one tried, (ridge/2)‖θ‖² added to the mean loss; None chooses it.
        progress: called with (step, parts done, parts in all).

    Returns:
        Each label's surprise, which samples are to go, the ridge, and the held-out gain.

    Cost: of all samples at most 18 fits of two Newton steps, of each part 7, each as `fit_convex`,
    and n k² d² for the samples left out; with nothing to remove six fits in all.
    Source: ours, after confident learning (Northcutt et al., 2021). f_−i is one Newton step from
    the fit with the sample (Rad and Maleki, 2020), in the place of folds. Deviates beyond 800
    weights: the fit sees the leading directions of the inputs alone.
    """
    geometry = _reduce_inputs(geometry)
    n = len(geometry)
    y = geometry.targets
    labels = by_class(y).argmax(1)
    ridges = RIDGES if ridge is None else (ridge,)
    keep, fits = _run_rounds(geometry, labels, torch.ones(n, dtype=torch.bool), ridges)
    final_fit = fits[-1]
    gain = error = before = math.nan
    is_suspect = ~keep
    if is_suspect.any():
        # Whether the label is predicted, before and after; NaN: fold not yet judged.
        is_right = torch.full((2, n), math.nan, dtype=torch.float64)
        fold_ids = folds.unique()
        for done, fold in enumerate(fold_ids, 1):
            is_test = folds == fold
            _, fold_fits = _run_rounds(geometry, labels, ~is_test, ridges, fits)
            for stage, fit in enumerate((fold_fits[0], fold_fits[-1])):
                is_hit = fit.log_p[is_test].argmax(1) == labels[is_test]
                is_right[stage, is_test] = is_hit.double()
            progress("cross-fit", done, len(fold_ids))
            judged = is_right[:, ~is_right[0].isnan()]
            judged_change = judged[1] - judged[0]
            before = float(judged[0].mean())
            gain = float(judged_change.mean())
            error = float(judged_change.std() / len(judged_change) ** 0.5)
            if 2 * done >= len(fold_ids) and not 0 < gain <= SURE * error:
                break
        if gain <= LEAST_ERRORS * error:
            keep = torch.ones_like(keep)
            final_fit = fits[0]
    surprise = -final_fit.of_labels(labels)
    return CrossFit(surprise, is_suspect, ~keep, final_fit.ridge, gain, error, before)


def _reduce_inputs(geometry: OutputGeometry) -> OutputGeometry:
    """Return the geometry with inputs projected on leading directions, at most MOST_WEIGHTS."""
    assert isinstance(geometry.features, SharedFeatures)
    x = geometry.features.x
    k = geometry.features.n_outputs
    max_width = max(1, MOST_WEIGHTS // k)
    if x.shape[1] <= max_width:
        return geometry
    directions = torch.linalg.eigh(x.T @ x).eigenvectors[:, -max_width:]
    return replace(geometry, features=SharedFeatures(x @ directions, k))


@result
class _Fit:
    """A fit to the kept samples, under the ridge that is best for it."""

    weights: Float[Tensor, "1 p"]
    ridge: float
    log_p: Float[Tensor, "n K"]  # log-probabilities of each class, the sample left out

    def of_labels(self, labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return the left-out log-probability of each sample's label."""
        return self.log_p[torch.arange(len(labels)), labels]


def _run_rounds(
    geometry: OutputGeometry,
    labels: Int[Tensor, " n"],
    is_train: Bool[Tensor, " n"],
    ridges: Sequence[float],
    reference: Sequence[_Fit] = (),
) -> tuple[Bool[Tensor, " n"], list[_Fit]]:
    """Return which training samples are kept, [n] bool, and the fit of each round."""
    # A fold takes the ridges of the reference's rounds and starts from its first weights. Two steps
    # forget them: after one alone the held-out labels still changed a decision.
    keep = is_train
    n_train = int(is_train.sum())
    fits = list[_Fit]()
    for step in range(ROUNDS + 1):
        step_ridges = ridges
        start = take_first(reference)
        if reference:
            step_ridges = (reference[min(step, len(reference) - 1)].ridge,)
        elif fits:
            position = ridges.index(fits[-1].ridge)
            step_ridges = ridges[position : position + 2]
        if fits:
            start = fits[-1]
        fit = _fit_best_ridge(geometry, labels, keep, step_ridges, start)
        fits.append(fit)
        n_classes = fit.log_p.shape[1]
        new_keep = is_train & (fit.of_labels(labels) >= -math.log(2 * n_classes))
        n_removed = n_train - int(new_keep.sum())
        is_pure = step == 0 and n_removed < FEWEST * n_train
        if step == ROUNDS or 2 * n_removed >= n_train or is_pure:
            break
        n_changed = int((new_keep != keep).sum())
        keep = new_keep
        if n_changed <= FEW_CHANGES * n_train:
            break
    if n_train - int(keep.sum()) < FEWEST * n_train:
        return is_train, fits[:1]
    return keep, fits


def _fit_best_ridge(
    geometry: OutputGeometry,
    labels: Int[Tensor, " n"],
    keep: Bool[Tensor, " n"],
    ridges: Sequence[float],
    start: _Fit | None,
) -> _Fit:
    """Return the fit whose ridge predicts left-out labels best."""
    weights = None if start is None else start.weights
    fits = list[_Fit]()
    for ridge in ridges:
        weights = fit_convex(
            geometry.features, geometry.targets, geometry.loss, ridge,
            sample_weight=keep.double()[None], start=weights, max_steps=NEWTON_STEPS,
        ).weights  # fmt: skip
        fits.append(_Fit(weights, ridge, _predict_left_out(geometry, weights[0], keep, ridge)))
    return max(fits, key=lambda fit: float(fit.of_labels(labels)[keep].mean()))


def _predict_left_out(
    geometry: OutputGeometry, weights: Float[Tensor, " p"], keep: Bool[Tensor, " n"], ridge: float
) -> Float[Tensor, "n K"]:
    """Return log-probabilities, [n, K], of each sample by the fit without it."""
    outputs = geometry.features.outputs(weights)
    gradient = geometry.kind.gradient(outputs, geometry.targets)  # g_i
    output_hessian = geometry.kind.hessian(outputs)  # S_i
    share = (keep / keep.sum()).double()[:, None, None]  # 1/|S|; 0 for what is not in S
    hessian = geometry.features.curvature(share * output_hessian)  # H
    hessian.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    reach = share * geometry.features.quadratic(inverse)  # Q_i
    system = torch.eye(outputs.shape[1], dtype=torch.float64) - reach @ output_hessian
    outputs = outputs + torch.linalg.solve(system, reach @ gradient[..., None])[..., 0]
    if outputs.shape[1] == 1:  # of two classes one logit, that of the second
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    return outputs.log_softmax(1)
