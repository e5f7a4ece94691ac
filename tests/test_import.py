"""`import datassay` costs milliseconds: what is heavy is loaded where it is used."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import datassay

HEAVY = {"torch", "plotly", "sklearn", "scipy", "pandas", "pyarrow", "numpy", "rich", "jinja2"}
# Generous: a busy machine takes ten times the usual 0.05 s.
MOST_SECONDS = 2.0
SCRIPT = """
import sys, time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start, *sys.modules)
"""


def loaded_by(module):
    """Seconds and top-level modules of one import in a fresh process."""
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, *modules = out.split()
    return float(seconds), {name.partition(".")[0] for name in modules}


def test_importing_the_package_loads_nothing_heavy():
    seconds, modules = loaded_by("datassay")
    assert not modules & HEAVY
    assert seconds < MOST_SECONDS


def test_importing_the_command_line_loads_no_numbers():
    _, modules = loaded_by("datassay.commands")
    assert not modules & (HEAVY - {"rich"})


def test_version_is_the_installed_one():
    assert datassay.__version__ == version("datassay")


def test_dir_lists_the_public_names():
    assert dir(datassay) == sorted(datassay.__all__)
    assert {"load", "collect", "leave_one_out", "label_issues"} <= set(dir(datassay))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'leave_two_out'"):
        _ = datassay.leave_two_out


def test_type_checkers_know_every_name():
    """A typed package re-exports to a checker only what `__all__` holds or `as` names again."""
    tree = ast.parse(Path(datassay.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.name: (node.module or "").removeprefix("datassay.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname or alias.name in datassay.__all__
    }
    assert told == datassay._HOMES
