"""What tests of commands share: a current folder of their own."""

import shutil
import sys

import pytest


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
