"""How the columns were read: a command's first line, a table on the page, all in the summary."""

import numpy as np
import pytest

from datassay.data.samples import Column
from datassay.report.columns import MOST_ROWS, columns_section, first_line
from datassay.report.html import render
from datassay.report.page import Page

COLUMNS = (
    Column("size", "number"),
    Column("zip", "category", 3, note="digits with leading zeros are a code"),
    Column("key", "ids"),
    Column("y", "target", 2),
)


def page(columns):
    return Page(brand="b", title="t", lead="l", facts={}, columns=columns)


@pytest.mark.parametrize(
    ("columns", "y", "classes", "line"),
    [
        (COLUMNS, [0, 1, 1, 1], ("no", "yes"), "4 rows, target y (2 classes, 25 % no), ids key"),
        ((), [0, 1, 2, 1], tuple("abc"), "4 samples, 3 classes"),
        (COLUMNS, [0.5, 2, 3, 4], (), "4 rows, target y (0.5 to 4), ids key"),
        (
            (*COLUMNS, *(Column(f"c{i}", "left out") for i in range(5))), [0, 1, 1, 0], ("a", "b"),
            "4 rows, target y (2 classes, 50 % a), ids key, "
            "5 columns left out (c0, c1, c2, 2 more)",
        ),
    ],
)  # fmt: skip
def test_the_first_line_says_what_was_read(columns, y, classes, line):
    assert first_line("t.csv", len(y), columns, np.array(y), classes) == f"t.csv: {line}"


def test_many_columns_are_one_short_table():
    many = tuple(Column(f"c{i}", "number", note="strings of numbers") for i in range(1000))
    (section,) = columns_section((Column("plain", "number"), *many))
    (table,) = section.blocks
    assert len(table.rows) == MOST_ROWS and "801 more are in summary.json" in table.note
    assert table.rows[0].name == "c0"  # those with a note first


def test_what_became_of_a_column_stands_beside_why():
    column = Column("zip", "category", 3, treatment="three 0/1 columns", note="digits are a code")
    (section,) = columns_section((column,))
    assert section.blocks[0].rows[0].cells[-1] == "three 0/1 columns; digits are a code"


def test_page_and_summary_carry_them():
    shown = page(COLUMNS)
    assert "How the columns were read" in render(shown)
    assert "How the columns were read" not in render(page(()))
    assert shown.head["columns"][1] == {
        "name": "zip",
        "read_as": "category",
        "n_values": 3,
        "missing": 0,
        "treatment": "",
        "note": "digits with leading zeros are a code",
        "form": "",
        "missing_code": None,
        "tells_target": False,
    }
