"""Each default stands once: functions, estimators and options take it from a step's settings."""

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module

import pytest

import datassay
from datassay.commands import app
from datassay.commands.app import COMMANDS
from datassay.score.settings import DEFAULT_TOP
from datassay.setting import settings_of as options_of
from helpers.command_line import make_commands, succeed

PUBLIC_MODULES = (
    "data", "collect", "train", "score", "act", "polynomial", "complexity", "estimators",
)  # fmt: skip
METHODS = ("purify", "partition", "weigh", "sample", "polynomial", "complexity")
STEPS = {
    **{name: name for name in ("data", "collect", "train", "score")},
    **{f"methods.{name}": f"methods.{name}" for name in METHODS},
    "act.remove.summarize": "act",
}
# The same word for something else: ranges to search, or a method's own setting.
OTHERS = {
    ("search_weights", "n_neighbors"),
    ("search_weights", "max_ratio"), ("lissa", "batch_size"), ("loss_at", "precision"),
    ("tracin", "lr"), ("l2_activation", "degree"), ("minimax_activation", "degree"),
    ("routable_mixture", "task"), ("complexity_table", "store"),
}  # fmt: skip


def settings_of(step):
    """The settings classes of a step, and those they inherit from."""
    module = import_module(
        "datassay.train.recipe" if step == "train" else f"datassay.{step}.settings"
    )
    classes = [c for c in vars(module).values() if isinstance(c, type) and is_dataclass(c)]
    return [c for c in classes if step != "train" or c.__name__ == "Descent"]


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
    **{f"{name}Settings": (f"methods.{name.lower()}",)
       for name in ("Purify", "Partition", "Weigh", "Sample", "Polynomial")},
    **dict.fromkeys(("CurveSettings", "TeacherSettings"), ("methods.complexity",)),
    "KeepSettings": ("act",),
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
