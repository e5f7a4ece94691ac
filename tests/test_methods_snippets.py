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


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet_runs(snippet):
    with warnings.catch_warnings():
        if "skorch" in snippet:
            warnings.simplefilter("ignore")  # what skorch itself imports
            pytest.importorskip("skorch")
        exec(compile(snippet, "documentation", "exec"), {"__name__": "snippet"})
