"""From a command's settings to the options that typer shows and reads."""

# Not postponed: typer reads these annotations when it builds the commands.
import dataclasses
import functools
import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from datassay.commands.command import Command
from datassay.commands.shell import clear_exit
from datassay.errors import SettingError
from datassay.setting import Setting, default_of, sentence_of, settings_of

LARGEST = 2**53  # of a whole number
OUT_HELP = "Folder for the results; made if it does not exist."
OVERWRITE_HELP = "Replace files in the folder that datassay did not write, or that were changed."


class _Shown(TyperCommand):
    """A command whose help reads when it is shown what costs time: docstrings, and plugins."""

    about: Command
    declared: dict[str, tuple[type, Setting]]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; where FORMATS stands, those of data that are known, plugins' too."""
        from datassay.data.formats import in_words

        for parameter in self.params:
            _, spec = self.declared.get(str(parameter.name), (None, None))
            text = str(getattr(parameter, "help", ""))
            if spec and spec.of:
                text = f"{sentence_of(spec.of)} {spec.help}".strip().replace("[", r"\[")
            if "FORMATS" in text:
                text = text.replace("FORMATS", in_words())
            vars(parameter)["help"] = text
        self.epilog = self.about.epilog() or None
        super().format_help(ctx, formatter)


def add_command(app: typer.Typer, command: Command) -> None:
    """Add a command to the command line: a function with one parameter an option."""
    declared = {
        name: (cls, spec) for cls in command.groups[::-1] for name, spec in settings_of(cls).items()
    }
    ordered = dict.fromkeys(name for cls in command.groups for name in settings_of(cls))
    parameters = [_parameter(name, *declared[name]) for name in ordered]
    if command.has_out:
        flag = typer.Option("--overwrite", help=OVERWRITE_HELP)
        parameters += [
            _keyword("out", Annotated[str, typer.Option(help=OUT_HELP)], command.out),
            _keyword("overwrite", Annotated[bool, flag], False),
        ]

    def function(**options: Any) -> None:
        with clear_exit():
            out = options.pop("out", command.out)
            if not out.strip():  # Path("") is the current folder
                raise SettingError(
                    f"out must name a folder; got {out!r}. Write . for the current one."
                )
            given: dict[str, Any] = {"overwrite": options.pop("overwrite", False)}
            for name, value in options.items():
                given |= _given(name, value, *declared[name])
            command.start(given, Path(out))

    function.__name__ = command.name
    function.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    cls = type("_Command", (_Shown,), {"about": command, "declared": declared})
    app.command(command.name, cls=cls, help=command.help)(function)


def _given(name: str, value: Any, cls: type, spec: Setting) -> dict[str, Any]:
    """The field's value from what typer read; nothing where its own default stands."""
    if spec.read is None:
        value = default_of(cls, name) if value in (None, []) else value
        value = tuple(value) if isinstance(value, list) else value
    elif value is None:
        return {}
    else:
        value = spec.read(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise SettingError(
            f"{name.replace('_', '-')} must be at most {LARGEST:,} in size, as floats count no "
            f"further; got {value}."
        )
    return {name: value}


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is dataclasses.MISSING else default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _parameter(name: str, cls: type, spec: Setting) -> inspect.Parameter:
    default, hint = default_of(cls, name), _hints(cls)[name]
    as_text = spec.read is not None and not isinstance(default, str)
    if spec.argument:
        shown: Any = typer.Argument(help=spec.help, show_default=False)
    else:
        text = spec.show
        if text is None and default is not None and default is not False:
            # Typer knows no default that is read from a text, unless it is that text.
            several = default if isinstance(default, tuple) else (default,)
            text = ",".join(map(str, several)) if as_text else True
        flag = f"--{spec.name or name.replace('_', '-')}"
        if hint is bool and default:
            flag = f"{flag}/--no-{flag[2:]}"
        shown = typer.Option(flag, help=spec.help.replace("[", r"\["), show_default=text or False)
    annotation = Annotated[_typed(hint, spec), shown]
    # Typer takes no such default: it is left to the field where the option is not given.
    return _keyword(name, annotation, None if isinstance(default, tuple) or as_text else default)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _typed(hint: Any, spec: Setting) -> Any:
    """The type that typer is to read: text where the setting reads text, else the field's own."""
    if spec.read is not None:
        return str | None
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    kinds = [list[get_args(m)[0]] if get_origin(m) is tuple else m for m in members]
    return Union[tuple(kinds)]  # noqa: UP007  (built at run time)
