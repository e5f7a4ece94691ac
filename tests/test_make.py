"""`make check` fails where any of its parts fails, those that run beside the tests too."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TOOLS = ("ruff", "pyrefly", "mkdocs", "python")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("failing", [*TOOLS, None])
def test_check_fails_with_any_of_its_parts(failing, tmp_path):
    tools = tmp_path / ".venv-dev" / "bin"
    tools.mkdir(parents=True)
    (tmp_path / "src").mkdir()
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    for name in TOOLS:
        (tools / name).write_text(f"#!/bin/sh\necho {name} says\nexit {int(name == failing)}\n")
        (tools / name).chmod(0o755)
    (tmp_path / ".venv-dev" / "installed").touch()
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ended = subprocess.run(
        ["make", "check"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (ended.returncode == 0) is (failing is None), ended.stdout + ended.stderr
    for name in ("pyrefly", "mkdocs"):
        assert (f"{name} says" in ended.stdout + ended.stderr) is (name == failing)
