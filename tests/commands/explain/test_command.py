"""`datassay explain`: its files, several weights, queries of their own, one line for bad input."""

import argparse
import html
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import datassay as da
from datassay.act import trained_network
from datassay.commands.explain import job
from helpers.command_line import (
    assert_one_error_line,
    columns,
    invoke,
    listed,
    refusals,
    succeed,
    summary,
    words,
)

FILES = ["effects.parquet", "index.html", "samples.parquet", "summary.json"]
TABLE = ["train.csv", "--target", "answer", "--ids", "key", "--model", "mlp:width=8"]
OWN = """
import torch
from torch import nn

always = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Embedding(9, 4)
        self.say = nn.Linear(4, 9)

    def forward(self, x):
        return self.say(self.look(x))


class Raises(nn.Linear):
    def forward(self, x):
        raise RuntimeError("no luck")


def raises():
    return Raises(4, 3)
"""
W = ["--weights", "net0.safetensors"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table with some wrong labels, arrays, and networks trained on them."""
    folder = tmp_path_factory.mktemp("explain")
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(90, 4)), np.arange(90) % 3
    x[np.arange(90), y] += 3
    given = y.copy()
    given[[5, 40, 71]] = (y[[5, 40, 71]] + 1) % 3
    rows = [
        ",".join([f"r{i}", *(f"{v:.4f}" for v in x[i]), ("no", "yes", "so")[given[i]]])
        for i in range(90)
    ]
    head = "key,a,b,c,d,answer"
    (folder / "train.csv").write_text("\n".join([head, *rows[:80]]))
    (folder / "new.csv").write_text("\n".join([head, *rows[80:]]))
    (folder / "one.csv").write_text("\n".join([head, rows[80]]))
    (folder / "none.csv").write_text(head + "\n")
    np.savez(folder / "rows.npz", x=x, y=given)
    ids = draw.integers(0, 9, (30, 5))
    np.savez(folder / "tokens.npz", x=ids, y=ids)
    np.savez(folder / "number.npz", x=x, y=x @ [1.0, 2, 0, 0])
    (folder / "own_models.py").write_text(OWN)
    train, _ = da.load(folder / "train.csv", target="answer", ids="key")
    for seed in range(2):
        model = trained_network(da.build_model("mlp:width=8", train, seed=seed), train, seed=seed)
        save_file(model.state_dict(), folder / f"net{seed}.safetensors")
    torch.save(model, folder / "whole.pt")
    for seed in range(2):
        torch.manual_seed(seed)
        own = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        torch.save(own.state_dict(), folder / f"own{seed}.pt")
    tokens = {"look.weight": torch.randn(9, 4), "say.weight": torch.randn(9, 4)}
    torch.save(tokens | {"say.bias": torch.zeros(9)}, folder / "tokens.pt")
    torch.save(nn.Linear(4, 1).state_dict(), folder / "line.pt")
    torch.save(nn.Linear(4, 3).state_dict(), folder / "raises.pt")
    return folder


def test_it_writes_its_files_and_finds_the_wrong_labels(here):
    result = succeed("explain", *TABLE, "--weights", "net0.safetensors", "--out", "deep/out")
    assert listed("deep/out") == FILES
    assert result.stdout.splitlines()[-1] == "Page: deep/out/index.html"
    assert "Fit the curvature" in result.stderr and "Remove samples" in result.stderr
    samples = columns("deep/out/samples.parquet")
    assert list(samples) == ["id", "self_influence", "total"]
    assert samples["id"] == [f"r{i}" for i in range(80)]
    first = np.array(samples["id"])[np.argsort(samples["self_influence"])[::-1]]
    assert {"r5", "r40", "r71"} <= set(first[:10])
    assert "Check 10 training samples first: they look wrongly " in " ".join(result.stdout.split())
    summary_ = summary("deep/out")
    assert (summary_["queries"], summary_["measure"]) == ("training", "margin")
    assert summary_["counts"] | {"predicted_wrongly": 0} == {
        "train": 80, "queries": 80, "classes": 3, "predicted_wrongly": 0,
    }  # fmt: skip
    assert summary_["largest_self_influence"] == first[:20].tolist()


def test_effects_are_those_of_influence_averaged_over_the_weights(here):
    both = ["--weights", "net0.safetensors", "--weights", "net1.safetensors"]
    args = [*TABLE, *both, "--queries", "new.csv", "--measure", "loss", "--top", 2, "--out", "out"]
    succeed("explain", *args)
    train, val = da.load("train.csv", target="answer", ids="key", val="new.csv")
    models = [da.build_model("mlp:width=8", train, weights=f"net{s}.safetensors") for s in range(2)]
    effects = da.influence(models, train, val, measure="loss", top=2)
    table = pq.read_table("out/effects.parquet")
    names = ["query", "query_id", "direction", "rank", "id", "effect", "of"]
    assert table.column_names == names
    expected = effects.to_table()
    assert table["id"].to_pylist() == expected["id"].to_pylist()
    assert np.allclose(table["effect"], expected["effect"])
    assert set(table["query_id"].to_pylist()) <= {f"r{i}" for i in range(80, 90)}
    assert np.allclose(columns("out/samples.parquet")["total"], effects.total)
    summary_ = summary()
    assert summary_["queries"] == "queried"
    assert summary_["facts"]["Weights"].count("SHA-256") == 2


def test_one_query_is_enough(here):
    one = ["--weights", "net0.safetensors", "--queries", "one.csv"]
    result = succeed("explain", *TABLE, *one, "--out", "out")
    assert set(columns("out/effects.parquet")["query_id"]) == {"r80"}
    assert "1 queried sample explained by 80 training samples" in Path("out/index.html").read_text()
    assert "prediction" in result.stdout


def test_which_weights_were_taken_stands_on_the_page_and_another_can_be_named(here):
    model, average = (torch.load(f"own{seed}.pt") for seed in range(2))
    torch.save({"ema": average, "model": model, "args": argparse.Namespace(lr=1)}, "two.pt")
    args = ["explain", "rows.npz", "--model", "own_models:always", "--val-fraction", 0, "--weights"]
    message = "two.pt holds several state dicts of this network: 'model' was taken, not 'ema'"
    assert message in words(succeed(*args, "two.pt", "--out", "both"))
    assert message in html.unescape(Path("both/index.html").read_text())
    named = succeed(*args, "two.pt::ema", "--out", "ema")
    assert message not in words(named)
    facts = summary("ema")["facts"]["Weights"]
    assert facts.startswith("two.pt::ema (SHA-256 ") and "state dict 'ema'" in facts
    for out, own in (("both", "own0.pt"), ("ema", "own1.pt")):
        succeed(*args, own, "--out", "alone", "--overwrite")
        total = columns("alone/samples.parquet")["total"]
        assert columns(f"{out}/samples.parquet")["total"] == total


def test_a_module_that_is_handed_out_twice_holds_each_weights_once(here):
    args = ["explain", "rows.npz", "--model", "own_models:always", "--val-fraction", 0]
    files = ["--weights", "own0.pt", "--weights", "own1.pt"]
    total = {}
    for out, some in (("both", files), ("first", files[:2]), ("second", files[2:])):
        succeed(*args, *some, "--damping", 1, "--out", out)  # else one choice serves both
        total[out] = np.array(columns(f"{out}/samples.parquet")["total"])
    assert np.allclose(total["both"], (total["first"] + total["second"]) / 2, rtol=1e-4)
    assert not np.allclose(total["first"], total["second"])


def test_weights_that_do_not_belong_to_the_data_are_told(here):
    zeros = {name: torch.zeros_like(t) for name, t in torch.load("own0.pt").items()}
    torch.save(zeros, "zeros.pt")
    args = ["explain", "rows.npz", "--model", "own_models:always", "--weights", "zeros.pt"]
    reported = words(succeed(*args, "--out", "out"))
    assert "hardly more than the most frequent class alone" in reported
    assert "Check that --model, --weights and DATA belong together" in reported


def test_what_is_split_off_is_told(here):
    train, _ = da.load("number.npz")
    save_file(da.build_model("linear", train).state_dict(), "linear.safetensors")
    args = ["number.npz", "--model", "linear", "--weights", "linear.safetensors", "--out", "out"]
    result = succeed("explain", *args)
    assert "18 samples of number are held out as queries" in words(result)
    summary_ = summary()
    assert (summary_["measure"], summary_["counts"]["predicted_wrongly"]) == ("output", None)


def test_tokens_are_explained_by_the_next_ones_loss(here):
    args = ["tokens.npz", "--model", "own_models.py:Tokens", "--weights", "tokens.pt"]
    succeed("explain", *args, "--loss", "next_token", "--val-fraction", 0.1, "--out", "out")
    summary_ = summary()
    assert (summary_["loss"], summary_["measure"]) == ("next_token", "loss")
    assert len(columns("out/samples.parquet")["id"]) == 27


def test_the_plan_runs_nothing_and_needs_no_weights(here, monkeypatch):
    monkeypatch.setattr(job, "influence", None)
    plan = ["explain", *TABLE, "--curvature", "ekfac", "--plan", "--out", "out"]
    without, trained = (succeed(*plan, *args).stdout for args in ([], W))
    for message in (
        "1.1",
        "40",
        "factored",
        "80 queries by 80 training samples",
        "Nothing was run.",
    ):
        assert message in " ".join(trained.split())
    message = "Counted at the weights as initialised, since sizes do not depend on them."
    assert message in " ".join(without.split()) and message not in " ".join(trained.split())
    assert without.splitlines()[:8] == trained.splitlines()[:8]  # the table of blocks
    assert not Path("out").exists()


def test_a_long_run_says_so_first(here, monkeypatch, caplog):
    monkeypatch.setattr(job, "MANY_VALUES", 0)
    monkeypatch.setattr(job, "LONG_SECONDS", 0)
    succeed("explain", *TABLE, "--weights", "net0.safetensors", "--out", "out")
    assert "this takes about " in caplog.text


test_bad_input_costs_one_line_and_no_file = refusals({
    'explain TABLE': "datassay run train networks itself, by --attribution-at trained",
    'explain TABLE --weights whole.pt': r"safetensors.torch.save_model\(model, ",
    'explain TABLE --weights own0.pt::ema': "must hold the state dict 'ema'; it holds one",
    'explain TABLE --weights gone.pt': "--weights must name an existing file; got gone.pt",
    'explain TABLE --model mlp:width=9 --weights net0.safetensors': "must hold every tensor",
    'explain TABLE --weights own0.pt': "own0.pt must hold every tensor",
    "--parameters 'head*'": r"none has 'head\*'",
    '--queries none.csv': "holds column names alone",
    '--queries rows.npz': "val must be a table as data is",
    '--queries away.csv': "existing path; got 'away.csv'",
    '--damping much': "damping must be a number or 'auto'",
    '--device tpu': "device must be 'cpu', 'cuda'",
    'explain rows.npz --model torch.nn:Linear --weights own0.pt': "must be a module, or a function",
    '--loss next_token': r"needs y \[n, tokens\]",
    'explain rows.npz --model own_models:raises --weights raises.pt': r"samples \[n, 4\].*no luck",
}, "explain TABLE --weights net0.safetensors", TABLE=TABLE)  # fmt: skip


def test_results_do_not_go_where_queries_are_read(here):
    result = invoke("explain", *TABLE, *W, "--queries", "new.csv", "--out", "new.csv")
    assert_one_error_line(result, "out must be a folder; got new.csv")
    assert Path("new.csv").read_text().startswith("key,")
