"""`datassay polynomial`: files, tables, page, exit codes, one line for bad input."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from datassay.data.load import load
from datassay.methods.polynomial.command import PolynomialSettings
from datassay.methods.polynomial.formula import short_formula
from datassay.methods.polynomial.job import choose_samples, run
from datassay.methods.polynomial.page import FILES, explained_cards, files
from datassay.methods.polynomial.page import page as page_of
from datassay.methods.polynomial.surrogate import load_surrogate
from datassay.report.drawing import heat_image, heat_limit
from datassay.report.page import Partial, Table
from helpers.blocks import NAMES
from helpers.command_line import columns, invoke, listed, refusals, succeed, summary
from helpers.pages import snippet
from helpers.polynomials import surrogate_findings


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with 8 x 8 images, a table of two classes, a regression, and what is unusable."""
    folder = tmp_path_factory.mktemp("data")
    digits = load_digits()
    x, y = digits.images[:400, None].astype(np.float32) / 16, digits.target[:400]
    np.savez(folder / "images.npz", x=x, y=y)
    np.savez(folder / "colours.npz", x=np.repeat(x[:40], 3, 1), y=y[:40] % 2)
    np.savez(folder / "constant.npz", x=x[:40, 0, 0], y=np.full(40, 2.5))
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(150, 3)) * [1, 10, 100]
    answer = rows[:, 0] * rows[:, 1] > 0
    words = np.where(answer, "yes", "no")
    lines = [f"{i},{a},{b},{c},{words[i]}" for i, (a, b, c) in enumerate(rows)]
    (folder / "table.csv").write_text("\n".join(["key,<b>a,b,c,answer", *lines]))
    y = 5 + 2 * rows[:, 0] - 0.3 * rows[:, 0] * rows[:, 1] + draw.normal(size=150) / 100
    np.savez(folder / "numbers.npz", x=rows, y=y)
    np.savez(folder / "two.npz", x=rows, y=np.stack([y, rows[:, 0]], 1))
    return folder


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """What one fit of images wrote and printed."""
    out = tmp_path_factory.mktemp("out") / "deep" / "fit"
    return out, succeed("polynomial", data / "images.npz", "--verbose", "--out", out)


def test_predictions_are_those_of_the_model_file(data, fitted):
    out, result = fitted
    assert listed(out) == sorted([*FILES, "index.html"])
    assert result.stdout.splitlines()[-1] == f"Page: {out / 'index.html'}"
    for word in ("this", "linear", "commonest", "95 %", "ridge", "675: products"):
        assert word in result.stdout
    _, val = load(data / "images.npz")
    table = columns(out / "predictions.parquet")
    outputs = load_surrogate(out / "polynomial.safetensors").outputs(val.x)
    written = np.stack([table[f"output_{c}"] for c in range(10)], 1)
    np.testing.assert_allclose(written, outputs, atol=1e-12)
    assert table["id"] == val.ids.tolist()
    assert table["predicted"] == outputs.argmax(1).tolist()  # labels as they were given
    assert table["is_wrong"] == (outputs.argmax(1) != val.y).tolist()
    assert np.array_equal(np.array(table["margin"]) < 0, table["is_wrong"])
    summary_ = summary(out)
    accuracy = (outputs.argmax(1) == val.y).mean()
    assert summary_["models"][-1]["validation"] == pytest.approx(accuracy)
    assert summary_["models"][-1]["validation"] > summary_["models"][-2]["validation"]


def test_coefficients_give_the_outputs(data, fitted):
    out, _ = fitted
    _, val = load(data / "images.npz")
    table = columns(out / "coefficients.parquet")
    assert table["product"][:2] == ["1", "(0, 0)"]
    x = val.x[0].ravel().astype(float)
    products = np.array([np.prod(x[inputs]) for inputs in table["inputs"]])
    expected = columns(out / "predictions.parquet")["output_3"][0]
    assert products @ np.array(table["coef_3"]) == pytest.approx(expected, abs=1e-10)


def test_a_table_of_classes_is_standardised(here):
    args = ["--target", "answer", "--ids", "key", "--out", "out", "--degree", "3"]
    succeed("polynomial", "table.csv", *args)
    summary_, page = summary(), Path("out/index.html").read_text()
    assert summary_["features"]["n"] == 20
    help_ = next(a for a in summary_["advice"] if a["kind"] == "score")
    assert help_["severity"] == "fine"
    assert "&lt;b&gt;a · b" in page
    assert "<b>a" not in page
    assert "What it weighs where" not in page
    assert "standard deviation" in summary_["facts"]["Inputs"]
    assert columns("out/coefficients.parquet")["product"][4:6] == ["(<b>a)²", "<b>a · b"]


@pytest.mark.parametrize("name", ["numbers", "two"])
def test_a_regression_finds_the_product(here, name):
    succeed("polynomial", f"{name}.npz", "--out", "out")
    summary_ = summary()
    assert summary_["metric"] == "R²"
    assert summary_["models"][-1]["validation"] > 0.99
    assert "class_name" not in columns("out/predictions.parquet")
    table = columns("out/coefficients.parquet")
    first = next(key for key in table if key.startswith("coef_"))
    top = np.argsort(-np.abs(table[first]))[1:3]
    assert {table["product"][p] for p in top} == {"x0", "x0 · x1"}


def test_the_batched_fit_has_curves(here):
    args = ["--solver", "batched", "--n-batches", 3, "--batch-size", 100, "--window", "none"]
    succeed("polynomial", "images.npz", *args, "--out", "out")
    summary_ = summary()
    assert summary_["features"]["n"] == 2145
    assert len(summary_["fit"]["curve"]["cumulative"]) == 3
    assert "How the batches add up" in Path("out/index.html").read_text()


def test_a_model_file_is_scored_without_a_fit(here, fitted):
    file = fitted[0] / "polynomial.safetensors"
    succeed("polynomial", "images.npz", "--model", file, "--out", "out")
    summary_, before = summary(), summary(fitted[0])
    assert summary_["fit"] is None
    assert summary_["models"] == before["models"]
    assert "read from a file" in summary_["warnings"][0]
    result = invoke("polynomial", "numbers.npz", "--model", file, "--out", "other")
    assert result.exit_code == 2
    assert re.search(r"takes 64 values and says 0, 1, 2 and 7 more; the data have 3", result.stderr)


def test_the_snippet_on_the_page_runs(data, fitted, monkeypatch, capsys):
    out, _ = fitted
    monkeypatch.chdir(out)
    own = {"x": load(data / "images.npz")[1].x}
    exec(compile(snippet(Path("index.html").read_text()), "page", "exec"), own)
    np.testing.assert_allclose(
        own["parts"].constant + own["parts"].shares[0].sum(0), own["outputs"][0], atol=1e-10
    )


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    '--degree 0': "degree must be at least 1; got 0",
    '--window 4': "window must be odd.*got 4",
    '--window big': "window must be 'auto', 'none' or .*got 'big'",
    'polynomial numbers.npz --window 3': "image_shape must be rows",
    'polynomial colours.npz --window 3': "Make colour images grey",
    '--ridge -1': "ridge must be 'auto' or .* at least 0; got -1",
    '--ridge big': "ridge must be a number or 'auto'; got 'big'",
    '--solver batched --batch-size 400': "at most the 320 training samples; got 400",
    '--solver batched --batch-size 9 --n-batches 0': "n-batches must be",
    '--model none': "none must be a file that datassay polynomial",
    '--window none --degree 5': "500,000",
}, 'polynomial images.npz')  # fmt: skip


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


def test_the_largest_coefficients_are_drawn():
    findings = surrogate_findings("row")
    (drawn,) = (figure.figure for figure in page_of(findings).figures if "coef" in figure.name)
    (bar,) = drawn.data  # of two classes the second
    coef = np.abs(findings.surrogate.polynomial.monomial_coef[1:, 1])
    assert np.allclose(np.sort(np.abs(bar.x)), np.sort(coef)[-12:])
    assert bar.y[-1] == "&lt;b&gt;a · c&amp;d"
    assert ", <b>a · c&d most: " in page_of(findings).verdict
    first, second = maps(surrogate_findings("image"))  # one picture per class instead
    assert [name for name, _ in first["pictures"]] == list(NAMES[:2])
    assert len(second["pictures"]) == 2 and maps(findings) == []
    assert "coef" not in {
        figure.name[:4] for figure in page_of(surrogate_findings("image")).figures
    }
    assert surrogate_findings("image").surrogate.term_names[:2] == ["1", "(0, 0)"]


def test_scores_and_advice_agree_with_the_summary():
    findings = surrogate_findings("row")
    summary = json.loads(files(findings, page_of(findings))["summary.json"])
    right = (findings.outputs.argmax(1) == findings.validation.y).mean()
    assert summary["models"][-1]["validation"] == pytest.approx(right)
    assert table(findings, "Scores")[-1].cells[1] == f"{right:.3f}"
    page = page_of(findings)
    assert page.advice[-1].severity == "fine"
    assert f"accuracy {right:.3f}, where a linear model reaches" in page.verdict
    kinds = [a.kind for a in page_of(surrogate_findings("image")).advice]
    assert kinds == ["fit", "score"]


def test_a_linear_fit_is_compared_with_a_constant():
    findings = surrogate_findings("row", degree=1)
    assert findings.scores.names == ("the commonest class", "this polynomial")
    assert findings.scores.ahead_of(0).verdict == "no difference"
    page = page_of(findings)
    assert "Little is learned here" in page.advice[-1].headline
    assert re.fullmatch(r"A linear model .*, the commonest class \d.\d+\.", page.verdict)


def test_cards_take_the_predicted_and_the_given_class_apart():
    findings = surrogate_findings("row")
    cards = explained_cards(findings)
    assert [c["is_wrong"] for c in cards] == sorted((c["is_wrong"] for c in cards), reverse=True)
    for e, card in enumerate(cards):
        outputs = findings.outputs[findings.explained[e]]
        predicted = findings.surrogate.output_names[outputs.argmax()]
        assert card["caption"].startswith(f"predicted {predicted}")
        assert (
            card["caption"].endswith(f", given {NAMES[1 - outputs.argmax()]}") == card["is_wrong"]
        )
        assert card["panels"][0]["title"] == f"{predicted}, predicted"
        assert len(card["panels"]) == 2
        shown = card["panels"][0]["total"].partition(" = ")[2].replace("−", "-")
        assert float(shown) == pytest.approx(outputs.max(), rel=1e-2)
    by_column = explained_cards(surrogate_findings("numbers"))[0]["panels"][1]
    assert by_column["title"] == "target, by column"


def test_wrong_samples_come_first_then_each_class_in_turn():
    margin = np.array([0.5, -0.1, 0.2, -0.9, 0.3, 0.4, 0.8])
    y = np.array([0, 1, 2, 0, 0, 1, 2])
    chosen = choose_samples(margin, True, y, 12)
    assert chosen[:2].tolist() == [3, 1]
    assert set(y[chosen[2:5]]) == {0, 1, 2}
    assert len(choose_samples(margin, True, y, 3)) == 3
    assert choose_samples(margin, False, y, 4)[:2].tolist() == [3, 1]


def test_the_end_of_the_path_is_told():
    findings = surrogate_findings("numbers")
    path = findings.fit.path
    end = replace(findings.fit, path=replace(path, chosen=0), ridge=float(path.ridge[0]))
    warning = page_of(replace(findings, fit=end)).warnings[-1]
    assert "The smallest ridge that was tried" in warning
    assert "a smaller one may do better" in warning


def evaluate_formula(text, columns):
    """The value of a printed formula; each column's name stands in it as it is."""
    _, _, formula = text.partition(" = ")
    formula = formula.replace("−", "-").replace("²", "**2").replace("³", "**3")
    for k, name in enumerate(columns):
        formula = formula.replace(name, f"x{k}")
    formula = re.sub(r"(\d) \(?(x\d+)\)?", r"\1 * \2", formula.replace("·", "*"))
    return eval(formula, {f"x{k}": values for k, values in enumerate(columns.values())})


@pytest.mark.parametrize("centre", [0, 300])  # far from 0 terms cancel, and need more digits
def test_the_formula_in_own_units_gives_the_predictions(here, centre):
    draw = np.random.default_rng(1)
    speed, angle, area = draw.uniform(5, 25, (3, 300)) + centre
    lift = 3 + 0.05 * speed**2 + 0.4 * angle * area - 2 * angle + draw.normal(size=300) / 10
    rows = np.stack([speed, angle, area, lift], 1)
    Path("wings.csv").write_text(
        "\n".join(["speed m/s,angle,area,lift N", *(",".join(map(str, row)) for row in rows)])
    )
    train, val = load("wings.csv", target="lift N", val_fraction=0.2)
    findings = run(train, val, PolynomialSettings(degree=2))
    formula = short_formula(findings)
    assert formula is not None and formula.text.startswith("lift N = ")
    values = evaluate_formula(formula.text, dict(zip(train.feature_names, val.x.T, strict=True)))
    deviation = np.sqrt(np.mean((values - findings.outputs[:, 0]) ** 2))
    assert deviation == pytest.approx(formula.deviation, rel=1e-3)
    assert deviation < 0.02 * findings.outputs.std()
    if centre == 0:
        assert " 0.4" in formula.text and " 0.05" in formula.text
    assert formula.text in [getattr(block, "text", "") for block in page_of(findings).blocks]


def test_classes_have_no_formula():
    assert short_formula(surrogate_findings("row")) is None  # classes
