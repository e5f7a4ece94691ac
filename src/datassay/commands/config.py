"""Options from a file: words that are typed for the user, before those that they type.

`datassay.toml`, or the table `[tool.datassay]` of `pyproject.toml`, in the current folder, or the
file that `--config` names. A table a command, such as `[check]`; options outside of tables are
those of every command that has them.
"""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from datassay.errors import SettingError
from datassay.optional import as_tuple, read_entry

FILE = "datassay.toml"
PROJECT = "pyproject.toml"
OPTIONS = ("--config", "--log-file")  # of all commands, before or behind their names
Flags = Mapping[str, tuple[str, ...]]  # option without dashes → flag, and the flag that negates it


def split_shared(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line without `--config FILE` and `--log-file FILE`, and those files."""
    words_left = []
    files = dict[str, str]()
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            return [*words_left, word, *remaining], files
        option, _, value = word.partition("=")
        if option in OPTIONS:
            if "=" not in word:
                value = next(remaining, "")
            if not value or value.startswith("-"):
                raise SettingError(f"{option[2:]} must name a file; none is given.")
            files[option[2:]] = value
        else:
            words_left.append(word)
    return words_left, files


def read_config(path: Path | None) -> tuple[Path, dict[str, Any]] | None:
    """Return the file of options and its content; None where no file is there.

    Args:
        path: that `--config` named; None: what the current folder holds.

    Raises:
        SettingError: the file cannot be read, or is no TOML.
    """
    if path is None:
        paths = [Path(FILE), Path(PROJECT)]
    else:
        paths = [path]
    for candidate in paths:
        if path is None and not candidate.is_file():
            continue
        try:
            content = tomllib.loads(candidate.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if path is None and candidate.name == PROJECT:
                continue  # no file of ours
            why = getattr(error, "strerror", None) or error
            raise SettingError(
                f"config must name a file of options in TOML; {candidate}: {why}."
            ) from error
        if candidate.name == PROJECT:
            tools = content.get("tool", {})
            content = read_entry(tools, "datassay")
        if isinstance(content, dict):
            return candidate, content
    return None


def config_words(
    path: Path, content: Mapping[str, Any], command: str, options: Mapping[str, Flags],
    words: Sequence[str],
) -> list[str]:  # fmt: skip
    """Return the words that a file of options adds to a command line.

    Args:
        path: of the file, for errors.
        content: of the file.
        command: that is run.
        options: of each command.
        words: that the user typed behind the command; an option among them is left out.

    Raises:
        SettingError: the file names an unknown command or option, or a value is none that an
            option takes.
    """
    shared = {name: value for name, value in content.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in content.items() if isinstance(value, dict)}
    all_options = {option for flags in options.values() for option in flags}
    _check_names(path, tables, options, "a command")
    _check_names(path, shared, all_options, "an option")
    for name, table in tables.items():
        _check_names(path, table, options[name], f"an option of {name}")
    settings = {name: value for name, value in shared.items() if name in options[command]}
    settings |= tables.get(command, {})
    typed = {word.partition("=")[0] for word in words}
    result: list[str] = []
    for name, value in settings.items():
        flags = options[command][name]
        if not typed & set(flags):
            result += _to_words(path, name, flags, value)
    return result


def _to_words(path: Path, name: str, flags: Sequence[str], value: Any) -> list[str]:
    """Return the words that set an option on the command line; [] for a switch without --no-."""
    if isinstance(value, bool):
        if value:
            return [*flags[:1]]
        return [*flags[1:]]
    values = as_tuple(value)
    if not all(isinstance(item, str | int | float) for item in values):
        raise SettingError(
            f"{path} must give {name} a text, a number, true, false or a list; got {value!r}."
        )
    return [word for item in values for word in (flags[0], str(item))]


def _check_names(path: Path, names: Mapping[str, Any], options: Any, kind: str) -> None:
    """Raise if the file sets an option that does not exist; propose the most similar name."""
    unknown = [name for name in names if name not in options]
    if unknown:
        similar = get_close_matches(unknown[0], list(options), 1)
        hint = ""
        if similar:
            hint = f" Did you mean {similar[0]}?"
        raise SettingError(f"{path} must name {kind}; {unknown[0]!r} is none.{hint}")
