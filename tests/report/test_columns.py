"""How the columns were read: a line in the terminal, a table on the page, all in the summary."""

from datassay.commands.terminal import page_lines
from datassay.data.samples import Column
from datassay.report.columns import MOST_ROWS, columns_line, columns_section
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


def test_the_line_counts_kinds_and_names_what_is_unusual():
    assert columns_line(COLUMNS) == (
        "1 number, 1 category, ids key, target y (2 classes). "
        "zip: category, digits with leading zeros are a code"
    )
    assert columns_line(()) == ""


def test_many_columns_stay_one_short_line():
    many = tuple(Column(f"c{i}", "number", note="strings of numbers") for i in range(1000))
    line = columns_line(many)
    assert line.startswith("1,000 numbers. c0: number") and line.endswith("997 more with a note")
    assert len(line) < 200
    (section,) = columns_section((Column("plain", "number"), *many))
    (table,) = section.blocks
    assert len(table.rows) == MOST_ROWS and "801 more are in summary.json" in table.note
    assert table.rows[0].name == "c0"  # those with a note first


def test_what_became_of_a_column_stands_beside_why():
    column = Column("zip", "category", 3, treatment="three 0/1 columns", note="digits are a code")
    (section,) = columns_section((column,))
    assert section.blocks[0].rows[0].cells[-1] == "three 0/1 columns; digits are a code"


def test_page_terminal_and_summary_carry_them():
    shown = page(COLUMNS)
    assert "How the columns were read" in render(shown)
    assert "How the columns were read" not in render(page(()))
    assert any("target y (2 classes)" in str(line) for line in page_lines(shown))
    assert shown.head["columns"][1] == {
        "name": "zip",
        "read_as": "category",
        "n_values": 3,
        "missing": 0,
        "treatment": "",
        "note": "digits with leading zeros are a code",
        "form": "",
        "tells_target": False,
    }
