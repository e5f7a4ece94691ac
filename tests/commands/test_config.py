"""Options from a file: what it types, who wins, and what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line import assert_one_error_line, invoke, refusals, succeed, summary

CONFIG = """
seed = 3
budget = 5

[score]
model = "linear"
top = 2
out = "scored here"
verbose = true

[summarize]
drop-suspects = false
"""


def test_a_file_types_what_the_user_does_not(here):
    Path("datassay.toml").write_text(CONFIG)
    ran = succeed("score", "iris", "--seed", 4)
    assert "Options of datassay.toml: --model linear --top 2 --out 'scored here'" in ran.stderr
    assert "--seed 3" not in ran.stderr and "--budget" not in ran.stderr  # typed; no option of it
    facts = summary("scored here")["facts"]
    assert facts["Seed"] == "4" and facts["Model"].startswith("linear")
    assert "What is" in ran.stdout or "issue" in ran.stdout  # the tables of --verbose
    ran = succeed("summarize", "iris", "--model", "linear", "--out", "kept")
    assert "Options of datassay.toml: --seed 3 --no-drop-suspects\n" in ran.stderr


def test_the_table_of_a_project_and_a_named_file_count_too(here):
    Path("pyproject.toml").write_text('[project]\nname = "x"\n[tool.datassay.example]\nseed = 7\n')
    assert "Options of pyproject.toml: --seed 7" in succeed("example", "texts").stderr
    Path("other.toml").write_text("")
    assert "Options" not in succeed("example", "texts", "--config", "other.toml").stderr
    assert "Options" not in succeed("--config=other.toml", "example", "texts").stderr
    Path("pyproject.toml").write_text("no TOML")
    succeed("example", "texts")  # which is not ours to judge


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[scores]\n", "datassay.toml must name a command; 'scores' is none. Did you mean score"),
        ("sede = 1\n", "datassay.toml must name an option; 'sede' is none. Did you mean seed"),
        ("[score]\nfail-on = 'leak'\n", "must name an option of score; 'fail-on' is none"),
        ("[score]\nseed = 2020-01-01\n", "must give seed a text, a number"),
        ("seed 1\n", "--config must name a file of options in TOML; datassay.toml: "),
    ],
)
def test_what_is_no_option_is_refused(here, text, message):
    Path("datassay.toml").write_text(text)
    assert_one_error_line(invoke("score", "iris"), message)
    assert "Usage" in succeed("score", "--help").stdout


test_a_file_that_is_not_there = refusals({
    "score iris --config none.toml": "--config must name a file of options in TOML; none.toml: No",
    "score iris --config": "--config must name a file; none is given",
    "score iris --log-file": "--log-file must name a file; none is given",
    "score iris --log-file none/log": "--log-file must name a file that can be written; got none",
})  # fmt: skip


def test_a_log_has_each_line_that_is_printed_with_its_time(here):
    shown = succeed("--log-file", "run.log", "score", "iris", "--model", "linear", "--out", "out")
    error = invoke("score", "absent.csv", "--log-file=run.log").stderr
    succeed("example", "texts")  # to no file
    lines = Path("run.log").read_text("utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ", line) for line in lines)
    texts = [line.partition(" ")[2] for line in lines]
    assert texts[0].endswith("score iris --model linear --out out")
    assert "Scoring samples" in texts and "Page: out/index.html" in texts
    assert texts[-1] == error.strip() and texts[-2].startswith("datassay ")
    said = "".join("".join(texts).split())
    assert all("".join(line.split()) in said for line in shown.output.splitlines())


def test_a_shell_completes_options():
    words = {"COMP_WORDS": "datassay check --bas", "COMP_CWORD": "2"}
    start = "import sys; sys.argv[0] = 'datassay'; from datassay.commands import main; main()"
    call = [sys.executable, "-c", start]
    environment = {**os.environ, **words, "_DATASSAY_COMPLETE": "complete_bash"}
    ended = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["--baseline"]
