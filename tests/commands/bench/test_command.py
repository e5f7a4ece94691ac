"""`datassay bench`: files, page, one line per error."""

import numpy as np
import pytest

from datassay.commands.bench.trust import (
    _format_row,
    _plot_correlations,
    _rank_scores,
    headline,
)
from datassay.score.compare.trust import SAMPLES, Estimate, TrustCheck
from helpers.command_line import columns, listed, refusals, succeed, summary, words

SHORT = ["--model", "mlp:width=8", "--steps", 60, "--lr", 0.01, "--halves", 20]
NETWORK = """
from torch import nn

def network():
    return nn.Sequential(nn.LayerNorm(13), nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
"""


def test_the_answer_stands_first_and_the_files_say_the_same(tmp_path):
    result, out = succeed("bench", "wine", *SHORT, "--out", tmp_path), tmp_path
    assert listed(out) == ["bench.parquet", "index.html", "summary.json"]
    assert f"Page: {out / 'index.html'}" in result.stdout.splitlines()
    assert "Train on halves of the samples" in result.stderr
    printed, page = words(result), (out / "index.html").read_text()
    assert "what caused a prediction" in printed
    assert page.index("what caused a prediction") < page.index("<h2")
    assert all(text in page for text in ("loss alone", "ceiling", "free"))
    assert all(f'data-figure="{name}"' in page for name in ("predictions", "samples"))
    table, summary_ = columns(out / "bench.parquet"), summary(out)
    assert [row["score"] for row in summary_["scores"]] == table["score"]
    assert summary_["halves"] == 20 and summary_["smoothness"]["parting"] > 0
    assert set(table["verdict"]) <= {"trust", "with care", "do not trust"}
    for low, value, high in zip(table["low"], table["correlation"], table["high"], strict=True):
        assert -1 <= low <= value <= high <= 1
    for text in ("adam, step size 0.01, 60 updates", "20 random halves"):
        assert text in " ".join(summary_["facts"].values())


@pytest.mark.slow
def test_the_users_own_network_and_the_same_again_from_the_store(tmp_path):
    (tmp_path / "mine.py").write_text(NETWORK)
    args = ["wine", *SHORT, "--model", f"{tmp_path / 'mine.py'}:network", "--optimizer", "sgd",
            "--lr", 0.1, "--steps", 15, "--batch-size", "none",
            "--store", tmp_path / "kept"]  # fmt: skip
    succeed("bench", *args, "--out", tmp_path / "a")
    succeed("bench", *args, "--out", tmp_path / "b")
    first, again = (columns(tmp_path / name / "bench.parquet") for name in "ab")
    assert first["correlation"] == again["correlation"]
    assert "updates of all samples" in summary(tmp_path / "b")["facts"]["Training"]


@pytest.mark.slow
def test_a_run_that_cannot_be_predicted_is_not_trusted(tmp_path):
    result = succeed("bench", "wine", *SHORT, "--lr", 3, "--out", tmp_path)
    table = columns(tmp_path / "bench.parquet")
    verdicts = dict(zip(table["score"], table["verdict"], strict=True))
    assert verdicts["influence"] == "do not trust"
    assert "Trust no score for what caused a prediction: the best, " in words(result)


def test_an_estimator_is_fitted_in_the_networks_place(tmp_path):
    model = "sklearn.naive_bayes:GaussianNB"
    succeed("bench", "wine", "--model", model, "--halves", 20, "--out", tmp_path)
    summary_ = summary(tmp_path)
    assert "GaussianNB, fitted anew" in summary_["facts"]["Model"]
    scores = {row["score"]: row for row in summary_["scores"]}
    assert "influence" not in scores and {"label issue score", "final loss"} <= scores.keys()
    # Its fits to a half differ by nothing: naive Bayes draws no random numbers.
    assert summary_["ceiling"]["value"] == pytest.approx(1)
    assert summary_["smoothness"] is None and "default network" in summary_["facts"]["Scores"]


@pytest.mark.parametrize(
    ("value", "free", "head"),
    [
        (0.9, 0.4, "Trust self-influence for which samples matter (correlation 0.90 ± 0.05)."),
        (0.4, 0.3, "Take self-influence with care for which samples matter (correlation 0.40 "),
        (0.1, 0.05, "Trust no score for which samples matter: the best, self-influence, has corr"),
        (0.9, 0.92, "For which samples matter the final loss is as good as any, and free (corr"),
        (0.6, 0.9, "and free (correlation 0.90 ± 0.05)."),
    ],
)
def test_the_heading_decides_by_the_score_and_what_is_free(value, free, head):
    value, lead = np.array([value, free]), np.array([value - free, np.nan])
    check = TrustCheck(
        (SAMPLES,) * 2, ("self-influence", "final loss"), value, value - 0.05, value + 0.05,
        np.array([False, True]), lead, lead - 0.04, lead + 0.04, *[Estimate(1.0, 1.0, 1.0)] * 2,
        n_halves=20, n_queries=9,
    )  # fmt: skip
    assert head in headline(check, SAMPLES)
    rows = _rank_scores(check, SAMPLES)
    drawn = {trace.y[0]: trace.name for trace in _plot_correlations(rows).data}
    assert drawn == {cells[0]: cells[-1] for cells in map(_format_row, rows)}
    assert drawn["final loss"] == "free"
    assert (check.verdict[0] == "do not trust") == (value[0] < 0.2 or lead[0] < -0.1)


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    "bench": "DATA must be given once, .* python -m bench runs the development suite",
    "bench --lr 0.1": "DATA must be given once",
    "--data wine": "DATA must be given once",
    "--case labels": "No such option: --case",
    "--seed -1": "seed must be an integer",
    "--halves 3": r"halves must lie in \[20, .*got 3",
    "--steps 0": "steps must lie in .*got 0",
    "--minutes 0": "minutes must lie in .*got 0",
    "--queries 1": "queries must be at least 2",
    "--batch-size x": "batch-size must be 'none' or a whole number",
    "--optimizer lbfgs": "optimizer must be 'adam' or 'sgd'",
    "--model sklearn.svm:SVC --lr 0.1": "lr is of networks; sklearn.svm:SVC",
    "--model sklearn.svm:SVR": "model must be a classifier",
    "--val-fraction 0": "val-fraction must be above 0 for bench",
}, "bench wine")  # fmt: skip
