"""How many threads a test may take, and the guard of what tests share."""

import os

from helpers import shared


def pytest_configure(config):
    """Files run side by side have one thread each: said before their processes start, in which
    plugins import numpy before any conftest is read.
    """
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not config.pluginmanager.is_registered(shared):
        config.pluginmanager.register(
            shared
        )  # a conftest below the root sees no session's fixtures
