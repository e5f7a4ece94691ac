"""One run from which each test of reviews has a copy of its own, without decisions."""

import pytest

from helpers.reviews import blobs, copied, scored


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviewed")
    return scored(path / "run", blobs(path))


@pytest.fixture
def folder(reviewed, tmp_path):
    return copied(reviewed, tmp_path / "reviewed")
