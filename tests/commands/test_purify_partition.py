"""`datassay purify` and `datassay partition`: files, tables, pages, one line for bad input."""

import json
from dataclasses import replace

import numpy as np
import pytest

from datassay.data.synthetic.mixtures import sd_mixture
from datassay.methods.partition.division import _tabulate_blocks
from datassay.methods.partition.division import gallery as surest_gallery
from datassay.methods.partition.division import page as partition_page
from datassay.methods.purify.command import PurifySettings
from datassay.methods.purify.job import before_and_after, foreign, majority_source
from datassay.methods.purify.job import run as run_purify
from datassay.methods.purify.page import FILES as PURIFIED
from datassay.methods.purify.page import _tabulate_classes, purified_table, trace_table
from datassay.methods.purify.page import files as purify_files
from datassay.methods.purify.page import gallery as removed_gallery
from datassay.methods.purify.page import page as purify_page
from datassay.report.html import render
from datassay.report.page import Gallery
from datassay.report.style import plotly_text
from datassay.report.wording import gain_text, number, share
from datassay.score.variance.shuffled import ShuffledLabels
from datassay.stats import interval
from helpers.blocks import NAMES, divided, purified, samples, two_rules
from helpers.command_line import columns, invoke, listed, refusals, succeed, summary
from helpers.findings import EVIL

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


STEP = ["--step", 4, "--order", "adjoint"]
TABLE = ["mixed.csv", "--target", "answer", "--ids", "key", "--source", "clinic"]


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    """What one purification wrote and printed."""
    out = tmp_path_factory.mktemp("out") / "deep" / "purified"
    return out, succeed(
        "purify", data / TABLE[0], *TABLE[1:], *STEP, "--beyond", 3, "--verbose", "--out", out
    )


def test_purify_writes_its_files(written):
    out, result = written
    assert listed(out) == sorted([*PURIFIED, "index.html"])
    assert result.stdout.splitlines()[-1] == f"Page: {out / 'index.html'}"
    for word in ("samples removed", "precision of removal", "the same, ours alone", "held_out"):
        assert word in result.stdout
    assert "Purify" in result.stderr and "Baseline: highest loss" in result.stderr
    summary_, trace = summary(out), columns(out / "trace.parquet")
    assert summary_["rule"] == "held_out"
    assert summary_["stop"]["precision"] > 0.6  # 0.25 at random
    assert summary_["stop"]["majority"] > summary_["start"]["majority"] - 0.05
    assert summary_["baseline"]["removed"] > 0
    # The trace holds both rankings, and the steps beyond the stop.
    assert list(dict.fromkeys(trace["ranking"])) == [summary_["order"], "loss"]
    ours = np.array(trace["ranking"]) != "loss"
    assert np.array(trace["is_kept"])[ours].sum() == summary_["counts"]["steps"] + 1
    assert ours.sum() >= summary_["counts"]["steps"] + 1 + 3
    assert np.array(trace["removed"])[ours].tolist() == list(range(0, 4 * ours.sum(), 4))


def test_purified_samples_join_back_by_id(data, written):
    out, _ = written
    table, kept = columns(out / "purified.parquet"), columns(out / "keep.parquet")
    assert list(table) == [
        "id", "removed", "step", "label", "class_name", "suggested_label", "source",
    ]  # fmt: skip
    lines = [line.split(",") for line in (data / "mixed.csv").read_text().splitlines()]
    given = {line[0]: line[3] for line in lines}
    assert [given[i] for i in table["id"]] == table["class_name"]
    assert kept["id"] == [i for i, r in zip(table["id"], table["removed"], strict=True) if not r]
    assert [table["id"][p] for p in kept["position"]] == kept["id"]
    removed = np.array(table["removed"])
    assert (np.array(table["step"])[removed] > 0).all()
    contradicted = np.array(table["suggested_label"]) != np.array(table["class_name"])
    assert contradicted[removed].mean() > 0.6 > contradicted.mean()


def test_what_purify_removes_apply_removes(data, written, here):
    out, _ = written
    removed = columns(out / "purified.parquet")
    removed = [i for i, r in zip(removed["id"], removed["removed"], strict=True) if r]
    result = succeed("apply", data / "mixed.csv", out / "removals.parquet", "--out", "clean")
    ids = [line.split(",")[0] for line in (here / "clean/mixed.csv").read_text().splitlines()]
    before = [line.split(",")[0] for line in (data / "mixed.csv").read_text().splitlines()]
    assert ids == [i for i in before if i not in removed] and len(ids) < len(before)
    assert "Next" not in result.stdout  # purify's folder is no run to compare with
    # Of changed data nothing is removed.
    (here / "other.csv").write_text((data / "mixed.csv").read_text() + "\n")
    refused = invoke("apply", "other.csv", out / "removals.parquet", "--out", "more")
    assert refused.exit_code == 2 and "must hold decisions about other.csv" in refused.stderr


def test_only_a_validation_part_of_the_users_own_decides_when_to_stop(here):
    succeed("purify", "mixed.npz", *STEP, "--no-baseline", "--out", "given")
    assert summary("given")["rule"] == "validation"
    succeed("purify", *TABLE, *STEP, "--no-baseline", "--stop", "validation", "--out", "split")
    summary_ = summary("split")
    assert "split off the same data" in summary_["warnings"][0]


def test_purify_with_noise_knows_the_truth(here):
    args = [*STEP, "--noise", 0.2, "--noise-kind", "pair", "--no-baseline", "--out", "out"]
    succeed("purify", "pure.npz", *args)
    table = columns("out/purified.parquet")
    wrong = np.array(table["true_label"]) != np.array(table["class_name"])
    summary_ = summary()
    assert summary_["counts"]["known_foreign"] == wrong.sum() == 26
    assert summary_["stop"]["precision"] == wrong[np.array(table["removed"])].mean()


def test_partition_writes_its_files(data, here):
    args = [data / TABLE[0], *TABLE[1:], *QUICK, "--out"]
    result, out = succeed("partition", *args, "out", "--verbose"), here / "out"
    assert listed(out) == ["blocks.parquet", "index.html", "model.safetensors", "summary.json"]
    assert result.stdout.splitlines()[-1] == "Page: out/index.html"
    for word in ("block 0", "together", "entropy", "held-out", "adjusted Rand", "true blocks"):
        assert word in result.stdout
    table, summary_ = columns(out / "blocks.parquet"), summary(out)
    assert list(table) == ["id", "block", "responsibility", "label", "class_name", "source"]
    sizes = np.bincount(table["block"])
    assert summary_["sizes"] == sizes.tolist() == sorted(sizes, reverse=True)
    assert summary_["agreement"] > 0.8
    block, source = np.array(table["block"]), np.array(table["source"])
    assert summary_["sources"]["block 1"]["theirs"] == ((block == 1) & (source == "theirs")).sum()
    assert summary_["variance_together"] > max(summary_["variance"])
    assert min(table["responsibility"]) >= 0.5
    succeed("partition", *args, "again")
    assert columns("again/blocks.parquet") == table


def test_a_pure_set_is_kept_and_one_block(here):
    result = succeed("purify", "pure.npz", *STEP, "--no-baseline", "--out", "out")
    assert "Leave nothing out: no sample is shown to do harm here." in result.stdout
    assert not any(columns("out/purified.parquet")["removed"])
    assert set(columns("out/trace.parquet")["ranking"]) == {"adjoint"}
    assert summary()["advice"][0]["headline"] == "Train on all 128 samples"
    args = ["--max-blocks", 2, "--restarts", 2, "--gate", "off", "--verbose", "--out", "out"]
    assert "K = 1" in succeed("partition", "pure.npz", *args).stdout
    assert summary()["blocks"] == 1 and summary()["agreement"] is None
    assert summary()["advice"][0]["headline"] == "Train one model"


def test_both_take_a_regression(here):
    draw = np.random.default_rng(0)
    x, other = draw.normal(size=(150, 1)), np.arange(150) % 4 == 0
    y = np.where(other, -2, 2) * x[:, 0] + 0.05 * draw.normal(size=150) + 30
    np.savez("slopes.npz", x=x, y=y, source=other.astype(int))
    succeed("purify", "slopes.npz", *STEP, "--no-baseline", "--out", "out")
    summary_ = summary()
    assert (summary_["metric"], summary_["counts"]["train"]) == ("R²", 120)
    assert summary_["stop"]["precision"] > 0.6  # 0.25 at random
    succeed("partition", "slopes.npz", *QUICK, "--out", "out")
    assert summary()["agreement"] > 0.7


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    "purify": r"DATA must be given once",
    "partition nowhere": r"existing path; got 'nowhere'",
    "--model nope": r"model must be one of .*; got 'nope'",
    "--noise 0.1 --noise-kind odd": r"'uniform' or 'pair'; got 'odd'",
    "purify same.npz": r"inputs must differ; all 48 samples are the same",
    "purify nan.npz": r"x must be finite; 1 of 60 .* position 7",
    "partition pure.npz --blocks 50": r"n_blocks must leave .*Take at most 6",
    "partition pure.npz --blocks -1": r"blocks must be at least 1; got -1",
    "partition pure.npz --max-blocks 0": r"--max-blocks must be at least 1; got 0",
    "partition pure.npz --restarts 0": r"restarts must be at least 1; got 0",
    "partition pure.npz --model mlp:width=4": r"only one dense layer.*Freeze",
}, "purify pure.npz")  # fmt: skip


def test_purify_says_what_was_right():
    findings = purified()
    removed = findings.purification.removed
    assert len(removed) > 10
    hits = (findings.samples.source[removed] == f"{EVIL}theirs").mean()
    page = purify_page(findings)
    first, truth = page.advice[:2]
    assert truth.severity == "fine"
    assert first.ids == tuple(findings.samples.ids[removed[:10]])
    assert f"precision {hits:.2f}" in truth.sentence
    score = findings.purification.trace.validation
    gain = score[findings.purification.steps] - score[0]
    assert f"{100 * gain:.1f}" in page.verdict.replace("−", "-")


def test_the_page_says_what_cross_fitting_found():
    mixed, other = sd_mixture((320, 80), seed=0), sd_mixture((60,), seed=1)
    found = run_purify(mixed, replace(other, split_off=True), PurifySettings(step=40))
    page, crossed = purify_page(found), found.purification.cross_fit
    assert found.purification.rule == "suspects" and found.facts["Order of removal"].endswith(
        "(auto)"
    )
    text = gain_text(interval(crossed.gain, crossed.error), "accuracy")
    assert f"without removal: by {text} here" in render(page)
    assert f"{crossed.n_suspects} suspects" in {mark.name for mark in page.figures[0].figure.data}
    kept = purified(order="auto")
    two_rules, crossed = purify_page(kept), kept.purification.cross_fit
    (shown,) = (block for block in two_rules.blocks if isinstance(block, Gallery))
    named = {card.id for card in shown.cards}
    assert named == set(map(str, kept.samples.ids[crossed.is_suspect.numpy()].tolist()))
    few = purify_page(run_purify(other, replace(other, split_off=True), PurifySettings()))
    for one, why in ((two_rules, "is not shown to help"), (few, "fewer than 2 % of the labels")):
        assert one.advice[0].headline.startswith("Train on all") and why in one.verdict


def test_before_and_after_are_the_traces_own_points():
    findings = purified()
    start, stop, baseline = before_and_after(findings)
    assert start["removed"] == 0
    assert np.isnan(start["precision"])
    assert stop["variance"] == findings.purification.trace.variance[findings.purification.steps]
    assert baseline["removed"] == len(findings.baseline.removed)
    truth = foreign(findings)
    assert majority_source(findings.samples) == "<u>ours"
    assert majority_source(samples(minority=0.5)) == ""
    assert majority_source(replace(findings.samples, source=None)) == ""
    mask = findings.samples.source != "<u>ours"
    assert (truth.mask == mask).all()
    assert stop["recall"] == mask[findings.purification.removed].sum() / mask.sum()


def test_removed_samples_are_shown_in_their_order():
    findings = purified()
    shown = removed_gallery(findings).cards
    assert [card.id for card in shown] == list(findings.samples.ids[findings.purification.removed])
    steps = purified_table(findings).to_pydict()["step"]
    for rank, (card, i) in enumerate(zip(shown, findings.purification.removed, strict=True), 1):
        assert card.figures[0][0] == f"no. {rank}, step {steps[i]}"
        assert card.label == NAMES[findings.samples.y[i]]
        assert (card.suggested == "") == (findings.chance[i] > 0.5)
        assert (card.verdict == "") == (findings.samples.source[i] != "<u>ours")


def test_each_row_of_the_classes_and_of_the_blocks_is_its_own():
    findings, parts = purified(), divided()
    y, removed = findings.samples.y, findings.purification.removed
    rows = {row.name: row.cells for row in _tabulate_classes(findings)[0].rows}
    assert list(rows) == list(NAMES)
    for c, name in enumerate(NAMES):
        n, lost = (y == c).sum(), (y[removed] == c).sum()
        assert rows[name] == (f"{n:,}", f"{lost:,}", f"{n - lost:,}", share(lost / n))
    block, source, own = parts.partition.block, parts.samples.source, parts.own_responsibility
    *rows, together = _tabulate_blocks(parts).rows
    for k, row in enumerate(rows):
        inside = block == k
        names, counts = np.unique(source[inside], return_counts=True)
        largest = f"{names[counts.argmax()]} ({100 * counts.max() / inside.sum():.0f} %)"
        variance, mean = parts.partition.variance[k], own[inside].mean()
        figures = (number(float(variance)), number(float(mean)), largest)
        assert (row.name, *row.cells) == (
            f"block {k}", f"{inside.sum():,}", share(inside.mean()), *figures,
        )  # fmt: skip
    assert together.cells[2] == number(parts.partition.variance_together)


def test_without_a_baseline_or_a_truth_nothing_is_made_up():
    findings = replace(purified(baseline=False), majority="")
    page = render(purify_page(findings))
    whole = {f.name: f.figure for f in purify_page(purified()).figures}
    assert set(whole) == {"gain", "variance", "score", "surprise"}
    stop = int(purified().purification.trace.removed[purified().purification.steps])
    texts = {note.text for note in whole["surprise"].layout.annotations}
    assert texts == {"threshold 1.39", "blind guess 0.69", f"stop: {stop}"}
    assert {"by influence", "by loss, same rule"} <= {line.name for line in whole["variance"].data}
    assert {f.name for f in purify_page(findings).figures} == set(whole)
    assert "by loss" not in page
    assert "The truth is known" not in page
    assert "removed in error" not in page
    assert set(trace_table(findings).to_pydict()["ranking"]) == {findings.purification.order}
    files = purify_files(findings, purify_page(findings))
    assert json.loads(files["summary.json"])["counts"]["known_foreign"] is None


def test_partition_says_how_many_and_whether_inputs_tell():
    findings = divided()
    blocks, truth = partition_page(findings).advice
    assert blocks.severity == "look" and blocks.headline.startswith("Look for wrong labels")
    assert f"index between blocks and sources is {findings.agreement:.2f}" in truth.sentence
    routed = replace(findings, router=findings.router | {"is_informative": True, "gain": 0.4})
    page = partition_page(routed)
    assert page.advice[0].severity == "act"
    assert page.commands == ("datassay predict NEW blocks",)
    router = routed.router
    low, high = (f"{100 * router[name]:.1f}" for name in ("ahead_low", "ahead_high"))
    interval = f" points more (95 % interval {low} to {high}) than one linear model for all."
    assert page.verdict.endswith(interval.replace("-", "−"))
    # The input whose means differ most between the blocks is named and drawn.
    x, block = findings.samples.x, findings.partition.block
    means = np.stack([x[block == k].mean(axis=0) for k in range(2)])
    j = int((abs(means[0] - means[1]) / x.std(axis=0)).argmax())
    name = findings.samples.feature_names[j]
    assert f"rules, which {name} tells apart best: a linear model for each reaches " in page.verdict
    (drawn,) = (figure.figure for figure in page.figures if figure.name == "map")
    assert [bar.y.sum() for bar in drawn.data] == findings.partition.sizes.tolist()
    names = [f"block {k}, mean {name} {number(means[k, j])}".replace("-", "−") for k in range(2)]
    assert [bar.name for bar in drawn.data] == [plotly_text(name, 40) for name in names]
    assert "map" not in {figure.name for figure in partition_page(findings).figures}


def test_an_input_of_yes_and_no_tells_blocks_apart_in_shares():
    findings = divided()
    telling = (findings.partition.block == 1).astype(np.float32)
    x = np.stack([telling, np.random.default_rng(0).normal(size=len(telling))], axis=1)
    names = ("soil=clay", "water")
    samples = replace(findings.samples, x=x.astype(np.float32), feature_names=names)
    router = findings.router | {"is_informative": True, "gain": 0.4}
    page = partition_page(replace(findings, samples=samples, router=router))
    (drawn,) = (figure.figure for figure in page.figures if figure.name == "map")
    assert [bar.name for bar in drawn.data] == [
        "block 0, others", "block 1, soil=clay"
    ]  # fmt: skip
    assert page.advice[0].headline == "Train one model per block"
    assert page.advice[0].sentence.startswith("soil=clay tells them apart best. blocks.parquet")
    sand = np.stack([*x.T, 1 - telling], axis=1).astype(np.float32)
    samples = replace(samples, x=sand, feature_names=(*names, "soil=sand"))
    findings = replace(findings, samples=samples, router=router)
    assert findings.block_names == ["block 0, soil=sand", "block 1, soil=clay"]
    assert drawn.layout.xaxis.ticktext == ("no", "yes") and len(drawn.data[0].y) == 2


@pytest.mark.parametrize(
    ("check", "kind", "headline"),
    [
        (ShuffledLabels(0.6, 0.95, 12.0), "noise", "These labels look like noise"),
        (ShuffledLabels(0.05, 0.7, 480.0), "few", "Few samples break the rule"),
        (ShuffledLabels(0.05, 0.95, 20.0), "blocks", "Look for wrong labels"),
    ],
)
def test_partition_compares_with_shuffled_labels_first(check, kind, headline):
    page = partition_page(replace(divided(), check=check))
    assert page.advice[0].kind == kind and page.advice[0].headline.startswith(headline)
    assert f"here V is {number(check.variance_share)} times" in render(page)


def test_the_surest_samples_of_each_block_are_shown():
    findings = divided()
    shown = surest_gallery(findings).cards
    position = {str(i): k for k, i in enumerate(findings.samples.ids)}
    for block in range(2):
        own = [card for card in shown if card.views == (str(block),)]
        assert len(own) == 12
        values = [card.keys["responsibility"] for card in own]
        assert values == sorted(values, reverse=True)
        others = set(np.flatnonzero(findings.partition.block == block)) - {
            position[c.id] for c in own
        }
        assert max(findings.own_responsibility[list(others)]) <= values[-1]
