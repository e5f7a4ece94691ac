"""The table of the five documents: what it names exists; figures of all pages are recorded."""

import re
import shlex
import sys
import tomllib
from functools import reduce
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.frame import every_task, task_named
from bench.record import latest

import datassay
from datassay.commands import app
from helpers.command_line import make_commands

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/seeds.md").read_text(encoding="utf-8")
CELL = re.compile(r"(?<!\\)\|")
ROWS = [
    [cell.strip() for cell in CELL.split(line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| where |")
]
NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?(?:e[-−]?\d+)?")
LINES = latest()
OTHERS = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/seeds.md"})
COURSE = ROOT / "packages/datassay-lab/src/datassay_lab/course.toml"
MACHINE = {"bench", "commit", "date", "machine", "python", "threads", "versions"}
STATES = re.compile(r"works|differs: \S.*|not here: \S.*")
# Of all rows.
SHARE = 0.94


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def experiments():
    chapters = tomllib.loads(COURSE.read_text(encoding="utf-8"))["chapter"]
    return {one["name"] for chapter in chapters for one in chapter["experiment"]}


def assert_exists(name):
    words = shlex.split(name)
    if name.startswith("da."):  # as a reader types it: `da.collect` is a function, no module
        *path, public = words[0].split(".")[1:]
        assert public in reduce(getattr, path, datassay).__all__, name
    elif words[0] == "from":
        assert words[3] in import_module(words[1]).__all__, name
    elif words[:2] == ["datassay", "lab"]:
        assert words[2] in experiments(), name
    elif words[0] == "datassay":
        command = make_commands(app).get_command(None, words[1])
        known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
        assert len(words) == 2 or set(words[2:]) <= known, name
    elif words[0].removeprefix("truths/") in every_task():
        after = words[words.index("--cases") + 1 :] if "--cases" in words else []
        cases = set(takewhile(lambda word: not word.startswith("--"), after)) - {"CASE"}
        assert cases <= set(task_named(words[0].removeprefix("truths/")).cases), name
    elif words[0] in {"purify", "scale", "step", "retrain"}:
        pass  # the name of a function or of a value of its arguments
    else:
        assert (ROOT / name).is_file() or name in LINES, name


def numbers(value):
    """All numbers of a record, those within its texts too."""
    if isinstance(value, dict):
        return [n for key, one in value.items() if key not in MACHINE for n in numbers(one)]
    if isinstance(value, list | tuple):
        return [n for one in value for n in numbers(one)]
    if isinstance(value, str):
        return [float(n.replace("−", "-")) for n in NUMBER.findall(value)]
    return [float(value)] if isinstance(value, int | float) else []


def decimals(text):
    """Its numbers with a point or an exponent, outside code and links."""
    plain = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "", text)
    return [n for n in NUMBER.findall(plain) if "." in n or "e" in n]


def is_recorded(shown, record):
    """Whether a number of the record, or a hundred times it, rounds to the shown one."""
    text = shown.replace("−", "-")
    mantissa, _, exponent = text.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    near = 0.501 * 10.0**-digits
    return any(
        abs(abs(float(text)) - abs(scale * n)) <= near
        for n in numbers(record)
        for scale in (1, 100)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}, {row[1]}"[:60])
def test_a_row_names_what_exists_and_shows_what_is_recorded(row):
    where, _, here, figure, state = row
    assert where and STATES.fullmatch(state) and (here or figure or state != "works"), row
    for name in (*code(here), *code(figure)):
        if name not in LINES:
            assert_exists(name)
    public = [
        re.split(r"[. ]", name)[-1] for name in code(here) if name.startswith(("da.", "from "))
    ]
    for name in code(figure):
        if name.startswith("tests/") and public:
            text = (ROOT / name).read_text(encoding="utf-8")
            assert any(one in text for one in public), f"{name} tests none of {public}"
    own = [f"lab/{name.split()[2]}" for name in code(here) if name.startswith("datassay lab")]
    for part in figure.split("; "):
        named = [name for name in code(part) if name in LINES] or own
        shown = decimals(part)
        if named:
            record = [LINES[name] for name in named]
            assert not [n for n in shown if not is_recorded(n, record)], (part, named)
        elif "measured.md" in part:
            page = (ROOT / "docs/measured.md").read_text(encoding="utf-8")
            assert all(n in page for n in shown), part
        elif shown:
            assert code(part), f"no record, test or page is named for {part}"


def test_most_rows_work_and_the_others_say_so():
    states = [row[-1].partition(":")[0] for row in ROWS]
    assert len(ROWS) > 200 and {"works", "differs", "not here"} == set(states)
    assert 1 - states.count("not here") / len(states) >= SHARE


def test_a_sentence_or_a_table_that_names_a_line_has_its_figures():
    named, record = 0, []
    for page in OTHERS:
        text = page.read_text(encoding="utf-8")
        for part in re.split(r"(?<=[.;:])\s+|\n\n|\n(?=\|)", re.sub(r"\n(?![\n|])", " ", text)):
            lines = [LINES[name] for name in code(part) if name in LINES]
            record = lines or (record if part.startswith("|") else [])
            lost = [n for n in decimals(part) if record and not is_recorded(n, record)]
            assert not lost, (page.name, part, lost)
            named += bool(record)
    assert named > 20
