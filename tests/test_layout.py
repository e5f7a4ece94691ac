"""The house: one way for the data, small folders, a folder a command."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import datassay

ROOT = Path(datassay.__file__).parent
STEPS = [
    *("errors", "plugins", "rules", "progress", "saving", "results", "machine", "face", "setting"),
    "stats",
    *("data", "models", "collect", "train", "score", "act"),
    *("polynomial", "complexity", "report", "lm", "lab"),
]
SHELLS = {"commands", "estimators", "__main__", "__init__"}
MOST_MODULES = 15
FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = sorted({file.parent for file in FILES})
files = pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
folders = pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(ROOT)))


def room(path: str) -> str:
    return path.split(".")[1] if "." in path else ""


def imported(tree: ast.AST) -> set[str]:
    """Dotted names of the modules of this library that a file imports anywhere in it."""
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    return {m for m in modules if m.startswith("datassay.")}


@files
def test_a_step_imports_only_earlier_steps(file):
    here = file.relative_to(ROOT).parts[0].removesuffix(".py")
    rooms = {room(m) for m in imported(ast.parse(file.read_text()))}
    if here in STEPS:
        assert rooms <= set(STEPS[: STEPS.index(here) + 1])
    assert not rooms & {"commands", "estimators"} or here in SHELLS


@files
def test_a_command_imports_no_other_command(file):
    parts = file.relative_to(ROOT).parts
    if len(parts) > 2 and parts[0] == "commands":
        others = {m.split(".")[2] for m in imported(ast.parse(file.read_text()))
                  if m.startswith("datassay.commands.")}  # fmt: skip
        commands = {p.name for p in (ROOT / "commands").iterdir() if p.is_dir()}
        assert others & commands <= {parts[1]}


@files
def test_only_commands_read_options(file):
    names = {n.split(".")[0] for n in _imports(file)}
    assert "typer" not in names or file.relative_to(ROOT).parts[0] == "commands"


def _imports(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)} | {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }


@folders
def test_folders_stay_small(folder):
    modules = [f for f in FILES if f.parent == folder and not f.stem.startswith("__")]
    assert len(modules) <= MOST_MODULES


@files
def test_no_file_repeats_its_folder(file):
    assert file.stem != file.parent.name
    assert not file.stem.startswith(f"{file.parent.name}_")


def test_no_imports_in_a_circle():
    known = {_dotted(f): f for f in FILES}
    # A circle ends in graphlib's CycleError, which names it.
    order = TopologicalSorter({name: _arrows(name, file, known) for name, file in known.items()})
    assert set(order.static_order()) == set(known)


def _dotted(file: Path) -> str:
    parts = ("datassay", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def _arrows(name: str, file: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports, wherever in the file; faces hand on and are left out."""
    targets = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("datassay"):
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                targets.add(deeper if deeper in known else node.module)
    return {
        t for t in targets if t != name and known.get(t, Path("__init__.py")).stem != "__init__"
    }


def test_few_public_names():
    assert len(datassay.__all__) <= 28
    assert all(getattr(datassay, name) is not None for name in datassay.__all__)


@files
def test_files_stay_small(file):
    assert len(file.read_text().splitlines()) <= 400


@files
def test_functions_stay_small(file):
    tree = ast.parse(file.read_text())
    for f in ast.walk(tree):
        if isinstance(f, ast.FunctionDef):
            body = f.body[1:] if ast.get_docstring(f) else f.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 40, f"{f.name} has {length} lines besides its docstring"


def test_tests_mirror_the_source():
    tests = Path(__file__).parent
    files = [f for f in tests.rglob("test_*.py") if "helpers" not in f.parts]
    folders = {f.parent.relative_to(tests) for f in files}
    assert not [str(f) for f in folders - {Path("attack")} if not (ROOT / f).is_dir()]
    names = {name for f in tests.rglob("*.py") for name in _imports(f)}
    assert not [name for name in names if name.split(".")[-1].startswith("test_")]
