"""The generated pages: one a command, one a public module, one an experiment, the changelog.

Called by mkdocs (see `hooks` in mkdocs.yml). Options are read off the commands, public names off
the modules, so that no page can name what is gone. The figures below an experiment's statement are
what `bench/uses/lab.py` recorded last.
"""

import contextlib
import functools
import html
import inspect
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from datassay.commands.app import app
from datassay.commands.help import GROUPS, PANELS, position_of
from datassay_lab.catalog import CHAPTERS, experiments
from datassay_lab.experiment import Experiment

sys.path.insert(0, str(Path(__file__).parent))
from equations import equation, typeset

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results.jsonl"
MODULES = (
    *("datassay", "datassay.data", "datassay.models", "datassay.collect", "datassay.train"),
    *("datassay.score", "datassay.act", "datassay.polynomial", "datassay.complexity"),
    *("datassay.lm", "datassay.estimators", "datassay.report", "datassay.commands"),
    "datassay.errors",
)
# In a signature: a class's attribute, an ellipsis or an object, where the value should stand.
NAMED_DEFAULT = re.compile(
    r'<span class="o">=</span>(?:<span class="n">[A-Z]\w*</span><span class="o">\.</span>'
    r'<span class="n">\w+|<span class="o">(?:\.\.\.|&lt;))'
)
EXPERIMENT = """# {name}

**{statement}**

{formula}

{look_for}

{recorded}

**Before you look**: {question}

**What if?** `datassay lab {name} {change}` {expected}

**Exercise**: {exercise}

```sh
datassay lab {name} --out {name}
```

Source: {source}.

## The function behind it

`from datassay_lab import {function}`

::: {module}.{function}
"""


EMPTY_HEADING = re.compile(r"<th( [^>]*)?></th>")  # of a table whose rows need no word above them


# What mkdocs calls. ------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the navigation, behind those that mkdocs.yml names."""
    added = {
        "Commands": [{group: list(map(_command_path, names))} for group, names in _groups()],
        "Python": [_module_path(name) for name in MODULES],
        "Learn": [{c: [_lab_path(e.name) for e in listed]} for c, listed in CHAPTERS.items()],
    }
    for entry in config.nav or []:
        for section in added.keys() & entry.keys():
            entry[section] += added[section]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages themselves."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Typeset the equations; warn, which ends a strict build, where a default is only a name."""
    if page.file.src_uri.startswith("python/") and (match := NAMED_DEFAULT.search(text)):
        name = re.sub("<[^>]*>", "", match[0])
        get_plugin_logger("datassay").warning(f"{page.file.src_uri}: no real default: {name}")
    return typeset(EMPTY_HEADING.sub(r"<td\1></td>", text))


def on_post_page(output: str, **_: Any) -> str:
    """Nothing is fetched: without this script, search works only where the site is served."""
    return output.replace('<script src="https://unpkg.com/iframe-worker/shim"></script>', "")


on_post_template = on_post_page  # of the page for what is not found


def pages() -> Iterator[tuple[str, str]]:
    """All generated pages, as (path, Markdown)."""
    yield "commands.md", _commands_overview()
    yield from ((_command_path(name), command_page(name)) for _, ns in _groups() for name in ns)
    yield "python.md", _modules_overview()
    documented = homes()
    yield from ((_module_path(name), module_page(name, documented)) for name in MODULES)
    recorded = _recorded()
    for _, e in experiments():
        yield _lab_path(e.name), _experiment_page(e, recorded.get(e.name))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    yield "changelog.md", changes.replace("](docs/", "](")


# Commands. ---------------------------------------------------------------------------------


def _command_path(name: str) -> str:
    return f"commands/datassay-{name}.md"  # a file called index.md would stand for the folder


def _panel(thing: Any, otherwise: str) -> str:
    """The panel that `--help` shows it in."""
    panel = getattr(thing, "rich_help_panel", None)
    return panel if isinstance(panel, str) else otherwise


def _groups() -> list[tuple[str, list[str]]]:
    """Headings of `datassay --help` and the commands below each, in its order."""
    group, groups = _command_group(), {}
    for name in group.list_commands(typer.Context(group)):
        groups.setdefault(_panel(_command(name), "More"), []).append(name)
    return sorted(groups.items(), key=lambda group: [*GROUPS].index(group[0]))


@functools.cache  # typer makes all options of all commands each time it is asked
def _command_group() -> Any:
    return typer.main.get_command(app)


def _command(name: str) -> Any:
    group = _command_group()
    return group.get_command(typer.Context(group), name)


def _commands_overview() -> str:
    parts = ["# Commands", "Each takes the data first, and `--help` says what this page says."]
    for group, names in _groups():
        helps = ((name, inspect.cleandoc(_command(name).help).partition("\n")[0]) for name in names)
        rows = [f"| [`{name}`]({_command_path(name)}) | {_prose(line)} |" for name, line in helps]
        parts += [f"## {group}", "\n".join(["| command | |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def command_page(name: str) -> str:
    """Help, examples, and a table of options a panel."""
    command = _command(name)
    with contextlib.redirect_stdout(io.StringIO()):
        command.get_help(typer.Context(command))  # fills in what options say
    about, _, examples = inspect.cleandoc(command.help).partition("Examples:")
    parts = [f"# datassay {name}", about.replace("\b", "").strip()]
    if examples:
        lines = [line.strip() for line in examples.split("\n") if line.strip(" \b")]
        parts.append("```sh\n" + "\n".join(lines) + "\n```")
    panels: dict[str, list[str]] = {}
    for option in sorted(command.params, key=position_of):
        panels.setdefault(_panel(option, "Options"), []).append(_option_row(option))
    for panel, rows in sorted(panels.items(), key=lambda panel: [*PANELS].index(panel[0])):
        parts += [
            f"## {panel}",
            "\n".join(["| option | meaning | default |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def _option_row(option: Any) -> str:
    flags = [flag for flag in (*option.opts, *option.secondary_opts) if flag.startswith("-")]
    value = f" {option.metavar}" if option.metavar and flags else ""
    shown = ", ".join(f"`{flag}{value}`" for flag in flags) or f"`{option.name.upper()}`"
    return f"| {shown} | {_prose(option.help or '')} | {_default(option)} |"


def _default(option: Any) -> str:
    """As `--help` shows it."""
    if not option.opts[0].startswith("-"):
        return "required" if option.required else ""
    shown = option.show_default if isinstance(option.show_default, str) else option.default
    if option.secondary_opts:
        shown = "on" if option.default else "off"
    elif option.default is False:
        shown = "off"
    return "" if shown in (None, "") else f"`{shown}`"


def _prose(text: str) -> str:
    """A sentence of a help or a docstring as Markdown: options as code, no other markup."""
    text = re.sub(r"(?<![\w`-])--[a-z][\w-]*", r"`\g<0>`", text.replace("\\[", "["))
    pieces = re.split(r"(`[^`]*`)", text)
    plain = (html.escape(piece, quote=False) for piece in pieces[::2])
    pieces[::2] = [re.sub(r"([*_|\[\]])", r"\\\1", piece) for piece in plain]
    return "".join(pieces)


# Public modules. ---------------------------------------------------------------------------


def _module_path(name: str) -> str:
    return f"python/{name.removeprefix('datassay.')}.md"


def _modules_overview() -> str:
    rows = []
    for name in MODULES:
        line = (inspect.getdoc(import_module(name)) or "").partition("\n")[0]
        rows.append(f"| [`{name}`]({_module_path(name)}) | {_prose(line)} |")
    about = "The names used most are on `datassay`; each step of the data's way has the rest."
    return "\n".join(["# Python", "", about, "", "| module | |", "|---|---|", *rows, ""])


def _names(module: ModuleType) -> list[str]:
    """What it hands on; of a module that hands on nothing, what it defines."""
    own = [n for n, thing in vars(module).items() if _home(thing) == module.__name__]
    names = getattr(module, "__all__", None) or own
    return [n for n in names if not n.startswith("_")]


def _home(thing: Any) -> str:
    return getattr(inspect.unwrap(thing) if callable(thing) else thing, "__module__", "")


def homes() -> dict[str, str]:
    """Documented object → the module whose page has it: the first of the steps that hands it on."""
    results: dict[str, str] = {}
    for name in (*MODULES[1:], MODULES[0]):
        module = import_module(name)
        for public in _names(module):
            thing = getattr(module, public)
            if _is_documented(thing):
                results.setdefault(f"{_home(thing)}.{public}", name)
    return results


def _is_documented(thing: Any) -> bool:
    return inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing))


def module_page(name: str, documented: dict[str, str]) -> str:
    """A table of its public names, then each with signature, arguments and equations."""
    module = import_module(name)
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Values": []}
    entries: dict[str, list[str]] = {kind: [] for kind in kinds}
    for public in sorted(_names(module), key=str.lower):
        thing = getattr(module, public)
        if not _is_documented(thing):
            kinds["Values"].append(f"| `{public}` | {_value(thing)} |")
            continue
        kind = "Classes" if inspect.isclass(thing) else "Functions"
        path = f"{_home(thing)}.{public}"
        line = (inspect.getdoc(thing) or "").partition("\n")[0]
        kinds[kind].append(f"| [`{public}`][{path}] | {_prose(line)} |")
        if documented[path] == name:
            entries[kind].append(f"::: {path}\n    options:\n      heading: {public}\n")
    parts = [f"# {name}", inspect.getdoc(module) or ""]
    for kind, rows in kinds.items():
        if rows:
            parts.append("\n".join([f"| {kind.lower()} | |", "|---|---|", *rows]))
    for kind, listed in entries.items():
        if listed:
            parts += [f"## {kind}", *listed]
    return "\n\n".join(parts) + "\n"


def _value(thing: Any) -> str:
    """What a constant is; of an object, only its type."""
    if isinstance(thing, ModuleType):
        return f"the module [`{thing.__name__}`]({thing.__name__.rpartition('.')[2]}.md)"
    plain = isinstance(thing, str | int | float | tuple)
    return f"`{thing!r}`" if plain else f"a `{type(thing).__name__}`"


class RealDefaults(griffe.Extension):
    """Signatures show the values of their defaults, not the names that the source writes."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called once a package is read."""
        for function in _functions(pkg):
            _put_values(function)


def _functions(scope: griffe.Object) -> Iterator[griffe.Function]:
    for member in scope.members.values():
        if member.is_alias:
            continue
        if member.is_function:
            yield member
        elif member.is_module or member.is_class:
            yield from _functions(member)


def _put_values(function: griffe.Function) -> None:
    written = [p for p in function.parameters if p.default is not None]
    if not any(re.search(r"[A-Za-z_]\w*", str(p.default)) for p in written):
        return
    thing: Any = import_module(function.module.path)
    for part in function.path.removeprefix(f"{function.module.path}.").split("."):
        thing = inspect.getattr_static(thing, part)
    thing = getattr(thing, "__func__", thing)
    real = inspect.signature(inspect.unwrap(thing)).parameters
    for parameter in written:
        parameter.default = shown(real[parameter.name].default)


def shown(value: Any) -> str:
    """A default as a reader can type it, or the name of what it is."""
    if callable(value):
        return getattr(value, "__name__", "").replace("<lambda>", "") or "function"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    text = repr(value)
    if "factory" in text:  # of a dataclass's field: a new one each time
        return "new"
    return f"{type(value).__name__}()" if text.startswith("<") else text


# Experiments. ------------------------------------------------------------------------------


def _lab_path(name: str) -> str:
    return f"lab/{name}.md"


def _experiment_page(e: Experiment, line: dict | None) -> str:
    recorded = "Not recorded yet."
    if line is not None:
        recorded = (
            f"Recorded: {line['what']} **{line['value']:.3g}** ({line['range'][0]:.3g} to "
            f"{line['range'][1]:.3g} over {line['seeds']} seeds), must be {line['kind']} "
            f"{line['limit']:.3g}; {line['seconds']:.1f} s."
        )
    return EXPERIMENT.format(
        name=e.name, statement=e.statement, formula=equation(e.formula), look_for=e.look_for,
        recorded=recorded, source=e.source, module=e.module, question=e.question,
        change=" ".join(f"--set {shlex.quote(text)}" for text in e.what_if), expected=e.expected,
        exercise=e.exercise,
        function=e.name.replace("-", "_"),
    )  # fmt: skip


def _recorded() -> dict[str, dict]:
    lines = [json.loads(text) for text in RESULTS.read_text(encoding="utf-8").splitlines()]
    return {x["bench"].removeprefix("lab/"): x for x in lines if x["bench"].startswith("lab/")}
