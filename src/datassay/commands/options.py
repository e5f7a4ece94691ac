"""From a command's settings to the options that typer shows and reads."""

# Not postponed: typer reads these annotations when it builds the commands.
import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from datassay.commands.command import Command
from datassay.commands.shell import clear_exit
from datassay.commands.usage import OF, HelpedCommand
from datassay.errors import SettingError
from datassay.setting import Setting, default_of, settings_of

LARGEST = 2**53  # of a whole number
OUT_HELP = "Folder for the results; made if it does not exist."
OVERWRITE_HELP = "Replace files in the folder that datassay did not write, or that were changed."


def add_command(app: typer.Typer, command: Command) -> None:
    """Add a command to the command line; its options are read off its settings."""
    cls = type("_Command", (HelpedCommand,), {"more": staticmethod(command.epilog)})
    app.command(command.name, cls=cls, help=command.help)(_function(command))


def _function(command: Command) -> Callable[..., None]:
    """A function with one parameter an option, which is what typer reads."""
    declared = {
        name: (cls, spec) for cls in command.groups[::-1] for name, spec in settings_of(cls).items()
    }
    ordered = dict.fromkeys(name for cls in command.groups for name in settings_of(cls))
    parameters = [_parameter(name, *declared[name]) for name in ordered]
    parameters += _output_parameters(command)

    def function(**options: Any) -> None:
        with clear_exit():
            folder = _folder(options.pop("out", command.out))
            given: dict[str, Any] = {"overwrite": options.pop("overwrite", False)}
            for name, value in options.items():
                cls, spec = declared[name]
                if spec.read is None:
                    value = default_of(cls, name) if value in (None, []) else value
                    given[name] = tuple(value) if isinstance(value, list) else value
                elif value is not None:  # not given: the field's own default stands
                    given[name] = spec.read(value)
                _check_whole(name, given.get(name))
            command.start(given, folder)

    function.__name__ = command.name
    function.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


def _output_parameters(command: Command) -> list[inspect.Parameter]:
    """Where the results of a command go, and what they may replace there."""
    if not command.has_out:
        return []
    kind = inspect.Parameter.KEYWORD_ONLY
    out, overwrite = typer.Option(help=OUT_HELP), typer.Option("--overwrite", help=OVERWRITE_HELP)
    return [
        inspect.Parameter("out", kind, default=command.out, annotation=Annotated[str, out]),
        inspect.Parameter("overwrite", kind, default=False, annotation=Annotated[bool, overwrite]),
    ]


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise SettingError(
            f"{name.replace('_', '-')} must be at most {LARGEST:,} in size, as floats count no "
            f"further; got {value}."
        )


def _folder(out: str) -> Path:
    if not out.strip():  # Path("") is the current folder
        raise SettingError(f"out must name a folder; got {out!r}. Write . for the current one.")
    return Path(out)


def _parameter(name: str, cls: type, spec: Setting) -> inspect.Parameter:
    default, hint = default_of(cls, name), _hints(cls)[name]
    if spec.argument:
        shown: Any = typer.Argument(help=spec.help, show_default=False)
    else:
        flags = _flags(name, spec, default, hint)
        text = spec.show
        if text is None and default is not None and default is not False:
            # Typer knows no default that is read from a text, unless it is that text.
            as_typed = default if isinstance(default, tuple) else (default,)
            known = spec.read is None or isinstance(default, str)
            text = True if known else ",".join(map(str, as_typed))
        # A docstring is read when help is shown; until then its place is held.
        told = f"{OF}{spec.of} {spec.help}" if spec.of else spec.help
        shown = typer.Option(*flags, help=told.replace("[", r"\["), show_default=text or False)
    kind = inspect.Parameter.KEYWORD_ONLY
    annotation = Annotated[_typed(hint, spec), shown]
    if default is dataclasses.MISSING:
        return inspect.Parameter(name, kind, annotation=annotation)
    # Typer takes no such default: it is left to the field where the option is not given.
    if isinstance(default, tuple) or (spec.read is not None and not isinstance(default, str)):
        default = None
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _flags(name: str, spec: Setting, default: object, hint: Any) -> tuple[str, ...]:
    flag = f"--{spec.name or name.replace('_', '-')}"
    if hint is not bool:
        return (flag,)
    return (f"{flag}/--no-{flag[2:]}",) if default else (flag,)


def _typed(hint: Any, spec: Setting) -> Any:
    """The type that typer is to read: text where the setting reads text, else the field's own."""
    if spec.read is not None:
        return str | None
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    kinds = [list[get_args(m)[0]] if get_origin(m) is tuple else m for m in members]
    return Union[tuple(kinds)]  # noqa: UP007  (built at run time)
