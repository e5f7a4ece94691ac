"""The main job: everything it finds is aligned, repeatable and compared with its baselines."""

import json
import logging
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import datassay as da
from datassay.act.remove.removal_curve import (
    HIGHEST_FIRST,
    LOWEST_FIRST,
    RANDOM,
    SUSPECTS_FIRST,
    train_all,
)
from datassay.commands.run import job
from datassay.commands.run.figures import stand_ins
from datassay.commands.run.files import files
from datassay.commands.run.job import run, starting_network
from datassay.commands.run.keep import run as keep_set
from datassay.commands.run.page import page as run_page
from datassay.commands.run.settings import KeepSettings, RunSettings
from datassay.commands.run.steps import acts
from datassay.commands.run.steps import scores as groups
from datassay.commands.run.steps.plan import plan
from datassay.commands.run.steps.scores import issues_of, score_facts
from datassay.commands.run.steps.settings import check_settings
from datassay.commands.run.table import attribution_table, score_table
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import silent
from datassay.report.html import render
from datassay.score.checks.data_issues import data_issues, grouping_columns
from datassay.score.checks.images import image_properties
from datassay.score.information.average import average_information
from datassay.score.information.groups import group_information
from datassay.score.information.pairs import nearest_pairs
from datassay.score.labels import judges
from datassay.train.fitter import taken_network
from datassay.train.retrain import retrain
from helpers.consistent import contradictions

SETTINGS = RunSettings(model="mlp:width=16", outputs="averaged", curve_seeds=2, seed=5)
FACTS = ["Data", "Model", "Linearised training", "Step size", "Jacobian", "Scores", "Seed"]


def small_digits(n, m=60):
    train, val = da.load("digits")
    return train.subset(np.arange(n)), val.subset(np.arange(m))


@pytest.fixture(scope="module", autouse=True)
def without_acts():
    """The table of actions costs more than all else; one test has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "act_table", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def noisy():
    train, val = small_digits(160)
    return da.add_label_noise(train, 0.15), val


@pytest.fixture(scope="module")
def findings(noisy):
    steps = []
    result = run(*noisy, SETTINGS, lambda step, done, total: steps.append((step, done, total)))
    return result, steps


def test_findings_are_in_the_order_of_the_samples(noisy, findings):
    train, val = noisy
    result, _ = findings
    assert result.samples is train
    assert result.validation is val
    for ids in (result.information.ids, result.issues.ids, result.baselines.ids):
        assert np.array_equal(ids, train.ids)
    loo = result.leave_one_out
    for values in (loo.prediction_change, loo.weight_change, result.baselines.loss):
        assert values.shape == (160,)
        assert np.isfinite(values).all()


def test_the_curve_holds_every_ranking_and_seed(findings):
    curve = findings[0].removal_curve
    assert "24 labels flipped on purpose" in findings[0].facts["Label noise"]
    assert {LOWEST_FIRST, HIGHEST_FIRST, SUSPECTS_FIRST, RANDOM} <= set(curve.rankings)
    assert curve.score.shape == (len(curve.rankings), len(curve.fractions), 2)
    assert (curve.score[:, 0] == curve.score[0, 0]).all()


def test_an_ensemble_that_is_not_fitted_and_so_has_no_length_is_a_model(noisy):
    own = RandomForestClassifier(5, random_state=0)
    result = run(noisy[0].subset(np.arange(60)), noisy[1], replace(SETTINGS, estimator=own))
    assert result.issues.judge.startswith("RandomForestClassifier")


def test_the_page_tells_of_all_actions_without_a_contradiction(noisy, monkeypatch):
    monkeypatch.setattr(job, "act_table", acts.act_table)
    train, val = noisy[0].subset(np.arange(100)), replace(noisy[1], split_off=False)
    result = run(train, val, replace(SETTINGS, estimator=LogisticRegression()))
    kinds = [action.kind for action in result.acts.actions]
    assert {"relabel", "remove", "drop", "reweight"} <= set(kinds)
    assert any("at most 40 columns" in one for one in result.acts.left_out)
    assert result.acts.n_parts == 1 and result.acts.n_held_out == 60
    mend = next(act for act in result.acts.actions if act.kind == "relabel")
    assert mend.changed == result.issues.to_try.sum()
    assert mend.low < mend.gain < mend.high and mend.how == "retrained"
    page = run_page(result)
    (section,) = (one for one in page.sections if one.anchor == "acts")
    (table,) = [b for b in section.blocks if hasattr(b, "rows")]
    assert [row.name for row in table.rows] == [act.words for act in result.acts.actions]
    assert contradictions(render(page), json.loads(files(result, page)["summary.json"])) == []


def test_groups_of_which_more_is_wanted_are_told_by_columns_of_their_samples(monkeypatch):
    train, told = small_digits(40)[0], Mock(side_effect=DataError)
    some = train.subset(np.arange(30, 3, -2))  # a part, in another order
    monkeypatch.setattr(acts, "screen", Mock())
    monkeypatch.setattr(acts, "find_weak_groups", told)
    acts._name_wanted(Mock(train=some), data_issues(train), SETTINGS)
    assert told.call_args.args[2].equals(grouping_columns(some, image_properties(some)))


def test_facts_name_what_was_run(findings):
    facts = findings[0].facts
    assert set(FACTS) | {"Retraining", "Version", "Seconds"} <= set(facts)
    assert "160 training, 60 validation" in facts["Data"]
    assert "mlp:width=16, 1,210 parameters, at initial weights" in facts["Model"]
    assert facts["Version"] == da.__version__
    assert "Command" not in facts


def test_each_validation_sample_is_attributed(noisy, findings):
    result, (_, val) = findings[0], noisy
    assert result.query_outputs.shape == (60, 10)
    assert (result.query_outputs.argmax(1) == val.y).mean() > 0.7
    assert result.attribution.measure == "output"
    assert result.attribution.top.raising.shape == (60, 5)
    assert np.array_equal(
        result.attribution.prediction_change, result.leave_one_out.prediction_change
    )
    assert result.groups["class"].count.sum() == 160
    assert list(result.groups) == ["class"]


def test_classes_and_sources_are_left_out_as_one(noisy, findings):
    train, val = noisy
    whole, sums = findings[0].whole_groups["class"], findings[0].groups["class"]
    assert whole.names.tolist() == sums.names.tolist()
    assert (whole.information > sums.total).all()
    lin = da.collect(starting_network(train, SETTINGS), train, val, outputs="averaged")
    names = np.array(train.class_names)[train.y]
    expected = group_information(lin, names).information
    np.testing.assert_allclose(whole.information, expected, rtol=1e-9)
    source = np.repeat(["b", "a", "c"], [60, 50, 50])
    bare = replace(SETTINGS, curve_seeds=0, attribution="none", smoothing="isotropic")
    result = run(replace(train, source=source), val, bare)
    assert result.whole_groups["source"].names.tolist() == ["a", "b", "c"]
    assert result.whole_groups["source"].smoothing == "isotropic"


def test_each_sample_is_asked_about_with_its_likest(noisy, findings):
    train, val = noisy
    pairs = findings[0].pairs
    lin = da.collect(starting_network(train, SETTINGS), train, val, outputs="averaged")
    assert np.array_equal(pairs.pairs, nearest_pairs(lin))
    alone = group_information(lin, list(pairs.pairs[:5, :1])).information
    np.testing.assert_allclose(pairs.single[:5, 0], alone, rtol=1e-6)
    expected = group_information(lin, list(pairs.pairs[:5])).information
    np.testing.assert_allclose(pairs.joint[:5], expected, rtol=1e-9)


@pytest.mark.slow
def test_trained_networks_explained_instead_change_no_other_bit_and_scores_show_first(
    noisy, findings
):
    train, val = noisy
    early: list = []
    settings = replace(SETTINGS, attribution_at="trained")
    result, start = run(train, val, settings, first=early.append), findings[0]
    (scored,) = early
    assert (scored.removal_curve, scored.acts, result.pending) == (None, None, "")
    assert scored.pending == run_page(scored).note
    own = score_table(scored)
    assert score_table(result).select(own.column_names).equals(own)
    for a, b in (
        (start.information.information, result.information.information),
        (start.leave_one_out.prediction_change, result.leave_one_out.prediction_change),
        (start.issues.score, result.issues.score),
        (start.removal_curve.score, result.removal_curve.score),
    ):
        assert np.array_equal(a, b, equal_nan=True)
    assert (result.attribution_at, result.attribution.measure) == ("trained", "margin")
    np.testing.assert_allclose(result.query_outputs.sum(1), 1)
    # By hand: the same networks again, and the mean of their effects.
    models = [da.build_model("mlp:width=16", train, seed=5 + index) for index in range(2)]
    networks = train_all(models, train, seed=SETTINGS.seed)
    trained = [taken_network(models[0], networks, s) for s in range(2)]
    mean = da.influence(trained, train, val, measure="margin", seed=5).effect
    np.testing.assert_allclose(
        result.attribution.top.raising_effect[:, 0], mean.max(0), rtol=1e-6, atol=1e-9
    )
    assert not np.array_equal(result.attribution.top.raising, start.attribution.top.raising)


def test_a_check_retrains_the_real_network(noisy):
    train, val = noisy
    settings = replace(SETTINGS, curve_seeds=0, check=6, steps=50)
    result = run(train, val, settings)
    check = result.check
    assert len(set(check.removed.tolist())) == 6
    assert np.array_equal(check.linearised, result.leave_one_out.prediction_change[check.removed])
    model = starting_network(train, settings)
    lin = da.collect(model, train, val, outputs="averaged")
    step = da.leave_one_out(lin, steps=50).run.step
    real = retrain(
        model, train, val, lr=step, steps=50, reduction="sum", loss="mse", removed=check.removed
    )
    np.testing.assert_allclose(check.retrained, real.prediction_change, rtol=1e-4)
    mean = run(train, val, replace(settings, lr=step * 160, reduction="mean")).check
    real = retrain(model, train, val, lr=step * 160, steps=50, loss="mse", removed=check.removed)
    np.testing.assert_allclose(mean.retrained, real.prediction_change, rtol=1e-4)
    assert result.warnings == () or "another order" not in result.warnings[-1]


def test_information_beside_subsets_is_the_librarys_own_and_has_columns(noisy):
    train, val = noisy
    settings = replace(SETTINGS, curve_seeds=0, subsets=8, seed=3, sigma=2.0, steps=50)
    result = run(train, val, settings)
    model = starting_network(train, settings)
    lin = da.collect(model, train, val, outputs="averaged", seed=3)
    known = average_information(lin, draws=8, seed=3, sigma=2.0, steps=50)
    np.testing.assert_allclose(result.average.information, known.information, rtol=1e-9)
    table = score_table(result)
    assert table["average_information"].to_pylist() == result.average.information.tolist()
    assert table["average_information_error"].to_pylist() == result.average.standard_error.tolist()
    page = run_page(result)
    summary = json.loads(files(result, page)["summary.json"])["average_information"]
    assert summary["fractions"] == [0.25, 0.5, 0.75]
    assert summary["most_draws_a_sample"] == 6
    (section,) = (s for s in page.sections if s.anchor == "pairs")
    assert "Means over 6 draws per sample at most" in section.blocks[-1].text
    assert "average_information" not in score_table(run(train, val, replace(settings, subsets=0)))


def test_twins_are_told_to_stand_in_for_each_other():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)).astype("float32")
    x[:4] = x[4:8]  # four pairs of near-duplicates
    train = SampleSet(x, (x[:, 0] > 0).astype(int), ids=np.arange(40), class_names=("a", "b"))
    val = SampleSet(-x[8:], train.y[8:], ids=np.arange(32), class_names=("a", "b"))
    settings = RunSettings(model="mlp:width=32", curve_seeds=0, subsets=40, steps=20_000, seed=5)
    _, stood = stand_ins(run(train, val, settings))
    assert set(stood.tolist()) >= set(range(8))
    assert set(stood[:8].tolist()) == set(range(8))


def test_a_check_that_fails_is_a_warning(noisy):
    train, val = noisy[0].subset(np.arange(80)), noisy[1]
    settings = replace(SETTINGS, model="mlp:width=4,depth=3", curve_seeds=0, check=6)
    result = run(train, val, settings)
    assert result.check.rank < 0.5
    assert "in another order than the scores say" in result.warnings[-1]


def test_what_is_switched_off_or_takes_minutes_is_left_out_and_changes_no_score(
    noisy, findings, monkeypatch
):
    monkeypatch.setattr(groups, "MOST_GROUP_WORK", 1e6)
    settings = replace(SETTINGS, curve_seeds=0, attribution="none")
    bare = run(*noisy, settings, first=pytest.fail)
    assert (bare.removal_curve, bare.baselines) == (None, None)
    assert "Retraining" not in bare.facts
    assert not bare.whole_groups and bare.pairs is None and bare.attribution is None
    assert len(bare.groups["class"].names) == 10
    known = findings[0].information.information
    np.testing.assert_allclose(bare.information.information, known, rtol=1e-9)


def test_progress_ends_every_step(findings):
    _, steps = findings
    last = {step: (done, total) for step, done, total in steps}
    scoring = "collect Jacobians, eigendecomposition, leave each sample out, estimate label noise"
    assert ", ".join(list(last)[:4]) == scoring
    assert all(done == total for done, total in last.values())


@pytest.mark.parametrize(("n", "largest"), [(2, 0.0), (4, 0.5), (8, 0.75)])
def test_few_samples_are_removed_as_far_as_two_remain(n, largest):
    x = np.arange(2.0 * (n + 2)).reshape(-1, 2) ** 0.5
    y = np.arange(n + 2) % 2
    train, val = da.load((x[:n], y[:n], x[n:], y[n:]))
    result = run(train, val, replace(SETTINGS, curve_seeds=1))
    assert result.removal_curve.fractions[-1] == largest
    assert np.isfinite(result.removal_curve.score).all()


def test_one_validation_target_judges_no_regression():
    x = np.arange(10.0).reshape(-1, 2)
    train, val = da.load((x[:4], x[:4, 0], x[4:], np.ones(1)), task="regression")
    result = run(train, val, replace(SETTINGS, curve_seeds=1))
    assert result.removal_curve is None
    assert result.facts["Retraining"] == "left out: R² needs validation targets that differ"


def test_all_samples_are_scored_where_none_is_held_out(noisy):
    train = noisy[0]
    result = run(train, None, SETTINGS)
    page = run_page(result)
    assert result.validation is None and len(result.information.information) == 160
    for values in (result.information.information, result.issues.score, result.baselines.loss):
        assert np.isfinite(values).all()
    assert "160 samples, all for training; none is held out" in result.facts["Data"]
    assert "another fifth of the samples" in result.facts["Retraining"]
    assert result.removal_curve.score.shape[2] == 2
    assert "160 training samples" in page.lead and "validation" not in page.lead
    # Each is explained by the others, never by itself.
    own = attribution_table(result).to_pylist()
    assert len({row["query"] for row in own}) == 160
    assert all(row["id"] != row["query_id"] for row in own)
    lin = da.collect(starting_network(train, SETTINGS), train, outputs="averaged")
    loo = da.leave_one_out(lin)
    assert loo.on_training_inputs
    np.testing.assert_allclose(
        result.leave_one_out.prediction_change, loo.prediction_change, rtol=1e-9
    )
    planned = plan(train, None, SETTINGS)
    assert any(step.name == "attribution" for step in planned.steps)


def test_too_little_memory_is_logged_before_and_kept_after(caplog):
    train, val = da.load("iris")
    with caplog.at_level(logging.WARNING):
        result = run(train, val, replace(SETTINGS, curve_seeds=0, memory=1e4))
    assert any("GB are free" in w for w in result.warnings)
    assert [r.getMessage() for r in caplog.records] == list(result.warnings)


def test_only_the_suspects_that_go_count_as_dropped(noisy):
    """More labels are suspect than samples may go; none is held out."""
    typed = replace(SETTINGS, command="as typed")
    kept = keep_set(noisy[0], None, typed, KeepSettings(0.95, drop_suspects=True))
    assert len(kept.keep.removed) == kept.facts["suspects_dropped"] == 8
    assert kept.facts["kept"] == len(kept.keep.keep) == 152
    assert (kept.facts["command"], kept.facts["fraction"]) == ("as typed", 0.95)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subsets": 7}, "subsets must be at least 8 a size, .*, or 0 for none; got 7"),
        ({"check": 3}, "check must be at least 5 samples, or 0 for none; got 3"),
        ({"check": 5, "dynamics": "converged"}, "check must retrain by as many updates as"),
        ({"attribution_at": "end"}, "attribution_at must be 'start' or 'trained'; got 'end'"),
        (
            {"attribution_at": "trained", "curve_seeds": 0},
            "attribution_at trained must have networks that were trained; got curve_seeds 0",
        ),
        ({"reduction": "max"}, "reduction must be one of sum, mean, .*; got 'max'"),
    ],
)
def test_settings_are_refused_before_any_work(change, message):
    settings = replace(SETTINGS, **change)
    with pytest.raises(SettingError, match=message):
        check_settings(settings, 100)


def test_settings_that_only_the_kernel_can_judge_pass_the_first_check():
    check_settings(replace(SETTINGS, dynamics="descent", lr=1e6), 100)
    check_settings(replace(SETTINGS, weight_decay=0.5, reduction="mean"), 100)


def test_trees_judge_a_table_where_they_see_more(monkeypatch):
    """The class is the sign of a product, of which a linear fit sees nothing."""
    monkeypatch.setattr(judges, "MOST_SPLITS", 1)
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (1000, 3)).astype(np.float32)
    y = (np.sign(x).prod(1) > 0).astype(np.int64)
    table = SampleSet(x, y, np.arange(1000), ("no", "yes"))
    lin = da.collect(da.build_model("linear", table), table)
    issues = issues_of(lin, table, RunSettings(), silent)
    assert issues.weights[1] > 0
    judged = "linearised network, boosted trees, logistic regression; heard with weights"
    assert score_facts(issues, None)["Labels judged by"].startswith(judged)
