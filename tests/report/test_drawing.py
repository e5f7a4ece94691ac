"""How a row of a table looks on a card."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datassay.data.samples import Column, SampleSet
from datassay.report.drawing import draw
from datassay.report.wording import quantity
from datassay.score.checks import codes, columns
from datassay.score.checks.codes import row_codes as coded
from datassay.score.checks.columns import columns_first


def test_cards_leave_out_the_columns_that_were_left_out():
    rows = pa.table({"name": [f"row {i}" for i in range(5)], "size": [1.0, 2.0, 2.5, 3.0, 90.0]})
    columns = (Column("name", "left out", note="ids"), Column("size", "number"))
    x = np.asarray(rows["size"])[:, None]
    samples = SampleSet(x, x[:, 0], np.arange(5), rows=rows, columns=columns)
    (card,) = draw(samples, np.array([4]))
    assert card.values == (("size", "90"),)


def test_a_missing_value_is_said_to_be_missing():
    rows = pa.table({"a": pa.array([1.0, None, 2.0, 3.0])})
    y = np.arange(4.0)
    samples = SampleSet(y[:, None], y, np.arange(4), rows=rows)
    (card,) = draw(samples, np.array([1]))
    assert card.values == (("a", "missing"),)


@pytest.mark.parametrize("length", [20, 2000])
def test_a_short_text_stands_among_the_columns_and_a_long_one_alone(length):
    rows = pa.table({
        "note": [f"{i} " + "a" * length for i in range(4)],
        "age": [1.0, 2.0, 3.0, 9.0],
    })
    columns = (Column("note", "text"), Column("age", "number"))
    x, y, texts = np.asarray(rows["age"])[:, None], np.array([0, 1, 0, 1]), np.array(rows["note"])
    samples = SampleSet(
        x, y, np.arange(4), ("no", "yes"), "text", texts=texts, rows=rows, columns=columns
    )
    (card,) = draw(samples, np.array([3]))
    assert (("age", "9") in card.values) == (length == 20) == (not card.text)
    (alone,) = draw(replace(samples, columns=columns[:1]), np.array([3]))
    assert alone.text.startswith("3 a") and not alone.values


def test_large_quantities_are_whole_numbers():
    assert [quantity(v) for v in (12.345, 9999.7, -12345.6)] == ["12.35", "10000", "-12346"]


def test_what_rows_are_drawn_and_ordered_by_is_computed_once(monkeypatch):
    rows = pa.table({"size": [1.0, 2.0, 2.5, 3.0, 90.0]})
    x = np.asarray(rows["size"])[:, None]
    samples = SampleSet(x, x[:, 0], np.arange(5), rows=rows, columns=(Column("size", "number"),))
    tables = []
    for module in (codes, columns):
        monkeypatch.setattr(module, "row_codes", lambda t: tables.append(t) or coded(t))
    pairs = [(draw(samples, np.array([4])), columns_first(samples)) for _ in range(2)]
    assert pairs[0] == pairs[1]
    assert len(tables) == 2  # the drawing's and the order's
    draw(replace(samples, rows=rows.slice(0)), np.array([4]))
    assert len(tables) == 3
