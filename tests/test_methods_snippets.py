"""The snippets of the methods run, and every page of the documentation is well formed."""

import re
import warnings

import pytest

from helpers.snippets import ROOT, run, snippets

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_block_of_code_is_closed_and_every_heading_stands_alone(page):
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```.*$", text, flags=re.MULTILINE)
    assert "```" not in fences[::2] and set(fences[1::2]) <= {"```"} and len(fences) % 2 == 0
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"[^\n]\n#+ .*", prose)


@pytest.mark.parametrize("snippet", snippets(DOCS / "methods.md"))
def test_snippet_runs(snippet):
    with warnings.catch_warnings():
        if "skorch" in snippet:
            warnings.simplefilter("ignore")  # what skorch itself imports
        run(snippet, "methods")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_files_that_a_page_names_exist(page):
    source, bench = ROOT / "src" / "datassay", ROOT / "bench"
    for name in re.findall(r"`([\w/.]+\.(?:py|md|jsonl))`", page.read_text(encoding="utf-8")):
        alone = "/" not in name and any(source.rglob(name))
        assert alone or any((base / name).exists() for base in (ROOT, source, bench)), name
