"""The snippets of README and how-tos run, commands exist, and tables are the recorded ones."""

import re
import sys
from importlib.util import find_spec

import pytest
from typer.main import get_command

from datassay.commands import app
from helpers.snippets import ROOT, run, snippets

sys.path.insert(0, str(ROOT))
from bench import extrapolate, table

README = ROOT / "README.md"
DOCS = ROOT / "docs"
HOW_TOS = sorted((DOCS / "howto").glob("*.md"))
PAGES = [README, *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("snippet", snippets(README, *HOW_TOS)[1:])
def test_snippet_runs(snippet, capsys):
    if "datassay_lab" in snippet:
        pytest.importorskip("datassay_lab")  # a package of its own
    run(snippet, "README or how-to")
    assert capsys.readouterr().out


def test_first_snippet_finds_the_wrong_labels(capsys):
    run(snippets(README)[0].values[0], "README")
    right, total, accuracy = re.search(
        r"(\d+) of (\d+) wrong labels found\nheld-out accuracy ([\d.]+)", capsys.readouterr().out
    ).groups()
    assert int(right) >= 0.9 * int(total) and float(accuracy) > 0.9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    group = get_command(app)
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    lines = [line.partition("  #")[0].partition(" # ")[0] for b in blocks for line in b.split("\n")]
    for line in lines:
        words = line.split()
        if words[:2] == ["datassay", "lab"] and find_spec("datassay_lab") is None:
            continue  # a command of another package: its options are looked at where it is there
        if words[:1] == ["datassay"] and not words[1].startswith("-"):
            command = group.get_command(None, words[1])
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            assert {w for w in words[2:] if w.startswith("--")} <= known, line


def test_tables_are_the_recorded_ones():
    measured = (DOCS / "measured.md").read_text(encoding="utf-8")
    assert table.shown(README.read_text(encoding="utf-8")) == table.short_table()
    assert table.shown(measured) == table.full_tables()


def test_extrapolation_is_of_the_recorded_measurement():
    page = (DOCS / "billion-samples.md").read_text(encoding="utf-8")
    assert extrapolate.put(page) == page
