"""`datassay bench DATA`: files, page, terminal, the user's own network, plan, one line an error."""

import json

import pytest

from helpers.command_line import assert_one_error_line, columns, invoke, listed, succeed

SHORT = ["--model", "mlp:width=8", "--steps", 60, "--lr", 0.01, "--halves", 20]
NETWORK = """
from torch import nn

def network():
    return nn.Sequential(nn.LayerNorm(13), nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """What one check wrote and printed."""
    out = tmp_path_factory.mktemp("out") / "trust"
    return out, succeed("bench", "wine", *SHORT, "--out", out)


def test_the_answer_is_printed_and_stands_first_on_the_page(checked):
    out, result = checked
    printed, page = " ".join(result.stdout.split()), (out / "index.html").read_text()
    for words in ("Which samples caused a prediction:", "loss alone", "the ceiling is", "free"):
        assert words in printed and words in page
    assert page.index("Which samples caused a prediction:") < page.index("<h2")
    assert all(f'data-figure="{name}"' in page for name in ("predictions", "samples"))
    assert result.stdout.splitlines()[-1] == str(out / "index.html")
    assert "train on halves of the samples" in result.stderr


def test_the_files_say_the_same(checked):
    out, _ = checked
    assert listed(out) == ["bench.parquet", "index.html", "summary.json"]
    table, summary = columns(out / "bench.parquet"), json.loads((out / "summary.json").read_text())
    assert [row["score"] for row in summary["scores"]] == table["score"]
    assert summary["halves"] == 20 and summary["smoothness"]["parting"] > 0
    assert set(table["verdict"]) <= {"trust", "with care", "do not trust"}
    for low, value, high in zip(table["low"], table["correlation"], table["high"], strict=True):
        assert -1 <= low <= value <= high <= 1
    for words in ("adam, step size 0.01, 60 updates", "20 random halves"):
        assert words in " ".join(summary["facts"].values())


def test_the_users_own_network_and_the_same_again_from_the_store(tmp_path):
    (tmp_path / "mine.py").write_text(NETWORK)
    args = ["wine", *SHORT, "--model", f"{tmp_path / 'mine.py'}:network", "--optimizer", "sgd",
            "--lr", 0.1, "--batch-size", "none", "--store", tmp_path / "kept"]  # fmt: skip
    succeed("bench", *args, "--out", tmp_path / "a")
    succeed("bench", *args, "--out", tmp_path / "b")
    first, again = (columns(tmp_path / name / "bench.parquet") for name in "ab")
    assert first["correlation"] == again["correlation"]
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert "updates of all samples" in summary["facts"]["Training"]


def test_a_run_that_cannot_be_predicted_is_not_trusted(tmp_path):
    result = succeed("bench", "wine", *SHORT, "--lr", 3, "--out", tmp_path)
    table = columns(tmp_path / "bench.parquet")
    verdicts = dict(zip(table["score"], table["verdict"], strict=True))
    assert verdicts["influence"] == "do not trust"
    assert "do not trust “influence”" in " ".join(result.stdout.split())


def test_an_estimator_is_fitted_in_the_networks_place(tmp_path):
    model = "sklearn.naive_bayes:GaussianNB"
    result = succeed("bench", "wine", "--model", model, "--halves", 20, "--out", tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert "GaussianNB, fitted anew" in summary["facts"]["Model"]
    scores = {row["score"]: row for row in summary["scores"]}
    assert "influence" not in scores and {"label issue score", "final loss"} <= scores.keys()
    # Its fits to a half differ by nothing: naive Bayes draws no random numbers.
    assert summary["ceiling"]["value"] == pytest.approx(1)
    assert summary["smoothness"] is None
    assert "default network" in " ".join(result.stdout.split()) or summary["facts"]["Scores"]


def test_a_plan_runs_nothing(tmp_path):
    result = succeed("bench", "wine", *SHORT, "--plan", "--out", tmp_path / "out")
    assert "40 fits" in " ".join(result.stdout.split()) and "Nothing was run" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["wine", "--case", "labels"], "case is measured without DATA"),
        (["--lr", 0.1], "lr needs DATA"),
        (["--plan"], "plan needs DATA"),
        (["wine", "--halves", 3], "halves must be at least 20"),
        (["wine", "--steps", 0], "steps must be 1 to"),
        (["wine", "--minutes", 0], "minutes must be positive"),
        (["wine", "--queries", 1], "queries must be at least 2"),
        (["wine", "--batch-size", "x"], "batch-size must be 'none' or a whole number"),
        (["wine", "--optimizer", "lbfgs"], "optimizer must be 'adam' or 'sgd'"),
        (["wine", "--model", "sklearn.svm:SVC", "--lr", 0.1], "lr is of networks; sklearn.svm:SVC"),
        (["wine", "--model", "sklearn.svm:SVR"], "model must be a classifier"),
        (["wine", "--val-fraction", 0], "val-fraction must be above 0 for bench"),
    ],
)
def test_bad_input_costs_one_line(tmp_path, args, message):
    result = invoke("bench", *args, "--out", tmp_path / "b")
    assert_one_error_line(result, message)
    assert not (tmp_path / "b").exists()
