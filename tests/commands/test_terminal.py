"""What a run prints: few lines, whole words, progress that never shrinks, options as typed."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from rich.console import Console

from datassay.commands import terminal
from datassay.report.page import Row
from helpers.command_line import assert_one_error_line, invoke

# The steps of a run of digits, as it reported them: each from 1 to its total, folds judged anew.
FOLD = ["eigendecomposition 1", "estimate label noise 1151", "estimate label noise again 1151"]
CALLS = ["collect Jacobians 1797", "eigendecomposition 1", "leave each sample out 1438",
         "estimate label noise 1438", "estimate label noise again 1438", "influence on others 1438",
         "retrain networks 300", "retrain on what is kept 1500", *FOLD * 5, "compare actions 5",
         "leave each group out 10", "leave each group out 1123"]  # fmt: skip


def reported(progress):
    """Shows what a progress display says after each of the calls."""
    for step, _, total in (call.rpartition(" ") for call in CALLS):
        for done in range(1, int(total) + 1, max(1, int(total) // 10)):
            progress(step, done, int(total))
            yield str(progress._compose_line())
        progress(step, int(total), int(total))
        yield str(progress._compose_line())


def test_progress_never_shrinks_or_comes_back():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with terminal.ProgressDisplay(console) as progress:
        lines = [re.fullmatch(r"(.*?)  (\d+) %  \d+ s", line) for line in reported(progress)]
    seen = [line[1] for line in lines]
    assert list(dict.fromkeys(seen)) == [
        one for k, one in enumerate(seen) if seen[k - 1 : k] != [one]
    ]
    assert list(dict.fromkeys(seen)) == list(terminal.STAGES)[3:]  # the first are not of a run
    for stage in set(seen):
        shares = [int(line[2]) for line in lines if line[1] == stage]
        assert shares == sorted(shares) and shares[-1] >= 98


def test_a_log_has_a_line_a_stage_and_fewer_the_longer_it_takes(monkeypatch):
    ticks = iter(range(0, 10**6, 60))  # a minute from one call to the next
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(ticks))
    console = Console(file=io.StringIO(), width=80)
    with terminal.ProgressDisplay(console) as progress:
        hours = len(list(reported(progress))) / 60
    lines = console.file.getvalue().splitlines()
    assert hours > 3 and {*lines} >= {*list(terminal.STAGES)[3:]}
    assert len(lines) <= 13 and "min" in lines[-1]


def test_a_table_breaks_no_word():
    names = ("action", *(f"unsuspected{k}" for k in range(7)))
    row = Row("Reweight by local variance", tuple(f"{k}.25 to {k}.75" for k in range(7)))
    console = Console(file=io.StringIO(), width=80)
    console.print(terminal.rows_table(names, [row]))
    shown = console.file.getvalue()
    assert all(name in shown for name in names[1:]) and "variance" in shown and "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu iris", "No such command 'rnu'. Did you mean run[?] See datassay --help"),
        ("run iris --tagret y", "--tagret.*--target.* See datassay run --help"),
    ],
)
def test_errors_name_what_was_typed(line, said):
    assert_one_error_line(invoke(*line.split()), said)


@pytest.mark.slow
def test_a_run_on_a_terminal_prints_few_lines_and_bytes(tmp_path):
    words = [sys.executable, "-m", "datassay", "run", "iris", "--budget", "2", "--out", "r"]
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b"".join(iter(lambda: _part(ours), b"")).decode()
    os.close(ours)
    assert process.wait() == 0
    erased = r"[^\n]*\r(\n\x1b\[\?25h\r\x1b\[1A)?\x1b\[2K"
    kept = re.sub(rf"{erased}|\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)
    assert len(text.encode()) < 20_000 and len(kept.splitlines()) <= 15
    assert "Page: r/index.html\nNext: datassay " in kept
    assert "Scoring samples" in text and "Scoring samples" not in kept


def _part(of):
    try:
        return os.read(of, 65536)
    except OSError:  # the other side is closed
        return b""
