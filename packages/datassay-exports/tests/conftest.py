"""What the tests of the adapters share."""

from importlib import import_module

import pytest


@pytest.fixture
def adapter():
    """The adapter of a tool by its name, where the tool can be imported."""

    def of(name, needs):
        try:
            import_module(needs)
        except (ImportError, RuntimeError) as error:
            pytest.skip(f"{needs} is not installed, or cannot be imported: {error}")
        return import_module(f"datassay_exports.{name}")

    return of
