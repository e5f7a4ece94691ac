"""An action of another package is in the table, the page, the summary, the help and the plan."""

import json

import numpy as np
import pytest

from datassay.act.choose.kinds import action_kinds, likely_fits, most_fits
from datassay.commands.run.steps import budget
from datassay.commands.run.steps.acts import CURVE_MODELS
from datassay.commands.shell import out_console
from datassay.errors import SettingError
from datassay.plugins import plugins
from helpers.command_line import succeed
from helpers.distributions import distribution

FEW = ("few.npz", "--model", "linear", "--curve-seeds", "2")


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Put a distribution with one entry point of `datassay.actions` on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    # The console reads COLUMNS once, when it is made: whichever test came first decided.
    monkeypatch.setattr(out_console, "_width", 200)

    yield lambda target: distribution(tmp_path, "thin", f"[datassay.actions]\nthin = {target}\n")
    plugins.cache_clear()


def test_an_action_of_one_module_is_everywhere(add, tmp_path, monkeypatch):
    before = most_fits()
    add("helpers.toy_action:ACTION")
    assert most_fits() == before + 7 and list(action_kinds())[-1] == "thin"

    x = np.random.default_rng(0).normal(size=(130, 2))
    np.savez("few.npz", x=x, y=(x[:, 0] > 0).astype(int))

    with monkeypatch.context() as short:
        short.setattr(budget, "SECONDS", 1.0)
        shown = succeed("run", *FEW, "--verbose", "--out", "out").output
    assert "Thin out" in shown
    assert "Thin out" in (tmp_path / "out" / "index.html").read_text()
    actions = json.loads((tmp_path / "out" / "summary.json").read_text())["actions"]["actions"]
    (row,) = (one for one in actions if one["kind"] == "thin")
    assert row["words"] == "Thin out" and row["control_words"] == "as many at random"
    assert "thin: Every tenth sample is left out." in succeed("run", "--help").output
    plan = succeed("run", *FEW, "--plan").output
    networks = likely_fits() * 10 + CURVE_MODELS * action_kinds()["more"].fits
    assert f"about {networks} networks, 5 held-out parts" in " ".join(plan.split())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("helpers.toy_action:propose", "must name an ActionKind"),
        ("datassay.act.actions.drop:ACTION", "must have a name of its own"),
        ("helpers.no_action:ACTION", "cannot be imported"),
    ],
)
def test_what_is_no_action_is_refused(add, target, message):
    add(target)
    with pytest.raises(SettingError, match=message):
        action_kinds()
