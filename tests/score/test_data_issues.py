"""Duplicates, outliers, rare classes and drift: planted ones are found, and by name."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datassay.data.samples import Column, SampleSet
from datassay.errors import DataError
from datassay.score.checks.columns import drift
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.duplicates import array_codes, duplicates, row_codes

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
    assert not result.natural
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
    one = kinds(issues)["equal rows"]
    assert one.severity == "fine" and "by chance" in one.sentence
    assert "near duplicates" not in kinds(issues)


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
    assert kinds(issues)["equal rows across the split"].count == 1
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
    assert issues.issues[0].kind == "equal rows, different labels"
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
    columns = (Column("key", "left out", note="ids"), Column("tax", "number"))
    warnings = ("Column 'tax' predicts the target almost alone (99.0% of its variance).",)
    issues = data_issues(samples(rows, columns=columns, warnings=warnings))
    leaking = kinds(issues)["leaking columns"]
    assert leaking.severity == "act" and "tax" in leaking.sentence
    assert kinds(issues)["equal rows"].count == 30
    assert "key" in kinds(issues)["columns left out"].sentence


def test_drift_names_the_column_and_the_source():
    rows, rng = table(600), np.random.default_rng(0)
    source = np.array(["one", "two", "three"])[rng.integers(0, 3, 600)]
    assert not drift(row_codes(rows), source)
    shifted = np.asarray(rows["visits"]) + 10 * (source == "two")
    rows = rows.set_column(6, "visits", pa.array(shifted))
    first = drift(row_codes(rows), source)[0]
    assert (row_codes(rows).names[first.column], first.part) == ("visits", "two")
    from scipy.stats import ks_2samp

    inside, outside = shifted[source == "two"], shifted[source != "two"]
    size, p_value = (float(v) for v in ks_2samp(inside, outside, method="asymp"))  # pyright: ignore
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
    nothing = pa.table({"price": pa.array([None] * 20, pa.float64())})
    issues = data_issues(replace(samples(table(20)), rows=nothing))
    assert (issues.duplicate_group == 0).all()
    with pytest.raises(DataError, match="train must be a SampleSet"):
        data_issues(np.zeros((3, 2)))  # pyright: ignore[reportArgumentType]
