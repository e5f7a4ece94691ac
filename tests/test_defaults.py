"""Each default stands once: public functions and estimators take it from their step's settings."""

import ast
import inspect
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import datassay

ROOT = Path(datassay.__file__).parent
FACES = ("data", "collect", "train", "score", "act", "polynomial", "complexity", "estimators")
STEPS = {
    **{name: name for name in ("data", "collect", "train", "score", "polynomial", "complexity")},
    **{f"act.{name}": f"act.{name}" for name in ("purify", "partition", "weigh", "sample")},
    "estimators.purifier": "act.purify",
    "estimators.partitioned": "act.partition",
    "estimators.local_variance": "act.weigh",
    "estimators.polynomial": "polynomial",
    "estimators.monomial_features": "polynomial",
}
# The same word for something else: ranges to search, or a method's own setting.
OTHERS = {
    ("weighting_grid", "n_neighbors"),
    ("search_weights", "n_neighbors"),
    ("search_weights", "max_ratio"),
    ("lissa", "batch_size"),
    ("tracin", "lr"),
    ("l2_activation", "degree"),
    ("minimax_activation", "degree"),
    ("routable_mixture", "task"),
    ("complexity_table", "store"),
}


def settings_of(step):
    """The settings classes that a step's module defines or inherits from."""
    module = import_module(f"datassay.{step}.settings")
    return [c for c in vars(module).values() if isinstance(c, type) and is_dataclass(c)]


def public():
    """Public functions and estimators, and the step whose settings they share."""
    for face in FACES:
        module = import_module(f"datassay.{face}")
        for name in module.__all__:
            thing = inspect.unwrap(getattr(module, name))
            home = thing.__module__.removeprefix("datassay.") if callable(thing) else ""
            steps = [STEPS[s] for s in STEPS if home == s or home.startswith(f"{s}.")]
            is_estimator = inspect.isclass(thing) and face == "estimators"
            if steps and (inspect.isfunction(thing) or is_estimator):
                yield pytest.param(thing, steps[0], id=name)


def default_sources(thing):
    """Parameter → its default as the source has it."""
    function = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    file = Path(inspect.getsourcefile(function))
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == function.__code__.co_firstlineno:
                own, given = node.args.args, node.args.defaults
                pairs = [*zip(own[len(own) - len(given) :], given, strict=True)]
                pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                return {a.arg: d for a, d in pairs if d is not None}
    raise AssertionError(f"{thing} was not found in {file}")


@pytest.mark.parametrize(("thing", "step"), public())
def test_a_default_is_that_of_the_settings(thing, step):
    function = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    sources = default_sources(thing)
    for name, parameter in inspect.signature(function).parameters.items():
        values = [getattr(c, name) for c in settings_of(step) if hasattr(c, name)]
        if not values or parameter.default is inspect.Parameter.empty:
            continue
        if (thing.__name__, name) in OTHERS:
            continue
        assert any(parameter.default is v or parameter.default == v for v in values), name
        if name != "seed":  # what it seeds differs from function to function
            assert isinstance(sources[name], ast.Attribute), f"{name}: {ast.unparse(sources[name])}"


@pytest.mark.parametrize("step", sorted(set(STEPS.values())))
def test_settings_are_plain_frozen_values_with_words(step):
    for settings in settings_of(step):
        made = settings()
        for field in fields(settings):
            assert field.default is not MISSING
            assert isinstance(field.default, int | float | str | None)
            owner = next(c for c in settings.__mro__ if field.name in inspect.get_annotations(c))
            assert f"\n    {field.name}: " in inspect.getdoc(owner)
        with pytest.raises(AttributeError):
            setattr(made, fields(settings)[0].name, 1)


def test_settings_load_nothing_heavy():
    lines = "; ".join(f"import datassay.{step}.settings" for step in sorted(set(STEPS.values())))
    heavy = "print({'torch', 'numpy', 'pyarrow', 'sklearn'} & set(sys.modules))"
    command = [sys.executable, "-c", f"import sys; {lines}; {heavy}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
