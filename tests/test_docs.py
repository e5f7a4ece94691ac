"""The documentation: snippets run, commands and files exist, tables are the recorded ones."""

import html
import inspect
import os
import re
import shlex
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
from typer.main import get_command

from datassay.commands import app
from helpers.snippets import ROOT, run, snippets

sys.path.insert(0, str(ROOT))
from bench import extrapolate, table
from docs import equations

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in (README, *sorted(DOCS.rglob("*.md")))
}
RUN = (README, *sorted((DOCS / "howto").glob("*.md")), DOCS / "methods.md")


@pytest.mark.parametrize("snippet", snippets(*RUN)[1:])
@pytest.mark.slow
def test_snippet_runs(snippet, request, capsys):
    if "datassay_lab" in snippet:
        pytest.importorskip("datassay_lab")  # a package of its own
    with warnings.catch_warnings():
        if "skorch" in snippet:
            warnings.simplefilter("ignore")  # what skorch itself imports
        run(snippet, "documentation")
    assert "methods" in request.node.name or capsys.readouterr().out


def test_first_snippet_finds_the_wrong_labels(capsys):
    run(snippets(README)[0].values[0], "README")
    right, total, accuracy = re.search(
        r"(\d+) of (\d+) wrong labels found\nheld-out accuracy ([\d.]+)", capsys.readouterr().out
    ).groups()
    assert int(right) >= 0.9 * int(total) and float(accuracy) > 0.9


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page):
    group = get_command(app)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGES[page], re.M | re.S)
    lines = [line.partition("  #")[0].partition(" # ")[0] for b in blocks for line in b.split("\n")]
    for line in lines:
        words = line.split()
        if words[:2] == ["datassay", "lab"] and find_spec("datassay_lab") is None:
            continue  # a command of another package: its options are looked at where it is there
        if words[:1] == ["datassay"] and not words[1].startswith("-"):
            command = group.get_command(None, words[1])
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            assert {w for w in words[2:] if w.startswith("--")} <= known, line


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs")])
def test_a_page_is_well_formed_and_the_files_that_it_names_exist(page):
    text = PAGES[page]
    fences = re.findall(r"^```.*$", text, flags=re.MULTILINE)
    assert "```" not in fences[::2] and set(fences[1::2]) <= {"```"} and len(fences) % 2 == 0
    source = ROOT / "src" / "datassay"
    for name in re.findall(r"`([\w/.]+\.(?:py|md|jsonl))`", text):
        alone = "/" not in name and any(source.rglob(name))
        assert alone or any((at / name).exists() for at in (ROOT, source, ROOT / "bench")), name


def test_tables_are_the_recorded_ones():
    assert table.shown(PAGES["README.md"]) == table.short_table()
    for name, put in (("measured", table.put), ("billion-samples", extrapolate.put)):
        page = PAGES[f"docs/{name}.md"]
        assert put(page) == page


def test_each_command_and_public_name_has_its_page_with_real_defaults():
    generate = pytest.importorskip("docs.generate", reason="the extra docs is not installed")
    pages = dict(generate.pages())
    assert {f"commands/datassay-{name}.md" for name in get_command(app).commands} <= pages.keys()
    for name in generate.MODULES:
        page, module = pages[f"python/{name.removeprefix('datassay.')}.md"], import_module(name)
        for public in getattr(module, "__all__", ()):
            assert f"`{public}`" in page or f"`{name}.{public}`" in page, public
            if f"      heading: {public}\n" in page:
                values = inspect.signature(getattr(module, public)).parameters.values()
                defaults = [generate.shown(v.default) for v in values if v.default is not v.empty]
                assert not re.search(r"\.\.\.|<|_CLASS", " ".join(defaults)), public


def test_an_equation_is_set_with_the_characters_of_its_source(monkeypatch):
    blocks = [html.escape(b) for text in PAGES.values() for b in text.split("\n\n")]
    drawn = equations.typeset("".join(f"<p>{block}</p>" for block in blocks))
    assert drawn.count("<mfrac>") > 20 and "R<sub>q</sub> = (Θ + s<sub>q</sub>)⁻¹" in drawn
    assert "<mfrac><mrow><mi>f</mi><mrow><mo>(</mo>" in equations.equation("a = f(x)/c")
    monkeypatch.setattr(equations, "_clause", lambda text: "<mi>x</mi>")
    with pytest.raises(AssertionError, match="would be set as"):
        equations.equation("y = x")


# The tutorial runs from top to bottom, and prints what it shows. ----------------------------

TUTORIAL = dict(zip(("own", "", "real data"),
                    PAGES["docs/tutorial.md"].partition("*Needs DATASSAY_DATA.*"),
                    strict=True))  # fmt: skip
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
NEEDS_DATA = (
    pytest.mark.real_data,
    pytest.mark.skipif("DATASSAY_DATA" not in os.environ, reason="DATASSAY_DATA is not set"),
)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["own", pytest.param("real data", marks=NEEDS_DATA)])
def test_tutorial(part, tmp_path, monkeypatch, capsys):
    import numpy as np

    import datassay as da

    monkeypatch.chdir(tmp_path)
    printed, names = "", {"__name__": "tutorial"}
    if part == "real data":
        names |= {"np": np, "da": da}
    for language, text in BLOCK.findall(TUTORIAL[part]):
        if language == "python":
            exec(compile(text, "tutorial", "exec"), names)
            printed = capsys.readouterr().out
        elif language == "sh":
            command = [sys.executable, "-m", *shlex.split(text)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr
        else:
            assert_like(printed, text)
    if part == "own":
        assert names["wrong"][names["suspect"]].mean() > 0.9


def assert_like(printed, shown):
    """The same words and close numbers, since other processors round otherwise."""
    printed, shown = (re.sub(r"id \d+", "id", text) for text in (printed, shown))
    assert NUMBER.sub("0", printed).split() == NUMBER.sub("0", shown).split(), printed
    for a, b in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        assert float(a) == pytest.approx(float(b), rel=0.05, abs=0.02 if "." in b else 2), printed
