"""The comparison of leave-one-out scores with really retrained networks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from torch import nn

import datassay as da
from datassay.errors import DataError
from datassay.score.compare.retraining_check import retraining_check
from datassay.train.retrain import retrain

RUN = {"lr": 0.02, "steps": 40}


@pytest.fixture(scope="module")
def both():
    """A linear model: the linearised network is the real one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    y = x @ rng.normal(size=4) + rng.normal(size=30)
    train = da.SampleSet(x=x, y=y, ids=np.arange(100, 130))
    model = nn.Linear(4, 1).double()
    loo = da.leave_one_out(da.collect(model, train), dynamics="descent", **RUN)
    kept = np.arange(3, 15)
    real = retrain(model, train, reduction="sum", removed=kept, precision="float64", **RUN)
    return loo, real


def test_a_linear_model_agrees_to_rounding(both):
    check = retraining_check(*both)
    np.testing.assert_allclose(check.linearised, check.retrained, rtol=1e-6)
    assert check.pearson == pytest.approx(1, abs=1e-9)
    assert check.weights == pytest.approx(1, abs=1e-9)
    assert check.rank == pytest.approx(1)
    assert check.ids.tolist() == list(range(103, 115))
    assert check.to_table()["id"].to_pylist() == check.ids.tolist()
    assert check.to_table().column_names == ["id", "linearised", "retrained"]


def test_correlations_are_those_of_scipy(both):
    loo, real = both
    noise = np.random.default_rng(1).lognormal(size=12)
    real = replace(real, prediction_change=real.prediction_change * noise)
    check = retraining_check(loo, real)
    ours = loo.prediction_change[3:15]
    assert check.pearson == pytest.approx(pearsonr(ours, real.prediction_change)[0])
    assert check.rank == pytest.approx(spearmanr(ours, real.prediction_change)[0])
    low, high = check.interval
    assert low < check.pearson < high < 1
    assert retraining_check(loo, real).interval == check.interval
    assert retraining_check(loo, real, seed=1).interval != check.interval


def test_too_few_or_other_samples_are_refused(both):
    loo, real = both
    arrays = ("removed", "ids", "outputs_without", "held_out", "prediction_change", "weight_change")
    few = replace(real, **{name: getattr(real, name)[:4] for name in arrays})
    with pytest.raises(DataError, match="at least 5 samples; got 4"):
        retraining_check(loo, few)
    with pytest.raises(DataError, match="their ids differ"):
        retraining_check(loo, replace(real, ids=real.ids + 1))
