"""A command is a folder: found, with options read off its settings, its page printed in short."""

import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from datassay.commands.app import commands
from datassay.commands.options import add_command

TOY = {
    "__init__": '"""A toy."""',
    "command": """
from dataclasses import dataclass
from datassay.commands.command import Command
from datassay.setting import setting

@dataclass(frozen=True)
class ToySettings:
    times: int = setting(2, "How often.")
    seed: int = setting(0, "Of nothing.")

COMMAND = Command(
    name="toy", help="Count.", settings=ToySettings, home="datassay.commands.toy", out="toys",
    order=1,
)
""",
    "job": """
def run(train, val, settings, progress):
    return settings.times * len(train)
""",
    "page": """
from datassay.report.page import Page

def page(findings):
    return Page(brand="toy", title="t", lead="l", facts={}, answer=(f"Counted {findings}.",))
""",
    "files": """
FILES = {"count.json": "the count"}

def files(findings, page):
    return {"count.json": str(findings)}
""",
}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The command line with one more folder among its commands."""
    folder = tmp_path / "more" / "toy"
    folder.mkdir(parents=True)
    for name, text in TOY.items():
        (folder / f"{name}.py").write_text(text)
    package = sys.modules["datassay.commands"]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder.parent)])
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    for command in commands():
        add_command(app, command)
    yield app
    for name in [name for name in sys.modules if name.startswith("datassay.commands.toy")]:
        del sys.modules[name]


def test_a_new_command_is_one_folder(toy, tmp_path):
    result = CliRunner().invoke(toy, ["toy", "iris", "--times", "3"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["Counted 360.", "toys/index.html"]
    assert json.loads((tmp_path / "toys" / "count.json").read_text()) == 360
    assert "--times" in CliRunner().invoke(toy, ["toy", "--help"]).output


def test_commands_come_in_their_order(toy):
    names = [command.name for command in commands()]
    assert names[:4] == ["toy", "run", "score", "summarize"]


def test_score_has_no_option_that_needs_trained_networks(toy):
    text = CliRunner().invoke(toy, ["score", "--help"]).output
    assert not [o for o in ("--check", "--curve-seeds", "--attribution-at", "--plan") if o in text]
    assert "--attribution" in text and "--adversarial" in text
