"""What tests of commands share: a current folder of their own."""

import shutil

import pytest


@pytest.fixture
def here(data, tmp_path, monkeypatch):
    """A current folder with the files of the test module's `data` and nothing else."""
    monkeypatch.chdir(tmp_path)
    for path in data.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path
