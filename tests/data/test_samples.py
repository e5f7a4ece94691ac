"""SampleSet: ids travel with their samples, and unusable sets are refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.data.assemble import check_sample_names
from datassay.data.samples import SampleSet
from datassay.errors import DataError


def samples(n=6, **changes):
    fields = {
        "x": np.arange(2.0 * n).reshape(n, 2),
        "y": np.arange(n) % 2,
        "ids": np.array([f"s{i}" for i in range(n)]),
        "class_names": ("a", "b"),
        "texts": np.array([f"text {i}" for i in range(n)]),
        "true_y": np.zeros(n, dtype=np.int64),
        "source": np.array([f"lab {i % 3}" for i in range(n)]),
    }
    return SampleSet(**(fields | changes))


@settings(deadline=None)
@given(n=st.integers(1, 20), data=st.data())
def test_a_subset_keeps_every_column_of_its_samples(n, data):
    whole = samples(n)
    chosen = np.array(data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))])
    twice = whole.subset(chosen).subset(np.arange(len(chosen))[::-1])
    position = np.array([int(i[1:]) for i in twice.ids])
    assert np.array_equal(position, chosen[::-1])
    assert np.array_equal(whole.subset(np.arange(n) < 2).ids, whole.ids[:2])
    for name in ("x", "y", "texts", "true_y", "source"):
        assert np.array_equal(getattr(twice, name), getattr(whole, name)[position])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64", "U", "O"])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_names_of_samples_stay_the_names_that_were_given(dtype, data):
    if dtype in "UO":
        names = data.draw(st.lists(st.text("aé0 ", min_size=1), min_size=1))
    else:
        ends = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        names = [*ends, *data.draw(st.lists(st.integers(*ends)))]
        names = names if data.draw(st.booleans()) else [min(ends[1], 2**63)]
    assert check_sample_names(np.array(names, dtype), "ids").tolist() == names


@pytest.mark.parametrize("names", [[0.5, 1.0], [[1], [2]], [["a"], ["b"]]])
def test_names_of_samples_are_one_string_or_integer_each(names):
    with pytest.raises(DataError, match=r"ids must be \[n\] strings or integers"):
        check_sample_names(np.array(names), "ids")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(5, dtype=int)}, "y must have one entry per sample; got 5 for 6"),
        ({"texts": np.array(["a"])}, "texts must have one entry"),
        ({"source": np.array(["a"])}, "source must have one entry per sample; got 1 for 6"),
        ({"ids": np.array([1, 2, 3, 3, 3, 4])}, "unique; 3 occurs 3 times"),
        ({"x": np.full((6, 2), np.nan)}, "x must be finite; 6 of 6"),
        ({"y": np.full(6, np.inf), "class_names": ()}, "y must be finite"),
        ({"y": np.arange(6)}, r"labels must lie in 0\.\.1 .* got 0\.\.5"),
        ({"y": np.arange(6) - 1}, r"got -1\.\.4"),
        ({"y": np.zeros(6)}, "labels must be .* integers .* got float64"),
        ({"true_y": np.full(6, 2)}, r"labels must lie in 0\.\.1"),
        ({"class_names": ("a", "a")}, "class names must differ; got a, a"),
    ],
)
def test_unusable_sets_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        samples(**changes)


def test_tensors_are_kept_as_arrays():
    x, y = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 1, 0])
    made = SampleSet(x, y, torch.arange(4), ("a", "b"), true_y=y)
    assert all(isinstance(v, np.ndarray) for v in (made.x, made.y, made.ids, made.true_y))
    np.testing.assert_array_equal(made.x, x.detach().numpy())
    assert SampleSet(x.bfloat16(), y, torch.arange(4), ("a", "b")).x.dtype == np.float32
    assert made.subset(np.array([2, 0])).y.tolist() == [1, 0]
    given = y.numpy().copy()
    given.setflags(write=False)  # as a frame's columns are
    assert SampleSet(x, given, np.arange(4), ("a", "b")).y.flags.writeable


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(4, 3, device="meta"), "x must have values; got a tensor on the meta device"),
        (torch.eye(4).to_sparse(), "x must be a dense tensor"),
        ([[1.0], [2.0], [3.0], [4.0]], r"x must be an array or a tensor; got a list.*load\(\(x, y"),
    ],
)
def test_what_is_no_array_is_told(x, message):
    with pytest.raises(DataError, match=message):
        SampleSet(x, np.arange(4) % 2, np.arange(4), ("a", "b"))
