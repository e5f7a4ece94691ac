"""The README's snippets run, and its table is the recorded one."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet_runs(snippet, capsys):
    exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_first_snippet_finds_the_wrong_labels(capsys):
    exec(compile(SNIPPETS[0], "README.md", "exec"), {})
    found, total, accuracy = re.search(
        r"(\d+) of (\d+) wrong labels found\nheld-out accuracy ([\d.]+)", capsys.readouterr().out
    ).groups()
    assert int(found) >= 0.9 * int(total) and float(accuracy) > 0.9


def test_table_is_the_recorded_one():
    sys.path.insert(0, str(ROOT / "bench"))
    from table import table

    shown = README.partition("<!-- results -->\n")[2].partition("\n<!-- /results -->")[0]
    assert shown == table()


def test_extrapolation_is_of_the_recorded_measurement():
    sys.path.insert(0, str(ROOT / "bench"))
    from extrapolate import END, START, tables

    page = (ROOT / "docs" / "billion-samples.md").read_text(encoding="utf-8")
    assert page.partition(f"{START}\n")[2].partition(f"\n{END}")[0] == tables()
