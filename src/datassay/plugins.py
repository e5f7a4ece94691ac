"""Plugins: commands, scores, actions, exports and formats that distributions add.

A distribution names them as entry points of the group `datassay.commands`, `datassay.scores`,
`datassay.actions`, `datassay.exports` or `datassay.formats`; nothing in this library is edited. The
commands and actions of `datassay.methods` are found so, as entry points of datassay itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from datassay.errors import SettingError

OURS = "datassay"


def _points(group: str) -> list[EntryPoint]:
    """Return a group's entry points by name, those of datassay itself first."""
    points = entry_points(group=f"datassay.{group}")
    return sorted(points, key=lambda point: (_distribution(point) != OURS, point.name))


def _distribution(point: EntryPoint) -> str:
    return "another package" if point.dist is None else point.dist.name


def plugin_names(group: str) -> list[str]:
    """Return the names that other distributions add to a group, without loading them."""
    return [point.name for point in _points(group) if _distribution(point) != OURS]


@cache
def plugins(group: str, *, ours_only: bool = False) -> dict[str, Any]:
    """Load what installed distributions add to a group, by name, once per process.

    Args:
        group: as in the module's docstring, without its first word.
        ours_only: whether other distributions' are left alone, which may be broken.

    Returns:
        Entry point's name → what it names; those of datassay itself first.

    Raises:
        SettingError: one cannot be imported, or two have one name.
    """
    plugin_by_name: dict[str, Any] = {}
    for point in _points(group):
        source = _distribution(point)
        if ours_only and source != OURS:
            continue
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


def checked_plugins(
    group: str, kind: type, names_in_use: Iterable[str], *, ours_only: bool = False
) -> list[Any]:
    """Load a group's plugins; raise if one has the wrong type or a name already in use.

    Args:
        group: as in `plugins`.
        kind: the class of what the group holds.
        names_in_use: the names that are built in.
        ours_only: as in `plugins`.

    Returns:
        The plugins in the order of the entry points' names, those of datassay itself first.

    Raises:
        SettingError: one is of another type, or has a name that is built in or of an earlier one.
    """
    names = set(names_in_use)
    remedy = "Update or uninstall the package that adds it."
    for entry, plugin in plugins(group, ours_only=ours_only).items():
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
    return list(plugins(group, ours_only=ours_only).values())


def _with_a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"
