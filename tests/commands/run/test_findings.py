"""Results in another order than the samples are a fault of ours."""

from dataclasses import replace

import pytest

from helpers.findings import make_findings


@pytest.mark.parametrize(
    "name", ["information", "issues", "leave_one_out", "baselines", "attribution"]
)
def test_results_in_another_order_are_refused(name):
    result = make_findings()
    shuffled = replace(getattr(result, name), ids=result.samples.ids[::-1].copy())
    with pytest.raises(AssertionError):
        replace(result, **{name: shuffled})
