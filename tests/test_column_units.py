"""Every estimator and function of columns: units change nothing, or a warning says that they do."""

import inspect
import re
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import datassay as da
from datassay import act, complexity, estimators, polynomial, score
from datassay.polynomial import all_monomials, fit_polynomial

UNITS = (
    (np.array([1e-6, 1.0, 1e4, 1e8]), 0.0),
    (np.array([1e8, 1e-6, 1.0, 1e4]), 1e3),  # the offset is a billion widths of a column
    (np.array([1.0, 1.0, 1.0, 300.0]), 0.0),
    (1.0, 1e3),
)
SAID = "scale|units|float32|vary by"


def problem():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 4))
    target = z[:, 0] + z[:, 1] * z[:, 2] + 0.2 * rng.normal(size=200)
    return z[:140], target[:140], (target > 0)[:140].astype(int), z[140:]


def fitted(estimator, kind):
    """Answer by a fitted estimator's outputs on other rows."""

    def answer(x, target, label, new):
        model = estimator().fit(x, target if kind == "target" else label)
        for method in ("decision_function", "predict_proba", "predict"):
            if hasattr(model, method):
                return getattr(model, method)(new)
        raise AssertionError

    return answer


def boosted():
    return HistGradientBoostingClassifier(max_iter=20, random_state=0)


def polynomial_outputs(x, target, label, new):
    """Predict by `fit_polynomial`, which says in notes what it is to be told of units."""
    fit = fit_polynomial(x, target[:, None], all_monomials(4, 2))
    for note in fit.notes:
        if "one scale" in note:
            warnings.warn(note, UserWarning, stacklevel=2)
    return fit.polynomial.outputs(new)


BLOCKS = {"n_blocks": 2, "random_state": 0}
CASES = {
    "PolynomialRegressor": fitted(da.PolynomialRegressor, "target"),
    "PolynomialClassifier": fitted(da.PolynomialClassifier, "label"),
    "PartitionedClassifier": fitted(partial(da.PartitionedClassifier, **BLOCKS), "label"),
    "PartitionedRegressor": fitted(partial(estimators.PartitionedRegressor, **BLOCKS), "target"),
    "LocalVarianceClassifier": fitted(da.LocalVarianceClassifier, "label"),
    "LocalVarianceRegressor": fitted(estimators.LocalVarianceRegressor, "target"),
    "Purifier": lambda x, target, label, new: da.Purifier().fit_resample(x, label)[1],
    "local_variance_weights": lambda x, target, label, new: da.local_variance_weights(x, label),
    "sample_weights": lambda x, target, label, new: act.sample_weights(x, label).weight,
    "local_variance": lambda x, target, label, new: score.local_variance(x, target).variance,
    "label_issues": lambda x, target, label, new: (
        da.label_issues((x, label), model=boosted()).score
    ),
    "held_out_probabilities": lambda x, target, label, new: np.asarray(
        score.held_out_probabilities(da.load((x, label))[0])
    ),
    "data_issues": lambda x, target, label, new: (
        score.data_issues(da.load((x, label))[0]).outlier_score
    ),
    "fit_polynomial": polynomial_outputs,
}
# Functions of columns that are about their values by definition.
OF_VALUES = {
    "nearest_neighbors": "distances between rows, in the features' unit",
    "CosineEncoder": "pixels of images, which share a unit",
    "cosine_encoding": "pixels of images, which share a unit",
    "normal_equations": "sums of products as they are; `fit_polynomial` says what they lose",
    "contributions": "terms of a fitted polynomial",
    "interpolation_bound": "a bound in the unit of its domain",
    "index_from_draws": "of a function of x, at its own inputs",
    "train_students": "networks that are told what to learn",
    "robustness": "the user's predictors",
    "SampleWeightMixin": "of the user's network",
    "Scores": "how to compare with the user's fits",
}


def answered(name, *arrays):
    """Return the answer, None where it is refused, and what was said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return CASES[name](*arrays), [str(w.message) for w in caught]
        except da.DatassayError as error:
            return None, [str(error)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "PartitionedClassifier"))
        for name in CASES
    ],
)
def test_units_of_columns_change_nothing_or_it_is_said(name):
    x, target, label, new = problem()
    before = np.asarray(CASES[name](x, target, label, new), np.float64)
    for unit, offset in UNITS:
        after, messages = answered(name, x * unit + offset, target, label, new * unit + offset)
        if not any(re.search(SAID, message) for message in messages):
            np.testing.assert_allclose(after, before, atol=1e-4 * before.std())


def test_every_name_of_columns_is_tried_or_is_of_values():
    names = {
        name
        for module in (da, act, complexity, estimators, polynomial, score)
        for name in dir(module)
        for thing in [getattr(module, name)]
        if (inspect.isclass(thing) and hasattr(thing, "fit"))
        or (
            inspect.isfunction(thing)
            and {"x", "X", "features"} & {*inspect.signature(thing).parameters}
        )
    }
    assert names <= {*CASES, *OF_VALUES}, names - {*CASES, *OF_VALUES}
