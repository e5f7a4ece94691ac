"""Calls of the command line, and what they must print."""

import re
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from datassay.commands import app
from datassay.report.write import write_pages


def invoke(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def assert_one_error_line(result, message):
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert result.exit_code == 2, result.output
    assert len(errors) == 1
    assert re.search(message, errors[0]), errors[0]
    assert "Traceback" not in result.output


def succeed(*args):
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    return result


def planted(folder, names):
    """Earlier results of ours in a folder, told by their text."""
    write_pages({name: f"an earlier {name}" for name in names}, Path(folder))


def listed(folder):
    """Names of the results in a folder; the manifest of what we wrote stands beside them."""
    names = sorted(p.name for p in Path(folder).iterdir())
    assert ".datassay.json" in names
    return [name for name in names if name != ".datassay.json"]


def columns(path):
    return pq.read_table(path).to_pydict()
