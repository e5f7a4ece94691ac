"""Plugins: commands, scores, actions, exports and formats that distributions add.

A distribution names them as entry points of the group `datassay.commands`, `datassay.scores`,
`datassay.actions`, `datassay.exports` or `datassay.formats`; nothing in this library is edited.
What the folders of `datassay.methods` add is found in them, so that the core imports none by name.
"""

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from datassay.errors import SettingError


def folder_modules(package: str, module: str) -> list[ModuleType]:
    """Return the modules named `module` in the folders of a package, sorted by folder."""
    entries = pkgutil.iter_modules(import_module(package).__path__)
    names = [f"{package}.{entry.name}.{module}" for entry in entries if entry.ispkg]
    return [import_module(name) for name in names if find_spec(name) is not None]


@cache
def modules_in(package: str) -> list[ModuleType]:
    """Import the modules of a package, in their order by name."""
    path = import_module(package).__path__
    return [import_module(entry.name) for entry in pkgutil.iter_modules(path, f"{package}.")]


def plugin_names(group: str) -> list[str]:
    """Return the names that installed distributions add to a group, without loading them."""
    return sorted(point.name for point in entry_points(group=f"datassay.{group}"))


@cache
def plugins(group: str) -> dict[str, Any]:
    """Return name → object that installed packages add to an entry-point group."""
    plugin_by_name: dict[str, Any] = {}
    for point in sorted(entry_points(group=f"datassay.{group}"), key=lambda entry: entry.name):
        source = "another package"
        if point.dist is not None:
            source = point.dist.name
        if point.name in plugin_by_name:
            raise SettingError(
                f"entry points of datassay.{group} must have different names; {source} adds a "
                f"second {point.name!r}. Update or uninstall {source}."
            )
        try:
            plugin_by_name[point.name] = point.load()
        except Exception as error:
            raise SettingError(
                f"{source} adds {point.name!r} to datassay's {group}, but {point.value} cannot be "
                f"imported: {error}. Update or uninstall {source}."
            ) from error
    return plugin_by_name


def checked_plugins(group: str, kind: type, names_in_use: Iterable[str]) -> list[Any]:
    """Return a group's plugins; raise if one has a wrong type, or a name in use.

    Args:
        group: as in `plugins`.
        kind: the class of what the group holds.
        names_in_use: the names that are built in.

    Returns:
        The plugins in the order of the entry points' names.

    Raises:
        SettingError: one is of another type, or has a name that is built in or of an earlier one.
    """
    names = set(names_in_use)
    remedy = "Update or uninstall the package that adds it."
    for entry, plugin in plugins(group).items():
        location = f"the entry point {entry} of datassay.{group}"
        if not isinstance(plugin, kind):
            type_name = type(plugin).__name__
            raise SettingError(
                f"{location} must name {_with_a(kind.__name__)}; it names a {type_name}. {remedy}"
            )
        if plugin.name in names:
            raise SettingError(
                f"{_with_a(group[:-1])} must have a name of its own; {location} adds another "
                f"{plugin.name}. {remedy}"
            )
        names.add(plugin.name)
    return list(plugins(group).values())


def _with_a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"
