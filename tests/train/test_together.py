"""Networks of several sample sets, labels and weights in stacks: each learns what it does alone."""

import numpy as np
import pytest
import torch

import datassay as da
from datassay.machine import thread_count, threads_for
from datassay.progress import OutOfTime
from datassay.train.learner import Networks
from datassay.train.recipe import Recipe
from datassay.train.together import STACK, Fitting, _train_stack, predictions_of, train_in_stacks
from datassay.train.training import train_networks, with_loss

RECIPE = Recipe(steps=40, batch_size=16)


def fittings():
    """Three parts with scales of their own; as they are, with other labels, weighted."""
    rng, each = np.random.default_rng(0), []
    for p in range(3):
        x = rng.normal(p, 1 + p, (60 + p, 5))
        train, _ = da.load((x, (x[:, 0] > p).astype(int)), val_fraction=0)
        models = [da.build_model("mlp:width=8", train, seed=9 * p + s) for s in range(3)]
        learner = Networks(models, RECIPE, seed=p)
        flipped, weights = train.y.copy(), rng.random(len(train))
        flipped[:9] = 1 - flipped[:9]
        weights[:7] = 1e6  # of samples that are left out, which change nothing
        every = np.arange(len(train))
        for labels, chosen, weight, seeds in (
            (train.y, every, None, range(3)),
            (flipped, every, None, range(1)),
            (train.y, every[7:], weights, range(1, 3)),
        ):
            each.append(Fitting(learner, train, train, labels, chosen, weight, seeds))
    return each


def test_a_stack_trains_what_its_networks_are_alone_and_threads_change_no_bit():
    some = fittings()
    assert sum(len(one.seeds) for one in some) > STACK
    with thread_count(1):
        together = predictions_of(some)
    with thread_count(2):
        again = predictions_of(some)
        assert torch.get_num_threads() == 2
    for one, predicted, same in zip(some, together, again, strict=True):
        assert (predicted == same).all()
        everyone = np.tile(one.train_idx, (3, 1))
        alone = one.learner.answers(one.samples, one.held_out, everyone, one.weights)
        assert np.allclose(predicted, alone[list(one.seeds)], atol=1e-4)


def test_a_fit_of_which_a_stack_ran_out_of_time_predicts_nothing(monkeypatch):
    some = fittings()[1:]

    def first_alone(fits, stack):
        if stack.members[0] != (0, 0):
            raise OutOfTime
        return _train_stack(fits, stack)

    monkeypatch.setattr("datassay.train.together._train_stack", first_alone)
    done = predictions_of(some, may_end=True)  # one network of the sixth is in the first stack
    assert [one is None for one in done] == [False] * 5 + [True] * 3
    with pytest.raises(OutOfTime):
        predictions_of(some)


def test_many_networks_of_one_set_train_in_stacks_as_they_do_together():
    one = fittings()[0]
    models = [da.build_model("mlp:width=8", one.train, seed=s) for s in range(STACK + 2)]
    kept, recipe = torch.arange(50).expand(len(models), -1), with_loss(RECIPE, one.train)
    done = []
    stacked = train_in_stacks(
        models, one.train, kept, recipe, seed=3, progress=lambda _, *some: done.append(some)
    )
    together = train_networks(models, one.train, kept, recipe, seed=3)
    for name, weights in together.state.items():
        assert torch.allclose(stacked.state[name], weights, atol=1e-5)
    assert done == [(20, 40), (40, 40)]


def test_small_products_get_one_thread_and_nothing_more_than_is_set():
    with thread_count(2):
        with threads_for(1e3):
            assert torch.get_num_threads() == 1
        with threads_for(1e9):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
