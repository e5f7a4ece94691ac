"""load: built-in names, arrays and Datasets; which task; what is refused."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

import datassay as da
from datassay.data.targets import guess_task
from datassay.errors import DataError

BUILTINS = {
    "digits": ((1, 8, 8), 10, 1797, "image"), "breast_cancer": ((30,), 2, 569, "row"),
    "wine": ((13,), 3, 178, "row"), "iris": ((4,), 3, 150, "row"),
    "diabetes": ((10,), 0, 442, "row"), "moons": ((2,), 2, 1000, "row"),
    "sd2": ((40,), 4, 1000, "row"), "sd3": ((40,), 4, 1000, "row"),
    "routable": ((10,), 4, 1000, "row"),
}  # fmt: skip
X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


class Pairs:
    """The least that a torch Dataset is."""

    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


class Longer(Pairs):
    """One that says it holds a sample more."""

    def __len__(self):
        return len(self.pairs) + 1


@pytest.mark.parametrize("name", BUILTINS)
def test_built_in_sets(name):
    shape, n_classes, n, kind = BUILTINS[name]
    train, val = da.load(name)
    assert train.name == name
    assert train.input_shape == val.input_shape == shape
    assert train.n_classes == val.n_classes == n_classes
    assert (len(train) + len(val), len(val)) == (n, round(0.2 * n))
    assert sorted([*train.ids, *val.ids]) == list(range(n))
    assert train.kind == kind
    assert len(train.feature_names) == (0 if kind == "image" else shape[0])
    assert kind == "row" or (train.x.min(), train.x.max(), train.x.dtype) == (0, 1, np.float32)


def test_loading_imports_no_torch():
    code = "import sys, datassay; datassay.load('iris'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_stay_with_their_ids_through_the_split(seed):
    ids = [f"row {i}" for i in range(20)]
    for part in da.load((X, Y), ids=ids, seed=seed):
        position = np.array([ids.index(i) for i in part.ids])
        assert np.array_equal(part.x, X[position])
        assert np.array_equal(part.y, Y[position])
        assert (np.diff(position) > 0).all()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float16", "float32"),
        ("uint8", "float32"),
        ("bool", "float32"),
        (">f8", "float64"),
        ("float32", "float32"),
        ("float64", "float64"),
    ],
)
def test_number_types(given, kept):
    assert da.load(((X % 7).astype(given), Y))[0].x.dtype == np.dtype(kept)


def test_integers_too_large_for_float32_stay_exact():
    x = 1001 * np.arange(40).reshape(20, 2) + 2**24
    assert np.array_equal(da.load((x, Y, x, Y))[0].x, x)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((4,), "row"),
        ((4, 5), "image"),
        ((1, 4, 5), "image"),
        ((4, 5, 3), "image"),
        ((2, 4, 5), "row"),
        ((1, 1, 4, 5), "row"),
    ],
)
def test_kind_follows_the_shape_and_the_shape_stays(shape, kind):
    x = np.broadcast_to(np.arange(20.0).reshape(20, *[1] * len(shape)), (20, *shape))
    train, _ = da.load((x, Y))
    assert (train.kind, train.input_shape) == (kind, shape)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([10, 9] * 10), ("9", "10")),
        (np.array([1.0, 0.0] * 10), ("0", "1")),
        (np.array([True, False] * 10), ("False", "True")),
        (["cat", "dog"] * 10, ("cat", "dog")),
        (np.array([b"cat", b"dog"] * 10), ("cat", "dog")),
        (np.array(["cat", "dog"] * 10, dtype=object), ("cat", "dog")),
        (Y[:, None], ("0", "1")),
    ],
)
def test_labels_of_any_type_become_indices(labels, names):
    train, _ = da.load((X, labels, X, labels))
    plain = np.array(labels).astype(str).ravel()
    assert train.class_names == names
    assert train.y.dtype == np.int64
    if plain.dtype.kind == "U" and plain[0] in names:
        assert [names[i] for i in train.y] == plain.tolist()


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(20), "classification"),
        (np.arange(21), "regression"),
        (np.arange(210) % 21, "classification"),
        (np.arange(209) % 21, "regression"),
        (np.arange(210) % 21 + 1, "classification"),
        (np.arange(210) % 21 + 2, "regression"),
        (np.arange(210) % 21 * 1.0, "classification"),
        (np.arange(20) / 2, "regression"),
        (np.array([True, False]), "classification"),
        (np.array(["a", "b"]), "classification"),
        (np.ones((20, 2)), "regression"),
    ],
)
def test_the_targets_say_which_task(y, task):
    assert guess_task(y) == task


@pytest.mark.parametrize(
    ("y", "task", "words"),
    [
        (np.arange(60) % 4 * 5, None, "The 4 numbers of the target (0, 5, 10, 15) are read"),
        (np.arange(60) % 4 * 5, "classification", ""), (np.arange(60) % 4 + 1, None, ""),
        (np.array(["No", "yes ", "no", "Yes"] * 15), None, "alone: 'No', 'no', 'Yes', 'yes '."),
    ],
)  # fmt: skip
def test_targets_that_may_be_meant_otherwise_are_named(y, task, words):
    told = da.load((np.random.default_rng(0).normal(size=(60, 2)), y), task=task)[0].warnings
    assert bool(told) == bool(words) and words in " ".join(told)


def test_the_task_given_wins():
    assert not da.load((X, Y), task="regression")[0].is_classification
    assert da.load((X, Y + 0.5), task="classification")[0].class_names == ("0.5", "1.5")


def test_texts_are_weighed_by_training_words_alone():
    texts = ["good film", "bad film"] * 10
    train, val = da.load((texts, Y, ["good unseen", "unseen"], [0, 1]))
    assert train.kind == "text"
    assert train.feature_names == ("bad", "film", "good")
    assert train.texts is not None and train.texts.tolist() == texts
    assert np.allclose(np.linalg.norm(train.x, axis=1), 1)
    assert np.allclose(val.x, [[0, 0, 1], [0, 0, 0]])


def test_torch_datasets_and_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X, requires_grad=True), torch.tensor(Y)
    dataset = torch.utils.data.TensorDataset(x, y)
    for source in (dataset, (x, y), list(dataset)):
        train, val = da.load(source)
        assert np.array_equal(train.x, X[train.ids])
        assert np.array_equal(val.y, Y[val.ids])
    train, val = da.load((dataset, torch.utils.data.Subset(dataset, [3, 4])), ids=np.arange(20) + 7)
    assert val.x.tolist() == X[3:5].tolist()
    assert train.ids.tolist() == list(range(7, 27))


def test_a_dataset_of_pillow_images():
    pairs = [(Image.new("RGB", (5, 4), (255, i, 51)), i % 2) for i in range(10)]
    train, _ = da.load(Pairs(pairs))
    assert train.input_shape == (3, 4, 5)
    assert np.allclose(train.x[:, :, 0, 0], [[1, i / 255, 0.2] for i in train.ids])


NAN, INF = np.where(X == 6, np.nan, X), np.where(X == 6, np.inf, X)
HUGE = sparse.csr_matrix((10**7, 10**7))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("digitz", {}, "built-in name .digits, breast_cancer.* got 'digitz'"),
        (("digits"), {"task": "regression"}, "digits is a classification set"),
        ("digits", {"target": "y"}, "columns of a table"),
        ((X, Y), {"target": "y"}, "columns of a table"),
        ((X, Y), {"ids": "id"}, "columns of a table"),
        ((X, Y), {"ids": np.arange(20) + 0.5}, "ids must be .* float64"),
        ((X, Y), {"ids": np.arange(3)}, "ids must have one entry per sample; got 3 for 20"),
        ((X, Y), {"ids": ["a", 1] * 10}, "a mix of int, str"),
        ((X, Y), {"ids": ["k" * 1001, *map(str, range(19))]}, "1000 characters; one has 1,001"),
        ((X, Y), {"ids": np.arange(20, dtype=np.uint64) + 2**63}, r"must lie below 2\^63"),
        ((X, Y), {"ids": [2**70, *range(19)]}, "of at most 64 bits; got 1180591620717411303424"),
        ((X, Y), {"ids": [-1, 2**63, *range(18)]}, "strings or integers; got float64"),
        ((X, Y), {"held_out": []}, "at least 1 validation sample is needed; got 0"),
        ((X, Y), {"held_out": [3, 20, 21]}, "2 are none, the first 20"),
        ((X, Y, X, Y), {"held_out": [3]}, "a validation part of its own"),
        ((X * 0 + 1, Y), {}, "inputs must differ; all 16 samples are the same"),
        ("~nouser-at-all/x.csv", {}, "names a home folder that is not known"),
        ((X, Y), {"task": "ranking"}, "task must be .* got 'ranking'"),
        ((X, Y), {"val_fraction": -0.1}, "val_fraction must be at least 0"),
        ((X, Y), {"val_fraction": 1.0}, "val_fraction must be at least 0.*below 1"),
        ((X, Y), {"val_fraction": float("nan")}, "val_fraction must be at least 0.*below 1"),
        ((X, Y), {"seed": -1}, "seed must be an integer"),
        ((np.ma.masked_greater(X, 3), Y), {}, "x must have no missing values"),
        ((["a text"] * 20, Y, X, Y), {}, "both be numbers or both be texts"),
        ("", {}, "existing path; got ''"),
        ("a" * 5000, {}, "existing path"),
        ((NAN, Y), {}, "x must be finite; 1 of 20 samples .* first at position 3"),
        ((X, NAN[:, 0]), {}, "y must be finite; 1 of 20 .* position 3"),
        ((X, Y, X, INF[:, 0]), {}, "y_val must be finite"),
        ((X, Y * 0), {}, "one class only, 0"),
        ((X, 3.5 + Y * 0), {"task": "regression"}, r"differ; all \d+ in y are 3\.5"),
        ((X[:1], Y[:1]), {"task": "regression"}, "at least 2 training samples"),
        ((X[:0], Y[:0]), {}, "y must be .* got shape"),
        ((X, Y[:5]), {}, "y must have one entry per sample; got 5 for 20"),
        ((X, Y, X[:, :1], Y), {}, r"must have one shape; got x \(2,\) and \(1,\)"),
        ((X, X, X, Y * 1.0), {}, r"must have one shape; .* y \(2,\) and \(\)"),
        ((X, Y, X, Y + 1), {}, "labels in y_val must lie among the 2 classes .* got 2"),
        ((X, Y.astype(str), X, Y), {}, "y_val must name its classes as y does"),
        ((X, np.eye(2)[Y]), {}, "one-hot"),
        ((X, np.eye(2)[Y]), {"task": "classification"}, "one label per sample"),
        ((X, Y.astype(str)), {"task": "regression"}, "regression needs numbers"),
        ((X, Y.astype(complex)), {}, "y must hold numbers"),
        ((X.astype(complex), Y), {}, "x must hold numbers"),
        ((X.astype(str), Y), {}, "x must hold numbers"),
        ((X[:, 0], Y), {}, r"x\.reshape"),
        ((X[:, :0], Y), {}, "at least one feature"),
        (([[1], [2, 3]], Y), {}, "rows all have one shape"),
        ((X, [None, "a"] * 10), {}, "mix of NoneType, str"),
        ((X, [b"\xff", b"a"] * 10), {}, "UTF-8"),
        ((HUGE, Y), {}, "x as a full array would take"),
        ((X, Y, X), {}, "got 3"),
        (X, {}, "got a ndarray"),
        (7, {}, "got a int"),
        ({"x": X}, {}, "got a dict"),
        (Pairs([]), {}, "got none"),
        (Pairs([(X[0], 1, 2)] * 9), {}, "pairs .* item 0 is a tuple of 3"),
        (Pairs([X[0]] * 9), {}, "pairs .* item 0 is a ndarray"),
        (Pairs(None), {}, "its length raised TypeError: .* has no len"),
        (Longer([(X[0], 0), (X[1], 1)]), {}, "item 2 raised IndexError: list index"),
        (Pairs([({"a": 1}, 0)] * 9), {}, "mix of dict"),
        (Pairs([(X[0], 0), (X[0, :1], 1)]), {}, r"item 1 has \(1,\)"),
        ((["a b", "c"] * 10, Y), {}, "words of 2 letters"),
    ],
)
def test_what_is_refused(source, options, message):
    with pytest.raises(DataError, match=message):
        da.load(source, **options)


def test_unknown_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    assert da.load("iris")[0].n_classes == 3  # the built-in name wins
    with pytest.raises(DataError, match="holds none of these"):
        da.load("./iris")
    with pytest.raises(DataError, match=r"must end in .*\.csv, .*\.npz, \.parquet; got notes\.txt"):
        da.load("notes.txt")
    with pytest.raises(DataError, match="existing path"):
        da.load("absent.csv", target="y")


@pytest.mark.parametrize("kind", [bool, np.int64, float])
def test_several_labels_a_sample_are_0_or_1(kind):
    y = np.random.default_rng(0).integers(0, 2, (len(X), 3)).astype(kind)
    train, val = da.load((X, y))
    assert train.has_several_labels and not train.is_classification
    assert train.y.dtype == np.float64 and set(np.unique(train.y)) == {0, 1}
    (reported,) = train.warnings
    assert "Each of the 3 targets is 0 or 1" in reported
    assert val.warnings == train.warnings
    with pytest.raises(DataError, match="several labels, each 0 or 1, leave task out"):
        da.load((X, y), task="classification")


def test_whole_numbers_in_several_columns_are_quantities_and_told():
    y = np.random.default_rng(0).integers(0, 5, (len(X), 2))
    train, _ = da.load((X, y))
    assert not train.has_several_labels
    assert "whole numbers in 2 columns, fitted as 2 quantities" in train.warnings[0]
    assert da.load((X, y + 0.5))[0].warnings == ()
    assert da.load((X, Y))[0].warnings == ()


TABLE = "key,age,city,note,answer\n"
ROWS = [f"a{i},{i % 50 + 20},{('Rome', 'Oslo', 'Bern')[i % 3]},{i % 7}.5,{('no', 'yes')[i % 2]}"
        for i in range(40)]  # fmt: skip


def test_validation_samples_of_a_table_of_their_own_are_treated_as_the_others(tmp_path):
    whole, queries = tmp_path / "train.csv", tmp_path / "val.csv"
    whole.write_text(TABLE + "\n".join(ROWS))
    queries.write_text(TABLE + "\n".join([ROWS[7], "q,30,Paris,0.5,no"]))
    train, val = da.load(whole, ids="key", target="answer", val=queries)
    assert len(train) == 40 and val.ids.tolist() == ["a7", "q"] and not val.split_off
    assert val.class_names == train.class_names and val.y.tolist() == [1, 0]
    assert np.array_equal(val.x[0], train.x[7])
    cities = [i for i, name in enumerate(train.feature_names) if name.startswith("city")]
    assert len(cities) == 3 and not val.x[1, cities].any()  # a city that was not there
    assert val.rows.column_names == train.rows.column_names


def test_one_validation_sample_is_enough(tmp_path):
    whole, one = tmp_path / "train.csv", tmp_path / "one.csv"
    whole.write_text(TABLE + "\n".join(ROWS))
    one.write_text(TABLE + ROWS[3])
    train, val = da.load(whole, target="answer", val=one)
    assert np.array_equal(val.x, train.x[3:4])
    np.savez(tmp_path / "one.npz", x=X[:1], y=Y[:1])
    np.savez(tmp_path / "all.npz", x=X, y=Y)
    train, val = da.load(tmp_path / "all.npz", val=tmp_path / "one.npz")
    assert (len(train), len(val)) == (20, 1)


def test_validation_samples_of_another_kind_are_refused(tmp_path):
    whole = tmp_path / "train.csv"
    whole.write_text(TABLE + "\n".join(ROWS))
    np.savez(tmp_path / "pair.npz", x=X, y=Y, x_val=X, y_val=Y)
    np.savez(tmp_path / "named.npz", x=X, y=Y, class_names=["a", "b"])
    (tmp_path / "less.csv").write_text("key,age,answer\nb,3,no")
    (tmp_path / "none.csv").write_text(TABLE)
    (tmp_path / "other.csv").write_text(TABLE + ROWS[0].replace("no", "perhaps"))
    for val, reported in (
        (tmp_path / "pair.npz", "val must be a table as data is"),
        (
            tmp_path / "less.csv",
            "frame must have the columns of the training data; it has no note, city",
        ),
        (tmp_path / "none.csv", "it holds column names alone"),
        (tmp_path / "other.csv", "labels in y_val must lie among the 2 classes"),
        (tmp_path / "away.csv", "an existing path"),
    ):
        with pytest.raises(DataError, match=reported):
            da.load(whole, ids="key", target="answer", val=val)
    for val, reported in (
        (tmp_path / "pair.npz", "it is a training and a validation part"),
        (whole, "it is a table"),
        (tmp_path / "named.npz", "must have the class names of data"),
    ):
        with pytest.raises(DataError, match=reported):
            da.load((X, Y), val=val)
