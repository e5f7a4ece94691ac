"""A format is one module: declared there, it is read, given back and listed everywhere."""

import importlib
import sys

import pyarrow as pa
import pytest

import datassay as da
from datassay.data.format import formats, suffixes
from datassay.data.formats import npz
from datassay.errors import DataError
from datassay.plugins import plugins
from helpers.command_line import assert_one_error_line, invoke, succeed
from helpers.decided import decided

TOY = '''
"""Rows of words between semicolons and blanks; the first names the columns."""
import pyarrow as pa
from datassay.data.back.original import rewritten
from datassay.data.format import TableFormat


def read(path, ids):
    head, *rows = [line.split(" ; ") for line in path.read_text().splitlines()]
    columns = {n: [row[i] for row in rows] for i, n in enumerate(head)}
    return pa.table({n: c if n == "y" else [float(v) for v in c] for n, c in columns.items()})


def give_back(path, target, change):
    text, rows, start = path.read_bytes(), [], 0
    for line in text.splitlines(keepends=True):
        rows.append((start, start + len(line)))
        start += len(line)
    rows = rows[1:]

    def cell(row):
        start, end = rows[row]
        words = text[start:end].rstrip().split(b" ; ")
        before = start + sum(len(word) + 3 for word in words[: change.place])
        return before, before + len(words[change.place])

    target.write_bytes(rewritten(text, rows, cell, lambda word, new: b"%g" % new, change))


FORMAT = TableFormat(name="toy", suffixes=(".toy",), read=read, give_back=give_back)
READ_ONLY = TableFormat(name="read-only toys", suffixes=(".toy.ro",), read=read)
'''
ROWS = [f"{i * 5 % 11} ; {i * i % 7} ; {'ab'[i % 2]}" for i in range(30)]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The toy's distribution installed, and a file of it in the current folder."""
    home = tmp_path / "site"
    about = home / "toy-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "toy_format.py").write_text(TOY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[datassay.formats]\ntoy = toy_format:FORMAT\nreadonly = toy_format:READ_ONLY\n"
    )
    monkeypatch.syspath_prepend(home)
    importlib.invalidate_caches()
    plugins.cache_clear()
    monkeypatch.chdir(tmp_path)
    for name in ("a.toy", "a.toy.ro"):
        (tmp_path / name).write_text("\n".join(["u ; v ; y", *ROWS]) + "\n")
    yield tmp_path
    plugins.cache_clear()
    sys.modules.pop("toy_format", None)


def test_a_toy_is_loaded_scored_and_given_back(toy):
    train, _ = da.load("a.toy")
    assert train.class_names == ("a", "b")
    assert train.x.shape == (30, 2)
    succeed("score", "a.toy", "--out", "scores")
    assert ".toy" in succeed("score", "--help").output
    decided("a.toy", "d.parquet", [("1", "relabel", "b", "a"), ("2", "remove", "a", "")])
    succeed("apply", "a.toy", "d.parquet")
    expected = ["u ; v ; y", *ROWS]
    expected[2] = expected[2].replace("b", "a")
    del expected[3]
    assert (toy / "clean" / "a.toy").read_text().splitlines() == expected


def test_what_cannot_be_given_back_is_never_taken_for_another_format(toy):
    assert len(da.load("a.toy.ro")[0]) == 30
    decided("a.toy.ro", "d.parquet", [("2", "remove", "a", "")])
    refused = invoke("apply", "a.toy.ro", "d.parquet")
    assert_one_error_line(refused, r"can be given back \(Arrow, .*a\.toy\.ro is of read-only toys")
    assert not (toy / "clean").exists()


def test_every_format_is_told_of_where_none_fits(toy):
    (toy / "a.txt").touch()
    with pytest.raises(DataError, match=r"must end in .*\.npz, .*\.toy.*; got a\.txt"):
        da.load("a.txt")


def test_a_plugin_that_is_no_format_is_refused(monkeypatch):
    monkeypatch.setattr("datassay.data.format.plugins", lambda _: {"odd": pa.table})
    with pytest.raises(DataError, match="must name a Format or a TableFormat; 'odd'"):
        formats()


def test_suffixes_are_each_of_one_format():
    assert len(set(suffixes())) == len(suffixes()) > 8
    assert npz.FORMAT in formats()
