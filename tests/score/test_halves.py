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


def test_each_half_holds_half_of_the_samples_once(study, wine):
    n = len(wine[0])
    assert study.halves.shape == (12, n // 2)
    assert (study.member.sum(1) == n // 2).all()
    assert len({tuple(half) for half in study.halves}) == 12


def test_outcomes_and_losses_are_those_of_a_network_trained_on_the_half(study, wine):
    train, val, network = wine
    # Network 0 of half 0, alone: the stream of batches is (seed, place).
    alone = train_networks(
        [network(1000)], train, torch.as_tensor(study.halves[:1]), QUICK, seed=2000
    )
    logits = alone.outputs(val.x)[0].double()
    given = torch.as_tensor(val.y)
    own = logits.gather(1, given[:, None])[:, 0]
    others = logits.scatter(1, given[:, None], -torch.inf).logsumexp(1)
    np.testing.assert_allclose(study.outcome[0, 0], own - others, rtol=1e-3, atol=1e-4)
    loss = nn.functional.cross_entropy(
        alone.outputs(train.x)[0], torch.as_tensor(train.y), reduction="none"
    )
    np.testing.assert_allclose(study.loss[0, 0], loss, rtol=1e-3, atol=1e-4)
    assert study.measure == "margin"
    assert abs(study.outcome[0, 0] - study.outcome[0, 1]).max() > 1e-3  # another seed


def test_a_longer_study_begins_with_the_shorter_one(study, wine):
    train, val, network = wine
    longer = retrained_halves(network, train, val, recipe=QUICK, halves=24)
    np.testing.assert_array_equal(longer.halves[:10], study.halves[:10])
    np.testing.assert_allclose(longer.outcome[:10], study.outcome[:10], rtol=1e-5)
    assert longer.part(slice(0, 12)).loss.shape == study.loss.shape


def test_minutes_decide_and_twenty_are_the_fewest(wine):
    train, val, network = wine
    few = retrained_halves(network, train, val, recipe=Recipe(steps=2), seconds=1e-9)
    assert len(few.halves) == 20


def test_a_store_is_gone_on_with(study, wine, tmp_path):
    train, val, network = wine
    called = []

    def counted(seed):
        called.append(seed)
        return network(seed)

    store = str(tmp_path / "kept")
    for total in (0, 0):
        called.clear()
        found = retrained_halves(counted, train, val, recipe=QUICK, halves=12, store=store)
        np.testing.assert_allclose(found.outcome, study.outcome, rtol=1e-5)
        assert total == 0
    assert len(called) == 1  # the one that says whose study this is
    with pytest.raises(SettingError, match="seed"):
        retrained_halves(counted, train, val, recipe=QUICK, halves=12, store=store, seed=1)


def test_a_regression_asks_for_its_output():
    train, val = da.load("diabetes")
    found = retrained_halves(
        lambda seed: build_model("linear", train, seed=seed), train, val, recipe=QUICK, halves=4
    )
    assert found.measure == "output"
    table = found.to_table()
    with_it, without = (table[name].to_numpy() for name in ("loss_with", "loss_without"))
    i, member = 7, found.member[:, 7]
    assert with_it[i] == pytest.approx(found.loss.mean(1)[member, i].mean())
    assert without[i] == pytest.approx(found.loss.mean(1)[~member, i].mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [({"halves": 3}, "halves must be at least 4; got 3"), ({"seconds": 0}, "seconds must be pos")],
)
def test_what_is_refused(wine, options, message):
    train, val, network = wine
    with pytest.raises(SettingError, match=message):
        retrained_halves(network, train, val, **options)


def test_samples_of_another_task_are_refused(wine):
    train, _, network = wine
    with pytest.raises(DataError):
        retrained_halves(network, train, da.load("diabetes")[1])
