"""`datassay polynomial`: files, tables, exit codes, one line for bad input."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from datassay.data.load import load
from datassay.polynomial.surrogate import load_surrogate
from helpers.command_line import columns, invoke, listed, refusals, succeed, summary

FILES = [
    "coefficients.parquet",
    "index.html",
    "polynomial.safetensors",
    "predictions.parquet",
    "summary.json",
]


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
    return out, succeed("polynomial", data / "images.npz", "--out", out)


def test_it_writes_its_files_and_names_the_page_last(fitted):
    out, result = fitted
    assert listed(out) == FILES
    assert result.stdout.splitlines()[-1] == str(out / "index.html")
    for word in ("this", "linear", "commonest", "95 %", "ridge", "675: products"):
        assert word in result.stdout
    assert "images with noise: " in result.stderr


def test_predictions_are_those_of_the_model_file(data, fitted):
    out, _ = fitted
    _, val = load(data / "images.npz")
    table = columns(out / "predictions.parquet")
    outputs = load_surrogate(out / "polynomial.safetensors").outputs(val.x)
    written = np.stack([table[f"output_{c}"] for c in range(10)], 1)
    np.testing.assert_allclose(written, outputs, atol=1e-12)
    assert table["id"] == val.ids.tolist()
    assert table["predicted"] == outputs.argmax(1).tolist()  # labels as they were given
    assert table["is_wrong"] == (outputs.argmax(1) != val.y).tolist()
    assert np.array_equal(np.array(table["margin"]) < 0, table["is_wrong"])
    said = summary(out)
    accuracy = (outputs.argmax(1) == val.y).mean()
    assert said["models"][-1]["validation"] == pytest.approx(accuracy)
    assert said["models"][-1]["validation"] > said["models"][-2]["validation"]
    clean = [r for r in said["robustness"] if r["level"] == 0 and "this" in r["model"]]
    assert [r["accuracy"] for r in clean] == pytest.approx([accuracy] * 2)


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
    said, page = summary(), Path("out/index.html").read_text()
    assert said["features"]["n"] == 20
    assert said["robustness"] == []
    help_ = next(a for a in said["advice"] if a["kind"] == "score")
    assert help_["severity"] == "fine"
    assert "&lt;b&gt;a · b" in page
    assert "<b>a" not in page
    assert "What it weighs where" not in page
    assert "standard deviation" in said["facts"]["Inputs"]
    assert columns("out/coefficients.parquet")["product"][4:6] == ["<b>a²", "<b>a · b"]


@pytest.mark.parametrize("name", ["numbers", "two"])
def test_a_regression_finds_the_product(here, name):
    succeed("polynomial", f"{name}.npz", "--out", "out")
    said = summary()
    assert said["metric"] == "R²"
    assert said["models"][-1]["validation"] > 0.99
    assert "class_name" not in columns("out/predictions.parquet")
    table = columns("out/coefficients.parquet")
    first = next(key for key in table if key.startswith("coef_"))
    top = np.argsort(-np.abs(table[first]))[1:3]
    assert {table["product"][p] for p in top} == {"x0", "x0 · x1"}


def test_the_batched_fit_has_curves(here):
    args = ["--solver", "batched", "--n-batches", 3, "--batch-size", 100, "--window", "none"]
    succeed("polynomial", "images.npz", *args, "--out", "out")
    said = summary()
    assert said["features"]["n"] == 2145
    assert len(said["fit"]["curve"]["cumulative"]) == 3
    assert "How the batches add up" in Path("out/index.html").read_text()


def test_a_store_changes_nothing(here):
    files = []
    for store in ([], ["--store", "sums"], ["--store", "sums"]):
        succeed("polynomial", "numbers.npz", *store, "--out", "out")
        files.append(Path("out/polynomial.safetensors").read_bytes())
    assert Path("sums").is_dir()
    assert files[0] == files[1] == files[2]


def test_a_model_file_is_scored_without_a_fit(here, fitted):
    file = fitted[0] / "polynomial.safetensors"
    succeed("polynomial", "images.npz", "--model", file, "--out", "out")
    said, before = summary(), summary(fitted[0])
    assert said["fit"] is None
    assert said["models"] == before["models"]
    assert "read from a file" in said["warnings"][0]
    result = invoke("polynomial", "numbers.npz", "--model", file, "--out", "other")
    assert result.exit_code == 2
    assert re.search(r"takes 64 values and says 0, 1, 2 and 7 more; the data have 3", result.stderr)


def test_the_snippet_on_the_page_runs(data, fitted, monkeypatch, capsys):
    out, _ = fitted
    monkeypatch.chdir(out)
    found = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", Path("index.html").read_text(), re.S)
    code = found.group(1).replace("&#34;", '"').replace("&gt;", ">")
    own = {"x": load(data / "images.npz")[1].x}
    exec(compile(code, "page", "exec"), own)
    np.testing.assert_allclose(
        own["parts"].constant + own["parts"].shares[0].sum(0), own["outputs"][0], atol=1e-10
    )


GOOD = ["polynomial", "images.npz"]
BATCHED = [*GOOD, "--solver", "batched"]
test_bad_input_costs_one_line_and_writes_nothing = refusals({
    'polynomial': "DATA must be given once",
    '--degree 0': "degree must be at least 1; got 0",
    '--window 4': "window must be odd.*got 4",
    '--window 9': "window must fit into the image of 8 x 8",
    '--window big': "window must be 'auto', 'none' or .*got 'big'",
    'polynomial numbers.npz --window 3': "image_shape must be rows",
    'polynomial colours.npz --window 3': "Make colour images grey",
    '--solver odd': "solver must be one of exact, batched; got 'odd'",
    '--ridge -1': "ridge must be 'auto' or .* at least 0; got -1",
    '--ridge big': "ridge must be a number or 'auto'; got 'big'",
    '--precision odd': "precision must be one of .*got 'odd'",
    '--solver batched --batch-size 400': "at most the 320 training samples; got 400",
    '--solver batched --batch-size 9 --n-batches 0': "n-batches must be",
    '--solver batched --batch-size 9 --store s': "store, ridge and",
    '--model m --store s': "model is scored as it is",
    '--model none': "none must be a file that datassay polynomial",
    'polynomial constant.npz': "needs targets that differ; all 40 in y are",
    '--window none --degree 5': "500,000",
}, 'polynomial images.npz')  # fmt: skip
