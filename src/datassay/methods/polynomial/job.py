"""The job of `datassay polynomial`: fit or read, score, take apart, gather the findings."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.collect.curvature.output_loss import margins, predicted_class
from datassay.commands.facts import closing_facts, data_facts, file_digest
from datassay.commands.frame import SampleFindings
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.command import PolynomialSettings
from datassay.methods.polynomial.contributions import Contributions, contributions
from datassay.methods.polynomial.fit import PolynomialFit, fit_polynomial
from datassay.methods.polynomial.maps import CoefMaps, coef_maps
from datassay.methods.polynomial.surrogate import (
    Surrogate,
    SurrogateScores,
    empty_surrogate,
    grey_shape,
    load_surrogate,
    output_names,
    output_targets,
    surrogate_scores,
)
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.results import result

N_WRONG, N_RIGHT = 6, 6  # samples that are taken apart
MOST_FOR_SPREAD = 2000
MOST_PARTS = 20_000_000  # values of the contributions that are held: 160 MB
WINDOW = 3
LINEAR = "linear (degree 1)"
OURS = "this polynomial"
LINEAR_STEP = "linear model to compare with"


@result
class PolynomialFindings(SampleFindings):
    """A polynomial surrogate; arrays of m values are in the order of the validation samples.

    Its predictions have no say in the fit.
    """

    surrogate: Surrogate
    outputs: Float[np.ndarray, "m q"]
    degree_spread: Float[np.ndarray, "k q"]  # see `Surrogate.degree_spread`
    scores: SurrogateScores  # compared with simpler models
    explained: Int[np.ndarray, " e"]  # positions whose contributions are shown
    parts: Contributions
    fit: PolynomialFit | None = None  # None where it was read from a file
    maps: CoefMaps | None = None  # None where the inputs are no grey images

    @property
    def predicted(self) -> Int[np.ndarray, " m"]:
        """[m], the class of the largest output; of targets all 0."""
        if self.samples.is_classification:
            return predicted_class(self.outputs)
        return np.zeros(len(self.outputs), np.int64)

    @property
    def margin(self) -> Float[np.ndarray, " m"]:
        """[m], by how much the given label leads; of targets minus the largest absolute error."""
        return margins(self.outputs, self.validation)

    @property
    def is_wrong(self) -> Bool[np.ndarray, " m"]:
        """[m], whether another class is predicted; never of targets."""
        if not self.samples.is_classification:
            return np.zeros(len(self.outputs), bool)
        return self.predicted != self.validation.y


def run(
    train: SampleSet, val: SampleSet, settings: PolynomialSettings, progress: Progress = silent
) -> PolynomialFindings:
    """Compute everything that `datassay polynomial` shows, without writing anything."""
    started = time.perf_counter()
    seed = settings.seed
    check_against_samples(settings, train)
    surrogate, fit = _make_surrogate(train, val, settings, progress)
    polynomial = surrogate.polynomial
    models = {OURS: surrogate}
    if polynomial.monomials.degree.max() > 1:  # the ridge fit of degree 1 tells what products add
        linear = empty_surrogate(train, 1, None)
        progress(LINEAR_STEP, 0, 1)
        x = linear.inputs(train.x)
        monomials = linear.polynomial.monomials
        linear_fit = fit_polynomial(x, output_targets(train), monomials, seed=seed)
        progress(LINEAR_STEP, 1, 1)
        models = {LINEAR: replace(linear, polynomial=linear_fit.polynomial), OURS: surrogate}
    outputs = {name: model.outputs(val.x) for name, model in models.items()}
    n_shown = min(N_WRONG + N_RIGHT, max(1, MOST_PARTS // polynomial.coef.size))
    margin = margins(outputs[OURS], val)
    explained = choose_samples(margin, val.is_classification, val.y, n_shown, seed)
    findings = PolynomialFindings(
        samples=train,
        validation=val,
        surrogate=surrogate,
        outputs=outputs[OURS],
        degree_spread=surrogate.degree_spread(val.x[:MOST_FOR_SPREAD]),
        scores=surrogate_scores(models, outputs, train, val, seed=seed),
        explained=explained,
        parts=contributions(polynomial, surrogate.inputs(val.x[explained])),
        fit=fit,
        maps=None if polynomial.monomials.image_shape is None else coef_maps(polynomial),
    )
    closing = closing_facts(started, seed, settings.command)
    return replace(findings, facts=_list_facts(findings, settings) | closing)


def check_against_samples(settings: PolynomialSettings, train: SampleSet) -> None:
    """Raise if the settings do not suit the loaded samples."""
    ridge = settings.ridge
    if ridge != "auto" and (isinstance(ridge, str) or not 0 <= ridge < float("inf")):
        raise SettingError(f"ridge must be 'auto' or a number of at least 0; got {ridge!r}.")
    if settings.solver != "batched":
        return
    if not 2 <= settings.batch_size <= len(train):
        raise SettingError(
            f"batch-size must be at least 2 and at most the {len(train):,} training samples; got "
            f"{settings.batch_size:,}."
        )


def _make_surrogate(
    train: SampleSet, val: SampleSet, settings: PolynomialSettings, progress: Progress
) -> tuple[Surrogate, PolynomialFit | None]:
    """Return the fitted polynomial, or a file's, and its fit (None if from a file)."""
    if settings.model is not None:
        return _read_surrogate(settings.model, train), None
    window = settings.window
    if window == "auto":
        shape = grey_shape(train)
        window = None
        if shape is not None:
            largest_odd = (min(shape) - 1) // 2 * 2 + 1
            window = min(WINDOW, largest_odd)
    assert not isinstance(window, str)
    surrogate = empty_surrogate(train, settings.degree, window)
    options: dict[str, Any] = {"ridge": settings.ridge, "store": settings.store}
    if settings.solver == "batched":
        options = {"n_batches": settings.n_batches, "batch_size": settings.batch_size}
        options["val"] = (surrogate.inputs(val.x), output_targets(val))
    fit = fit_polynomial(
        surrogate.inputs(train.x), output_targets(train), surrogate.polynomial.monomials,
        solver=settings.solver, precision=settings.precision, seed=settings.seed,
        progress=progress, **options,
    )  # fmt: skip
    return replace(surrogate, polynomial=fit.polynomial), fit


def _read_surrogate(path: Path, train: SampleSet) -> Surrogate:
    """Return a file's polynomial; raise if it does not suit these samples."""
    surrogate = load_surrogate(path)
    n_inputs = surrogate.polynomial.monomials.n_inputs
    names = output_names(train)
    d = int(np.prod(train.input_shape))
    if surrogate.output_names != names or n_inputs != d:
        theirs, ours = (
            ", ".join(words[:3]) + text_if(len(words) > 3, f" and {len(words) - 3} more")
            for words in (surrogate.output_names, names)
        )
        raise DataError(
            f"the polynomial in {path} takes {n_inputs} values and says {theirs}; the data have "
            f"{d} and {ours}. Give the data that it was fitted to, or fit again."
        )
    return surrogate


def choose_samples(
    margin: np.ndarray, is_classification: bool, y: np.ndarray, limit: int, seed: int = 0
) -> Int[np.ndarray, " e"]:
    """Choose the validation samples to explain, at most `limit`.

    Returns:
        Up to 6 that are wrong, furthest off first (of targets: of largest error), then up to 6
        others drawn at random, of as many classes as there is room for.
    """
    order = np.argsort(margin, kind="stable")
    most_wrong = min(N_WRONG, (limit + 1) // 2)
    if is_classification:
        n_wrong = int((margin < 0).sum())
        worst = order[: min(n_wrong, most_wrong)]
        candidates = order[n_wrong:]
    else:
        worst = order[:most_wrong]
        candidates = order[len(worst) :]
    sampled = np.random.default_rng(seed).permutation(candidates)
    if is_classification:  # one of each class, then a second of each, ...
        rank_in_class = np.zeros(len(sampled), int)
        for c in np.unique(y[sampled]):
            rank_in_class[y[sampled] == c] = np.arange(int((y[sampled] == c).sum()))
        sampled = sampled[np.argsort(rank_in_class, kind="stable")]
    return np.concatenate([worst, sampled[: min(N_RIGHT, limit - len(worst))]]).astype(np.int64)


def _list_facts(findings: PolynomialFindings, settings: PolynomialSettings) -> dict[str, str]:
    """Return the page's facts: name → text."""
    monomials = findings.surrogate.polynomial.monomials
    fit = findings.fit
    features = f"all products to degree {monomials.degree.max()}"
    if monomials.window is not None:
        size = f"{monomials.window} x {monomials.window}"
        features = f"products of up to {monomials.degree.max()} pixels in a {size} window"
    facts = {
        **data_facts(findings.samples, findings.validation),
        "Features": f"{monomials.n_features:,}: {features}",
        "Inputs": "columns minus their mean, over their standard deviation"
        if findings.samples.kind == "row"
        else "as they are",
    }
    if fit is None:
        assert settings.model is not None
        facts["Fit"] = f"read from {settings.model.name}, {file_digest(settings.model)}"
    elif fit.solver == "exact":
        choice = "given"
        if settings.ridge == "auto":
            choice = "by leave-one-out"
        facts["Fit"] = f"exact least squares, ridge {fit.ridge:.3g} ({choice})"
    else:
        sizes = f"{count(settings.n_batches, 'batch', 'batches')} of {settings.batch_size:,}"
        facts["Fit"] = f"average over {sizes}"
    return facts
