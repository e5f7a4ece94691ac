"""Where a review stands after a decision, an acceptance of many, a new order: by its own script."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from datassay.report import review

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(not NODE, reason="Node.js is not installed")


def places(*calls):
    """What calls of `reviewPlace` give, each of rows, those decided, and further arguments."""
    one = "([name, rows, decided, ...rest]) =>"
    one += " reviewPlace[name](rows, (k) => decided.includes(k), ...rest)"
    return evaluated(f"{json.dumps(calls)}.map({one})")


def evaluated(expression):
    """What an expression of the script gives."""
    script = Path(review.__file__).parents[1] / "templates" / "review_place.js"
    text = f"{script.read_text()}\nconsole.log(JSON.stringify({expression}));"
    done = subprocess.run([NODE], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_no_decided_sample_is_stood_on_unless_it_is_gone_to():
    rows = [7, 3, 9, 4]
    assert places(
        ("open", rows, [], 0),
        ("open", rows, [3, 9], 1),  # the next that is open
        ("open", rows, [9, 4], 2),  # none behind it: the first
        ("open", rows, rows, 4),  # none at all: behind the last, where no key decides
        ("open", [], [], 0),
        ("again", [4, 9, 3, 7], [4, 9], 3, True),  # the same sample in a new order
        ("again", [4, 9, 3, 7], [4, 9, 3], 3, False),  # it was decided meanwhile
        ("again", [4, 9], [4], 3, True),  # it is not among them
        ("again", [4, 9], [4, 9], 3, False),
    ) == [0, 3, 0, 4, 0, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("row", "is_asked", "visited", "stays"),
    [
        (3, False, None, True),  # it is open
        (9, False, None, False),  # it was accepted with many others
        (9, False, 9, True),  # somebody went back to it: the next key is meant for it
        (9, False, 3, False),
        (None, False, None, False),  # behind the last
        (9, True, None, True),  # the user chose other rows
    ],
)
def test_a_new_order_leaves_what_somebody_went_to(row, is_asked, visited, stays):
    rows = ["undefined" if place is None else str(place) for place in (row, visited)]
    arguments = f"(k) => k === 9, {rows[0]}, {json.dumps(is_asked)}, {rows[1]}"
    assert evaluated(f"reviewPlace.stays({arguments})") is stays
