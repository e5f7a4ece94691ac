"""Texts of a table are compared as texts: near copies are found, and no others."""

import numpy as np
import pyarrow as pa
import pytest

from datassay.data.samples import Column, SampleSet
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.texts import normalize_texts, text_coordinates

RNG = np.random.default_rng(0)
WORDS = np.array(["".join(RNG.choice(list("abcdeilmnorstu"), 6)) for _ in range(60)])
N, M = 400, 8


def one_word(text):
    words = text.split()
    return " ".join([*words[:4], "another", *words[5:]])


EDITS = {
    "case": str.upper,
    "spaces": lambda text: f"  {text.replace(' ', '  ')} ",
    "points": lambda text: f"{text}!!",
    "cut": lambda text: text[: len(text) * 4 // 5],
    "word": one_word,
}


def with_copies(n_words, **columns):
    """Return rows, of which the last are changed copies of the first, as samples."""
    texts = [" ".join(RNG.choice(WORDS, n_words)) for _ in range(N)]
    texts += [edit(t) for i, edit in enumerate(EDITS.values()) for t in texts[M * i : M * i + M]]
    others = {name: [*values, *values[: M * len(EDITS)]] for name, values in columns.items()}
    rows, n = pa.table({"text": texts} | others), len(texts)
    read = (Column("text", "text"), *(Column(name, "number") for name in others))
    return SampleSet(
        np.zeros((n, 1)), np.arange(n) % 2, np.arange(n), ("a", "b"), rows=rows, columns=read
    )


@pytest.mark.parametrize("n_words", [8, 30])
@pytest.mark.parametrize("n_columns", [0, 1, 3])
def test_near_copies_of_texts_are_found_and_no_others(n_words, n_columns):
    numbers = {f"c{j}": RNG.normal(size=N).tolist() for j in range(n_columns)}
    found = data_issues(with_copies(n_words, **numbers))
    n_copies = M * len(EDITS)
    pairs = {frozenset(map(int, pair.ids)) for pair in found.pairs}
    planted = {frozenset((i, N + i)) for i in range(n_copies)}
    assert pairs <= planted and len(pairs) >= 0.9 * len(planted)
    assert (found.duplicate_group < 0).all()  # they are no equal rows
    assert (found.nearest[N:] == np.arange(n_copies)).mean() >= 0.9
    assert found.is_copy.sum() == sum(i % 2 == (N + i) % 2 for i in map(min, pairs))


def test_equal_texts_beside_another_number_are_no_copies():
    samples = with_copies(8, c=RNG.normal(size=N).tolist())
    assert samples.rows is not None
    rows = samples.rows.set_column(1, "c", pa.array(RNG.normal(size=len(samples))))
    other = SampleSet(samples.x, samples.y, samples.ids, ("a", "b"), rows=rows,
                      columns=samples.columns)  # fmt: skip
    assert data_issues(other).pairs == ()


def test_texts_of_one_template_are_no_copies():
    texts = [f"Your order number {i} has left the house on its way to you" for i in range(200)]
    rows = pa.table({"text": texts})
    given = SampleSet(np.zeros((200, 1)), np.arange(200) % 2, np.arange(200), ("a", "b"),
                      rows=rows, columns=(Column("text", "text"),))  # fmt: skip
    assert data_issues(given).pairs == ()


def test_a_text_lies_near_what_shares_its_words():
    texts = ["a cold wet day", "A cold, wet  day!", "a cold wet night", "ugly hum of bees"]
    places = text_coordinates(normalize_texts(texts))
    near, far = (np.linalg.norm(places[0] - places[i]) for i in (2, 3))
    assert np.array_equal(places[0], places[1]) and 0.3 < near < 0.8 < far < 1.1


@pytest.mark.parametrize("texts", [["one text alone"], ["a b c", "A  b, c"], ["", None, "", "x"]])
def test_few_short_and_empty_texts_are_compared_too(texts):
    n = len(texts)
    given = SampleSet(np.zeros((n, 1)), np.arange(n) % 2, np.arange(n), ("a", "b"),
                      rows=pa.table({"text": texts}),
                      columns=(Column("text", "text"),))  # fmt: skip
    assert len(data_issues(given).pairs) == (n == 2)
