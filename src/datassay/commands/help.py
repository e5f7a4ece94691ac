"""What `--help` prints: plain lines of whole words, the few common options or all of them."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[tuple[str, str]]  # names, and what they mean
NARROW, WIDTH = 25, 80  # characters of the column of names, and of a line
COMMON = ("out", "overwrite", "verbose", "help_all", "help", "data", "folder", "function", "names")
ALL = "datassay.all"  # in a context: whether all options are to be shown
# Panel → options, by their names in Python; others stand under Method.
PANELS = {
    "Data": "folder folders run function names data decisions data_option target ids source drop "
    "keep categorical text log_target task "
    "val_fraction noise noise_kind adversarial epsilon queries domain",
    "Model": "model weights allow_trained loss parameters lr steps weight_decay reduction dynamics "
    "optimizer batch_size budget seed",
    "Method": "",
    "Computing": "memory projection outputs products device precision store engine address workers",
    "Output": "before out location overwrite plan verbose help_all help",
}
# What options take, by their names.
VALUES = {
    "COLUMN": "target ids source", "COLUMNS": "drop keep categorical text", "GB": "memory",
    "FOLDER": "out before store location", "FILE": "weights decisions queries", "MODEL": "model",
    "SECONDS": "budget", "MINUTES": "minutes",
    "SHARE": "val_fraction noise adversarial fraction max_fraction", "DATA": "data data_option",
}  # fmt: skip
# Groups of `datassay --help` and their commands; others, those of plugins too, are under More.
GROUPS = {
    "Start": "example run view apply predict",
    "Fix": "summarize purify weigh partition",
    "Explain": "score explain index polynomial complexity",
    "More": "report export bench sample",
    "Learn": "lab",
}


def panel_of(name: str, panels: dict[str, str], otherwise: str) -> str:
    """The heading under which an option or a command stands."""
    return next((panel for panel, names in panels.items() if name in names.split()), otherwise)


def help_text(
    usage: str, about: str, panels: Mapping[str, Rows], last: str = "", *,
    narrow: int = NARROW, examples_shown: int = 3,
) -> str:  # fmt: skip
    """The whole help: usage, what the command does, examples, names and meanings a panel."""
    about, _, examples = inspect.cleandoc(about).partition("Examples:")
    parts = [f"Usage: {usage}", *("\n".join(_wrapped(p)) for p in about.strip().split("\n\n"))]
    typed = re.split(r"\n\s*(?=datassay )", examples.replace("\b", "").strip())
    lines = [" \\\n      ".join(_wrapped(line, WIDTH - 4)) for line in typed[:examples_shown]]
    if examples:
        parts.append("\n  ".join(["Examples:", *filter(None, lines)]))
    for panel, rows in panels.items():
        lines = [line for row in rows for line in _lines(*row, narrow)]
        parts += ["\n".join([panel, *lines])] * bool(lines)
    parts += ["\n".join(_wrapped(p)) for p in last.split("\n\n") if p]
    return "\n\n".join(parts) + "\n"


def position_of(option: Any) -> int:
    """Where an option stands in its panel."""
    return [*" ".join(PANELS.values()).split(), option.name].index(option.name)


def option_row(option: Any, *, in_short: bool) -> tuple[str, str]:
    """An option as it is typed, and what it means with its default; in short, one sentence."""
    text = re.split(r"(?<=\.) (?=[A-Z(])", option.help)[0] if in_short else str(option.help)
    if option.param_type_name == "argument":
        return str(option.metavar), text
    default = option.show_default
    shown = default if isinstance(default, str) else str(option.default) if default else ""
    is_stated = option.is_flag or shown in {"", "None"} or "(default" in text
    flags = "/".join((*option.opts, *option.secondary_opts))
    return (
        flags if option.is_flag else f"{flags} {option.metavar}",
        text if is_stated else f"{text} [default: {shown}]",
    )


def value_name(name: str, kind: Any) -> str:
    """What `--help` writes for an option's value: what it is, or its type."""
    own = next((value for value, names in VALUES.items() if name in names.split()), "")
    return own or {int: "N", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _lines(name: str, text: str, narrow: int) -> Iterator[str]:
    """A name, and beside it what it means."""
    first = f"  {name}"
    if len(first) > narrow - 2:
        yield first
        first = ""
    for line in _wrapped(text, WIDTH - narrow) or [""]:
        yield f"{first:<{narrow}}{line}".rstrip()
        first = ""


def _wrapped(text: str, width: int = WIDTH) -> list[str]:
    """Lines of whole words, also where a word holds hyphens."""
    words = re.sub(r"\s+", " ", text)
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
