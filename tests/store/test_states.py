"""Killed between any two system calls, a writer leaves what is whole; others go on from there."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from datassay.errors import SettingError
from datassay.store import atomic, journal
from datassay.store.atomic import PREFIX, whole_folder, write_whole
from datassay.store.folders import list_foreign
from datassay.store.outputs import check_writable, write_pages

# Each writer takes a folder and a word that all it writes holds; `held` gives the word back.
WRITERS = """
import os, sys
from pathlib import Path
from datassay.store.atomic import PREFIX, whole_folder, write_whole
from datassay.store.folders import heal
from datassay.store.journal import add, read_journal
from datassay.store.folders import list_foreign
from datassay.store.outputs import check_writable, write_pages

def folder(place, word):
    check_writable(place / "out", ())
    with whole_folder(place / "out") as new:
        for name in "ab":
            (new / name).write_text(word)

def pages(place, word):
    names = ["a", "index.html"] + ["of " + word]
    write_pages(dict.fromkeys(names, word), place / "out", job=["of one", "of two"])

def file(place, word):
    (place / "out").mkdir(exist_ok=True)
    write_whole(place / "out" / "a", lambda file: file.write(word.encode()))

def lines(place, word):
    (path := place / "file").touch()
    add(path, word)

def held(place):
    if (place / "file").exists():
        return {value for value in read_journal(place / "file")[0][-1:]}
    heal(place / "out")  # as whoever reads a run does
    paths = [path for path in (place / "out").glob("[!.]*")]
    assert len({path.name for path in paths if path.name.startswith("of ")}) <= 1, paths
    return {path.read_text() for path in paths}
"""
KILLED = f"""{WRITERS}
from itertools import count
CHANGE = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "open")
seen, last = 0, 0

def audit(event, args):
    global seen
    if last and event in CHANGE and (event != "open" or args[2] & (os.O_WRONLY | os.O_RDWR)):
        seen += 1
        if seen == last:
            os._exit(9)

sys.addaudithook(audit)
write = globals()[sys.argv[1]]
for number in count(1):
    place = Path(sys.argv[2]) / str(number)
    place.mkdir()
    if sys.argv[3]:
        write(place, "one")
    if not (child := os.fork()):
        last = number
        write(place, "two")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check_writable(place / "beside", ("index.html",))  # another command, beside it
    word = held(place)
    assert word in ([{{"one"}}, {{"two"}}] if sys.argv[3] else [set(), {{"two"}}]), (number, word)
    write(place, "two")
    write(place, "three")
    assert held(place) == {{"three"}}, number
    left = [p for p in place.rglob("*") if p.name.startswith(PREFIX) and p.is_dir()]
    assert not left, (number, left)
    if code == 0:
        break
    assert code == 9, number
print(number)
"""


@pytest.mark.parametrize("earlier", ["earlier", ""])
@pytest.mark.parametrize("writer", ["folder", "pages", "file", "lines"])
def test_every_state_between_two_system_calls_is_gone_on_from(tmp_path, writer, earlier):
    call = [sys.executable, "-c", KILLED, writer, str(tmp_path), earlier]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1


def a_folder(place, word):
    with whole_folder(place / "out") as new:
        (new / "a").write_text(word)


def pages(place, word):
    write_pages({"a": word, "index.html": word}, place / "out")


def a_file(place, word):
    (place / "out").mkdir(exist_ok=True)
    write_whole(place / "out" / "a", lambda file: file.write(word.encode()))


def a_line(place, word):
    (place / "out").mkdir(exist_ok=True)
    (place / "out" / "base").touch()
    journal.add(place / "out" / "base", word)
    (place / "out" / "a").write_text(journal.read_journal(place / "out" / "base")[0][-1])


@pytest.mark.parametrize("fault", ["full disk", "Ctrl-C"])
@pytest.mark.parametrize("call", ["rename", "replace", "fsync"])
@pytest.mark.parametrize("write", [a_folder, pages, a_file, a_line])
def test_a_fault_once_is_a_fault_once(tmp_path, monkeypatch, write, call, fault):
    """Whichever call of a kind fails, the earlier is there still, and the next writing is whole."""
    for number in range(12):
        place, calls, plain = tmp_path / str(number), [], getattr(atomic.os, call)
        place.mkdir()
        write(place, "one")

        def fails(*args, calls=calls, number=number, plain=plain):
            calls.append(args)
            if len(calls) == number + 1:
                if fault == "full disk":
                    raise OSError(28, "No space left on device")
                signal.raise_signal(signal.SIGINT)
            return plain(*args)

        monkeypatch.setattr(atomic.os, call, fails)
        with suppress(OSError, SettingError, KeyboardInterrupt):
            write(place, "two")
        monkeypatch.undo()
        held = (place / "out" / "a").read_text()
        expected = {"one"} if len(calls) > number else {"two"}
        # Where a folder changes place, an interruption waits until it has.
        assert held in (expected if fault == "full disk" else {"one", "two"})
        write(place, "three")
        assert (place / "out" / "a").read_text() == "three"
        assert not list(place.rglob(f"{PREFIX}*/*"))
        if len(calls) <= number:
            return
    raise AssertionError("more calls than expected")


@pytest.mark.parametrize("write", [a_folder, pages, a_file])
def test_two_at_once_leave_the_results_of_one(tmp_path, write):
    for number in range(8):
        (place := tmp_path / str(number)).mkdir()
        children = []
        for word in ("one", "two"):
            if not (child := os.fork()):
                for _ in range(5):
                    with suppress(OSError, SettingError):  # the other was first
                        write(place, word)
                os._exit(0)
            children.append(child)
        assert not any(os.waitpid(child, 0)[1] for child in children)
        # The loser of a new folder keeps what it finished in one of its own.
        for folder in place.iterdir():
            left = {path.read_text() for path in folder.iterdir() if path.suffix != ".json"}
            assert left in ({"one"}, {"two"})
            assert write is not pages or not list_foreign(folder, ["a", "index.html"])
        assert (place / "out").is_dir() and not list(place.rglob(f"{PREFIX}*/*"))


@pytest.mark.parametrize("write", [a_folder, pages, a_file, a_line])
def test_a_clock_that_went_back_keeps_nothing_from_being_written(tmp_path, monkeypatch, write):
    write(tmp_path, "one")
    for path in [tmp_path, *tmp_path.rglob("*")]:
        os.utime(path, (4e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    check_writable(tmp_path / "out" / "beside", ())
    assert (tmp_path / "out" / "a").read_text() == "one"
    write(tmp_path, "two")
    assert (tmp_path / "out" / "a").read_text() == "two"


def test_what_a_killed_apply_left_does_not_go_where_another_folder_stands_now(tmp_path):
    left = tmp_path / f"{PREFIX}0"
    (left / "new").mkdir(parents=True)
    (left / "old" / "clean").mkdir(parents=True)
    (left / "old" / "clean" / "data.csv").write_text("the only copy")
    (tmp_path / "clean").mkdir()
    with pytest.raises(SettingError, match=r"the clean in it cannot be put back where another"):
        check_writable(tmp_path / "other", ())
    (tmp_path / "clean").rmdir()
    check_writable(tmp_path / "other", ())
    assert (tmp_path / "clean" / "data.csv").read_text() == "the only copy"
    assert not left.exists()
