"""Results: all files or none, over nothing but what we wrote, whatever stops the process."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from datassay.errors import SettingError
from datassay.store import atomic, folders, outputs
from datassay.store.atomic import MANIFEST
from datassay.store.outputs import check_outputs, check_writable, write_pages, write_part

NAMES = ("index.html", "scores.parquet", "summary.json")
OLD, NEW = ({name: f"{age} {name}" for name in NAMES} for age in ("an old", "a new"))


def names(folder):
    return {path.name for path in folder.iterdir()}


def contents(folder):
    return {p.name: p.read_text() for p in folder.iterdir() if p.is_file() and p.name != MANIFEST}


@pytest.fixture
def out(tmp_path):
    write_pages(OLD, tmp_path / "out")
    return tmp_path / "out"


def test_results_replace_results_and_nothing_else(out):
    (out / "mine.txt").write_text("keep")
    assert write_pages(NEW, out) == out / "index.html"
    assert contents(out) == NEW | {"mine.txt": "keep"}


def test_a_manifest_lists_what_stays_of_earlier_runs(out):
    write_pages({"index.html": "another page", "blocks.parquet": "blocks"}, out)
    kept = json.loads((out / MANIFEST).read_text())
    assert set(kept["files"]) == {*NAMES, "blocks.parquet"}
    write_pages(NEW, out)
    (out / "blocks.parquet").write_text("changed by hand")
    write_pages(OLD, out)
    assert set(json.loads((out / MANIFEST).read_text())["files"]) == set(NAMES)


@pytest.mark.parametrize("fails", [False, True])
def test_what_an_earlier_run_of_the_job_left_goes_unless_it_was_changed(out, monkeypatch, fails):
    write_pages({"model": "old", "edited": "old", "another": "old"}, out)
    (out / "edited").write_text("by hand")
    before = contents(out)
    if fails:
        replace = os.replace

        def full(old, new):
            if old.parent.name == "new" and new.name == "index.html":
                raise OSError("no space left")
            replace(old, new)

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(SettingError, match="finished results are in"):
            write_pages(NEW, out, job=(*NAMES, "model", "edited"))
        assert {n: text for n, text in contents(out).items() if n in before} == before
        return
    write_pages(NEW, out, job=(*NAMES, "model", "edited"))
    assert contents(out) == NEW | {"edited": "by hand", "another": "old"}
    assert set(json.loads((out / MANIFEST).read_text())["files"]) == {*NAMES, "another"}


def link(out):
    (out / "scores.parquet").rename(out.parent / "elsewhere")
    (out / "scores.parquet").symlink_to(out.parent / "elsewhere")


SPOILT = {
    "changed": lambda out: (out / "scores.parquet").write_text("changed by hand"),
    "foreign": lambda out: (out / MANIFEST).unlink(),
    "linked": link,
    "manifest": lambda out: (out / MANIFEST).write_text("{}"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_we_did_not_write_is_refused_before_and_after_the_work(out, spoil):
    spoil(out)
    before = contents(out)
    with pytest.raises(SettingError, match=r"did not write.*holds .*--overwrite"):
        check_writable(out, NAMES)
    with pytest.raises(SettingError, match=r"The finished results are in .*results-") as reported:
        write_pages(NEW, out, is_checked=True)
    assert contents(out) == before
    rescued = str(reported.value).rpartition(" are in ")[2].rstrip(".")
    assert contents(out / rescued) == NEW


def test_what_would_be_as_it_was_written_stays_as_it_was_edited(out):
    (out / "summary.json").write_text("edited")
    mixed = NEW | {"summary.json": OLD["summary.json"]}
    write_pages(mixed, out, is_checked=True)
    assert contents(out) == mixed | {"summary.json": "edited"}
    assert set(json.loads((out / MANIFEST).read_text())["files"]) == set(NAMES)
    write_pages(mixed, out, overwrite=True)
    assert contents(out) == mixed


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_it_is_replaced_where_that_is_asked_for(out, spoil):
    spoil(out)
    write_pages(NEW, out, overwrite=True)
    assert contents(out) == NEW
    write_pages(OLD, out)  # they are ours now
    linked = out.parent / "elsewhere"
    assert not linked.exists() or linked.read_text() == OLD["scores.parquet"]


@pytest.mark.parametrize("failing", NAMES)
@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_a_failure_leaves_earlier_results_intact(out, monkeypatch, failing, failure):
    before = contents(out)

    def fail(part, path):
        if path.name == failing:
            path.write_text("half")
            raise failure
        write_part(part, path)

    monkeypatch.setattr(outputs, "write_part", fail)
    for folder in (out, out.parent / "new"):
        with pytest.raises(failure):
            write_pages(NEW, folder)
    assert contents(out) == before
    assert names(out.parent) == {"out"}  # no new folder, no temporary one
    assert names(out) == {*NAMES, MANIFEST}


@pytest.mark.parametrize("failing", [*NAMES, MANIFEST])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, PermissionError(1, "not permitted")])
def test_a_file_that_cannot_be_replaced_leaves_earlier_results(out, monkeypatch, failing, failure):
    replace_file = folders.os.replace

    def refuse(source, target):
        if target == out / failing and source.parent.name == "new":
            raise failure
        replace_file(source, target)

    monkeypatch.setattr(folders.os, "replace", refuse)
    with pytest.raises((KeyboardInterrupt, SettingError)):
        write_pages(NEW, out)
    assert contents(out) == OLD
    rescued = names(out) - {*NAMES, MANIFEST}
    assert [contents(out / name) for name in rescued] == [NEW] * (failure is not KeyboardInterrupt)


def test_leftovers_that_are_not_surely_ours_stay(out):
    other = out / ".datassay-mine"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with atomic.staging(out) as living:
        check_writable(out, NAMES)
        assert living.is_dir()
    assert (other / "thesis.tex").read_text() == "mine"


WRITER = """if True:
    import signal, sys
    for one in (signal.SIGINT, signal.SIGHUP):  # which a shell's background jobs ignore
        signal.signal(one, signal.default_int_handler)
    from itertools import cycle
    from pathlib import Path
    import typer
    from datassay.commands.shell import clear_exit, handle_stops
    from datassay.store.outputs import write_pages

    @clear_exit()
    def write():
        print("ready", flush=True)
        for text in cycle(("one ", "two ")):
            write_pages({name: text * 50_000 for name in "abcd"}, Path(sys.argv[1]))

    handle_stops()
    try:
        write()
    except typer.Exit as end:
        sys.exit(end.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_at_any_moment_leaves_one_whole_set_of_results(tmp_path, number):
    out, draw = tmp_path / "out", random.Random(int(number))
    for _ in range(int(os.environ.get("DATASSAY_KILLS", "3"))):
        line, pipe = [sys.executable, "-c", WRITER, str(out)], subprocess.PIPE
        process = subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draw.uniform(0, 0.15))
        process.send_signal(number)
        try:
            err = process.communicate(timeout=300)[1]
        finally:
            process.kill()
        if number != signal.SIGKILL:
            assert process.returncode == 128 + number
            assert err.endswith("ted. Earlier results are as they were.\n")
            assert len(err.splitlines()) == 1
            assert not [p for p in tmp_path.rglob(f"{atomic.PREFIX}*") if p.is_dir()]
        check_writable(out, "abcd")
        assert not list(tmp_path.rglob(f"{atomic.PREFIX}*"))
        if out.exists():
            assert set(contents(out)) == set("abcd")
            assert len(set(contents(out).values())) == 1


def test_a_full_disk_is_one_clear_error_and_leaves_no_trace(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    check_writable(tmp_path / "a" / "b", NAMES)
    monkeypatch.setattr(outputs, "write_part", full)
    with pytest.raises(SettingError, match=r"No space left on device\. Free space"):
        write_pages(NEW, tmp_path / "out")
    monkeypatch.setattr(outputs.os, "posix_fallocate", full)
    with pytest.raises(SettingError, match=r"8 MB to spare.*No space left"):
        check_writable(tmp_path / "out", NAMES)
    assert not names(tmp_path)


def test_what_utf8_cannot_hold_is_written_in_full(tmp_path):
    write_pages({"index.html": "caf\udce9 end"}, tmp_path / "out")
    assert contents(tmp_path / "out") == {"index.html": r"caf\udce9 end"}


@pytest.mark.parametrize("below", ["", "out", "deep/out"])
def test_a_file_in_the_way_is_refused_before_any_work(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(SettingError, match=r"out must be a folder; got .*file is a file"):
        check_writable(file / below, NAMES)
    assert file.read_text() == "mine"
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingError, match="out must be a folder"):
        check_writable(tmp_path / "out", NAMES)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("~nouser", r"~ is for the shell"),
        ("a\0b", r"null"),
        ("n" * 300, r"\(300 characters\): File name too long"),
    ],
)
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match=message):
        check_writable(outputs.Path(name), NAMES)


def test_a_folder_under_a_result_name_is_refused(tmp_path):
    (tmp_path / "index.html").mkdir()
    with pytest.raises(SettingError, match=r"room for the file index\.html"):
        check_writable(tmp_path, NAMES)


def test_a_folder_that_refuses_is_refused(tmp_path, monkeypatch):
    def refuse(**settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic.tempfile, "mkdtemp", refuse)
    with pytest.raises(SettingError, match="refuses: Permission denied"):
        check_writable(tmp_path / "out", NAMES)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_an_input_is_no_output_by_whatever_name(out, link):
    link(out / "scores.parquet", out.parent / "input.parquet")
    with pytest.raises(SettingError, match=r"input\.parquet is an input"):
        check_outputs(out, NAMES, [out.parent / "input.parquet"])


@pytest.mark.parametrize("where", [".", "cats", "cats/deep"])
def test_results_do_not_lie_among_the_data(tmp_path, where):
    (tmp_path / "data" / "cats").mkdir(parents=True)
    with pytest.raises(SettingError, match="out must lie outside of what is read"):
        check_outputs(tmp_path / "data" / where, NAMES, [], [tmp_path / "data", "digits"])
    check_outputs(tmp_path / "data-2", NAMES, [], [tmp_path / "data", "digits"])
