"""What each column is, by its values; what the user says of it wins."""

import datetime
import re

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv
from scipy import sparse
from scipy.stats import gamma

import datassay as da
from datassay.data.tables.dates import FORMS, _parse_dates
from datassay.errors import DataError, SettingError

N = 60
RNG = np.random.default_rng(0)
Y = ["yes", "no"] * (N // 2)
U = [float(v) for v in RNG.normal(size=N)]


def loaded(**columns):
    options = {k: columns.pop(k) for k in ("drop", "keep", "categorical", "text") if k in columns}
    return da.load(pa.table({"u": U} | columns | {"y": Y}), target="y", **options)[0]


def kind(values, **options):
    return next(c for c in loaded(c=values, **options).columns if c.name == "c")


@pytest.mark.parametrize(
    ("values", "read_as", "note"),
    [
        (range(N), "left out", "it numbers the rows"),
        (RNG.permutation(N) + 1.0, "left out", "it numbers the rows"),
        (range(1950, 1950 + N), "number", ""),
        (range(0, 7 * N, 7), "number", ""),
        ([*range(1, N), N - 1], "number", ""),
        ([*range(N - 2), N, N], "number", ""),
        (RNG.choice(10**6, N, replace=False), "number", ""),
        ([5] * N, "left out", "all values are 5"),
        ([5] * (N - 1) + [None], "number", ""),
        ([None] * N, "left out", "all values are missing"),
        ([f"k{i}" for i in range(N)], "ids", ""),
        ([f"k{i // 2 * 2}" if i < 4 else f"k{i}" for i in range(N)], "left out", "(58 of 60)"),
        ([None] * 9 + [f"k{i}" for i in range(51)], "left out", "every value differs (51 of 51)"),
        ([f"k{i % 30}" for i in range(N)], "category", ""),
        ([f"it was late {i}" for i in range(N)], "text", ""),
        ([f"it was late {i // 2}" for i in range(N)], "text", ""),
        (["it was very late"] * (N - 5) + ["it was not late"] * 5, "category", ""),
        ([True, None] * (N // 2), "boolean", ""),
        ([f" {u} " for u in U], "number", "strings of numbers"),
        ([f"{i % 4:03}" for i in range(N)], "category", "digits with leading zeros are a code"),
        ([f"a{i % 9}" if i % 5 == 0 else str(i % 9) for i in range(N)], "category", "80% of the"),
        (["7", "?", "NA", "-", " ", "none"] + ["8"] * (N - 6), "number", "'?', 'NA', 'none' read"),
    ],
)
def test_rules(values, read_as, note):
    result = kind(list(values))
    assert result.read_as == read_as and note in result.note


@pytest.mark.parametrize(("name", "fewest", "value"), [("id", 20, 10**6), ("name", 10, "k")])
def test_in_few_rows_all_may_differ_by_chance(name, fewest, value):
    for n in (fewest - 1, fewest):
        values = [value + (7 * i if value != "k" else str(i)) for i in range(n)]
        table = pa.table({"u": U[:n], name: values, "y": Y[:n]})
        read_as = {c.name: c.read_as for c in da.load(table, target="y")[0].columns}[name]
        assert (read_as == "ids") == (n == fewest)


@pytest.mark.parametrize("name", ["id", "customer_id", "customerId", "row key", "ID"])
def test_a_number_that_is_named_as_an_id_and_mostly_differs_is_left_out(name):
    ids = np.append(RNG.choice(10**6, N - 5, replace=False), np.arange(5) * 0)
    table = pa.table({"u": U, name: ids, "paid": ids, "y": Y})
    columns = {c.name: c.read_as for c in da.load(table, target="y")[0].columns}
    assert columns[name] == "left out" and columns["paid"] == "number"
    columns = da.load(table, target="y", keep=[name])[0].columns
    assert [c.read_as for c in columns if c.name == name] == ["number"]
    few = pa.table({"u": U, name: np.arange(N) % 7, "y": Y})
    assert da.load(few, target="y")[0].columns[1].read_as == "number"


def test_the_rules_do_not_depend_on_the_order_of_the_rows():
    table = pa.table({"u": U, "c": [f"k{i % 9}" for i in range(N)], "k": range(N), "y": Y})
    table = table.append_column("id", pa.array([f"r{i}" for i in range(N)]))
    first, _ = da.load(table, target="y", ids="id")
    order = RNG.permutation(N)
    second, _ = da.load(table.take(pa.array(order)), target="y", ids="id")
    assert [c.read_as for c in first.columns] == [c.read_as for c in second.columns]
    assert np.array_equal(first.x[order], second.x)


def test_what_the_user_says_wins():
    assert kind(range(N), keep="c").read_as == "number"
    assert kind([7 * i for i in range(N)], drop=["c"]).note == "dropped, as asked"
    assert "c" not in loaded(c=list(range(N)), drop=["c"]).rows.column_names
    assert "c=3" in loaded(c=[float(i % 4) for i in range(N)], categorical=["c"]).feature_names
    assert kind([f"k{i % 5} a" for i in range(N)], text="c").read_as == "text"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["d"]}, "drop must name columns of data; it has no d. Its columns are u, c, y"),
        ({"keep": ["y"]}, "column 'y' cannot be target and keep at once"),
        ({"drop": "c", "text": "c"}, "column 'c' cannot be drop and text at once"),
        ({"drop": 3}, "drop must name columns of a table, as strings; got 3"),
        ({"drop": ["u", "c"]}, "all of its columns were left out"),
    ],
)
def test_choices_that_no_column_can_follow(options, message):
    with pytest.raises(DataError, match=message):
        loaded(c=U, **options)


@pytest.mark.parametrize(
    "write",
    ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y", "%m/%d/%Y %I:%M %p", "%d %b %Y", "%B %d, %Y"],
)
def test_dates_of_many_forms(write):
    days = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=11 * i) for i in range(N)]
    words = [day.strftime(write) for day in days]
    samples = loaded(c=["?", *words[1:]])
    names = ("u", "c year", "c month", "c weekday", "c days", "c missing")
    assert samples.feature_names == names
    expected = [[d.year, d.month, d.weekday(), (d - days[1]).days, 0] for d in days[1:]]
    assert np.array_equal(samples.x[1:, 1:], expected)
    assert np.array_equal(samples.x[0, 1:], [*np.median(expected, axis=0)[:-1], 1])
    typed = loaded(c=[None, *days[1:]])
    assert np.array_equal(typed.x, samples.x)


WRITTEN = {
    "year-month-day": "%Y-%m-%d %H:%M:%S", "year/month/day": "%Y/%m/%d", "year-month": "%Y-%m",
    "year.month.day": "%Y.%m.%d %H:%M", "day.month.year": "%d.%m.%y %I:%M %p",
    "month/day/year": "%m/%d/%y %H:%M:%S", "day/month/year": "%d/%m/%y %I:%M:%S%p",
    "day-month-year": "%d-%m-%Y", "month-day-year": "%m-%d-%Y", "day month year": "%d %b %Y",
    "month day, year": "%B %d, %Y %H:%M", "month/year": "%m/%Y", "month year": "%B %Y",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_words_are_the_dates_that_they_are_for_strptime_and_else_none(form):
    rng, words, expected = np.random.default_rng(0), [], []
    for seconds in rng.integers(-(10**9), 4 * 10**9, 150).tolist():
        day = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        parts = re.split(r"(\d\d+|[A-Z][a-z]+)", day.strftime(WRITTEN[form]))
        place = rng.integers(len(parts) // 2) * 2 + 1
        if rng.random() < 0.5:  # another number or name there, at the end of what there is
            ends = ("00", "01", "12", "13", "23", "24", "29", "31", "32", "59", "61", "68", "69")
            parts[place] = rng.choice([*ends, "Foo", "Dec"])
        words.append("".join(parts))
        try:
            expected.append(datetime.datetime.strptime(words[-1], WRITTEN[form]))
        except ValueError:
            expected.append(None)
    read = _parse_dates(pa.array(words, pa.large_string()), form, in_utc=False)
    for word, ours, theirs in zip(words, read.tolist(), expected, strict=True):
        assert ours == theirs or (theirs is None and "Dec " in word), word  # a short name
    assert None in expected and len({*expected}) > 50


def test_months_have_german_names_too():
    names = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember Mrz"
    words = pa.array([f"3. {name} 2020" for name in names.split()], pa.large_string())
    months = (
        _parse_dates(words, "day month year", in_utc=False).astype("datetime64[M]").astype(int) % 12
    )
    assert months.tolist() == [*range(12), 2]


def test_a_day_that_is_none_is_named():
    words = [f"2020-01-{i % 28 + 1:02}" for i in range(N - 1)] + ["2020-02-31"]
    samples = loaded(c=words)
    assert "'c': year-month-day; 1 is no date: '2020-02-31' (row 59)" in samples.warnings[0]
    assert samples.feature_names[-1] == "c missing" and samples.x[:, -1].tolist() == [0] * 59 + [1]


def test_numbers_with_gaps_have_their_median_and_say_where():
    samples = loaded(c=[None, 1.0, 5.0, 6.0] * (N // 4))
    assert samples.feature_names == ("u", "c", "c missing")
    assert samples.x[0, 1:].tolist() == [5, 1] and samples.x[1, 1:].tolist() == [1, 0]
    column = samples.columns[1]
    assert (column.missing, column.treatment[:30]) == (15, "where missing the median, 5, a")


def test_numbers_of_one_column_are_held_in_their_type_or_as_float64():
    for kind, held in (("float32", "float32"), ("float64", "float64"), ("int16", "float64")):
        table = pa.table({"u": np.arange(40).astype(kind) ** 2, "y": ["a", "b"] * 20})
        samples, _ = da.load(table, target="y")
        assert samples.x.dtype == samples.preparation.transform(table).dtype == held


AGES = [20.0 + i % 50 for i in range(1000)]


@pytest.mark.parametrize(
    ("numbers", "code", "count", "is_code"),
    [
        (AGES, -999, 30, True),
        (AGES, -99.0, 5, True),
        (AGES, 9999, 30, True),
        ([-a for a in AGES], 999, 30, True),
        (U * 20, -99, 30, True),
        (AGES, -999, 4, False),  # too few to recur
        (AGES, 99, 30, False),  # an age
        ([-a * 50 for a in AGES], -999, 30, False),  # among the others
        (AGES, -1000, 30, False),  # no nines
        (AGES, 9, 30, False),
        ([40.0] * 1000, 99, 30, False),  # two values, as of a switch
    ],
)
def test_a_number_far_from_the_others_and_in_nines_stands_for_a_missing_one(
    numbers, code, count, is_code
):
    values = [code] * count + list(numbers[count:])
    rng = np.random.default_rng(1)
    y = rng.choice(["yes", "no"], len(values))
    table = pa.table({"u": rng.normal(size=len(values)), "c": values, "y": y})
    train = da.load(table, target="y")[0]
    column = train.columns[1]
    assert (column.missing, column.missing_code) == ((count, code) if is_code else (0, None))
    assert any("'c': " in text for text in train.warnings) == is_code
    kept = da.load(table, target="y", keep=["c"])[0]
    assert kept.columns[1].missing_code is None and not kept.warnings
    if is_code:
        gaps = table.set_column(1, "c", pa.array([None] * count + [*numbers[count:]], pa.float64()))
        assert np.array_equal(train.x, da.load(gaps, target="y")[0].x)


def test_new_rows_have_the_code_of_the_training():
    table = pa.table({"c": [-999] * 30 + AGES[30:], "y": ["yes", "no"] * 500})
    few = table.slice(28, 4)  # two of them with the code
    train, val = da.load(table, target="y", val=few)
    assert np.array_equal(train.preparation.transform(few), train.x[28:32])
    assert np.array_equal(val.x, train.x[28:32])
    plain = table.set_column(0, "c", pa.array(AGES))
    train, val = da.load(plain, target="y", val=table.slice(0, 40))
    assert val.x.min() < train.x.min()  # -999 is a number where it was none in training


def test_rare_categories_share_a_column():
    words = [f"k{i % 40}" for i in range(N)] + [f"z{i}" for i in range(N)]
    table = pa.table({"c": words, "u": U + U, "y": Y + Y})
    samples = da.load(table, target="y")[0]
    assert "c=infrequent" in samples.feature_names and len(samples.feature_names) == 51
    prepared = samples.preparation
    rare = next(word for word in words if f"c={word}" not in prepared.feature_names)
    new = prepared.transform(pa.table({"c": [rare, "never seen", "k3"], "u": U[:3]}))
    place = prepared.feature_names.index("c=infrequent")
    assert new[:, place].tolist() == [1, 1, 0]  # what is new counts with the rare
    assert new[:, [n.startswith("c=") for n in prepared.feature_names]].sum(1).tolist() == [1, 1, 1]


def test_rows_without_a_target_are_left_out_and_named():
    table = pa.table({"u": U, "y": [None, *Y[1:5], None, *Y[6:]]})
    samples = da.load(table, target="y")[0]
    assert len(samples) == N - 2 and samples.ids[:5].tolist() == [1, 2, 3, 4, 6]
    assert samples.rows.num_rows == N - 2 and samples.columns[-1].missing == 2
    assert samples.warnings[0].startswith(
        "2 of 60 rows have no target ('y') and are left out: rows 0"
    )


def test_row_numbers_are_told_before_rows_are_left_out():
    table = pa.table({"k": range(N), "u": U, "y": [None] * 20 + Y[20:]})
    assert da.load(table)[0].feature_names == ("u",)


def test_new_rows_are_treated_as_the_fitted_ones():
    samples = loaded(
        c=[None, 1.0, 2.0, 4.0] * (N // 4),
        d=[datetime.date(2020, 1, 1 + i % 28) for i in range(N)],
        k=[("red", "blue", None)[i % 3] for i in range(N)],
    )
    fitted = samples.preparation
    assert np.array_equal(fitted.transform(samples.rows), samples.x)
    new = pa.table({"u": [1.0], "c": [None], "d": ["2020-02-01"], "k": ["green"], "more": [1]})
    row = dict(zip(fitted.feature_names, fitted.transform(new)[0], strict=True))
    assert (row["c"], row["c missing"], row["d days"]) == (2, 1, 31)
    assert (row["k=red"], row["k=blue"], row["k=missing"]) == (0, 0, 0)
    for change, message in [
        ({"u": [None]}, "'u' must have no missing values, as it had none"),
        ({"u": ["x"]}, "'u' must hold what it held, number; got category"),
    ]:
        with pytest.raises(DataError, match=message):
            fitted.transform(
                pa.table({"u": [1.0], "c": [1.0], "d": ["2020-02-01"], "k": ["red"]} | change)
            )
    with pytest.raises(DataError, match="it has no c, d, k"):
        fitted.transform(pa.table({"u": [1.0]}))


def test_a_column_that_new_rows_lack_wholly_counts_as_each_of_its_missing_cells():
    """Two columns of each kind, so that none is taken for its neighbour."""
    kinds = {
        "number": lambda i: i * i / 7,
        "boolean": lambda i: i % 3 == 0,
        "date": lambda i: datetime.datetime(2020, 1, 1, i % 24) + datetime.timedelta(11 * i),
        "category": lambda i: ("red", "blue", "green")[i % 3],
    }
    columns = {
        f"{kind} {shift}": [None if i % 7 == shift else value(i + 5 * shift) for i in range(N)]
        for shift in (1, 2)
        for kind, value in kinds.items()
    }
    samples = loaded(**columns)
    assert {c.name: c.read_as for c in samples.columns} == {
        "u": "number", "y": "target", **{name: name.split()[0] for name in columns},
    }  # fmt: skip
    fitted, rows = samples.preparation, samples.rows.slice(0, 4)
    for name in columns:
        place = rows.column_names.index(name)
        nulls = pa.nulls(4, rows[name].type)
        lacking = fitted.transform(rows.set_column(place, name, nulls))
        values = rows[name].to_pylist()
        for i in range(4):
            cells = [None if j == i else value for j, value in enumerate(values)]
            one = rows.set_column(place, name, pa.array(cells, rows[name].type))
            np.testing.assert_array_equal(fitted.transform(one)[i], lacking[i])
    bare = rows.set_column(0, "u", pa.array([True, False, True, False]))
    as_numbers = rows.set_column(0, "u", pa.array([1.0, 0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(fitted.transform(bare), fitted.transform(as_numbers))


@pytest.mark.parametrize("in_utc", [True, False])
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_a_word_is_a_time_where_it_is_one_for_python(in_utc, data):
    def two(most):
        return f"{data.draw(st.integers(0, most)):02}"

    year, zone = data.draw(st.integers(1700, 2200)), data.draw(st.sampled_from(["", "Z", "+", "-"]))
    zone += f"{two(14)}:{two(59)}" if zone in ("+", "-") else ""
    word = f"{year}-{two(13)}-{two(32)}T{two(25)}:{two(61)}:{two(59)}{zone}"
    try:
        expected = datetime.datetime.fromisoformat(word)
    except ValueError:
        expected = None
    if expected is not None:
        in_zone = in_utc and expected.tzinfo
        expected = (expected.astimezone(datetime.UTC) if in_zone else expected).replace(tzinfo=None)
    words = pa.array([word, word.replace(":", "", 2).replace(":", "") + "?"], pa.large_string())
    read = _parse_dates(words, "year-month-day", in_utc=in_utc)
    assert read.tolist() == [expected, None]


def test_a_skewed_target_is_told_and_its_logarithm_predicted():
    price = np.exp(3 * RNG.normal(size=N))
    table = pa.table({"u": U, "price": price})
    samples = da.load(table, target="price")[0]
    assert "The target is skewed" in samples.warnings[-1]
    logged = da.load(table, target="price", log_target=True)[0]
    assert np.allclose(logged.y, np.log(price)) and not logged.warnings
    assert logged.columns[-1].treatment == "ln(target) is predicted"
    table = pa.table({"u": U, "price": np.log(price)})
    assert not da.load(table, target="price")[0].warnings
    rent = gamma(9).ppf((np.arange(N) + 0.5) / N)  # whose skewness is 0.7
    rent[:: N // 2] *= 10  # slips of a decimal point do not skew the others
    assert not da.load(pa.table({"u": U, "price": rent}), target="price")[0].warnings
    zero = da.load((np.array(U)[:, None], np.floor(price)), log_target=True)
    assert np.allclose(zero[0].y, np.log1p(np.floor(price)[zero[0].ids]))
    with pytest.raises(DataError, match="log_target needs targets that are numbers of at least 0"):
        loaded_y = pa.table({"u": price, "y": U})
        da.load(loaded_y, log_target=True)


def test_sparse_matrices_are_made_full():
    x = sparse.random(N, 5, 0.5, random_state=0, format="csr")
    train, _ = da.load((x, Y))
    assert np.array_equal(train.x, x.toarray()[train.ids])


def two_targets():
    return pa.table({
        "u": U[:40], "w": ["a", "b"] * 20, "v": U[20:60], "c": U[10:50], "part": ["x", "y"] * 20
    })  # fmt: skip


def test_several_targets_of_a_table_are_its_columns(tmp_path):
    table, path = two_targets(), tmp_path / "two.csv"
    csv.write_csv(table, path)
    for data, target in ((table, ["u", "v"]), (table, ("u", "v")), (table, "u,v"), (path, "u,v")):
        train, val = da.load(data, target=target, source="part", val_fraction=0.25)
        both = np.stack([table["u"], table["v"]], 1)
        assert np.allclose(train.y, both[train.ids]) and np.allclose(val.y, both[val.ids])
        assert len(train) == 30 and set(train.source) == {"x", "y"} and not train.class_names
        assert {*train.feature_names} == {"c", "w=a", "w=b"}
        kinds = {one.name: one.read_as for one in train.columns}
        assert [kinds[n] for n in table.column_names] == [
            "target", "category", "target", "number", "source"
        ]  # fmt: skip
    assert da.load(table, target=["u"])[0].y.shape == (40,)
    labels = pa.table({"p": [0, 1] * 20, "q": [0, 0, 1, 1] * 10, "c": U[:40]})
    assert da.load(labels, target=["p", "q"])[0].has_several_labels


@pytest.mark.parametrize(("target", "message"), [
    (["u", "x"], "must name a column of data; got 'x'"), (["u", "w"], "'w' holds words"),
    ([], "must name columns, each once"), (["u", "u"], "each once"), (["u", 1], "as strings"),
])  # fmt: skip
def test_several_targets_are_refused_in_one_line(target, message):
    with pytest.raises(DataError, match=message):
        da.load(two_targets(), target=target)


def test_rows_that_miss_one_of_several_targets_are_left_out_and_named():
    table = two_targets().append_column("gap", pa.array([1.5, 2, 3, None, *U[:36]]))
    train, _ = da.load(table, target=["gap", "v"])
    assert train.ids.tolist() == [0, 1, 2, *range(4, 40)] and train.y[3].tolist() == [U[0], U[24]]
    (warning,) = train.warnings
    assert warning.startswith("1 of 40 rows has no target ('gap' or 'v') and is left out: row 3,")
    assert train.target_names == ("gap", "v")  # in the order of y
    nothing = table.set_column(2, "v", pa.array([None] * 3 + [1.0] + [None] * 36))
    with pytest.raises(DataError, match=r"must have all targets \(gap, v\); none in data has"):
        da.load(nothing, target=["gap", "v"])


ODD = {
    "struct": lambda: [{"a": 1}] * N,
    "list": lambda: [["a", "b"]] * N,
    "unequal lengths": lambda: [[1.0] * (1 + i % 3) for i in range(N)],
    "binary": lambda: [b"x"] * N,
    "complex": lambda: [1 + 2j] * N,
}


@pytest.mark.parametrize("name", ODD)
def test_a_column_of_a_type_that_is_no_feature_is_left_out_and_named(name):
    frame = pandas.DataFrame({"u": U, "c": ODD[name](), "y": Y})
    train, _ = da.load(frame, target="y")
    assert train.feature_names == ("u",) and train.columns[1].read_as == "left out"
    (warning,) = train.warnings
    assert warning.startswith("Left out: 'c': ") and name in warning
    with pytest.raises(DataError, match="'c' must hold numbers, booleans, dates or strings; it"):
        da.load(frame, target="y", keep=["c"])
    with pytest.raises(DataError, match="'c' must hold numbers, booleans or strings"):
        da.load(frame, target="c")


def test_periods_and_intervals_are_read_as_their_words():
    cut = pandas.cut(pandas.Series(U), 4)
    months = pandas.period_range("2020-01", periods=N, freq="M")
    frame = pandas.DataFrame({"u": U, "cut": cut, "plain": pandas.arrays.IntervalArray(cut)})
    train, _ = da.load(frame.assign(month=months, y=cut), target="y")
    kinds = [(column.name, column.read_as) for column in train.columns[1:]]
    assert kinds == [("cut", "category"), ("plain", "category"), ("month", "date"), ("y", "target")]
    assert train.class_names == tuple(map(str, cut.cat.categories))  # in their order


def test_a_target_that_is_not_named_is_the_one_column_called_so():
    table = pa.table({"Label ": Y, "u": U, "v": U})
    assert da.load(table)[0].warnings == (
        "No target was named: the column called 'Label ' is predicted.",
    )
    for target in (None, "Label "):
        with pytest.raises(DataError, match="'Label ' cannot be target and drop at once"):
            da.load(table, target=target, drop=["Label "])
    for name, called in (("paid", "none is"), ("Class", "several are")):
        renamed = table.rename_columns(["age" if name == "paid" else "y", "u", name])
        rule = f"to predict; none is named, and {called} called target, label, y or class. Its"
        with pytest.raises(DataError, match=rf"{rule}.*Name it, as in target='{name}'"):
            da.load(renamed)


@pytest.mark.parametrize(
    ("columns", "options", "found"),
    [
        ({"email": "a{}@b.org", "customer_id": "c{}"}, {}, "customer_id"),
        ({"email": "a{}@b.org", "customer_id": "c{}"}, {"drop": "customer_id"}, "email"),
        ({"email": "a{}@b.org"}, {"categorical": "email"}, None),
        ({"email": "a{}@b.org"}, {"keep": "email"}, None),
        ({"weighed": "{}.5 kg"}, {}, None),
        ({"said": "it is {} o'clock now"}, {}, None),
        ({"day": "2020-01-{:02}"}, {}, None),
    ],
)
def test_a_column_that_names_the_rows_is_taken_as_ids(columns, options, found):
    table = {name: [form.format(i) for i in range(1, 31)] for name, form in columns.items()}
    samples, _ = da.load(pa.table({**table, "u": U[:30], "y": Y[:30]}), **options)
    assert [c.name for c in samples.columns if c.read_as == "ids"] == [found] * bool(found)
    assert samples.ids.tolist() == (table[found] if found else [*range(30)])


def test_a_column_of_which_some_are_dates_says_how_many():
    for tenths in (6, 3):
        words = [f"2020-01-{1 + i % 28:02}" if i % 10 < tenths else f"w{i % 3}" for i in range(N)]
        assert ("60% of the values are dates" in kind(words).note) == (tenths == 6)


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ([f"{2015 + i // 12}-{1 + i % 12:02}" for i in range(N)], "year-month"),
        ([f"{1 + i % 12}/{2015 + i // 12}" for i in range(N)], "month/year"),
        ([f"{'JanFebMarAprMayJunJulAugSepOctNovDec'[3 * (i % 12) :][:3]} {2015 + i // 12}"
          for i in range(N)], "month year"),
    ],
)  # fmt: skip
def test_months_are_dates(words, form):
    samples = loaded(c=words)
    column = samples.columns[1]
    assert (column.read_as, column.note) == ("date", f"dates as {form}")
    row = dict(zip(samples.feature_names, samples.x[14].tolist(), strict=True))
    assert (row["c year"], row["c month"], row["c days"]) == (2016, 3, 365 + 31 + 29)


@pytest.mark.parametrize("as_words", [False, True])
def test_hours_are_those_of_the_zone_and_times_are_ordered_in_utc(as_words):
    times = pandas.date_range("2024-06-01", periods=N, freq="5h", tz="Asia/Tokyo")
    values = [str(time) for time in times] if as_words else pa.array(times)
    samples = loaded(c=values)
    hours = samples.x[:, samples.feature_names.index("c hour")]
    assert hours.tolist() == [time.hour for time in times]
    back = pandas.date_range("2024-10-27", periods=N, freq="2min", tz="UTC")
    when = back.tz_convert("Europe/Berlin")  # whose clocks show an hour twice
    table = pa.table({"u": U, "t": [str(t) for t in when] if as_words else pa.array(when), "y": U})
    held_out = da.load(table, target="y", time="t", val_fraction=0.5)[1]
    assert held_out.ids.tolist() == list(range(N // 2, N))
    mixed = ["2024-01-01 10:00+09:00", "2024-01-01 03:00+00:00"] * (N // 2)
    table = pa.table({"u": U[::-1], "t": mixed, "y": U})
    held_out = da.load(table, target="y", time="t", val_fraction=0.5)[1]
    assert set(held_out.ids % 2) == {1}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["10%", "25%"], ("10%", "25%")),
        (["$1,000", "$2,000"], ("$1,000", "$2,000")),
        (["1.0", "2.0"], ("1", "2")),
    ],
)
@pytest.mark.parametrize("task", [None, "classification"])
def test_a_few_amounts_as_labels_keep_their_words(words, names, task):
    table = pa.table({"u": U, "y": words * (N // 2)})
    assert da.load(table, target="y", task=task)[0].class_names == names
    assert not da.load(table, target="y", task="regression")[0].class_names


def test_weights_are_said_to_be_no_column_here():
    table = pa.table({"u": U[:40], "v": U[20:60], "sample_weight": [0.5, 2.0, 1.0, 1.0] * 10})
    for function in (da.load, da.assay):
        with pytest.raises(SettingError, match="sample_weight must be left out: samples all count"):
            function(table, target="v", sample_weight="sample_weight")
    train, _ = da.load(table, target="v")
    assert any("'sample_weight' is read as a feature" in one for one in train.warnings)
    assert not any(
        "weight" in one for one in da.load(table, target="v", keep="sample_weight")[0].warnings
    )
    assert not any(
        "weight" in one for one in da.load(table, target="v", drop="sample_weight")[0].warnings
    )


@pytest.mark.parametrize(("task", "told"), [(None, 1), ("regression", 0)])
def test_an_order_of_classes_is_said_to_be_unused_but_where_misses_count_by_distance(task, told):
    ranks = pandas.Series(np.arange(60) % 3)
    frame = pandas.DataFrame({
        "u": U[:60],
        "rank": ranks.astype(pandas.CategoricalDtype([0, 1, 2])),
    })
    plain, _ = da.load(frame, target="rank", task=task)
    frame["rank"] = frame["rank"].cat.as_ordered()
    train, _ = da.load(frame, target="rank", task=task)
    said = [one for one in train.warnings if one not in plain.warnings]
    assert len(said) == told and all("order of the classes of 'rank'" in one for one in said)


def test_ordered_classes_are_in_their_order(tmp_path):
    words = np.array(["low", "middle", "high"])[np.arange(60) % 3]
    kind = pandas.CategoricalDtype(["none", "low", "middle", "high"], ordered=True)
    frame = pandas.DataFrame({"u": U[:60], "rank": pandas.Series(words).astype(kind)})
    frame.to_parquet(path := tmp_path / "ranks.parquet")
    for data in (frame, path):
        train, val = da.load(data, target="rank", val_fraction=0.2)
        assert train.class_names == val.class_names == ("low", "middle", "high")
        assert np.array_equal(np.array(train.class_names)[train.y], words[train.ids])
    unordered = frame.assign(rank=words)
    assert da.load(unordered, target="rank")[0].class_names == ("high", "low", "middle")
