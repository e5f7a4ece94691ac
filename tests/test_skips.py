"""A skip whose reason no list in the repository holds fails, in whatever process it comes up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CASES = """
import pytest

@pytest.mark.skipif(True, reason="DATASSAY_DATA is not set")
def test_listed():
    pass

@pytest.mark.skipif(True, reason="DATASSAY_DATA is not set, nor anything else")
def test_by_its_mark():
    pass

def test_as_it_runs():
    pytest.skip("because")

def test_extra():
    pytest.importorskip("moto.nothing")

def test_expected():
    pytest.xfail("why not")
"""


@pytest.fixture
def outcome(tmp_path):
    """From the text of a file of tests, words and what may be skipped to the status and output."""

    def run(text, *words, may_skip=""):
        (tmp_path / "test_some.py").write_text(text)
        call = [sys.executable, "-m", "pytest", "-p", "helpers.skips", "-p", "no:cacheprovider",
                "-ra", "-c", os.devnull, "--rootdir", *[str(tmp_path)] * 2, *words]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TESTS)}
        environment["MAY_SKIP"] = may_skip
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "2")])
def test_only_what_is_listed_may_be_skipped(outcome, words):
    status, text = outcome(CASES, *words)
    assert status == 1 and "2 failed, 1 skipped, 1 xfailed, 1 error" in text, text
    assert "test_as_it_runs is skipped, and tests/skips.toml does not list why: because" in text
    assert "test_some.py:4: DATASSAY_DATA is not set\n" in text


def test_where_extras_are_missing_so_may_be_their_tests(outcome):
    assert "1 failed, 2 skipped, 1 xfailed, 1 error" in outcome(CASES, may_skip="without-extras")[1]


def test_a_file_that_is_skipped_whole_must_be_listed(outcome):
    whole = "import pytest\npytest.importorskip('moto.nothing')\ndef test_one(): pass\n"
    status, text = outcome(whole)
    assert status == 2 and "does not list why: could not import 'moto.nothing'" in text, text
    assert outcome(whole, may_skip="without-extras")[0] == 5  # no test was left
