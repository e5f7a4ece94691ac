"""How many threads a test may take, and the guards of what tests share and of what is skipped."""

import os
import signal

from helpers import shared, skips


def pytest_configure(config):
    """Files run side by side have one thread each: said before their processes start, in which
    plugins import numpy before any conftest is read.
    """
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in handlers.items():  # which background jobs and nohup ignore
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)  # what tests start is ended by it then
    for plugin in (shared, skips):  # a conftest below the root sees no session's fixtures
        if not config.pluginmanager.is_registered(plugin):
            config.pluginmanager.register(plugin)
