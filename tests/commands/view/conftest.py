"""One run that the tests of reviews share; each begins without decisions."""

import pytest

from helpers.reviews import blobs, scored


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviewed")
    return scored(path / "run", blobs(path))
