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
    """Names of what installed distributions add to a group, without loading it."""
    return sorted(point.name for point in entry_points(group=f"datassay.{group}"))


@cache
def plugins(group: str) -> dict[str, Any]:
    """What installed distributions add to a group, loaded when it is first asked for."""
    loaded = {}
    for point in sorted(entry_points(group=f"datassay.{group}"), key=lambda one: one.name):
        try:
            loaded[point.name] = point.load()
        except Exception as error:
            source = "another package" if point.dist is None else point.dist.name
            raise SettingError(
                f"{source} adds {point.name!r} to datassay's {group}, but {point.value} cannot be "
                f"imported: {error}. Update or uninstall {source}."
            ) from error
    return loaded


def checked_plugins(group: str, kind: type, taken: Iterable[str]) -> list[Any]:
    """What installed distributions add to a group: each of its kind, with a name of its own.

    Args:
        group: as in `plugins`.
        kind: the class of what the group holds.
        taken: the names of ours.

    Returns:
        It, in the order of the entry points' names.

    Raises:
        SettingError: one is of another type, or has a name of ours or of an earlier one.
    """
    names, remedy = set(taken), "Update or uninstall the package that adds it."
    for entry, one in plugins(group).items():
        where = f"the entry point {entry} of datassay.{group}"
        if not isinstance(one, kind):
            named = type(one).__name__
            raise SettingError(
                f"{where} must name {_a(kind.__name__)}; it names a {named}. {remedy}"
            )
        if one.name in names:
            raise SettingError(
                f"{_a(group[:-1])} must have a name of its own; {where} adds another {one.name}. "
                f"{remedy}"
            )
        names.add(one.name)
    return list(plugins(group).values())


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"
