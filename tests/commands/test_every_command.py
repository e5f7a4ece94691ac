"""What holds for every command: its help, its folder of results, and that it can be interrupted."""

import re
from pathlib import Path

import pytest

from datassay.commands.app import commands
from helpers.command_line import contents, invoke, succeed

COMMANDS = {command.name: command for command in commands()}


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


def test_score_has_no_option_that_needs_trained_networks():
    text = succeed("score", "--help-all").output
    others = ("--check", "--curve-seeds", "--attribution-at", "--budget")
    assert not [option for option in others if option in text]
    assert "--attribution" in text and "--adversarial" in text
