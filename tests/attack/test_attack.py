"""A part of the attack of bench/attack.py; the whole takes hours."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCH = Path(__file__).parents[2] / "bench" / "attack.py"
CASES = {
    "tables": 60,
    "files": 30,
    "options": 16,
    "networks": 10,
    "stores": 8,
    "disks": 6,
    "stops": 3,
}


@pytest.mark.parametrize(("kind", "cases"), CASES.items())
def test_no_case_fails(kind, cases, tmp_path):
    options = ["--kinds", kind, "--cases", str(cases), "--seed", "20", "--limit", "30"]
    command = [sys.executable, str(BENCH), *options, "--no-record", "--work", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{cases} cases, 0 failed" in ended.stdout
