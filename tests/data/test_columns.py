"""How columns are read: stray words among numbers, codes, all that is wrong in one error."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

import datassay as da
from datassay.data.samples import Column
from datassay.data.tables.numeric import check_numbers
from datassay.errors import DataError

N = 100
RNG = np.random.default_rng(0)
VALUES = [f"{value:.4f}" for value in RNG.normal(size=N)]
LABELS = ["yes", "no"] * (N // 2)


def with_strays(*words):
    return [*words, *VALUES[len(words) :]]


def written(tmp_path, suffix, **columns):
    path, table = tmp_path / f"t.{suffix}", pa.table(columns)
    parquet.write_table(table, path) if suffix == "parquet" else csv.write_csv(table, path)
    return path


def read_as(samples):
    return {c.name: (c.read_as, c.n_values) for c in samples.columns}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("word", ["x", "1,5", "12%", "n.a.", "--"])
def test_a_stray_word_does_not_make_words_of_numbers(tmp_path, suffix, word):
    train, _ = da.load(written(tmp_path, suffix, u=with_strays(word), y=LABELS), target="y")
    expected = np.array(VALUES[1:], dtype=float)
    assert np.array_equal(train.x[1:, 0], expected) and train.x[0, 1] == 1
    (warning,) = train.warnings
    assert f"'u': 1 is no number: {word!r} (row 0)" in warning
    path = written(tmp_path, suffix, u=VALUES, y=with_strays(word))
    with pytest.raises(DataError, match=r"'y' is one of numbers \(99 of 100 .* 1 is none: .*row 0"):
        da.load(path)


@pytest.mark.parametrize("n", [19, 20, 21, 100, 199, 200, 201])
@pytest.mark.parametrize("start", [-1, 0, 1, 2])
def test_numbers_that_count_the_rows_are_left_out(n, start):
    """From 0 or 1 on with few gaps, or 200 and more with as many gaps as numbers."""
    for size in {n, n + 1, n * 5 // 4, n * 5 // 4 + 1, 2 * n, 2 * n + 1}:
        counts = RNG.permutation(np.append(np.arange(n - 1), size - 1)) + start
        full = n >= 0.5 * size if n >= 200 else n >= 20 and n >= 0.8 * size and start in {0, 1}
        for numbers, are_counts in (
            (counts, full), (counts.astype(float), full), (counts + 0.5, False),
            (np.where(counts == start + 1, start, counts), False),  # one twice
        ):  # fmt: skip
            read = check_numbers(numbers, Column("u", "number"))
            assert (read.reason == "it numbers the rows") == are_counts, (size, numbers.dtype)


@pytest.mark.parametrize(
    "name",
    ["id", "userId", "user_id", "item key", "uuid", "patient", "Account no", "u", "paid", "ID2",
     "account", "patients", "tickets sold"],
)  # fmt: skip
def test_names_of_ids_are_left_out_where_most_of_their_numbers_differ(name):
    is_name = name not in {"u", "paid", "ID2", "account", "patients", "tickets sold"}
    for n, n_values in ((19, 19), (20, 20), (20, 10), (20, 9), (100, 50), (100, 49)):
        numbers = 7**5 + 3 * np.arange(n) ** 2 % (3 * n_values**2) * (np.arange(n) < n_values)
        expected = is_name and n >= 20 and len(np.unique(numbers)) >= n / 2
        for values, are_ids in ((numbers, expected), (numbers / 7, False)):
            read = check_numbers(values, Column(name, "number"))
            assert read.reason.endswith("are those of ids") == are_ids, (n, n_values)


def test_categories_of_arrow_are_categories_whatever_their_words():
    sentences = [f"so many words {i}" for i in range(N - N // 4)] + ["so few"] * (N // 4)
    coded = pa.array(sentences).dictionary_encode()
    for words, read_as in ((sentences, "text"), (coded, "category")):
        samples, _ = da.load(pa.table({"u": VALUES, "c": words, "y": LABELS}))
        assert samples.columns[1].read_as == read_as


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_made_of_digits_are_not_lost_as_missing_numbers(tmp_path, suffix):
    codes = [f"{85000 + 7 * i}" for i in range(N - 2)] + ["85123A", "M3"]
    path = written(tmp_path, suffix, u=VALUES, code=codes, y=LABELS)
    with pytest.raises(DataError, match=r"2 are none: '85123A' .* pass it as categorical"):
        da.load(path)
    assert da.load(path, categorical="code")[0].columns[1].read_as == "category"


def test_all_that_is_wrong_is_named_in_one_error(tmp_path):
    path = written(
        tmp_path, "parquet", u=with_strays("x1", "?", f"y{2:024}"), v=[{"a": 1.0}] * N,
        w=[np.inf, *map(float, VALUES[1:])], y=LABELS,
    )  # fmt: skip
    with pytest.raises(DataError) as error:
        da.load(path, keep=["v"])
    text = str(error.value)
    assert "3 columns" in text and "\n" not in text
    for part in (
        f"2 are none: 'x1' (row 0), 'y{'0' * 22}…' (row 2)",
        "'v' must hold numbers, booleans, dates or strings; it holds values of type struct<a: d",
        "'w' must be finite",
    ):
        assert part in text


def map_floats():
    return [float(value) for value in VALUES]


def test_few_labels_and_a_named_task_stay_labels(tmp_path):
    labels = ["?", "?", *(str(i % 3) for i in range(N - 2))]
    train, _ = da.load(written(tmp_path, "csv", u=map_floats(), y=labels))
    assert train.class_names == ("0", "1", "2", "?")
    assert train.columns[1].note == "labels; 2 are no numbers: '?' (row 0), '?' (row 1)"
    many = [f"{i % 25}" for i in range(N - 2)] + ["x"] * 2
    path = written(tmp_path, "csv", u=map_floats(), y=many)
    assert da.load(path, task="classification", val_fraction=0.4)[0].n_classes == 26
    with pytest.raises(DataError, match="'y' is one of numbers"):
        da.load(path, task="regression")


def test_strings_given_as_targets_follow_the_same_rule():
    x = RNG.normal(size=(N, 2))
    with pytest.raises(DataError, match=r"99 of its 100 strings are numbers, but 1 is none: '\?'"):
        da.load((x, np.array(with_strays("?"))))


class Mixed:
    """A frame of Python objects, which Arrow does not take as it is."""

    def __init__(self, columns):
        self.columns, self._values = list(columns), columns

    def __arrow_c_stream__(self, schema=None):
        raise pa.ArrowTypeError("Expected bytes, got a 'float' object")

    def __getitem__(self, name):
        return np.array(self._values[name], dtype=object)


def test_columns_of_mixed_objects():
    strays = Mixed({"u": ["x", *map_floats()[1:]], "y": LABELS})
    assert "'u': 1 is no number: 'x' (row 0)" in da.load(strays, target="y")[0].warnings[0]
    odd = Mixed({"u": [1.0, "a", {2}] + [1.0] * (N - 3), "v": map_floats(), "y": LABELS})
    assert da.load(odd)[0].feature_names == ("v",)
    with pytest.raises(DataError, match="'u' must hold numbers, booleans or strings; got struct"):
        da.load(odd, target="u")
    assert da.load(Mixed({"u": map_floats(), "y": LABELS}))[0].feature_names == ("u",)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_bad_utf8_is_one_line(tmp_path, suffix):
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    words = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    table = pa.table({"w": words, "y": ["a", "b"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes("w,y\nüß,a\nöä,b\n".encode() + b"\xff\xfe,b\n")
    with pytest.raises(DataError, match="UTF-8"):
        da.load(tmp_path / f"t.{suffix}")


@pytest.mark.parametrize("rest", ["3,4,x\n5,6,z\n", '3,4,"x"\n5,6,"z"\n'])
def test_a_quote_left_open_swallows_no_rows(tmp_path, rest):
    (tmp_path / "t.csv").write_text('a,b,y\n1,2,"abc\n' + rest)
    with pytest.raises(DataError, match=r"must close every quote; .* row 0"):
        da.load(tmp_path / "t.csv")


@pytest.mark.slow
def test_a_row_longer_than_a_block_is_read(tmp_path):
    path = written(tmp_path, "csv", t=["aa " * 10**6, "bb"] * 5, y=["p", "q"] * 5)
    assert da.load(path, val_fraction=0.4)[0].kind == "text"


@pytest.mark.slow
def test_many_columns_take_time_in_proportion():
    def seconds(m):
        names = [f"c{i}" for i in range(m)]
        table = pa.table(
            [pa.array(RNG.normal(size=10)) for _ in names] + [LABELS[:10]], [*names, "y"]
        )
        start = time.perf_counter()
        da.load(table)
        return time.perf_counter() - start

    seconds(100)
    assert seconds(20_000) < 40 * seconds(2_000) + 1  # a quadratic step would take 100 times


def test_the_rows_as_they_came_go_with_the_samples(tmp_path):
    path = written(tmp_path, "parquet", key=[f"k{i}" for i in range(N)], u=VALUES, y=LABELS)
    train, val = da.load(path, ids="key", val_fraction=0.2)
    for part in (train, val, train.subset(np.arange(5)), train.subset(train.y == 0)):
        assert part.rows.column_names == ["u"] and part.rows.num_rows == len(part)
        assert part.rows["u"].to_pylist() == [VALUES[int(key[1:])] for key in part.ids]


def test_times_of_the_day_in_strings_are_seconds_as_in_a_file(tmp_path):
    words = ["09:30", "23:15:30", None, "00:00"] * 15
    frame = pd.DataFrame({"at": words, "z": np.arange(60.0), "y": ["a", "b"] * 30})
    frame.to_csv(tmp_path / "times.csv", index=False)
    of_frame, of_file = (da.load(s, target="y")[0] for s in (frame, tmp_path / "times.csv"))
    np.testing.assert_array_equal(of_frame.x, of_file.x)
    assert of_frame.x[:2, 0].tolist() == [34_200, 83_730]
    np.testing.assert_array_equal(of_frame.preparation.transform(frame.head(4)), of_frame.x[:4])
