"""Shapes are checked in every test run: jaxtyping with beartype, never in production."""

import os

from jaxtyping import install_import_hook

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch
install_import_hook("datassay", "typecheck.checked")
