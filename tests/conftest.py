"""The core's shapes are checked in every test run, by jaxtyping with beartype; else never."""

import copy
import functools
import gc
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import typecheck

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command line does, before torch
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a child of a process with a pool would wait for it
pytest.register_assert_rewrite("helpers")
CORE = ("data", "collect", "train", "score", "act")
# Of methods their mathematics: a folder's modules but those that serve it to others.
SERVING = {"__init__", "command", "job", "page", "division", "estimator"}
METHODS = Path(find_spec("datassay").origin).parent / "methods"
MODULES = [
    ".".join(("datassay", "methods", *file.relative_to(METHODS).with_suffix("").parts))
    for file in sorted(METHODS.rglob("*.py"))
    if file.stem not in SERVING and not {"complexity", "estimators"} & set(file.parts)
]
if "UNCHECKED_SHAPES" not in os.environ:
    typecheck.install([*(f"datassay.{package}" for package in CORE), *MODULES])
import sklearn.datasets  # noqa: E402  (OpenMP reads the variable above)

from helpers import perturbation  # noqa: E402
from helpers.browser import reset, started  # noqa: E402
from helpers.threads import pytest_configure  # noqa: E402, F401

perturbation.install()
read_digits = functools.cache(sklearn.datasets.load_digits)  # a text file, unpacked and parsed
sklearn.datasets.load_digits = lambda **given: copy.deepcopy(read_digits(**given))
gc.set_threshold(50_000, 10, 10)  # else rubbish is looked for more often than it comes


def pytest_runtest_setup():
    typecheck.next_test()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put the longest test first: whichever process has it, the other has the rest meanwhile."""
    items.sort(key=lambda item: item.path.name != "test_devices.py")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests stay: they need not be looked through each time


def pytest_sessionfinish():
    gc.unfreeze()  # Hypothesis, which pytest imports last of all, looks for what refers to what


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(one_browser):
    """One headless browser for all tests, each of which finds it as the first did."""
    reset(one_browser)
    return one_browser


@pytest.fixture
def here(data, tmp_path, monkeypatch):
    """A current folder with the files of the test module's `data` and nothing else."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(data, tmp_path, dirs_exist_ok=True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:  # a user's own modules are imported anew in each test
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """No files: a module that needs some has a fixture of this name."""
    return tmp_path_factory.mktemp("empty")
