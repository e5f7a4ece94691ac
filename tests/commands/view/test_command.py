"""`datassay view` from the command line: one line for what it cannot serve."""

import json
import shutil
import socket
from unittest.mock import Mock

import pytest

from datassay.commands.run import job
from datassay.commands.run.findings import PENDING
from datassay.commands.view import session as module
from datassay.commands.view.command import _describe_review
from datassay.commands.view.server import ReviewServer
from helpers.command_line import assert_one_error_line, invoke, words
from helpers.reviews import blobs, scored, session_of


@pytest.fixture
def run(folder):
    return folder


def view(*args):
    return invoke("view", *args, "--no-browser")


def test_a_folder_that_is_no_run(tmp_path):
    assert_one_error_line(view(tmp_path), r"must hold scores\.parquet, which datassay run")
    assert_one_error_line(view(tmp_path / "nowhere"), "nowhere must hold")


def test_a_run_that_is_not_whole_or_of_another_version(run, reviewed):
    (run / "index.html").write_text("<p>")
    assert_one_error_line(
        view(run), r"index\.html must be a page with a review of this version.* Run again\."
    )
    for name in ("index.html", "review.npz", "summary.json"):
        (run / name).unlink()
        assert_one_error_line(view(run), name)
        shutil.copy(reviewed / name, run)


def test_data_that_moved_are_named_anew(tmp_path, monkeypatch):
    run, moved = scored(tmp_path / "run", blobs(tmp_path)), tmp_path / "elsewhere.npz"
    shutil.move(tmp_path / "points.npz", moved)
    assert_one_error_line(view(run), r"points\.npz, the data of .*run, is not there.*--data")
    with monkeypatch.context() as patch:
        patch.setattr(ReviewServer, "serve_forever", Mock(side_effect=KeyboardInterrupt))
        ended = words(view(run, "--data", moved))
    assert "http://127.0.0.1:" in ended and ended.endswith("No decisions were saved.")
    moved.write_bytes(moved.read_bytes() + b" ")
    assert_one_error_line(view(run, "--data", moved), "it was changed since, or is another")


def test_a_port_that_is_none_or_in_use(run):
    for port in ("-1", "65536"):
        assert_one_error_line(view(run, "--port", port), "port must lie in 0 ... 65535")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_one_error_line(view(run, "--port", port), f"port must be free .*{port} is not")


def test_decisions_about_other_data(run, tmp_path):
    other = scored(tmp_path / "other", blobs(tmp_path / "more", seed=1))
    session_of(other).change([{"row": 1, "decision": "keep", "when": "2026-11-23T09:00:00Z"}])
    shutil.copy(other / "decisions.parquet", run)
    assert_one_error_line(view(run), r"run/decisions\.parquet must be about the data of this run")
    assert (run / "decisions.parquet").read_bytes() == (other / "decisions.parquet").read_bytes()


def test_a_read_only_folder_leaves_decisions_to_the_browser(run, monkeypatch):
    monkeypatch.setattr(module, "_find_obstacle", lambda folder: "Read-only file system")
    session = session_of(run)
    assert not session.samples()["writable"]
    message = " ".join(_describe_review(session))
    assert "cannot be written (Read-only file system): the browser keeps the decisions" in message


def test_scoring_again_into_the_folder_keeps_the_decisions(run, folder):
    session_of(run).change([{"row": 1, "decision": "keep", "when": "2026-11-23T09:00:00Z"}])
    before = (run / "decisions.parquet").read_bytes()
    scored(run, folder.parent / "points.npz")
    assert (run / "decisions.parquet").read_bytes() == before
    assert len(session_of(run)) == 1


def test_a_review_of_the_scores_goes_on_when_the_actions_are_measured(
    folder, tmp_path, monkeypatch
):
    out, reviews, seen = tmp_path / "out", [], {"when": "2026-11-23T09:00:00Z"}

    def meanwhile(*_):
        assert PENDING in (out / "index.html").read_text()
        assert json.loads((out / "summary.json").read_text())["pending"] == PENDING
        reviews.append(session_of(out))
        reviews[0].change([{"row": 1, "decision": "keep", **seen}])

    monkeypatch.setattr(job, "act_table", meanwhile)
    source, settings = folder.parent / "points.npz", ("--curve-seeds", "2")
    result = invoke("run", source, *settings, "--out", out)
    assert result.exit_code == 0 and f"Scores: {out / 'index.html'}" in result.stderr
    assert PENDING not in (out / "index.html").read_text()
    reviews[0].change([{"row": 2, "decision": "keep", **seen}])
    assert len(session_of(out)) == 2
