"""`import datassay` costs milliseconds: what is heavy is loaded where it is used."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = (
    *("data", "models", "collect", "train", "score", "act", "polynomial", "complexity"),
    *("report", "lm", "estimators", "commands"),
)
HEAVY = {"torch", "plotly", "sklearn", "scipy", "pandas", "pyarrow", "numpy", "rich", "jinja2"}
METHODS = ("purify", "partition", "weigh", "sample", "polynomial", "complexity")
OF_STEPS = (f"{step}.settings" for step in ("data", "collect", "score", "act"))
OF_METHODS = (f"methods.{method}.settings" for method in METHODS)
SETTINGS = [(f"datassay.{home}", HEAVY) for home in ("train.recipe", *OF_STEPS, *OF_METHODS)]
# Generous: of the processor, which others may be using too; usually 0.05 s.
MOST_SECONDS = 2.0
SCRIPT = """
import sys, time
start = time.process_time()
import {module}
print(time.process_time() - start, *sys.modules)
"""


@pytest.mark.parametrize(
    ("module", "light"), [("datassay", HEAVY), ("datassay.commands", HEAVY - {"rich"}), *SETTINGS]
)
def test_importing_loads_nothing_heavy(module, light):
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, *modules = out.split()
    assert not {name.partition(".")[0] for name in modules} & light
    assert float(seconds) < MOST_SECONDS or module != "datassay"


def test_a_name_is_the_function_where_a_module_has_it_and_a_pass_imports_no_compiler():
    line = """
import sys
import datassay.score.leave_one_out, datassay.methods.purify.loop, datassay.collect.form
from datassay.score import leave_one_out
from datassay.act import purify
import datassay.collect.settings as of_collect, datassay.score.index.build as of_index
import datassay as da
assert da.collect.settings is of_collect and callable(of_index.index)
assert callable(leave_one_out) and callable(purify) and callable(da.collect)
assert da.models.build_model is da.build_model  # a step is there without an import of its own
train, val = da.load("digits")
lin = da.collect(da.build_model("mlp:width=4", train), train.subset(range(20)))
da.label_issues(da.collect(da.build_model("mlp:width=4", train), train.subset(range(90))))
da.train.retrain(da.build_model("mlp:width=4", train), train.subset(range(9)), lr=0.1, steps=2)
print("torch._dynamo" in sys.modules, len(lin))"""
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "20"]


@pytest.mark.parametrize("step", ["", *(f".{s}" for s in STEPS)])
def test_a_face_hands_on_its_public_names(step):
    module_named = importlib.import_module(f"datassay{step}")
    assert dir(module_named) == sorted(module_named.__all__)
    assert not step or list(module_named.__all__) == sorted(module_named.__all__)
    for name in module_named.__all__:
        assert getattr(module_named, name) is not None
    with pytest.raises(AttributeError, match=f"datassay{step}' has no attribute 'nope'"):
        _ = module_named.nope
    # A typed package re-exports to a type checker only what `as` names again.
    tree = ast.parse(Path(str(module_named.__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


ROOT = Path(__file__).parent.parent
READ = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
READ += [file for folder in ("bench", "examples") for file in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("file", READ, ids=lambda f: str(f.relative_to(ROOT)))
def test_users_import_from_faces(file):
    """What a user reads imports from `datassay` and its steps, not from the files behind them."""
    text = file.read_text(encoding="utf-8")
    assert not re.findall(r"^\s*(?:from|import) (datassay\.\w+\.[\w.]+)", text, flags=re.MULTILINE)
