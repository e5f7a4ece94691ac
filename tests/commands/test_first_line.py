"""The first line of a command: what was read, before anything heavy is imported; other data."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from helpers.command_line import assert_one_error_line, columns, invoke, succeed, summary

# Seconds of processor time, and what is imported, where a command first prints.
FIRST = """
import os, sys, time
from datassay.commands import shell
print_line = shell.err_console.print
def first(*objects, **options):
    print_line(*objects, **options)
    heavy = {"torch", "sklearn", "zarr", "plotly"} & sys.modules.keys()
    print(time.process_time(), *sorted(heavy), flush=True)
    os._exit(0)
shell.err_console.print = first
from datassay.commands import main
main()
"""


def write_churn(path, seed=0, n=200):
    rng = np.random.default_rng(seed)
    tenure, calls = rng.integers(0, 72, n), rng.poisson(2, n)
    left = 0.6 * calls - 0.05 * tenure + 0.3 * rng.normal(size=n) > 0.2
    left ^= np.arange(n) % 20 == 0  # of these labels each is wrong
    table = {"customer_id": [f"C-{i}" for i in rng.permutation(n)], "tenure": tenure}
    table |= {"email": [f"u{i}@mail.org" for i in range(n)], "region": ["EU"] * n, "calls": calls}
    csv.write_csv(pa.table({**table, "churned": np.where(left, "yes", "no")}), path)
    return table["customer_id"], left.mean()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_line_says_what_was_read_within_two_seconds(here):
    share = write_churn("churn.csv")[1]
    command = [sys.executable, "-c", FIRST, "run", "churn.csv", "--target", "churned"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == (
        f"churn.csv: 200 rows, target churned (2 classes, {100 * share:.0f} % yes), ids "
        "customer_id, 2 columns left out (email, region)\n"
    )
    seconds, *heavy = ended.stdout.split()
    assert not heavy and float(seconds) < 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("score iris", "iris: 150 samples, 3 classes"),
        ("score diabetes", "diabetes: 442 samples, 25 to 346"),
        ("weigh churn.csv --target calls --task regression", ", target calls (0 to "),
        ("score churn.csv --target tenure,calls", ", target tenure, calls (2 a row), ids customer"),
    ],
)
def test_data_of_any_kind_are_described(here, line, said):
    write_churn("churn.csv")
    assert said in invoke(*line.split(), *["--plan"] * (line[:5] == "score")).stderr


def test_ids_that_were_found_lead_to_the_corrected_data(here):
    ids, _ = write_churn("churn.csv")
    succeed("score", "churn.csv", "--target", "churned", "--model", "linear", "--out", "r")
    found = csv.read_csv("r/suspects.csv")["id"].to_pylist()
    assert found and {*found} <= {*ids} and sorted(columns("r/scores.parquet")["id"]) == sorted(ids)
    inputs = summary("r")["origin"]["inputs"]
    assert (inputs["target"], inputs["ids"]) == ("churned", "customer_id")
    succeed("apply", "churn.csv", "r", "--accept-suggested", "0.3", "--out", "clean")
    changed = csv.read_csv("clean/changelog.csv")["id"].to_pylist()
    assert changed and {*changed} <= {*found}
    # Left out by name it names nothing, neither here nor where the labels are corrected.
    options = ["--drop", "customer_id,email", "--model", "linear"]
    succeed("score", "churn.csv", "--target", "churned", *options, "--out", "n")
    assert columns("n/scores.parquet")["id"] == list(range(200))
    succeed("apply", "churn.csv", "n", "--accept-suggested", "0.3", "--out", "numbered")
    assert Path("numbered/churn.csv").read_text() == Path("clean/churn.csv").read_text()


@pytest.mark.slow
def test_a_page_of_other_data_is_replaced_only_where_asked(here):
    write_churn("churn.csv")
    Path("other").mkdir()
    write_churn("other/churn.csv", seed=1)
    line = ["--target", "churned", "--model", "linear", "--out", "r"]
    succeed("score", "churn.csv", *line)
    before = Path("r/index.html").read_bytes()
    rule = "--out must not replace the page of other data; r is about .*churn.csv. Choose another"
    for data in ("other/churn.csv", "iris"):
        options = line if data != "iris" else line[2:]
        assert_one_error_line(invoke("score", data, *options), rule)
    assert Path("r/index.html").read_bytes() == before
    succeed("score", str(Path("churn.csv").resolve()), *line)  # the same, named otherwise
    Path("copy").mkdir()
    shutil.copy("churn.csv", "copy")
    succeed("score", "copy/churn.csv", *line)  # as in a folder that was moved
    succeed("score", "other/churn.csv", *line, "--overwrite")
    succeed("weigh", "iris", "--seeds", "0", "--out", "w")
    assert_one_error_line(invoke("weigh", "wine", "--seeds", "0", "--out", "w"), "w is about iris")
