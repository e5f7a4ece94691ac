"""`import datassay` costs milliseconds: what is heavy is loaded where it is used."""

import ast
import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import datassay

STEPS = (
    *("data", "models", "collect", "train", "score", "act", "polynomial", "complexity"),
    *("report", "lm", "estimators", "commands"),
)
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


@pytest.mark.parametrize("step", STEPS)
def test_a_step_hands_on_its_public_names(step):
    face = importlib.import_module(f"datassay.{step}")
    assert dir(face) == face.__all__ == sorted(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None
    with pytest.raises(AttributeError, match=f"datassay.{step}' has no attribute 'nope'"):
        _ = face.nope


def test_a_name_is_the_function_where_a_module_has_it_too():
    command = (
        "import datassay.score.leave_one_out, datassay.act.purify.loop, datassay.collect.form\n"
        "from datassay.score import leave_one_out\n"
        "from datassay.act import purify\n"
        "from datassay import collect\n"
        "assert callable(leave_one_out) and callable(purify) and callable(collect)"
    )
    subprocess.run([sys.executable, "-c", command], check=True)


def test_type_checkers_know_every_name():
    """A typed package re-exports to a checker only what `as` names again."""
    for step in ("", *(f".{s}" for s in STEPS)):
        file = Path(str(importlib.import_module(f"datassay{step}").__file__))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        (block,) = (node for node in tree.body if isinstance(node, ast.If))
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        assert all(alias.asname == alias.name for node in imports for alias in node.names)


ROOT = Path(__file__).parent.parent
READ = [
    *(ROOT / "bench").rglob("*.py"),
    *(ROOT / "examples").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
]


@pytest.mark.parametrize("file", READ, ids=lambda f: str(f.relative_to(ROOT)))
def test_users_import_from_faces(file):
    """What a user reads imports from `datassay` and its steps, not from the files behind them."""
    text = file.read_text(encoding="utf-8")
    assert not re.findall(r"^\s*(?:from|import) (datassay\.\w+\.[\w.]+)", text, flags=re.MULTILINE)
