"""Our values as an evaluator of OpenDataVal, where it is installed."""

import numpy as np
import pytest
import torch

import datassay as da


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("semivalue", ["beta", "out_of_bag"])
def test_values_are_those_of_the_same_samples(adapter, semivalue):
    values = adapter("opendataval", "opendataval.dataval").Values
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 60)
    x = draw.normal(size=(60, 4)) + np.eye(4)[y]
    one_hot = torch.tensor(np.eye(3)[y])
    parts = torch.tensor(x[:40]), one_hot[:40], torch.tensor(x[40:]), one_hot[40:]
    evaluator = values(semivalue, random_state=5, n_subsets=20).input_data(*parts)
    found = evaluator.train_data_values().data_values
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    ours = da.values(
        *da.load((x[:40], y[:40]), val=(x[40:], y[40:])), semivalue=semivalue, n_subsets=20,
        seed=seed,
    )  # fmt: skip
    np.testing.assert_array_equal(found, ours.value)
    numbers = torch.tensor(x[:, :1]).float()
    parts = torch.tensor(x[:40]), numbers[:40], torch.tensor(x[40:]), numbers[40:]
    told = values(semivalue, n_subsets=20).input_data(*parts).train_data_values()
    assert told.found.unit == "share of variance"
