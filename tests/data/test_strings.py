"""Strings take their own bytes; what no file can hold is refused before anything is computed."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import datassay as da
from datassay.data.strings import Texts, as_arrow
from datassay.errors import DataError

X, Y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
HALF = "a\ud800"


def test_texts_are_indexed_as_an_array_is():
    words = ["one", "zwei 🙂", "", "four"]
    texts = Texts(as_arrow(np.array(words, dtype=object), "x"))
    array = np.array(words, dtype=object)
    assert texts[1] == "zwei 🙂" and texts[-1] == "four" and len(texts) == 4
    for index in ([2, 0], np.array([3, 3]), array != "one", slice(1, 3)):
        assert texts[index].tolist() == array[index].tolist()
    assert np.array_equal(texts[[1, 2]][[0]], ["zwei 🙂"])
    assert pickle.loads(pickle.dumps(texts[[3]])).tolist() == ["four"]


def test_peak_memory_of_a_column_with_one_long_string(tmp_path):
    rows = [f"word{i % 50} other," + "pq"[i % 2] for i in range(3000)]
    text = "t,y\n" + "\n".join(rows) + "\nlong" + "g" * 10**5 + ",p\n"
    (tmp_path / "t.csv").write_text(text)
    script = (
        "import resource, datassay as da\n"
        "load = lambda: da.load({path!r})\n"
        "da.load((['aa word', 'bb word'] * 20, [0, 1] * 20))\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); load(); print(peak() - before)\n"
    )
    script = script.format(path=str(tmp_path / "t.csv"))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # As one width for all, 3,000 × 100 KB × 4 bytes: 1.2 GB.
    assert int(run.stdout) < 200_000  # KiB


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ((X, Y), {"ids": [f"{i}{HALF}" for i in range(20)]}),
        ((X, Y), {"ids": np.array([f"{i}{HALF}" for i in range(20)])}),
        ((X, Y), {"source": [HALF] * 20}),
        ((X, np.array([HALF, "b"])[Y]), {}),
        (([HALF + " word", "other word"] * 10, Y), {}),
    ],
)
def test_half_a_surrogate_pair_is_refused_at_loading(data, options):
    with pytest.raises(DataError, match=r"UTF-8 can hold; 'a?.*\\ud800.*' holds half"):
        da.load(data, **options)


def test_names_that_no_file_can_hold():
    samples = da.load((X, Y))[0]
    for changes in (
        {"name": HALF},
        {"class_names": (HALF, "b")},
        {"feature_names": (HALF, "b")},
        {"ids": np.array([HALF, *map(str, range(len(samples) - 1))])},
    ):
        fields = {"x": samples.x, "y": samples.y, "ids": samples.ids, "class_names": ("a", "b")}
        with pytest.raises(DataError, match="UTF-8"):
            da.SampleSet(**(fields | changes))
    with pytest.raises(DataError, match="class names must have at most 1000 characters"):
        da.load((X, np.array(["a" * 2000, "b"])[Y]))


def test_unsigned_and_negative_ids_are_kept():
    assert da.load((X, Y), ids=np.arange(20, dtype=np.uint64))[0].ids.dtype == np.int64
    assert da.load((X, Y), ids=-np.arange(20))[0].ids.max() <= 0


def test_which_rows_are_held_out_follows_the_ids_not_their_order():
    ids = np.array([f"k{i:02}" for i in range(20)])
    order = np.random.default_rng(1).permutation(20)
    one, other = da.load((X, Y), ids=ids)[1], da.load((X[order], Y[order]), ids=ids[order])[1]
    assert set(one.ids) == set(other.ids)


def test_words_and_weights_do_not_depend_on_the_order_of_the_rows():
    texts = [f"word{i % 7} word{i % 3} common" for i in range(30)]
    order = np.random.default_rng(1).permutation(30)
    y = np.arange(30) % 2
    one = da.load((texts, y, texts, y))[0]
    other = da.load(([texts[i] for i in order], y[order], texts, y))[0]
    assert one.feature_names == other.feature_names
    assert np.array_equal(one.x[order], other.x)


def test_weights_are_those_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [f"Word{i % 7}, WORD{i % 3}; größe {'x' * (i % 4)}" for i in range(30)]
    train, _ = da.load((texts, np.arange(30) % 2, texts, np.arange(30) % 2))
    vectorizer = TfidfVectorizer()
    weights = vectorizer.fit_transform(texts).toarray().astype(np.float32)
    assert train.feature_names == tuple(vectorizer.get_feature_names_out())
    assert np.array_equal(train.x, weights)
