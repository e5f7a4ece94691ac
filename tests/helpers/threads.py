"""How many threads a test may take."""

import os


def pytest_configure(config):
    """Files run side by side have one thread each: said before their processes start, in which
    plugins import numpy before any conftest is read.
    """
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
