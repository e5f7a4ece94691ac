"""Commands of other distributions: found by entry point, listed, run, named where they break."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datassay.commands import Command
from datassay.errors import SettingError
from helpers.command_line import assert_one_error_line, invoke
from helpers.distributions import distribution

PAGE = (Path(__file__).parents[2] / "docs/howto/plugins.md").read_text("utf-8")


def installed(folder, module, code, entry):
    """A distribution in a folder: its module and what its installation would leave beside it."""
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    distribution(folder, module, entry.replace('"', ""))


def datassay(folder, *arguments):
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "120"}
    command = [sys.executable, "-m", "datassay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_the_example_of_the_documentation_installs_and_runs(tmp_path):
    (code,) = re.findall(r"```py\n(.*?)```", PAGE.split("## A command")[1], re.S)[:1]
    (entry,) = re.findall(r'```toml\n\[project.entry-points.(".*?)```', PAGE, re.S)[:1]
    installed(tmp_path, "datassay_classes", code, f"[{entry}")
    assert "classes" in datassay(tmp_path, "--help").stdout
    ran = datassay(tmp_path, "classes", "wine", "--fewest", "50")
    assert (ran.returncode, ran.stdout) == (0, "class_1: 57\n"), ran.stderr
    bad = datassay(tmp_path, "classes", "nowhere.csv")
    assert bad.returncode == 2 and bad.stderr.count("Error: ") == 1


@pytest.mark.slow
def test_the_score_of_the_documentation_installs_and_runs(tmp_path):
    score = PAGE.split("## A score")[1]
    (code,) = re.findall(r"```py\n(.*?)```", score, re.S)[:1]
    (entry,) = re.findall(r'```toml\n\[project.entry-points.(".*?)```', score, re.S)[:1]
    installed(tmp_path, "datassay_rarity", code, f"[{entry}")
    ran = datassay(tmp_path, "score", "iris", "--out", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert table["rarity"].to_pylist() == pytest.approx([2 / 3] * len(table))


def test_a_broken_one_is_named_and_leaves_ours_alone(tmp_path):
    installed(tmp_path, "broken", "import missing_thing", "[datassay.commands]\nx = broken:COMMAND")
    shown = datassay(tmp_path, "--help")
    assert shown.returncode == 0 and " explain " in shown.stdout
    (line,) = shown.stderr.splitlines()
    assert "broken adds 'x' to datassay's commands" in line and "missing_thing" in line
    assert "broken adds 'x'" in datassay(tmp_path, "x").stderr
    assert datassay(tmp_path, "report", "--help").stderr == ""


@pytest.fixture
def only(monkeypatch):
    """What is installed: only these entry points."""
    module = sys.modules["datassay.plugins"]
    return lambda **added: monkeypatch.setattr(module, "plugins", lambda group: added)


@dataclass(frozen=True)
class Nothing:
    """No settings."""


@pytest.mark.parametrize(
    ("added", "predicted"),
    [
        ("text", "the entry point toy of datassay.commands must name a Command; it names a str"),
        (
            Command(name="run", help="", settings=Nothing, home="", out=""),
            "a command must have a name of its own; the entry point toy of .* adds another run",
        ),
    ],
)
def test_what_is_no_new_command_is_refused(only, added, predicted):
    only(toy=added)
    assert_one_error_line(invoke("toy"), predicted)
    with pytest.raises(SettingError, match=predicted):
        from datassay.commands.app import commands

        commands()


def test_the_course_says_how_it_is_installed(only):
    only()
    assert_one_error_line(
        invoke("lab"), "in a clone of the repository run pip install ./packages/datassay-lab"
    )
    assert_one_error_line(invoke("leb"), "No such command 'leb'")
    assert " lab " not in invoke("--help").output
