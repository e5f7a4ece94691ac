"""What a piece of Python code does and what it names, read off its compiled form.

The compiled form is what runs, also where the source changed since or was never a file (notebooks).
Comments, spaces, line numbers and docstrings leave no trace in it.
"""

from __future__ import annotations

import dis
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

from datassay.store.location import FAILURES

LOADS = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME"}
STORES = {"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL"}
ITEMS = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
MUTATORS = {"append", "add", "update", "setdefault", "extend", "insert", "pop", "popitem", "clear"}
# Decorators that check types put addresses into the names of their arguments.
ADDRESS = re.compile(r"\d{6,}")
MISSING = object()
# Key of the module that was imported last.
IMPORTED = ""


@lru_cache(maxsize=4096)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a function, as compiled; those of functions inside are not among them."""
    return tuple(dis.get_instructions(code))


def inner(code: CodeType) -> list[CodeType]:
    """A function's code, and that of the functions inside it."""
    codes = [code]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes += inner(constant)
    return codes


def described(code: CodeType) -> list[object]:
    """What a function does as plain values, equal for equal source whatever its comments."""
    lines = [
        [of.opname, _argument(of)] for of in instructions(code) if of.opname not in {"CACHE", "NOP"}
    ]
    counts = [code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount]
    names = [ADDRESS.sub("#", name) for name in code.co_varnames]
    # 0x2C: *args, **kwargs, generator; the rest says how it was compiled.
    return [lines, counts, names, code.co_flags & 0x2C, code.co_exceptiontable.hex()]


def _argument(of: dis.Instruction) -> object:
    value = of.argval
    if isinstance(value, CodeType):
        return described(value)
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, str) and of.opname != "LOAD_CONST":
        return ADDRESS.sub("#", value)
    return f"{type(value).__name__} {value!r}"


def attributes_read(code: CodeType) -> set[str]:
    """Names of attributes that a function reads, of whatever object."""
    return {of.argval for c in inner(code) for of in instructions(c) if of.opname in LOADS}


def names_written(code: CodeType) -> set[str]:
    """Names that a function assigns to, or of whose value it changes, adds or removes items."""
    names: set[str] = set()
    for each in inner(code):
        steps = instructions(each)
        names |= {of.argval for of in steps if of.opname in STORES}
        # `a.b[c] = d`: the target starts where its container starts.
        starts = {_start(of) for of in steps if of.opname in ITEMS} - {(None, None)}
        held = [of for of in steps if of.opname in LOADS | GLOBALS]
        names |= {of.argval for of in held if _start(of) in starts}
        for before, of in pairwise(steps):
            if of.opname in LOADS and of.argval in MUTATORS and before.opname in LOADS | GLOBALS:
                names.add(before.argval)
    return names


def _start(of: dis.Instruction) -> tuple[int | None, int | None]:
    index = of.positions
    return (None, None) if index is None else (index.lineno, index.col_offset)


def names_used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of what a function takes from outside and does not change itself."""
    written = names_written(function.__code__)
    for code in inner(function.__code__):
        steps, modules = instructions(code), {}
        for index, of in enumerate(steps):
            value, path = _named(function, steps, index, modules), str(of.argval)
            for after in steps[index + 1 :]:
                if not isinstance(value, ModuleType) or after.opname not in LOADS:
                    break
                path, value = f"{path}.{after.argval}", getattr(value, after.argval, MISSING)
            if value is not MISSING and of.argval not in written:
                yield path, value


def _named(
    function: FunctionType,
    steps: Sequence[dis.Instruction],
    index: int,
    modules: dict[str, Any],
) -> Any:
    """What an instruction takes from outside the function; `modules` are those imported inside."""
    of = steps[index]
    if of.opname in GLOBALS:
        return function.__globals__.get(of.argval, MISSING)
    if of.opname == "IMPORT_NAME":
        modules[IMPORTED] = _module(of.argval, steps[index - 2].argval, function)
        after = steps[index + 1]
        if after.opname.startswith("STORE"):
            modules[after.argval] = modules[IMPORTED]
    if of.opname == "IMPORT_FROM":
        return getattr(modules.get(IMPORTED), of.argval, MISSING)
    return modules.get(of.argval, MISSING) if of.opname.startswith("LOAD_FAST") else MISSING


def _module(name: str, level: int, function: FunctionType) -> ModuleType | None:
    """A module that a function imports."""
    package = function.__globals__.get("__package__") or ""
    try:
        full = importlib.util.resolve_name("." * level + name, package)
        importlib.import_module(full)
        return sys.modules[full]
    except FAILURES:  # of a module's own code
        return None
