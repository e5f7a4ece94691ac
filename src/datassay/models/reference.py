"""Import package.module:name, or path/file.py:name; what is installed goes before this folder."""

from __future__ import annotations

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


def imported_reference(name: str, rule: str) -> Any:
    """Import the object of that name; a log line says which file it is from."""
    # Gives whatever the attribute holds.
    # name: "package.module:attribute", of what is installed, else of the current folder; or
    # "path/file.py:attribute", of that file whatever is installed.
    module_name, _, attribute = name.rpartition(":")
    remedies: list[str] = []

    def message(error: str) -> str:
        if error.startswith("SystemExit"):
            remedies.append('Put what the script runs behind `if __name__ == "__main__":`.')
        where = f"{rule} that can be imported from {os.getcwd()}"
        return " ".join((f"{where}; {name!r} raised {error}", *remedies))

    with user_code(message):  # a script may parse arguments, and exit, on import
        position = _place(module_name)
        remedies += _other_file(module_name, position)
        new = position.key not in sys.modules
        module = _imported(module_name, position)
        result = getattr(module, attribute)
    if new or remedies:
        file = " ".join((f"{module_name} is imported from {_file(module)}.", *remedies))
        logger.info(file)
    return result


def is_reference(name: str) -> bool:
    """Whether the name is of the user's own module, and not of a built-in network."""
    return ":" in name and name.split(":")[0] not in NETWORKS and not name.startswith(FEATURES)


def reference_file(name: str) -> str:
    """Where the module of a reference was imported from."""
    # Gives the path of its file; "built in" where it has none.
    return _file(sys.modules[_place(name.rpartition(":")[0]).key])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a module is to be taken from."""

    key: str
    file: Path | None
    own: bool


def _place(module_name: str) -> _Place:
    if module_name.endswith(".py"):
        file = Path(module_name).resolve()
        # Of a name that is nobody else's: the file may be called like an installed module.
        return _Place(f"{file.stem}_{zlib.crc32(os.fsencode(file)):08x}", file, own=True)
    return _Place(module_name, None, own=not _is_installed(module_name.partition(".")[0]))


def _is_installed(top: str) -> bool:
    """Whether a module is found without the current folder; a bare folder of that name is none."""
    if top in sys.modules:
        return _folder(top) != _here()
    with _search(_elsewhere()):
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return False
    return spec is not None and spec.origin is not None


def _imported(module_name: str, position: _Place) -> ModuleType:
    if position.key in sys.modules:
        return sys.modules[position.key]
    if not position.own:
        with _search(_elsewhere()):
            return importlib.import_module(module_name)
    before = set(sys.modules)
    folder = _here() if position.file is None else position.file.parent
    with _search([*_elsewhere(), str(folder)]):
        module = (
            importlib.import_module(module_name) if position.file is None else _loaded(position)
        )
    # Workers of an engine cannot import it: it travels with its code, and so do its neighbours.
    for name in sys.modules.keys() - before:
        if _folder(name.partition(".")[0]) == folder:
            cloudpickle.register_pickle_by_value(sys.modules[name])
    return module


def _loaded(position: _Place) -> ModuleType:
    assert position.file is not None
    spec = importlib.util.spec_from_file_location(position.key, position.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[position.key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[position.key]
        raise
    return module


def _other_file(module_name: str, position: _Place) -> list[str]:
    """What to say where the current folder has a module of an installed one's name."""
    file = Path(*module_name.split(".")).with_suffix(".py")
    if position.own or not file.is_file():
        return []
    return [f"What is installed goes first; for the file of this folder write {file}:name."]


def _here() -> Path:
    return Path.cwd().resolve()


def _elsewhere() -> list[str]:
    """The search path without the current folder."""
    return [folder for folder in sys.path if Path(folder or ".").resolve() != _here()]


def _folder(top: str) -> Path | None:
    """The folder in which a loaded module, or package, stands; None of what is built in."""
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return path.parents[path.stem == "__init__"]


def _file(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or "built in")


@contextmanager
def _search(folders: list[str]) -> Iterator[None]:
    """Import from these folders inside."""
    before = list(sys.path)
    sys.path[:] = folders
    try:
        yield
    finally:
        sys.path[:] = before
