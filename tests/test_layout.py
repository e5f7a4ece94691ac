"""The data's way has one direction: a step imports only earlier steps."""

import ast
from pathlib import Path

import pytest

import datassay

ROOT = Path(datassay.__file__).parent
BESIDE = ["polynomial", "complexity"]
STEPS = [
    "errors",
    "progress",
    "results",
    "arguments",
    "machine",
    "data",
    "models",
    "collect",
    "score",
    "act",
    *BESIDE,
    "report",
    "lab",
    "jobs",
]
FILES = sorted(ROOT.rglob("*.py"))


def room(path: str) -> str:
    return path.split(".")[1] if "." in path else ""


def imported(tree: ast.AST) -> set[str]:
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    return {room(m) for m in modules if m.startswith("datassay.")}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_step_imports_only_earlier_steps(file):
    here = file.relative_to(ROOT).parts[0].removesuffix(".py")
    rooms = imported(ast.parse(file.read_text()))
    if here in STEPS:
        assert rooms <= set(STEPS[: STEPS.index(here) + 1])
    assert not rooms & {"cli", "estimators"} or here in {
        "cli",
        "estimators",
        "__main__",
        "__init__",
    }


def test_few_public_names():
    assert len(datassay.__all__) <= 26
    assert all(getattr(datassay, name) is not None for name in datassay.__all__)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_small(file):
    assert len(file.read_text().splitlines()) <= 400


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_functions_stay_small(file):
    tree = ast.parse(file.read_text())
    for f in ast.walk(tree):
        if isinstance(f, ast.FunctionDef):
            body = f.body[1:] if ast.get_docstring(f) else f.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 40, f"{f.name} has {length} lines besides its docstring"
