"""Settings: a dataclass field that also says how the command line shows and reads it.

What an option means stands once, in the docstring of the public function that takes it: a setting
names the function, and the sentence is read from its source when help is shown.
"""

import ast
import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """What the command line needs to know about a field, beyond its type and default."""

    help: str  # one sentence for `--help`, behind that of `of`
    name: str = ""  # of the option, without dashes; empty: the field's name
    argument: bool = False  # whether it is a positional argument and no option
    # from the option's text to the field's value; None where the type says it all
    read: Callable[[str], Any] | None = None
    show: str | None = None  # the default as `--help` prints it; None: the default itself, "": none
    # "module:function.argument" whose docstring says what the option means; may be empty
    of: str = ""
    python: str = ""  # the argument's name in errors where that is not the field's
    # Refuses a value by the option's name, before anything heavy is imported.
    rule: Callable[[str, Any], object] | None = None
    # Other options that it is read with, spaces between: "noise" must be given, "solver=exact|x"
    # must be one of these; "!model" must not be given, "!attribution=none" not be one of these.
    needs: str = ""

    def flag(self, name: str) -> str:
        """Return how the option of this field is typed on the command line."""
        if self.argument:
            return name.upper()
        return f"--{self.name or name.replace('_', '-')}"


def sentence_of(source: str) -> str:
    """Return the first sentence on an argument in a docstring, found without importing."""
    # source: "module:function.argument".
    module, _, path = source.partition(":")
    function, _, name = path.rpartition(".")
    spec = find_spec(module)
    assert spec is not None and spec.origin, f"{module} is a module"
    nodes = ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    node = next(n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == function)
    entry = re.search(rf"^ {{4}}{name}: (.+(?:\n {{5,}}.+)*)", ast.get_docstring(node) or "", re.M)
    assert entry is not None, f"{function} says what {name} is"
    text = " ".join(entry[1].split())
    begins_with_word = re.match(r"[a-z]{2}", text) is not None  # and not with a value or a symbol
    match = re.match(r".+?\.(?= [A-Z]|$)|.+", text.replace('"', ""))
    assert match is not None
    sentence = match[0].rstrip(".")
    if begins_with_word:
        sentence = sentence[0].upper() + sentence[1:]
    return f"{sentence}."


def setting(
    default: Any,
    help: str = "",
    *,
    of: str = "",
    python: str = "",
    name: str = "",
    argument: bool = False,
    read: Callable[[str], Any] | None = None,
    show: str | None = None,
    rule: Callable[[str, Any], object] | None = None,
    needs: str = "",
) -> Any:
    """Define a field of a settings dataclass that is also a command's option.

    Args:
        default: the one place where it is written.
        help: one sentence for `--help`; behind that of `of`.
        of: "module:function.argument" whose docstring says what the option means; empty: none.
        python: the name of the argument in errors; empty: the field's.
        name: of the option; empty: the field's name with dashes.
        argument: whether it is a positional argument.
        read: from the option's text to the value, where the type alone does not say how.
        show: the default as `--help` prints it; "" prints none.
        rule: (name, value) → nothing, or an error; not asked of None.
        needs: other options without which it would not be read, as `Setting` has them.

    Returns:
        A dataclass field.
    """
    option = Setting(help, name, argument, read, show, of, python, rule, needs)
    return dataclasses.field(default=default, metadata={"setting": option})


def default_of(cls: type, name: str) -> Any:
    """Return a dataclass field's default; `dataclasses.MISSING` if it has none."""
    return next(f.default for f in dataclasses.fields(cls) if f.name == name)


def settings_of(cls: type) -> dict[str, Setting]:
    """Return a dataclass's settings by field name, in the fields' order."""
    fields = dataclasses.fields(cls)
    return {f.name: f.metadata["setting"] for f in fields if "setting" in f.metadata}
