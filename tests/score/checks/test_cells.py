"""Inputs that look wrong beside a suspected target: named, and the target stays as it is given."""

import numpy as np
import pandas as pd
import pytest

import datassay as da
from datassay.score.checks.cells import mark_cells, strange_cells


def people(seed=0, n=200):
    rng = np.random.default_rng(seed)
    height = rng.normal(170, 9, n).round()
    weight = (0.9 * height - 90 + rng.normal(0, 4, n)).round()
    sex = rng.choice(["F", "M"], n)
    return pd.DataFrame({"sex": sex, "height": height, "told": height + 1, "weight": weight})


def loaded(frame, target="weight"):
    return da.load(frame, target=target, val_fraction=0, task="regression")[0]


def judged(frame):
    samples = loaded(frame)
    lin = da.collect(da.build_model("linear", samples), samples)
    return da.label_issues(lin), samples


def test_columns_swapped_with_the_target_are_named_and_the_target_stays():
    frame = people()
    frame.loc[11, ["height", "weight"]] = [62.0, 171.0]
    issues, samples = judged(frame)
    marked = mark_cells(issues, samples)
    assert marked.is_issue[11] and dict(marked.cells) == {
        11: "height 62 and weight 171 look swapped"
    }
    assert marked.suggested_label[11] == 171.0 != issues.suggested_label[11]
    others = np.arange(len(samples)) != 11
    assert np.array_equal(marked.suggested_label[others], issues.suggested_label[others])


@pytest.mark.parametrize("value", [0.0, -170.0, 1700.0, 17.0])
def test_an_impossible_input_is_named_with_what_others_have(value):
    frame = people()
    frame.loc[5, ["height", "weight"]] = [value, 300.0]
    suspect = np.arange(len(frame)) == 5
    cells = strange_cells(loaded(frame), suspect, suspect)
    low, high = np.quantile(frame.height.drop(5), [0.01, 0.99])
    assert cells == {5: f"height {value:g}, of most {low:g} to {high:g}"}


def test_two_inputs_that_are_swapped_are_named_once():
    frame = people().assign(year=np.arange(200) + 1800.0)
    frame.loc[7, ["height", "year", "weight"]] = [1850.0, 171.0, 20.0]
    suspect = np.arange(200) == 7
    assert strange_cells(loaded(frame), suspect, suspect) == {
        7: "height 1850 and year 171 look swapped"
    }


@pytest.mark.parametrize("spread", ["normal", "log-normal", "counts", "few values", "half zeros"])
def test_inputs_as_they_come_are_not_strange(spread):
    rng = np.random.default_rng(3)
    x = {
        "normal": lambda: rng.normal(size=2000),
        "log-normal": lambda: np.exp(rng.normal(size=2000)),
        "counts": lambda: rng.poisson(3, 2000),
        "few values": lambda: (rng.random(2000) < 0.02).astype(int) * 9,
        "half zeros": lambda: np.maximum(0, rng.normal(size=2000)),
    }[spread]()
    samples = loaded(
        pd.DataFrame({"x": x, "other": rng.normal(size=2000), "y": rng.random(2000)}), "y"
    )
    every = np.ones(2000, bool)
    assert len(strange_cells(samples, ~every, every)) <= 1


def test_arrays_are_looked_at_and_classes_are_not():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(100, 2))
    x[3, 1] = 90.0
    samples, _ = da.load((x, rng.normal(size=100)), val_fraction=0)
    suspect = np.arange(100) == 3
    assert list(strange_cells(samples, suspect, suspect)) == [3]
    classes, _ = da.load((x, np.arange(100) % 2), val_fraction=0)
    issues = da.label_issues(da.collect(da.build_model("linear", classes), classes))
    assert mark_cells(issues, classes) is issues and not issues.cells
