"""Values and texts that may be absent."""

import pytest

from datassay import optional


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ([optional.coalesce(v, 3) for v in (0, None)], [0, 3]),
        ([optional.map_optional(str, v) for v in (0, None)], ["0", None]),
        ([optional.select_rows(v, 1) for v in ([4, 5], None)], [5, None]),
        (optional.drop_none(0, None, ""), [0, ""]),
        ([optional.text_if(c, "x") for c in (1, 0)], ["x", ""]),
        ([optional.inflect(n, "is", "are") for n in (0, 1, 2)], ["are", "is", "are"]),
        ([optional.read_entry(c, "a") for c in ({"a": 1}, {}, [])], [1, None, None]),
        ([optional.take_first(v, 7) for v in ([0], [])], [0, 7]),
        ([optional.as_tuple(v) for v in ([1], (1,), "ab")], [(1,), (1,), ("ab",)]),
    ],
)
def test_what_is_absent_is_replaced_and_what_is_falsy_is_not(got, expected):
    assert got == expected
