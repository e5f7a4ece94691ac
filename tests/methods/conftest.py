"""Tests of methods' commands train shortly."""

import pytest

from helpers.short_trainings import short_trainings


@pytest.fixture(scope="module", autouse=True)
def short(request):
    if not request.module.__name__.endswith("test_command"):
        yield
        return
    with short_trainings():
        yield
