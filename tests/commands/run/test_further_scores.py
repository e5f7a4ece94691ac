"""A score of another package is in the table, the page, the summary, the help and the plan."""

import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datassay.commands.app import app
from datassay.errors import SettingError
from datassay.plugins import plugins
from datassay.results import Meaning, meaning_of
from datassay.score import registry
from datassay.score.registry import further_scores, scores
from helpers import toy_score
from helpers.distributions import distribution


def install(path, name, target):
    """A distribution with one entry point of `datassay.scores`, on the path."""
    distribution(path, name, f"[datassay.scores]\n{name} = {target}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    plugins.cache_clear()


@pytest.fixture
def datassay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(app, list(args))


def test_a_score_of_one_module_is_everywhere(site, datassay, tmp_path):
    install(site, "rarity", "helpers.toy_score:SCORE")
    assert [one.name for one in scores()][-2:] == ["data_issues", "rarity"]

    done = datassay("score", "wine", "--noise", "0.1", "--out", "out")
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert table.column_names[-1] == "rarity"
    predicted = meaning_of(table.schema.field("rarity"))
    assert predicted == Meaning("share of the other labels", "share", "high: a rare label")
    labels = table["label"].to_numpy()
    expected = 1 - np.bincount(labels)[labels] / len(labels)
    np.testing.assert_array_equal(table["rarity"].to_numpy(), expected)

    page = (tmp_path / "out" / "index.html").read_text()
    assert 'id="rarity"' in page and "How rare the sample's label is." in page.replace("&#39;", "'")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["scores"]["rarity"]
    assert summary["rarity"]["median"] == np.median(expected)
    assert summary["rarity"]["unit"] == "share"

    shown = " ".join(datassay("run", "--help").output.split())
    assert "How rare the sample's label is." in shown
    assert "rarity (share of the other labels, share)" in shown
    plan = datassay("score", "wine", "--plan").output
    (seconds,) = re.findall(r"rarity.*?(\d+) │\n", plan)
    assert int(seconds) >= 1  # of 7e9 operations a sample


def test_a_built_in_score_takes_the_same_path(datassay, tmp_path, monkeypatch):
    module = SimpleNamespace(SCORE=replace(toy_score.SCORE, name="built_in"))
    monkeypatch.setitem(sys.modules, "datassay.score.toy", module)
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, "toy"))
    done = datassay("score", "wine", "--out", "out")
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "out" / "scores.parquet").column_names[-1] == "rarity"
    assert 'id="built_in"' in (tmp_path / "out" / "index.html").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["scores"]["built_in"]["rarity"]["unit"] == "share"


def test_none_is_told_where_none_is_installed(datassay):
    assert further_scores() == ()
    assert "packages add" not in datassay("run", "--help").output


def test_an_entry_point_that_is_no_score_is_refused(site):
    install(site, "odd", "helpers.toy_score:Rarity")
    with pytest.raises(SettingError, match=r"odd of datassay\.scores must name a Score"):
        further_scores()


def test_two_scores_of_one_name_are_refused(site):
    install(site, "first", "helpers.toy_score:SCORE")
    install(site, "second", "helpers.toy_score:SCORE")
    with pytest.raises(SettingError, match=r"a name of its own; .* second .* another rarity"):
        further_scores()
