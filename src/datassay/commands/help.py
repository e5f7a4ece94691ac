"""The text that `--help` prints: plain lines of whole words, with the common options or all."""

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[tuple[str, str]]  # names, and what they mean
NAME_WIDTH, WIDTH = 25, 80  # characters of the column of names, and of a line
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
    "Output": "fail_on baseline json github before out location overwrite plan verbose "
    "help_all help",
}
# What options take, by their names.
VALUES = {
    "COLUMN": "target ids source", "COLUMNS": "drop keep categorical text", "GB": "memory",
    "FOLDER": "out before store location", "FILE": "weights decisions queries baseline",
    "MODEL": "model", "CONDITION": "fail_on", "SECONDS": "budget", "MINUTES": "minutes",
    "SHARE": "val_fraction noise adversarial fraction max_fraction", "DATA": "data data_option",
}  # fmt: skip
# Groups of `datassay --help` and their commands; others, those of plugins too, are under More.
GROUPS = {
    "Start": "example run view apply predict",
    "Fix": "summarize purify weigh partition",
    "Explain": "score explain index polynomial complexity",
    "Automate": "check",
    "More": "report export bench sample",
    "Learn": "lab",
}


def panel_of(name: str, panels: dict[str, str], otherwise: str) -> str:
    """Return the heading under which an option or a command stands."""
    return next((panel for panel, names in panels.items() if name in names.split()), otherwise)


def help_text(
    usage: str, purpose: str, panels: Mapping[str, Rows], epilog: str = "", *,
    name_width: int = NAME_WIDTH, examples_shown: int = 3,
) -> str:  # fmt: skip
    """Return the whole help: usage, description, examples, and panels of names and meanings."""
    purpose, heading, examples = re.split("(Examples?:|$)", inspect.cleandoc(purpose), maxsplit=1)
    parts = [f"Usage: {usage}", *("\n".join(_wrap(p)) for p in purpose.strip().split("\n\n"))]
    commands = re.split(r"\n\s*(?=datassay )", examples.replace("\b", "").strip())
    lines = [" \\\n      ".join(_wrap(line, WIDTH - 4)) for line in commands[:examples_shown]]
    if examples:
        parts.append("\n  ".join([heading, *filter(None, lines)]))
    for panel, rows in panels.items():
        lines = [line for row in rows for line in _lay_out(*row, name_width)]
        if lines:
            parts.append("\n".join([panel, *lines]))
    parts += ["\n".join(_wrap(p)) for p in epilog.split("\n\n") if p]
    return "\n\n".join(parts) + "\n"


def position_of(option: Any) -> int:
    """Return where an option stands in its panel."""
    return [*" ".join(PANELS.values()).split(), option.name].index(option.name)


def option_row(option: Any, *, is_short: bool) -> tuple[str, str]:
    """Return an option's flags, and its meaning with the default; only a sentence if short."""
    if is_short:
        text = re.split(r"(?<=\.) (?=[A-Z(])", option.help)[0]
    else:
        text = str(option.help)
    if option.param_type_name == "argument":
        return str(option.metavar), text
    default = option.show_default
    default_text = ""
    if isinstance(default, str):
        default_text = default
    elif default:
        default_text = str(option.default)
    is_stated = option.is_flag or default_text in {"", "None"} or "(default" in text
    flags = "/".join((*option.opts, *option.secondary_opts))
    return (
        flags if option.is_flag else f"{flags} {option.metavar}",
        text if is_stated else f"{text} [default: {default_text}]",
    )


def value_name(name: str, kind: Any) -> str:
    """Return what `--help` writes for an option's value: what it is, or its type."""
    value_word = next((value for value, names in VALUES.items() if name in names.split()), "")
    return value_word or {int: "N", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _lay_out(name: str, text: str, name_width: int) -> Iterator[str]:
    """Yield the lines of a row: the name to the left, its wrapped meaning to the right."""
    label = f"  {name}"
    if len(label) > name_width - 2:
        yield label
        label = ""
    for line in _wrap(text, WIDTH - name_width) or [""]:
        yield f"{label:<{name_width}}{line}".rstrip()
        label = ""


def _wrap(text: str, width: int = WIDTH) -> list[str]:
    """Split a text into lines of whole words; words with hyphens stay whole."""
    words = re.sub(r"\s+", " ", text)
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
