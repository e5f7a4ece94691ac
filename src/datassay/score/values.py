"""Data values: what each sample is worth to a fit, in points of accuracy on other inputs.

A sample's value is a semivalue: the mean, over subsets of the training samples that hold it, of
what the fit loses where it is taken out. The fit is the ridge regression of `label_issues`:
every removal from a subset has a closed form, and one solve a subset gives all its samples.
Out-of-bag values ask instead how well trees that did not see the sample predict its label.
"""

from collections.abc import Iterator
from math import log
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.rules import at_least, require
from datassay.score.labels.likelihood import by_class, fit_noise
from datassay.score.labels.outliers import outliers
from datassay.score.labels.ridge import RidgeFit, ridge_fit
from datassay.score.linear.inputs import flatten_inputs, of_inputs
from datassay.score.linear.subsets import (
    HELD,
    MOST_MODES,
    Modes,
    SubsetFits,
    invert_ridge,
    multiply_transposed,
    read_modes,
    share_products,
)
from datassay.stats import LEVEL

OUT_OF_BAG = "out_of_bag"
SEMIVALUES = ("beta", "shapley", "banzhaf", OUT_OF_BAG)
TREES = 5  # of each bootstrap sample
SUBSETS = 64
FITS_AT_ONCE = 8  # whose outputs are computed by one product
FEWEST = 10  # samples, of all and of the smallest subset
FOLLOWS = 0.5  # correlation of accuracy with squared error below which values stay squared errors


@result
class DataValues(Tabular):
    """What each sample is worth, one row per sample.

    Attributes:
        value: [n]; above 0 the sample helps, below 0 the fit does better without it, on these
            inputs: of clean samples up to a seventh are below, and removing them gains nothing. Out
            of bag: how well fits without the sample predict its label, 1 at most.
        low: [n], lower end of the value's 95 % interval over the draws of subsets alone.
        high: [n], upper end.
        unit: of the values: "accuracy" (0.01 is a point), "squared error" where accuracy does not
            follow it, or "share of variance" (of numbers: R²).
        semivalue: which subsets count how much.
        n_subsets: that were drawn.
        follows: correlation over subsets of accuracy with the squared error that it replaces; nan
            for numbers.
        ids: [n], the samples' ids.
        warnings: what the user should know about these numbers; empty when nothing.
    """

    value: Float[np.ndarray, " n"] = column(
        "what held-out predictions gain by the sample, over subsets of the others",
        unit="accuracy; of numbers share of variance",
        sign="below 0: they are better without it",
        name="data_value",
    )
    low: Float[np.ndarray, " n"] = column("lower end of the value's 95 % interval")
    high: Float[np.ndarray, " n"] = column("upper end of the value's 95 % interval")
    unit: str
    semivalue: str
    n_subsets: int
    follows: float
    ids: np.ndarray = sample_ids()
    warnings: tuple[str, ...] = ()


@checks_arguments
def values(
    data: Linearization | SampleSet,
    val: SampleSet | None = None,
    *,
    semivalue: str = "beta",
    n_subsets: int = SUBSETS,
    seed: int = 0,
    progress: Progress = silent,
) -> DataValues:
    """Estimate each training sample's value: held-out accuracy it brings, over subsets of others.

    value_i = E_S [U(S) − U(S∖i)],  i in S,  U the negative squared error of the fit to S on all
    inputs but that of i;  out of bag:  value_i = E_S [p_S(y_i | x_i)],  i not in S

    Args:
        data: n samples, or a linearised network's features of them. Predicted are the validation
            inputs, where there are any, and the training inputs, each with the probabilities of its
            true class (as `label_issues` finds them, from predictions without it): wrong labels of
            either do not count as the truth. Of samples the fit is in their inputs, flattened and
            scaled to one deviation, and in Gaussian kernels of them with 512 samples.
        val: validation samples, where `data` are samples; a linearisation brings its own.
        semivalue: which subsets count. "shapley": all sizes alike. "beta": in proportion to their
            size, Beta(1, 2). "banzhaf": about half of the samples. "out_of_bag": no semivalue, but
            the probability of its label (of numbers 1 − squared error / variance) by five extremely
            randomised trees a bootstrap sample of training and validation samples that does not
            hold it; finds faulty samples rather than those that teach most.
        n_subsets: subsets drawn, two or more; intervals narrow with their root.
        seed: of the draws.
        progress: called with (step, subsets done, subsets in all).

    Returns:
        Values with intervals. Squared errors are converted to accuracy, by how both vary together
        over the subsets.

    Raises:
        SettingError: a setting is unknown or out of range, there is val beside a linearisation, a
            large linearisation has joint outputs, or out-of-bag values are asked of one.
        DataError: fewer than 10 samples, inputs are words, or val does not belong to `data`.
        ModelError: the kernel is 0.

    Cost: that of the ridge fit of `label_issues`, and 4 s r² + r³ operations a subset of s samples,
        r modes of the kernel, which hold 80 % of the fit's degrees of freedom, 512 at most: a
        second for 2000 samples. r² + n r values.
    Source: Shapley (Ghorbani and Zou 2019), Beta Shapley (Kwon and Zou 2022), Banzhaf (Wang and Jia
        2023), of a ridge regression, whose removals are closed; Data-OOB (Kwon and Zou 2023) of
        trees, in whose bags validation samples are too. Deviates: subsets have 10 samples
        and 2 a class at least; training inputs are predicted too, all but the sample's own: few
        validation samples alone make noisy values (`bench/truths/values.py`).
    """
    require(semivalue in SEMIVALUES, "semivalue", f"be one of {', '.join(SEMIVALUES)}", semivalue)
    at_least("n_subsets", n_subsets, 2)
    n = len(data)
    if n < FEWEST:
        raise DataError(f"values need at least {FEWEST} samples; got {n}. Add samples.")
    if isinstance(data, Linearization) and val is not None:
        raise SettingError(
            "a linearisation holds its own validation samples; got val too. Give them to "
            "collect(model, train, val)."
        )
    if semivalue == OUT_OF_BAG:
        return _value_out_of_bag(data, val, n_subsets, seed, progress)
    lin = data if isinstance(data, Linearization) else of_inputs(data, val, seed)
    fit = ridge_fit(lin, progress)
    if fit.lin.rows_per_sample > 1:
        raise SettingError(
            f"outputs must be averaged for values of {n:,} samples; these are joint. Collect with "
            "outputs='averaged'."
        )
    modes = read_modes(fit)
    truth, offset = _estimate_truth(fit, modes)
    fits = share_products(fit, modes, truth - offset)
    tally = _Tally(n)
    subset_weights = []
    fitted_weights = []
    subsets = _draw_subsets(semivalue, n_subsets, lin, seed)
    for done, subset in enumerate(subsets, 1):
        gain, weights = fits.gains(subset)
        subset_weight = len(subset) if semivalue == "beta" else 1
        tally.add(subset, gain, subset_weight)
        if lin.labels is not None:
            fitted_weights.append(weights)
            subset_weights.append(subset_weight)
        progress("data values", done, len(subsets))
    value, half_width = tally.means(by_steps=True)
    subset_scores = _score_fits(fits, fitted_weights, truth, offset)
    scale, unit, follows = _accuracy_scale(subset_scores, subset_weights, truth)
    warnings = ()
    if modes.share < HELD:
        share = f"{modes.share:.0%} of its degrees of freedom"
        warnings = (f"the fit's leading {MOST_MODES} modes stand for all: {share}.",)
    return DataValues(
        value=(scale * value).numpy(),
        low=(scale * (value - half_width)).numpy(),
        high=(scale * (value + half_width)).numpy(),
        unit=unit,
        semivalue=semivalue,
        n_subsets=len(subsets),
        follows=follows,
        ids=lin.ids,
        warnings=warnings,
    )


def _value_out_of_bag(
    train: SampleSet | Linearization, val: SampleSet | None, n_bags: int, seed: int,
    progress: Progress,
) -> DataValues:  # fmt: skip
    """Estimate values by how well trees without a sample predict its label."""
    # n_bags: at least; more until each sample is out of two.
    if isinstance(train, Linearization):
        raise SettingError(
            "out-of-bag values are of samples' inputs; got a linearisation. Give samples, such as "
            "a network's features of them."
        )
    n = len(train)
    rng = np.random.default_rng(seed)
    is_classification = train.is_classification
    sets, inputs = flatten_inputs(train, val)
    x = np.concatenate(inputs)
    y = np.concatenate([samples.y for samples in sets])
    if is_classification:
        variance = 1.0
        trees_class = ExtraTreesClassifier
    else:
        variance = float(train.y.var(0).sum())
        trees_class = ExtraTreesRegressor
    tally = _Tally(n)
    done = 0
    while done < n_bags or tally.count.min() < 2:
        bag = rng.integers(len(x), size=len(x))
        oob = np.setdiff1d(np.arange(n), bag)
        trees: Any = trees_class(TREES, random_state=int(rng.integers(2**31)))
        trees.fit(x[bag], y[bag])
        if is_classification:
            is_label = trees.classes_ == y[oob, None]  # [outside, classes of the bag]
            fits = (trees.predict_proba(x[oob]) * is_label).sum(1)
        else:
            error = np.square(trees.predict(x[oob]) - y[oob]).reshape(len(oob), -1).sum(1)
            fits = 1 - error / variance
        tally.add(torch.from_numpy(oob), torch.from_numpy(fits))
        done += 1
        progress("data values", min(done, n_bags), n_bags)
    value, half_width = (values.numpy() for values in tally.means(by_steps=False))
    unit = "accuracy" if is_classification else "share of variance"
    return DataValues(
        value, value - half_width, value + half_width, unit, OUT_OF_BAG, n_subsets=done,
        follows=np.nan, ids=train.ids,
    )  # fmt: skip


class _Tally:
    """Each sample's gains over subsets, summed: what their weighted mean and its error need."""

    def __init__(self, n: int):
        zeros = torch.zeros(n, dtype=torch.float64)
        self.count = zeros.clone()  # of subsets that hold the sample
        self._weight = zeros.clone()
        self._total = zeros.clone()
        self._squares = zeros.clone()
        self._step_squares = zeros.clone()  # of weighted changes from one gain to the next
        self._previous_gain = torch.full_like(zeros, torch.nan)

    def add(self, subset: Int[Tensor, " s"], gain: Float[Tensor, " s"], weight: float = 1) -> None:
        """Add the gains of one subset, which counts `weight` times."""
        step = (gain - self._previous_gain[subset]).nan_to_num()
        self._previous_gain[subset] = gain
        self.count[subset] += 1
        self._weight[subset] += weight
        self._total[subset] += weight * gain
        self._squares[subset] += gain.square()
        self._step_squares[subset] += (weight * step).square()

    def means(self, *, by_steps: bool) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Return each sample's mean and half its 95 % interval; nan for samples drawn once.

        by_steps: subsets came by size, and what the size alone changes is no error of the mean.
        """
        count = self.count
        mean = self._total / self._weight
        if by_steps:
            variance = self._step_squares / 2 * count / self._weight.square()
        else:
            variance = (self._squares / count - mean.square()).clamp_min(0)
        t = torch.from_numpy(stdtrit((count - 1).clamp_min(1).numpy(), (1 + LEVEL) / 2))
        half_width = t * (variance / (count - 1)).sqrt()
        return mean, torch.where(count > 1, half_width, torch.nan)


def _draw_subsets(
    semivalue: str, n_subsets: int, lin: Linearization, seed: int
) -> list[Int[Tensor, " s"]]:
    """Return random subsets, from small to large; each sample is in two at least."""
    # A size s holds a sample with probability s/n. Sizes drawn by 1/s thus meet each sample at all
    # sizes alike (Shapley). Beta(1, 2) takes them times their size: drawn alike instead, most were
    # large, which cost the most and vary the least.
    n = len(lin)
    rng = np.random.default_rng(seed)
    min_size = min(n - 1, max(FEWEST, 2 * len(lin.class_names)))
    quantiles = (np.arange(n_subsets) + rng.random()) / n_subsets  # systematic: no size is missed
    if semivalue == "banzhaf":
        sizes = rng.binomial(n, 0.5, n_subsets).clip(min_size)
    else:
        sizes = np.exp(log(min_size) + quantiles * (log(n) - log(min_size))).round()
    while sizes.sum() < 2 * n:
        sizes = np.sort(np.append(sizes, rng.choice(sizes)))
    return [torch.from_numpy(np.sort(subset)) for subset in _deal(sizes.astype(int), n, rng)]


def _deal(
    sizes: Int[np.ndarray, " subsets"], n: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " s"]]:
    """Yield subsets, dealt from shuffled decks: those of about one size hold all equally often."""
    deck = rng.permutation(n)
    for size in sizes:
        subset = deck[:size]
        deck = deck[size:]
        n_missing = size - len(subset)
        if n_missing:  # the deck is used up: the rest comes from the next, none twice
            deck = rng.permutation(n)
            is_candidate = ~np.isin(deck, subset)
            is_dealt = is_candidate & (is_candidate.cumsum() <= n_missing)
            subset = np.concatenate([subset, deck[is_dealt]])
            deck = deck[~is_dealt]
        yield subset


def _estimate_truth(
    fit: RidgeFit, modes: Modes
) -> tuple[Float[Tensor, "t k"], Float[Tensor, "t k"]]:
    """Return the true targets of all inputs, estimated, and the offsets that the fit adds."""
    # t inputs: the training samples, then the validation samples. Of classes their probabilities by
    # a held-out fit and the label; of numbers a mean of target and fit, by the chance of an error.
    lin = fit.lin
    offset = fit.offset.double()
    held_out = fit.held_out
    targets = fit.lin.targets
    if len(modes.val):
        assert lin.val_targets is not None and lin.val_outputs is not None
        val_offset = lin.val_outputs.double()
        if not offset.any():  # the fit starts from 0
            val_offset = torch.zeros_like(val_offset)
        projected = multiply_transposed(modes.a, targets - offset)
        weights = (invert_ridge(modes.gram, modes.penalty) @ projected).float()
        held_out = torch.cat([held_out, modes.val @ weights + val_offset])
        targets = torch.cat([targets, lin.val_targets])
        offset = torch.cat([offset, val_offset])
    targets = targets.double()
    if lin.labels is not None:
        labels = by_class(targets).argmax(1)
        probabilities = fit_noise([by_class(held_out)], labels, "one rate").log_posterior.exp()
        if targets.shape[1] == 1:
            probabilities = probabilities[:, 1:]
        return probabilities, offset
    if ((targets == 0) | (targets == 1)).all():  # several labels
        return targets, offset
    p_wrong = outliers(targets, held_out).probability[:, None]
    return (1 - p_wrong) * targets + p_wrong * held_out, offset


def _score_fits(
    fits: SubsetFits,
    fitted_weights: list[Float[Tensor, "r k"]],
    truth: Float[Tensor, "t k"],
    offset: Float[Tensor, "t k"],
) -> list[tuple[float, float]]:
    """Return of each subset's fit the expected share of right classes, and the squared error."""
    class_truth = by_class(truth)
    scores = []
    for start in range(0, len(fitted_weights), FITS_AT_ONCE):
        group = fitted_weights[start : start + FITS_AT_ONCE]
        outputs = fits.predict(torch.cat(group, 1)).split(truth.shape[1], 1)
        for weights, subset_outputs in zip(group, outputs, strict=True):
            classes = by_class(subset_outputs + offset).argmax(1, keepdim=True)
            accuracy = float(class_truth.gather(1, classes).mean())
            scores.append((accuracy, fits.squared_error(weights)))
    return scores


def _accuracy_scale(
    subset_scores: list[tuple[float, float]],
    subset_weights: list[int],
    truth: Float[Tensor, "t k"],
) -> tuple[float, str, float]:
    """Return the factor that converts squared errors, the unit then, and `DataValues.follows`."""
    # `subset_scores` has the accuracy and the squared error of each subset; empty where there are
    # no classes.
    if not subset_scores:
        return 1 / float(truth.var(0, correction=0).sum()), "share of variance", np.nan
    covariance = np.cov(np.array(subset_scores).T, ddof=0, aweights=subset_weights)
    variance = covariance[0, 0]
    error_variance = covariance[1, 1]
    follows = 0.0
    deviations = (variance * error_variance) ** 0.5
    if deviations > 0:
        follows = float(-covariance[0, 1] / deviations)
    if follows < FOLLOWS:
        return 1.0, "squared error", follows
    return follows * float((variance / error_variance) ** 0.5), "accuracy", follows
