"""A part of the attack of bench/uses/attack.py; the whole takes hours."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.planted import BUGS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
# Servers: `planted` tries thirty.
CASES = {"tables": 40, "options": 8, "networks": 6, "explain": 12}


@pytest.mark.parametrize(("kind", "cases"), CASES.items())
def test_no_case_fails(kind, cases, tmp_path):
    options = ["--cases", kind, "--seed", "20", "--set", f"n={cases}", "limit=30"]
    command = [sys.executable, "-m", "bench", "uses/attack", *options, "--work", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{cases} cases, 0 failed" in ended.stdout


@pytest.mark.parametrize(
    ("script", "n"),
    [("planted.py", len(BUGS)), ("mutants.py --seed 60 --number 9 --file stats", 9)],
)
def test_bugs_are_noticed(script, n):
    name, *words = script.split()
    command = [sys.executable, str(ROOT / "tests" / "helpers" / name), *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and f"{n} of {n} noticed" in ended.stdout, (
        ended.stdout + ended.stderr
    )
