"""The page of polynomial as text: its figures, what it says, nothing unescaped."""

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from datassay.commands.polynomial.explained import explained_cards
from datassay.commands.polynomial.job import _warnings, chosen_samples
from datassay.commands.polynomial.page import files
from datassay.commands.polynomial.page import page as page_of
from datassay.report.drawing import heat_image, heat_limit
from datassay.report.page import Partial, Table
from helpers.blocks import NAMES
from helpers.polynomials import surrogate_findings


def table(findings, name):
    """The rows of a table of the page; None where there is no such table."""
    tables = {b.name: b for b in page_of(findings).blocks if isinstance(b, Table)}
    return tables[name].rows if name in tables else None


def maps(findings):
    blocks = page_of(findings).blocks
    return [b.context for b in blocks if isinstance(b, Partial) and b.template == "maps.html"]


def test_heat_is_orange_above_blue_below_and_white_at_zero():
    picture = heat_image(np.array([[-2.0, 0, 1, 9]]), 2.0)
    data = base64.b64decode(picture.partition(",")[2])
    below, zero, above, beyond = np.asarray(Image.open(io.BytesIO(data)))[0].astype(int)
    assert zero.tolist() == [255, 255, 255]
    assert below[2] > below[0] and above[0] > above[2]
    assert beyond.tolist() == [152, 58, 0]
    assert heat_limit(np.zeros(3)) == 1
    assert heat_limit(np.r_[np.zeros(50), -np.arange(1.0, 102)]) == pytest.approx(100)


def test_maps_have_one_picture_a_class():
    first, second = maps(surrogate_findings("image"))
    assert [name for name, _ in first["pictures"]] == list(NAMES[:2])
    assert len(second["pictures"]) == 2
    assert maps(surrogate_findings("row")) == []


def test_largest_coefficients_name_the_product():
    rows = table(surrogate_findings("numbers"), "Coefficients")
    assert [row.name for row in rows[:2]] == ["constant", "<b>a · c&d"]
    assert len(rows) == 21
    assert table(surrogate_findings("image"), "Coefficients") is None
    assert surrogate_findings("image").surrogate.term_names[:2] == ["1", "(0, 0)"]


def test_scores_and_advice_agree_with_the_summary():
    findings = surrogate_findings("row")
    summary = json.loads(files(findings, page_of(findings))["summary.json"])
    right = (findings.outputs.argmax(1) == findings.validation.y).mean()
    assert summary["models"][-1]["validation"] == pytest.approx(right)
    assert table(findings, "Scores")[-1].cells[1] == f"{right:.3f}"
    first = page_of(findings).advice[0]
    assert first.severity == "fine"
    assert f"{findings.scores.each[-2].mean():.3f}" in first.sentence
    kinds = [a.kind for a in page_of(surrogate_findings("image")).advice]
    assert kinds == ["score", "fit", "reading", "robustness"]


def test_a_linear_fit_is_compared_with_a_constant():
    findings = surrogate_findings("row", degree=1)
    assert findings.scores.names == ("the commonest class", "this polynomial")
    assert findings.scores.ahead_of(0).verdict == "no difference"
    assert "Little is learned here" in page_of(findings).advice[0].sentence


def test_cards_take_the_predicted_and_the_given_class_apart():
    findings = surrogate_findings("row")
    cards = explained_cards(findings)
    assert [c["is_wrong"] for c in cards] == sorted((c["is_wrong"] for c in cards), reverse=True)
    for e, card in enumerate(cards):
        outputs = findings.outputs[findings.explained[e]]
        said = findings.surrogate.output_names[outputs.argmax()]
        assert card["caption"].startswith(f"predicted {said}")
        assert (
            card["caption"].endswith(f", given {NAMES[1 - outputs.argmax()]}") == card["is_wrong"]
        )
        assert card["panels"][0]["title"] == f"{said}, predicted"
        assert len(card["panels"]) == 2
        shown = card["panels"][0]["total"].partition(" = ")[2].replace("−", "-")
        assert float(shown) == pytest.approx(outputs.max(), rel=1e-2)
    by_column = explained_cards(surrogate_findings("numbers"))[0]["panels"][1]
    assert by_column["title"] == "target, by column"


def test_wrong_samples_come_first_then_each_class_in_turn():
    margin = np.array([0.5, -0.1, 0.2, -0.9, 0.3, 0.4, 0.8])
    y = np.array([0, 1, 2, 0, 0, 1, 2])
    chosen = chosen_samples(margin, True, y, 12)
    assert chosen[:2].tolist() == [3, 1]
    assert set(y[chosen[2:5]]) == {0, 1, 2}
    assert len(chosen_samples(margin, True, y, 3)) == 3
    assert chosen_samples(margin, False, y, 4)[:2].tolist() == [3, 1]


def test_the_end_of_the_path_is_told():
    findings = surrogate_findings("numbers")
    assert findings.warnings == () or "ridge that was tried" in findings.warnings[0]
    path = findings.fit.path
    end = replace(findings.fit, path=replace(path, chosen=0), ridge=float(path.ridge[0]))
    assert "a smaller one may do better" in _warnings(end)[0]
