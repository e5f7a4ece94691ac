"""The job of `datassay polynomial`: fit or read, score, take apart, gather the findings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from datassay.collect.curvature.output_loss import margins
from datassay.commands.facts import closing_facts, data_facts, file_digest
from datassay.commands.polynomial.command import PolynomialSettings
from datassay.commands.polynomial.explained import N_RIGHT, N_WRONG, chosen_samples
from datassay.commands.polynomial.findings import PolynomialFindings
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.polynomial.contributions import contributions
from datassay.polynomial.fit import SOLVERS, PolynomialFit, fit_polynomial
from datassay.polynomial.maps import coef_maps
from datassay.polynomial.model import CHUNK, Polynomial
from datassay.polynomial.normal_equations import PRECISIONS
from datassay.polynomial.surrogate import (
    Surrogate,
    SurrogateScores,
    grey_shape,
    load_surrogate,
    sample_monomials,
    score_each,
)
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.results import result
from datassay.score.compare.robustness import Robustness, robustness

# So many training samples and corrupted images say enough; a score of 2000 is known to a point.
N_TRAIN, N_CORRUPTED = 5000, 2000
SIGMAS = np.array([0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
AREAS = (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25)  # shares of the image
MOST_PARTS = 20_000_000  # values of the contributions that are held: 160 MB
WINDOW = 3
LINEAR, OURS = "linear (degree 1)", "this polynomial"
LINEAR_STEP = "linear model to compare with"


def run(
    train: SampleSet, val: SampleSet, settings: PolynomialSettings, progress: Progress = silent
) -> PolynomialFindings:
    """Everything `datassay polynomial` computes, without writing anything."""
    started = time.perf_counter()
    check_against_samples(settings, train)
    job, fit = _Job(train, val, settings, progress), None
    if settings.model is None:
        surrogate, fit = job.fitted()
    else:
        surrogate = job.read(settings.model)
    outputs, linear = surrogate.outputs(val.x), job.linear(surrogate)
    models = {OURS: surrogate} if linear is None else {LINEAR: linear, OURS: surrogate}
    explained, polynomial = job.explained(outputs, surrogate), surrogate.polynomial
    facts = _facts(train, val, surrogate, fit, settings)
    return PolynomialFindings(
        samples=train,
        validation=val,
        surrogate=surrogate,
        outputs=outputs,
        degree_spread=_degree_spread(surrogate, val),
        scores=job.scores(models, outputs),
        explained=explained,
        parts=contributions(polynomial, surrogate.inputs(val.x[explained])),
        fit=fit,
        maps=None if polynomial.monomials.image_shape is None else coef_maps(polynomial),
        robustness=job.robustness(models),
        facts=facts | closing_facts(started, settings.seed, settings.command),
        warnings=_warnings(fit),
    )


def check_against_samples(settings: PolynomialSettings, train: SampleSet) -> None:
    """Refuse, before any work is done, what cannot be.

    Raises:
        SettingError: a setting is outside its rule, or two do not go together.
    """
    for name, value, allowed in (
        ("solver", settings.solver, SOLVERS),
        ("precision", settings.precision, PRECISIONS),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    if settings.degree < 1:
        raise SettingError(f"degree must be at least 1; got {settings.degree}.")
    ridge = settings.ridge
    if ridge != "auto" and (isinstance(ridge, str) or not 0 <= ridge < float("inf")):
        raise SettingError(f"ridge must be 'auto' or a number of at least 0; got {ridge!r}.")
    if settings.model is not None and settings.store is not None:
        raise SettingError("model is scored as it is, store is for a fit; got both. Leave one out.")
    if settings.solver != "batched":
        return
    if not 2 <= settings.batch_size <= len(train):
        raise SettingError(
            f"batch-size must be at least 2 and at most the {len(train):,} training samples; got "
            f"{settings.batch_size:,}."
        )
    if settings.n_batches < 1:
        raise SettingError(f"n-batches must be at least 1; got {settings.n_batches}.")
    if settings.store is not None or settings.precision == "bfloat16" or ridge != "auto":
        raise SettingError(
            "store, ridge and bfloat16 are for the exact solver; got them with 'batched'. Leave "
            "them out."
        )


@result
class _Job:
    """The samples and what to do with them."""

    train: SampleSet
    val: SampleSet
    settings: PolynomialSettings
    progress: Progress

    def fitted(self) -> tuple[Surrogate, PolynomialFit]:
        """The polynomial that the settings ask for."""
        settings = self.settings
        empty = _empty(self.train, settings.degree, _window(settings, self.train))
        val = (empty.inputs(self.val.x), _targets(self.val))
        how: dict[str, Any] = {"ridge": settings.ridge, "store": settings.store}
        if settings.solver == "batched":
            how = {"n_batches": settings.n_batches, "batch_size": settings.batch_size, "val": val}
        fit = fit_polynomial(
            empty.inputs(self.train.x),
            _targets(self.train),
            empty.polynomial.monomials,
            solver=settings.solver,
            precision=settings.precision,
            seed=settings.seed,
            progress=self.progress,
            **how,
        )
        return replace(empty, polynomial=fit.polynomial), fit

    def read(self, path: Path) -> Surrogate:
        """The polynomial of a file, if it is one of these samples."""
        surrogate = load_surrogate(path)
        n_inputs = surrogate.polynomial.monomials.n_inputs
        names, d = _output_names(self.train), int(np.prod(self.train.input_shape))
        if surrogate.output_names != names or n_inputs != d:
            raise DataError(
                f"the polynomial in {path} takes {n_inputs} values and says "
                f"{_few(surrogate.output_names)}; the data have {d} and {_few(names)}. Give the "
                "data that it was fitted to, or fit again."
            )
        return surrogate

    def linear(self, ours: Surrogate) -> Surrogate | None:
        """The ridge fit of degree 1, to see what products add."""
        if ours.polynomial.monomials.degree.max() < 2:
            return None
        empty = _empty(self.train, 1, None)
        self.progress(LINEAR_STEP, 0, 1)
        x, y = empty.inputs(self.train.x), _targets(self.train)
        fit = fit_polynomial(x, y, empty.polynomial.monomials, seed=self.settings.seed)
        self.progress(LINEAR_STEP, 1, 1)
        return replace(empty, polynomial=fit.polynomial)

    def scores(
        self, models: Mapping[str, Surrogate], outputs: Float[np.ndarray, "m q"]
    ) -> SurrogateScores:
        """Of a constant, of these models on validation and some training samples."""
        rng = np.random.default_rng(self.settings.seed)
        some = self.train.subset(np.sort(rng.permutation(len(self.train))[:N_TRAIN]))
        mean = _targets(self.train).mean(axis=0)
        constant = [np.tile(mean, (len(samples), 1)) for samples in (self.val, some)]
        each, train = [score_each(constant[0], self.val)], [score_each(constant[1], some).mean()]
        for name, model in models.items():
            predicted = outputs if name == OURS else model.outputs(self.val.x)
            each.append(score_each(predicted, self.val))
            train.append(score_each(model.outputs(some.x), some).mean())
        classes = self.train.is_classification
        return SurrogateScores(
            names=("the commonest class" if classes else "the mean", *models),
            each=np.stack(each),
            train=np.array(train),
            n_train=len(some),
            n_features=(1, *(m.polynomial.monomials.n_features for m in models.values())),
            metric="accuracy" if classes else "R²",
        )

    def explained(
        self, outputs: Float[np.ndarray, "m q"], surrogate: Surrogate
    ) -> Int[np.ndarray, " e"]:
        """Positions of the validation samples to take apart."""
        most = min(N_WRONG + N_RIGHT, max(1, MOST_PARTS // surrogate.polynomial.coef.size))
        margin, classes = margins(outputs, self.val), self.val.is_classification
        return chosen_samples(margin, classes, self.val.y, most, self.settings.seed)

    def robustness(self, models: Mapping[str, Surrogate]) -> tuple[Robustness, ...]:
        """Accuracy under noise and under patches, where there are images to corrupt."""
        if not _is_corruptible(self.val):
            return ()
        rng = np.random.default_rng(self.settings.seed)
        some = self.val.subset(np.sort(rng.permutation(len(self.val))[:N_CORRUPTED]))
        x = some.x if some.x.dtype == np.float64 else some.x.astype(np.float32)
        rows, columns = x.shape[-2:]
        areas = np.unique(np.round(np.array(AREAS) * rows * columns))
        predictors = {
            name: lambda x, model=model: model.outputs(x).argmax(axis=1)
            for name, model in models.items()
        }
        return tuple(
            robustness(
                predictors,
                x,
                some.y,
                corruption=corruption,
                levels=levels.tolist(),
                draws=1,
                seed=self.settings.seed,
                progress=_named(self.progress, f"images with {corruption}"),
            )
            for corruption, levels in (("noise", SIGMAS), ("patches", areas))
        )


def _named(progress: Progress, step: str) -> Progress:
    return lambda _step, done, total: progress(step, done, total)


def _window(settings: PolynomialSettings, samples: SampleSet) -> int | None:
    """Side of the square that covers the pixels of a product; None: all products."""
    if settings.window == "auto":
        shape = grey_shape(samples)
        return None if shape is None else min(WINDOW, (min(shape) - 1) // 2 * 2 + 1)
    assert not isinstance(settings.window, str)
    return settings.window


def _is_corruptible(samples: SampleSet) -> bool:
    """Whether noise and patches have a meaning: images of classes with values in [0, 1]."""
    x = samples.x
    is_image = samples.kind == "image" and x.ndim >= 3 and samples.is_classification
    return is_image and 0 <= float(x.min()) <= float(x.max()) <= 1


def _empty(train: SampleSet, degree: int, window: int | None) -> Surrogate:
    """The surrogate before it is fitted: every coefficient is 0."""
    monomials, names = sample_monomials(train, degree, window), _output_names(train)
    d = monomials.n_inputs
    center, spread = np.zeros(d), np.ones(d)
    if train.kind == "row":
        rows = train.x.reshape(len(train), -1).astype(np.float64)
        center, spread = rows.mean(axis=0), rows.std(axis=0)
        spread[spread == 0] = 1.0
    zero = Polynomial(monomials, np.zeros((monomials.n_features, len(names))))
    columns = train.feature_names if len(train.feature_names) == d else ()
    return Surrogate(zero, center, spread, names, columns, train.is_classification)


def _output_names(samples: SampleSet) -> tuple[str, ...]:
    if samples.is_classification:
        return samples.class_names
    k = _targets(samples).shape[1]
    return ("target",) if k == 1 else tuple(f"target {j}" for j in range(k))


def _targets(samples: SampleSet) -> Float[np.ndarray, "n q"]:
    """A one at each sample's class and zeros elsewhere, or the targets."""
    if samples.is_classification:
        return np.eye(samples.n_classes)[samples.y]
    return samples.y.reshape(len(samples), -1)


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _degree_spread(surrogate: Surrogate, val: SampleSet) -> Float[np.ndarray, "k q"]:
    """How much the products of each degree vary over the validation samples."""
    polynomial, degree = surrogate.polynomial, surrogate.polynomial.monomials.degree
    x = surrogate.inputs(val.x[:N_CORRUPTED])
    spreads = []
    for t in range(1, int(degree.max()) + 1):
        keep = np.flatnonzero(degree == t)
        parts = [
            polynomial.monomials.features(x[i : i + CHUNK], keep=keep) @ polynomial.coef[keep]
            for i in range(0, len(x), CHUNK)
        ]
        spreads.append(np.concatenate(parts).std(axis=0))
    return np.stack(spreads)


def _facts(
    train: SampleSet,
    val: SampleSet,
    surrogate: Surrogate,
    fit: PolynomialFit | None,
    settings: PolynomialSettings,
) -> dict[str, str]:
    monomials = surrogate.polynomial.monomials
    what = f"all products to degree {monomials.degree.max()}"
    if monomials.window is not None:
        size = f"{monomials.window} x {monomials.window}"
        what = f"products of up to {monomials.degree.max()} pixels in a {size} window"
    facts = {
        **data_facts(train, val),
        "Features": f"{monomials.n_features:,}: {what}",
        "Inputs": "columns minus their mean, over their standard deviation"
        if train.kind == "row"
        else "as they are",
    }
    if fit is None:
        assert settings.model is not None
        facts["Fit"] = f"read from {settings.model.name}, {file_digest(settings.model)}"
    elif fit.solver == "exact":
        how = "by leave-one-out" if settings.ridge == "auto" else "given"
        facts["Fit"] = f"exact least squares, ridge {fit.ridge:.3g} ({how})"
    else:
        sizes = f"{count(settings.n_batches, 'batch', 'batches')} of {settings.batch_size:,}"
        facts["Fit"] = f"average over {sizes}"
    return facts


def _warnings(fit: PolynomialFit | None) -> tuple[str, ...]:
    notes = []
    if fit is not None and fit.path is not None and len(fit.path.ridge) > 1:
        end = {0: "smallest", len(fit.path.ridge) - 1: "largest"}.get(fit.path.chosen)
        if end is not None:
            notes.append(
                f"the {end} ridge that was tried, {fit.ridge:.3g}, has the smallest error: a "
                f"{'smaller' if end == 'smallest' else 'larger'} one may do better (--ridge)."
            )
    if fit is None:
        notes.append(
            "the polynomial was read from a file: where it was fitted to these validation samples, "
            "its score here is too good."
        )
    return tuple(notes)
