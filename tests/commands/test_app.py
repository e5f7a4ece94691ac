"""The command line: what it writes and prints, and that bad input costs one line and no file."""

import json
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import torch

from datassay.commands.run import job
from datassay.report.write import write_pages
from helpers.command_line import assert_one_error_line, columns, invoke, listed, succeed

COMMANDS = ["run", "score", "summarize"]
SMALL = ["--model", "mlp:width=16"]
FILES = ["attribution.parquet", "index.html", "review.npz", "scores.parquet", "summary.json"]
FILES += ["suspects.csv"]
OWN = """
import torch


def fits():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def three_outputs():
    return torch.nn.Linear(4, 3)


class _Rows(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x)[:, None]


def rank_three():
    return _Rows(4, 1)


def raises():
    raise RuntimeError("no luck")


def needs_more(width):
    return torch.nn.Linear(width, 1)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with a two-class table and a module of the user's own in it."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 4)), np.arange(60) % 2
    np.savez("good.npz", x=x, y=y)
    rows = [f"row-{i},{x[i, 0]},{x[i, 1]},{('no', 'yes')[y[i]]},{i}" for i in range(60)]
    Path("good.csv").write_text("\n".join(["key,a,b,answer,c", *rows]))
    Path("own_networks.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_networks", None)


def test_version_is_told_without_a_command():
    result = invoke("--version")
    assert (result.exit_code, result.output) == (0, f"datassay {version('datassay')}\n")


def test_run_writes_its_files_and_names_the_page_last(here):
    result = succeed("run", "iris", *SMALL, "--curve-seeds", 1, "--out", "deep/report")
    assert listed(Path("deep/report")) == FILES
    assert result.stdout.splitlines()[-1] == "deep/report/index.html"
    for title in ("Most informative", "Least informative", "label error", "after removing half"):
        assert title in result.stdout
    for step in ("collect Jacobians: 150 of 150", "leave each sample out", "retrain"):
        assert step in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    summary = json.loads(Path("deep/report/summary.json").read_text())
    assert summary["counts"]["train"] == 120
    assert summary["removal_curve"]["seeds"] == 1


def test_run_digits_with_class_pair_noise(here):
    args = ["--noise", 0.1, "--noise-kind", "pair", "--curve-seeds", 0, "--out", "out"]
    succeed("run", "digits", *args)
    table = columns("out/scores.parquet")
    flipped = np.array(table["true_label"]) != np.array(table["class_name"])
    assert flipped.sum() == round(0.1 * len(flipped))
    moved = [(int(t) + 1) % 10 for t in np.array(table["true_label"])[flipped]]
    assert moved == [int(c) for c in np.array(table["class_name"])[flipped]]
    score = np.array(table["label_issue_score"])
    assert score[flipped].mean() > score[~flipped].mean() + score.std()
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["counts"]["known_label_errors"] == flipped.sum()
    assert summary["removal_curve"] is None
    assert "loss" not in table


@pytest.mark.parametrize("data", ["diabetes", "breast_cancer", "moons"])
def test_score_of_regression_and_of_two_classes(here, data):
    result = succeed("score", data, *SMALL)
    assert result.stdout.splitlines()[-1] == "scores/index.html"
    table = columns("scores/scores.parquet")
    assert np.isfinite(table["information"]).all()
    assert len(set(table["id"])) == len(table["id"]) > 100


def test_what_needs_a_held_out_part_says_so(here):
    for command in (["purify"], ["weigh"], ["complexity"]):
        result = invoke(*command, "iris", "--val-fraction", 0, "--out", "out")
        assert_one_error_line(result, "val-fraction must be above 0 for .*held out; got 0")
    succeed("summarize", "iris", "--val-fraction", 0, *SMALL, "--out", "out")
    assert json.loads(Path("out/keep.json").read_text())["train"] == 150


def test_data_can_be_an_option(here):
    as_option = succeed("score", "--data", "iris", "--model", "logistic").stdout
    assert as_option == succeed("score", "iris", "--model", "logistic").stdout


def test_a_table_joins_back_by_id(here):
    args = ["--target", "answer", "--ids", "key", "--model", "logistic", "--out", "out"]
    succeed("score", "good.csv", *args)
    succeed("summarize", "good.csv", *args)
    given = pyarrow.csv.read_csv("good.csv").to_pydict()
    answer = dict(zip(given["key"], given["answer"], strict=True))
    scores, kept = columns("out/scores.parquet"), columns("out/keep.parquet")
    assert [answer[i] for i in scores["id"]] == scores["class_name"]
    assert scores["id"] == given["key"]  # every row, in the table's order
    assert len(kept["id"]) == 30
    assert [scores["id"][p] for p in kept["position"]] == kept["id"]


@pytest.mark.parametrize("how", [[], ["--iterative"]])
def test_summarize_keeps_the_fraction(here, how):
    result = succeed("summarize", "iris", "--fraction", 0.3, *how, *SMALL, "--out", "out")
    assert result.stdout.splitlines()[-2:] == ["Keep 36 of 120 samples.", "out/keep.parquet"]
    assert len(columns("out/keep.parquet")["id"]) == 36
    facts = json.loads(Path("out/keep.json").read_text())
    assert (facts["kept"], facts["train"], facts["iterative"]) == (36, 120, bool(how))
    if how:
        assert facts["rule"] == "information" and facts["held_out"] == {}
    else:
        assert facts["held_out"][facts["rule"]] == max(facts["held_out"].values()) > 0.8
        assert " chosen" in result.stdout
    assert listed(Path("out")) == ["keep.json", "keep.parquet"]


@pytest.mark.parametrize("fraction", [0.2, 0])
def test_attribution_joins_training_samples_to_queries(here, fraction):
    options = ["--attribution", "loss", "--top", 3, *SMALL, "--out", "out"]
    options += ["--val-fraction", fraction]
    succeed("score", "good.csv", "--target", "answer", "--ids", "key", *options)
    table, scores = columns("out/attribution.parquet"), columns("out/scores.parquet")
    assert len(table["id"]) == (12 if fraction else 60) * 2 * 3
    assert set(table["id"]) <= set(scores["id"])
    assert (set(table["query_id"]) & set(scores["id"]) == set()) == bool(fraction)
    assert all(i != q for i, q in zip(table["id"], table["query_id"], strict=True))
    assert set(table["of"]) == {"loss"}
    signs = {d: {np.sign(e) for e, way in zip(table["effect"], table["direction"], strict=True)
                 if way == d} for d in ("raises", "lowers")}  # fmt: skip
    assert signs == {"raises": {1.0}, "lowers": {-1.0}}


def test_trained_networks_are_explained_on_the_page(here):
    options = ["--model", "mlp:width=8", "--curve-seeds", 1, "--attribution-at", "trained"]
    succeed("run", "iris", *options, "--out", "out")
    page = Path("out/index.html").read_text()
    assert "in the networks trained on all samples minus its value without" in page
    assert "gauss_newton by blocks" in page
    assert set(columns("out/attribution.parquet")["of"]) == {"margin"}


def test_a_check_by_retraining_is_shown_and_kept(here):
    options = ["--model", "mlp:width=64", "--steps", 50, "--check", 5, "--curve-seeds", 0]
    succeed("run", "iris", *options, "--store", "kept", "--out", "out")
    summary = json.loads(Path("out/summary.json").read_text())
    assert len(summary["check"]["ids"]) == 5
    assert -1 <= summary["check"]["interval"][0] <= summary["check"]["pearson"] <= 1
    page = Path("out/index.html").read_text()
    assert "Checked by retraining" in page and "5 of the samples, drawn at random" in page
    kept = {file.name for file in Path("kept/without_one").glob("without-*")}
    assert len(kept) == 5
    succeed("run", "iris", *options, "--store", "kept", "--out", "again")
    again = json.loads(Path("again/summary.json").read_text())
    assert again["check"] == summary["check"]


def test_attribution_can_be_left_out(here):
    succeed("score", "iris", *SMALL, "--attribution", "none", "--out", "out")
    assert columns("out/attribution.parquet") == {
        name: [] for name in ("query", "query_id", "direction", "rank", "id", "effect", "of")
    }
    assert "made the model say this" not in Path("out/index.html").read_text()


def test_several_targets_are_attributed_by_their_loss(here):
    draw = np.random.default_rng(1)
    np.savez("two.npz", x=draw.normal(size=(40, 3)), y=draw.normal(size=(40, 2)))
    succeed("score", "two.npz", "--model", "linear", "--out", "out")
    assert set(columns("out/attribution.parquet")["of"]) == {"loss"}


@pytest.mark.parametrize(
    "how",
    [
        ["--smoothing", "isotropic", "--sigma", 0.5],
        ["--smoothing", "fisher"],
        ["--smoothing", "sgd", "--batch-size", 8],
        ["--smoothing", "kl", "--batch-size", 8],
    ],
    ids=["isotropic", "fisher", "sgd", "kl"],
)
def test_the_smoothing_decides_the_information(here, how):
    succeed("score", "iris", *SMALL, "--weight-decay", 0.1, "--out", "plain")
    succeed("score", "iris", *SMALL, *how, "--weight-decay", 0.1, "--out", "out")
    plain, smoothed = columns("plain/scores.parquet"), columns("out/scores.parquet")
    information = np.array(smoothed["information"])
    assert smoothed["weight_change"] == plain["weight_change"]
    assert ("outside" in smoothed) == ("sgd" in how)
    assert ("information_shape" in smoothed) == ("kl" in how)
    if "isotropic" in how:
        assert np.allclose(information, np.array(plain["weight_change"]) / (2 * 0.5**2))
    elif "fisher" in how:
        assert np.allclose(information, plain["information"], rtol=1e-6)
    else:
        assert not np.allclose(information, plain["information"], rtol=0.1)
    assert f"{how[1]} smoothing" in Path("out/index.html").read_text()


@pytest.mark.parametrize("data", ["sources.csv", "sources.npz"])
def test_sources_are_compared_and_are_no_feature(here, data):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 2)), np.arange(60) % 2
    x[:20] *= 9  # the first source is spread widely, and so informs more
    names = np.where(np.arange(60) < 20, "wide", "narrow")
    rows = [f"{a},{b},{s},{t}" for (a, b), s, t in zip(x, names, y, strict=True)]
    Path("sources.csv").write_text("\n".join(["a,b,clinic,label", *rows]))
    np.savez("sources.npz", x=x, y=y, source=names)
    column = ["--source", "clinic"] if data.endswith("csv") else []
    succeed("score", data, "--model", "logistic", *column, "--task", "classification")
    summary = json.loads(Path("scores/summary.json").read_text())
    by_source = {row["label"]: row for row in summary["groups"]["source"]}
    assert sum(row["count"] for row in by_source.values()) == (60 if column else 48)
    assert by_source["wide"]["mean"] > by_source["narrow"]["mean"]
    assert summary["group_p_values"]["source"] < 0.01
    assert set(columns("scores/scores.parquet")["source"]) == {"wide", "narrow"}
    assert "a random sample of source wide informs more" in Path("scores/index.html").read_text()
    succeed("summarize", data, "--model", "logistic", *column, "--task", "classification")


def test_adversarial_inputs_are_made_and_found(here):
    fooled = ["--adversarial", 0.1, "--epsilon", 0.1, "--noise", 0.1]
    succeed("run", "digits", "--model", "mlp:width=64", *fooled, "--curve-seeds", 1)
    table = columns("report/scores.parquet")
    replaced = np.array(table["is_adversarial"])
    assert replaced.sum() == 144
    information = np.array(table["information"])
    assert np.median(information[replaced]) > np.median(information[~replaced])
    summary = json.loads(Path("report/summary.json").read_text())
    assert summary["counts"]["adversarial"] == 144
    assert summary["counts"]["known_label_errors"] == 144
    contest = next(c for c in summary["contests"] if "adversarial" in c["measure"])
    assert contest["rankings"][:2] == ["information", "label issue score"]
    assert max(contest["values"][:2]) > 0.8
    page = Path("report/index.html").read_text()
    assert "144 inputs were replaced on purpose" in page
    assert 'id="figure-spoiled"' in page


def test_the_same_seed_gives_the_same_table(here):
    for out in ("one", "two"):
        succeed("score", "moons", *SMALL, "--seed", 3, "--out", out)
    assert Path("one/scores.parquet").read_bytes() == Path("two/scores.parquet").read_bytes()


def test_plan_writes_and_collects_nothing(here, monkeypatch):
    monkeypatch.setattr(job, "collect", None)
    before = sorted(here.iterdir())
    result = succeed("run", "digits", "--plan", "--out", "out")
    for part in ("collect", "decompose", "leave one out", "retrain", "1438 x 1438", "GB", "dual"):
        assert part in result.stdout
    assert "Nothing was run" in result.stdout
    assert sorted(here.iterdir()) == before


def test_own_module_with_safetensors_weights(here):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    sizes = {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (1, 8), "2.bias": (1,)}
    other = {name: torch.randn(size) for name, size in sizes.items()}
    save_file(other, "other.safetensors")
    torch.save({"swa": {"mean": other}, "model": other}, "two.pt")
    own = ["--model", "own_networks:fits", "--curve-seeds", 0, "--out", "out"]
    succeed("run", "good.npz", *own)
    without = columns("out/scores.parquet")["information"]
    succeed("run", "good.npz", *own, "--weights", "other.safetensors")
    assert columns("out/scores.parquet")["information"] != without
    assert "other.safetensors" in Path("out/index.html").read_text()
    scores = columns("out/scores.parquet")["information"]
    told = succeed("run", "good.npz", *own, "--weights", "two.pt").output
    assert "'model' was taken, not 'swa.mean'" in " ".join(told.split())
    assert columns("out/scores.parquet")["information"] == scores


def test_memory_that_does_not_suffice_is_warned_of_before_the_work(here):
    result = succeed("run", "iris", *SMALL, "--memory", 1e-5, "--curve-seeds", 0, "--out", "out")
    assert "GB are free" in result.stdout
    summary = json.loads(Path("out/summary.json").read_text())
    assert any("GB are free" in w for w in summary["warnings"])


def test_what_a_user_named_prints_as_it_is(here):
    names = ["[red]r", ":smile:", "\x1b[31mq"]
    draw = np.random.default_rng(0)
    np.savez("odd.npz", x=draw.normal(size=(60, 3)), y=np.arange(60) % 3, class_names=names)
    out = succeed("score", "odd.npz", "--model", "logistic").stdout
    assert "[red]r" in out
    assert ":smile:" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command):
    text = succeed(command, "--help").stdout
    assert "Examples:" in text
    assert f"datassay {command} digits" in text


def test_help_lists_the_commands():
    text = succeed("--help").stdout
    assert all(f" {command} " in text for command in COMMANDS)


def spoil(folder):
    """Files that cannot be used, one rule broken by each."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 4)), np.arange(60) % 2
    hole = x.copy()
    hole[7, 1] = np.nan
    np.savez("nan.npz", x=hole, y=y)
    np.savez("names.npz", x=x, y=np.arange(60) % 3, class_names=["no", "yes"])
    np.savez("same.npz", x=x, y=np.zeros(60, int))
    np.savez("single.npz", x=x[:1], y=y[:1])
    np.savez("shapes.npz", x=x, y=y, x_val=x[:, :3], y_val=y)
    (folder / "cut.npz").write_bytes((folder / "good.npz").read_bytes()[:400])
    (folder / "ragged.csv").write_text('a,b,c\n1,2,3\n"1,2\n')
    (folder / "taken").write_text("a file, not a folder")
    (folder / "broken_networks.py").write_text("def factory(:")
    torch.save(torch.nn.Linear(4, 1), folder / "pickled.pt")


GOOD = ["run", "good.npz"]
BAD = {
    "NaN": (["run", "nan.npz"], r"x must be finite; 1 of 60 .* position 7.*[Rr]emove"),
    "label outside the classes": (["run", "names.npz"], r"2 classes \(no, yes\); got 2\. Fix"),
    "one class": (["run", "same.npz"], r"at least 2 classes; .* one class only, 0\."),
    "one sample": (["run", "single.npz"], r"at least 2 "),
    "shapes differ": (["run", "shapes.npz"], r"\b4\b.*\b3\b"),
    "truncated": (["run", "cut.npz"], r"cut\.npz cannot be read: .* write it again"),
    "unreadable table": (["run", "ragged.csv"], r"ragged\.csv cannot be read: "),
    "unknown data": (["run", "nowhere"], r"built-in name \(digits, .*; got 'nowhere'\. Check"),
    "missing target": (
        ["run", "good.csv", "--target", "nope"],
        r"target must name a column of good\.csv; got 'nope'\. Its columns are key, a, b",
    ),
    "no data": (["run"], r"DATA must be given once"),
    "data twice": ([*GOOD, "--data", "good.npz"], r"DATA must be given once"),
    "empty data": (["run", ""], r"existing path; got ''"),
    "unknown model": ([*GOOD, "--model", "nope"], r"model must be one of .*; got 'nope'"),
    "missing module": ([*GOOD, "--model", "nope_at_all:f"], r"nope_at_all"),
    "factory raises": ([*GOOD, "--model", "own_networks:raises"], r"own_networks:raises.*no luck"),
    "factory's arguments": ([*GOOD, "--model", "own_networks:needs_more"], r"needs_more"),
    "no module's name": ([*GOOD, "--model", ":factory"], r":factory"),
    "not Python": ([*GOOD, "--model", "broken_networks:factory"], r"broken_networks"),
    "model's shape": ([*GOOD, "--model", "lenet5"], r"\[4\]|shape"),
    "output count": (
        [*GOOD, "--model", "own_networks:three_outputs"],
        r"must have 2 outputs, .*; got 3\. Change its last layer",
    ),
    "output rank": (
        [*GOOD, "--model", "own_networks:rank_three"],
        r"output must be \[n, k\].*got \[1, 1, 1\].*Wrap",
    ),
    "unstable": (
        [*GOOD, "--dynamics", "descent", "--lr", "1e6"],
        r"lr must be below .* so that descent is stable .* got lr = 1000000\.0.*Lower it",
    ),
    "steps": ([*GOOD, "--steps", "-1"], r"steps must be .* at least 1; got -1"),
    "weight decay": ([*GOOD, "--weight-decay", "nan"], r"weight_decay must be finite.*got nan"),
    "dynamics": ([*GOOD, "--dynamics", "jump"], r"dynamics must be 'flow', .*; got 'jump'"),
    "lr": ([*GOOD, "--lr", "fast"], r"lr must be a number or 'auto'; got 'fast'"),
    "projection": ([*GOOD, "--projection", "²"], r"projection must be 'auto', .*; got '²'"),
    "memory": ([*GOOD, "--memory", "-1"], r"memory must be a positive, .*; got -1\. Leave it out"),
    "curve seeds": ([*GOOD, "--curve-seeds", "-1"], r"curve_seeds must be at least 0; got -1"),
    "noise": ([*GOOD, "--noise", "2"], r"must lie in \[0, 1\].*got 2\.0"),
    "noise kind": ([*GOOD, "--noise-kind", "odd"], r"'uniform' or 'pair'; got 'odd'"),
    "adversarial": ([*GOOD, "--adversarial", "2"], r"fraction must lie in \[0, 1\]; got 2\.0"),
    "epsilon": (
        [*GOOD, "--adversarial", "0.1", "--epsilon", "-1"],
        r"epsilon must be finite and positive; got -1\.0",
    ),
    "too few fooled": (
        [*GOOD, *SMALL, "--adversarial", "0.9", "--epsilon", "1e-6"],
        r"43 samples must be replaced; .* Raise epsilon or lower fraction",
    ),
    "adversarial regression": (
        ["score", "diabetes", *SMALL, "--adversarial", "0.1"],
        r"adversarial samples need classes",
    ),
    "smoothing": (["score", "good.npz", "--smoothing", "odd"], r"smoothing must be .*; got 'odd'"),
    "sigma": (["score", "good.npz", "--sigma", "0"], r"sigma must be finite and positive; got 0"),
    "no batch size": (["score", "good.npz", "--smoothing", "sgd"], r"batch_size must be given"),
    "bad batch size": (
        ["score", "good.npz", "--smoothing", "sgd", "--batch-size", "0"],
        r"batch_size must be a whole number of at least 1; got 0",
    ),
    "stray batch size": (
        ["score", "good.npz", "--batch-size", "8"],
        r"batch_size belongs to smoothing='sgd' and 'kl'; got 8",
    ),
    "attribution": (
        ["score", "good.npz", "--attribution", "logit"],
        r"attribution must be one of auto, none, output, margin, loss; got 'logit'",
    ),
    "margin of a regression": (
        ["score", "diabetes", *SMALL, "--attribution", "margin"],
        r"measure='margin' needs classes",
    ),
    "top": (["score", "good.npz", "--top", "0"], r"top must be at least 1.*; got 0"),
    "missing source": (
        ["score", "good.csv", "--source", "nope"],
        r"source must name a column of good\.csv; got 'nope'",
    ),
    "source of no table": (["score", "good.npz", "--source", "a"], r"good\.npz is none"),
    "pickled weights": ([*GOOD, "--weights", "pickled.pt"], r"pickled\.pt must be a \.safetensors"),
    "missing weights": ([*GOOD, "--weights", "none.pt"], r"none\.pt must be .*No such file"),
    "fraction": (["summarize", "good.npz", "--fraction", "1.5"], r"\(0, 1\]; got 1\.5"),
    "few left": (["summarize", "good.npz", "--fraction", "0.01"], r"at least 2 samples; 0\.01"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_costs_one_line_and_writes_nothing(here, args, message):
    spoil(here)
    before = sorted(here.iterdir())
    result = invoke(*args, "--out", "out")
    assert_one_error_line(result, message)
    assert [p for p in sorted(here.iterdir()) if p.name != "__pycache__"] == before


def test_results_never_replace_what_is_read(here):
    succeed("score", "good.csv", "--target", "answer", "--out", "ov")
    before = Path("ov/scores.parquet").read_bytes()
    result = invoke("score", "ov/../ov/scores.parquet", "--target", "class_name", "--out", "ov")
    assert_one_error_line(result, r"out must not replace what is read; .*scores\.parquet is an inp")
    assert Path("ov/scores.parquet").read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unwritable_out_is_refused_before_any_work(here, command):
    spoil(here)
    result = invoke(command, "good.npz", "--out", "taken/deeper")
    assert result.exit_code == 2
    assert re.match(r"Error: out must be a folder; got taken/deeper, but .*taken", result.stderr)
    assert (here / "taken").read_text() == "a file, not a folder"


@pytest.mark.parametrize("args", [["run", "--bogus"], ["run", "iris", "--steps", "many"], ["wat"]])
def test_usage_errors_exit_with_2(here, args):
    result = invoke(*args)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output


def command(*args, **popen):
    line = [sys.executable, "-m", "datassay", *map(str, args)]
    # A job that a shell started in the background ignores Ctrl-C, and hands that on to us.
    return subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **popen,
    )


def test_as_a_program_bad_input_leaves_no_traceback(here):
    spoil(here)
    process = command("run", "nan.npz", "--out", "out")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: x must be finite")


def test_interrupting_leaves_earlier_results(here):
    out = here / "out"
    write_pages({name: f"an earlier {name}" for name in FILES}, out)
    before = {p: p.read_bytes() for p in out.iterdir()}
    process = command("run", "digits", "--out", "out")
    assert process.stderr is not None
    assert "collect Jacobians" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert printed == ""
    assert err.splitlines()[-1] == "Interrupted. Earlier results are as they were."
    assert "Traceback" not in err
    assert {p: p.read_bytes() for p in out.iterdir()} == before
    assert not [p for p in here.iterdir() if p.name.startswith(".")]


def test_labels_that_the_pipe_cannot_encode_end_no_run(here, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    colours = "grün", "red"
    rows = "".join(f"{i % 7},{i % 5},{colours[i % 2]}\n" for i in range(30))
    (here / "table.csv").write_text("a,b,label\n" + rows, encoding="utf-8")
    process = command("score", "table.csv", *SMALL)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert r"gr\xfcn" in printed
