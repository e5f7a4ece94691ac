"""The lab's tests: torch as the command line sets it up, and the browser of the other tests."""

import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch
if "PYTEST_XDIST_WORKER" in os.environ:  # files run side by side: one thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")
from helpers.browser import started


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One headless browser for all tests."""
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
