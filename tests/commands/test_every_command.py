"""What holds for every command: its help, its folder of results, and that it can be interrupted."""

import re
from pathlib import Path

import pytest

from datassay.commands.app import commands
from datassay.commands.options import check_needs, declared_of
from datassay.errors import SettingError
from datassay.setting import default_of, settings_of
from helpers.command_line import contents, invoke, refusals

COMMANDS = {command.name: command for command in commands()}


def unread():
    """Settings of a command that would not be read, and the two options that do not go together."""
    for command in COMMANDS.values():
        options = declared_of(command)
        usual = {name: default_of(cls, name) for name, (cls, _) in options.items()}
        for name, (_, spec) in options.items():
            needs = {need.lstrip("!").partition("=")[0]: need for need in spec.needs.split()}
            fitting = {o: n.partition("=")[2].partition("|")[0] for o, n in needs.items()}
            fitting = {o: v for o, v in fitting.items() if v and needs[o][0] != "!"}
            for other, need in needs.items():
                if other in options:
                    allowed = need.partition("=")[2].partition("|")[0]
                    wrong = (allowed or "3") if need[0] == "!" else "other" if allowed else 0
                    values = {**usual, **fitting, name: not usual[name], other: wrong}
                    names = spec.flag(name), options[other][1].flag(other)
                    yield pytest.param(command, values, *names, id=f"{command.name} {names}")


@pytest.mark.parametrize(("command", "values", "own", "other"), unread())
def test_an_option_that_would_not_be_read_is_refused(command, values, own, other):
    with pytest.raises(SettingError, match=rf"^{own} must (not )?come with {other}[^;]*; got "):
        check_needs(values, declared_of(command))


test_such_options_cost_one_line = refusals({
    "run iris --epsilon=-3":
        "--epsilon must come with --adversarial; got -3.0 without it. Leave --epsilon out.",
    "polynomial iris --batch-size=-3":
        "--batch-size must come with --solver batched; got -3 with exact. Leave --batch-size out.",
    "polynomial iris --degree 3 --model fit.safetensors":
        "--degree must not come with --model; got 3 with fit.safetensors. Leave --degree out.",
})  # fmt: skip


def test_options_need_options_that_there_are():
    known = {name for c in COMMANDS.values() for cls in c.groups for name in settings_of(cls)}
    needs = [
        need.lstrip("!").partition("=")[0]
        for command in COMMANDS.values()
        for cls in command.groups
        for spec in settings_of(cls).values()
        for need in spec.needs.split()
    ]
    assert len(needs) > 40 and set(needs) <= known


# `apply` reads its decisions first.
@pytest.mark.parametrize("name", [n for n, c in COMMANDS.items() if c.has_out and n != "apply"])
def test_an_unwritable_out_is_refused_before_any_work(here, name):
    Path("taken").write_text("a file, not a folder")
    given = {"sample": ["runge"], "report": ["a", "b"], "export": ["a", "--to", "datalab"]}
    given |= {"predict": ["iris", "a"]}
    given |= {"lab": ["weight-decay"], "example": []}
    given |= {name: ["iris", "--weights", "none.pt"] for name in ("explain", "index")}
    result = invoke(name, *given.get(name, ["iris"]), "--out", "taken/deeper")
    assert result.exit_code == 2
    assert re.match(r"Error: .*taken/deeper", result.stderr), result.stderr
    assert contents(here) == {"taken": b"a file, not a folder"}
