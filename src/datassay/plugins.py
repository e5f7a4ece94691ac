"""Plugins: commands, scores, actions, exports and formats that other distributions add.

A distribution names them as entry points of the group `datassay.commands`, `datassay.scores`,
`datassay.actions`, `datassay.exports` or `datassay.formats`; nothing in this library is edited.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from datassay.errors import SettingError


def plugin_names(group: str) -> list[str]:
    """Return the names that installed distributions add to a group, without loading them."""
    return sorted(point.name for point in entry_points(group=f"datassay.{group}"))


@cache
def plugins(group: str) -> dict[str, Any]:
    """Load what installed distributions add to a group, by name, once per process."""
    plugin_by_name = {}
    for point in sorted(entry_points(group=f"datassay.{group}"), key=lambda entry: entry.name):
        try:
            plugin_by_name[point.name] = point.load()
        except Exception as error:
            source = "another package" if point.dist is None else point.dist.name
            raise SettingError(
                f"{source} adds {point.name!r} to datassay's {group}, but {point.value} cannot be "
                f"imported: {error}. Update or uninstall {source}."
            ) from error
    return plugin_by_name


def checked_plugins(group: str, kind: type, names_in_use: Iterable[str]) -> list[Any]:
    """Load a group's plugins; raise if one has the wrong type or a name already in use.

    Args:
        group: as in `plugins`.
        kind: the class of what the group holds.
        names_in_use: the names of ours.

    Returns:
        It, in the order of the entry points' names.

    Raises:
        SettingError: one is of another type, or has a name of ours or of an earlier one.
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
