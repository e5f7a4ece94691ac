"""A format is one module: declared there, it is read, given back and listed everywhere."""

import importlib
import re
import sqlite3
import sys
from pathlib import Path

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


PAGE = (Path(__file__).parents[3] / "docs/howto/plugins.md").read_text("utf-8")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with one module of formats."""
    monkeypatch.chdir(tmp_path)
    modules = []

    def install(module, code, entries):
        about = tmp_path / "site" / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (about.parent / f"{module}.py").write_text(code)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[datassay.formats]\n{entries}\n")
        monkeypatch.syspath_prepend(about.parent)
        importlib.invalidate_caches()
        plugins.cache_clear()
        modules.append(module)

    yield install
    plugins.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def toy(tmp_path, installed):
    """The toy's distribution installed, and files of it in the current folder."""
    installed("toy_format", TOY, "toy = toy_format:FORMAT\nreadonly = toy_format:READ_ONLY")
    for name in ("a.toy", "a.toy.ro"):
        (tmp_path / name).write_text("\n".join(["u ; v ; y", *ROWS]) + "\n")
    return tmp_path


def test_the_format_of_the_documentation_installs_and_runs(tmp_path, installed):
    section = PAGE.split("## A file format")[1]
    (code,) = re.findall(r"```py\n(.*?)```", section, re.S)
    (entry,) = re.findall(r'datassay.formats"\]\n(.*?)```', section, re.S)
    installed("datassay_sqlite", code, entry.replace('"', ""))
    with sqlite3.connect("a.sqlite") as file:
        file.execute("create table samples (u real, v integer, y text)")
        rows = [tuple(row.split(" ; ")) for row in ROWS]
        file.executemany("insert into samples values (?, ?, ?)", rows)
    decided("a.sqlite", "d.parquet", [("1", "relabel", "b", "a"), ("2", "remove", "a", "")])
    succeed("apply", "a.sqlite", "d.parquet")
    before, after = (da.load(path)[0] for path in ("a.sqlite", "clean/a.sqlite"))
    assert after.y.tolist() == [0, 0, *before.y[3:].tolist()]
    assert after.x.tolist() == [*before.x[:2].tolist(), *before.x[3:].tolist()]
    assert ".sqlite" in succeed("run", "--help").output


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


def test_a_plugin_that_is_no_format_is_refused(monkeypatch):
    monkeypatch.setattr("datassay.data.format.plugins", lambda _: {"odd": pa.table})
    with pytest.raises(DataError, match="must name a Format or a TableFormat; 'odd'"):
        formats()


def test_suffixes_are_each_of_one_format():
    assert len(set(suffixes())) == len(suffixes()) > 8
    assert npz.FORMAT in formats()
