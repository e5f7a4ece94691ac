"""`datassay check`: conditions, outcomes, exit statuses; and the schema of summary.json."""

import json
import shlex
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from datassay.commands.run.gate.conditions import (
    FAILED,
    INCONCLUSIVE,
    MEANINGS,
    PASSED,
    Outcome,
    judge,
    read_condition,
)
from datassay.commands.run.gate.formats import github_lines, junit_xml
from datassay.commands.run.gate.quantities import Quantity, quantities
from datassay.data.samples import SampleSet
from datassay.report.page import SCHEMA as VERSION
from datassay.score.checks.data_issues import data_issues
from helpers.command_line import SCHEMA, invoke, refusals, succeed, summary
from helpers.findings import make_findings, text_samples
from helpers.gates import (
    ARRAYS,
    TABLE,
    drawn_faults,
    expected,
    write_arrays,
    write_table,
)


def outcome(words, baseline=None, digest="now", ids=None, **quantity):
    """Of one condition on a quantity of 100 samples."""
    condition = read_condition(words)
    quantity = asdict(Quantity("samples", 100, **quantity))
    content = {
        "checks": {condition.name: quantity},
        "origin": {"digest": digest, "inputs": {"ids": ids}},
    }
    return judge([condition], content, baseline)[0]


@pytest.mark.parametrize(
    ("low", "high", "words", "status"),
    [
        (0, 0, "wrong", PASSED),
        (1, 1, "wrong", FAILED),
        (0, 1, "wrong", INCONCLUSIVE),
        (2, 2, "wrong > 2 %", PASSED),
        (3, 9, "wrong>2%", FAILED),
        (2, 3, "Wrong > 2 %", INCONCLUSIVE),
        (29, 29, "wrong > 29 %", PASSED),  # 0.29 · 100 is below 29
        (29, 29, "wrong >= 29 %", FAILED),
        (28, 29, "wrong >= 29 %", INCONCLUSIVE),
        (3, 9, "wrong > 9", PASSED),
        (0, None, "wrong > 99", INCONCLUSIVE),
        (3, None, "wrong > 2.5", FAILED),
    ],
)
def test_a_range_is_judged_by_both_of_its_ends(low, high, words, status):
    assert outcome(words, low=low, high=high).status == status


def test_what_was_not_looked_for_never_passes():
    told = outcome("outliers > 50", is_searched=False, why="all samples lie alike")
    assert told.status == INCONCLUSIVE
    assert told.sentence == "not looked for: all samples lie alike."


def test_words_are_read_exactly():
    condition = read_condition(" duplicates-across-split >= .5 % ")
    assert condition.limit == Fraction(1, 200) and condition.is_share and condition.fails_at_limit


def earlier(name, digest="then", ids=None, **quantity):
    return {
        "checks": {name: asdict(Quantity("samples", 100, **quantity))},
        "origin": {"digest": digest, "inputs": {"ids": ids}},
    }


def test_only_what_is_new_since_the_baseline_fails():
    now = {"low": 2, "high": 2, "names": ("a", "b")}
    assert outcome("outliers", earlier("outliers", **now), **now).status == PASSED
    before = earlier("outliers", low=2, high=2, names=("a", "c"))
    told = outcome("outliers", before, **now)
    assert told.status == FAILED and told.sentence.endswith("new since the baseline (b).")
    # Numbers of rows name no rows: only how many there are is compared.
    before = earlier("outliers", low=2, high=2, names=(4, 5))
    assert outcome("outliers", before, low=2, high=2, names=(5, 6)).status == PASSED
    assert outcome("outliers", before, low=3, high=3, names=(4, 5, 6)).status == FAILED
    named = earlier("outliers", ids="key", low=2, high=2, names=(4, 5))
    assert outcome("outliers", named, ids="key", low=2, high=2, names=(5, 6)).status == FAILED


def test_ranges_are_compared_with_the_baseline_by_their_ends():
    before = earlier("wrong", low=8, high=10)
    assert outcome("wrong > 2 %", before, low=13, high=15).status == FAILED
    assert outcome("wrong > 2 %", before, low=8, high=10).status == PASSED
    assert outcome("wrong > 2 %", before, low=8, high=11).status == INCONCLUSIVE
    assert outcome("wrong", before, digest="then", low=8, high=10).status == PASSED
    unknown = earlier("wrong", is_searched=False, why="too few")
    assert outcome("wrong > 2 %", unknown, low=13, high=15).status == FAILED


def test_build_systems_read_the_outcomes():
    outcomes = (
        Outcome("leak", PASSED, "none of 6 columns."),
        Outcome("wrong > 2 %", FAILED, "3 to 9 of 100 labels, <b>\x1b."),
        Outcome("drift", INCONCLUSIVE, "not looked for: a, b."),
    )
    suite = ElementTree.fromstring(junit_xml(outcomes, "data & more"))
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"], ["failure"], ["error"],
    ]  # fmt: skip
    assert suite[0].get("classname") == "data & more"
    assert github_lines(outcomes, "a,b:c.csv")[1:] == [
        "::error title=datassay%3A wrong > 2 %25,file=a%2Cb%3Ac.csv::failed: 3 to 9 of 100 labels, "
        "<b>\x1b.",
        "::warning title=datassay%3A drift,file=a%2Cb%3Ac.csv::inconclusive: not looked for: a, b.",
    ]


test_a_mistake_of_use_is_told_before_any_work = refusals({
    "check iris": "--fail-on must be given at least once.*The faults: wrong, leak",
    "check iris --fail-on wrng": "--fail-on must be a fault.*got 'wrng'. The faults: wrong",
    "check iris --fail-on 'wrong < 2 %'": "--fail-on must be a fault",
    "check iris --fail-on 'wrong > 200 %'": "--fail-on must have a share of at most 100 %",
    "check iris --fail-on leak --baseline none.json": "--baseline .*none.json cannot be read: No",
    "check iris --fail-on leak --json --github": "--github must not come with --json",
})  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_table(folder / "good.csv", 1, dict.fromkeys(TABLE, False))
    write_table(folder / "bad.csv", 1, {**dict.fromkeys(TABLE, False), "duplicates": True})
    return folder


def test_a_build_fails_and_says_why(here):
    conditions = ["--fail-on", "duplicates > 1 %", "--fail-on", "leak"]
    bad = invoke("check", "bad.csv", *conditions, "--github", "--out", "out")
    assert bad.exit_code == 3, bad.output
    assert (
        "\nFailed: no more than 1 % duplicates: 20 of 520 samples, 3.8 % (500, 501," in bad.stdout
    )
    assert "\nPassed: no leaks: none of 6 columns." in bad.stdout
    assert bad.stdout.rstrip().endswith("1 failed, 1 passed; exit status 3.")
    assert "\n::error title=datassay%3A duplicates > 1 %25,file=bad.csv::failed: 20" in bad.stdout
    written = summary()
    assert written["verdict"] == (
        "Failed: duplicates > 1 % (20 of 520 samples, 3.8 %). Passed: leak."
    )
    (remedy,) = [card for card in written["advice"] if card["kind"] == "duplicates"]
    assert remedy["command"].endswith("--drop-copies --out clean")
    assert [o["status"] for o in written["outcomes"]] == [FAILED, PASSED]
    assert len(ElementTree.parse("out/junit.xml").getroot().findall("testcase")) == 2
    assert "duplicates &gt; 1 %" in Path("out/index.html").read_text("utf-8")
    # The same data with this baseline pass, and all that is printed is what the file holds.
    again = ("check", "bad.csv", *conditions, "--baseline", "out/summary.json", "--out", "again")
    told = invoke(*again, "--json")
    assert told.exit_code == 0, told.output
    assert told.stdout == Path("again/summary.json").read_text("utf-8")
    assert [o["status"] for o in json.loads(told.stdout)["outcomes"]] == [PASSED, PASSED]


def test_next_is_the_gate_again_on_what_is_mended(here, monkeypatch):
    write_table("both.csv", 3, {"leak": True, "duplicates": True, "wrong": False})
    conditions = ["--fail-on", "leak", "--fail-on", "duplicates > 1 %"]
    typed = ["check", "both.csv", *conditions, "--drop", "x5", "--out", "out"]
    monkeypatch.setattr("sys.argv", ["datassay", *typed])
    bad = invoke(*typed)
    assert bad.exit_code == 3, bad.output
    written = summary()
    mend, again = map(shlex.split, written["commands"])
    assert mend == "datassay apply both.csv out --drop-copies --out clean".split()
    drop = ["--drop", "x5,code", "--out", "out-again"]
    assert again == ["datassay", "check", "clean/both.csv", *conditions, *drop]
    assert [card["command"] for card in written["advice"][:2]] == written["commands"]
    succeed(*mend[1:])
    assert invoke(*again[1:]).exit_code == 0


def test_what_cannot_be_told_has_a_status_of_its_own(here):
    told = invoke("check", "good.csv", "--fail-on", "drift", "--fail-on", "leak", "--out", "out")
    assert told.exit_code == 4, told.output
    assert "Inconclusive: no drift: not looked for: no two parts of 30 rows" in told.stdout
    assert " datassay run good.csv --target y --out report" in told.stdout


@pytest.mark.parametrize("name", MEANINGS)
def test_each_fault_is_a_quantity_of_every_run(name):
    findings = make_findings(text_samples())  # whose data were not checked
    checks = quantities(findings)
    assert list(checks) == list(MEANINGS)
    assert checks[name]["is_searched"] == (name == "wrong")
    assert checks[name]["why"] or checks[name]["is_searched"]


def test_what_limits_a_search_is_told():
    x = np.random.default_rng(0).normal(size=(40, 3))
    samples = SampleSet(x, (x[:, 0] > 0).astype(int), np.arange(40), ("a", "b"))
    checks = quantities(make_findings(samples, validation=None, data_issues=data_issues(samples)))
    told = {name: check["why"] for name, check in checks.items() if not check["is_searched"]}
    assert told.keys() == {"leak", "empty-rows", "duplicates-across-split", "drift"}
    assert told["leak"] == "only columns of a table can tell the target"


@pytest.mark.slow
@pytest.mark.parametrize("index", range(10))
@pytest.mark.parametrize(
    ("kinds", "write", "name"), [(TABLE, write_table, "t.csv"), (ARRAYS, write_arrays, "a.npz")]
)
def test_sixty_cells_of_faults_and_conditions(here, index, kinds, write, name):
    faults = drawn_faults(64, index, kinds)
    write(here / name, 64 + index, faults)
    options = [word for words in kinds.values() for word in ("--fail-on", words)]
    invoke("check", name, *options, "--out", "out")
    told = {o["condition"]: o["status"] for o in summary()["outcomes"]}
    assert told == {words: expected(fault, faults) for fault, words in kinds.items()}


# The schema. -------------------------------------------------------------------------------


def test_the_schema_only_adds_to_what_was_released():
    released = json.loads(Path(__file__).with_name("summary-1.0.schema.json").read_text("utf-8"))
    assert not lost(released, SCHEMA)
    assert VERSION in SCHEMA["$comment"]
    changed = json.loads(json.dumps(released).replace('"verdict"', '"answer"'))
    assert lost(released, changed)


def lost(old, new, path="$"):
    """What a schema said and another does not, but for words and further properties."""
    if isinstance(old, dict):
        told = {k: v for k, v in old.items() if k not in {"description", "$comment", "title"}}
        return [p for k, v in told.items() for p in (
            lost(v, new[k], f"{path}.{k}") if isinstance(new, dict) and k in new
            else [f"{path}.{k}"])]  # fmt: skip
    if isinstance(old, list) and path.endswith((".required", ".enum")):
        return [f"{path} {item}" for item in old if item not in new]
    return [] if old == new else [path]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["score diabetes", "score iris --subsets 8", "run iris --budget 0"]
)
def test_runs_of_all_kinds_write_what_the_schema_says(here, line):
    succeed(*line.split(), "--out", "out")
    assert (
        summary()["schema"] == VERSION
    )  # checked against the schema, as wherever a test reads one
