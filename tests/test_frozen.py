"""What people import and type stays: public names and help are those of the files in `frozen/`.

python tests/test_frozen.py    # writes them anew, after a change that is meant
"""

import importlib
import subprocess
import sys
from pathlib import Path

import datassay

FOLDER = Path(__file__).parent / "frozen"
FACES = sorted(path.parent.name for path in Path(datassay.__file__).parent.glob("*/__init__.py"))
# Without what installed packages add.
HELP = """
import datassay.plugins
datassay.plugins.entry_points = lambda **_: ()
from typer.testing import CliRunner
from datassay.commands import app
from datassay.commands.app import commands
for command in commands():
    option = "--help-all" if command.common else "--help"
    print(CliRunner().invoke(app, [command.name, option]).stdout)
"""


def public_names():
    for face in ("datassay", *(f"datassay.{name}" for name in FACES)):
        for name in sorted(getattr(importlib.import_module(face), "__all__", ())):
            yield f"{face}.{name}"


def help_of_every_command():
    command = [sys.executable, "-c", HELP]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.rstrip() for line in text.splitlines()]


FROZEN = {"names.txt": lambda: [*public_names()], "help.txt": help_of_every_command}


def test_public_names_are_the_frozen_ones():
    frozen = (FOLDER / "names.txt").read_text("utf-8").splitlines()
    names = FROZEN["names.txt"]()
    assert len(names) > 200 and not {*frozen} ^ {*names}


def test_help_is_the_frozen_one():
    frozen = (FOLDER / "help.txt").read_text("utf-8").splitlines()
    lines = FROZEN["help.txt"]()
    assert len(lines) > 500
    assert not [pair for pair in zip(frozen, lines, strict=False) if pair[0] != pair[1]]
    assert len(lines) == len(frozen)


if __name__ == "__main__":
    for file, make in FROZEN.items():
        (FOLDER / file).write_text("\n".join(make()) + "\n", "utf-8")
