"""The documentation: what it types works and prints what it shows, and its tables are recorded."""

import html
import inspect
import os
import re
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench import extrapolate, table
from docs import equations

from datassay.commands import app
from helpers.browser import in_browser, resize, violations
from helpers.command_line import make_commands
from helpers.installed import build, install

ROOT = Path(__file__).parents[1]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page):
    group = make_commands(app)
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
        assert alone or any(
            (index / name).exists() for index in (ROOT, source, ROOT / "bench", ROOT / "tests")
        ), name


def test_tables_are_the_recorded_ones():
    claims = PAGES["README.md"].partition("## How good is it")[2].partition("\n## ")[0]
    assert not set(re.findall(r"\d+\.\d+", claims)) - set(
        re.findall(r"\d+\.\d+", PAGES["docs/measured.md"])
    )
    for name, put in (("measured", table.put), ("billion-samples", extrapolate.put)):
        page = PAGES[f"docs/{name}.md"]
        assert put(page) == page


def test_each_command_and_public_name_has_its_page_with_real_defaults():
    generate = pytest.importorskip("docs.generate", reason="the extra docs is not installed")
    pages = dict(generate.pages())
    assert {f"commands/datassay-{name}.md" for name in make_commands(app).commands} <= pages.keys()
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


@in_browser
@pytest.mark.parametrize("scheme", ["default", "slate"])  # a process each
def test_axe_finds_nothing_in_the_documentation(browser, tmp_path, scheme):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    (tmp_path / "404.html").unlink()  # whose scripts are found at the root of a server alone
    resize(browser, 1280)
    still = """
        const still = document.createElement("style");
        still.textContent = "* { transition: none !important; }";
        document.head.append(still);
    """
    found = {}
    for page in sorted(tmp_path.rglob("*.html")):
        browser.get(page.as_uri())
        browser.execute_script(still)
        put = "document.body.setAttribute('data-md-color-scheme', arguments[0])"
        browser.execute_script(put, scheme)
        found[page] = violations(browser)
    assert len(found) > 100 and not {page.name: what for page, what in found.items() if what}


# What is typed, from the top of a page to its end, in an empty folder. ----------------------

TYPED = ("README", "docs/tutorial", "docs/howto/", "docs/methods")
BLOCK = re.compile(r"(?:^\*Needs ([^*]+)\.\*\n\n)?^```(sh|python|text)\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")
# What a page says it needs → the module that is there where that is; None: no test has it.
NEEDS = {"": "datassay", "a network": None, "a cluster": None, "a GPU": None,
         "datassay[hf]": "accelerate", "datassay[skorch]": "skorch",
         "datassay[features]": "all_minilm_l6_v2",
         "datassay-lab": "datassay_lab", "datassay-exports": "datassay_exports"}  # fmt: skip
# Ends a review, which is served until Ctrl-C, so once it has said where.
PROGRAM = """
import os, signal, subprocess, sys, time
command = [*{command}, *sys.argv[1:]]
if sys.argv[1:2] != ["view"]:
    os.execvp(command[0], command)
process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
for line in process.stdout:
    print(line, end="")
    if line.startswith("http"):
        time.sleep(1)
        process.send_signal(signal.SIGINT)
sys.exit(process.wait())
"""


@pytest.fixture
def terminal(tmp_path, monkeypatch, request):
    """A folder with the user's own file, and our commands on PATH.

    Those of the README are of a wheel in an environment of its own.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    command = [sys.executable, "-m", "datassay"]
    if request.node.callspec.params.get("page") == "README.md":
        installed = install(build(tmp_path)[1], tmp_path / "environment")
        command = ["env", "-u", "PYTHONPATH", str(installed)]
    program = f"#!{sys.executable}\n{PROGRAM.format(command=command)}"
    (programs / "datassay").write_text(program)
    (programs / "datassay").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    here = tmp_path / "here"
    here.mkdir()
    rng = np.random.default_rng(0)  # the user's own file, which nobody prepared
    x = rng.normal(size=(240, 2)).round(2)
    notes, labels = np.where(rng.random(240) < 0.1, "", "a"), np.where(x.sum(1) > 0, "yes", "no")
    rows = zip(range(240), *x.T, notes, labels, strict=True)
    lines = ["K{},{},{},{},{}".format(*row) for row in rows]
    (here / "yours.csv").write_text("\n".join(["key,Weight (kg),dose,note,y", *lines]) + "\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=pytest.mark.slow if page.startswith(TYPED[:2]) else pytest.mark.typed
        )
        for page in PAGES
        if page.startswith(TYPED)
    ],
)
@pytest.mark.usefixtures("terminal")
def test_a_page_can_be_typed_as_printed(page, capsys):
    printed, names, missing = "", {"__name__": "typed"}, set()
    for needs, language, text in BLOCK.findall(PAGES[page]):
        if NEEDS[needs] is None:
            continue
        if find_spec(NEEDS[needs]) is None:
            missing |= {needs}
        elif language == "sh":
            command = ["bash", "-ec", text]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            ended = subprocess.run(command, **streams, text=True, check=False, timeout=900)
            assert ended.returncode == 0, f"{text}\n{ended.stdout}"
            printed = ended.stdout
        elif language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what other packages say of each other
                exec(compile(text, page, "exec"), names)
            printed = capsys.readouterr().out
        else:
            assert_shown(printed, text)
    if missing:
        pytest.skip(f"all but what needs {', '.join(sorted(missing))} was typed")


def assert_shown(printed, shown):
    """Each line that is shown was printed, in this order, with close numbers."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() != "…":
            assert any(is_like(one, line) for one in lines), f"{line}\n\n{printed}"


def is_like(one, other):
    """The same words and close numbers, since other processors round otherwise."""
    if NUMBER.sub("0", one).split() != NUMBER.sub("0", other).split():
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    values = [[float(n.replace(",", "").replace("−", "-")) for n in pair] for pair in pairs]
    return all(abs(a - b) <= max(0.05 * abs(b), 0.02 if b % 1 else 2) for a, b in values)
