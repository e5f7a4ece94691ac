"""Describes what a piece of Python code does and what it names, from its compiled form.

The compiled form is what runs, also where the source changed since or was never a file (notebooks).
Comments, spaces, line numbers and docstrings leave no trace in it.
"""

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
    """Return the compiled instructions of a function, without those of functions inside it."""
    return tuple(dis.get_instructions(code))


def nested_codes(code: CodeType) -> list[CodeType]:
    """Return the code objects of a function and of all functions defined inside it."""
    codes = [code]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes += nested_codes(constant)
    return codes


def describe_code(code: CodeType) -> list[object]:
    """Return JSON values that identify a function's code; comments and layout do not count."""
    lines = [
        [i.opname, _describe_argument(i)]
        for i in instructions(code)
        if i.opname not in {"CACHE", "NOP"}
    ]
    counts = [code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount]
    names = [ADDRESS.sub("#", name) for name in code.co_varnames]
    # 0x2C: *args, **kwargs, generator; the other flags say how it was compiled.
    return [lines, counts, names, code.co_flags & 0x2C, code.co_exceptiontable.hex()]


def _describe_argument(instruction: dis.Instruction) -> object:
    """Return a bytecode instruction's argument as JSON values, equal in every process."""
    value = instruction.argval
    if isinstance(value, CodeType):
        return describe_code(value)
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, str) and instruction.opname != "LOAD_CONST":
        return ADDRESS.sub("#", value)
    return f"{type(value).__name__} {value!r}"


def attributes_read(code: CodeType) -> set[str]:
    """Return the names of the attributes that a function reads, of whatever object."""
    return {i.argval for c in nested_codes(code) for i in instructions(c) if i.opname in LOADS}


def names_written(code: CodeType) -> set[str]:
    """Return the variables that a function assigns, or whose items or attributes it changes."""
    names: set[str] = set()
    for nested in nested_codes(code):
        steps = instructions(nested)
        names |= {step.argval for step in steps if step.opname in STORES}
        # `a.b[c] = d`: the target starts where its container starts.
        changed_items = (step for step in steps if step.opname in ITEMS)
        starts = {_find_source_start(step) for step in changed_items} - {(None, None)}
        loads = [step for step in steps if step.opname in LOADS | GLOBALS]
        names |= {step.argval for step in loads if _find_source_start(step) in starts}
        for owner, op in pairwise(steps):
            if op.opname in LOADS and op.argval in MUTATORS and owner.opname in LOADS | GLOBALS:
                names.add(owner.argval)
    return names


def _find_source_start(instruction: dis.Instruction) -> tuple[int | None, int | None]:
    """Return the line and column of an instruction's source; None where unknown."""
    positions = instruction.positions
    if positions is None:
        return (None, None)
    return (positions.lineno, positions.col_offset)


def names_used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of each global or import that a function reads only."""
    written = names_written(function.__code__)
    for code in nested_codes(function.__code__):
        steps = instructions(code)
        modules = {}
        for index, step in enumerate(steps):
            value = _load_outside_value(function, steps, index, modules)
            path = str(step.argval)
            for load in steps[index + 1 :]:
                if not isinstance(value, ModuleType) or load.opname not in LOADS:
                    break
                path = f"{path}.{load.argval}"
                value = getattr(value, load.argval, MISSING)
            if value is not MISSING and step.argval not in written:
                yield path, value


def _load_outside_value(
    function: FunctionType, steps: Sequence[dis.Instruction], index: int, modules: dict[str, Any]
) -> Any:
    """Return the global or imported value that an instruction loads, else MISSING."""
    # `modules` holds the function's imports by local name, and is filled on the way.
    step = steps[index]
    if step.opname in GLOBALS:
        return function.__globals__.get(step.argval, MISSING)
    if step.opname == "IMPORT_NAME":
        level = steps[index - 2].argval  # leading dots of a relative import
        modules[IMPORTED] = _import_named(step.argval, level, function)
        next_step = steps[index + 1]
        if next_step.opname.startswith("STORE"):
            modules[next_step.argval] = modules[IMPORTED]
    if step.opname == "IMPORT_FROM":
        return getattr(modules.get(IMPORTED), step.argval, MISSING)
    if step.opname.startswith("LOAD_FAST"):
        return modules.get(step.argval, MISSING)
    return MISSING


def _import_named(name: str, level: int, function: FunctionType) -> ModuleType | None:
    """Import and return a module that a function imports; None where that fails."""
    package = function.__globals__.get("__package__") or ""
    try:
        full = importlib.util.resolve_name("." * level + name, package)
        importlib.import_module(full)
        return sys.modules[full]
    except FAILURES:  # of a module's own code
        return None
