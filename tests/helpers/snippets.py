"""Snippets of the documentation: what a page shows is what a test runs.

A line in italics above a snippet, `*Needs datassay[skorch].*` or `*Needs DATASSAY_DATA.*`, says
what it takes; where that is missing, its test is skipped with the reason.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SNIPPET = re.compile(r"(?:^\*Needs ([^*]+)\.\*\n\n)?^```python\n(.*?)^```", re.M | re.S)
MODULES = {"datassay[skorch]": "skorch", "datassay[hf]": "accelerate"}


def snippets(*pages: Path) -> list:
    """One parameter a Python snippet of the pages, skipped where what it needs is missing."""
    return [
        pytest.param(code, id=f"{page.stem}-{number}", marks=_skip(needs) if needs else ())
        for page in pages
        for number, (needs, code) in enumerate(SNIPPET.findall(page.read_text(encoding="utf-8")))
    ]


def _skip(needs: str) -> pytest.MarkDecorator:
    there = find_spec(MODULES[needs]) if needs in MODULES else os.environ.get(needs)
    return pytest.mark.skipif(not there, reason=f"the snippet needs {needs}")


def run(code: str, name: str) -> None:
    """Run a snippet as a script of its own."""
    exec(compile(code, name, "exec"), {"__name__": "snippet"})
