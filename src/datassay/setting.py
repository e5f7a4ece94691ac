"""Settings: a dataclass field that also says how the command line shows and reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """What the command line needs to know about a field, beyond its type and default.

    Attributes:
        help: one sentence for `--help`.
        name: of the option, without dashes; empty: the field's name.
        argument: whether it is a positional argument and no option.
        read: from the option's text to the field's value; None where the type says it all.
        show: the default as `--help` prints it; None: the default itself, "": none.
    """

    help: str
    name: str = ""
    argument: bool = False
    read: Callable[[str], Any] | None = None
    show: str | None = None


def setting(
    default: Any,
    help: str,
    *,
    name: str = "",
    argument: bool = False,
    read: Callable[[str], Any] | None = None,
    show: str | None = None,
) -> Any:
    """A field of a settings dataclass that is an option of a command, too.

    Args:
        default: the one place where it is written.
        help: one sentence for `--help`.
        name: of the option; empty: the field's name with dashes.
        argument: whether it is a positional argument.
        read: from the option's text to the value, where the type alone does not say how.
        show: the default as `--help` prints it; "" prints none.

    Returns:
        A dataclass field.
    """
    option = Setting(help, name, argument, read, show)
    return dataclasses.field(default=default, metadata={"setting": option})


def default_of(cls: type, name: str) -> Any:
    """The default of a dataclass's field; `dataclasses.MISSING` where it must be given."""
    return next(f.default for f in dataclasses.fields(cls) if f.name == name)


def settings_of(cls: type) -> dict[str, Setting]:
    """Field name → setting, in the fields' order; fields without `setting` are left out."""
    fields = dataclasses.fields(cls)
    return {f.name: f.metadata["setting"] for f in fields if "setting" in f.metadata}
