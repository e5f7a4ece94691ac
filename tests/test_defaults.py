"""Each default stands once: functions, estimators and options take it from a step's settings."""

import ast
import inspect
import re
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module

import pytest

import datassay
from datassay.commands import app
from datassay.commands.app import COMMANDS
from datassay.score.influence.exact_blocks import auto_damping
from datassay.score.influence.trained_network import PLAIN, SOFTENED
from datassay.score.settings import DEFAULT_TOP, Influence
from datassay.setting import sentence_of
from datassay.setting import settings_of as options_of
from helpers.command_line import make_commands, succeed

PUBLIC_MODULES = (
    "data", "collect", "train", "score", "act", "polynomial", "complexity", "estimators",
)  # fmt: skip
STEPS = {
    **{name: name for name in ("data", "collect", "train", "score", "polynomial", "complexity")},
    **{f"act.{name}": f"act.{name}" for name in ("purify", "partition", "weigh", "sample")},
    "act.remove.summarize": "act.remove",
    "estimators.purifier": "act.purify",
    "estimators.partitioned": "act.partition",
    "estimators.local_variance": "act.weigh",
    "estimators.polynomial": "polynomial",
    "estimators.monomial_features": "polynomial",
}
# The same word for something else: ranges to search, or a method's own setting.
OTHERS = {
    ("search_weights", "n_neighbors"),
    ("search_weights", "max_ratio"), ("lissa", "batch_size"), ("loss_at", "precision"),
    ("tracin", "lr"), ("l2_activation", "degree"), ("minimax_activation", "degree"),
    ("routable_mixture", "task"), ("complexity_table", "store"),
}  # fmt: skip


# Where a step's settings stand, and which class of that module they are; else in its settings.py.
CLASSES = {
    "train": ("train.recipe", "Descent"), "act.purify": ("act.settings", "Removal"),
    "act.partition": ("act.settings", "Division"), "act.weigh": ("act.settings", "Weighting"),
    "act.sample": ("act.settings", "Sampling"), "act.remove": ("act.settings", "Keeping"),
}  # fmt: skip


def settings_of(step):
    """The settings classes of a step, and those they inherit from."""
    home, only = CLASSES.get(step, (f"{step}.settings", None))
    module = import_module(f"datassay.{home}")
    classes = [c for c in vars(module).values() if isinstance(c, type) and is_dataclass(c)]
    return [c for c in classes if only in {None, c.__name__}]


def public():
    """Public functions and estimators, and the step whose settings they share."""
    for module_named in PUBLIC_MODULES:
        module = import_module(f"datassay.{module_named}")
        for name in module.__all__:
            thing = inspect.unwrap(getattr(module, name))
            home = thing.__module__.removeprefix("datassay.") if callable(thing) else ""
            steps = [STEPS[s] for s in STEPS if home == s or home.startswith(f"{s}.")]
            is_estimator = inspect.isclass(thing) and module_named == "estimators"
            if steps and (inspect.isfunction(thing) or is_estimator):
                function = inspect.unwrap(thing.__init__ if is_estimator else thing)
                yield pytest.param(function, name, steps[0], id=name)


def source_of(thing):
    """The syntax tree of a function or a class."""
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


@pytest.mark.parametrize(("function", "name", "step"), public())
def test_a_default_is_that_of_the_settings(function, name, step):
    given = source_of(function).args
    own = given.args[len(given.args) - len(given.defaults) :]
    pairs = [*zip(own, given.defaults), *zip(given.kwonlyargs, given.kw_defaults)]  # noqa: B905
    sources = {a.arg: d for a, d in pairs if d is not None}
    for argument, parameter in inspect.signature(function).parameters.items():
        values = [getattr(c, argument) for c in settings_of(step) if hasattr(c, argument)]
        if not values or argument not in sources or (name, argument) in OTHERS:
            continue
        assert any(parameter.default is v or parameter.default == v for v in values), argument
        if argument != "seed":  # what it seeds differs from function to function
            assert isinstance(sources[argument], ast.Attribute), ast.unparse(sources[argument])


@pytest.mark.parametrize("step", sorted(set(STEPS.values())))
def test_settings_are_plain_frozen_values(step):
    for settings in settings_of(step):
        for field in fields(settings):
            assert isinstance(field.default, int | float | str | None)
        with pytest.raises(AttributeError):
            setattr(settings(), fields(settings)[0].name, 1)


# Whose parameters the options of a command's settings are; of explain and index "score" does not
# say which damping is meant.
STEPS_OF = {
    **dict.fromkeys(("TrainingSettings", "RunSettings", "ScoreSettings", "CheckSettings"),
                    ("collect", "train", "score")),
    **{f"{name}Settings": (f"act.{name.lower()}",)
       for name in ("Purify", "Partition", "Weigh", "Sample")},
    **dict.fromkeys(("CurveSettings", "TeacherSettings"), ("complexity",)),
    "PolynomialSettings": ("polynomial",),
    "KeepSettings": ("act.remove",),
    **dict.fromkeys(("DataInputs", "NoiseInputs", "AdversarialInputs", "TrustSettings",
                     "LabSettings", "ApplySettings", "ExampleSettings"), ("data",)),
    **dict.fromkeys(("ExplainSettings", "IndexSettings", "PlanInputs", "ExportSettings",
                     "ReportSettings", "ViewSettings", "PredictSettings"), ()),
}  # fmt: skip
ALIASES = {
    "noise_kind": "kind", "rule": "stop", "blocks": "n_blocks", "components": "n_components",
    "teachers": "n_teachers", "students": "n_students", "attribution": "measure",
}  # fmt: skip
DIFFERENT = {
    "beyond": "the page draws where removal would have gone on; a function need not pay for that",
    "students": "a first answer within minutes; Algorithm 2 asks for 100",
    "attribution": "a run leaves effects out by itself where they take minutes",
    "top": "a page shows a few samples each; a function returns all that fit",
}
GROUPS = {group.__name__: group for command in COMMANDS for group in command.groups}
OPTIONS = [(group, name) for group in GROUPS.values() for name in options_of(group)]


def written(group, name):
    """The class that has a settings field, and the field's default as the source has it."""
    owner = next(c for c in group.__mro__ if name in inspect.get_annotations(c))
    (call,) = (
        node.value
        for node in source_of(owner).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name
    )
    return owner, call.args[0]


def option_ids(value):
    return value if isinstance(value, str) else value.__name__


@pytest.mark.parametrize(("group", "name"), OPTIONS, ids=option_ids)
def test_an_option_has_the_default_of_its_step(group, name):
    parameter, default = ALIASES.get(name, name), group.__dataclass_fields__[name].default
    classes = [c for step in STEPS_OF[group.__name__] for c in settings_of(step)]
    values = [getattr(c, parameter) for c in classes if hasattr(c, parameter)]
    if name in DIFFERENT and values:
        assert default not in values
    elif values:
        assert all(default == value for value in values)
        source = ast.unparse(written(group, name)[1])
        assert source in {f"{c.__name__}.{parameter}" for c in classes}


def test_no_two_commands_write_the_same_default():
    sources = {
        (owner, name): node for group, name in OPTIONS for owner, node in [written(group, name)]
    }
    literals = [
        name
        for (_, name), node in sources.items()
        if isinstance(node, ast.Constant) and node.value is not None
    ]
    assert len(literals) == len(set(literals))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_command_line_shows_and_uses_the_defaults_of_the_settings(command, monkeypatch):
    calls = []
    monkeypatch.setattr(type(command), "start", lambda self, given, out: calls.append((given, out)))
    options = {o.name: o for o in make_commands(app).commands[command.name].params}
    required = [o for o in options.values() if o.required]
    words = [w for o in required for w in (*o.opts[:1] * (o.param_type_name == "option"), "given")]
    succeed(command.name, *words)
    ((given, out),) = calls
    assert str(out) == command.out
    for group in command.groups:
        for name, spec in options_of(group).items():
            default, option = group.__dataclass_fields__[name].default, options[name]
            if default is MISSING:
                assert option.required
                continue
            assert given.get(name, default) == default  # what is not given is the field's
            message = str(option.default) if option.show_default and option.default else ""
            assert text_of(default, spec) == (
                option.show_default if isinstance(option.show_default, str) else message
            )


def text_of(default, spec):
    """The default of a settings field as `--help` is to print it."""
    if spec.show is not None or spec.argument:
        return spec.show or ""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return "" if default in {None, False} else str(default)


# Options of explain and index that are not parameters of the function, and those whose default is
# another one, which their help says.
NO_PARAMETER = {"queries", "model", "weights", "index", "command", "append", "location", "address"}
OWN_DEFAULT = {
    ("explain", "measure"): ("auto", "margin of classes, the output of one target, else the loss"),
    ("explain", "top"): (DEFAULT_TOP, "Samples stored per query"),
    ("explain", "device"): ("cpu", "cpu, cuda"),
    ("index", "device"): ("cpu", "cpu, cuda"),
}
FUNCTIONS = {"explain": datassay.influence, "index": datassay.index}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_at_trained_weights_have_the_defaults_of_their_function(name):
    known = inspect.signature(inspect.unwrap(FUNCTIONS[name])).parameters
    settings = next(c for c in COMMANDS if c.name == name).settings
    options = options_of(settings)
    assert {"loss", "curvature", "damping", "parameters", "precision", "seed"} <= options.keys()
    for option in options.keys() - NO_PARAMETER - ({"workers"} if name == "index" else set()):
        own = settings.__dataclass_fields__[option].default
        other = known[{"keep_as": "keep"}.get(option, option)].default
        if (name, option) in OWN_DEFAULT:
            assert own == OWN_DEFAULT[name, option][0] != other
            assert OWN_DEFAULT[name, option][1] in options[option].help
        else:
            assert own == other, option


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_auto_stands_for_is_said_as_it_is(name):
    options = options_of(next(c for c in COMMANDS if c.name == name).settings)
    number = r"([\d.]+)"
    pattern = rf"\({number} where it is exact, {number}/n with fewer than {number} samples, "
    text = f"{sentence_of(options['damping'].of)} {options['damping'].help}"
    most, per, enough, factored = re.search(
        rf"{pattern}{number} where it is factored", text
    ).groups()
    for n in (10, 500, 1000, 5000):
        exact = max(float(most), float(per) / n if n < float(enough) else 0)
        assert auto_damping(n, is_exact=True) == exact
        assert auto_damping(n, is_exact=False) == float(factored.rstrip("."))
    if name == "explain":
        assert f"absolute, auto {Influence.damping:g}" in text
        assert "(default: float32; with --curvature whole float64)" in options["precision"].help
    else:
        assert f"auto: {SOFTENED:g} of classes, {PLAIN:g} of next" in options["temperature"].help


def test_options_say_what_the_docstrings_of_functions_say():
    shown = {
        name: sentence_of(spec.of)
        for group in GROUPS.values()
        for name, spec in options_of(group).items()
        if spec.of
    }
    assert len(shown) > 15 and all(text.endswith(".") for text in shown.values())
    text = " ".join(succeed("explain", "--help-all").output.split())
    assert shown["damping"] in text and "of:datassay" not in text
