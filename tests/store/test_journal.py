"""A journal beside a file: each line whole or not there, and of that file only."""

import io
from types import SimpleNamespace

import pytest

from datassay.store import journal
from datassay.store.journal import add, journal_of, read_journal, state


def test_lines_come_back_in_their_order_and_a_half_one_goes(tmp_path):
    path = tmp_path / "file"
    path.write_text("whole")
    assert read_journal(path) == ([], True)
    add(path, [1]), add(path, {"a": None})
    before = state(path)
    with journal_of(path).open("ab") as file:
        file.write(b"[1, 2")
    assert read_journal(path) == ([[1], {"a": None}], True) and state(path) != before
    add(path, "é\n")
    assert read_journal(path)[0] == [[1], {"a": None}, "é\n"]
    path.write_text("another")
    assert read_journal(path) == ([[1], {"a": None}, "é\n"], False)


def test_a_journal_that_ends_anywhere_goes_on_from_its_whole_lines(tmp_path):
    path = tmp_path / "file"
    path.write_text("whole")
    add(path, 1), add(path, [2])
    whole = journal_of(path).read_bytes()
    for end in {*range(0, len(whole), 11), *range(len(whole) - 9, len(whole) + 1)}:
        journal_of(path).write_bytes(whole[:end])
        values = [1, [2]][: max(0, whole[:end].count(b"\n") - 1)]
        assert read_journal(path) == (values, True)
        add(path, 3)
        assert read_journal(path) == ([*values, 3], True)
        assert journal_of(path).read_bytes().count(b"\n") == len(values) + 2


def test_a_line_that_fails_leaves_none_of_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("whole")
    add(path, 1)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        add(path, 2)
    monkeypatch.undo()
    add(path, 3)
    assert read_journal(path)[0] == [1, 3]


class ShortFile(io.FileIO):
    """A file that takes a part of what is written, as on a disk that fills up."""

    def write(self, content):
        return super().write(content[: len(content) // 2])


def test_a_line_of_which_a_part_was_written_leaves_none_of_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("whole")
    add(path, 1)
    real = journal_of(path)
    short = SimpleNamespace(open=lambda mode, buffering: ShortFile(real, mode))
    monkeypatch.setattr(journal, "journal_of", lambda _: short)
    with pytest.raises(OSError, match="No space"):
        add(path, 2)
    monkeypatch.undo()
    assert read_journal(path)[0] == [1]
    add(path, 3)
    assert read_journal(path)[0] == [1, 3]


def test_a_journal_of_an_earlier_file_begins_anew(tmp_path):
    path = tmp_path / "file"
    path.write_text("whole")
    add(path, 1)
    path.write_text("whole, and 1")  # killed before the journal was removed
    add(path, 2)
    assert read_journal(path) == ([2], True)
