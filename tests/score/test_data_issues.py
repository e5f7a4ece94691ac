"""Duplicates, outliers, rare classes and drift: planted ones are found, and by name."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import datassay as da
from datassay.data.samples import Column, SampleSet
from datassay.errors import DataError
from datassay.score.checks.codes import array_codes, row_codes
from datassay.score.checks.columns import drift
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.duplicates import duplicates

WORDS = ("north", "south", "west", "east", "middle")


def table(n, seed=0):
    """Numbers that depend on each other, whole numbers, words, and missing values."""
    rng = np.random.default_rng(seed)
    a, b = rng.lognormal(3, 1, n), rng.normal(50, 5, n)
    missing = rng.random(n) < 0.1
    return pa.table({
        "price": a,
        "tax": 0.2 * a,
        "weight": pa.array(b, mask=missing),
        "rooms": rng.integers(1, 9, n),
        "region": np.array(WORDS)[rng.integers(0, 5, n)],
        "colour": np.array(["red", "blue"])[rng.integers(0, 2, n)],
        "visits": rng.poisson(200, n),
        "age": rng.normal(40, 9, n),
        "size": rng.gamma(3, 1, n),
    })


def with_copies(rows, m, change=lambda row, rng: row, seed=1):
    """The table and m changed copies of its rows below it; and which rows are in such a pair."""
    rng = np.random.default_rng(seed)
    pick = rng.choice(rows.num_rows, m, replace=False)
    copies = [change(dict(row), rng) for row in rows.take(pick).to_pylist()]
    both = pa.concat_tables([rows, pa.Table.from_pylist(copies, schema=rows.schema)])
    planted = np.zeros(both.num_rows, bool)
    planted[pick] = planted[rows.num_rows :] = True
    return both, planted


def one_edit(row, rng):
    if rng.random() < 0.5:
        row["price"] *= 1 + 0.04 * rng.choice([-1, 1])
    else:
        row["region"] = row["region"][:2] + row["region"][3:]
    return row


def jitter(row, rng):
    for name in ("price", "tax", "weight", "age", "size"):
        if row[name] is not None:
            row[name] *= 1 + rng.uniform(-0.005, 0.005)
    return row


def samples(rows, y=None, **more):
    n = rows.num_rows
    y = np.arange(n) % 2 if y is None else y
    x = np.asarray(rows["price"], float)[:, None]
    return SampleSet(x, y, np.arange(n), ("a", "b"), rows=rows, **more)


def kinds(found):
    return {one.kind: one for one in found.issues}


def test_300_equal_rows_in_3000_are_found_and_no_others():
    rows, planted = with_copies(table(2700), 300)
    result = duplicates(row_codes(rows))
    np.testing.assert_array_equal(result.group >= 0, planted)
    assert not result.is_by_chance.any()
    seen = {}  # by hand
    for i, row in enumerate(rows.to_pylist()):
        seen.setdefault(tuple(row.values()), []).append(i)
    groups = sorted(g for g in seen.values() if len(g) > 1)
    ours = [np.flatnonzero(result.group == g).tolist() for g in range(result.group.max() + 1)]
    assert sorted(ours) == groups
    assert (result.distance[planted] == 0).all()


@pytest.mark.parametrize("change", [one_edit, jitter], ids=["one edit", "jitter"])
@pytest.mark.parametrize("m", [0, 30, 300])
def test_near_duplicates_are_found_and_no_others(change, m):
    rows, planted = with_copies(table(2700), m, change) if m else (table(3000), None)
    result = duplicates(row_codes(rows))
    if not m:
        assert len(result.pairs) <= 3
        return
    flagged = np.isin(np.arange(len(planted)), result.pairs)
    right = (flagged & planted).sum()
    assert right / flagged.sum() >= 0.9 and right / planted.sum() >= 0.9
    assert result.one_column.mean() > 0.9 if change is one_edit else not result.one_column.any()


def test_where_columns_hold_few_values_equal_rows_are_natural():
    rng = np.random.default_rng(0)
    rows = pa.table({name: rng.integers(0, 4, 1000) for name in "abcde"})
    issues = data_issues(samples(rows.append_column("price", pa.array(np.ones(1000)))))
    one = kinds(issues)["equal inputs"]
    assert one.severity == "fine" and "by chance" in one.sentence
    assert "near duplicates" not in kinds(issues)


@pytest.mark.parametrize("n_copies", [0, 10])
def test_equal_rows_that_share_an_amount_are_no_rows_by_chance(n_copies):
    rng = np.random.default_rng(4)
    columns = {name: rng.integers(0, 4, 500) for name in "abc"}
    amount = np.where(rng.random(500) < 0.5, 0, rng.integers(1000, 10**6, 500))
    rows = pa.table(columns | {"price": amount})
    paid = np.flatnonzero(amount)[:n_copies]
    rows = pa.concat_tables([rows, rows.take(paid)])
    outcome = duplicates(row_codes(rows))
    assert outcome.is_by_chance.sum() > 100  # of rows without an amount
    is_copied = (outcome.group >= 0) & ~outcome.is_by_chance
    assert sorted(np.flatnonzero(is_copied)) == sorted([*paid, *range(500, 500 + n_copies)])
    found = [i for i in data_issues(samples(rows)).issues if i.kind == "equal inputs"]
    assert sorted(i.severity for i in found) == ["fine", "look"][: 1 + bool(n_copies)]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_noisy_copies_are_found_also_where_many_rows_are_equal_by_chance(share):
    """Skewed whole numbers, mostly 0: rows repeat each other, and their one-column pairs abound."""
    rng = np.random.default_rng(0)
    m = round(share * 800)
    x = np.floor(rng.exponential(1, (800 - m, 6)) * (rng.random((800 - m, 6)) < 0.5) * 6)
    of = rng.integers(800 - m, size=m)
    x = np.concatenate([x, (x[of] - 1.5) * rng.normal(1, 0.001, (m, 6)) + 1.5])
    issues = data_issues((x, None))
    assert kinds(issues)["equal inputs"].severity == "fine"
    if not m:
        assert "near duplicates" not in kinds(issues)
        return
    assert kinds(issues)["near duplicates"].severity == "act"
    true = np.r_[np.arange(800 - m), of]
    pairs = np.array([[int(name) for name in pair.ids] for pair in issues.pairs])
    assert (x[true[pairs[:, 0]]] == x[true[pairs[:, 1]]]).all(1).mean() > 0.9


def test_units_and_order_of_columns_do_not_matter():
    rows, _ = with_copies(table(500), 40, one_edit)
    other = rows.set_column(0, "price", pa.array(7 - 1000 * np.asarray(rows["price"])))
    other = other.select(other.column_names[::-1])
    a, b = duplicates(row_codes(rows)), duplicates(row_codes(other))
    np.testing.assert_array_equal(a.pairs, b.pairs)
    np.testing.assert_array_equal(a.group, b.group)


def test_pairs_across_the_split_come_first_and_name_the_column():
    train, val = table(400), table(100, seed=5)
    copy = train.take([7]).to_pylist()[0]
    edited = copy | {"visits": copy["visits"] + 5}
    val = pa.concat_tables([val, pa.Table.from_pylist([edited, copy], schema=val.schema)])
    held_out = replace(samples(val), ids=np.array([f"v{i}" for i in range(102)]))
    issues = data_issues(samples(train), held_out)
    assert kinds(issues)["equal inputs across the split"].count == 1
    across = kinds(issues)["near duplicates across the split"]
    assert across.severity == "act" and "1 in all but one column" in across.sentence
    assert across.counted == "2 samples in 1 group"
    (pair,) = issues.pairs[:1]
    values = (str(copy["visits"]), str(copy["visits"] + 5))
    assert pair.columns == (("visits", *values),)
    assert pair.ids[0] == "7" and pair.in_validation == (False, True)
    assert issues.nearest[7] == "v101" and issues.distance[7] == 0


def test_equal_inputs_of_different_labels_are_worst():
    rows = pa.concat_tables([table(300), table(300).slice(0, 10)])
    y = np.zeros(310, int)
    y[300:305] = 1
    issues = data_issues(samples(rows, y))
    assert issues.issues[0].kind == "equal inputs, different labels"
    assert issues.issues[0].count == 10  # five pairs
    kept = issues.to_table()["duplicate_group"].to_pylist()
    assert kept[0] == kept[300] and kept[10] is None


def test_an_outlier_and_a_rare_class_are_told():
    rows = table(400)
    values = np.asarray(rows["visits"]).astype(float)
    values[3] = 90_000
    rows = rows.set_column(6, "visits", pa.array(values))
    issues = data_issues(samples(rows, (np.arange(400) < 5).astype(int)))
    assert issues.is_outlier[3] and issues.is_outlier.sum() < 20
    assert "visits" in kinds(issues)["outliers"].sentence
    assert "b (5)" in kinds(issues)["class imbalance"].sentence


def test_columns_left_out_are_not_compared():
    rows, _ = with_copies(table(300), 30)
    rows = rows.append_column("key", pa.array(np.arange(330)))
    tax = Column("tax", "number", tells_target=True)
    issues = data_issues(samples(rows, columns=(Column("key", "left out", note="ids"), tax)))
    leaking = kinds(issues)["leaking columns"]
    assert leaking.severity == "act" and "tax" in leaking.sentence
    assert kinds(issues)["equal inputs"].count == 30
    assert "key" in kinds(issues)["columns left out"].sentence


def test_drift_names_the_column_and_the_source():
    rows, rng = table(600), np.random.default_rng(0)
    source = np.array(["one", "two", "three"])[rng.integers(0, 3, 600)]
    assert not drift(row_codes(rows), source)
    shifted = np.asarray(rows["visits"]) + 10 * (source == "two")
    rows = rows.set_column(6, "visits", pa.array(shifted))
    first = drift(row_codes(rows), source)[0]
    assert (row_codes(rows).names[first.column], first.part_name) == ("visits", "two")
    from scipy.stats import ks_2samp

    inside, outside = shifted[source == "two"], shifted[source != "two"]
    size, p_value = (float(v) for v in ks_2samp(inside, outside, method="asymp"))
    assert first.size == pytest.approx(size)
    assert first.p_value == pytest.approx(p_value * 3 * 9 * 2)
    issues = data_issues(samples(rows, source=source))
    assert "visits of two" in kinds(issues)["drift between sources"].sentence


def test_images_are_compared_as_a_whole():
    rng = np.random.default_rng(0)
    x = rng.random((200, 1, 6, 6)).astype(np.float32)
    x[150:170] = x[:20]
    x[170:] = x[20:50] + 0.01 * rng.standard_normal((30, 1, 6, 6)).astype(np.float32)
    result = duplicates(array_codes(x))
    assert np.flatnonzero(result.group >= 0).tolist() == [*range(20), *range(150, 170)]
    assert {tuple(p) for p in result.pairs.tolist()} == {(20 + i, 170 + i) for i in range(30)}
    assert not result.one_column.any()  # of one pixel nobody speaks


def test_few_or_odd_rows():
    for n in (1, 2, 5):
        issues = data_issues(samples(table(n), np.zeros(n, int)))
        assert np.isnan(issues.outlier_score).all()
        assert issues.to_table()["is_outlier"].null_count == n  # not looked for: not False
        assert "Neither outliers nor near duplicates" in issues.unsearched
    bare = data_issues((np.random.default_rng(0).normal(size=(5, 2)), None))  # few labels are none
    assert (bare.near_group < 0).all() and not bare.is_outlier.any()
    nothing = pa.table({"price": pa.array([None] * 20, pa.float64())})
    issues = data_issues(replace(samples(table(20)), rows=nothing))
    assert (issues.duplicate_group == 0).all()
    with pytest.raises(DataError, match="train must be a SampleSet"):
        data_issues(np.zeros((3, 2)))


def test_of_many_rows_without_faiss_a_sample_is_searched_and_named(monkeypatch):
    monkeypatch.setattr("datassay.score.checks.duplicates.MOST_ROWS_WITHOUT_FAISS", 300)
    monkeypatch.setattr("datassay.score.checks.duplicates.find_spec", lambda name: None)
    rows, _ = with_copies(table(400), 30)
    issues = data_issues(samples(rows))
    assert kinds(issues)["equal inputs"].count == 30  # of all
    assert "among 300 of 400 different rows" in issues.unsearched
    kept = issues.to_table()
    for name in ("outlier_score", "is_outlier"):
        assert 100 <= kept[name].null_count <= 130, name
    lost = np.isnan(issues.outlier_score) & (issues.duplicate_group < 0)
    assert kept["is_copy"].null_count == lost.sum() > 60
    monkeypatch.undo()
    assert data_issues(samples(rows)).unsearched == ""


def test_the_right_one_of_two_equal_rows_is_not_dropped():
    rows = pa.concat_tables([table(40), table(40).slice(0, 8), table(40).slice(8, 4)])
    y = np.arange(52) % 2
    y[40:48] = 1 - y[:8]  # eight under another label
    y[48:] = y[8:12]
    issues = data_issues(samples(rows, y))
    assert issues.to_table()["is_copy"].to_pylist() == [False] * 48 + [True] * 4


def grouped(result):
    """Members of each group of equal or near rows, by hand."""
    of = np.where(result.near >= 0, result.near, np.where(result.group >= 0, -2 - result.group, -1))
    return {tuple(np.flatnonzero(of == g)) for g in np.unique(of[of != -1])}


def with_groups(n, d, size, distance, n_groups, seed=0):
    """n rows and size − 1 copies of some at a distance; positions of each group."""
    rng = np.random.default_rng((seed, d, size))
    x = rng.normal(size=(n, d))
    step = rng.normal(size=(n_groups, size - 1, d))
    step *= distance / np.linalg.norm(step, axis=2, keepdims=True)
    both = np.concatenate([x, (x[:n_groups, None] + step).reshape(-1, d)])
    copies = n + np.arange(n_groups * (size - 1)).reshape(n_groups, -1)
    return both, {(g, *members) for g, members in enumerate(copies.tolist())}


@pytest.mark.parametrize(
    ("n", "d", "size"),
    [
        (300, 2, 2),
        (300, 2, 20),
        (300, 8, 3),
        (900, 8, 40),
        (200, 64, 5),
        (150, 512, 2),
        (150, 512, 20),
    ],
)
def test_groups_of_any_size_are_found_and_no_others(n, d, size):
    for distance in (1e-6, 1e-4, 1e-2 if d > 2 else 1e-5):
        x, planted = with_groups(n, d, size, distance, 6)
        result = grouped(duplicates(array_codes(x)))
        assert len(result & planted) == 6 and len(result - planted) <= 1


def test_groups_are_those_that_a_search_of_all_distances_finds():
    x, planted = with_groups(150, 4, 4, 1e-3, 8)
    distance = np.linalg.norm(x[:, None] - x[None], axis=2)
    result = duplicates(array_codes(x))
    label = np.arange(len(x))  # single linkage below the largest relative step of all
    steps = np.sort(distance[np.triu_indices(len(x), 1)])
    cut = steps[np.argmax(np.diff(np.log(steps)))]
    for _ in range(len(x)):
        label = np.array([label[row <= cut].min() for row in distance])
    by_hand = {tuple(np.flatnonzero(label == g)) for g in np.unique(label)}
    assert {g for g in by_hand if len(g) > 1} == grouped(result) == planted
    first = {(g[0], other) for g in planted for other in g[1:]}
    assert {tuple(pair) for pair in result.pairs.tolist()} == first


@pytest.mark.parametrize("size", [3, 5, 20])
def test_rows_edited_in_one_column_are_found_in_groups(size):
    rows, rng = table(900), np.random.default_rng(0)
    copies = [one_edit(dict(row), rng) for row in rows.to_pylist()[:10] for _ in range(size - 1)]
    both = pa.concat_tables([rows, pa.Table.from_pylist(copies, schema=rows.schema)])
    result = duplicates(row_codes(both))
    copies = 900 + np.arange(10 * (size - 1)).reshape(10, -1)
    assert grouped(result) == {(g, *members) for g, members in enumerate(copies.tolist())}


def test_rounded_values_are_no_duplicates_nor_are_clusters():
    rng = np.random.default_rng(0)
    for d, digits in ((3, 2), (4, 1)):
        rows = pa.table({f"x{j}": rng.normal(size=2000).round(digits) for j in range(d)})
        assert len(duplicates(row_codes(rows)).pairs) <= 2
    centres = 3 * rng.normal(size=(100, 20)).repeat(5, 0)
    assert len(duplicates(array_codes(centres + rng.normal(size=(500, 20)))).pairs) <= 4


def test_images_speak_of_groups_and_held_out_copies_are_named():
    x, planted = with_groups(220, 16, 5, 1e-3, 10)
    x = x.reshape(-1, 1, 4, 4).astype(np.float32)
    train = SampleSet(x, np.arange(len(x)) % 2, np.arange(len(x)), ("a", "b"), kind="image")
    copies = [g[1] for g in planted]
    held = np.r_[copies, np.arange(200, 220)]
    rest = np.setdiff1d(np.arange(len(x)), held)
    issues = data_issues(train.subset(rest), train.subset(held))
    inside, across = (kinds(issues)[f"near duplicates{w}"] for w in ("", " across the split"))
    assert inside.counted == "40 samples in 10 groups" and inside.severity == "act"
    assert across.counted == "10 samples in 10 groups" and "33 % of" in across.sentence
    assert not any(pair.columns for pair in issues.pairs) and "column" not in inside.sentence
    np.testing.assert_array_equal(issues.repeated, np.arange(30) < 10)
    assert len(np.unique(issues.copies)) == len(rest) - 30


@pytest.mark.parametrize("error", [1e-3, 0.02])
def test_copies_of_rows_that_are_mostly_zero_are_found(error):
    """A column of zeros but for a few has no width but the errors of its copies."""
    digits, _ = da.load("digits", val_fraction=0)
    x = digits.x.reshape(len(digits), -1)[:400]
    rng = np.random.default_rng(0)
    first = rng.integers(300, size=100)
    near = x[first] + error * x[:300].std(0) * rng.normal(size=(100, 64))
    result = duplicates(row_codes(pa.table({f"x{j}": c for j, c in enumerate(
        np.concatenate([x[:300], near]).T)})))  # fmt: skip
    planted = np.isin(np.arange(400), np.append(first, np.arange(300, 400)))
    assert (result.near[planted] >= 0).mean() > 0.98
    assert (result.near[~planted] >= 0).sum() <= 2


@pytest.mark.parametrize(("n", "d", "size"), [(1000, 300, 60), (1000, 20, 60), (3000, 20, 200)])
def test_a_small_group_far_from_the_rest_is_found_and_little_else(n, d, size):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    x[np.ix_(np.arange(size), rng.permutation(d)[: max(3, d // 10)])] += 8
    order = rng.permutation(n)
    issues, moved = (
        data_issues(SampleSet(each, np.arange(n) % 2, np.arange(n), ("a", "b")))
        for each in (x, x[order])
    )
    assert issues.is_outlier[:size].mean() > 0.8 and issues.is_outlier[size:].mean() < 0.005
    np.testing.assert_array_equal(moved.is_outlier, issues.is_outlier[order])


def test_rows_that_are_all_equally_far_apart_are_in_no_group():
    rows = pa.table({c: [f"{c}{i}" for i in range(40)] for c in "abc"})
    assert (duplicates(row_codes(rows)).near < 0).all()  # without a warning
