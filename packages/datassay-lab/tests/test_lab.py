"""The lab itself: its catalogue, parameters, kept results and page, on small experiments."""

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from datassay.errors import DataError, SettingError
from datassay.progress import silent
from datassay.report import render
from datassay_lab import job
from datassay_lab import page as lab_page
from datassay_lab.catalog import experiment
from datassay_lab.checks import (
    Agreement,
    check_args,
    one_of,
    positive,
    rising,
    rising_whole,
    share,
    whole,
)
from datassay_lab.command import LabSettings
from datassay_lab.curves import Plot, add_data, axes, pictures, theory
from datassay_lab.experiment import Experiment, kind_of
from datassay_lab.fits import exponent, relative_error
from datassay_lab.job import chosen, run, run_lab
from datassay_lab.record import load_record, run_experiment, summary
from helpers.browser import in_browser, opened, severe

LAB = Path(inspect.getfile(job)).parent


@dataclasses.dataclass(frozen=True, slots=True)
class Halves:
    """The result of `halves`."""

    values: np.ndarray
    label: str
    error: float

    @property
    def agreement(self):
        return Agreement("a <b> of halves & more", self.error, 0.5)


@check_args
def halves(
    *,
    size: Annotated[int, whole(2)] = 20,
    scale=1.0,
    names="a",
    powers=(1, 2),
    flag=False,
    seed=0,
    progress=silent,
):
    progress("halving", 1, 1)
    return Halves(np.arange(size) / 2 * scale, names, 0.25 * scale)


def halves_plots(result):
    figure = axes("x", "y")
    add_data(figure, np.arange(len(result.values)), result.values, "half")
    theory(figure, [0, 1], [0, 0.5])
    return (Plot("</script><b>title", figure, "a line & more", wide=True),)


def lacking(*, seed=0, progress=silent):
    raise SettingError("data must be there; got none.")


HALVES = Experiment(
    "halves", "Halves.", "x / 2", "A line.", "What is a half?", ("size=3",), "Fewer.", "Halve it.",
    "S2", __name__,
)  # fmt: skip


@pytest.fixture
def only_halves(monkeypatch):
    """A catalogue with one small experiment in it, and one that cannot run."""
    known = {"halves": HALVES, "lacking": dataclasses.replace(HALVES, name="lacking")}
    monkeypatch.setattr(job, "experiment", lambda name: known[name])
    for module in (job, lab_page):
        monkeypatch.setattr(module, "experiments", lambda: (("One", e) for e in known.values()))
    return known


def ran(out, **parameters):
    return run_experiment(HALVES, parameters, out)


@pytest.mark.parametrize(
    ("value", "kind", "holds"),
    [(0.9, "at most", True), (1.1, "at most", False), (1.1, "at least", True),
     (0.9, "at least", False), (1.0, "at most", True), (1.0, "at least", True),
     (float("nan"), "at most", False), (float("nan"), "at least", False)],
)  # fmt: skip
def test_agreement_keeps_its_limit(value, kind, holds):
    assert Agreement("x", value, 1.0, kind).holds is holds


def test_unknown_experiment_names_the_nearest():
    with pytest.raises(SettingError, match=r"got 'weight-dcay'\. Did you mean weight-decay"):
        experiment("weight-dcay")


def test_parameters_are_read_from_text():
    texts = ["size=3", "scale=2", "powers=4,5,6", "flag=True", "names=a=b"]
    expected = {"size": 3, "scale": 2.0, "powers": (4, 5, 6), "flag": True, "names": "a=b"}
    assert HALVES.parse(texts) == expected
    assert HALVES.parse(["flag=false"]) == {"flag": False}
    assert kind_of((1.5,)) == "numbers separated by commas"


@pytest.mark.parametrize(
    ("text", "predicted"),
    [
        ("width=3", r"set must be NAME=VALUE with a parameter of halves \(size=20, .*'width=3'"),
        ("size", "set must be NAME=VALUE"),
        ("size=3.5", "size must be a whole number; got '3.5'"),
        ("scale=wide", "scale must be a number; got 'wide'"),
        ("powers=1,,2", "powers must be whole numbers separated by commas"),
        ("flag=maybe", "flag must be true or false; got 'maybe'"),
    ],
)
def test_bad_settings_are_refused(text, predicted):
    with pytest.raises(SettingError, match=predicted):
        HALVES.parse([text])


def test_result_is_kept_and_read_again(tmp_path):
    record = ran(tmp_path, size=5)
    again = load_record(HALVES, {"size": 5}, tmp_path)
    assert again is not None and again.holds and again.agreement == record.agreement
    assert json.loads(json.dumps(again.parameters)) == json.loads(json.dumps(record.parameters))
    assert len(again.plots) == len(record.plots) == 1
    for ours, theirs in zip(again.plots, record.plots, strict=True):
        assert json.loads(ours.figure) == json.loads(theirs.figure)
        assert ours._replace(figure="") == theirs._replace(figure="")
    arrays = np.load(tmp_path / "halves" / "result.npz")
    np.testing.assert_array_equal(arrays["values"], np.arange(5) / 2)
    assert json.loads((tmp_path / "halves" / "summary.json").read_text())["result"]["label"] == "a"


def test_result_of_something_else_or_a_changed_byte_is_not_reused(tmp_path):
    made = ran(tmp_path, size=5)
    assert load_record(HALVES, {"size": 5}, tmp_path).agreement == made.agreement
    assert load_record(HALVES, {"size": 6}, tmp_path) is None
    for name in ("summary.json", "figures.json"):
        file = tmp_path / "halves" / name
        whole = file.read_text()
        other_code = json.dumps(dict(json.loads(whole), digest="0")) if name[0] == "s" else "[]"
        for text in (
            whole.replace("1", "2"),
            whole[:40],
            whole[:-30],
            "[" * 100_000,
            "3",
            other_code,
        ):
            file.write_text(text)
            assert load_record(HALVES, {"size": 5}, tmp_path) is None
        file.write_text(whole)
    file.unlink()
    assert load_record(HALVES, {"size": 5}, tmp_path) is None


def test_a_result_that_is_no_number_is_kept_as_broken(tmp_path):
    ran(tmp_path, scale=float("nan"))
    again = load_record(HALVES, {"scale": float("nan")}, tmp_path)
    assert again is not None and not again.holds


def test_finished_experiments_are_not_run_again(tmp_path, only_halves, monkeypatch):
    wanted = chosen(["halves"], ["size=7"], 3)
    assert wanted == [(HALVES, {"seed": 3, "size": 7})]
    list(run_lab(wanted, tmp_path))
    calls = []
    plots = halves_plots
    monkeypatch.setitem(globals(), "halves_plots", lambda r: calls.append(r) or plots(r))
    list(run_lab(wanted, tmp_path))
    assert not calls
    list(run_lab(wanted, tmp_path, fresh=True))
    assert len(calls) == 1


def test_one_that_cannot_run_stops_alone_and_is_told_among_others(tmp_path, only_halves):
    with pytest.raises(SettingError, match="data must be there"):
        list(run_lab(chosen(["lacking"], [], 0), tmp_path))
    steps = []
    settings = LabSettings(("all",), out=tmp_path, command="datassay lab all")
    findings = run(settings, progress=lambda *step: steps.append(step))
    assert [(r.name, r.holds) for r in findings.records] == [("halves", True), ("lacking", False)]
    assert ("experiments", 0, 2) in steps and ("halves: halving", 1, 1) in steps
    page = lab_page.page(findings)
    html = render(page)
    assert "Not run: data must be there; got none." in html
    assert "1 of 1 statements hold in this run." in html
    experiments = json.loads(lab_page.files(findings, page)["summary.json"])["experiments"]
    assert [t["problem"] is None for t in experiments] == [True, False]


@in_browser
def test_the_page_in_a_browser(browser, tmp_path):
    path, parameters = tmp_path / "index.html", ("steps=50", "n_features=4")
    findings = run(LabSettings(("weight-decay",), parameters, out=tmp_path))
    path.write_text(render(lab_page.page(findings)), encoding="utf-8")
    for width in (1280, 390):
        opened(browser, path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert severe(browser) == []
    assert len(browser.find_elements("css selector", ".figure svg.main-svg")) >= 1
    assert browser.find_element("css selector", ".finding").text.endswith("not hold here.")


def test_the_lab_imports_what_is_public():
    """From `datassay` and the modules right below it, not from the files behind its faces."""
    for file in LAB.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"(?:from|import) (datassay\.\w+\.[\w.]+)", text), file


def test_choice_is_checked(only_halves):
    with pytest.raises(SettingError, match="set changes one experiment's parameters"):
        chosen(["all"], ["size=3"], 0)
    with pytest.raises(DataError, match="seed must be"):
        chosen(["halves"], [], -1)
    assert [e.name for e, _ in chosen(["lacking", "halves"], [], 0)] == ["halves", "lacking"]


def test_page_escapes_and_names_what_broke(tmp_path, only_halves):
    parameters = ("scale=8.0", "names=<i>evil</i>\nlines")
    page = render(lab_page.page(run(LabSettings(("halves",), parameters, out=tmp_path))))
    body = page.split("<main", 1)[1].split("<footer", 1)[0]
    assert "<b>title" not in body and "&lt;b&gt;title" in body and "<i>evil" not in page
    assert "This does not hold here." in page
    assert (
        "Checked by one number, a &lt;b&gt; of halves &amp; more: 2.00, required: at most 0.5"
        in page
    )
    assert "The plots show the rest. With " in page
    assert "&lt;i&gt;evil&lt;/i&gt;\nlines</code></pre>" in body and 'class="across"' in body


def test_summary_holds_small_arrays_only(tmp_path):
    assert "values" in summary(ran(tmp_path, size=4))["result"]
    assert "values" not in summary(ran(tmp_path, size=40))["result"]


@pytest.mark.parametrize(
    ("rule", "value", "predicted"),
    [
        (whole(), 1.0, "n must be a whole number of at least 1; got 1.0"),
        (whole(), True, "n must be a whole number"),
        (positive(), 0.0, "n must be finite and positive"),
        (positive(), float("inf"), "n must be finite and positive"),
        (positive(1.0), 2.0, r"n must lie in \(0, 1\); got 2.0"),
        (rising(1), (4, 2), "n must be 2 or more increasing numbers >= 1"),
        (rising(1), (0, 2), "increasing numbers >= 1"),
        (rising(1), (3,), "2 or more"),
        (rising_whole(1), (1, 2.5), "each of n must be a whole number of at least 1; got 2.5"),
        (rising_whole(1), (2, 1), "n must be 2 or more increasing numbers"),
        (one_of(("a", "b")), "c", "n must be 'a' or 'b'; got 'c'"),
        (share, 0.0, r"n must lie in \(0, 1\]; got 0.0"),
    ],
)
def test_rules_refuse(rule, value, predicted):
    with pytest.raises(SettingError, match=predicted):
        rule("n", value)


def test_exponent_and_error():
    x = np.array([1.0, 10.0, 100.0])
    assert exponent(x, 3 * x**-0.5) == pytest.approx(-0.5)
    assert relative_error(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)


def test_long_lines_are_thinned_and_keep_their_ends():
    figure = axes("x", "y", log="xy")
    add_data(figure, np.arange(1, 5001), np.arange(1, 5001), "long", spread=np.ones(5000))
    drawn = Plot("long", figure, "a line").figure.data[0]
    assert len(drawn.x) == 600 and drawn.x[0] == 1 and drawn.x[-1] == 5000
    assert len(drawn.error_y.array) == 600
    assert len(figure.layout.xaxis.tickvals) >= 3


def test_pictures_share_a_scale_or_fill_their_own():
    images = np.stack([np.eye(3), 4 * np.eye(3)])
    shared, own = (pictures(images, ["a", "b"], shared=s) for s in (True, False))
    assert [t.zmax for t in shared.data] == [4, 4]
    assert [t.zmax for t in own.data] == [1, 4]
    signed = pictures(-images, ["a", "b"], signed=True)
    assert (signed.data[0].zmin, signed.data[0].zmax) == (-4, 4)
