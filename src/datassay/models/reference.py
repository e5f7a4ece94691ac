"""Imports of package.module:name, or path/file.py:name; installed modules go before this folder."""

import importlib
import importlib.util
import logging
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from datassay.models.names import FEATURES
from datassay.models.networks import NETWORKS
from datassay.models.user_code import user_code

logger = logging.getLogger(__name__)


def import_reference(name: str, rule: str) -> Any:
    """Import the object that a reference names; a log line says which file it is from."""
    # name: "package.module:attribute", of what is installed, else of the current folder; or
    # "path/file.py:attribute", of that file whatever is installed.
    module_name, _, attribute = name.rpartition(":")
    remedies: list[str] = []

    def message(error: str) -> str:
        if error.startswith("SystemExit"):
            remedies.append('Put what the script runs behind `if __name__ == "__main__":`.')
        requirement = f"{rule} that can be imported from {os.getcwd()}"
        return " ".join((f"{requirement}; {name!r} raised {error}", *remedies))

    with user_code(message):  # a script may parse arguments, and exit, on import
        source = _find_source(module_name)
        remedies += _note_shadowed_file(module_name, source)
        is_new = source.key not in sys.modules
        module = _import_module(module_name, source)
        result = getattr(module, attribute)
    if is_new or remedies:
        logger.info(" ".join((f"{module_name} is imported from {_file(module)}.", *remedies)))
    return result


def is_reference(name: str) -> bool:
    """Return whether a name refers to the user's own module, and not to a built-in network."""
    return ":" in name and name.split(":")[0] not in NETWORKS and not name.startswith(FEATURES)


def reference_file(name: str) -> str:
    """Return the path of the file a reference was imported from, or "built in"."""
    return _file(sys.modules[_find_source(name.rpartition(":")[0]).key])


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a module is imported from: its key in sys.modules, its file, and whose it is."""

    key: str
    file: Path | None
    is_own: bool


def _find_source(module_name: str) -> _Source:
    """Return the file and folder from which a module would be imported."""
    if module_name.endswith(".py"):
        file = Path(module_name).resolve()
        # Its key is nobody else's: the file may be called as an installed module is.
        return _Source(f"{file.stem}_{zlib.crc32(os.fsencode(file)):08x}", file, is_own=True)
    return _Source(module_name, None, is_own=not _is_installed(module_name.partition(".")[0]))


def _is_installed(package: str) -> bool:
    """Return whether a package is importable without the current folder; a bare folder is none."""
    if package in sys.modules:
        return _find_folder(package) != Path.cwd().resolve()
    with _search_in(_other_search_folders()):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            return False
    return spec is not None and spec.origin is not None


def _import_module(module_name: str, source: _Source) -> ModuleType:
    """Import a module; the user's own, and what it imports beside itself, is pickled by value."""
    if source.key in sys.modules:
        return sys.modules[source.key]
    if not source.is_own:
        with _search_in(_other_search_folders()):
            return importlib.import_module(module_name)
    names_before = set(sys.modules)
    folder = Path.cwd().resolve()
    if source.file is not None:
        folder = source.file.parent
    with _search_in([*_other_search_folders(), str(folder)]):
        if source.file is None:
            module = importlib.import_module(module_name)
        else:
            module = _execute_file(source)
    # Workers of an engine cannot import it: it travels with its code, and so do its neighbours.
    for name in sys.modules.keys() - names_before:
        if _find_folder(name.partition(".")[0]) == folder:
            cloudpickle.register_pickle_by_value(sys.modules[name])
    return module


def _execute_file(source: _Source) -> ModuleType:
    """Import a module from its file, which `sys.modules` holds under the source's key."""
    assert source.file is not None
    spec = importlib.util.spec_from_file_location(source.key, source.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[source.key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[source.key]
        raise
    return module


def _note_shadowed_file(module_name: str, source: _Source) -> list[str]:
    """Return [hint] if a file here is hidden by an installed module of its name, else []."""
    file = Path(*module_name.split(".")).with_suffix(".py")
    if source.is_own or not file.is_file():
        return []
    return [f"What is installed goes first; for the file of this folder write {file}:name."]


def _other_search_folders() -> list[str]:
    """Return the search path without the current folder."""
    current_folder = Path.cwd().resolve()
    return [folder for folder in sys.path if Path(folder or ".").resolve() != current_folder]


def _find_folder(top: str) -> Path | None:
    """Return the folder that holds a loaded module or package; None for a built-in one."""
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    if path.stem == "__init__":
        return path.parent.parent
    return path.parent


def _file(module: ModuleType) -> str:
    """Return the path of a module's file, or "built in"."""
    return str(getattr(module, "__file__", None) or "built in")


@contextmanager
def _search_in(folders: list[str]) -> Iterator[None]:
    """Search for imports in these folders only, while the context lasts."""
    previous_folders = list(sys.path)
    sys.path[:] = folders
    try:
        yield
    finally:
        sys.path[:] = previous_folders
