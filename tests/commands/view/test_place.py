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
    script = Path(review.__file__).parents[1] / "templates" / "review_place.js"
    one = "([name, rows, decided, ...rest]) =>"
    one += " reviewPlace[name](rows, (k) => decided.includes(k), ...rest)"
    asked = f"JSON.stringify({json.dumps(calls)}.map({one}))"
    text = f"{script.read_text()}\nconsole.log({asked});"
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
