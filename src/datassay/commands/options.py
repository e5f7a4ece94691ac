"""Options that typer shows and reads, made from a command's settings."""

# Not postponed: typer reads these annotations when it builds the commands.
import dataclasses
import functools
import inspect
import re
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from datassay.commands.command import Command
from datassay.commands.help import (
    ALL,
    COMMON,
    GROUPS,
    PANELS,
    help_text,
    option_row,
    panel_of,
    position_of,
    value_name,
)
from datassay.commands.shell import clear_exit
from datassay.errors import SettingError
from datassay.optional import as_tuple, text_if
from datassay.rules import require
from datassay.setting import Setting, default_of, sentence_of, settings_of

QUOTES = "\"'"
LARGEST = 2**53  # of a whole number
# Options by their names in Python, each with the class that has it.
Declared = Mapping[str, tuple[type, Setting]]


# Options of every command that writes results; --verbose of those that print a page.
OUTPUTS = {
    "out": "Folder for the results; made if it does not exist.",
    "overwrite": "Write although the folder holds a page of other data, or files of the same names "
    "that are not datassay's or were edited.",
    "verbose": "Print tables and all warnings, not only the verdict.",
}


class _HelpCommand(TyperCommand):
    """A command that reads docstrings and plugins, which are slow, only when its help is shown."""

    details: Command
    declared: Declared

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: the common options, or all; FORMATS becomes the known data formats."""
        from datassay.data.formats import in_words

        common = ()
        if self.details.common and ALL not in ctx.meta:
            common = (*self.details.common.split(), *COMMON)
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for option in sorted(self.get_params(ctx), key=position_of):
            text = str(getattr(option, "help", ""))
            panel = panel_of(option.name, PANELS, "Method")
            if option.name in self.declared:
                spec = self.declared[option.name][1]
                text = f"{sentence_of(spec.of) if spec.of else ''} {spec.help}".strip()
                text = re.sub(r"; None: ([^.;]+)", r" (default: \1)", text)
            text = text.replace("FORMATS", in_words() if "FORMATS" in text else "")
            vars(option).update(help=text, rich_help_panel=panel)
            if not common or option.name in common:
                panels[panel].append(option_row(option, is_short=bool(common)))
        self.epilog = self.details.epilog() or None
        usage = re.sub("[{}]", "", " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)]))
        epilog = self.epilog or ""
        limit = 3 if common else 99
        formatter.write(help_text(usage, self.details.help, panels, epilog, examples_shown=limit))


def _show_all(ctx: typer.Context, is_requested: bool) -> None:
    if is_requested:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def add_command(app: typer.Typer, command: Command) -> None:
    """Add a command to the command line: a function with one parameter per option."""
    declared = declared_of(command)
    ordered = dict.fromkeys(name for cls in command.groups for name in settings_of(cls))
    parameters = [_make_parameter(name, *declared[name]) for name in ordered]
    if command.has_out:
        option = typer.Option("--out", help=OUTPUTS["out"], metavar="FOLDER")
        parameters.append(_make_keyword("out", Annotated[str, option], command.out))
        for name in ("overwrite", "verbose") if command.has_page else ("overwrite",):
            option = typer.Option(f"--{name}", help=OUTPUTS[name], metavar=None)
            parameters.append(_make_keyword(name, Annotated[bool, option], False))
    if command.common:
        text = f"Show all {len(parameters) + 2} options, and all about each."
        option = typer.Option("--help-all", is_eager=True, callback=_show_all, help=text)
        parameters.append(_make_keyword("help_all", Annotated[bool, option], False))

    def function(**options: Any) -> None:
        """Run the command with what was typed."""
        options.pop("help_all", None)
        with clear_exit(partial(use_flags, declared)):
            out = options.pop("out", command.out)
            if not out.strip() or "://" in out:  # Path("") is the current folder
                raise SettingError(
                    f"out must name a folder, no URL; got {out!r}. Write . for the current one."
                )
            values: dict[str, Any] = {n: options.pop(n, False) for n in ("overwrite", "verbose")}
            for name, value in options.items():
                values |= _read_value(name, value, *declared[name])
            check_needs(values, declared)
            command.start(values, Path(out))

    function.__name__ = command.name
    function.__signature__ = inspect.Signature(parameters)  # pyrefly: ignore[missing-attribute] (which inspect reads)
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    cls = type("_Command", (_HelpCommand,), {"details": command, "declared": declared})
    panel = panel_of(command.name, GROUPS, "More")
    app.command(command.name, cls=cls, help=command.help, rich_help_panel=panel)(function)


def declared_of(command: Command) -> Declared:
    """Return option name → (settings class, setting); the first class counts if two have it."""
    return {
        name: (cls, spec) for cls in command.groups[::-1] for name, spec in settings_of(cls).items()
    }


def use_flags(declared: Declared, text: str) -> str:
    """Return an error's text with Python's argument names replaced by command-line flags."""
    flags = {name: spec.flag(name) for name, (_, spec) in declared.items()}
    flags |= {name: f"--{name}" for name in OUTPUTS if name not in flags}
    python = {spec.python: flags[name] for name, (_, spec) in declared.items() if spec.python}
    flags = {**python, **flags}
    dashed = {name.replace("_", "-"): flag for name, flag in flags.items()}
    flag_of = {**dashed, **flags}
    names = "|".join(sorted(map(re.escape, flag_of), key=len, reverse=True))
    # Names of several words, which no sentence has by chance, are replaced wherever they stand;
    # others only in name=value, and at the head of the text.
    compound = "|".join(name for name in flag_of if "_" in name or "-" in name) or "(?!)"
    assignment = rf"(?<![\w:,.-])({names})=('[^']*'|\"[^\"]*\"|[\w.-]+)"

    def type_option(match: re.Match[str]) -> str:
        return f"{flag_of[match[1]]} {shlex.quote(match[2].strip(QUOTES))}"

    text = re.sub(assignment, type_option, text)
    subject = rf"^({names})(?= (?:must|belongs|needs|takes|does|has|of)\b)"
    return re.sub(
        rf"{subject}|(?<![\w./-])({compound})(?![\w/-]|\.\w)",
        lambda match: flag_of[match[1] or match[2]],
        text,
    )


def check_needs(options: Mapping[str, Any], declared: Declared) -> None:
    """Raise if an option is set without the other option that its `needs` asks for.

    A need is "name", set; "!name", not set; "name=a|b", set to one of these; "!name=a", not to it.
    """
    values = {name: options.get(name, default_of(cls, name)) for name, (cls, _) in declared.items()}
    for name, (cls, spec) in declared.items():
        if values[name] == default_of(cls, name):
            continue
        for need in spec.needs.split():
            peer, _, allowed = need.lstrip("!").partition("=")
            if peer not in declared:  # this command always, or never, has it so
                continue
            peer_value = values[peer]
            is_negated = need[0] == "!"
            peer_flag = declared[peer][1].flag(peer)
            if allowed:
                holds = str(peer_value) in allowed.split("|")
            else:
                holds = bool(peer_value)
            allowed_words = " or ".join(allowed.split("|"))
            rule = f"{text_if(is_negated, 'not ')}come with {peer_flag} {allowed_words}".rstrip()
            is_unset = peer_value == default_of(declared[peer][0], peer) and not allowed
            got = f"{values[name]} {'without it' if is_unset else f'with {peer_value}'}"
            flag = spec.flag(name)
            require(holds is not is_negated, flag, rule, got, remedy=f"Leave {flag} out.")


def _read_value(name: str, value: Any, cls: type, spec: Setting) -> dict[str, Any]:
    """Return {field: value} of what was typed; {} if nothing was, so that the default stands."""
    if spec.read is None:
        if value in (None, []):
            value = default_of(cls, name)
        if isinstance(value, list):
            value = tuple(value)
    elif value is None:
        return {}
    else:
        value = spec.read(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise SettingError(
            f"{name} must be at most {LARGEST:,} in size, as floats count no further; got {value}."
        )
    return {name: value}


def _make_keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    if default is dataclasses.MISSING:
        default = inspect.Parameter.empty
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _make_parameter(name: str, cls: type, spec: Setting) -> inspect.Parameter:
    """Return the function parameter that typer reads as an argument or option of a setting."""
    default = default_of(cls, name)
    hint = _hints(cls)[name]
    typed = _to_typer_type(hint, spec)
    kinds = [kind for kind in get_args(typed) or (typed,) if kind is not NoneType]
    value = value_name(name, kinds[0] if spec.read is None else str)
    as_text = spec.read is not None and not isinstance(default, str)
    if spec.argument:
        option: Any = typer.Argument(help=spec.help, metavar=name.upper(), show_default=False)
    else:
        text = spec.show
        if text is None and default is not None and default is not False:
            # Typer knows no default that is read from a text, unless it is that text.
            text = True
            if as_text:
                text = ",".join(map(str, as_tuple(default)))
        flag = spec.flag(name)
        if hint is bool and default:
            flag = f"{flag}/--no-{flag[2:]}"
        option = typer.Option(
            flag,
            help=spec.help,
            metavar=None if hint is bool else value,
            show_default=text or False,
        )
    annotation = Annotated[typed, option]
    # Typer takes no such default: it is left to the field where the option is not given.
    return _make_keyword(
        name, annotation, None if isinstance(default, tuple) or as_text else default
    )


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _to_typer_type(hint: Any, spec: Setting) -> Any:
    """Return the type typer parses: str if the setting parses text itself, else the field's."""
    if spec.read is not None:
        return str | None
    if get_origin(hint) in {Union, UnionType}:
        members = get_args(hint)
    else:
        members = (hint,)
    kinds = [GenericAlias(list, get_args(m)[:1]) if get_origin(m) is tuple else m for m in members]
    return functools.reduce(lambda union, kind: union | kind, kinds)
