"""Each format given back: what was decided is changed, and nothing else."""

import csv
import decimal
import gzip
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc

from datassay.data import load
from datassay.data.back.original import (
    COLUMNS,
    RECORD,
    TABLE,
    Changelog,
    find_changed_column,
    find_donors,
    given_back_file,
)
from datassay.data.load import original
from datassay.data.tables.read import Choices
from datassay.errors import DataError


def given_back(data, out, *, relabel=(), remove=(), chosen=Choices(), link=True):  # noqa: B008
    """Position → new class, and positions that go."""
    of = original(data, chosen, may_link=link)
    keep, y = np.ones(len(of.ids), dtype=bool), of.y.copy()
    keep[list(remove)] = False
    y = y.astype(float) if any(isinstance(label, float) for label in dict(relabel).values()) else y
    for position, label in dict(relabel).items():
        y[position] = of.class_names.index(label) if of.class_names else label
    out.mkdir(exist_ok=True)
    ids = of.write(out, keep, y)
    return out / of.file if of.file else out, ids.tolist()


MESSY = (
    'nr;"name, long";note;quality\r\n'
    '007;"a ""b"";c";;"good"\r\n'
    '008;x;"two\r\nlines";bad\r\n'
    "\r\n"
    '009; 5" by 4";3,5;bad\r\n'
    "010;ü;4,25;good"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("zipped", [False, True])
def test_text_changes_in_one_cell_only(tmp_path, encoding, zipped):
    path = tmp_path / ("messy.csv.gz" if zipped else "messy.csv")
    content = MESSY.encode(encoding)
    path.write_bytes(gzip.compress(content) if zipped else content)
    chosen = Choices("quality")
    file, ids = given_back(path, tmp_path / "out", relabel={1: "good"}, remove=[2], chosen=chosen)
    after = file.read_bytes()
    after = gzip.decompress(after) if zipped else after
    expected = MESSY.replace('lines";bad', 'lines";"good"').replace('009; 5" by 4";3,5;bad\r\n', "")
    assert after == expected.encode(encoding)
    assert ids == [0, 1, 2]


def test_nothing_decided_is_the_same_file(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"x\ty\n\n1\ta\r\n2\tb\r3\ta\n")
    file, _ = given_back(path, tmp_path / "out")
    assert file.read_bytes() == path.read_bytes()
    file, _ = given_back(path, tmp_path / "out", relabel={2: "b"})
    assert file.read_bytes() == b"x\ty\n\n1\ta\r\n2\tb\r3\tb\n"


def test_labels_are_written_as_others_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,1.0\n2,2.0\n3,1.0\n")
    file, _ = given_back(path, tmp_path / "out", relabel={2: "2"})
    assert file.read_text() == "x,y\n1,1.0\n2,2.0\n3,2.0\n"


def test_rows_without_a_label_stay(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,name\n1,a,p\n2,,q\n3,b,r\n4,a,s\n5,b,t\n")
    chosen = Choices("y", "name")
    file, ids = given_back(
        path, tmp_path / "out", relabel={1: "a"}, remove=[0], chosen=chosen
    )  # fmt: skip
    assert file.read_text() == "x,y,name\n2,,q\n3,a,r\n4,a,s\n5,b,t\n"
    assert ids == ["r", "s", "t"]
    file, ids = given_back(path, tmp_path / "out", remove=[0], chosen=Choices("y"))
    assert ids == [1, 2, 3]  # row 0 has no label now
    train, _ = load(file, target="y")
    assert train.ids.tolist() == ids


def test_targets_keep_the_form_of_their_cell(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f'{i};"{i}a";{i},5;"{i},25"\n' for i in range(30))
    path.write_text("a;b;c;d\n" + rows)
    changes = {"relabel": {3: -12.5}, "remove": [0]}
    file, _ = given_back(path, tmp_path / "out", **changes, chosen=Choices("d"))
    assert file.read_text() == "a;b;c;d\n" + rows.replace('"3,25"', '"-12,5"').replace(
        '0;"0a";0,5;"0,25"\n', "", 1
    )


def test_json_lines_change_in_one_value_only(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [
        '{"t": "say \\"hi, {y: 1}\\"", "y" : "a", "n": [{"y": "b"}]}',
        '{"y":"b\\u00fc", "t":"ü", "n":null}',
        "",
        ' {"n": [], "t": "", "y":"a"} ',
    ]
    path.write_bytes("\r\n".join(lines).encode())
    chosen = Choices("y", text=("t",), drop=("n",))
    file, _ = given_back(path, tmp_path / "out", relabel={0: "bü"}, remove=[1], chosen=chosen)
    assert file.read_bytes().decode() == "\r\n".join([
        lines[0].replace('"y" : "a"', '"y" : "b\\u00fc"'),
        "",
        lines[3],
    ])


def table():
    words = pa.array(["a", "b", "a", "b", None, "a"]).dictionary_encode()
    schema = pa.schema(
        [
            pa.field("key", pa.int16(), nullable=False, metadata={"unit": "none"}),
            pa.field("x", pa.decimal128(7, 2)),
            pa.field("when", pa.timestamp("ms", "Europe/Berlin")),
            pa.field("list", pa.list_(pa.float32())),
            pa.field("y", words.type),
        ],
        metadata={"made": "here"},
    )
    columns = [
        pa.array(range(10, 16), pa.int16()),
        pa.array([decimal.Decimal(i) / 4 for i in range(6)], pa.decimal128(7, 2)),
        pa.array(range(6), pa.timestamp("ms", "Europe/Berlin")),
        pa.array([[1.0], [], [2.0, 3.0], None, [4.0], [5.0]], pa.list_(pa.float32())),
        words,
    ]
    return pa.table(columns, schema=schema)


def written(path):
    if path.suffix == ".parquet":
        pq.write_table(table(), path, compression="zstd", row_group_size=4)
    elif path.suffix == ".feather":
        feather.write_feather(table(), str(path))
    else:
        with pa.OSFile(str(path), "wb") as sink, ipc.new_stream(sink, table().schema) as writer:
            writer.write_table(table())
    return path


def stored(path):
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    if path.suffix == ".feather":
        return feather.read_table(str(path))
    return ipc.open_stream(path.read_bytes()).read_all()


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_columns_keep_schema_types_and_metadata(tmp_path, kind):
    path = written(tmp_path / f"a.{kind}")
    chosen = Choices("y", "key")
    file, ids = given_back(path, tmp_path / "out", relabel={2: "b"}, remove=[0], chosen=chosen)
    after, rows = stored(file), table().to_pylist()
    rows[2]["y"] = "b"
    assert after.schema.equals(stored(path).schema, check_metadata=True)
    assert after.to_pylist() == rows[1:]
    assert ids == [11, 12, 13, 15]
    if kind == "parquet":
        metadata = pq.ParquetFile(file).metadata
        assert metadata.row_group(0).column(0).compression == "ZSTD"
        assert metadata.row_group(0).num_rows == 4


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int32(), 7), (pa.float32(), 2.5), (pa.decimal128(5, 1), 2.5)]
)
def test_targets_of_columns_keep_their_type(tmp_path, kind, value):
    y = pa.array([decimal.Decimal(3 * i) for i in range(40)], pa.decimal128(5, 1)).cast(kind)
    pq.write_table(pa.table({"x": np.arange(40.0) ** 2, "y": y}), tmp_path / "a.parquet")
    chosen = Choices(task="regression")
    file, _ = given_back(
        tmp_path / "a.parquet", tmp_path / "out", relabel={1: value}, chosen=chosen
    )
    after = pq.read_table(file)["y"]
    assert after.type == kind
    assert [float(v) for v in after.to_pylist()[:3]] == [0, value, 6]


def test_a_target_that_its_type_cannot_hold_is_refused(tmp_path):
    numbers = {"x": np.arange(40.0) ** 2, "y": np.arange(40)}
    pq.write_table(pa.table(numbers), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="must hold its new targets as int64"):
        given_back(
            tmp_path / "a.parquet", tmp_path / "o", relabel={1: 2.5},
            chosen=Choices(task="regression"),
        )  # fmt: skip


@pytest.mark.parametrize(("name", "words"), [
    ("who", ["a", None, "b"]), ("y", [1.0, float("inf"), 2.0]),
])  # fmt: skip
def test_a_column_that_cannot_be_read_is_named_with_its_file(tmp_path, name, words):
    table = pa.table({"x": [1.5, 2.5, 0.5], "who": ["a", "c", "b"], "y": [1.0, 3.0, 2.0]})
    table = table.set_column(table.column_names.index(name), name, pa.array(words))
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=f"column '{name}' must"):
        original(tmp_path / "a.parquet", Choices("y", ids="who"))


@pytest.mark.parametrize("start", [0, 100])
def test_pandas_finds_its_row_labels_again(tmp_path, start):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.5, 2.5, 0.5, 4.5], "y": list("abab")})
    frame.index = pandas.RangeIndex(start, start + 4)
    frame.to_parquet(tmp_path / "a.parquet")
    file, ids = given_back(tmp_path / "a.parquet", tmp_path / "out", remove=[1])
    after = pandas.read_parquet(file)
    expected = [100, 102, 103] if start else [0, 1, 2]
    assert after.index.tolist() == ids == expected
    assert after["y"].tolist() == ["a", "a", "b"]
    assert load(file)[0].ids.tolist() == expected
    file, _ = given_back(tmp_path / "a.parquet", tmp_path / "same", relabel={1: "a"})
    assert pq.read_schema(file).equals(pq.read_schema(tmp_path / "a.parquet"), check_metadata=True)
    assert pandas.read_parquet(file).index.equals(frame.index)


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, 1, 0, 2], np.uint8),
        np.array(list("abbac")),
        np.array([[5], [7], [7], [5], [9]]),
        np.array([5.0, 7.0, 7.0, 5.0, 9.0], np.float32),
    ],
)
def test_an_archive_keeps_all_that_is_in_it(tmp_path, y):
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(5, 3)).astype(np.float32), "y": y}
    arrays |= {"x_val": rng.normal(size=(5, 3)), "y_val": y, "weight": np.arange(5), "other": y[:2]}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    new = original(tmp_path / "a.npz", Choices()).class_names[2]
    file, ids = given_back(tmp_path / "a.npz", tmp_path / "out", relabel={1: new}, remove=[0])
    after = np.load(file)
    assert set(after) == set(arrays)
    for name in ("x", "weight"):
        np.testing.assert_array_equal(after[name], arrays[name][1:])
    for name in ("x_val", "y_val", "other"):
        np.testing.assert_array_equal(after[name], arrays[name])
    expected = y.copy()
    expected[1] = y[4]
    np.testing.assert_array_equal(after["y"], expected[1:])
    assert after["y"].dtype == y.dtype and after["x"].dtype == np.float32
    assert ids == [0, 1, 2, 3]


def test_class_names_and_ids_of_an_archive(tmp_path):
    arrays = {"x": np.eye(4), "y": np.array([1, 0, 1, 0]), "ids": np.array(list("pqrs"))}
    np.savez(tmp_path / "a.npz", **arrays, class_names=np.array(["no", "yes", "never"]))
    file, ids = given_back(
        tmp_path / "a.npz", tmp_path / "out", relabel={0: "never"}, remove=[2]
    )  # fmt: skip
    after = np.load(file)
    assert after["y"].tolist() == [2, 0, 0]
    np.savez(tmp_path / "b.npz", x=np.eye(4), y=np.array([*"abab"], "U10"))
    file, _ = given_back(tmp_path / "b.npz", tmp_path / "out", relabel={0: "b"})
    assert np.load(file)["y"].dtype == "U10"  # as wide as it was
    assert after["ids"].tolist() == ids == ["p", "q", "s"]


def test_whole_targets_of_an_archive_stay_whole(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(40.0)[:, None], y=np.arange(40) ** 2)
    file, _ = given_back(tmp_path / "a.npz", tmp_path / "out", relabel={3: 8.0})
    assert np.load(file)["y"].tolist()[:5] == [0, 1, 4, 8, 16]
    with pytest.raises(DataError, match="y must hold its new targets as int64"):
        given_back(tmp_path / "a.npz", tmp_path / "out", relabel={3: 8.5})


def test_a_built_in_set_becomes_an_archive_with_its_ids(tmp_path):
    file, ids = given_back("iris", tmp_path / "out", relabel={3: "virginica"}, remove=[0, 149])
    before, after = load("iris", val_fraction=0.0)[0], load(file, val_fraction=0.0)[0]
    assert file.name == "iris.npz"
    assert after.ids.tolist() == ids == list(range(1, 149))
    assert after.class_names == before.class_names
    assert after.y[2] == 2 and (after.y[3:] == before.y[4:149]).all()
    np.testing.assert_array_equal(after.x, before.x[1:149])


def pictures(root, names):
    from PIL import Image

    rng = np.random.default_rng(0)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(root / name)


@pytest.mark.parametrize("above", ["", "train/"])
def test_images_move_to_their_class(tmp_path, above):
    names = [f"{above}{n}" for n in ("cat/1.png", "cat/a/2.png", "dog/1.png", "dog/2.PNG")]
    root = tmp_path / "photos"
    pictures(root, names)
    if above:
        pictures(root, ["val/cat/1.png", "val/dog/1.png", "test/cat/1.png"])
    (root / "README.txt").write_text("mine")
    out, ids = given_back(root, tmp_path / "out", relabel={0: "dog", 3: "cat"}, remove=[2])
    files = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    expected = {f"{above}dog/1.png", f"{above}cat/a/2.png", f"{above}cat/2.PNG", "README.txt"}
    others = {"val/cat/1.png", "val/dog/1.png", "test/cat/1.png"} if above else set()
    assert files == expected | others
    moved = out / above / "dog/1.png"
    assert moved.read_bytes() == (root / above / "cat/1.png").read_bytes()
    assert moved.samefile(root / above / "cat/1.png")
    n_val = 2 if above else 0
    assert ids[: len(ids) - n_val] == [
        f"{above}{n}" for n in ("dog/1.png", "cat/a/2.png", "cat/2.PNG")
    ]


def test_no_image_takes_the_name_of_another(tmp_path):
    root = tmp_path / "photos"
    pictures(root, ["cat/1.png", "cat/2.png", "dog/1.PNG", "dog/1-2.png", "cow/1.png"])
    out, ids = given_back(root, tmp_path / "out", relabel={0: "dog", 2: "dog"}, link=False)
    files = sorted(p.relative_to(out).as_posix() for p in out.rglob("*.[pP]*"))
    assert files == sorted(ids) and len(set(files)) == 5
    assert (out / "dog/1.PNG").read_bytes() == (root / "dog/1.PNG").read_bytes()
    contents = {(out / name).read_bytes() for name in ids}
    assert contents == {p.read_bytes() for p in root.rglob("*.*")}
    assert not (out / "dog/1.PNG").samefile(root / "dog/1.PNG")


def test_a_folder_of_idx_files(tmp_path):
    from datassay.data import read_idx

    root, rng = tmp_path / "mnist", np.random.default_rng(0)
    root.mkdir()
    x, y = rng.integers(0, 255, (6, 4, 3), dtype=np.uint8), np.array([3, 1, 3, 7, 1, 7], np.uint8)

    def head(values):
        sizes = b"".join(n.to_bytes(4, "big") for n in values.shape)
        return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()

    (root / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head(x)))
    (root / "train-labels-idx1-ubyte").write_bytes(head(y))
    (root / "t10k-images-idx3-ubyte").write_bytes(head(x))
    (root / "t10k-labels-idx1-ubyte").write_bytes(head(y))
    out, ids = given_back(root, tmp_path / "out", relabel={0: "7"}, remove=[1])
    assert {p.name for p in out.iterdir()} == {p.name for p in root.iterdir()}
    np.testing.assert_array_equal(read_idx(out / "train-images-idx3-ubyte.gz"), x[[0, 2, 3, 4, 5]])
    assert read_idx(out / "train-labels-idx1-ubyte").tolist() == [7, 3, 7, 1, 7]
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        assert (out / name).read_bytes() == (root / name).read_bytes()
    assert ids == list(range(5))


def saved_dataset(folder, classes=("neg", "pos")):
    """As `save_to_disk` writes a data set in two files."""
    folder.mkdir()
    label = pa.field("label", pa.int64())
    schema = pa.schema([pa.field("text", pa.string()), label], {"huggingface": "{}"})
    names = [f"data-0000{i}-of-00002.arrow" for i in range(2)]
    for i, name in enumerate(names):
        words = [f"{'good' if k % 2 else 'bad'} film number {3 * i + k}" for k in range(3)]
        part = pa.table({"text": words, "label": [0, 1, -1 if i else 0]}).cast(schema)
        with pa.OSFile(str(folder / name), "wb") as sink, ipc.new_stream(sink, schema) as writer:
            writer.write_table(part)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "before"}
    (folder / "state.json").write_text(json.dumps(state))
    features = {
        "label": {"names": list(classes), "_type": "ClassLabel"},
        "text": {"_type": "Value"},
    }
    (folder / "dataset_info.json").write_text(json.dumps({"features": features, "license": "mine"}))


def test_a_saved_dataset_keeps_its_files_and_features(tmp_path):
    root = tmp_path / "saved"
    saved_dataset(root)
    train, _ = load(root)
    assert train.class_names == ("neg", "pos")
    assert train.ids.tolist() == [0, 1, 2, 3, 4]  # −1 is no label
    out, ids = given_back(root, tmp_path / "out", relabel={3: "pos"}, remove=[1])
    assert ids == [0, 1, 2, 3]
    assert {p.name for p in out.iterdir()} == {p.name for p in root.iterdir()}
    first, second = (ipc.open_stream((out / f"data-0000{i}-of-00002.arrow").read_bytes()).read_all()
                     for i in range(2))  # fmt: skip
    assert first["label"].to_pylist() == [0, 0]
    assert second["label"].to_pylist() == [1, 1, -1]
    assert first.schema.metadata == {b"huggingface": b"{}"}
    info, state = ((out / name).read_text() for name in ("dataset_info.json", "state.json"))
    assert info == (root / "dataset_info.json").read_text()
    assert json.loads(state)["_fingerprint"] != "before"


def test_several_splits_and_damaged_datasets_are_refused(tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "two/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(
        DataError, match=r"it holds train, test\. Name one of them, such as .*train"
    ):
        load(tmp_path / "two")
    saved_dataset(tmp_path / "one", classes=("only",))
    with pytest.raises(DataError, match=r"dataset_info\.json cannot be read"):
        load(tmp_path / "one")
    (tmp_path / "one/state.json").write_text('{"_data_files": []}')
    with pytest.raises(DataError, match="names no files of data"):
        load(tmp_path / "one")


def test_a_class_that_no_sample_has_cannot_be_written():
    with pytest.raises(DataError, match="no sample has c"):
        find_donors(np.array([0, 1]), np.array([0, 2]), ("a", "b", "c"))


def test_json_numbers_and_keys_in_any_order(tmp_path):
    rows = [{"x": i, "y": i * 1.5, "z": {"y": 1}} for i in range(30)]
    path = tmp_path / "a.ndjson"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    chosen = Choices("y", drop=("z",))
    file, _ = given_back(path, tmp_path / "out", relabel={2: 100.25}, chosen=chosen)
    rows[2]["y"] = 100.25
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows


WORDS = st.text("ab\"';,\t\r\n |ü=", max_size=6)


@given(
    rows=st.lists(st.tuples(WORDS, st.sampled_from(["yes", 'n"o', "may;be"])), min_size=4),
    separator=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    all_quoted=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_any_text_is_given_back_as_it_was_read(rows, separator, end, all_quoted, seed):
    rows = [(str(i), word, label) for i, (word, label) in enumerate(rows)]
    rows += [("98", "last", "yes"), ("99", "last", 'n"o')]
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([("id", "x", "y"), *rows])
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tsv" if separator == "\t" else "a.csv")
        path.write_bytes(text.getvalue().encode())
        try:
            of = original(path, Choices("y", "id"))
        except DataError:  # another separator was found, or a line break without quotes
            reject()
        assert [of.class_names[label] for label in of.y] == [row[2] for row in rows]
        keep, new = rng.random(len(rows)) < 0.7, of.y.copy()
        new[rng.random(len(rows)) < 0.3] = of.y[0]
        keep[-2:] = True
        Path(folder, "out").mkdir()
        of.write(Path(folder, "out"), keep, new)
        after = Path(folder, "out", path.name).read_bytes().decode()
    words = [of.class_names[label] for label in new]
    expected = [[*row[:2], label] for row, label, stays in zip(rows, words, keep, strict=True)
                if stays]  # fmt: skip
    read = csv.reader(io.StringIO(after, newline=""), delimiter=separator)
    assert list(read)[1:] == expected


def test_a_row_behind_one_without_a_label_is_the_one_that_goes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,name\n1,,p\n2,a,q\n3,b,r\n4,a,s\n5,b,t\n")
    file, ids = given_back(
        path, tmp_path / "out", relabel={0: "b"}, remove=[1], chosen=Choices("y")
    )
    assert file.read_text() == "x,y,name\n1,,p\n2,b,q\n4,a,s\n5,b,t\n"
    assert ids == [1, 2, 3]


def test_a_cell_that_nobody_decided_about_is_compared():
    before = pa.table({"a": [1.0, float("nan"), None], "b": ["x", "7", "y"], "c": [[1], [2], [3]]})
    assert find_changed_column(before, before) == ""
    assert find_changed_column(before, before.set_column(0, "a", [[1.0, float("nan"), None]])) == ""
    assert find_changed_column(before, before.set_column(0, "a", [[1.0, float("nan"), 2.0]])) == "a"
    moved = before.set_column(0, "a", [[float("nan"), 1.0, None]])
    assert find_changed_column(before, moved) == "a"
    assert find_changed_column(before, before.set_column(1, "b", [["x", "8", "y"]])) == "b"
    whole = pa.table({"b": ["1", "7"]}), pa.table({"b": [1, 7]})  # a word went, digits are left
    assert find_changed_column(*whole) == "" == find_changed_column(*whole[::-1])
    assert find_changed_column(whole[0], pa.table({"b": [7, 1]})) == "b"
    assert find_changed_column(whole[1], pa.table({"b": ["1.0", "7.0"]})) == ""  # other words
    assert find_changed_column(before, before.set_column(0, "a", [[1.0, None, 2.0]])) == "a"
    # Gaps in words, and in a column of another type, may have been filled where nothing changed.
    for gap, filled in ((["x", None], ["x", "y"]), ([1, None], [1.0, 2.0])):
        assert find_changed_column(pa.table({"b": gap}), pa.table({"b": filled})) == ""
    assert find_changed_column(before, before.drop_columns("b")) == "b"
    assert find_changed_column(before, before[:2]) == "a"


def test_data_given_back_are_the_one_file_beside_the_changelog(tmp_path):
    (tmp_path / "b.csv").write_text("x,y\n")
    assert given_back_file(tmp_path) is None  # no changelog: anyone's folder
    for name in (RECORD, TABLE, ".hidden"):
        (tmp_path / name).write_text("")
    assert given_back_file(tmp_path) == tmp_path / "b.csv"
    (tmp_path / "a.csv").write_text("x,y\n")
    assert given_back_file(tmp_path) is None  # which of the two, nobody said
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).unlink()
    assert given_back_file(tmp_path) is None
    (tmp_path / "cats").mkdir()
    assert given_back_file(tmp_path) is None  # a folder of pictures is read as one


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_changelog_is_a_formula(sign):
    row = dict.fromkeys(COLUMNS, f"{sign}1+1")
    text = Changelog((row,), "", "", is_numbered=False, files={}).texts()[TABLE]
    (cells,) = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert cells == [f"'{sign}1+1"] * len(COLUMNS)
