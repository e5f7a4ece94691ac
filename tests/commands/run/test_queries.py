"""Which predictions the page explains and how, and its sums by class and source."""

import json
from dataclasses import replace

import numpy as np
import pytest

from datassay.commands.run.files import files
from datassay.commands.run.gallery import pair_cards, times_median
from datassay.commands.run.page import page as run_page
from datassay.commands.run.tables import group_table
from datassay.report.html import render
from datassay.report.wording import number
from datassay.score.compare.aggregate import aggregate
from datassay.score.information.groups import GroupInformation
from datassay.score.information.pairs import PairInformation
from helpers.findings import digit_samples, make_findings, with_sources


def rendered(found):
    return render(run_page(found))


def test_tables_by_class_and_source_add_up():
    result = make_findings(with_sources(digit_samples()))
    by_class, by_source = (group_table(result, by) for by in ("class", "source"))
    assert [row.name for row in by_class.rows] == list(result.samples.class_names)
    samples, values = result.samples, result.information.information
    for table, of in ((by_class, np.array(samples.class_names)[samples.y]),
                      (by_source, samples.source)):  # fmt: skip
        assert {row.name for row in table.rows} == set(of)
        for row in table.rows:
            own = of == row.name
            assert row.cells == (
                f"{own.sum():,}",
                times_median(float(np.median(values[own])), result),
                number(float(values[own].sum())),
                f"{100 * values[own].sum() / values.sum():.1f} %",
                "–",
                f"{result.issues.is_issue[own].sum():,}",
            )
        assert sum(int(row.cells[0]) for row in table.rows) == 500
        assert sum(int(row.cells[-1]) for row in table.rows) == result.issues.is_issue.sum()
        assert sum(float(row.cells[3][:-2]) for row in table.rows) == pytest.approx(100, abs=0.6)


def test_groups_as_one_stand_beside_their_sums_and_are_explained():
    text = make_findings(digit_samples())
    assert {row.cells[-2] for row in group_table(text, "class").rows} == {"–"}
    assert "Jointly: what" not in rendered(text)
    names = text.groups["class"].names
    whole = GroupInformation(
        np.arange(1.0, 11), np.full(10, 50), names, smoothing="functional", sigma=1.0
    )
    text = replace(text, whole_groups={"class": whole})
    table = group_table(text, "class")
    reported = {row.name: float(row.cells[-2]) for row in table.rows}
    assert reported == {str(name): index + 1.0 for index, name in enumerate(names)}
    assert "Jointly: what the network loses without the whole class." in rendered(text)


def with_pairs(found, interaction):
    """Pairs (0, 1), (2, 3), … of information 1 each."""
    q, interaction = len(interaction), np.asarray(interaction, float)
    pairs = np.arange(2 * q).reshape(q, 2)
    single = np.ones((q, 2))
    ids = found.samples.ids[pairs]
    made = PairInformation(
        pairs, ids, single, 2 - interaction, interaction, smoothing="functional", sigma=1.0
    )
    return replace(found, pairs=made)


def test_pairs_are_shown_by_what_they_carry_together():
    result = make_findings(digit_samples())
    assert "They stand in for each other" not in rendered(result)
    result = with_pairs(result, [-1.0, 0.5, -3.0, 0.0])
    redundant, contrary = pair_cards(result)
    assert [card.text.split()[3] for card in redundant] == ["2.5", "1.5"]
    assert [side.id for side in redundant[0].sides] == [str(i) for i in result.samples.ids[4:6]]
    (card,) = contrary
    assert card.text == "together 1.50 nats, 0.8 times their sum"
    names, y = result.samples.class_names, result.samples.y
    assert [side.label for side in card.sides] == [names[y[2]], names[y[3]]]
    assert [bool(side.verdict) for side in card.sides] == result.issues.is_issue[2:4].tolist()
    page = rendered(result)
    assert "They stand in for each other" in page and "They matter more together" in page
    assert "together 5.00 nats, 2.5 times their sum" in page
    pairs = json.loads(files(result, run_page(result))["summary.json"])["pairs"]
    assert [row["interaction"] for row in pairs] == [-3.0, -1.0, 0.5, 0.0]


def test_the_verdict_says_who_informs_more_or_that_nobody_does():
    draw = np.random.default_rng(0)
    who = np.repeat(["a", "b"], 100)

    samples = replace(digit_samples(200), source=who)

    def verdict(values):
        result = make_findings(samples, groups={"source": aggregate(values, who)})
        return next(s for s in run_page(result).sections if s.anchor == "groups").blocks[0].text

    reported = verdict(draw.exponential(1, 200) * (1 + 4 * (who == "b")))
    assert reported.startswith("They differ (Mann\u2013Whitney test by ranks, p < 0.001)")
    assert "a random sample of source b informs more than a random one of the other in " in reported
    reported = verdict(draw.exponential(1, 200))
    assert reported.startswith("The samples of one source inform no more than those of another (")
