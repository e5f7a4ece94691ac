"""`datassay index`, and `explain --index`: files, resuming, adding, and one line for bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import datassay as da
from datassay.act import trained_network
from datassay.commands.explain import job as explaining
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

TABLE = ["train.csv", "--target", "answer", "--model", "mlp:width=8"]
NET = [*TABLE, "--weights", "net0.safetensors"]
HEAD = "first,second,third,fourth,answer"


def write(path, x, y):
    rows = [
        ",".join([*(f"{v:.4f}" for v in x[i]), ("no", "yes", "so")[y[i]]]) for i in range(len(x))
    ]
    Path(path).write_text("\n".join([HEAD, *rows]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table with some wrong labels, more of it, and networks trained on the first."""
    folder = tmp_path_factory.mktemp("index")
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(140, 4)), np.arange(140) % 3
    x[np.arange(140), y] += 2
    given = y.copy()
    given[[5, 40, 71]] = (y[[5, 40, 71]] + 1) % 3
    write(folder / "train.csv", x[:90], given[:90])
    write(folder / "more.csv", x[90:120], given[90:120])
    write(folder / "all.csv", x[:120], given[:120])
    write(folder / "new.csv", x[120:], given[120:])
    write(folder / "other.csv", x[:90] * 3 + 1, given[:90])
    corrected = given.copy()
    corrected[[5, 40]] = y[[5, 40]]
    write(folder / "mended.csv", x[:90], corrected[:90])
    train, _ = da.load(folder / "train.csv", target="answer")
    for seed in range(2):
        model = trained_network(da.build_model("mlp:width=8", train, seed=seed), train, seed=seed)
        save_file(model.state_dict(), folder / f"net{seed}.safetensors")
    files = ["--weights", folder / "net0.safetensors", "--out", folder / "ix"]
    succeed("index", folder / "train.csv", *TABLE[1:], *files)
    return folder


def told_of(index):
    """Its correlation with exact effects."""
    assert index.fidelity is not None
    return index.fidelity


def ranked_alike(first, second):
    """Spearman correlation."""
    ranks = np.argsort(np.argsort([list(first), list(second)]))
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def test_it_prints_what_it_keeps_and_how_good_that_is(here):
    result = succeed("index", *NET, "--out", "deep/ix")
    assert "Index: deep/ix" in result.stdout.splitlines()
    assert result.stdout.startswith("The index answers for 90 samples; its estimates ")
    steps = result.stderr.splitlines()
    for step in ("Learning from all samples what the ", "Storing what each sample did to the "):
        assert len([line for line in steps if line.startswith(step)]) == 1
    size = sum(file.stat().st_size for file in Path("deep/ix").rglob("*") if file.is_file())
    index = da.open_index("deep/ix")
    reported = told_of(index)
    for text in (
        "│ 90 │", f"│ {index.bytes_per_sample} │", f"│ {size / 1e6:.1f} │",
        f"exact ones on {reported['queries']} queries (correlation above 0.9995)",
    ):  # fmt: skip
        assert text.replace("│", "").strip() in words(result), text
    assert len(index) == 90 and index.manifest["curvature"] == "auto"


def test_which_weights_were_taken_is_told(here):
    nets = [load_file(f"net{seed}.safetensors") for seed in range(2)]
    torch.save({"ema": nets[1], "model": nets[0]}, "two.pt")
    message = "two.pt holds several state dicts of this network: 'model' was taken"
    made = succeed("index", *TABLE, "--weights", "two.pt", "--out", "mine")
    assert message in words(made)
    more = ["--weights", "two.pt::model", "--append", "more.csv"]
    assert message not in words(succeed("index", *TABLE, *more, "--out", "mine"))


def test_a_plan_needs_no_weights_and_writes_nothing(here):
    plan = ["--plan", "--bytes-per-sample", 16, "--out", "mine"]
    without, trained = (succeed("index", *args, *plan).stdout for args in (TABLE, NET))
    message = " ".join(without.split())
    assert (
        "the weights as initialised, since sizes do not depend on them; what rows keep may."
        in message
    )
    assert "initialised" not in trained
    for text in ("90 samples of 20 bytes", "1,000 queries", "Nothing was written.", "16 bytes 0."):
        assert text in message and text in " ".join(trained.split())
    assert without.splitlines()[:7] == trained.splitlines()[:7]  # the table of blocks
    assert not Path("mine").exists()


def test_settings_reach_the_index(here):
    reported = succeed(
        "index", *NET, "--out", "mine", "--curvature", "ekfac", "--damping", "0.3",
        "--bytes-per-sample", 2, "--temperature", 1, "--weight-decay", "0.01", "--seed", 0,
    )  # fmt: skip
    index = da.open_index("mine")
    assert (index.sketch.n_bytes, index.manifest["damping"]) == (2, 0.3)
    assert (index.manifest["curvature"], index.manifest["weight decay"]) == ("ekfac", 0.01)
    assert index.loss.temperature == 1
    assert "a larger --bytes-per-sample keeps more" in words(reported)


def test_answers_are_those_of_explain_within_the_correlation(here, monkeypatch):
    damped = ("--damping", 1)  # "auto" of an index tries none
    succeed("index", *NET, *damped, "--out", "damped")
    reported = told_of(da.open_index("damped"))
    succeed("explain", *NET, *damped, "--queries", "new.csv", "--out", "whole")
    files = listed("whole")
    monkeypatch.setattr(explaining, "influence", None)  # nothing of the training side anew
    asked = ("--queries", "new.csv", "--index", "damped", "--out", "kept")
    result = succeed("explain", *NET, *asked)
    assert listed("kept") == files and "Compare with the index" in result.stderr
    whole, kept = (columns(f"{out}/samples.parquet") for out in ("whole", "kept"))
    assert whole["id"] == kept["id"]
    assert np.allclose(whole["self_influence"], kept["self_influence"], rtol=1e-3)
    assert ranked_alike(whole["total"], kept["total"]) > reported["low"] - 0.02
    effects = [columns(f"{out}/effects.parquet") for out in ("whole", "kept")]
    rows = [
        {(q, i): e for q, i, e in zip(one["query"], one["id"], one["effect"], strict=True)}
        for one in effects
    ]
    both = sorted(set(rows[0]) & set(rows[1]))
    assert len(both) > 0.8 * len(rows[0])
    assert ranked_alike(*([outcome[key] for key in both] for outcome in rows)) > 0.95
    facts = summary("kept")["facts"]
    assert f"correlation {reported['mean']:.3f}" in facts["Index"]


def test_samples_do_not_explain_themselves(here):
    succeed("explain", *NET, "--index", "ix", "--top", 4, "--out", "out")
    effects = columns("out/effects.parquet")
    assert max(effects["rank"]) == 4
    pairs = zip(effects["query_id"], effects["id"], strict=True)
    assert all(str(query) != str(one) for query, one in pairs)
    whole = da.open_index("ix").self_influence()
    assert np.allclose(columns("out/samples.parquet")["self_influence"], whole)


def test_added_samples_answer_too_by_their_ids(here):
    result = succeed("index", *NET, "--out", "ix", "--append", "more.csv")
    assert "25%" in result.stdout
    assert "came after the curvature was fitted" in words(result)
    again = ["explain", *NET, "--index", "ix", "--queries", "new.csv", "--out"]
    reported = words(succeed(*again, "part"))
    assert "30 samples of the index are not in DATA and shown by id alone" in reported
    part = columns("part/samples.parquet")
    assert sorted(part["id"]) == list(range(120)) and part["id"][:90] == list(range(90))
    page = Path("part/index.html").read_text()
    assert '"drawing":null' in page.replace(" ", "") and "120 training samples" in page
    again[1] = "all.csv"
    assert "not in DATA" not in succeed(*again, "whole").output
    whole = columns("whole/samples.parquet")
    assert np.allclose(
        [t for _, t in sorted(zip(part["id"], part["total"], strict=True))], whole["total"]
    )
    again[1] = "more.csv"
    assert_one_error_line(invoke(*again, "wrong"), "DATA must be what the index was made of")


def test_other_data_are_told(here):
    other = invoke("explain", "other.csv", *NET[1:], "--index", "ix", "--out", "out")
    assert_one_error_line(other, "of 64 samples with the same ids 6[0-4] have other gradients")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("file", "options", "reported"),
    [
        ("mended.csv", (), "of 64 samples that were compared have other inputs or labels"),
        ("train.csv", ("--val-fraction", 0.2), "18 of 18 queries are in the index"),
        ("all.csv", (), "30 samples of DATA are not in the index and left out"),
    ],
)
def test_what_does_not_fit_between_index_and_data_is_told(here, file, options, reported):
    args = ["explain", file, *NET[1:], "--index", "ix", *options, "--out", "out"]
    assert reported in words(succeed(*args))
    assert len(columns("out/samples.parquet")["id"]) == 90


test_bad_input_costs_one_line_and_no_file = refusals({
    'index TABLE': "weights must name the file of the trained network",
    'index TABLE --weights gone.pt': "--weights must name an existing file; got gone.pt",
    '--bytes-per-sample 0': "--bytes-per-sample must be at least 1",
    '--curvature whole': "curvature must be one of 'auto'",
    '--damping -1': "damping must be at least 0 and finite",
    '--temperature 0': "temperature must be positive",
    '--weight-decay -1': "--weight-decay must be at least 0",
    '--precision half': "precision must be 'float32' or",
    '--loss hinge': "loss must be one of auto, cross_entropy, mse",
    '--device tpu': "device must be 'cpu', 'cuda'",
    '--engine cloud': "engine must be one of in_process",
    '--workers 2': "workers must be at least 1, for engine",
    "--parameters 'head*'": r"none has 'head\*'",
    '--out train.csv': "train.csv",
    "--out ''": "store must name a folder",
    '--out nosuch://x/ix': "nosuch",
    'index TABLE --weights net1.safetensors --out ix': "ix.* differs in: weights",
    '--damping 0.3 --out ix': "differs in: damping",
    '--append more.csv --out none': "--out must hold an index; none has none",
    '--append away.csv': "existing path; got 'away.csv'",
    'explain TABLE --weights net1.safetensors --index ix': "ix was made with; .*: weights",
    'explain NET --weights net1.safetensors --index ix': "for the one network .* got 2",
    'explain NET --index away': "location must hold an index; away has",
    'explain NET --index ix --out ix': "out must lie outside of what is read",
}, "index NET", TABLE=TABLE, NET=NET)  # fmt: skip
