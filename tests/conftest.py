"""Shapes are checked in every test run: jaxtyping with beartype, never in production."""

from jaxtyping import install_import_hook

install_import_hook("datassay", "typecheck.checked")
