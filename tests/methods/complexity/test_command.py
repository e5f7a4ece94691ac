"""`datassay complexity`: files, pages, tables, exit codes, one line for bad input, both modes."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.data.load import load
from datassay.errors import SettingError
from datassay.methods.complexity.command import CurveSettings, TeacherSettings, whole_numbers
from datassay.methods.complexity.curve import FILES as CURVE_FILES
from datassay.methods.complexity.curve import page as curve_page
from datassay.methods.complexity.curve import run as run_curve
from datassay.methods.complexity.curve import samples, span
from datassay.methods.complexity.laws import Law
from datassay.methods.complexity.teachers import FILES as TEACHER_FILES
from datassay.methods.complexity.teachers import page as teacher_page
from datassay.methods.complexity.teachers import run as run_teachers
from datassay.methods.complexity.teachers import write_law
from datassay.report.html import render
from datassay.train.learner import Networks
from helpers.command_line import columns, listed, refusals, succeed, summary, words

KNN = ["--model", "sklearn.neighbors:KNeighborsClassifier"]
TINY = ["--teachers", 2, "--students", 2, "--depth", 0, "--max-samples", 4]


@pytest.fixture(scope="module")
def curve():
    train, val = load("iris")
    name = "sklearn.neighbors:KNeighborsClassifier"
    return run_curve(train, val, CurveSettings(name, (0.9,), repeats=2))


def test_a_curve_writes_its_files_and_names_the_page_last(tmp_path):
    args = [*KNN, "--accuracy", 0.9, "--accuracy", 0.999, "--repeats", 3]
    out = tmp_path / "deep" / "curve"
    result = succeed("complexity", "iris", *args, "--verbose", "--out", out)
    assert listed(out) == sorted([*CURVE_FILES, "index.html"])
    assert result.stdout.splitlines()[-1] == f"Page: {out / 'index.html'}"
    for word in ("samples needed", "90 % interval", "never reached in"):
        assert word in words(result)
    assert "Fit to growing parts of the data" in result.stderr
    table = columns(out / "fits.parquet")
    assert list(table) == ["samples", "repeat", "score"]
    summary_ = summary(out)
    assert len(table["score"]) == 3 * len(summary_["sizes"])
    assert [one["score"] for one in summary_["needed"]] == [0.9, 0.999]
    assert [round(e["samples"] / 120) for e in summary_["expected"]] == [1, 2, 4, 8]
    last = np.array(table["score"])[-3:]
    assert summary_["sizes"][-1]["mean"] == pytest.approx(last.mean())
    page = (out / "index.html").read_text()
    assert 'data-figure="score"' in page


def test_teachers_write_their_files_and_go_on_where_they_stopped(tmp_path):
    # Two students need hardly any samples.
    args = ["--inputs", "2:4", "--width", 2, "--teachers", 2, "--students", 3, "--depth", 1]
    args += ["--max-samples", 128, "--store", tmp_path / "kept"]
    result, out = succeed("complexity", *args, "--verbose", "--out", tmp_path / "t"), tmp_path / "t"
    assert listed(out) == sorted([*TEACHER_FILES, "index.html"])
    for word in ("median N", "range over teachers", "not recovered"):
        assert word in words(result)
    table = columns(out / "trials.parquet")
    assert list(table) == ["n_inputs", "width", "teacher", "n_opt", "n_doubled"]
    assert table["n_inputs"] == [2, 2, 3, 3, 4, 4]
    summary_ = summary(out)
    assert [s["n_inputs"] for s in summary_["sizes"]] == [2, 3, 4]
    assert summary_["varied"] == "d"
    assert len(list((out.parent / "kept").glob("inputs-*.npz"))) == 3


def test_a_law_needs_three_sizes_and_its_absence_is_told(here):
    result = succeed("complexity", "--width", "2,3", *TINY, "--out", "out")
    assert "A law needs at least 3 sizes" in words(result)
    assert summary()["laws"] == []


def test_laws_are_named_by_what_varies():
    law = Law("linear", "N = -5.0 + 2.0·d", {"a": -5.0, "b": 2.0},
              {"a": (-6.0, -4.0), "b": (1.5, 2.5)}, 0.95, (0.5, 0.9), (2.0, 4.0), 0.9)  # fmt: skip
    tiny = {"teachers": 2, "students": 2, "depth": 0, "max_samples": 4}
    base = run_teachers(TeacherSettings((2, 3, 4), **tiny))
    page = teacher_page(replace(base, laws=(law,)))
    nets = "ReLU networks of 2 to 4 inputs and width 5"
    rate = f"{nets}: each further input takes about 2.0 more samples to learn"
    assert page.verdict == f"{rate} (90 % interval 1.5 to 2.5)."
    better = replace(law, kind="log", coef={"a": 0.0, "b": 4.0}, r_squared=0.97)
    typed = {**base.facts, "Command": "datassay complexity --inputs 2:4 --teachers 2 --out t"}
    page = teacher_page(replace(base, laws=(better, law), facts=typed))
    assert "3 sizes cannot tell a straight line from a logarithm" in page.verdict
    assert page.commands == ("datassay complexity --teachers 2 --inputs 2:8",)
    assert "At d = 8 the laws part" in render(page)
    laws = {law.name: law.x for law in page.figures[0].figure.data if law.mode == "lines"}
    assert set(laws) == {"a straight line", "a logarithm"}
    assert all((x.min(), x.max()) == pytest.approx((2, 8)) for x in laws.values())
    assert write_law(law) == "N = −5.0 + 2.0·d"
    both = run_teachers(TeacherSettings((2, 3), (2, 3), **tiny))
    assert both.varied == "d·log m"
    assert both.x == pytest.approx([2 * np.log(2), 2 * np.log(3), 3 * np.log(2), 3 * np.log(3)])


def test_a_network_is_fitted_too(here, monkeypatch):
    seen = []

    def quick(self, train, val, subsets, progress=None):
        seen.append(len(self.models))
        return np.random.default_rng(subsets.shape[1]).uniform(size=(len(subsets), len(val))) < 0.2

    monkeypatch.setattr(Networks, "errors", lambda *args, **kw: quick(*args, **kw).astype(float))
    succeed("complexity", "iris", "--repeats", 2, "--sizes", "10,20,40,80", "--out", "out")
    assert seen == [2] * 4
    assert summary()["facts"]["Model"] == "mlp"


def test_advice_follows_the_draws(curve):
    n = curve.n
    one = curve.needed[0]
    cases = {
        "will probably not bring": replace(one, median=np.inf, high=np.inf, reached_by=0.2),
        "will hardly bring": replace(one, median=np.inf, high=np.inf, reached_by=0.05),
        f"there are {n:,}": replace(one, low=10.0, median=20.0, high=30.0),
        f"About {samples(n)} more samples": replace(one, low=n / 2, median=2.0 * n, high=5.0 * n),
        "50 % of the resampled curves": replace(
            one, low=n / 2, median=20.0 * n, high=np.inf, reached_by=0.5
        ),
    }
    for text, needed in cases.items():
        page = curve_page(replace(curve, needed=(needed,)))
        assert text in page.verdict and len(page.advice) == 1
        assert page.advice[0].sentence.startswith("Twice the samples")
    missed = replace(curve.forecast, low=0.1, median=0.15, high=0.2)
    warnings = curve_page(replace(curve, forecast=missed)).warnings
    assert any("does better than the smaller ones predict" in one for one in warnings)


def test_numbers_of_samples_have_two_digits(curve):
    some = {1.0: "1", 2345.0: "2,300", 98.6: "99", 3e9: "over a billion", np.inf: "never"}
    assert {n: samples(n) for n in some} == some
    one = replace(curve.needed[0], low=1500.0, high=8000.0)
    assert span(one) == "1,500 to 8,000"
    assert span(replace(one, high=np.inf)) == "at least 1,500"
    assert span(replace(one, low=np.inf, high=np.inf)) == "no number of samples"


def test_ranges_and_lists():
    some = {"5:40": (5, 10, 15, 20, 25, 30, 35, 40), "5:7": (5, 6, 7), "5:20:5": (5, 10, 15, 20)}
    some |= {"20,5,5": (5, 20), "5": (5,)}
    assert {text: whole_numbers(text, "inputs") for text in some} == some
    for wrong in ("", "0", "a", "5:", "9:5", "1:2:3:4", "5:9:0", "-3", "1.5"):
        with pytest.raises(SettingError, match="inputs must be whole numbers from 1"):
            whole_numbers(wrong, "inputs")


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    'complexity iris --inputs 5': "DATA does not go with --inputs",
    '--teachers 3': "teachers needs --inputs or --width",
    'complexity --inputs 5 --model linear': "model needs DATA",
    '--accuracy 95': r"accuracy must lie in \(0, 1\).*got 95",
    '--repeats 1': r"repeats must lie in \[2, .*got 1",
    '--sizes 10,20,40,800': "at most the 120 there are",
    'complexity iris --model no.such:Thing': "ModuleNotFoundError",
    'complexity --inputs 5 --teachers 0': "teachers must be at .*0",
    'complexity --inputs 5 --depth -1': "depth must be at least 0",
    'complexity --inputs 9:5': "inputs must be whole numbers",
}, 'complexity iris --model sklearn.neighbors:KNeighborsClassifier')  # fmt: skip
