"""`--model` names the user's scikit-learn model: it judges labels and is retrained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier

import datassay as da
from datassay.act.remove.removal_curve import removal_curve
from datassay.commands.run.job import run
from datassay.commands.run.keep import run as keep_set
from datassay.commands.run.page import page
from datassay.commands.run.settings import KeepSettings, RunSettings
from datassay.commands.run.steps.plan import plan
from datassay.commands.run.steps.settings import with_network
from datassay.data.samples import wrong_labels
from datassay.errors import ModelError, SettingError
from datassay.report.html import render
from datassay.train.folds import make_splits
from datassay.train.learner import Estimators

NEIGHBORS = "sklearn.neighbors:KNeighborsClassifier"


@pytest.fixture(scope="module")
def iris():
    return da.add_label_noise(da.load("iris")[0].subset(np.arange(105)), 0.2, seed=0)


@pytest.fixture(scope="module")
def found(iris):
    return run(iris, None, RunSettings(model=NEIGHBORS, curve_seeds=2, attribution="none"))


@pytest.mark.slow
def test_the_users_model_judges_the_labels(iris, found):
    own = da.label_issues(iris, model=KNeighborsClassifier())
    np.testing.assert_array_equal(found.issues.score, own.score)
    assert found.facts["Labels judged by"].startswith("KNeighborsClassifier, 5-fold")
    assert "information, effects) are of mlp" in found.facts["Your model"]
    assert found.facts["Model"].startswith("mlp")
    assert found.influence is not None and np.isfinite(found.influence.variance).all()
    assert found.information.information.max() > 0
    assert found.acts.n_parts == 5 and found.acts.n_held_out == len(iris)


@pytest.mark.slow
def test_the_users_model_is_retrained(iris, found):
    """The definition at one point: fitted to what is kept of each fifth's rest."""
    ranking = "lowest information first"
    order = np.argsort(found.information.information, kind="stable")
    again = removal_curve(Estimators(KNeighborsClassifier(), 2), iris, None, {ranking: order})
    np.testing.assert_array_equal(found.removal_curve.at(ranking, 0.5), again.at(ranking, 0.5))
    whole = found.removal_curve.score[:, 0]
    assert (whole == whole[0]).all()
    assert "KNeighborsClassifier, fitted anew" in found.facts["Retraining"]


@pytest.mark.slow
def test_the_page_tells_who_judged(found):
    reported = dict(page(found).method)["Held out"]
    assert "KNeighborsClassifier, 5-fold cross-validation: a fit that has not seen" in reported


def test_a_curve_of_one_fit_by_hand(iris):
    train, val = iris.subset(np.arange(0, 60)), iris.subset(np.arange(60, 100))
    order = np.arange(60)[::-1]
    fits = Estimators(KNeighborsClassifier(3), 1)
    curve = removal_curve(fits, train, val, {"back": order}, fractions=[0.5])
    kept = KNeighborsClassifier(3).fit(train.x[:30], train.y[:30])
    assert curve.at("back", 0.5)[0] == (kept.predict(val.x) == val.y).mean()
    assert curve.rankings == ("back", "random") and curve.metric == "accuracy"


def test_summaries_and_plans_take_it_too(iris):
    settings = RunSettings(model=NEIGHBORS, curve_seeds=0)
    keep = keep_set(iris, None, settings, KeepSettings(fraction=0.7, drop_suspects=True)).keep
    suspects = da.label_issues(iris, model=KNeighborsClassifier()).to_try
    assert suspects[keep.removed].sum() > suspects[keep.keep].sum()
    assert wrong_labels(iris)[keep.removed].sum() > wrong_labels(iris)[keep.keep].sum()
    assert plan(iris, None, settings).form.n_parameters > 0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"model": "sklearn.linear_model:Ridge"}, ModelError, "must be a classifier"),
        ({"model": "sklearn.linear_model:nothing"}, ModelError, "that can be imported"),
        (
            {"model": NEIGHBORS, "weights": Path("w.safetensors")},
            SettingError,
            "weights are of a net",
        ),
        ({"model": "sklearn.preprocessing:StandardScaler"}, ModelError, "model"),
    ],
)
def test_what_is_no_model_for_this_is_one_line(iris, settings, error, message):
    with pytest.raises(error, match=message):
        run(iris, None, RunSettings(**settings))


@pytest.mark.slow
def test_without_a_model_a_table_names_the_model_that_its_actions_were_trained_with():
    """The oracle: the score as it is, by scikit-learn's trees on each fifth."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 4))
    y = ((x[:, 0] * x[:, 1] > 0) ^ (rng.random(240) < 0.1)).astype(int)
    train, _ = da.load((x, y), val_fraction=0)
    settings = RunSettings(curve_seeds=2, attribution="none")
    found, scores = run(train, None, settings), []
    for f, held in enumerate(make_splits(train, None, 5, 0).test_idx):
        rest = np.setdiff1d(np.arange(len(train)), held)
        seeds = range(found.acts.n_seeds * f, found.acts.n_seeds * (f + 1))
        for seed in seeds:
            one = HistGradientBoostingClassifier(early_stopping=True, random_state=seed)
            one.fit(train.x[rest], train.y[rest])
            scores.append(one.score(train.x[held], train.y[held]))
    assert found.acts.model == "boosted trees"
    assert found.acts.score_given == pytest.approx(np.mean(scores))
    html = render(page(found))
    assert "Each action was done and boosted trees trained again" in html
    assert "give yours with --model" in html
    assert with_network(replace(settings, model="mlp"), train).is_open is False
    assert any("boosted trees" in step.detail for step in plan(train, None, settings).steps)
