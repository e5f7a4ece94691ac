"""A page of this documentation for every experiment of the lab, made from the experiment itself.

Called by mkdocs (see `hooks` in mkdocs.yml). The figures below a statement are what
`bench/uses/lab.py` recorded last.
"""

from __future__ import annotations

import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from datassay_lab.catalog import CHAPTERS, experiments
from datassay_lab.experiment import Experiment

RESULTS = Path(__file__).parent.parent / "bench" / "results.jsonl"
PAGE = """# {name}

**{statement}**

```
{formula}
```

{look_for}

{recorded}

```sh
datassay lab {name} --out {name}
```

Source: {source}.

## The function behind it

::: {module}.{function}
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the navigation, chapter by chapter."""
    pages = [{chapter: [_path(e.name) for e in listed]} for chapter, listed in CHAPTERS.items()]
    for entry in config.nav:
        if "The course" in entry:
            entry["The course"] = ["howto/course.md", *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages themselves."""
    recorded = _recorded()
    for _, e in experiments():
        text = _page(e, recorded.get(e.name))
        files.append(File.generated(config, _path(e.name), content=text))
    return files


def _path(name: str) -> str:
    return f"lab/{name}.md"


def _page(e: Experiment, line: dict | None) -> str:
    recorded = "Not recorded yet."
    if line is not None:
        recorded = (
            f"Recorded: {line['what']} **{line['value']:.3g}** ({line['range'][0]:.3g} to "
            f"{line['range'][1]:.3g} over {line['seeds']} seeds), must be {line['kind']} "
            f"{line['limit']:.3g}; {line['seconds']:.1f} s."
        )
    return PAGE.format(
        name=e.name, statement=e.statement, formula=e.formula, look_for=e.look_for,
        recorded=recorded, source=e.source, module=e.module,
        function=e.name.replace("-", "_"),
    )  # fmt: skip


def _recorded() -> dict[str, dict]:
    lines = [json.loads(text) for text in RESULTS.read_text(encoding="utf-8").splitlines()]
    return {x["bench"].removeprefix("lab/"): x for x in lines if x["bench"].startswith("lab/")}
