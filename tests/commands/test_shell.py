"""How commands print and fail: one line whatever a user's code does, and no results lost to it."""

import io
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

from datassay.commands.shell import clear_exit, out_stream, say
from helpers.command_line import assert_one_error_line, invoke, listed, succeed

OWN = """
import os
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)


def exits():
    sys.exit(0)


def stops():
    raise GeneratorExit("enough")


def recurses():
    return recurses()


def exhausts():
    raise MemoryError("no room for 8 TB")


def moves():
    os.chdir("/")
    return Net()


def prints():
    print("hello from the model")
    return Net()


def closes():
    sys.stdout.close()
    return Net()
"""
SCORE = ["score", "good.npz", "--out", "out"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    draw = np.random.default_rng(0)
    np.savez("good.npz", x=draw.normal(size=(60, 4)), y=np.arange(60) % 2)
    Path("own_code.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_code", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exits", "SystemExit|exit"),
        ("stops", "enough"),
        ("recurses", "recursion"),
        ("exhausts", "no room for 8 TB"),
    ],
)
def test_what_a_users_code_raises_is_one_line_and_status_2(here, name, message):
    result = invoke(*SCORE, "--model", f"own_code:{name}")
    assert_one_error_line(result, message)
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["moves", "prints"])
def test_what_a_users_code_does_besides_changes_no_result(here, name):
    succeed(*SCORE, "--model", f"own_code:{name}")
    assert len(listed(here / "out")) == 6


@pytest.mark.slow
def test_a_standard_output_that_a_model_closed_loses_no_result(here):
    line = [sys.executable, "-m", "datassay", *SCORE, "--model", "own_code:closes"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "Error: what was done is stored, but it could not"
    )
    assert len(listed("out")) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "status"),
    [(">/dev/full", 1), ("2>/dev/full", 0), (">&-", 1), ("2>&-", 0), ("| head -1", 0)],
)
def test_streams_that_take_nothing_lose_no_result(here, redirected, status):
    line = f"{sys.executable} -m datassay {' '.join(SCORE)} --model logistic {redirected}"
    line = f"set -o pipefail; {line}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert len(listed("out")) == 6
    assert "Traceback" not in done.stderr + done.stdout


def test_a_failure_is_one_line_that_says_where(capsys):
    @clear_exit()
    def command():
        raise LookupError("lost\nits way")

    with pytest.raises(typer.Exit) as end:
        command()
    assert end.value.exit_code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "LookupError: lost its way" in line
    assert "test_shell.py, line " in line and "in command" in line


def test_lines_give_a_terminal_no_commands_and_show_no_credentials(capsys):
    say("a\x1b[31mb\u202ec\nd s3://K:S@b/x?token=1 " + "x" * 9000)
    line = capsys.readouterr().err
    assert line.startswith("a\ufffd[31mb\ufffdc d s3://***@b/x?*** ")
    assert len(line) < 2100 and len(line.splitlines()) == 1


def test_the_log_passes_the_same_way(here, capsys):
    assert invoke("export", here / "nowhere").exit_code == 2
    logging.getLogger("datassay").warning("odd \x1b[2J name")
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--out", ""], "out must name a folder"),
        (["--out", "http://h/x"], "out must name a folder, no URL"),
        (["--steps", 10**21], "steps must be at most 9,007,199,254,740,992"),
        (["--memory", "1e400"], "memory must be a positive, finite"),
        (["--sigma", "1e308"], "sigma must have a square"),
        (["--subsets", 10**10], r"subsets of 48 samples take 7,680 GB.*Take at most"),
        (["--seed", "9" * 5000], "seed"),
        (["--\x1b[31m", "1"], "No such option"),
        (["--sample-weight", "w"], "sample-weight must be left out: samples all count alike"),
    ],
)
def test_absurd_options_cost_one_line(here, args, message):
    given = [] if args[0] == "--out" else ["--out", "out"]
    result = invoke("score", "good.npz", *given, *args)
    assert_one_error_line(result, message)
    assert "\x1b" not in result.output
    assert not Path("out").exists()


def test_credentials_never_reach_page_or_summary(here, monkeypatch):
    url = "s3://KEY:SECRET@bucket/x?token=HIDDEN"
    args = [*SCORE, "--model", "logistic", "--source", url]
    monkeypatch.setattr(sys, "argv", ["datassay", *args])
    result = invoke(*args)
    assert result.exit_code == 2
    assert "SECRET" not in result.output and "HIDDEN" not in result.output
    args = args[:-2]
    monkeypatch.setattr(sys, "argv", ["datassay", *args, f"--store={url}"])
    succeed(*args)
    written = [p.read_text() for p in Path("out").iterdir() if p.suffix in {".html", ".json"}]
    assert all("SECRET" not in text and "HIDDEN" not in text for text in written)
    assert any("s3://***@bucket/x?***" in text for text in written)


def test_a_closed_stream_is_noted_and_not_raised(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    sys.stdout.close()
    out_stream.write("lost")
    assert isinstance(out_stream.problem, ValueError)
    out_stream.problem = None


ENDED = """
import os, signal, time
from datassay.commands.shell import Stopped, handle_stops

class Object:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

handle_stops()
try:
    {what}
    time.sleep(60)
except Stopped:
    os.kill(os.getpid(), signal.SIGTERM)
    print("stopped once")
"""


@pytest.mark.parametrize("what", ["Object()", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_signal_stops_once_and_is_not_lost_in_a_finalizer(what):
    command = [sys.executable, "-c", ENDED.format(what=what)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("stopped once\n", "", 0)


CUT_SHORT = """
import os, signal, warnings
from datassay.commands.shell import Stopped, handle_stops

handle_stops()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except Stopped:
    warnings.warn("half imported", RuntimeWarning)  # as a compiled module that is being imported
"""


def test_what_a_signal_cuts_short_warns_of_nothing():
    command = [sys.executable, "-c", CUT_SHORT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.stderr, ended.returncode) == ("", 0)


CONVERTED = """
import os, signal, sys, typer
from datassay.commands.shell import clear_exit, handle_stops
from datassay.errors import ModelError

handle_stops()
try:
    with clear_exit():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:  # as compiled code may do that is interrupted
            raise ModelError("the estimator must be able to learn") from None
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


def test_a_signal_is_what_ended_a_command_whatever_it_was_made_into():
    command = [sys.executable, "-c", CONVERTED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ended.stderr == "Interrupted. Earlier results are as they were.\n"
    assert ended.returncode == 130


LEFT = """
import atexit, io, sys, threading, time
import datassay.__main__ as command_line
import pyarrow.csv

class Slow(io.RawIOBase):
    def readable(self):
        return True
    def readinto(self, place):
        is_read.set()
        time.sleep(2)  # a thread of Arrow's comes back to Python after its end
        return 0

is_read = threading.Event()
threading.Thread(target=lambda: pyarrow.csv.read_csv(Slow()), daemon=True).start()
is_read.wait()
log = open("log", "w")
log.write("not closed")
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("a thread"))).start()
sys.argv = ["datassay", *sys.argv[1:]]
command_line.main()
"""


@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["nothing"], 2)])
def test_threads_of_libraries_do_not_abort_what_has_ended(tmp_path, words, status):
    call = [sys.executable, "-c", LEFT, *words]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert {"a thread", "at exit"} <= set(done.stdout.splitlines())
    assert (tmp_path / "log").read_text() == "not closed"
