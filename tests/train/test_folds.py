"""Splits: disjoint, even, in proportion to the classes, and the same in any order of the rows."""

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.progress import silent
from datassay.train.folds import FOLDS, fold_numbers, held_out_outputs, make_splits

SIZES = st.lists(st.integers(1, 13), min_size=2, max_size=4).filter(lambda n: sum(n) >= FOLDS)


def samples(sizes, seed=0, targets=0):
    rng, n = np.random.default_rng(seed), sum(sizes)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    names = tuple(f"c{c}" for c in range(len(sizes)))
    if targets:
        y, names = rng.normal(size=(n, targets)).squeeze(), ()
    return SampleSet(rng.normal(size=(n, 2)), y, rng.permutation(n), names)


@settings(deadline=None)
@given(sizes=SIZES, targets=st.integers(0, 2), seed=st.integers(0, 9))
def test_five_networks_hold_out_each_fifth_once(sizes, targets, seed):
    train = samples(sizes, seed, targets)
    counts = np.bincount(train.y)[train.y] if not targets else np.full(len(train), 2)
    may_be = counts > 1 if (counts > 1).any() else counts > 0  # else a class were not learned
    assume(may_be.sum() >= FOLDS)
    splits = make_splits(train, None, 2 * FOLDS + 1, seed)
    n_held = {max(1, may_be.sum() // FOLDS)}
    if targets:  # parts hold all, the largest targets too
        n_held = {len(train) // FOLDS, -(-len(train) // FOLDS)}
    for learned, held, queries in zip(
        splits.train_idx, splits.test_idx, splits.queries, strict=True
    ):
        assert not np.isin(learned, held).any() and (np.diff(learned) > 0).all()
        assert len(learned) == len(train) - max(n_held)
        assert len(held) in n_held and may_be[held].all()
        np.testing.assert_array_equal(queries.ids, train.ids[held])
        np.testing.assert_array_equal(queries.y, train.y[held])
        for c in range(len(sizes) if not targets else 0):
            if may_be[train.y == c].all():
                assert abs((train.y[held] == c).sum() - sizes[c] / FOLDS) < 2
    for first in (0, FOLDS):
        held = np.concatenate(splits.test_idx[first : first + FOLDS])
        assert len(np.unique(held)) == len(held)
        assert not targets or len(held) == len(train)
    order = np.random.default_rng(seed).permutation(len(train))
    again = make_splits(train.subset(order), None, 2 * FOLDS + 1, seed)
    for held, other in zip(splits.test_idx, again.test_idx, strict=True):
        assert set(train.ids[held]) == set(train.ids[order][other])


@settings(deadline=None)
@example(sizes=[2, 2], n_folds=3, is_grouped=True)  # no class has a sample for each fold
@given(sizes=SIZES, n_folds=st.integers(2, 10), is_grouped=st.booleans())
def test_folds_are_even_and_in_proportion_and_groups_stay_whole(sizes, n_folds, is_grouped):
    train = samples(sizes)
    targets = torch.nn.functional.one_hot(torch.as_tensor(train.y), len(sizes)).double()
    groups = np.arange(len(train)) // 3 if is_grouped else None
    folds = fold_numbers(targets, "cross_entropy", n_folds, 0, groups).numpy()
    assert 0 <= folds.min() and folds.max() < n_folds
    if is_grouped:
        assert all(len(set(folds[groups == g])) == 1 for g in groups)
        return
    for inside in (np.ones(len(train), bool), *(train.y == c for c in range(len(sizes)))):
        numbers = np.bincount(folds[inside], minlength=n_folds)
        assert np.ptp(numbers) <= 1


class Recorder:
    """A model that predicts the mean target and notes which rows it learned from."""

    def __init__(self, learned=None):
        self.learned = [] if learned is None else learned

    def get_params(self, deep=True):
        return {"learned": self.learned}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def __sklearn_clone__(self):
        return Recorder(self.learned)

    def fit(self, x, y):
        self.rows_ = {tuple(row) for row in x.tolist()}
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        self.learned += [row in self.rows_ for row in map(tuple, x.tolist())]
        return x.sum(1)


@pytest.mark.parametrize("is_grouped", [False, True])
def test_an_estimator_answers_for_each_row_it_never_saw(is_grouped):
    train = samples([30, 20], targets=1)
    if is_grouped:
        train = SampleSet(
            train.x, train.y, train.ids, (), groups=(np.arange(50) // 4).astype(str)
        )  # fmt: skip
    model = Recorder()
    outputs = held_out_outputs(model, train, 0, silent)
    np.testing.assert_allclose(outputs[:, 0], train.x.sum(1), rtol=1e-6)
    assert len(model.learned) == 50 and not any(model.learned)


def test_fewer_samples_than_folds_are_refused():
    few, enough = samples([2, 2], targets=1), samples([3, 2], targets=1)
    with pytest.raises(DataError, match="at least 5 samples are needed; got 4"):
        held_out_outputs(Recorder(), few, 0, silent)
    assert len(held_out_outputs(Recorder(), enough, 0, silent)) == 5
    with pytest.raises(DataError, match="one of them with 5 samples or more"):
        held_out_outputs(Recorder(), samples([4, 4]), 0, silent)
