"""The core's shapes are checked in every test run, by jaxtyping with beartype; else never."""

import gc
import os

import pytest

import typecheck

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch
pytest.register_assert_rewrite("helpers")
CORE = ("data", "collect", "train", "score", "act", "polynomial")
typecheck.install([f"datassay.{package}" for package in CORE])
from helpers import perturbation  # noqa: E402  (imports torch, which reads the variable above)
from helpers.browser import started  # noqa: E402
from helpers.threads import pytest_configure  # noqa: E402, F401

perturbation.install()
gc.set_threshold(50_000, 10, 10)  # else rubbish is looked for more often than it comes


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One headless browser for all tests; a test resizes it as it needs."""
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
