"""`datassay lab`: the list, one experiment, its files, exit codes, one line for bad input."""

import json

import pytest

from datassay_lab.catalog import experiments
from helpers.command_line import invoke, listed, succeed

SMALL = ["--set", "n_features=4", "--set", "n_samples=30"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What one small experiment wrote and printed."""
    out = tmp_path_factory.mktemp("lab") / "deep" / "decay"
    return out, succeed("lab", "weight-decay", *SMALL, "--seed", 2, "--out", out)


def test_list_names_every_experiment():
    shown = succeed("lab").output
    assert all(chapter in shown and e.name in shown for chapter, e in experiments())


def test_json_list_is_whole():
    listed = json.loads(succeed("lab", "--json").stdout)
    assert [x["name"] for x in listed] == [e.name for _, e in experiments()]
    decay = next(x for x in listed if x["name"] == "weight-decay")
    assert decay["parameters"][2] == {
        "name": "alphas", "default": [0.01, 0.1, 1.0], "takes": "numbers separated by commas",
    }  # fmt: skip


def test_experiment_writes_page_and_results(ran):
    out, result = ran
    assert "holds" in result.output and str(out / "index.html") in result.output
    assert listed(out) == ["index.html", "summary.json", "weight-decay"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["experiments"][0]["parameters"]["n_features"] == 4
    assert summary["facts"]["Seed"] == "2"
    page = (out / "index.html").read_text()
    assert "Directions of little curvature" in page and 'id="figure-weight-decay-0"' in page


def test_json_report_is_the_summary(tmp_path):
    out = tmp_path / "out"
    printed = json.loads(
        succeed("lab", "weight-decay", *SMALL, "--seed", 2, "--out", out, "--json").stdout
    )
    assert printed == json.loads((out / "summary.json").read_text())["experiments"]


def test_broken_statement_ends_with_status_1(tmp_path):
    result = invoke("lab", "weight-decay", "--set", "steps=5", "--out", tmp_path)
    assert result.exit_code == 1 and "does not hold" in result.output
    assert (tmp_path / "index.html").exists()


@pytest.mark.parametrize(
    ("arguments", "predicted"),
    [
        (["weight-decey"], "Did you mean weight-decay"),
        (["weight-decay", "--set", "width=3"], "set must be NAME=VALUE with a parameter of weight"),
        (["weight-decay", "--set", "steps=0"], "steps must be a whole number of at least"),
        (["all", "--set", "steps=3"], "set changes one experiment's parameters"),
        (["weight-decay", "--seed", -1], "seed must be an integer"),
    ],
)
def test_bad_input_is_one_line(arguments, predicted, tmp_path):
    result = invoke("lab", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2 and predicted in result.output
    assert "Traceback" not in result.output and not (tmp_path / "out").exists()
