"""The planner: operations of each kind over the rate of a pilot batch, added up."""

import pytest

from datassay import plan
from datassay.plan import ARITHMETIC, PlanStep, add_work, rate


@pytest.mark.parametrize("kind", [*ARITHMETIC[:2], "thin", "small", "eigen", "values", "bytes"])
def test_a_rate_is_measured_once(kind, monkeypatch):
    rate.cache_clear()
    measured = rate(kind)
    assert 1e6 < measured < 1e15
    monkeypatch.setattr(plan, "best_seconds", None)
    assert rate(kind) == measured


def test_seconds_are_the_counted_operations_over_their_rates(monkeypatch):
    monkeypatch.setattr(plan, "rate", {"float64": 1e9, "values": 1e8}.__getitem__)
    work = add_work({"float64": 1e9}, {"float64": 2e9, "values": 4e8}, {"eigen": 0.0}, times=2.0)
    assert work == {"float64": 6e9, "values": 8e8, "eigen": 0.0}
    step = PlanStep("a step", "of that", work=work, pilot=3.0, counted=5e8)
    assert step.seconds == 3.0 + 6.0 + 8.0
    assert step.flops == 6e9 + 5e8  # passes over values are no arithmetic
