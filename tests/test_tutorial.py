"""The tutorial runs from top to bottom, and prints what it shows."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from helpers.snippets import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
OWN, _, REAL = PAGE.partition("*Needs DATASSAY_DATA.*")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


@pytest.fixture
def steps(tmp_path, monkeypatch, capsys):
    """Runs the blocks of a part of the page, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def steps(part, names):
        printed = ""
        for language, text in BLOCK.findall(part):
            if language == "python":
                exec(compile(text, "tutorial", "exec"), names)
                printed = capsys.readouterr().out
            elif language == "sh":
                command = [sys.executable, "-m", *shlex.split(text)]
                run = subprocess.run(command, capture_output=True, text=True, check=False)
                assert run.returncode == 0, run.stderr
            else:
                assert_like(printed, text)
        return names

    return steps


def assert_like(printed, shown):
    """The same words and close numbers, since other processors round otherwise."""
    printed, shown = (re.sub(r"id \d+", "id", text) for text in (printed, shown))
    assert NUMBER.sub("0", printed).split() == NUMBER.sub("0", shown).split(), printed
    for a, b in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        assert float(a) == pytest.approx(float(b), rel=0.05, abs=0.02 if "." in b else 2), printed


@pytest.mark.slow
def test_tutorial(steps):
    names = steps(OWN, {"__name__": "tutorial"})
    assert names["wrong"][names["suspect"]].mean() > 0.9


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif("DATASSAY_DATA" not in os.environ, reason="DATASSAY_DATA is not set")
def test_part_on_real_errors(steps):
    import numpy as np

    import datassay as da

    steps(REAL, {"__name__": "tutorial", "np": np, "da": da})
