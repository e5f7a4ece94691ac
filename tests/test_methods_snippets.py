"""The snippets of the documentation run."""

import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SNIPPETS = [
    snippet
    for name in ("methods.md", "long-runs.md", "lab.md")
    for snippet in re.findall(
        r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL
    )
]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_block_of_code_is_closed_and_every_heading_stands_alone(page):
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```.*$", text, flags=re.MULTILINE)
    assert "```" not in fences[::2] and set(fences[1::2]) <= {"```"} and len(fences) % 2 == 0
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"[^\n]\n#+ .*", prose)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet_runs(snippet):
    with warnings.catch_warnings():
        if "skorch" in snippet:
            warnings.simplefilter("ignore")  # what skorch itself imports
            pytest.importorskip("skorch")
        exec(compile(snippet, "documentation", "exec"), {"__name__": "snippet"})
