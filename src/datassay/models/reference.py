"""What a user names as package.module:name, imported; the current folder is searched too."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from datassay.errors import ModelError


def imported_reference(name: str, rule: str) -> Any:
    """The object of that name.

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
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ModelError(
            f"{rule} that can be imported from {folder}; {name!r} raised {brief(error)}"
        ) from error
    finally:
        sys.path.remove(folder)


def brief(error: Exception) -> str:
    """An error as one line.

    Args:
        error: any.

    Returns:
        Its kind, and its first line with a full stop.
    """
    text = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {text[0].rstrip('.')}."
