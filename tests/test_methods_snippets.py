"""The snippets of docs/methods.md run."""

import re
import warnings
from pathlib import Path

import pytest

METHODS = Path(__file__).parent.parent / "docs" / "methods.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", METHODS.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet_runs(snippet):
    with warnings.catch_warnings():
        if "skorch" in snippet:
            warnings.simplefilter("ignore")  # what skorch itself imports
            pytest.importorskip("skorch")
        exec(compile(snippet, "methods.md", "exec"), {"__name__": "snippet"})
