"""Networks on random halves: the definition, a longer study, a store, refusals."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.errors import DataError, SettingError
from datassay.models import build_model
from datassay.score import retrained_halves
from datassay.train import Recipe, train_networks

QUICK = Recipe(steps=15, batch_size=16)


@pytest.fixture(scope="module")
def wine():
    train, val = da.load("wine")
    return train, val, lambda seed: build_model("mlp:width=4", train, seed=seed)


@pytest.fixture(scope="module")
def study(wine):
    train, val, network = wine
    return retrained_halves(network, train, val, recipe=QUICK, halves=12)


def test_outcomes_and_losses_are_those_of_a_network_trained_on_the_half(study, wine):
    train, val, network = wine
    n = len(train)
    assert study.halves.shape == (12, n // 2) and (study.member.sum(1) == n // 2).all()
    assert len({tuple(half) for half in study.halves}) == 12
    # Network 0 of half 0, alone: the stream of batches is (seed, place).
    half = torch.as_tensor(study.halves[:1])
    alone = train_networks([network(1000)], train, half, QUICK, seed=2000)
    logits, given = alone.outputs(val.x)[0].double(), torch.as_tensor(val.y)
    own = logits.gather(1, given[:, None])[:, 0]
    others = logits.scatter(1, given[:, None], -torch.inf).logsumexp(1)
    np.testing.assert_allclose(study.outcome[0, 0], own - others, rtol=1e-3, atol=1e-4)
    outputs, y = alone.outputs(train.x)[0], torch.as_tensor(train.y)
    loss = nn.functional.cross_entropy(outputs, y, reduction="none")
    np.testing.assert_allclose(study.loss[0, 0], loss, rtol=1e-3, atol=1e-4)
    assert study.measure == "margin"
    assert abs(study.outcome[0, 0] - study.outcome[0, 1]).max() > 1e-3  # another seed


def test_a_longer_study_begins_with_the_shorter_one(study, wine):
    train, val, network = wine
    longer = retrained_halves(network, train, val, recipe=QUICK, halves=24)
    np.testing.assert_array_equal(longer.halves[:10], study.halves[:10])
    np.testing.assert_allclose(longer.outcome[:10], study.outcome[:10], rtol=1e-5)
    assert longer.select(slice(0, 12)).loss.shape == study.loss.shape
    # Minutes decide where nothing is told, and twenty are the fewest.
    few = retrained_halves(network, train, val, recipe=Recipe(steps=2), seconds=1e-9)
    assert len(few.halves) == 20


def test_a_store_is_gone_on_with(study, wine, tmp_path):
    train, val, network = wine
    given = {"recipe": QUICK, "halves": 12, "store": str(tmp_path / "kept")}
    for _ in range(2):
        called = []
        counted = lambda seed, called=called: called.append(seed) or network(seed)  # noqa: E731
        halves = retrained_halves(counted, train, val, **given)
        np.testing.assert_allclose(halves.outcome, study.outcome, rtol=1e-5)
    assert len(called) == 1  # the one that says whose study this is
    with pytest.raises(SettingError, match="seed"):
        retrained_halves(network, train, val, seed=1, **given)


def test_a_regression_asks_for_its_output():
    train, val = da.load("diabetes")
    halves = retrained_halves(
        lambda seed: build_model("linear", train, seed=seed), train, val, recipe=QUICK, halves=4
    )
    assert halves.measure == "output"
    table = halves.to_table()
    with_it, without = (table[name].to_numpy() for name in ("loss_with", "loss_without"))
    i, member = 7, halves.member[:, 7]
    assert with_it[i] == pytest.approx(halves.loss.mean(1)[member, i].mean())
    assert without[i] == pytest.approx(halves.loss.mean(1)[~member, i].mean())


def test_what_is_refused(wine):
    train, val, network = wine
    with pytest.raises(SettingError, match="halves must be at least 4; got 3"):
        retrained_halves(network, train, val, halves=3)
    with pytest.raises(SettingError, match="seconds must be pos"):
        retrained_halves(network, train, val, seconds=0)
    with pytest.raises(DataError):
        retrained_halves(network, train, da.load("diabetes")[1])
