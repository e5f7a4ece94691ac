"""A format is one module: declared there, it is read, given back and listed everywhere."""

import importlib
import re
import shutil
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
from helpers.distributions import distribution

ROWS = [f"{i * 5 % 11} ; {i * i % 7} ; {'ab'[i % 2]}" for i in range(30)]


PAGE = (Path(__file__).parents[3] / "docs/howto/plugins.md").read_text("utf-8")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with one module of formats."""
    monkeypatch.chdir(tmp_path)
    modules = []

    def install(module, code, entries):
        site = tmp_path / "site"
        distribution(site, module, f"[datassay.formats]\n{entries}\n")
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()
        modules.append(module)

    yield install
    plugins.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def toy(installed):
    """The format of the documentation, one of it that is read only, and files of both."""
    section = PAGE.split("## A file format")[1]
    (code,) = re.findall(r"```py\n(.*?)```", section, re.S)
    (entry,) = re.findall(r'datassay.formats"\]\n(.*?)```', section, re.S)
    code += '\nREAD_ONLY = TableFormat(name="toys", suffixes=(".toy",), read=FORMAT.read)\n'
    entries = f"{entry}\ntoys = datassay_sqlite:READ_ONLY"
    installed("datassay_sqlite", code, entries.replace('"', ""))
    with sqlite3.connect("a.sqlite") as file:
        file.execute("create table samples (u real, v integer, y text)")
        rows = [tuple(row.split(" ; ")) for row in ROWS]
        file.executemany("insert into samples values (?, ?, ?)", rows)
    shutil.copy("a.sqlite", "a.toy")


def test_the_format_of_the_documentation_is_loaded_scored_and_given_back(toy):
    succeed("score", "a.sqlite", "--out", "scores")
    assert ".sqlite" in succeed("score", "--help-all").output
    decided("a.sqlite", "d.parquet", [("1", "relabel", "b", "a"), ("2", "remove", "a", "")])
    succeed("apply", "a.sqlite", "d.parquet")
    before, after = (da.load(path)[0] for path in ("a.sqlite", "clean/a.sqlite"))
    assert before.class_names == ("a", "b") and before.x.shape == (30, 2)
    assert after.y.tolist() == [0, 0, *before.y[3:].tolist()]
    assert after.x.tolist() == [*before.x[:2].tolist(), *before.x[3:].tolist()]


def test_what_cannot_be_given_back_is_never_taken_for_another_format(toy):
    assert len(da.load("a.toy")[0]) == 30
    decided("a.toy", "d.parquet", [("2", "remove", "a", "")])
    refused = invoke("apply", "a.toy", "d.parquet")
    assert_one_error_line(refused, r"can be given back \(Arrow, .*a\.toy is of toys")
    assert not Path("clean").exists()
    Path("a.txt").touch()
    with pytest.raises(DataError, match=r"must end in .*\.npz, .*\.toy.*; got a\.txt"):
        da.load("a.txt")


def test_a_plugin_that_is_no_format_is_refused(monkeypatch):
    monkeypatch.setattr("datassay.data.format.plugins", lambda _: {"odd": pa.table})
    with pytest.raises(DataError, match="must name a Format or a TableFormat; 'odd'"):
        formats()


def test_suffixes_are_each_of_one_format():
    assert len(set(suffixes())) == len(suffixes()) > 8
    assert npz.FORMAT in formats()
