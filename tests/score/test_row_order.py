"""The order of the rows moves no score: it is not information about a sample."""

import pytest

from datassay.collect import choose_form as forms
from helpers.permuted_scores import FORMS, NETWORKS, all_scores, decisions, differences, samples

CASES = (
    ("wine", FORMS["logistic"]),  # equal eigenvalues, one for each output
    ("iris", FORMS["joint"]),
    ("mixed columns", FORMS["joint features"]),
    ("diabetes", FORMS["mixed features"]),
    ("images", NETWORKS["averaged"]),  # a fit that nearly meets the labels
)


@pytest.mark.parametrize(("family", "form"), CASES, ids=[family for family, _ in CASES])
@pytest.mark.slow
def test_float64_scores_do_not_depend_on_the_order(family, form):
    result = differences(samples(family, 50), lambda sets: all_scores(sets, form))
    # Of eigenvalues that almost meet, rounding mixes the modes a little.
    assert result.pop("learning curve energy") < 1e-6
    # Where outputs part the classes the calibration is nearly flat; what may be wrong follows it.
    assert result.pop("label issue score") < 1e-8
    assert max(result.values()) < 1e-9, result


@pytest.mark.parametrize("form", ["logistic", "float32 products"])
def test_float32_scores_hardly_do(monkeypatch, form):
    monkeypatch.setattr(forms, "FLOAT64_WORK", 0)
    result = differences(samples("wine", 50), lambda sets: all_scores(sets, FORMS[form]))
    assert max(result.values()) < 1e-4, result


def test_decisions_do_not_depend_on_the_order():
    result = differences(samples("iris", 50), decisions)
    assert max(result.values()) < 1e-9, result
