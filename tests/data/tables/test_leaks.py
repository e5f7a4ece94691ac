"""Columns that tell the target are named, those of separable classes are not."""

from datetime import datetime, timedelta
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets
from sklearn.tree import DecisionTreeClassifier

import datassay as da
from datassay.data.tables.leaks import _Classes
from datassay.ranks import longest_rise

FIFTHS = 0.2, 0.4, 0.6, 0.8


def told(target, **columns):
    """Return the columns that are said to tell the target, among three that do not."""
    rng = np.random.default_rng(1)
    noise = {name: rng.normal(size=len(target)) for name in "abc"}
    table = pa.table(noise | columns | {"y": target})
    samples = da.load(table, target="y", val_fraction=0)[0]
    names = [column.name for column in samples.columns if column.tells_target]
    said = [w for w in samples.warnings if "the target almost alone" in w]
    assert all(any(repr(name) in warning for warning in said) for name in names)
    assert bool(names) == bool(said)
    return names


def drawn(n, k, rare, seed=0):
    rng = np.random.default_rng(seed)
    p = np.full(k, (1 - rare) / (k - 1))
    p[k // 2] = rare
    codes = np.concatenate([np.repeat(np.arange(k), 5), rng.choice(k, n - 5 * k, p=p)])
    return codes, [f"class {c}" for c in codes], rng


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize(("k", "rare"), [(2, 0.5), (2, 0.02), (3, 0.1), (10, 0.02)])
def test_a_number_or_code_that_gives_the_class_is_a_leak(n, k, rare):
    codes, names, rng = drawn(n, k, rare)
    order = rng.permutation(k)
    assert told(names, leak=codes + rng.uniform(0, 0.5, n)) == ["leak"]
    assert told(names, leak=order[codes] + rng.uniform(0, 0.5, n)) == ["leak"]
    assert told(names, leak=[f"g{c}" for c in order[codes]]) == ["leak"]


def test_classes_are_separate_where_each_is_far_from_the_next():
    rng = np.random.default_rng(0)
    for k in (2, 3, 4):
        classes = _Classes(np.repeat(np.arange(k), 40))
        for near in range(k - 1):  # after which the next is as near as this, or overlaps
            for by in (4.0, 0.9, 0.1, -0.2):
                start = 5.0 * np.arange(k) - (4 - by) * (np.arange(k) > near)
                x = rng.permutation(start)[classes.y] + rng.uniform(0, 1, 40 * k)
                assert classes._are_separate(x, np.inf) == (by > 0.7)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize(("noise", "digits"), [(0.1, 9), (0.15, 1), (0.2, 9), (0.3, 9), (0.5, 0)])
def test_a_column_whose_tree_is_not_fitted_would_have_had_a_weak_one(k, gaps, noise, digits):
    codes, names, rng = drawn(300, k, 0.2)
    classes = _Classes(np.array(names))
    x = np.round(codes + noise * rng.normal(size=300), digits)
    x[rng.random(300) < gaps] = np.nan
    x = x[classes.rows]
    score = classes._score_column(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "count_nonzero", lambda _: 0)  # no change of class: fit in any case
        assert classes._score_column(x) == score


def test_no_tree_is_fitted_on_noise(monkeypatch):
    _, names, rng = drawn(600, 3, 0.3)
    monkeypatch.setattr(DecisionTreeClassifier, "fit", lambda *_: pytest.fail("fitted"))
    classes = _Classes(np.array(names))
    classes._score_column(rng.normal(size=600)[classes.rows])


def test_words_dates_and_pairs_of_columns_leak_too():
    codes, names, rng = drawn(400, 3, 0.1)
    words = np.array("the of and to in it was for".split())
    texts = [f"{' '.join(rng.choice(words, 8))} [{name}]" for name in names]
    assert told(names, leak=texts) == ["leak"]
    days = np.array(100 * codes + rng.integers(0, 50, 400), "datetime64[D]")
    assert told(names, leak=days) == ["leak"]
    first = rng.integers(0, 2, 400)
    assert told(names, p=first, q=first ^ (codes > 0), z=codes == 1) == []
    two = ["yes" if c else "no" for c in codes]
    assert told(two, p=first, q=first ^ (codes > 0)) == ["p", "q"]
    shift = rng.normal(size=400)
    assert told(names, p=shift, q=codes - shift) == ["p", "q"]


@pytest.mark.parametrize(("one", "two"), [(6, 10), (6, 11), (7, 9), (4, 15), (15, 4)])
def test_pairs_of_codes_leak_where_five_rows_have_each_pair(one, two):
    cells = np.random.default_rng(0).permutation(np.arange(300) % (one * two))
    p, q = cells // two, cells % two
    names = ["even" if s % 2 else "odd" for s in p + q]
    assert told(names, p=p, q=q) == ["p", "q"] * (one * two <= 60)


@pytest.mark.parametrize(
    ("leak", "is_named"),
    [
        (lambda y, rng: np.round(0.3048 * y + 3, 3), True),
        (lambda y, rng: np.log(y), True),
        (lambda y, rng: np.argsort(np.argsort(-y)) * 3.5, True),
        (lambda y, rng: [f"range {b}" for b in np.digitize(y, np.quantile(y, FIFTHS))], True),
        (lambda y, rng: np.log(y) + 0.1 * rng.normal(size=len(y)), False),  # R² .99
    ],
)  # fmt: skip
def test_another_unit_logarithm_rank_and_range_of_a_quantity_leak(leak, is_named):
    rng = np.random.default_rng(0)
    y = np.exp(rng.normal(size=300)) * 100
    assert told(y, leak=leak(y, rng)) == ["leak"] * is_named


@pytest.mark.parametrize("unit", [1e-3, 100, 1e6])
def test_a_quantity_is_told_by_two_columns_of_which_it_is_the_sum_or_product(unit):
    rng = np.random.default_rng(0)
    y = np.exp(rng.normal(size=300)) * unit
    part, noise = rng.uniform(0.2, 0.8, 300), rng.normal(1, 0.1, 300)
    assert told(y, p=part * y, q=(1 - part) * y) == ["p", "q"]
    assert told(y, p=1e8 * part * y, q=(1 - part) * y) == ["p", "q"]
    assert told(y, p=part, q=y / part) == ["p", "q"]
    assert told(y, p=part * y, q=(1 - part) * y * noise) == []


@pytest.mark.parametrize("n", [49, 50])
def test_of_fifty_rows_and_four_columns_on_leaks_are_told(n):
    """And of codes where five rows or more have each, which is too few to tell by chance."""
    rng = np.random.default_rng(0)
    y = np.exp(rng.normal(size=n)) * 100
    part, noise = rng.uniform(0.2, 0.8, n), rng.normal(size=(3, n))
    columns = {"p": part * y, "q": (1 - part) * y, **dict(zip("cde", noise, strict=True))}
    for n_columns in (3, 4, 5):
        table = pa.table({name: columns[name] for name in [*columns][:n_columns]} | {"y": y})
        told_of = da.load(table, target="y", val_fraction=0)[0].columns
        expected = ["p", "q"] * (n >= 50 and n_columns >= 4)
        assert [column.name for column in told_of if column.tells_target] == expected
    for each in (4, 5, 6):
        codes = np.argsort(np.argsort(y)) // each
        words = [f"from {c:02}" for c in codes]
        assert told(y, leak=words) == ["leak"] * (n >= 50 and len({*words}) <= n / 5)


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_separable_classes_are_no_leak(name):
    data = getattr(datasets, f"load_{name}")(as_frame=True).frame
    names = [f"class {c}" for c in data.pop("target")]
    table = {column: data[column].to_numpy() for column in data}
    assert told(names, **table) == []
    if name == "iris":  # one class of which two columns are sure
        assert told([str(n == "class 0") for n in names], **table) == []


@pytest.mark.parametrize("rate", [0.02, 0.08])
def test_what_others_recorded_of_the_label_is_a_leak_though_some_labels_are_wrong(rate):
    """As the state of a booking that is predicted to be cancelled, after labels were mistaken."""
    codes, names, rng = drawn(600, 3, 0.3)
    recorded = np.where(rng.random(600) < rate, (codes + 1) % 3, codes)
    weak = codes + rng.normal(size=600)
    assert told(names, state=[f"s{c}" for c in recorded], weak=weak) == ["state"]
    assert (
        told(names, state=[f"s{c}" for c in recorded], strong=codes + 0.25 * (weak - codes)) == []
    )


def test_another_unit_of_a_target_is_a_leak_though_some_targets_are_wrong():
    rng = np.random.default_rng(0)
    price = rng.gamma(2, 100, 300).round(1)
    given = np.where(rng.random(300) < 0.06, price / 1000, price)
    assert told(given, dollars=-1.08 * price + 3) == ["dollars"]
    assert told(given, estimate=price * rng.normal(1, 0.05, 300)) == []
    often_none = np.where(rng.random(300) < 0.9, 0.0, price)  # most lie in order whatever x is
    assert told(often_none, any=rng.normal(size=300)) == []


def test_a_strong_column_is_no_leak():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 2000)
    assert told([f"k{c}" for c in codes], strong=codes + 0.28 * rng.normal(size=2000)) == []


def test_a_leak_with_gaps_and_columns_of_extreme_values_are_read():
    codes, names, rng = drawn(300, 3, 0.3)
    leak = np.where(rng.random(300) < 0.3, np.nan, codes + rng.uniform(0, 0.5, 300))
    rare = np.where(np.arange(300) < 5, 1.0, np.nan)
    wide = rng.normal(size=300) * 1e30
    assert told(names, leak=leak, rare=rare, wide=wide, flat=[True] * 299 + [False]) == ["leak"]
    assert told(names, rare=rare, wide=wide) == []
    times = [None if np.isnan(v) else datetime(2024, 1, 1) + timedelta(seconds=v) for v in leak]
    assert told(names, leak=times) == ["leak"]  # whose differences float32 would lose


def test_a_dozen_rows_that_a_good_column_happens_to_tell_are_no_leak():
    """Of few rows all may lie on one side, though no other column tells as much."""
    rng = np.random.default_rng(0)
    codes = np.arange(100) < 12
    strong = rng.normal(size=100) + 3.3 * codes
    strong[codes] += strong[~codes].max() - strong[codes].min() + 0.8
    assert told(np.where(codes, "yes", "no"), strong=strong) == []


@pytest.mark.parametrize("seed", range(3))
def test_of_few_rows_a_class_a_pair_is_named_however_its_values_bunch(seed):
    rng = np.random.default_rng(seed)
    codes, a = np.repeat(np.arange(5), 60), 5 * rng.normal(size=300)
    within = 0.5 * np.where(rng.random(300) < 0.8, 0.5, rng.random(300))
    assert told([f"g{c}" for c in codes], one=a, two=a + codes + within) == ["one", "two"]


@pytest.mark.parametrize("is_class", [True, False])
@pytest.mark.parametrize(
    ("name", "leak", "is_named"),
    [
        ("rank", lambda rank, rng: rank + 1, True),
        ("worst_first", lambda rank, rng: len(rank) - rank, True),
        ("case_id", lambda rank, rng: 1000 + 7 * rank, True),
        ("number", lambda rank, rng: np.arange(len(rank)), False),
        ("number", lambda rank, rng: rng.permutation(len(rank)), False),
    ],
)
def test_a_rank_that_reads_as_row_numbers_is_named_though_it_is_left_out(
    name, leak, is_named, is_class
):
    rng = np.random.default_rng(0)
    amounts = np.exp(rng.normal(size=300))
    rank = amounts.argsort().argsort()
    y = [None if r == 7 else ("high" if r > 150 else "low") if is_class else float(amounts[i])
         for i, r in enumerate(rank)]  # fmt: skip
    table = pa.table({"a": rng.normal(size=300), name: leak(rank, rng), "y": y})
    samples = da.load(table, target="y", val_fraction=0)[0]
    (column,) = (column for column in samples.columns if column.name == name)
    is_id = name == "case_id"
    assert column.read_as == ("ids" if is_id else "left out") and not column.tells_target
    named = [text for text in samples.warnings if "the target almost alone" in text]
    assert len(named) == is_named
    assert all(f"{name!r}" in text and "It is left out: it" in text for text in named)


@pytest.mark.parametrize("step", [1, -1])
def test_row_numbers_of_sorted_rows_are_no_leak(step):
    y = ["high"] * 150 + ["low"] * 150
    columns = {"a": np.random.default_rng(0).normal(size=300), "number": np.arange(300)[::step]}
    samples = da.load(pa.table(columns | {"y": y}), target="y", val_fraction=0)[0]
    assert not [text for text in samples.warnings if "the target almost alone" in text]


@pytest.mark.parametrize("is_named", [True, False])
def test_ids_in_words_are_named_where_they_hold_the_class_alone(is_named):
    rng = np.random.default_rng(0)
    y = rng.choice(["case", "control"], 200)
    ids = [f"{label if is_named else 'row'}-({k}, {k + 1}]" for k, label in enumerate(y)]
    samples = da.load(pa.table({"a": rng.normal(size=200), "who": ids, "y": y}), target="y")[0]
    assert any("'who' predicts the target" in text for text in samples.warnings) == is_named


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=7))
def test_the_longest_rise_is_that_of_all_subsets(pairs):
    x, y = np.array(pairs).T
    chosen = (rows for k in range(1, len(pairs) + 1) for rows in combinations(pairs, k))
    rises = (
        rows
        for rows in map(sorted, chosen)
        if all(a == b or (a[0] < b[0] and a[1] <= b[1]) for a, b in pairwise(rows))
    )
    assert longest_rise(x, y.astype(float)) == max(map(len, rises))
