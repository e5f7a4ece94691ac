"""Which columns of a table tell most of the target."""

import numpy as np
import pyarrow as pa

from datassay.score.checks.columns import by_association


def test_columns_are_ordered_by_what_they_tell():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    rows = pa.table({
        "noise": rng.normal(size=600),
        "weak": y + rng.normal(0, 2, 600),
        "word": np.array(["no", "yes"])[y],
        "key": np.arange(600).astype(str),
        "strong": y + rng.normal(0, 0.3, 600),
    })
    order = by_association(rows, y)
    assert order[:3] == ["word", "strong", "weak"]
    assert set(order) == set(rows.column_names)


def test_a_quantity_is_told_by_what_bends_it_too():
    rng = np.random.default_rng(1)
    a = rng.normal(size=400)
    rows = pa.table({"noise": rng.normal(size=400), "a": pa.array(a, mask=rng.random(400) < 0.1)})
    assert by_association(rows, (a**2)[:, None]) == ["a", "noise"]


def test_nothing_to_order_is_given_back():
    assert by_association(pa.table({}), np.arange(3)) == []
    assert by_association(pa.table({"a": pa.array([], pa.float64())}), np.arange(0)) == ["a"]
