"""`datassay weigh`: files, tables, page, exit codes, one line for bad input."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from datassay.methods.weigh.action import ACTIONS, BALANCE
from datassay.methods.weigh.job import NEEDS_NETWORK
from datassay.methods.weigh.page import FILES, concentration, gallery
from datassay.methods.weigh.page import page as page_of
from datassay.methods.weigh.settings import METHODS
from datassay.methods.weigh.weights import SampleWeights
from datassay.report.html import render
from datassay.report.page import Table
from datassay.report.wording import gain_text
from datassay.score.neighbors.local_variance import local_variance
from helpers.blocks import NAMES
from helpers.command_line import columns, listed, refusals, succeed, summary, words
from helpers.pages import snippet
from helpers.weighings import K, gain, weighed

SMALL, UNTRIED = ["--model", "mlp:width=8"], ["--seeds", 0, "--neighbors", 10]
QUICK = [*SMALL, "--seeds", 2, "--neighbors", 10]
OWN = """
import torch


def ends_in_softmax():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(1))
"""


@pytest.fixture(autouse=True, scope="module")
def short():
    """Trainings of 40 updates: what is tested here is what is written, not what is learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datassay.train.recipe.FEWEST_UPDATES", 40)
        patch.setattr("datassay.methods.weigh.gain.FEWEST_UPDATES", 40)
        patch.setattr("datassay.methods.weigh.gain.MOST_UPDATES", 80)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with an uneven table of two classes, the same as arrays, and a regression."""
    folder = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 2))
    y = (x[:, 0] + 0.2 * x[:, 1] ** 2 > 0.5).astype(int)
    rows = [f"row-{i},{x[i, 0]},{x[i, 1]},{('no', 'yes')[y[i]]}" for i in range(120)]
    (folder / "table.csv").write_text("\n".join(["key,a,b,answer", *rows]))
    np.savez(folder / "classes.npz", x=x, y=y)
    np.savez(folder / "numbers.npz", x=x, y=np.sin(3 * x[:, 0]))
    y = np.sin(3 * x[:, 0])
    y[7] = np.nan
    np.savez(folder / "nan.npz", x=x, y=y)
    (folder / "own_weighed.py").write_text(OWN)
    return folder


TABLE = ["table.csv", "--target", "answer", "--ids", "key"]


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    """What one weighting wrote and printed."""
    out = tmp_path_factory.mktemp("out") / "deep" / "weights"
    return out, succeed("weigh", data / TABLE[0], *TABLE[1:], *QUICK, "--verbose", "--out", out)


def test_it_writes_its_files_and_names_the_page_last(written):
    out, result = written
    assert listed(out) == sorted([*FILES, "index.html"])
    assert result.stdout.splitlines()[-1] == f"Page: {out / 'index.html'}"
    for word in ("no weights", "local variance", "class-balanced", "95 % interval", "weights"):
        assert word in result.stdout
    assert "Train with and without weights" in result.stderr
    summary_ = summary(out)
    names = [row["weighting"] for row in summary_["gain"]]
    assert names == ["no weights", "local variance", "class-balanced"]
    assert summary_["seeds"] == 2
    assert summary_["neighbors"]["space"] == "the standardised inputs, 2 columns"
    kinds = [reported["kind"] for reported in summary_["advice"]]
    assert kinds in (["does it help"], ["labels", "does it help"])


def test_weights_join_back_by_id_and_have_mean_one(data, written):
    out, _ = written
    table = columns(out / "weights.parquet")
    assert list(table) == [
        "id", "sample_weight", "local_variance", "label", "class_name", "neighbor_label",
        "neighbor_agreement", "is_doubtful",
    ]  # fmt: skip
    lines = [line.split(",") for line in (data / "table.csv").read_text().splitlines()]
    given = {line[0]: line[3] for line in lines}
    assert [given[i] for i in table["id"]] == table["class_name"]
    weight, variance = np.array(table["sample_weight"]), np.array(table["local_variance"])
    assert weight.mean() == pytest.approx(1)
    expected = 1 + 39 * variance / variance.max()
    assert weight == pytest.approx(expected / expected.mean())
    agree = np.array(table["neighbor_agreement"])
    assert (agree[variance == 0] == 1).all()
    summary_ = summary(out)
    assert summary_["concentration"]["constant"] == (variance == 0).sum()
    effective = weight.sum() ** 2 / (weight**2).sum()
    assert summary_["concentration"]["effective"] == pytest.approx(effective)
    heaviest = np.sort(weight)[::-1][: summary_["counts"]["heaviest"]].sum() / weight.sum()
    assert summary_["concentration"]["heaviest_share"] == pytest.approx(heaviest)


def test_the_same_seed_gives_the_same_table(here, written):
    succeed("weigh", *TABLE, *UNTRIED, "--out", "out")  # trials change no weight
    assert Path("out/weights.parquet").read_bytes() == (written[0] / "weights.parquet").read_bytes()


def test_features_of_a_network_and_a_search(here):
    args = [*QUICK, "--features", "model", "--tune", 2, "--out", "out"]
    succeed("weigh", "classes.npz", *args)
    summary_ = summary()
    assert summary_["neighbors"]["space"] == "what enters the network's last layer, 8 features"
    assert len(summary_["search"]["trials"]) == 2
    assert summary_["neighbors"]["k"] == summary_["search"]["n_neighbors"]
    assert summary_["settings"]["max_ratio"] == summary_["search"]["max_ratio"]
    assert "The last layer trained from" in Path("out/index.html").read_text()


OTHERS = {
    method: ["classes.npz", "--method", method, *SMALL * (method in NEEDS_NETWORK)]
    for method in METHODS
} | {"density": ["numbers.npz", "--density"]}


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_weightings(here, name):
    succeed("weigh", *OTHERS[name], *UNTRIED, "--out", "out")
    summary_, table = summary(), columns("out/weights.parquet")
    assert summary_["gain"] is None and np.mean(table["sample_weight"]) == pytest.approx(1)
    assert summary_["method"] == ("local_variance" if name == "density" else name)
    assert ("neighbor_mean" in table) != ("class_name" in table)
    assert summary_["settings"].get("density_clip") == (10 if name == "density" else None)


def test_noise_is_told_and_its_weight_known(here):
    args = [*UNTRIED, "--neighbors", 20, "--noise", 0.1, "--out", "out"]
    succeed("weigh", "classes.npz", *args)
    summary_ = summary()
    assert summary_["counts"]["known_label_errors"] == 10
    labels = next(a for a in summary_["advice"] if a["kind"] == "labels")
    assert labels["severity"] in {"look", "act"}
    assert "The truth is known here" in Path("out/index.html").read_text()
    table = columns("out/weights.parquet")
    wrong = np.array(table["true_label"]) != np.array(table["class_name"])
    doubtful = np.array(table["is_doubtful"])
    assert doubtful[wrong].mean() > 0.4 > 0.05 > doubtful[~wrong].mean()


def test_given_weights_are_not_trained_again(here):
    from datassay.data.load import load
    from datassay.models.build import build_model

    train, _ = load("classes.npz")
    torch.save(build_model("mlp:width=8", train, seed=5).state_dict(), "net.pt")
    result = succeed("weigh", "classes.npz", *QUICK, "--weights", "net.pt", "--out", "out")
    assert "Train the network" not in result.stderr
    model = summary()["facts"]["Model"]
    assert re.search(r"weights of net\.pt, SHA-256 [0-9a-f]{16}$", model)
    one, other = torch.load("net.pt"), build_model("mlp:width=8", train, seed=6).state_dict()
    torch.save({"model": one, "ema": other}, "two.pt")
    message = "two.pt holds several state dicts of this network: 'model' was taken, not 'ema'"
    for name, is_told in (("two.pt", True), ("two.pt::ema", False)):
        result = succeed("weigh", "classes.npz", *QUICK, "--weights", name, "--out", name[-3:])
        assert (message in words(result)) == is_told


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_snippet_on_the_page_runs(here, task):
    from datassay.data.load import load

    succeed("weigh", f"{task}.npz", *UNTRIED, "--out", ".")
    train, _ = load(f"{task}.npz")
    order = np.random.default_rng(0).permutation(len(train))
    own = {
        "ids": train.ids[order].tolist(),
        "x": torch.as_tensor(train.x[order]).float(),
        "y": torch.as_tensor(train.y[order]),
        "model": torch.nn.Linear(2, 2 if task == "classes" else 1),
        "estimator": LogisticRegression() if task == "classes" else Ridge(),
    }
    own["y"] = own["y"].float() if task == "numbers" else own["y"]
    exec(compile(snippet(Path("index.html").read_text()), "page", "exec"), own)
    table = columns("weights.parquet")
    assert own["w"].tolist() == pytest.approx(np.array(table["sample_weight"])[order], rel=1e-6)
    assert own["loss"].isfinite()
    assert len(list(own["loader"])) == 4


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    '--model nope': "model must be one of .*; got 'nope'",
    '--method odd': "method must be one of local_variance, .*got 'odd'",
    '--features odd': "features must be one of auto, .*got 'odd'",
    '--search odd': "search must be one of auto, exact, approximate; got 'odd'",
    '--neighbors 96': "--neighbors must be .* 96; got 96",
    '--seeds 1': "seeds 0 .* or at least 2; got 0 and 1",
    '--tune -1': "tune must be at least 0.*got -1",
    'weigh nan.npz': "y must be finite; 1 of 120 .* position 7",
    'weigh numbers.npz --method active_bias': "'active_bias' needs classes",
    '--model own_weighed:ends_in_softmax --features model': "its last nn.Linear,.*softmax",
    '--seeds 0 --model linear': "--model must be left out where no network is .*; got linear",
    '--weights none.pt': "none.pt must be a .safetensors file",
}, 'weigh classes.npz')  # fmt: skip


def test_agreement_and_doubt_by_hand():
    result = weighed()
    y = result.samples.y
    x = result.samples.x
    distance = ((x[:, None] - x[None]) ** 2).sum(2)
    near = np.argsort(distance, 1, kind="stable")[:, 1:K]
    share = (y[near] == y[:, None]).mean(1)
    assert result.near.agreement == pytest.approx(share)
    assert result.near.counts.sum(1).tolist() == [K - 1] * 160
    assert (result.near.is_doubtful == (share < 0.2)).all()
    theirs = result.samples.source != "<u>ours"
    assert result.near.is_doubtful[theirs].mean() > 0.6
    labels = next(a for a in page_of(result).advice if a.kind == "labels")
    order = [i for i in result.order if result.near.is_doubtful[i]]
    assert labels.ids == tuple(result.samples.ids[order[:10]])
    assert labels.severity == "act"


def test_targets_far_from_their_neighbours_are_doubtful():
    result = weighed(regression=True)
    y = result.samples.y.copy()
    i = int(np.abs(result.samples.x[:, 0] - 1).argmin())
    y[i] += 1000
    train = replace(result.samples, y=y)
    other = replace(result, samples=train, local=local_variance(train.x, y, K))
    assert other.near.is_doubtful[i]
    assert other.near.mean[i, 0] < 200
    assert other.near.is_doubtful.sum() < 8


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        (0.05, "fine", "help by"),
        (-0.05, "act", "harm"),
        (0.0, "look", "are not shown to help"),
    ],
)
def test_it_says_whether_the_weights_help(change, severity, words):
    text = replace(weighed(), gain=gain((0.0, change)))
    reported = next(a for a in page_of(text).advice if a.kind == "does it help")
    assert reported.severity == severity
    page = page_of(text)
    assert f"these weights {words}" in page.verdict
    assert gain_text(text.gain.interval(1), "accuracy") in page.verdict
    assert "Class-balanced weights, the usual baseline, are left out" in render(page)
    assert {f.name for f in page.figures} == {"weights", "gain"}
    without = page_of(replace(text, gain=None))
    assert {f.name for f in without.figures} == {"weights"}


def test_class_balance_is_offered_where_it_helps_and_local_variance_does_not():
    for changes, is_offered in (((0.0, -0.05, 0.05), True), ((0.0, 0.05, 0.05), False)):
        typed = {"Command": "datassay weigh a.csv --target y"}
        page = page_of(replace(weighed(), gain=gain(changes), facts=typed))
        assert any("--method class_balanced" in one for one in page.commands) == is_offered
        assert (page.advice[-1].headline == "Train with class-balanced weights") == is_offered


def test_the_command_that_balances_classes_gives_them_the_same_total_weight(data, tmp_path):
    kind = next(kind for kind in ACTIONS if kind.name == BALANCE)
    command, *options = kind.command.split()
    succeed(command, data / TABLE[0], *TABLE[1:], *options, *UNTRIED, "--out", tmp_path)
    table = columns(tmp_path / "weights.parquet")
    weight, labels = np.array(table["sample_weight"]), np.array(table["label"])
    totals = [weight[labels == label].sum() for label in np.unique(labels)]
    assert totals[0] == pytest.approx(totals[1], rel=0.05)


def test_the_baseline_is_told_honestly():
    text = replace(weighed(), gain=gain((0.0, 0.01, 0.05)))
    assert "ocal variance does worse than class-balanced" in render(page_of(text))
    rows = next(b for b in page_of(text).blocks if isinstance(b, Table)).rows
    assert [row.name for row in rows] == ["no weights", "local variance", "class-balanced"]
    assert rows[2].cells[-1] == "5.0"


def test_the_heaviest_and_the_lightest_are_shown():
    result = weighed()
    shown = gallery(result).cards
    heaviest = [c.id for c in shown if "heaviest" in c.views]
    assert heaviest == [str(i) for i in result.samples.ids[result.order[:80]]]
    lightest = {c.id for c in shown if "lightest" in c.views}
    assert lightest == {str(i) for i in result.samples.ids[result.order[::-1][:48]]}
    assert not lightest & set(heaviest)
    first_of_view = {v.value: v.descending for v in gallery(result).views}
    assert first_of_view.pop("lightest") is False and all(first_of_view.values())
    first = shown[0]
    counts = result.near.counts[result.order[0]]
    assert all(f"{NAMES[c]} (×{counts[c]})" in first.figures[1][0] for c in range(2) if counts[c])


def test_equal_weights_are_called_so():
    text = weighed()
    n = len(text.samples)
    even = SampleWeights(np.full(n, 1 / n), text.samples.ids, "class_balanced")
    text = replace(text, weights=even, gain=None, method="class-balanced")
    assert "All weights are equal" in page_of(text).warnings[0]
    assert concentration(text)["effective"] == pytest.approx(n)
    assert "mean 1" in render(page_of(text))
