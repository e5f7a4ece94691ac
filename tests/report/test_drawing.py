"""How a row of a table looks on a card."""

import numpy as np
import pyarrow as pa

from datassay.data.samples import Column, SampleSet
from datassay.report.drawing import draw


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
