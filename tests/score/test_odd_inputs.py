"""Odd but legal inputs: every score is finite, or one line says why there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.errors import DatassayError
from datassay.models.build import build_model
from datassay.score.influence.linear import linear_influence
from datassay.score.information.groups import group_information
from datassay.score.label_issues import label_issues
from datassay.score.learning_curve import learning_curve
from datassay.score.leave_one_out import leave_one_out
from datassay.score.sample_information import sample_information

SMOOTHINGS = ("functional", "isotropic", "fisher")
FORMS = (
    {"outputs": "joint"},
    {"outputs": "averaged"},
    {"outputs": "joint", "projection": 2},
    {"outputs": "mixed", "projection": 2},
    {"outputs": "mixed", "projection": 2, "products": "float32"},
)


PROBLEMS = st.fixed_dictionaries({
    "n": st.integers(2, 9),
    "k": st.sampled_from((0, 0, 2, 2, 3, 5, 9)),  # at most n: one sample per class; 0: regression
    "constant": st.lists(st.sampled_from((None, None, 0.0, -3.5)), min_size=1, max_size=4),
    "repeated": st.integers(0, 9),
    "levels": st.integers(1, 9),
    "units": st.sampled_from(((1.0, 1.0), (1e-6, 1e6), (1e12, 1e-9))),  # of x and y
    "m": st.integers(0, 2),
    "again": st.booleans(),
    "seed": st.integers(0, 2**32 - 1),
})


def sets_of(n, k, constant, repeated, levels, units, m, again, seed):
    """Few samples, repeated ones, constant columns, one feature, validation of 0 to 2 samples."""
    rng, k = np.random.default_rng(seed), min(k, n)
    x = rng.normal(size=(n + m, len(constant)))
    for column, value in enumerate(constant):
        if value is not None:
            x[:, column] = value
    x[1 : min(repeated, n - 1)] = x[0]
    if again:  # the validation samples are training samples
        x[n:] = x[:m]
    y = rng.permutation(n + m) % k if k else rng.integers(0, levels, n + m) * units[1]
    if k:
        y[:n] = rng.permutation(n) % k
    names = tuple(f"class {i}" for i in range(k))
    whole = SampleSet(x=units[0] * x, y=y, ids=np.arange(n + m), class_names=names)
    return whole.subset(np.arange(n)), whole.subset(np.arange(n, n + m)) if m else None


def numbers(value):
    """Every number of a result, those of its parts too."""
    for name in value.__slots__:
        result = getattr(value, name)
        if isinstance(result, np.ndarray | float | int) and np.asarray(result).dtype.kind in "fiu":
            yield name, np.asarray(result)


def check_all(train, val, network, form, run):
    lin = collect(build_model(network, train), train, val, **form)
    loo = leave_one_out(lin, **run)
    results = [loo, learning_curve(lin, loo.run)]
    results += [sample_information(lin, loo=loo, smoothing=s) for s in SMOOTHINGS]
    for score in (
        lambda: label_issues(lin),
        lambda: linear_influence(lin, ridge=label_issues(lin).ridge),
        lambda: group_information(lin, np.arange(len(train)) % 2, **run),
    ):
        try:
            results.append(score())
        except DatassayError as error:
            assert "\n" not in str(error)
    for result in results:
        for name, values in numbers(result):
            assert np.isfinite(values).all(), (type(result).__name__, name, values)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    problem=PROBLEMS,
    network=st.sampled_from(("mlp:width=5", "logistic", "mlp:width=1")),
    form=st.sampled_from(FORMS),
    dynamics=st.sampled_from(("flow", "descent", "converged")),
    reduction=st.sampled_from(("sum", "mean")),
    weight_decay=st.sampled_from((0.0, 0.0, 1e-3)),
    steps=st.sampled_from((1, 7, 10_000)),
)
@pytest.mark.slow
def test_finite_or_one_line(problem, network, form, **run):
    try:
        check_all(*sets_of(**problem), network, form, run)
    except DatassayError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
