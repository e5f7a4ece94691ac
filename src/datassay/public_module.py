"""Public modules: the `__init__` of a step exports its public names, loaded when first used."""

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Groups: the module, and the name that the package hands on from it.
HANDED_ON = re.compile(r"from (datassay[\w.]*) import \(?\s*(\w+) as \2\b")


class PublicModule(ModuleType):
    """A package that hands on names from its modules.

    A name may be a folder's as well: `datassay.collect` is the function although a folder is
    called so too. The import system binds the folder to the package; that binding is left out, and
    the function has the folder's modules as attributes: `import datassay.collect.settings` works.
    """

    _homes: dict[str, str]  # name → the module that defines it, or for a step this package

    def __getattr__(self, name: str) -> object:
        """Return a public name or a step, imported now; raise AttributeError for another name."""
        if name == "__version__":  # importlib.metadata takes longer to import than all of this
            from importlib.metadata import version

            return version(self.__name__)
        if name not in self._homes:
            step = None
            if not name.startswith("_"):
                step = find_spec(f"{self.__name__}.{name}")
            if step is not None and step.submodule_search_locations:  # a step: datassay.models
                return import_module(step.name)
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if self._homes[name] == self.__name__:  # a step under its own name
            return import_module(f"{self.__name__}.{name}")
        value = getattr(import_module(self._homes[name]), name)
        # Of a function that is called as a folder is, the folder's modules become attributes.
        folder = sys.modules.get(f"{self.__name__}.{name}")
        if hasattr(folder, "__path__"):
            vars(value).update({k: m for k, m in vars(folder).items() if isinstance(m, ModuleType)})
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def make_public(package: str) -> None:
    """Make a package a public module: it hands on what its `if TYPE_CHECKING:` block imports.

    That block is the one list of names: type checkers read it, and so does this function, from the
    package's source. Importing the package then loads none of the modules behind it.
    """
    module = sys.modules[package]
    spec: Any = module.__spec__
    # Parsing the syntax would take ten times as long, in every start of the command line.
    names = HANDED_ON.findall(spec.loader.get_source(package))
    module.__dict__["_homes"] = {name: home for home, name in names}
    module.__dict__["__all__"] = sorted(name for _, name in names)
    module.__class__ = PublicModule
