"""Calls of the command line, and what they must print."""

import functools
import json
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer.main
import typer.testing
from jsonschema import Draft202012Validator

import datassay
from datassay.commands import app
from datassay.store.outputs import write_pages

# Typer makes the options of all commands from their signatures, 20 ms each time it is asked.
typer.testing._get_command = make_commands = functools.cache(typer.main.get_command)
SCHEMA = json.loads((Path(datassay.__file__).parent / "summary.schema.json").read_text("utf-8"))


def invoke(*args):
    return typer.testing.CliRunner().invoke(app, [str(a) for a in args])


def assert_one_error_line(result, message):
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert result.exit_code == 2, result.output
    assert len(errors) == 1, result.stderr
    assert re.search(message, errors[0]), errors[0]
    assert "Traceback" not in result.output


def succeed(*args):
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    return result


def refusals(table, base="", **names):
    """A test of bad input: each command line costs one line that says why, and changes no file.

    Args:
        table: command line → pattern of the message; a line that begins with an option, or is
            empty, follows `base`.
        base: a command line that would be right. `--out out` is added where a line has no --out.
        names: words of the lines that stand for several.
    """

    @pytest.mark.parametrize(("line", "message"), table.items(), ids=table)
    def test(here, line, message):
        line = line if line[:1] not in {"", "-"} else f"{base} {line}"
        words = [w for word in shlex.split(line) for w in names.get(word, [word])]
        before = contents(here)
        result = invoke(*words, *([] if "--out" in words else ["--out", "out"]))
        assert_one_error_line(result, message)
        assert contents(here) == before

    return test


def contents(folder):
    """Path → bytes of every file below a folder, but for compiled modules."""
    files = [p for p in Path(folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def planted(folder, names):
    """Earlier results of ours in a folder, told by their text."""
    write_pages({name: f"an earlier {name}" for name in names}, Path(folder))


def listed(folder):
    """Names of the results in a folder; the manifest of what we wrote stands with them."""
    names = sorted(p.name for p in Path(folder).iterdir())
    assert ".datassay.json" in names
    return [name for name in names if name != ".datassay.json"]


def columns(path):
    return pq.read_table(path).to_pydict()


def summary(folder="out"):
    """Of a run: strict JSON, in which no NaN is written."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    text = Path(folder, "summary.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=refuse)
    assert_schema(content)
    return content


def assert_schema(content):
    """A summary.json of any command is what the schema that is shipped says."""
    errors = Draft202012Validator(SCHEMA).iter_errors(content)
    assert not [f"{e.json_path}: {e.message[:200]}" for e in errors]


def words(result):
    """What was printed on both streams, in one line."""
    return " ".join(result.output.split())
