"""Frames: their index names the rows, so that results join the right ones."""

import io
import json
import types

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import datassay as da
from datassay.data.load import existing_format
from datassay.data.memory.convert import as_samples
from datassay.data.tables.read import Choices
from datassay.errors import DataError
from datassay.score import SampleInformation
from helpers.arrow import needs_views

N = 60
RNG = np.random.default_rng(0)
COLUMNS = {
    "mark": np.arange(N) + 0.5,  # says which row a row is
    "kind": RNG.choice(["u", "v"], N),
    "y": RNG.choice(["no", "yes"], N),
}


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def frame(pd):
    return pd.DataFrame(COLUMNS)


def loaded(data, **settings):
    """All samples jointly result: each one's score is its mark."""
    sets = [s for s in da.load(data, **settings) if s is not None]
    scores = [SampleInformation(s.x[:, 0].astype(float), s.ids, "functional", 1.0) for s in sets]
    return [s.to_pandas() for s in scores]


def strings(frame):
    return frame.set_axis([f"row {i}" for i in range(N)], axis=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f,
        lambda f: f.drop(index=[0, 7, 9]),
        lambda f: f.sample(frac=1, random_state=0),
        lambda f: f.iloc[20:],
        lambda f: f.iloc[::-1],
        strings,
        lambda f: strings(f).sample(frac=0.5, random_state=1),
        lambda f: f.set_axis(f.index * 2 - 7, axis=0).rename_axis("key"),
        lambda f: f.rename_axis("mark"),
        lambda f: f.set_axis(f.index.astype("int8") * 2, axis=0).convert_dtypes(),
    ],
)
def test_scores_join_the_rows_of_a_pandas_frame(pd, frame, change):
    frame = change(frame)
    for joined in (
        pd.concat(loaded(frame, target="y")),
        pd.concat(loaded((frame.drop(columns="y"), frame["y"]))),
    ):
        assert (frame.join(joined, how="inner")["information"] == frame["mark"]).all()
        assert sorted(joined.index) == sorted(frame.index)


def test_row_labels_that_no_file_holds_are_refused(frame):
    with pytest.raises(DataError, match=r"must lie below 2\^63, .* Pass them as strings"):
        da.load(frame.set_axis(frame.index.to_numpy().astype("u8") + 2**63, axis=0), target="y")


def test_a_file_that_pandas_wrote_keeps_its_labels(frame, tmp_path):
    for i, part in enumerate([frame.iloc[20:], frame.drop(index=3), strings(frame)]):
        part.to_parquet(tmp_path / f"{i}.parquet")
        parts = loaded(tmp_path / f"{i}.parquet", target="y")
        assert {k for p in parts for k in p.index} == set(part.index)
    doubled = frame.set_axis(np.arange(N) // 2, axis=0)
    doubled.to_parquet(tmp_path / "doubled.parquet")
    train, _ = da.load(tmp_path / "doubled.parquet", target="y")
    assert set(train.ids) <= set(range(N))
    assert {c.name: c.read_as for c in train.columns}["__index_level_0__"] == "left out"


def test_a_range_in_a_file_need_not_be_true():
    table = pa.table({"u": COLUMNS["mark"], "y": COLUMNS["y"]})
    for stop, step in ((10**30, 1), (10**12, 1), (5, 0), ("9", 1), (N, 2)):
        index = {"index_columns": [{"kind": "range", "start": 1, "stop": stop, "step": step}]}
        train, _ = da.load(table.replace_schema_metadata({"pandas": json.dumps(index)}))
        assert train.ids.max() < N


def test_several_levels_and_dates_name_rows_by_their_words(pd, frame):
    levels = pd.MultiIndex.from_product([["a", "b"], range(N // 2)])
    assert da.load(frame.set_axis(levels, axis=0))[0].ids[0].startswith(("a, ", "b, "))
    dates = pd.date_range("2020-01-01", periods=N)
    assert da.load(frame.set_axis(dates, axis=0))[0].ids[0].startswith("2020-")


def test_what_would_join_wrong_rows_is_refused(pd, frame):
    doubled = pd.concat([frame, frame])
    for data in (doubled, (doubled.drop(columns="y"), doubled["y"])):
        with pytest.raises(DataError, match=r"must not repeat; 0 occurs 2 times\. Pass"):
            da.load(data)
    assert len(da.load(doubled.assign(key=range(2 * N)), target="y", ids="key")[0]) > N
    with pytest.raises(DataError, match="must have the same index"):
        da.load((frame[["mark"]], frame["y"].sample(frac=1, random_state=0)))
    assert len(da.load((frame[["mark"]], frame["y"].tolist()))[0])
    with pytest.raises(DataError, match="y must have one entry per sample; got 5 for 60"):
        da.load((frame[["mark"]], frame["y"].to_numpy()[:5]))


def test_a_frame_of_several_targets_keeps_its_labels(frame):
    y = frame.assign(z=frame["mark"] ** 2)[["mark", "z"]]
    odd = frame.index * 2 + 1
    train, _ = da.load((frame[["mark"]].set_axis(odd, axis=0), y.set_axis(odd, axis=0)))
    assert train.y.shape[1] == 2 and set(train.ids) <= set(odd)


def test_public_functions_take_frames(frame):
    table = as_samples(strings(frame), "train")
    pair = as_samples((frame.drop(columns="y"), frame["y"]), "train")
    assert table.class_names == pair.class_names == ("no", "yes")
    assert table.ids[3] == "row 3"
    huge, _ = da.load(frame.assign(mark=[10**30, *range(N - 1)]), target="y", val_fraction=0)
    assert huge.x[:, 0].max() == 1e30 and huge.x[:, 0].min() == 0
    np.testing.assert_array_equal(table.x, pair.x)
    ids = da.partition(da.build_model("linear", table), strings(frame), n_blocks=1, restarts=1).ids
    assert list(ids) == list(strings(frame).index)


@needs_views
@pytest.mark.parametrize("words", [None, "Categorical", "String"])
def test_polars_counts_its_rows_or_names_a_column(words):
    table = pl.DataFrame(COLUMNS).with_columns(pl.col("kind").cast(getattr(pl, words or "String")))
    rows = {i: mark for p in loaded(table, target="y") for i, mark in p["information"].items()}
    assert rows == dict(enumerate(COLUMNS["mark"]))
    named = table.with_columns(pl.col("mark").cast(pl.String).alias("key")).sample(
        fraction=1, shuffle=True, seed=0
    )
    for part in loaded(named, target="y", ids="key"):
        assert [float(i) for i in part.index] == list(part["information"])
    assert len(da.load((table.drop("y"), table["y"]))[0])


@needs_views
def test_enums_of_polars_keep_their_order_and_wide_integers_are_numbers():
    table = pl.DataFrame(COLUMNS).with_columns(pl.col("y").cast(pl.Enum(["yes", "no"])))
    wide = pl.Series("wide", [7 * i for i in range(N)]).cast(pl.Int128)
    train, _ = da.load(table.with_columns(wide).select("mark", "wide", "y"), target="y")
    assert train.class_names == ("yes", "no") and train.feature_names == ("mark", "wide")
    assert train.x[:, 1].tolist() == [7 * i for i in range(N)]


@needs_views
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_files_of_polars_are_read(tmp_path, suffix):
    path, table = tmp_path / f"a.{suffix}", pl.DataFrame(COLUMNS)
    (table.write_ipc if suffix == "arrow" else table.write_parquet)(path)
    train, _ = da.load(path, target="y")
    assert train.class_names == ("no", "yes") and train.rows["kind"].to_pylist()[:1] in (
        ["u"],
        ["v"],
    )


def test_strings_may_be_views():
    """As polars hands them on by Arrow's protocol."""
    if not hasattr(pa, "string_view"):
        pytest.skip("this Arrow has no views")
    table = pa.table({
        "u": COLUMNS["mark"],
        "kind": pa.array(COLUMNS["kind"]).cast(pa.string_view()),
        "y": pa.array(COLUMNS["y"]).cast(pa.string_view()),
    })
    train, _ = da.load(table)
    assert dict(zip(train.ids, train.x[:, 0], strict=True)) == dict(enumerate(COLUMNS["mark"]))
    assert set(train.rows["kind"].to_pylist()) == {"u", "v"}


def dataset(table, **features):
    """As Hugging Face's datasets hand on a table and its features."""
    plain = types.SimpleNamespace()
    formatted = type("Formatted", (), {"__getitem__": lambda self, rows: table})()
    return types.SimpleNamespace(
        features={name: features.get(name, plain) for name in table.column_names},
        with_format=lambda kind: formatted if kind == "arrow" else None,
    )


def image_table(n, seed=0):
    """Squares of noise with their class, one by its path alone."""
    rng, images = np.random.default_rng(seed), []
    for i in range(n):
        stream = io.BytesIO()
        pixels = rng.integers(0, 128, (9, 7, 3), dtype=np.uint8) + 100 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(stream, "PNG")
        images.append({"bytes": stream.getvalue(), "path": None})
    return pa.table({"image": images, "label": [i % 2 for i in range(n)], "note": ["x"] * n})


@pytest.mark.parametrize("has_parts", [True, False])
def test_images_of_a_dataset_of_the_hub(tmp_path, has_parts):
    table, held_out = image_table(20), image_table(6, 1)
    (tmp_path / "one.png").write_bytes(table["image"][4].as_py()["bytes"])
    images = table["image"].to_pylist()
    images[4] = {"bytes": None, "path": str(tmp_path / "one.png")}
    table = table.set_column(0, "image", pa.array(images))
    names = types.SimpleNamespace(names=["dark", "light"])
    data = dataset(table, label=names)
    if has_parts:
        data = {"test": dataset(held_out, label=names), "train": data}
    train, val = da.load(data, target="label")
    assert (train.kind, train.input_shape, train.class_names) == (
        "image",
        (3, 9, 7),
        ("dark", "light"),
    )
    assert train.ids.tolist() == list(range(20))
    assert np.array_equal(train.y, train.x.mean((1, 2, 3)) > 0.45)
    assert [c.name for c in train.columns if c.read_as == "left out"] == ["note"]
    assert (val is not None) == has_parts and len(val or range(6)) == 6


def test_images_in_a_file_of_rows(tmp_path):
    pq.write_table(image_table(12), tmp_path / "images.parquet")
    train, _ = da.load(tmp_path / "images.parquet", target="label")
    assert train.input_shape == (3, 9, 7) and len(train) == 12


def test_a_column_that_names_files_of_images(tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    folder.mkdir()
    names = [f"{i}.png" for i in range(12)]
    for i, name in enumerate(names):
        Image.fromarray(np.full((4, 5), 20 * i, np.uint8)).save(folder / name)
    path = tmp_path / "photos.csv"
    lines = [f"photos/{name},{'ab'[i % 2]}" for i, name in enumerate(names)]
    path.write_text("file,label\n" + "\n".join(lines))
    train, _ = da.load(path)
    assert train.input_shape == (1, 4, 5) and train.ids.tolist() == [f"photos/{n}" for n in names]
    stored = existing_format(path)[1].original(
        path, Choices("label", finds_ids=True), may_link=False
    )
    assert stored.ids.tolist() == train.ids.tolist()
    monkeypatch.chdir(tmp_path)
    frame = pa.table({"file": [f"photos/{n}" for n in names], "label": ["a", "b"] * 6})
    assert np.array_equal(da.load(frame, ids="file")[0].x, train.x)
    numbered = frame.append_column("size", pa.array(np.arange(12) + 0.5))
    measured, _ = da.load(numbered)
    assert measured.feature_names == ("size",)
    assert "'file' names images, which are not read" in measured.warnings[0]
    assert np.array_equal(da.load(numbered, drop="size")[0].x, train.x)
    (folder / "3.png").unlink()
    with pytest.raises(DataError, match=r"row 3, .*, names 'photos/3.png', which is not there"):
        da.load(path)


def test_parts_without_one_for_training_are_named():
    parts = {"de": dataset(image_table(4)), "en": dataset(image_table(4))}
    with pytest.raises(DataError, match=r"a part called train; it has de, en. Pass one"):
        da.load(parts)


def test_a_dataset_of_the_hub_is_read_by_the_names_of_its_labels():
    codes = [-1, *(i % 2 for i in range(1, N))]
    table = pa.table({"mark": COLUMNS["mark"], "y": codes})
    names = types.SimpleNamespace(names=["neg", "pos"])

    class Formatted:
        def __getitem__(self, rows):
            return table

    whole = types.SimpleNamespace(
        features={"mark": types.SimpleNamespace(), "y": names},
        with_format=lambda kind: Formatted() if kind == "arrow" else None,
    )
    train, _ = da.load(whole, target="y")
    assert train.class_names == ("neg", "pos")
    assert len(train) == N - 1  # one has no label
    np.testing.assert_array_equal(train.y, codes[1:])
