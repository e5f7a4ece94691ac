"""Threads, chunks, engines, ids and stores do not move scores."""

import pytest

from datassay.collect import choose_form as forms
from helpers.same_scores import FORMS, differences


@pytest.mark.parametrize("form", ["averaged kernel", "mixed features"])
@pytest.mark.parametrize(
    ("work", "limit"),
    [(2e10, 1e-9), pytest.param(0, 1e-4, marks=pytest.mark.slow)],
    ids=["float64", "float32"],
)
def test_scores_do_not_depend_on_where_they_are_computed(monkeypatch, form, work, limit):
    monkeypatch.setattr(forms, "FLOAT64_WORK", work)
    result = differences(FORMS[form], n=36, engines=())
    assert max(result.values()) < limit, result
