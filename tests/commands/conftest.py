"""Tests of commands train shortly."""

import pytest

from helpers.short_trainings import short_trainings


@pytest.fixture(scope="module", autouse=True)
def short():
    with short_trainings():
        yield
