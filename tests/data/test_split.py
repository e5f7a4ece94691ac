"""The split: exact sizes, class proportions, the same for the same seed."""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import datassay as da
from datassay.data.splits import split_indices
from datassay.errors import DataError


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=5),
    fraction=st.floats(0.1, 0.5),
    seed=st.integers(0, 1000),
)
def test_classes_keep_their_proportions(counts, fraction, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    repeated = np.array([c for c in counts if c > 1])
    n_val = max(1, round(fraction * len(y)))
    assume(len(repeated) <= n_val <= repeated.sum() - len(repeated))
    train, val = split_indices(y, is_classification=True, val_fraction=fraction, seed=seed)
    assert np.array_equal(np.sort(np.concatenate([train, val])), np.arange(len(y)))
    assert (np.diff(train) > 0).all() and (np.diff(val) > 0).all()
    assert len(val) == n_val
    for c, count in enumerate(counts):
        share = count * n_val / repeated.sum() if count > 1 else 0
        assert abs((y[val] == c).sum() - share) <= 1


def test_a_class_with_one_sample_stays_in_training():
    y = np.array(["a"] * 10 + ["b"] * 10 + ["rare"])
    for seed in range(10):
        train, val = da.load((np.arange(21.0)[:, None], y), val_fraction=0.4, seed=seed)
        assert 2 in train.y and 2 not in val.y


def test_only_a_part_that_was_split_off_says_so(tmp_path):
    x, y = np.arange(20.0)[:, None], np.arange(20) % 2
    train, val = da.load((x, y))
    assert (train.split_off, val.split_off) == (False, True)
    np.savez(tmp_path / "given.npz", x=x, y=y, x_val=x[:6], y_val=y[:6])
    assert not da.load(tmp_path / "given.npz")[1].split_off


@pytest.mark.parametrize(
    ("y", "fraction", "message"),
    [
        ([0, 1], 0.2, "at least 2 training samples must remain; val_fraction 0.2 of 2 samples"),
        ([0, 1, 2, 3], 0.25, "every class has 1"),
        ([0, 0, 1, 1, 2, 2, 3, 3], 0.25, "4 classes .* gives 6 and 2"),
        ([0, 0, 1, 1, 2, 2, 3, 3], 0.75, "4 classes .* gives 2 and 6"),
    ],
)
def test_too_few_samples(y, fraction, message):
    with pytest.raises(DataError, match=message):
        split_indices(np.array(y), is_classification=True, val_fraction=fraction, seed=0)


def test_a_class_that_would_leave_training_is_refused():
    y = np.repeat([0, 1], [100, 2])
    with pytest.raises(DataError, match="must occur in training; not there: 1\."):
        for seed in range(20):
            da.load((np.arange(102.0)[:, None], y), val_fraction=0.97, seed=seed)


@pytest.mark.slow
def test_numbers_made_of_categories_are_held_once(tmp_path):
    # 300 columns x 20 000 rows took 9 times the file: x whole, and once more in its two parts.
    n, draw = 1500, np.random.default_rng(0)
    kinds = draw.integers(0, 4, (n, 30))
    columns = {f"c{j}": [f"v{k}" for k in column] for j, column in enumerate(kinds.T)}
    table = pa.table(columns | {"id": np.arange(n)[::-1], "y": [f"k{i % 2}" for i in range(n)]})
    pq.write_table(table, tmp_path / "a.parquet")
    da.load(tmp_path / "a.parquet", target="y", ids="id", val_fraction=0.2)  # imports
    often = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as users have it; tests look for rubbish less often
    tracemalloc.start()
    train, val = da.load(tmp_path / "a.parquet", target="y", ids="id", val_fraction=0.2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    gc.set_threshold(*often)
    assert peak < 1.6 * 8 * (train.x.size + val.x.size)
    for part in (train, val):
        np.testing.assert_array_equal(part.x.reshape(-1, 30, 4).argmax(2), kinds[::-1][part.ids])


def test_every_row_of_a_table_is_for_training(tmp_path):
    x, y = np.arange(40.0), [f"k{i % 2}" for i in range(40)]
    notes = [f"note {'good' if i % 2 else 'bad'} word{i}" for i in range(40)]
    table = pa.table({"x": x, "notes": notes, "y": y})
    pq.write_table(table, tmp_path / "a.parquet")
    for source in (table, tmp_path / "a.parquet"):
        train, val = da.load(source)
        assert val is None and len(train) == 40
        train, val = da.load(source, val_fraction=0.2)
        assert len(train) == 32 and val.split_off
    arrays = (x[:, None], np.array(y))
    assert len(da.load(arrays)[1]) == 8
    train, val = da.load(arrays, val_fraction=0)
    assert val is None and np.array_equal(train.ids, np.arange(40))


def test_samples_are_held_out_by_their_ids():
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    train, val = da.load((x, y), ids=np.array(list("abcdefghij")), held_out=["j", "a"])
    assert val.ids.tolist() == ["a", "j"] and val.split_off
    assert train.ids.tolist() == list("bcdefghi")
    train, val = da.load((x, y), held_out=["3"], val_fraction=0.0)
    assert val.ids.tolist() == [3] and len(train) == 9
    assert da.load((x, y), time=np.arange(10)[::-1], val_fraction=0.01)[1].ids.tolist() == [0]
    for left in (0, 1):
        with pytest.raises(DataError, match=f"at least 2 training samples are needed; got {left}"):
            da.load((x, y), held_out=range(left, 10))
