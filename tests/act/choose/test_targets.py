"""Actions on numbers: judged on held-out targets that are not suspected."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import datassay as da
from datassay.act.choose.action import RELABEL, REMOVE, relabelling
from datassay.act.choose.compare import compare_actions
from datassay.act.choose.looks import Comparison, analyses, base_predictions
from datassay.act.choose.parts import LOOK, SURE, SUSPECTED, fifths
from datassay.stats import DO, widen_by_variance
from datassay.train.learner import Estimators

N = 300


def prices(factor, seed=0, n_wrong=9):
    """Right and given targets of samples that a line predicts; a few are in another unit."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    true = 50 + x @ [9.0, 5.0, 3.0] + rng.normal(size=N)
    wrong = rng.permutation(N) < n_wrong
    return x, true, np.where(wrong, true * factor, true), wrong


def parts_of(x, y, doubt, learner=lambda some, f: Estimators(Ridge(), 2, seed=f)):
    samples, _ = da.load((x, y), val_fraction=0)
    lin = da.collect(da.build_model("linear", samples), samples)
    if doubt is None:
        doubt = da.label_issues(lin).probability
    return fifths(
        lin, samples, np.arange(N) * 1.0, 5, noise=None, doubt=doubt, learner=learner,
        judge=lambda sub, some: (da.label_issues(sub), 1.0),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("factor", [10.0, 1 / 12, -1.0])
def test_correcting_targets_in_another_unit_gains_what_it_gains_of_right_ones(factor):
    x, true, given, wrong = prices(factor)
    table = compare_actions(parts_of(x, given, None), budget=60.0)
    rows = {row.kind: row for row in table.actions}
    assert table.actions[0].kind in {RELABEL, REMOVE} and table.best.advice == DO
    fits = [Ridge().fit(x, y).predict(x) for y in (given, true)]
    gain = np.square(fits[0] - true).mean() - np.square(fits[1] - true).mean()
    row = rows[RELABEL]
    assert row.low > 0 and row.gain == pytest.approx(gain / true.var(), rel=0.35)
    assert table.n_suspected == wrong.sum() and table.is_corrected and table.score < 0.99
    assert row.given < row.gain  # held-out targets in the other unit hide it


def test_rules_count_what_is_likely_right_by_one_variance():
    x, true, _, _ = prices(1.0)
    doubt = np.repeat([0.0, 0.2, 0.7, 0.95], N // 4)
    part = parts_of(x, true, doubt)[0]
    held, low, high = part.scoring_rule, *part.extremes
    for rule, most in ((held, SUSPECTED), (low, SURE), (high, LOOK)):
        rows = part.doubt <= most
        assert np.array_equal(rule.rows, rows) and rule.is_corrected
        outputs = np.full((1, len(rows), 1), 50.0)
        expected = 1 - (50.0 - part.held_out.y[rows]) ** 2 / true[doubt <= most].var()
        np.testing.assert_allclose(rule.scores(outputs)[0], expected)
    as_given = held.scores(np.full((1, len(part.held_out), 1), 50.0), as_given=True)
    assert as_given.shape == (1, len(part.held_out))


def test_where_all_are_suspected_all_count():
    x, true, _, _ = prices(1.0)
    part = parts_of(x, true, np.ones(N))[0]
    assert part.scoring_rule.rows.all() and not part.scoring_rule.is_corrected


def test_ends_allow_for_fits_to_all_samples_and_for_the_error_of_the_variance():
    x, true, given, wrong = prices(10.0)
    parts = parts_of(x, given, np.where(wrong, 0.95, 0.0))
    held_out = np.concatenate([part.held_out.ids for part in parts])
    assert np.array_equal(np.sort(held_out), np.arange(N))
    actions = [
        relabelling(part.train, true[part.train.ids], wrong[part.train.ids]) for part in parts
    ]
    key = actions[0].key
    proposed = [{key: action} for action in actions]
    comparison = Comparison(parts, proposed, base_predictions(parts))
    for analysis in analyses(parts):
        comparison.train([key], analysis)
    gain = comparison.gain(key, is_searched=False)
    expected = widen_by_variance(
        gain.gain, gain.low - gain.gain / 5, gain.high, true[held_out][~wrong[held_out]]
    )
    assert comparison.bounds(key, gain) == pytest.approx(expected)
