"""Shapes are checked in every test run: jaxtyping with beartype, never in production."""

import os

from jaxtyping import install_import_hook

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch
if "PYTEST_XDIST_WORKER" in os.environ:  # files run side by side: one thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")
install_import_hook("datassay", "typecheck.checked")
from helpers import perturbation  # noqa: E402  (imports torch, which reads the variables above)

perturbation.install()
