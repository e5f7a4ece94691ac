"""CSV, TSV and Parquet give the same samples; columns become features by their type."""

import gzip
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

import datassay as da
from datassay.errors import DataError

N = 24
COLUMNS = {
    "key": [f"k{i}" for i in range(N)],
    "size": [i + 0.25 for i in range(N)],
    "count": [3 * i for i in range(N)],
    "open": [i % 3 == 0 for i in range(N)],
    "colour": [("red", "blue")[i % 2] for i in range(N)],
    "label": [("yes", "no")[i % 2] for i in range(N)],
}


def written(tmp_path, suffix, **changes):
    path = tmp_path / f"shop.{suffix}"
    table = pa.table(COLUMNS | changes)
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        delimiter = "\t" if suffix == "tsv" else ","
        csv.write_csv(table, path, csv.WriteOptions(delimiter=delimiter))
    return path


def test_long_string_columns_are_text(tmp_path):
    notes = [f"note number{i}, {'good' if i % 2 else 'bad'}" for i in range(N)]
    path = written(tmp_path, "csv", notes=notes)
    train, val = da.load(path, target="label", ids="key", val_fraction=0.2)
    assert train.kind == val.kind == "text"
    assert train.texts.tolist() == [notes[int(key[1:])] for key in train.ids]
    assert {"size", "good", "bad", "note"} <= set(train.feature_names)
    assert train.x.dtype == np.float32
    assert len(train.feature_names) == train.x.shape[1] == val.x.shape[1]


def test_arrow_types(tmp_path):
    changes = {
        "size": pa.array([Decimal(i) / 4 for i in range(N)]),
        "count": pa.array(np.arange(N, dtype=np.float32) * 3),
        "colour": pa.array(COLUMNS["colour"]).dictionary_encode(),
        "label": pa.array(COLUMNS["label"], pa.large_string()),
        "__index_level_0__": pa.array(range(N)),
    }
    train, _ = da.load(written(tmp_path, "parquet", **changes), ids="key")
    assert train.feature_names == ("size", "count", "open", "colour=blue", "colour=red")
    assert np.array_equal(train.x[:, 0], train.x[:, 1] / 12)
    assert train.class_names == ("no", "yes")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"size": [np.inf, *range(N - 1)]}, {}, f"'size' must be finite; 1 of {N}"),
        ({"key": [None, *COLUMNS["key"][1:]]}, {"ids": "key"}, "'key' must have no missing .* 1 "),
        ({"label": [None] * N}, {}, f"'label' must have no missing values; {N} of {N} are missing"),
        ({"label": pa.array(range(N), pa.timestamp("s"))}, {}, "'label' must hold numbers, boole"),
        ({}, {"target": "absent"}, "target must name .* got 'absent'. Its columns are key"),
        ({}, {"ids": "absent"}, "ids must name a column"),
        ({}, {"ids": "label", "target": "label"}, "'label' cannot be target and ids at once"),
        ({}, {"ids": "label", "target": "colour"}, "ids must be unique; no occurs 12 times"),
        ({"label": ["yes"] * N}, {}, "one class only, yes"),
    ],
)
def test_what_is_refused(tmp_path, suffix, changes, options, message):
    with pytest.raises(DataError, match=message):
        da.load(written(tmp_path, suffix, **changes), **options)


def test_keys_with_leading_zeros_stay_text(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text("zip,a,y\n" + "".join(f"{i:05},{i},{i % 2}\n" for i in range(10)))
    assert "00003" in da.load(path, ids="zip")[0].ids
    assert 3 in da.load(path, ids="a", keep=["zip"])[0].ids
    assert "3.25" in da.load(written(tmp_path, "parquet"), ids="size")[0].ids


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 3)])
def test_lists_of_numbers_are_vectors(tmp_path, kind):
    vectors = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
    path = written(tmp_path, "parquet", size=pa.array(vectors.tolist(), kind))
    train, val = da.load(path, ids="key", val_fraction=0.2)
    assert train.feature_names[:4] == ("size 0", "size 1", "size 2", "count")
    assert train.columns[1].read_as == "vector" and train.columns[1].note == "3 numbers per row"
    for part in (train, val):
        i = np.array([int(key[1:]) for key in part.ids])
        assert np.array_equal(part.x[:, :3], vectors[i]) and np.array_equal(part.x[:, 3], 3 * i)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (pa.array([[]] * N, pa.list_(pa.float64())), r"'size' must hold lists of one number"),
        ([[1.0, 2.0]] * (N - 1) + [[None, 1.0]], r"finite numbers alone; 1 of 24 .*row 23"),
        ([[1.0, 2.0]] * (N - 1) + [None], r"'size' must have no missing values; 1 of 24"),
        ([[0.0, 1e9 + i / 10] for i in range(N)], r"'size 1' must keep its differences in float32"),
    ],
)
def test_lists_that_are_refused(tmp_path, vectors, message):
    path = written(tmp_path, "parquet", size=vectors)
    with pytest.raises(DataError, match=message):
        da.load(path)
    with pytest.raises(DataError, match=r"'size' must hold numbers, booleans or strings; got list"):
        da.load(path, target="size")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read"),
        ("a,b,c\n1,2,x\n3,4", r"shop\.csv cannot be read: .*Expected 3 columns"),
        ("a,a,y\n1,2,0\n1,2,1\n", "more than once: a"),
        ("a,y\n", r"must hold one sample per row; it holds column names alone"),
        ("1,0\n1,0\n2.5,1\n", "line of column names; .* like a sample: 1, 0"),
        ("a film,1\nb film,0\nc film,1\n", "line of column names"),
        (",a,y\n0,5,1\n0,6,0\n", "every feature column must have a name"),
        ("a,y\n\x81,1\nb,0\n", r"shop\.csv must be text; .* Save it as UTF-8"),
    ],
)
def test_malformed_csv(tmp_path, content, message):
    path = tmp_path / "shop.csv"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match=message):
        da.load(path)


def lines(header, *columns):
    return "\n".join([header, *map(",".join, zip(*columns, strict=True))]) + "\n"


CLASSES = ["late", "on time", "on time"] * 8
FLOATS = [f"{0.5 + i}" for i in range(24)]
TEXTS = [f"you have won prize {i} of 24" for i in range(24)]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("delay,late", (FLOATS, CLASSES)),
        ("carrier,from,late", (["AA", "DL"] * 12, ["JFK", "LGA", "ORD"] * 8, CLASSES)),
        ("text,late", (TEXTS, CLASSES)),
    ],
)
def test_a_target_may_be_named_as_one_of_its_values(tmp_path, header, columns):
    (tmp_path / "t.csv").write_text(lines(header, *columns))
    train, _ = da.load(tmp_path / "t.csv", target="late")
    assert train.class_names == ("late", "on time") and len(train) == 24


@pytest.mark.parametrize(
    "columns",
    [
        (FLOATS, CLASSES),
        (["?", *FLOATS[1:]], FLOATS, CLASSES),
        (["AA", "DL"] * 12, ["JFK", "LGA", "ORD"] * 8, CLASSES),
        (TEXTS, CLASSES),
        ([f"2020-01-{i + 1:02}" for i in range(24)], CLASSES),
        (["true", "false"] * 12, CLASSES),
    ],
)
def test_a_file_without_column_names_is_refused(tmp_path, columns):
    first, *rest = lines("", *columns).strip().split("\n")
    (tmp_path / "t.csv").write_text("\n".join([first, *rest]) + "\n")
    with pytest.raises(DataError, match="its first line looks like a sample"):
        da.load(tmp_path / "t.csv")


ROWS = "key;größe;y\n" + "".join(f"kö{i};{3 * i},25;{'jäin'[i % 2 :]}\n" for i in range(20))


@pytest.mark.parametrize(
    ("encoding", "predicted"),
    [("utf-8", ""), ("utf-8-sig", ""), ("utf-16", "UTF-16"), ("cp1252", "Windows-1252")],
)
def test_separators_decimal_commas_and_encodings_are_found_and_said(tmp_path, encoding, predicted):
    (tmp_path / "shop.csv").write_bytes(ROWS.encode(encoding))
    train, _ = da.load(tmp_path / "shop.csv", target="y", ids="key")
    assert train.feature_names == ("größe",) and train.class_names == ("jäin", "äin")
    assert np.array_equal(train.x[:, 0], [3 * i + 0.25 for i in range(20)])
    assert train.ids[3] == "kö3"
    assert train.columns[1].form == "1.234,5"  # what is certain is no warning
    assert [predicted in warning for warning in train.warnings] == [True] * bool(predicted)


def test_damaged_utf8_is_not_read_as_another_encoding(tmp_path):
    (tmp_path / "shop.csv").write_bytes(ROWS.encode().replace(b"k\xc3\xb67", b"k\xc37"))
    with pytest.raises(DataError, match="must be UTF-8 text; it is, but for 1 characters"):
        da.load(tmp_path / "shop.csv")


def test_every_kind_of_file_gives_the_same_samples(tmp_path):
    table = pa.table(COLUMNS | {"size": [None, *COLUMNS["size"][1:]]})
    csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    feather.write_feather(table, tmp_path / "a.feather")
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as stream:
        stream.write_table(table)
    lines = "\n".join(json.dumps(row) for row in table.to_pylist())
    (tmp_path / "a.jsonl").write_text(lines)
    csv.write_csv(table, tmp_path / "a.tsv", csv.WriteOptions(delimiter="\t"))
    parquet.write_table(table, tmp_path / "a.parquet")
    i = np.arange(N)
    size = np.where(i == 0, 12.25, i + 0.25)  # the median of the others
    expected = np.stack([3 * i, i % 3 == 0, size, i == 0, i % 2 == 1, i % 2 == 0], axis=1)
    names = ("count", "open", "size", "size missing", "colour=blue", "colour=red")
    for kind in ("csv", "csv.gz", "tsv", "parquet", "feather", "arrow", "jsonl"):
        name = f"a.{kind}"
        train, _ = da.load(tmp_path / name, ids="key")
        assert np.array_equal(train.x, expected) and np.array_equal(train.y, 1 - i % 2)
        assert train.feature_names == names and train.ids.tolist() == COLUMNS["key"]
        assert (train.kind, train.class_names) == ("row", ("no", "yes"))
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2] + b"\xff")
        with pytest.raises(DataError, match=r"cannot be read|must be|labels"):
            da.load(tmp_path / name, ids="key")


def test_json_lines_may_hold_words_among_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"size": i + 0.5, "label": "one" if i % 2 else 0} for i in range(N)]
    rows[3]["size"] = "?"
    path.write_text("\n".join(map(json.dumps, rows)))
    train, _ = da.load(path)
    assert train.class_names == ("0", "one") and train.y.tolist() == [i % 2 for i in range(N)]
    assert train.feature_names == ("size", "size missing") and train.x[3].tolist() == [12.5, 1]
    path.write_text(json.dumps(rows))
    with pytest.raises(DataError, match="cannot be read"):
        da.load(path)


def test_blanks_around_the_name_of_a_column_are_seen(tmp_path):
    (tmp_path / "a.csv").write_text("size, label\n1, yes\n2, no\n")
    with pytest.raises(DataError, match=r"got 'label'\. Its columns are size, ' label'"):
        da.load(tmp_path / "a.csv", target="label")


def test_numbered_columns_are_named(tmp_path):
    path = tmp_path / "frame.csv"
    path.write_text("0,1,2\n" + "5,1,2\n6,0,1\n" * 10)  # as pandas writes a nameless frame
    assert da.load(path, target="2")[0].feature_names == ("0", "1")


def test_a_quoted_na_is_a_value_and_a_bare_one_is_missing(tmp_path):
    path = tmp_path / "shop.csv"
    rows = [f'"NA",{3 * i},{i % 2}\n"DE",{3 * i},{i % 2}\n' for i in range(10)]
    path.write_text("country,a,y\n" + "".join(rows))
    assert da.load(path)[0].feature_names == ("a", "country=DE", "country=NA")
    path.write_text("country,a,y\n" + "".join(rows).replace('"', "").replace("DE", "Peru"))
    train, _ = da.load(path, target="y")
    assert train.feature_names == ("a", "country=Peru", "country=missing")
    assert train.columns[0].missing == 10
    assert train.warnings == (
        "Read as missing: 'NA' in 10 rows of 'country'. In .csv, quote a text that reads as "
        'missing: "NA".',
    )


def csv_of(path, words, header="u,region"):
    path.write_text("\n".join([header, *(f"{i}.5,{word}" for i, word in enumerate(words))]))
    return path


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["NA", "EU"], ("EU", "NA")),
        (["NA", *["EU"] * 7], ("EU", "NA")),
        (["EU", "NA", "AS", "USA"], ("AS", "EU", "NA", "USA")),
        (["None", "some", "all"], ("None", "all", "some")),
        (["none", "N", "Y"], ("N", "Y", "none")),
    ],
)
def test_a_frequent_code_is_a_class_and_no_missing_cell(tmp_path, words, names):
    train, _ = da.load(csv_of(tmp_path / "a.csv", words * 6), target="region")
    assert train.class_names == names and len(train) == 6 * len(words) and not train.warnings


@pytest.mark.parametrize(
    "words", [["NA", "red", "blue"], ["null", "mild", "bad"], ["NA", "Y", "N"]]
)
def test_other_words_that_read_as_missing_are_named(tmp_path, words):
    train, _ = da.load(csv_of(tmp_path / "a.csv", words * 6), target="region")
    assert train.class_names == tuple(sorted(words[1:])) and len(train) == 12
    assert train.warnings[0].startswith(f"Read as missing: {words[0]!r} in 6 rows of 'region'. In")
    assert train.warnings[1].startswith("6 of 18 rows have no target ('region') and are left out")
    rare, _ = da.load(csv_of(tmp_path / "b.csv", [words[0]] + words[1:] * 12), target="region")
    assert len(rare.warnings) == 1 and "1 of 25 rows has no target" in rare.warnings[0]
    with pytest.raises(DataError, match=r"one class only, .* Missing: 6\. In \.csv, quote a text"):
        da.load(csv_of(tmp_path / "c.csv", ["null", "void"] * 6), target="region")


def test_a_header_that_comes_again_is_refused_by_its_row(tmp_path):
    path = csv_of(tmp_path / "a.csv", ["x", "y"] * 6)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], lines[0], *lines[5:]]))
    with pytest.raises(
        DataError, match="line of column names once; it is repeated in row 4, counted from"
    ):
        da.load(path)


def test_a_nameless_column_of_row_labels_names_the_rows(tmp_path):
    rows = [f"{7 * i % 12 + 100},{i}.5,{'xy'[i % 2]}" for i in range(12)]
    (tmp_path / "a.csv").write_text("\n".join([",u,y", *rows]))  # as to_csv() of pandas writes
    train, _ = da.load(tmp_path / "a.csv", target="y")
    assert train.ids.tolist() == [7 * i % 12 + 100 for i in range(12)]
    assert train.feature_names == ("u",)
    (tmp_path / "b.csv").write_text("\n".join([",u,y", *(f"5{row[3:]}" for row in rows)]))
    with pytest.raises(DataError, match="every feature column must have a name; one of"):
        da.load(tmp_path / "b.csv", target="y")
