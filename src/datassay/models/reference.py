"""Import package.module:name; the current folder is searched too."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from datassay.errors import ModelError


def imported_reference(name: str, rule: str) -> Any:
    """Import the object of that name.

    Args:
        name: "package.module:attribute".
        rule: how the error begins: what had to be given.

    Returns:
        Whatever the attribute holds.

    Raises:
        ModelError: the module cannot be imported, or lacks the attribute.
    """
    module_name, _, attribute = name.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a script may parse arguments, and exit, on import
        raise ModelError(
            f"{rule} that can be imported from {folder}; {name!r} raised {brief(error)}"
            f"{_remedy(module_name, error)}"
        ) from error
    finally:
        sys.path.remove(folder)


def _remedy(module_name: str, error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return ' Put what the script runs behind `if __name__ == "__main__":`.'
    if module_name.endswith(".py"):
        stem = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        return f" Name the module, not its file: {stem}."
    return ""


def brief(error: BaseException) -> str:
    """An error as one line.

    Args:
        error: any.

    Returns:
        Its kind, and its first line with a full stop.
    """
    text = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {text[0].rstrip('.')}."
