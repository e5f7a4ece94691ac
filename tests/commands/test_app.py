"""The command line: what it writes and prints, and that bad input costs one line and no file."""

import json
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits

from datassay.commands.run import job
from helpers.command_line import (
    assert_one_error_line,
    columns,
    contents,
    invoke,
    listed,
    refusals,
    succeed,
    summary,
    words,
)

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


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table of two classes, 400 digits, a module of the user's own, and what is unusable."""
    folder = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 4)), np.arange(60) % 2
    rows = [f"row-{i},{x[i, 0]},{x[i, 1]},{('no', 'yes')[y[i]]},{i}" for i in range(60)]
    (folder / "good.csv").write_text("\n".join(["key,a,b,answer,c", *rows]))
    (folder / "own_networks.py").write_text(OWN)
    digits, hole = load_digits(), x.copy()
    hole[7, 1] = np.nan
    arrays = {
        "good": {"x": x, "y": y},
        "digits": {"x": digits.images[:400, None] / 16, "y": digits.target[:400]},
        "nan": {"x": hole, "y": y},
        "names": {"x": x, "y": np.arange(60) % 3, "class_names": ["no", "yes"]},
        "same": {"x": x, "y": np.zeros(60, int)},
        "single": {"x": x[:1], "y": y[:1]},
        "shapes": {"x": x, "y": y, "x_val": x[:, :3], "y_val": y},
    }
    for name, values in arrays.items():
        np.savez(folder / f"{name}.npz", **values)
    (folder / "cut.npz").write_bytes((folder / "good.npz").read_bytes()[:400])
    (folder / "ragged.csv").write_text('a,b,c\n1,2,3\n"1,2\n')
    (folder / "broken_networks.py").write_text("def factory(:")
    torch.save(torch.nn.Linear(4, 1), folder / "pickled.pt")
    return folder


@pytest.fixture(scope="module")
def ran(data, tmp_path_factory):
    """What one run wrote and printed; inputs and labels were corrupted on purpose."""
    out = tmp_path_factory.mktemp("out") / "deep" / "report"
    corrupted = ["--adversarial", 0.1, "--epsilon", 0.1, "--noise", 0.1, "--noise-kind", "pair"]
    made = ["--model", "mlp:width=64", "--outputs", "averaged", "--curve-seeds", 1, "--out", out]
    return out, succeed("run", data / "digits.npz", *made, *corrupted)


@pytest.fixture(scope="module")
def scored(data, tmp_path_factory):
    """What one scoring of the table wrote."""
    out = tmp_path_factory.mktemp("out")
    options = ["--attribution", "loss", "--top", 3, "--val-fraction", 0.2]
    succeed("score", data / "good.csv", *TABLE, *SMALL, *options, "--out", out)
    return out


TABLE = ["--target", "answer", "--ids", "key"]


def test_version_is_told_without_a_command():
    result = invoke("--version")
    assert (result.exit_code, result.output) == (0, f"datassay {version('datassay')}\n")


def test_run_writes_its_files_and_names_the_page(ran):
    out, result = ran
    assert listed(out) == FILES
    assert f"Page: {out / 'index.html'}" in result.stdout.splitlines()
    assert "probably wrong" in result.stdout and len(result.output.splitlines()) <= 16
    scores = f"Scores: {out / 'index.html'}; comparing actions …"  # the first page stands already
    stages = ["Training networks", "digits.npz: 400 samples, 10 classes"]  # to be fooled
    stages += ["Scoring samples", scores, "Training networks"]
    assert result.stderr.splitlines() == stages
    assert "\x1b" not in result.stdout + result.stderr
    assert summary(out)["counts"]["train"] == 320
    assert summary(out)["removal_curve"]["seeds"] == 1


def test_labels_are_flipped_to_the_next_class_and_found(ran):
    table = columns(ran[0] / "scores.parquet")
    given, truth = np.array(table["class_name"]), np.array(table["true_label"])
    flipped = truth != given
    assert flipped.sum() == summary(ran[0])["counts"]["known_label_errors"] == 32
    assert [(int(t) + 1) % 10 for t in truth[flipped]] == [int(c) for c in given[flipped]]
    score = np.array(table["label_issue_score"])
    assert score[flipped].mean() > score[~flipped].mean() + score.std()


def test_adversarial_inputs_are_made_and_found(ran):
    replaced = np.array(columns(ran[0] / "scores.parquet")["is_adversarial"])
    information = np.array(columns(ran[0] / "scores.parquet")["information"])
    assert replaced.sum() == summary(ran[0])["counts"]["adversarial"] == 32
    assert np.median(information[replaced]) > np.median(information[~replaced])


@pytest.mark.parametrize("data_name", ["diabetes", "breast_cancer"])
def test_score_of_regression_and_of_two_classes(here, data_name):
    result = succeed("score", data_name, *SMALL)
    assert "Page: scores/index.html" in result.stdout.splitlines()
    table = columns("scores/scores.parquet")
    assert np.isfinite(table["information"]).all() and "loss" not in table
    assert len(set(table["id"])) == len(table["id"]) > 100
    assert summary("scores")["removal_curve"] is None


def test_what_needs_a_held_out_part_says_so(here):
    for command in ("purify", "weigh", "complexity"):
        result = invoke(command, "iris", "--val-fraction", 0, "--out", "out")
        assert_one_error_line(result, "val-fraction must be above 0 for .*held out; got 0")
    succeed("summarize", "good.npz", "--val-fraction", 0, *SMALL, "--out", "out")
    assert '"train": 60' in Path("out/keep.json").read_text()


def test_a_table_joins_back_by_id(here):
    args = [*TABLE, "--model", "logistic", "--out", "out"]
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
    assert listed("out") == ["keep.json", "keep.parquet"]


def assert_attributed(out, n_queries, *, apart):
    table, scores = columns(out / "attribution.parquet"), columns(out / "scores.parquet")
    assert len(table["id"]) == n_queries * 2 * 3
    assert set(table["id"]) <= set(scores["id"])
    assert set(table["query_id"]).isdisjoint(scores["id"]) == apart
    assert all(i != q for i, q in zip(table["id"], table["query_id"], strict=True))
    assert set(table["of"]) == {"loss"}
    signs = {(d, np.sign(e)) for d, e in zip(table["direction"], table["effect"], strict=True)}
    assert signs == {("raises", 1.0), ("lowers", -1.0)}


def test_attribution_joins_training_samples_to_queries(here, scored):
    assert_attributed(scored, 12, apart=True)
    options = [*SMALL, "--attribution", "loss", "--top", 3, "--val-fraction", 0]
    succeed("score", "good.csv", *TABLE, *options, "--out", "out")
    assert_attributed(here / "out", 60, apart=False)


def test_trained_networks_are_explained_on_the_page(here):
    options = ["--model", "mlp:width=8", "--curve-seeds", 1, "--attribution-at", "trained"]
    succeed("run", "good.npz", *options, "--out", "out")
    assert "gauss_newton by blocks" in Path("out/index.html").read_text()
    assert set(columns("out/attribution.parquet")["of"]) == {"margin"}


def test_a_check_by_retraining_is_shown_and_kept(here):
    options = [*SMALL, "--steps", 50, "--check", 5, "--curve-seeds", 0, "--store", "kept"]
    succeed("run", "good.npz", *options, "--out", "out")
    check = summary()["check"]
    assert len(check["ids"]) == 5
    assert -1 <= check["interval"][0] <= check["pearson"] <= 1
    assert "Check by retraining" in Path("out/index.html").read_text()
    assert len(list(Path("kept/without_one").glob("without-*"))) == 5
    succeed("run", "good.npz", *options, "--out", "again")
    assert summary("again")["check"] == check


def test_attribution_can_be_left_out(here):
    succeed("score", "good.npz", *SMALL, "--attribution", "none", "--out", "out")
    assert columns("out/attribution.parquet") == {
        name: [] for name in ("query", "query_id", "direction", "rank", "id", "effect", "of")
    }


def test_several_targets_are_attributed_by_their_loss(here):
    draw = np.random.default_rng(1)
    np.savez("two.npz", x=draw.normal(size=(40, 3)), y=draw.normal(size=(40, 2)))
    succeed("score", "two.npz", "--model", "linear", "--out", "out")
    assert set(columns("out/attribution.parquet")["of"]) == {"loss"}


def test_the_smoothing_decides_the_information(here):
    few = ["--model", "linear", "--weight-decay", 0.1]  # directions, for the noise of SGD
    options = ["score", "good.npz", *few, "--attribution", "none", "--out"]
    succeed(*options, "plain")
    plain = columns("plain/scores.parquet")
    for smoothing, more in {"isotropic": ["--sigma", 0.5], "fisher": [], "sgd": ["--batch-size", 8],
                            "kl": ["--batch-size", 8]}.items():  # fmt: skip
        succeed(*options, smoothing, "--smoothing", smoothing, *more)
        smoothed = columns(f"{smoothing}/scores.parquet")
        information = np.array(smoothed["information"])
        assert smoothed["weight_change"] == plain["weight_change"]
        assert ("outside" in smoothed) == (smoothing == "sgd")
        assert ("information_shape" in smoothed) == (smoothing == "kl")
        if smoothing == "isotropic":
            assert np.allclose(information, np.array(plain["weight_change"]) / (2 * 0.5**2))
        else:
            same = np.allclose(information, plain["information"], rtol=1e-6)
            assert same == (smoothing == "fisher")
        assert f"{smoothing} smoothing" in Path(smoothing, "index.html").read_text()


@pytest.mark.parametrize("name", ["sources.csv", "sources.npz"])
def test_sources_are_compared_and_are_no_feature(here, name):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 2)), np.arange(60) % 2
    x[:20] *= 9  # the first source is spread widely, and so informs more
    names = np.where(np.arange(60) < 20, "wide", "narrow")
    rows = [f"{a},{b},{s},{t}" for (a, b), s, t in zip(x, names, y, strict=True)]
    Path("sources.csv").write_text("\n".join(["a,b,clinic,label", *rows]))
    np.savez("sources.npz", x=x, y=y, source=names)
    column = ["--source", "clinic"] if name.endswith("csv") else []
    succeed("score", name, "--model", "logistic", *column, "--task", "classification")
    summary_ = summary("scores")
    by_source = {row["label"]: row for row in summary_["groups"]["source"]}
    assert sum(row["count"] for row in by_source.values()) == (60 if column else 48)
    assert by_source["wide"]["mean"] > by_source["narrow"]["mean"]
    assert summary_["group_p_values"]["source"] < 0.01
    assert set(columns("scores/scores.parquet")["source"]) == {"wide", "narrow"}


def test_plan_writes_and_collects_nothing(here, monkeypatch):
    monkeypatch.setattr(job, "collect", None)
    before = contents(here)
    result = succeed("run", "digits", "--plan", "--out", "out")
    for part in (
        "collect",
        "eigendecomposition",
        "leave one out",
        "retrain",
        "how likely each label is wrong",
        "GB",
        "without --plan",
    ):
        assert part in result.stdout
    assert result.stdout.index("Nothing was run") < result.stdout.index("leave one out")
    assert contents(here) == before


def test_own_module_with_safetensors_weights(here):
    torch.manual_seed(0)
    sizes = {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (1, 8), "2.bias": (1,)}
    other = {name: torch.randn(size) for name, size in sizes.items()}
    save_file(other, "other.safetensors")
    torch.save({"swa": {"mean": other}, "model": other}, "two.pt")
    own = ["score", "good.npz", "--model", "own_networks:fits"]
    given = {"none": [], "one": ["--weights", "other.safetensors"], "two": ["--weights", "two.pt"]}
    results = {out: succeed(*own, *more, "--out", out) for out, more in given.items()}
    result = {out: columns(f"{out}/scores.parquet")["information"] for out in given}
    assert result["none"] != result["one"] == result["two"]
    assert "other.safetensors" in Path("one/index.html").read_text()
    assert "'model' was taken, not 'swa.mean'" in words(results["two"])


def test_memory_that_does_not_suffice_is_warned_of_before_the_work(here):
    result = succeed("score", "good.npz", *SMALL, "--memory", 1e-5, "--out", "out")
    assert "GB are free" in result.stdout
    assert any("GB are free" in warning for warning in summary()["warnings"])


def test_what_a_user_named_prints_as_it_is(here):
    name = "[red]r :smile: \x1b[31mq"
    out = succeed("score", "good.npz", "--model", "logistic", "--out", name).stdout
    assert f"Page: {name}/index.html".replace("\x1b", "\ufffd") in out.splitlines()


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    'run nan.npz': "x must be finite; 1 of 60 .* position 7.*[Rr]emove",
    'run names.npz': r"2 classes \(no, yes\); got 2\. Fix",
    'run same.npz': r"at least 2 classes; .* one class only, 0\.",
    'run single.npz': "at least 2 ",
    'run shapes.npz': r"\b4\b.*\b3\b",
    'run cut.npz': r"cut\.npz cannot be read: .* write it again",
    'run ragged.csv': r"ragged\.csv cannot be read: ",
    'run nowhere': r"built-in name \(digits, .*; got 'nowhere'\. Check",
    'run good.csv --target nope': r"target must name .*; got 'nope'\. Its columns are key, a, b",
    'run': "DATA must be given once",
    '--data good.npz': "DATA must be given once",
    "run ''": "existing path; got ''",
    '--model nope': "model must be one of .*; got 'nope'",
    '--model nope_at_all:f': "nope_at_all",
    '--model own_networks:raises': "own_networks:raises.*no luck",
    '--model own_networks:needs_more': "needs_more",
    '--model :factory': ":factory",
    '--model broken_networks:factory': "broken_networks",
    '--model lenet5': r"\[4\]|shape",
    '--model own_networks:three_outputs': r"must have 2 outputs, .*; got 3\. Change its last layer",
    '--model own_networks:rank_three': r"output must be \[n, k\].*got \[1, 1, 1\].*Wrap",
    '--dynamics descent --lr 1e6': r"lr must be below .* stable .* got lr = 1000000\.0.*Lower",
    '--steps -1': "steps must be .* at least 1; got -1",
    '--weight-decay nan': "--weight-decay must be finite.*got nan",
    '--dynamics jump': "dynamics must be 'flow', .*; got 'jump'",
    '--lr fast': "lr must be a number or 'auto'; got 'fast'",
    "--projection '²'": "projection must be 'auto', .*; got '²'",
    '--memory -1': r"memory must be a positive, .*; got -1\. Leave it out",
    '--curve-seeds -1': "--curve-seeds must be at least 0; got -1",
    '--noise 2': r"must lie in \[0, 1\].*got 2\.0",
    '--noise 0.1 --noise-kind odd': "'uniform' or 'pair'; got 'odd'",
    '--adversarial 2': r"--adversarial must lie in \[0, 1\]; got 2\.0",
    '--adversarial 0.1 --epsilon -1': r"epsilon must be finite and positive; got -1\.0",
    '--model linear --adversarial 0.9 --epsilon 1e-6': "43 samples must be .* Raise epsilon or",
    'score diabetes --model mlp:width=16 --adversarial 0.1': "adversarial samples need classes",
    'score good.npz --smoothing odd': "smoothing must be .*; got 'odd'",
    'score good.npz --sigma 0': "sigma must be finite and positive; got 0",
    'score good.npz --smoothing sgd': "--batch-size must be given",
    'score good.npz --smoothing sgd --batch-size 0': "--batch-size must be .* at least 1; got 0",
    "score good.npz --batch-size 8": "--batch-size belongs to --smoothing sgd, .* kl; got 8",
    'score good.npz --attribution logit': "attribution must be one of auto, .*; got 'logit'",
    'score diabetes --model linear --attribution margin': "--attribution margin needs classes",
    'score good.npz --top 0': "top must be at least 1.*; got 0",
    'score good.csv --source nope': r"source must name a column of good\.csv; got 'nope'",
    'score good.npz --source a': r"good\.npz is none",
    '--weights pickled.pt': r"pickled\.pt must be a \.safetensors",
    '--weights none.pt': "--weights must name an existing file; got none.pt",
    'summarize good.npz --fraction 1.5': r"\(0, 1\]; got 1\.5",
    'summarize good.npz --fraction 0.01': r"at least 2 samples; 0\.01",
}, 'run good.npz')  # fmt: skip


def test_results_never_replace_what_is_read(here, scored):
    shutil.copytree(scored, "ov")
    before = contents("ov")
    result = invoke("score", "ov/../ov/scores.parquet", "--target", "class_name", "--out", "ov")
    assert_one_error_line(result, r"out must not replace what is read; .*scores\.parquet is an inp")
    assert contents("ov") == before


def command(*args, **popen):
    line = [sys.executable, "-m", "datassay", *map(str, args)]
    # A job that a shell started in the background ignores Ctrl-C, and hands that on to us.
    popen["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(line, stdout=-1, stderr=-1, text=True, **popen)  # -1: a pipe


@pytest.mark.slow
def test_labels_that_the_pipe_cannot_encode_end_no_run(here, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    process = command("score", "good.npz", *SMALL, "--out", "grün")
    printed, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert r"gr\xfcn" in printed


REFUSED = """
import sys, pathlib
from datassay.commands.app import app
pathlib.Path("t.csv").write_text("a,b\\n" + "1,x\\n2,y\\n" * 9)
for line in sys.argv[1:]:
    try:
        app(line.split())
    except SystemExit as stop:
        assert stop.code == 2, line
    heavy = {"torch", "sklearn", "scipy.stats"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""


def test_what_is_refused_by_its_words_imports_nothing_heavy(tmp_path):
    typed = (
        "run nosuch.csv", "score t.csv --target nope", "run t.csv --model nope",
        "run t.csv --top -1", "run t.csv --noise 2", "run t.csv --out t.csv", "explain t.csv",
        "index t.csv", "bench t.csv --minutes 0", "view nosuch", "export nosuch --to datalab",
        "report nosuch", "example nope", "run t.csv --weights no.pt", "run t.csv --steps 0",
        "score t.csv --smoothing no", "run t.csv --before no", "run t.csv --workers 0",
        "summarize t.csv --fraction 3", "summarize t.csv --rule no", "partition t.csv --blocks -1",
        "purify t.csv --stop no", "purify t.csv --max-fraction 1", "weigh t.csv --method no",
        "polynomial t.csv --degree 0", "complexity t.csv --repeats 0", "predict t.csv no",
        "explain t.csv --weights no.pt", "index t.csv --weights no.pt", "sample no",
    )  # fmt: skip
    command = [sys.executable, "-c", REFUSED, *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
