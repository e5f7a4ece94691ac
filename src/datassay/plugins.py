"""Plugins: commands, scores, actions, exports and formats that other distributions add.

A distribution names them as entry points of the group `datassay.commands`, `datassay.scores`,
`datassay.actions`, `datassay.exports` or `datassay.formats`; nothing in this library is edited.
"""

from __future__ import annotations

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
