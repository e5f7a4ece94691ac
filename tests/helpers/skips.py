"""A test that is skipped for a reason that `tests/skips.toml` does not list fails."""

import os
import re
import tomllib
from pathlib import Path

import pytest

LISTED = tomllib.loads((Path(__file__).parents[1] / "skips.toml").read_text(encoding="utf-8"))
MAY_SKIP = ("anywhere", *os.environ.get("MAY_SKIP", "").split())


def is_listed(reason):
    patterns = [pattern for where in MAY_SKIP for pattern in LISTED[where]]
    return any(re.fullmatch(pattern, reason, re.S) for pattern in patterns)


def _fail_unless_listed(report):
    """Make a failure of a skip, here and so in a process of xdist; an expected failure stays."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    if not is_listed(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{report.nodeid} is skipped, and tests/skips.toml does not list why: {reason}"
        )
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    return _fail_unless_listed((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    return _fail_unless_listed((yield))
