"""What a run says first, on numbers that can be checked by hand; no two sentences differ."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click import Context

from datassay.act.actions.relabel import TOO_FEW
from datassay.act.choose.compare import ENDED, RIVAL
from datassay.act.choose.gains import ActionGain, ActionTable
from datassay.act.review.gain import BeforeAfter, GainRow, ReviewGain
from datassay.commands import app
from datassay.commands.run.files import files
from datassay.commands.run.findings import PENDING
from datassay.commands.run.labels import Labels
from datassay.commands.run.page import page
from datassay.commands.run.steps.acts import NEARLY, _add_review, _scale_to_all
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.suspects import suspects_table
from datassay.commands.run.tables import before_table
from datassay.commands.run.typed import Typed
from datassay.commands.run.verdict import BUDGET_OVER, clause, verdict
from datassay.data.back.origin import Origin
from datassay.data.samples import Column, SampleSet
from datassay.report import html
from datassay.report.compose import TEXT
from datassay.report.result_plots import acts_figure
from datassay.report.wording import count, gain_numbers, number, percent, score_change
from datassay.score.checks.issue import DataIssue
from datassay.stats import FREE, SHOWN, advice, costs
from helpers.command_line import make_commands
from helpers.consistent import contradictions
from helpers.findings import issues_of, make_findings, regression_samples, row_samples

WORDS = {
    "copies": "Remove near-duplicates", "mine": "Mend by hand",
    "relabel": "Relabel suspected labels", "remove": "Remove suspects", "drop": "Drop half",
    "balance": "Balance the classes by weights", "more": "Double the data",
    "review": "Review the labels worth a look",
    "relabel+balance": "Relabel suspected labels, then balance the classes by weights",
}  # fmt: skip
EXPECTED = ("more", "review")
COST = {"drop": 250, "remove": 50, "more": -500}


def advised(kind, gain, low, high):
    if kind == "more":
        return ""
    free = kind == "drop" and gain <= 0 and not costs(gain, high)
    return FREE if free else advice(gain, low, high)


def acts(*gains, metric="accuracy"):
    """Actions from (kind, gain, low, high, verdict); gains of EXPECTED kinds are expected."""
    rows = tuple(
        ActionGain(kind, WORDS[kind], "expected" if kind in EXPECTED else "retrained", gain, low,
                   high, 0.5, "" if kind in EXPECTED else told, changed=50,
                   cost=COST.get(kind, 0), advice=advised(kind, gain, low, high))
        for kind, gain, low, high, told in gains
    )  # fmt: skip
    return ActionTable(
        rows, ("Purifying: no.", TOO_FEW), metric, 0.9, 0.9, 1435, 9, 5, 5, True, 1.0
    )


def test_what_changes_none_of_all_samples_is_never_advised():
    """Parts of the samples may have suspects where all together have none."""
    row = acts(("remove", 0.04, 0.01, 0.07, "better")).actions[0]
    assert row.advice == "do it"
    assert _scale_to_all(row, 1.25, {"remove": 60}).advice == "do it"
    assert _scale_to_all(row, 1.25, {"remove": 0}).advice == "leave it"


def test_a_review_stands_behind_what_was_measured_and_looks_at_more():
    rows = [*acts(BALANCE, UNSURE).actions]
    review, poor = acts(REVIEW, ("review", 0.004, -0.001, 0.02, "")).actions
    n = int(review.changed / NEARLY)
    assert _add_review(rows, review, n - 1)[-1] == _add_review(rows[:1], review, n)[-1] == review
    assert all(_add_review(rows, *a) == rows for a in ((poor, 0), (None, 0), (review, n + 1)))


RELABEL = ("relabel", 0.016, 0.007, 0.024, "better")
DROP = ("drop", -0.001, -0.006, 0.004, "no difference")
MORE = ("more", 0.0133, 0.0018, 0.0219, "")
REVIEW = ("review", 0.02, -0.005, 0.075, "")
UNSURE = ("relabel", 0.004, -0.002, 0.010, "no difference")
BALANCE = ("balance", 0.021, 0.004, 0.038, "better")
BOTH = ("relabel+balance", 0.03, -0.002, 0.05, "no difference")
HARMLESS = ("balance", -0.01, -0.03, 0.01, "no difference")
PERHAPS = ("relabel", 0.012, 0.004, 0.028, "perhaps better")


def two_classes(n=400, n_flagged=0, level=-9.0):
    """A class of nine tenths, and labels of which some stand out."""
    y = (np.arange(n) % 10 == 0).astype(np.int64)
    samples = SampleSet(np.zeros((n, 1)), y, np.arange(n), ("fine", "fraud"), name="payments")
    score = np.where(np.arange(n) % 7 < 0, 0.0, level) + np.zeros(n)
    score[1 : 1 + n_flagged] = 3.0
    return make_findings(samples, issues=issues_of(samples, score, 1 - y))


def regression():
    samples = regression_samples()
    probability = np.where(np.arange(442) == 7, 0.9, 0.0)
    issues = issues_of(samples, np.full(442, -1.0), samples.y + 9, probability=probability)
    return make_findings(samples, issues=replace(issues, is_issue=probability > 0.5))


def reviewed():
    rows = (GainRow("labels that both agree on", 300, 0.949, 0.973, 0.006, 0.042, "better"),)
    return BeforeAfter((("a", "b", 9),), 105, 3, (503, 500), (59, 5), 2, (0.11, 0.01),
                       ReviewGain(rows, "accuracy", 5, 1))  # fmt: skip


def clean():
    samples = row_samples()
    return make_findings(samples, issues=issues_of(samples, np.full(178, -9.0)))


ORIGIN = Origin({"data": "digits", "target": "y", "seed": 0, "noise": 0.0}, "", 0.0)
PAGES = {
    "noisy digits": lambda: make_findings(acts=acts(RELABEL, DROP, MORE)),
    "noisy digits, unsure": lambda: make_findings(acts=acts(DROP, UNSURE)),
    "clean table": lambda: replace(clean(), acts=acts(HARMLESS)),
    "imbalanced table": lambda: replace(
        two_classes(n_flagged=4), acts=acts(BALANCE, UNSURE, metric="balanced accuracy")
    ),
    "regression": lambda: replace(regression(), acts=acts(PERHAPS, metric="R²")),
    "useless as given": lambda: replace(regression(), acts=replace(
        acts(("relabel", 207.4, -13.2, 435.2, "no difference"), metric="R²"), score=-206.7)),
    "none stands out": lambda: replace(two_classes(level=-3.0), acts=acts(DROP)),
    "a review": lambda: replace(two_classes(level=-2.0), acts=acts(REVIEW, UNSURE)),
    "two actions": lambda: replace(
        two_classes(n_flagged=4), acts=acts(BOTH, RELABEL, BALANCE, metric="balanced accuracy")
    ),
    "only scores": make_findings,
    "pending": lambda: make_findings(pending=PENDING),
    "after a review": lambda: make_findings(before=reviewed()),
}  # fmt: skip


def leaking():
    samples = replace(row_samples(), columns=(Column("paid", "number", tells_target=True),
                                              Column("year", "number")))  # fmt: skip
    return make_findings(samples, issues=issues_of(samples, np.full(178, -9.0)))


def with_issues(findings, *issues):
    """The same, with what else is wrong with the data."""
    return replace(findings, data_issues=SimpleNamespace(issues=issues, ids=findings.samples.ids))


def suspects_of_a_rare_class(n, size=20):
    """A class of a tenth or less, of which so many labels stand out."""
    y = (np.arange(200) < size).astype(np.int64)
    samples = SampleSet(np.zeros((200, 1)), y, np.arange(200), ("no", "yes"))
    issues = issues_of(samples, np.where(np.arange(200) < n, 3.0, -3.0))
    return make_findings(samples, issues=issues)


LEAK = DataIssue("leaking columns", "act", 1, "columns", "Column paid tells the label.")
COPIED = DataIssue("near duplicates", "act", 9, "pairs", "Nine pairs are nearly the same.")
HARMLESS_ISSUE = replace(COPIED, kind="constant columns", severity="look")
HELPS, MAY_HELP = (0.021, 0.004, 0.038, "better"), (0.02, -0.004, 0.04, "no difference")
HURTS, VAGUE = (-0.02, -0.03, -0.01, "worse"), (0.024, -0.394, 0.208, "no difference")
# Intervals of a correction's gain, near each bound of what is said of it.
GAINS = (
    (0.016, 0.007, 0.024, "better"), (0.004, -0.002, 0.010, "no difference"),
    (0.004, 0.001, 0.01, "perhaps better"), (0.02, -0.004, 0.04, "no difference"),
    (0.02, 0.0001, 0.04, "perhaps better"),  # printed, it includes 0
    (0.1, -0.02, 0.3, "no difference"), (0.024, -0.414, 0.172, "no difference"),
    (0.025, -0.045, 0.04, "better"), (-0.012, -0.02, -0.004, "worse"),
    (-0.02, -0.04, -SHOWN, "worse"), (-0.003, -0.01, 0.004, "no difference"),
)  # fmt: skip
REVIEWS = (
    (0, REVIEW, UNSURE), (4, REVIEW, UNSURE), (4, BALANCE, REVIEW),
    (4, REVIEW, ("relabel", *MAY_HELP)),
)  # fmt: skip
UNREAD = ReviewGain((GainRow("all", 9, 0.9, 0.88, *HURTS[1:3], "worse"),), "accuracy", 1, 1)
STATES = PAGES | {
    "a class of four": lambda: suspects_of_a_rare_class(4, size=4),
    "copies help": lambda: with_issues(
        replace(two_classes(), acts=acts(("copies", *HELPS), DROP)), COPIED, HARMLESS_ISSUE, LEAK),
    "copies may help": lambda: with_issues(
        replace(clean(), acts=acts(("copies", *MAY_HELP), ("balance", *HELPS))), COPIED),
    "copies hurt": lambda: with_issues(
        replace(clean(), acts=acts(("copies", *HURTS), ("mine", *MAY_HELP), MORE)), COPIED),
    "no copies tried": lambda: with_issues(replace(two_classes(), acts=acts(DROP, MORE)), COPIED),
    "leaks": lambda: with_issues(replace(leaking(), acts=acts(("mine", *HELPS))), COPIED, LEAK),
    "one label": lambda: replace(two_classes(n_flagged=1), acts=acts(RELABEL, MORE)),
    "removing helps": lambda: replace(
        two_classes(n_flagged=9), acts=acts(("remove", *HELPS), RELABEL, ("drop", *HELPS))),
    "correcting may cost": lambda: replace(
        two_classes(n_flagged=9), acts=acts(("remove", *MAY_HELP), ("relabel", *HURTS))),
    "vague": lambda: replace(two_classes(n_flagged=60), acts=acts(("relabel", *VAGUE))),
    "likeliest": lambda: replace(two_classes(level=-2.0), acts=acts(DROP)),
    "by trees": lambda: replace(
        two_classes(n_flagged=4), acts=replace(acts(RELABEL, BOTH), model="boosted trees")),
    "by chance": lambda: replace(
        two_classes(n_flagged=4),
        acts=acts(("relabel+balance", 0.03, 0.002, 0.05, "perhaps better"), RELABEL)),
    "all cards": lambda: make_findings(acts=acts(RELABEL, DROP, BALANCE, MORE)),
    "a costly drop": lambda: make_findings(acts=acts(("drop", *HURTS))),
    "a drop that helps": lambda: replace(
        two_classes(), acts=acts(HARMLESS, ("drop", *HELPS))),
    **{f"{n} of more": lambda n=n: replace(
        two_classes(n_flagged=n, level=-2.0), acts=acts(RELABEL)) for n in (1, 2, 50, 51)},
    **{f"gain {i}": lambda gain=gain: make_findings(acts=acts(DROP, ("relabel", *gain)))
       for i, gain in enumerate(GAINS)},
    **{f"reviews {i}": lambda n=n, rows=rows: replace(
        two_classes(n_flagged=n, level=-2.0), acts=acts(*rows))
       for i, (n, *rows) in enumerate(REVIEWS)},
    **{f"more from {low}": lambda low=low: replace(
        clean(), acts=acts(HARMLESS, ("more", 0.003, low, 0.029, "")))
       for low in (0.0018, 0.0001, 0.0)},
    "next is a drop": lambda: replace(clean(), acts=acts(HARMLESS, ("drop", *HELPS))),
    "next is nothing": lambda: replace(clean(), acts=acts(HARMLESS, DROP)),
    "doubted": lambda: suspects_of_a_rare_class(7), "trusted": lambda: suspects_of_a_rare_class(6),
    "few": lambda: two_classes(n=60, n_flagged=2), "fewer": lambda: two_classes(n=4),
    "pending, clean": lambda: replace(clean(), pending=PENDING),
    "reviewed in vain": lambda: replace(clean(), before=replace(
        reviewed(), n_relabelled=0, n_removed=0, gain=None, why_none="too few were held out")),
    "reviewed at a cost": lambda: replace(two_classes(n_flagged=4), before=replace(
        reviewed(), n_removed=0, confirmed=0, gain=UNREAD), acts=acts(RELABEL)),
    "nothing predicted": lambda: replace(
        (found := two_classes()), issues=replace(found.issues, is_predicted=False)),
    "an input": lambda: replace(
        (found := regression()), issues=replace(found.issues, cells={7: "x2 0"})),
}  # fmt: skip
TOLD = Path(__file__).with_name("told.json")


def told_of(findings):
    """All that a verdict says, as plain values."""
    said = verdict(findings, "out")
    cards = [[card.kind, card.severity, card.headline, card.sentence, card.command, len(card.ids)]
             for card in said.cards]  # fmt: skip
    return {"sentence": said.sentence, "cards": cards, "commands": [*said.commands],
            "note": said.note, "droppable": said.n_droppable,
            "labels": str(said.labels)}  # fmt: skip


def all_told():
    """What verdicts say, and how wrong labels are told by their numbers, near each bound."""
    said = {name: told_of(replace(make(), origin=ORIGIN)) for name, make in STATES.items()}
    rows = [(5, 1, 1, 1, 0, 1), (6, 1, 1, 1, 1, 1), (100, 1, 4, 1, 1, 3), (100, 4, 7, 5, 2, 21),
            (100, 4, 4, 6, 4, 4), (100, 0, 0, 0, 0, 2), (100, 0, 3, 1, 0, 2), (100, 0, 0, 0, 0, 3),
            (1000, 0, 1, 0, 0, 20), (4, 0, 0, 0, 2, 2), (900, 9, 9, 9, 7, 99),
            (900, 0, 10, 0, 0, 80), (442, 0, 0, 0, 0, 60)]  # fmt: skip
    labels = [Labels(*row, noun) for row in rows for noun in ("label", "target")]
    labels += [Labels(900, 0, 0, 0, 0, 450, is_predicted=False)]
    labels += [replace(labels[4], leaks=("a",)), replace(labels[4], leaks=("a", "b"))]
    said["labels"] = [[x.sentence, x.tried, x.expected, x.named] for x in labels]
    return said


def test_all_that_a_verdict_says_was_read_by_a_person():
    """After a change of words: PYTHONPATH=tests python THIS_FILE, and read the difference."""
    said = all_told()
    assert said == json.loads(TOLD.read_text(encoding="utf-8"))


def rendered(findings):
    built = page(findings)
    return html.render(built), json.loads(str(files(findings, built)["summary.json"]))


@pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)
def test_no_sentence_of_a_page_contradicts_its_summary(make):
    text, summary = rendered(replace(make(), origin=ORIGIN))
    assert contradictions(text, summary) == []


PLANTED = (
    "No label stands out as wrong.",
    "No suspected label errors",
    "8 suspected labels",
    "Review 8 labels",
    "About 719 redundant samples",
    "719 of 500 samples can be left out",
    "Correcting them gains 0.9 points of accuracy (0.7 to 2.4).",
    "Leaving out 250 samples gains 0.5 points of accuracy (−0.6 to 0.4).",
    "Removing 50 % of the samples and retraining gains 0.5 points.",
    "7 to 9 of 500 are wrong",
    "of 4 actions tried none is shown to help",
    "Not tried: Correcting or removing labels",
)


def test_a_contradiction_is_noticed():
    text, summary = rendered(PAGES["noisy digits"]())
    pages = (text.replace("<main", f"<p>{planted}</p><main") for planted in PLANTED)
    assert [
        p for p, page in zip(PLANTED, pages, strict=True) if not contradictions(page, summary)
    ] == []


def test_an_input_that_looks_wrong_is_told_on_the_card_and_in_the_table():
    findings = regression()
    issues = replace(findings.issues, cells={7: "x2 0, of most 3 to 5"})
    told = verdict(replace(findings, issues=issues))
    assert "Of 1 of them an input looks wrong" in told.cards[0].sentence
    assert "such as of 7: x2 0, of most 3 to 5." in told.cards[0].sentence
    table = suspects_table(replace(findings, issues=issues))
    row = table.slice(table["id"].to_pylist().index(7), 1).to_pylist()[0]
    assert row["input_looks_wrong"] == "x2 0, of most 3 to 5" and row["suggested"] == ""
    assert "input_looks_wrong" not in suspects_table(findings).column_names


def test_the_template_has_the_shared_numbers_from_the_verdict_alone():
    text = (TEXT / "run.md.j2").read_text()
    assert re.findall(r"is_issue|expected_precision|probability|act\.gain|signed\(", text) == []


def test_actions_that_have_no_words_of_their_own_are_named_once():
    dropped = replace(acts(BOTH).actions[0], kind="drop+balance", words="Drop half, then balance")
    assert clause(dropped, acts(BOTH), "them").startswith("“Drop half, then balance” may help: ")


def test_a_run_whose_budget_was_over_says_so_and_types_no_run_that_would_repeat_it():
    findings = make_findings(regression_samples(), facts={BUDGET: "left out", "Command": "run x"})
    told = verdict(findings)
    assert told.note == BUDGET_OVER and not any(c.startswith("datassay run") for c in told.commands)


def test_what_is_tried_where_no_label_is_probably_wrong_is_counted():
    (row,) = acts(UNSURE).actions
    assert clause(row, acts(UNSURE), "them").startswith(
        "correcting them is not shown to help a model: "
    )
    tried = [Labels(400, n, 58, 24, 0, 118).tried for n in (0, 2, 20, 24)]
    assert tried == ["the 24 most suspect", *["the most suspect"] * 2, "them"]
    assert clause(row, acts(UNSURE), tried[1]).startswith("correcting the most suspect is not")


def test_a_budget_that_ended_before_actions_were_compared_is_named():
    notes = [verdict(make_findings(facts=facts)).note for facts in ({}, {BUDGET: "25 s"})]
    assert notes == [
        "What actions gain was not measured here; datassay run measures it.",
        "What actions gain was not measured: the budget was over before. A larger one measures it.",
    ]


def test_why_an_action_ended_early_is_told():
    table = acts(RELABEL, DROP)
    rival = replace(table.actions[1], note=f"{ENDED}: {RIVAL}")
    text, _ = rendered(make_findings(acts=replace(table, actions=(table.actions[0], rival))))
    assert f"1 ended early ({RIVAL})" in text


def test_commands_are_those_of_the_command_line():
    """Each is read by the command line itself; flipped labels are read by no other command."""
    result = make_findings(acts=acts(RELABEL, BALANCE, DROP, MORE), facts={
        "Command": "datassay score data.csv --out 'my scores'"})  # fmt: skip
    inputs = {
        "data": str(Path.cwd() / "my data.csv"),
        "drop": "a,b",
        "log_target": True,
        "val_fraction": 0.0,
    }
    lines = []
    for noise in (0.0, 0.1):
        origin = Origin(inputs | {"noise": noise}, "", noise)
        told = verdict(replace(result, origin=origin))
        lines += [*told.commands, *(card.command for card in told.cards)]
        lines += [Typed(replace(result, origin=origin)).apply("--drop-copies")]
        assert bool(lines[-1]) == (not noise)
    assert any("'my data.csv' --drop a,b --log-target" in line for line in lines)
    assert "datassay view 'my scores'" in lines
    group = make_commands(app)
    for line in filter(None, lines):
        program, name, *words = shlex.split(line)
        assert program == "datassay"
        group.get_command(Context(group), name).make_context(name, words)  # raises of bad options


def test_an_interval_that_is_far_wider_does_not_flatten_the_others():
    wide = ("balance", -0.038, -0.145, 0.069, "no difference")
    figure = acts_figure(acts(RELABEL, DROP, UNSURE, wide))
    least, most = figure.layout.xaxis.range
    assert least < -3.8 and -5 < least and 2.4 < most < 4
    assert "longer intervals go on" in figure.layout.xaxis.title.text
    assert "go on" not in acts_figure(acts(RELABEL, DROP, UNSURE)).layout.xaxis.title.text


def test_of_a_useless_model_the_figure_shows_r2_after_each_action():
    table = replace(acts(("relabel", 1.1, 0.5, 1.6, "better"), metric="R²"), score=-0.4)
    relabel, unchanged = acts_figure(table).data
    assert (relabel.x[0], unchanged.x[0]) == pytest.approx((0.7, -0.4))
    assert relabel.error_x.array[0] == pytest.approx(0.3)  # R² ends at 1
    costs_most = acts(("balance", -0.06, -0.113, -0.003, "worse"))
    assert [mark.name for mark in acts_figure(costs_most).data] == ["costs"]


def test_numbers_read_well():
    assert [number(v) for v in (0.94, 12.34, 0.0, 1.2e-5, 123.4, 1437.2, float("nan"))] == [
        "0.940", "12.3", "0.00", "1.20e-05", "123", "1,437", "n/a",
    ]  # fmt: skip
    assert (count(1, "class", "classes"), count(2, "class", "classes")) == ("1 class", "2 classes")
    assert (percent(0.1), percent(0.004), percent(0.29)) == ("10 %", "0.4 %", "29 %")
    assert percent(0.0003) == "under 0.1 %"
    assert score_change(-0.0125, "R²") in {"0.013 of R²", "0.012 of R²"}


def test_what_to_type_next_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    origin = Origin({"data": "clean/a.csv", "target": "y"}, "", 0.0)
    facts = {"Command": "datassay run clean/a.csv --model=cnn --out here"}
    typed = Typed(make_findings(origin=origin, facts=facts))
    assert typed.apply() == ""  # nothing is decided yet
    (tmp_path / "here").mkdir()
    (tmp_path / "here/decisions.parquet").touch()
    line = "datassay apply clean/a.csv here/decisions.parquet --out cleaned"
    assert typed.apply() == line  # not over the data
    assert typed.line("run", out="report") == (
        "datassay run clean/a.csv --target y --model cnn --out report"
    )
    assert typed.line("weigh") == "datassay weigh clean/a.csv --target y"
    line = "datassay weigh clean/a.csv --target y --method self_paced --out w"
    assert typed.line("weigh --method self_paced", out="w") == line


def test_a_proposed_drop_keeps_the_columns_that_were_dropped_already():
    origin = Origin({"data": "a.csv", "target": "y", "drop": "year", "groups": "who"}, "", 0.0)
    line = Typed(make_findings(origin=origin)).line("run", drop="leak", out="without")
    assert line == "datassay run a.csv --target y --groups who --drop year,leak --out without"


def test_what_was_before_a_review_stands_before_what_is_now():
    table = before_table(reviewed())
    assert table.columns[2:4] == ("before", "now")
    cells = {row.name: row.cells for row in table.rows}
    assert cells["accuracy"] == ("300", "94.9 %", "97.3 %", "2.4 points", "0.6 to 4.2")
    assert cells["training samples"][1:4] == ("503", "500", "−3")
    assert cells["suspected labels"][1:4] == ("59", "5", "−54")


def test_a_gain_that_rounds_to_nothing_has_no_sign():
    assert gain_numbers(-1e-6, -0.0091, 0.0091, "accuracy") == ("0.0", "−0.9", "0.9")
    assert gain_numbers(-0.0004, -0.01, 0.01, "R²") == ("−0.0004", "−0.0100", "0.0100")


if __name__ == "__main__":
    TOLD.write_text(json.dumps(all_told(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
