"""`datassay purify` and `datassay partition`: files, tables, exit codes, one line for bad input."""

from pathlib import Path

import numpy as np
import pytest

from helpers.blocks import two_rules
from helpers.command_line import columns, listed, refusals, succeed, summary

PURIFIED = ["index.html", "keep.parquet", "purified.parquet", "summary.json", "trace.parquet"]
BLOCKS = ["blocks.parquet", "index.html", "summary.json"]
QUICK = ["--blocks", 2, "--restarts", 1, "--gate", "off"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a table of two rules, the same with a clean validation part, a pure set."""
    folder = tmp_path_factory.mktemp("data")
    x, y, source = two_rules()
    rows = [f"row-{i},{x[i, 0]},{x[i, 1]},{('no', 'yes')[y[i]]},{source[i]}" for i in range(len(y))]
    (folder / "mixed.csv").write_text("\n".join(["key,a,b,answer,clinic", *rows]))
    pure, labels, _ = two_rules(minority=0, seed=1)
    np.savez(folder / "pure.npz", x=pure, y=labels)
    np.savez(folder / "mixed.npz", x=x, y=y, x_val=pure, y_val=labels)
    same, y = np.ones((60, 2)), np.arange(60) % 2
    np.savez(folder / "same.npz", x=same, y=y)
    same[7, 1] = np.nan
    np.savez(folder / "nan.npz", x=same, y=y)
    return folder


STEP = ["--step", 4]
TABLE = ["mixed.csv", "--target", "answer", "--ids", "key", "--source", "clinic"]


@pytest.fixture(scope="module")
def purified(data, tmp_path_factory):
    """What one purification wrote and printed."""
    out = tmp_path_factory.mktemp("out") / "deep" / "purified"
    return out, succeed("purify", data / TABLE[0], *TABLE[1:], *STEP, "--beyond", 3, "--out", out)


def test_purify_writes_its_files_and_names_the_page_last(purified):
    out, result = purified
    assert listed(out) == PURIFIED
    assert result.stdout.splitlines()[-1] == str(out / "index.html")
    for word in ("samples removed", "precision of removal", "the same, ours alone", "held_out"):
        assert word in result.stdout
    assert "purify: " in result.stderr
    assert "rival: highest loss: " in result.stderr
    told = summary(out)
    assert told["rule"] == "held_out"
    assert told["stop"]["precision"] > 0.6  # 0.25 at random
    assert told["stop"]["majority"] > told["start"]["majority"] - 0.05
    assert told["rival"]["removed"] > 0


def test_purified_samples_join_back_by_id(data, purified):
    out, _ = purified
    table, kept = columns(out / "purified.parquet"), columns(out / "keep.parquet")
    assert list(table) == [
        "id", "removed", "step", "label", "class_name", "suggested_label", "source",
    ]  # fmt: skip
    lines = [line.split(",") for line in (data / "mixed.csv").read_text().splitlines()]
    given = {line[0]: line[3] for line in lines}
    assert [given[i] for i in table["id"]] == table["class_name"]
    assert kept["id"] == [i for i, r in zip(table["id"], table["removed"], strict=True) if not r]
    assert [table["id"][p] for p in kept["position"]] == kept["id"]
    gone = np.array(table["removed"])
    assert (np.array(table["step"])[gone] > 0).all()
    contradicted = np.array(table["suggested_label"]) != np.array(table["class_name"])
    assert contradicted[gone].mean() > 0.6 > contradicted.mean()


def test_the_trace_holds_both_rankings_and_the_steps_beyond_the_stop(purified):
    out, _ = purified
    trace = columns(out / "trace.parquet")
    told = summary(out)
    assert list(dict.fromkeys(trace["ranking"])) == [told["order"], "loss"]
    ours = np.array(trace["ranking"]) != "loss"
    assert np.array(trace["is_kept"])[ours].sum() == told["counts"]["steps"] + 1
    assert ours.sum() >= told["counts"]["steps"] + 1 + 3
    assert np.array(trace["removed"])[ours].tolist() == list(range(0, 4 * ours.sum(), 4))


def test_nothing_is_removed_from_a_pure_set(here):
    result = succeed("purify", "pure.npz", *STEP, "--no-rival", "--out", "out")
    assert "Leave out 0 of 128 samples" in result.stdout
    assert not any(columns("out/purified.parquet")["removed"])
    assert set(columns("out/trace.parquet")["ranking"]) == {"adjoint"}
    assert "Nothing to remove" in Path("out/index.html").read_text()
    assert summary()["advice"][0]["severity"] == "fine"


def test_only_a_validation_part_of_the_users_own_decides_when_to_stop(here):
    succeed("purify", "mixed.npz", *STEP, "--no-rival", "--out", "given")
    assert summary("given")["rule"] == "validation"
    succeed("purify", *TABLE, *STEP, "--no-rival", "--stop", "validation", "--out", "split")
    told = summary("split")
    assert "split off the same data" in told["warnings"][0]


def test_purify_with_noise_knows_the_truth(here):
    args = [*STEP, "--noise", 0.2, "--noise-kind", "pair", "--no-rival", "--out", "out"]
    succeed("purify", "pure.npz", *args)
    table = columns("out/purified.parquet")
    wrong = np.array(table["true_label"]) != np.array(table["class_name"])
    told = summary()
    assert told["counts"]["known_foreign"] == wrong.sum() == 26
    assert told["stop"]["precision"] == wrong[np.array(table["removed"])].mean()


@pytest.fixture(scope="module")
def divided(data, tmp_path_factory):
    """What one partition wrote and printed."""
    out = tmp_path_factory.mktemp("out")
    return out, succeed("partition", data / TABLE[0], *TABLE[1:], *QUICK, "--out", out)


def test_partition_writes_its_files_and_names_the_page_last(divided):
    out, result = divided
    assert listed(out) == BLOCKS
    assert result.stdout.splitlines()[-1] == str(out / "index.html")
    for word in ("block 0", "together", "entropy", "held-out", "adjusted Rand", "true blocks"):
        assert word in result.stdout
    table = columns(out / "blocks.parquet")
    assert list(table) == ["id", "block", "responsibility", "label", "class_name", "source"]
    told = summary(out)
    sizes = np.bincount(table["block"])
    assert told["sizes"] == sizes.tolist() == sorted(sizes, reverse=True)
    assert told["agreement"] > 0.8
    block, source = np.array(table["block"]), np.array(table["source"])
    assert told["sources"]["block 1"]["theirs"] == ((block == 1) & (source == "theirs")).sum()
    assert told["variance_together"] > max(told["variance"])
    assert min(table["responsibility"]) >= 0.5


def test_partition_of_a_pure_set_finds_one_block(here):
    args = ["--max-blocks", 2, "--restarts", 2, "--gate", "off", "--out", "out"]
    result = succeed("partition", "pure.npz", *args)
    assert "K = 1" in result.stdout
    told = summary()
    assert told["blocks"] == 1
    assert told["agreement"] is None
    assert "One block: no mixture found" in Path("out/index.html").read_text()


def test_both_take_a_regression(here):
    draw = np.random.default_rng(0)
    x, other = draw.normal(size=(150, 1)), np.arange(150) % 4 == 0
    y = np.where(other, -2, 2) * x[:, 0] + 0.05 * draw.normal(size=150) + 30
    np.savez("slopes.npz", x=x, y=y, source=other.astype(int))
    succeed("purify", "slopes.npz", *STEP, "--no-rival", "--out", "out")
    told = summary()
    assert (told["metric"], told["counts"]["train"]) == ("R²", 120)
    assert told["stop"]["precision"] > 0.6  # 0.25 at random
    succeed("partition", "slopes.npz", *QUICK, "--out", "out")
    assert summary()["agreement"] > 0.7


def test_the_same_seed_gives_the_same_tables(here, purified, divided):
    succeed("purify", *TABLE, *STEP, "--beyond", 3, "--no-rival", "--out", "out")
    succeed("partition", *TABLE, *QUICK, "--out", "out")
    for (out, _), name in ((purified, "purified.parquet"), (divided, "blocks.parquet")):
        assert Path("out", name).read_bytes() == (out / name).read_bytes()


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    "purify": r"DATA must be given once",
    "partition nowhere": r"existing path; got 'nowhere'",
    "--model nope": r"model must be one of .*; got 'nope'",
    "--order odd": r"order must be one of auto, .*; got 'odd'",
    "--stop odd": r"stop must be one of auto, .*; got 'odd'",
    "--ridge -1": r"ridge must be .*-1",
    "--damping -1": r"damping must be .*-1",
    "--step 0": r"step must be at least 1; got 0",
    "--max-fraction 1": r"max_fraction must lie in \(0, 1\); got 1",
    "--min-per-class 0": r"min_per_class must be at least 1; got 0",
    "--beyond -1": r"beyond must be at least 0; got -1",
    "--noise-kind odd": r"'uniform' or 'pair'; got 'odd'",
    "purify same.npz": r"inputs must differ; all 48 samples are the same",
    "purify nan.npz": r"x must be finite; 1 of 60 .* position 7",
    "partition same.npz": r"inputs must differ; all 48 samples",
    "partition pure.npz --blocks 50": r"n_blocks must leave .*Take at most 6",
    "partition pure.npz --blocks -1": r"n_blocks must be at least 1; got -1",
    "partition pure.npz --blocks 0": r"n_blocks must be at least 1; got 0",
    "partition pure.npz --max-blocks 0": r"max_blocks must be at least 1; got 0",
    "partition pure.npz --gate odd": r"gate must be 'auto', 'on' or 'off'; got 'odd'",
    "partition pure.npz --restarts 0": r"restarts must be at least 1; got 0",
    "partition pure.npz --model mlp:width=4": r"only one dense layer.*Freeze",
}, "purify pure.npz")  # fmt: skip
