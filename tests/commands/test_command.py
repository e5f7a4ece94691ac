"""A new command is one folder: options, files, page and terminal come from it."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from datassay.commands.app import app as datassay_app
from datassay.commands.app import own_commands
from datassay.commands.options import add_command
from helpers import tally
from helpers.pages import Elements
from helpers.tally.command import COMMAND

MOST_FILES = 6


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.callback()(lambda: None)
    add_command(app, COMMAND)
    return lambda *args: CliRunner().invoke(app, ["tally", *args])


def test_it_is_one_folder_of_few_files():
    folder = Path(str(tally.__file__)).parent
    modules = [f for f in folder.glob("*.py") if f.stem != "__init__"]
    assert len(modules) <= MOST_FILES


def test_it_is_found_where_it_lies(monkeypatch):
    """Nothing else is edited: the command line lists the folders beside it."""
    package, folder = sys.modules["datassay.commands"], Path(str(tally.__file__)).parent
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder.parent)])
    names = [command.name for command in own_commands()]
    assert "tally" in names and names[:3] == ["run", "score", "summarize"]
    for name in [name for name in sys.modules if name.startswith("datassay.commands.tally")]:
        del sys.modules[name]


def test_options_are_read_off_the_settings(call):
    shown = call("--help").output
    for text in ("Count the samples", "--fewest", "[default: 10]", "--no-exact", "--only", "--out"):
        assert text in shown
    assert "--command" not in shown and "--target" in shown


def test_it_writes_and_prints_what_its_page_says(call):
    done = call(
        "wine", "--fewest", "40", "--only", "class_0", "--only", "class_2", "--share", "0.5"
    )
    assert done.exit_code == 0, done.output
    assert "class_0" in done.output and "class_1" not in done.output
    assert "1 classes are small." in done.output
    assert done.output.splitlines()[-1] == "tallied/index.html"
    written = pq.read_table("tallied/tally.parquet").to_pydict()
    assert written["class"] == ["class_0", "class_2"]
    summary = json.loads(Path("tallied/summary.json").read_text())
    assert [a["headline"] for a in summary["advice"]] == ["1 small classes"]
    page = Elements(Path("tallied/index.html").read_text())
    links = {a["href"] for a in page.all("a")}
    assert links == {"#next", "#classes"}
    assert ("td", f"{written['samples'][0]}") in page.text
    assert any("tally.parquet" in text for _, text in page.text)


def test_defaults_stand_in_the_settings_alone(call):
    call("wine")
    held = pq.read_table("tallied/tally.parquet").to_pydict()
    assert held["class"] == ["class_0", "class_1", "class_2"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "DATA must be given once"),
        (("wine", "--data", "iris"), "DATA must be given once"),
        (("wine", "--target", "nope"), "target"),
    ],
)
def test_bad_input_is_one_line_and_status_2(call, args, message):
    done = call(*args)
    assert done.exit_code == 2 and message in done.output
    assert not Path("tallied").exists()


def test_score_has_no_option_that_needs_trained_networks():
    text = CliRunner().invoke(datassay_app, ["score", "--help"]).output
    assert not [
        o for o in ("--check", "--curve-seeds", "--attribution-at", "--budget") if o in text
    ]
    assert "--attribution" in text and "--adversarial" in text
