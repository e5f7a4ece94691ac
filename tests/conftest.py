"""The core's shapes are checked in every test run, by jaxtyping with beartype; else never."""

import copy
import functools
import gc
import os

import pytest

import typecheck

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch
pytest.register_assert_rewrite("helpers")
CORE = ("data", "collect", "train", "score", "act", "polynomial")
typecheck.install([f"datassay.{package}" for package in CORE])
import sklearn.datasets  # noqa: E402  (OpenMP reads the variable above)

from helpers import perturbation  # noqa: E402
from helpers.browser import started  # noqa: E402
from helpers.threads import pytest_configure  # noqa: E402, F401

perturbation.install()
read_digits = functools.cache(sklearn.datasets.load_digits)  # a text file, unpacked and parsed
sklearn.datasets.load_digits = lambda **given: copy.deepcopy(read_digits(**given))
gc.set_threshold(50_000, 10, 10)  # else rubbish is looked for more often than it comes


def pytest_runtest_setup():
    typecheck.next_test()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests stay: they need not be looked through each time


def pytest_sessionfinish():
    gc.unfreeze()  # Hypothesis, which pytest imports last of all, looks for what refers to what


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One headless browser for all tests; a test resizes it as it needs."""
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
