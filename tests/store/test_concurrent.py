"""Four processes that open one new store at once, and one of them killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HELPER = Path(__file__).parents[1] / "helpers" / "concurrent_stores.py"


@pytest.mark.slow
@pytest.mark.parametrize("kill", [[], ["kill"]], ids=["first runs", "one killed"])
def test_first_runs_at_once_give_the_right_bits_or_one_line(tmp_path, kill):
    done = subprocess.run(
        [sys.executable, str(HELPER), str(tmp_path / "rounds"), "3", *kill],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HELPER.parents[1]), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    counts = json.loads(done.stdout)
    assert set(counts) <= {"right bits", "one line", "ended"} and done.stderr == ""
    assert counts["right bits"] >= (9 if not kill else 8)
