"""Every experiment: its statement holds and can break, its seed decides, its figures are whole."""

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import datassay_lab
from datassay.errors import SettingError
from datassay.progress import silent
from datassay_lab.catalog import experiment, experiments
from datassay_lab.experiment import KINDS, kind_of


@pytest.fixture(autouse=True)
def the_global_generator_stays():
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def test_every_experiment_has_its_file():
    names = [e.name for _, e in experiments()]
    assert len(set(names)) == len(names)
    files = Path(datassay_lab.__file__).parent.rglob("*.py")
    results = {p.stem.replace("_", "-") for p in files if "@check_args\n" in p.read_text("utf-8")}
    assert results - {"checks"} == set(names)


def test_experiment_is_complete(named):
    e = experiment(*named)
    assert e.statement.endswith(".") and e.look_for.endswith((".", ".)"))
    assert e.formula.strip() and "S2" in e.source and not e.source.endswith(".")
    signature = inspect.signature(e.run)
    assert all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values())
    assert signature.parameters["progress"].default is silent
    assert e.defaults["seed"] == 0
    for value in e.defaults.values():
        one = value[0] if isinstance(value, tuple) else value
        assert type(one) in KINDS and kind_of(value)
    described = inspect.getdoc(e.run)
    assert "Source: S2" in described and "Cost:" in described
    assert all(f"    {name}: " in described for name in signature.parameters)


# Where the change is no case of the table: it shows in a figure, or in a test of its own.
UNTABLED = {"gan", "matrix-completion", "pde-discovery", "simulated-laws", "network-dictionary"}


def test_a_lesson_asks_and_what_it_changes_is_what_the_tests_break(named, broken_by):
    e = experiment(*named)
    assert "?" in e.question and e.exercise and e.expected.endswith(".")
    changed = e.parse(e.what_if)
    assert changed and changed.items().isdisjoint(e.defaults.items())
    cases = broken_by.get(e.name, ())
    assert e.name in UNTABLED or any(changed.items() <= case.items() for case in cases)


ANY_NUMBER = {("normalization", "mean"), ("finite-steps", "factor")}


def test_each_parameter_has_a_rule_that_names_it(named):
    e = experiment(*named)
    wrong = {int: lambda v: -1, float: lambda v: float("nan"), str: lambda v: "?",
             tuple: lambda v: (2 * v[-1], v[0])}  # fmt: skip
    for name, value in e.defaults.items():
        if name != "seed" and type(value) is not bool and (e.name, name) not in ANY_NUMBER:
            with pytest.raises(SettingError, match=name):
                e.run(**{name: wrong[type(value)](value)})


def test_what_does_not_go_together_is_refused(refused):
    name, wrong, predicted = refused
    with pytest.raises(SettingError, match=predicted):
        experiment(name).run(**wrong)


def test_the_statement_holds(smaller, small):
    assert small(smaller[0]).agreement.holds, small(smaller[0]).agreement


@pytest.mark.slow
def test_it_would_notice_where_the_statement_is_false(broken):
    name, parameters = broken
    assert not experiment(name).run(**parameters).agreement.holds


@pytest.mark.slow
def test_the_seed_decides_and_figures_draw_theory_dashed(smaller, small):
    name, given, tiny = smaller
    run = experiment(name).run
    one, two = small(name) if tiny == given else run(**tiny), run(**tiny)
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(two, field.name))
    drawn = experiment(name).plots(one)
    assert 1 <= len(drawn) <= 4
    assert all(plot.title and plot.text and plot.figure.data for plot in drawn)
    dashes = {getattr(getattr(t, "line", None), "dash", None) for p in drawn for t in p.figure.data}
    assert "dash" in dashes and len(dashes) > 1
