"""A synthetic run to report on, and that results in another order are refused."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.errors import DataError
from helpers.findings import digit_samples, make_findings


@pytest.mark.parametrize(
    "name", ["information", "issues", "leave_one_out", "baselines", "attribution"]
)
def test_results_in_another_order_are_refused(name):
    result = make_findings()
    shuffled = replace(getattr(result, name), ids=result.samples.ids[::-1].copy())
    with pytest.raises(DataError, match=f"{name} must have the samples' ids"):
        replace(result, **{name: shuffled})


def test_results_of_another_length_are_refused():
    with pytest.raises(DataError, match="adversarial must have one value"):
        make_findings(adversarial=np.ones(3, bool))


def test_an_attribution_without_its_queries_is_refused():
    with pytest.raises(DataError, match=r"attribution must come with .* 500 queries, 0 outputs"):
        make_findings(query_outputs=None)
    with pytest.raises(DataError, match="and 40 validation samples"):
        make_findings(validation=digit_samples(40))
