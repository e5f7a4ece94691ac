"""The table of actions: gains with wrong held-out labels, honest intervals, the right act first."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.act.actions.review import expected_review_gain
from datassay.act.choose import compare, looks
from datassay.act.choose import kinds as registry
from datassay.act.choose.action import (
    COPIES,
    DROP,
    RELABEL,
    REMOVE,
    SPLIT,
    Blocks,
    as_it_is,
    predictions,
    relabelling,
    removal,
    splitting,
    weighting,
)
from datassay.act.choose.compare import compare_actions
from datassay.act.choose.gains import ActionGain
from datassay.act.choose.kinds import (
    ProposalScores,
    action_kinds,
    combine_actions,
    likely_fits,
    proposals,
)
from datassay.act.choose.learner import Chosen, best_learner
from datassay.act.choose.parts import BALANCED, Part, fifths, mark_trusted, scoring_rule, with_share
from datassay.act.choose.screen import find_costliest_group, screen
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.methods.complexity.action import gain_of_more
from datassay.methods.partition import action as split
from datassay.methods.weigh.action import BALANCE, REWEIGHT
from datassay.models.table_estimators import TableClassifier
from datassay.models.tabular import LOGISTIC, RIDGE, TREES
from datassay.progress import OutOfTime, silent
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.weak_groups import WeakGroup
from datassay.stats import FREE, LEAVE, Interval
from datassay.train import together
from datassay.train.folds import make_splits
from datassay.train.learner import Estimators, Networks, table_learner
from datassay.train.recipe import Recipe
from datassay.train.training import train_on_batches
from helpers.findings import issues_of, row_samples


def one_way(n, seed, wrong=0.0):
    """Two classes that a line tells apart; a share of the second class is given the first label."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    true = (x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)
    given = np.where((true == 1) & (rng.random(n) < wrong), 0, true)
    samples, _ = da.load((x, given), val_fraction=0)
    return samples, true


def part_of(train, held_out, is_alike=True):
    lin = da.collect(da.build_model("linear", train), train, held_out)
    issues = da.label_issues(lin)
    learner = Estimators(LogisticRegression(), 2)
    noise = issues.noise[0].transition if is_alike else None
    information = np.arange(len(train)) * 1.0
    return Part(train, held_out, lin, issues, information, issues.ridge, noise, learner)


def test_wrong_held_out_labels_are_counted_so_that_the_mean_is_the_accuracy_on_right_ones():
    rng = np.random.default_rng(0)
    n, transition = 40_000, np.array([[0.9, 0.1, 0.0], [0.0, 0.7, 0.3], [0.05, 0.05, 0.9]])
    true = rng.integers(0, 3, n)
    given = np.array([rng.choice(3, p=transition[t]) for t in true])
    predicted = np.where(rng.random(n) < 0.8, true, (true + 1) % 3)
    held_out, _ = da.load((rng.normal(size=(n, 1)), given), val_fraction=0)
    rule = scoring_rule(held_out, held_out.y, transition)
    chance = np.eye(3)[predicted][None]
    assert rule.is_corrected
    assert abs(rule.scores(chance).mean() - (predicted == true).mean()) < 0.01
    assert rule.scores(chance, as_given=True).mean() == pytest.approx((predicted == given).mean())
    assert abs((predicted == given).mean() - (predicted == true).mean()) > 0.05


def test_the_kind_of_noise_that_was_found_as_strong_as_it_may_be():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    pairs = np.eye(3)
    pairs[1] = 0.0, 0.8, 0.2
    stronger = with_share(pairs, labels, 0.12)  # of 30 labels given as the second class 40 %
    np.testing.assert_allclose(stronger, [[1, 0, 0], [0, 0.6, 0.4], [0, 0, 1]], atol=1e-12)
    unknown = with_share(np.eye(3), labels, 0.3)
    rounded = with_share(np.eye(3) + 1e-17 * (1 - np.eye(3)), labels, 0.3)  # its rows add up to 1
    assert np.array_equal(rounded, unknown)
    np.testing.assert_allclose(unknown, 0.7 * np.eye(3) + 0.15 * (1 - np.eye(3)), atol=1e-12)
    assert np.linalg.cond(with_share(np.eye(3), labels, 0.66)) < 20


def only(monkeypatch, *names):
    """Actions of these kinds alone; the others, each with fits of its own, are not looked at."""
    kinds = action_kinds()
    monkeypatch.setattr(registry, "action_kinds", lambda: {name: kinds[name] for name in names})


def test_wrong_labels_that_nobody_found_widen_the_interval(monkeypatch):
    only(monkeypatch, RELABEL)
    train, _ = one_way(500, 0, wrong=0.45)
    held_out, true = one_way(800, 1)
    wrong = np.random.default_rng(0).random(800) < 0.3
    given = replace(held_out, y=np.where(wrong, 1 - true, true))
    part = replace(part_of(train, given), noise=np.eye(2))
    rows = {}
    for share in ((0.0, 0.0), (0.0, 0.3)):
        table = compare_actions([replace(part, share=share)], budget=60.0)
        rows[share[1]] = next(row for row in table.actions if row.kind == RELABEL)
    own, wide = rows[0.0], rows[0.3]
    assert own.gain == wide.gain and own.low == wide.low and own.high < wide.high
    # Where 30 % of two classes are flipped, a gain on right labels is 1/(1 − .6) of that on given.
    assert wide.high - own.high == pytest.approx(wide.gain * (1 / 0.4 - 1), rel=1e-6)


def test_one_action_after_another_weighs_what_the_first_left():
    train, _ = one_way(200, 0)
    train = train.subset(np.flatnonzero((train.y == 0) | (np.arange(200) % 4 == 0)))
    scores = ProposalScores(da.label_issues(train, model=LogisticRegression()), np.ones(len(train)))
    wrong = np.arange(len(train)) < 9
    balance = action_kinds()[BALANCE]
    both = combine_actions(relabelling(train, 1 - train.y, wrong), balance, train, scores)
    assert both.kind == "relabel+balance" and both.words.startswith(
        "Relabel suspected labels, then b"
    )
    assert (both.labels == np.where(wrong, 1 - train.y, train.y)).all()
    shares = np.bincount(both.labels, both.weights)
    assert shares[0] == pytest.approx(shares[1])  # of the labels after the correction
    gone = combine_actions(removal(REMOVE, "Remove", train, wrong, 0), balance, train, scores)
    assert (gone.weights[wrong] == 0).all() and (gone.weights[~wrong] > 0).all()
    even = train.subset(np.r_[np.flatnonzero(train.y == 0)[:10], np.flatnonzero(train.y == 1)[:10]])
    assert combine_actions(as_it_is(even), balance, even, scores) is None


def test_a_rare_class_and_a_noise_that_cannot_be_inverted():
    y = np.repeat([0, 1], [970, 30])
    held_out, _ = da.load((np.arange(1000.0)[:, None], y), val_fraction=0)
    rule = scoring_rule(held_out, held_out.y, None)
    assert rule.metric == BALANCED and not rule.is_corrected
    always = np.tile([1.0, 0.0], (1, 1000, 1))
    assert rule.scores(always).mean() == pytest.approx(0.5)
    rule = scoring_rule(held_out, held_out.y, np.full((2, 2), 0.5))
    assert not rule.is_corrected and (rule.credit == rule.given_credit).all()


def test_what_models_say_shows_which_held_out_labels_are_suspect():
    transition = np.array([[0.9, 0.1], [0.1, 0.9]])
    sure = np.tile(transition[[0]], (3, 2, 1))  # both look like class 0
    assert mark_trusted(sure, np.array([0, 1]), transition).tolist() == [True, False]


def test_acts_do_to_the_samples_what_they_say():
    train, _ = one_way(40, 0)
    chosen = np.zeros(40, bool)
    chosen[:6] = True
    removed = removal(REMOVE, "", train, chosen, 0)
    assert removed.kept.tolist() == list(range(6, 40)) and removed.changed == 6
    assert len(removed.control.kept) == 34 and (removed.control.kept != removed.kept).any()
    corrected = relabelling(train, 1 - train.y, chosen)
    assert (corrected.labels[:6] == 1 - train.y[:6]).all()
    assert (corrected.labels[6:] == train.y[6:]).all() and corrected.control is None
    weighed = weighting(REWEIGHT, "", train, np.arange(1.0, 41), 0)
    assert weighed.is_weighted and not as_it_is(train).is_weighted
    assert sorted(weighed.control.weights) == sorted(weighed.weights)
    halves = splitting(train, Blocks((np.arange(10), np.arange(10, 40)), np.array([0.25, 0.75])), 0)
    assert [len(m) for m in halves.control.blocks.members] == [10, 30] and halves.fits == 4


def test_blocks_answer_by_their_router_or_their_shares():
    train, _ = one_way(60, 0)
    learner = Estimators(LogisticRegression(), 2)
    one, other = np.flatnonzero(train.y == 0), np.flatnonzero(train.y == 1)
    mixed = np.concatenate([one[:5], other[:5]])

    class Router:
        def predict_proba(self, rows):
            return np.stack([rows[:, 2] > 0, rows[:, 2] <= 0], 1).astype(float)

    both = Blocks((np.arange(60), mixed), np.array([0.9, 0.1]), Router())
    predictions_ = predictions(learner, train, train, splitting(train, both, 0))
    alone = [learner.outputs(train, train, np.tile(m, (2, 1))) for m in (np.arange(60), mixed)]
    first = train.x[:, 2] > 0
    assert (predictions_[:, first] == alone[0][:, first]).all()
    assert (predictions_[:, ~first] == alone[1][:, ~first]).all()
    by_share = predictions(learner, train, train, splitting(train, replace(both, router=None), 0))
    np.testing.assert_allclose(by_share, 0.9 * alone[0] + 0.1 * alone[1])


def test_the_screen_is_the_ridge_fit_of_the_changed_samples():
    train, _ = one_way(50, 0)
    held_out, _ = one_way(40, 1)
    part = part_of(train, held_out)
    closed = screen(part.lin, train, 0.7, part.scoring_rule, 0)
    lin = part.lin.average_outputs()
    phi, psi = (np.asarray(f, float) for f in (lin.features, lin.val_features))
    weights = np.where(np.arange(50) < 10, 0.0, np.random.default_rng(0).random(50) + 0.5)
    act = weighting(REWEIGHT, "", train, weights, 0)
    kept, w = act.kept, act.weights[act.kept] / act.weights[act.kept].mean()
    a = phi[kept].T @ (w[:, None] * phi[kept]) + 0.7 * np.eye(phi.shape[1])
    theta = np.linalg.solve(a, phi[kept].T @ (w[:, None] * np.eye(2)[train.y[kept]]))
    expected = part.scoring_rule.scores((psi @ theta)[None]).mean()
    assert closed.scores(act, train).mean() == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_mending_labels_that_flip_one_way_gains_what_it_does_on_right_labels():
    train, _ = one_way(500, 0, wrong=0.45)
    held_out, true = one_way(800, 1, wrong=0.45)
    table = compare_actions([part_of(train, held_out)], budget=60.0)
    first = next(act for act in table.actions if act.kind == RELABEL)
    assert first.verdict == "better" and table.best is table.actions[0]
    clean, _ = da.load((held_out.x, true), val_fraction=0)
    plain = compare_actions([part_of(train, clean, is_alike=False)], budget=60.0)
    same = next(act for act in plain.actions if act.kind == first.kind)
    assert first.low <= same.gain <= first.high
    assert first.given < first.gain  # on given labels a right prediction can look wrong
    assert table.is_corrected and not plain.is_corrected
    assert table.n_suspected > 0 and table.to_table().num_rows == len(table.actions)


def fifths_of(samples, copies=None):
    """The fifths, and what each was judged on; information is the position."""
    seen = []

    def judge(sub, some):
        seen.append((sub, some))
        issues = da.label_issues(sub)
        return issues, issues.ridge

    lin = da.collect(da.build_model("linear", samples), samples)
    parts = fifths(
        lin, samples, np.arange(100.0), 5, noise=None, copies=copies, judge=judge,
        learner=lambda some, f: Estimators(LogisticRegression(), 2, seed=f),
    )  # fmt: skip
    return parts, seen


def test_a_part_may_be_copies_of_one_sample_alone():
    train, _ = one_way(100, 0)
    alone = np.arange(100)
    first = make_splits(train, None, 5, 0).test_idx[0]
    alone[first] = first[0]  # one part's samples are all next to the same
    (part, *others), _ = fifths_of(train, copies=alone)
    assert part.held_out.groups is None and len(part.held_out) == len(first)
    assert all(len(np.unique(other.held_out.groups)) == len(other.held_out) for other in others)
    (part, *_), _ = fifths_of(train, copies=np.zeros(100, int))  # all are
    assert part.held_out.groups is None


def test_parts_are_judged_by_scores_that_never_saw_their_labels():
    train, _ = one_way(100, 0)
    parts, seen = fifths_of(train)
    held = np.concatenate([part.held_out.ids for part in parts])
    assert sorted(held) == sorted(train.ids) and len(seen) == 5
    for part, (sub, some) in zip(parts, seen, strict=True):
        assert not set(part.held_out.ids) & set(sub.ids) and set(some.ids) == set(sub.ids)
        again = da.collect(da.build_model("linear", train), some, part.held_out)
        assert np.allclose(sub.val_features, again.val_features)
        assert (part.information == part.train.ids).all()


def test_held_out_samples_that_repeat_others_can_be_left_out():
    both, _ = one_way(80, 0)
    train, held_out = both.subset(np.arange(60)), both.subset(np.arange(60, 80))
    model, some = da.build_model("linear", train), np.array([4, 1, 7])
    ours = da.collect(model, train, held_out).judged_on(some)
    again = da.collect(model, train, held_out.subset(some))
    for name in ("val_outputs", "val_targets", "val_features"):
        np.testing.assert_allclose(getattr(ours, name), getattr(again, name), rtol=1e-5)


def test_copies_stay_together():
    train, _ = one_way(100, 0)
    x, y = np.repeat(train.x[:50], 2, axis=0), np.repeat(train.y[:50], 2)
    x = x + np.random.default_rng(0).normal(0, 1e-4, x.shape)
    twice, _ = da.load((x, y), val_fraction=0)
    copies = data_issues(twice, None).copies
    assert len(np.unique(copies)) == 50
    for part in fifths_of(twice, copies)[0]:
        own, other = (copies[np.isin(twice.ids, s.ids)] for s in (part.held_out, part.train))
        assert not set(own) & set(other) and len(own) > 5
        assert (part.held_out.groups == own).all() and (part.copies == other).all()


def test_what_is_likelier_wrong_than_right_is_tried_beyond_the_list_too():
    train, _ = one_way(8, 0)
    issues = da.label_issues(train, model=LogisticRegression())
    chances = np.where(np.arange(8) < 2, 0.6, 0.3)
    look = np.arange(8) < 5
    issues = replace(issues, probability=chances, worth_a_look=look, suggested_label=1 - train.y)
    assert not issues.is_issue.any()
    scores = ProposalScores(issues, np.ones(8))
    changed = action_kinds()[RELABEL].propose(train, scores).labels != train.y
    assert changed.tolist() == [True, True, *6 * [False]]
    assert action_kinds()[REMOVE].propose(train, scores).kept.tolist() == [2, 3, 4, 5, 6, 7]


def test_suspects_are_dropped_first_then_what_informs_least():
    train, _ = one_way(40, 0)
    issues = da.label_issues(train, model=LogisticRegression())
    score = np.where(np.isin(np.arange(40), [7, 30, 12]), [1.0, 9.0] * 20, -9.0)
    chance = np.where(score > 0, 0.9, 0.0)
    issues = replace(issues, score=score, probability=chance, worth_a_look=score > 0)
    information = np.random.default_rng(0).permutation(40).astype(float)
    expected = [*issues.suspects, *(i for i in np.argsort(information) if score[i] < 0)]
    assert sorted(issues.suspects) == [7, 12, 30]
    drops = list(action_kinds()[DROP].propose(train, ProposalScores(issues, information)))
    assert [action.fraction for action in drops] == [0.1, 0.25, 0.5, 0.75]
    for drop in drops:
        gone = np.setdiff1d(np.arange(40), drop.kept)
        assert set(gone) == set(expected[: round(40 * drop.fraction)])
        assert drop.changed == len(gone) == 40 - len(drop.control.kept)


def test_one_of_each_group_of_copies_stays_also_behind_another_action():
    train, _ = one_way(8, 0)
    issues = da.label_issues(train, model=LogisticRegression())
    train = replace(train, y=np.array([0, 1, 0, 1, 1, 0, 0, 1]))
    scores = ProposalScores(issues, np.ones(8), copies=np.array([5, 3, 5, 8, 3, 5, 1, 0]))
    kind = action_kinds()[COPIES]
    assert kind.propose(train, scores).kept.tolist() == [0, 1, 3, 6, 7]
    contradicted = replace(train, y=np.array([0, 1, 1, 1, 1, 0, 0, 1]))  # 2 is left alone, as are
    assert kind.propose(contradicted, scores).kept.tolist() == [0, 1, 2, 3, 5, 6, 7]  # its copies
    assert kind.propose(train, replace(scores, copies=None)) is None
    weighed = replace(as_it_is(train), kind=REWEIGHT, weights=np.arange(8.0))  # 0 goes
    both = combine_actions(weighed, kind, train, scores)
    assert both.kind == "reweight+copies" and both.weights.tolist() == [0, 1, 2, 3, 0, 0, 6, 7]


@pytest.mark.parametrize(
    ("gains", "tried", "best"),
    [
        ((0.05, 0.06, 0.07), ["relabel+balance", "relabel+balance+copies"], 0.07),
        ((0.05, 0.02, 0.04), ["relabel+balance", "relabel+copies"], 0.05),
    ],
)
def test_actions_follow_each_other_as_long_as_each_adds_a_gain(monkeypatch, gains, tried, best):
    alone = {RELABEL: gains[0], BALANCE: 0.04, COPIES: 0.03, DROP: 0.0}
    measured = alone | dict(zip(tried, gains[1:], strict=True))
    train, _ = one_way(8, 0)

    def row(job, action):
        gain = measured[action.kind]  # no other combination is retrained
        low, high = gain - 0.01, gain + 0.01
        return ActionGain(action.kind, action.words, "retrained", gain, low, high, 0.0, "")

    for name, fake in (
        ("follow", lambda _, key, kind: replace(as_it_is(train), kind=f"{key[0]}+{kind.name}")),
        ("train", lambda _, keys, look: None), ("is_retrained", lambda _, key: True),
    ):  # fmt: skip
        monkeypatch.setattr(compare.Comparison, name, fake)
    monkeypatch.setattr(compare, "analyses", lambda parts: [[]])
    monkeypatch.setattr(compare._Job, "retrained_row", row)
    job = compare._Job(compare.Comparison([], [], []), {}, action_kinds(), [], silent)
    actions = [replace(as_it_is(train), kind=kind) for kind in alone]
    result = job._combine([job.retrained_row(one) for one in actions], actions)
    assert [one.kind for one in result] == tried
    assert max(gains[0], *(one.gain for one in result)) == best


def test_no_score_is_told_from_which_a_gain_leads_beyond_100_percent():
    rule = SimpleNamespace(metric="accuracy", scores=lambda predicted, **_: predicted[..., 0])
    comparison = compare.Comparison([], [], [np.full((2, 50, 1), 0.99)])
    comparison._rules = [rule]  # corrected for wrong labels, predictions are right in 102 %
    comparison._runs = {
        ((RELABEL, 0.0), False): looks.Retrained([[np.full((2, 50, 1), 1.02)]], 0.0)
    }
    assert comparison.score() == pytest.approx(0.97)
    assert comparison.score(as_given=True) == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("kind", "ends", "advice"),
    [
        (DROP, (-0.018, 0.013), FREE), (COPIES, (-0.004, 0.006), FREE),
        (REMOVE, (-0.01, 0.01), LEAVE),
        (DROP, (-0.021, 0.022), LEAVE),  # more than two points may be lost
        (DROP, (-0.02, 0.001), LEAVE),  # on average too much is
    ],
)  # fmt: skip
def test_no_loss_is_shown_where_two_points_can_be_excluded(kind, ends, advice):
    low, high = ends
    row = ActionGain(kind, "", "retrained", (low + high) / 2, low, high, 0.5, "")
    assert compare._rank_rows([row])[0].advice == advice


def test_clean_samples_need_nothing():
    train, _ = one_way(300, 2)
    held_out, _ = one_way(400, 3)
    table = compare_actions([part_of(train, held_out)], budget=60.0)
    assert table.best is None


def test_beyond_the_budget_acts_are_only_screened(monkeypatch):
    only(monkeypatch, RELABEL, REMOVE, REWEIGHT, DROP)
    train, _ = one_way(300, 0, wrong=0.3)
    held_out, _ = one_way(200, 1, wrong=0.3)
    table = compare_actions([part_of(train, held_out)], budget=2.0, per_fit=0.9)
    how = [act.how for act in table.actions]
    assert how.count("retrained") == 1 and how.count("screened") >= 3
    assert all(act.verdict == "" for act in table.actions if act.how == "screened")


def test_a_clock_ends_the_comparison_anywhere_and_what_was_done_stands(monkeypatch):
    only(monkeypatch, RELABEL, REMOVE, REWEIGHT)
    part = part_of(one_way(300, 0, wrong=0.3)[0], one_way(200, 1, wrong=0.3)[0])
    asked, most = [], np.inf

    def clock(*_):
        asked.append(0)
        if len(asked) > most:
            raise OutOfTime

    monkeypatch.setattr("datassay.train.together.check_time", clock)
    whole = compare_actions([part], budget=60.0)
    known, n = {row.kind: row for row in whole.actions}, len(asked)
    most = 0
    with pytest.raises(OutOfTime):
        compare_actions([part], budget=60.0)
    for share in (0.3, 0.6, 0.9):
        most = share * n
        asked.clear()
        table, late = compare_actions([part], budget=60.0), 0
        assert len(asked) < n
        for row in table.actions:
            if "--budget" in row.note:
                late += 1
            else:
                for k in ("how", "gain", "low", "high", "note"):
                    assert getattr(row, k) == getattr(known[row.kind], k)
        lost = [r for r in table.actions if np.isnan(r.control) > np.isnan(known[r.kind].control)]
        assert late or lost  # the control comes last


@pytest.mark.slow
def test_the_demo_trains_few_networks_and_looks_for_blocks_once(monkeypatch):
    """What the table of a set like the demo's costs, in networks and in searches for blocks."""
    digits, _ = da.load("digits", val_fraction=0)
    noisy = add_label_noise(digits.subset(np.arange(500)), 0.08, seed=0)
    trained, searched = [], []

    def counted(models, *rest, **more):
        trained.append(len(models))
        return train_on_batches(models, *rest, **more)

    def search(train, scores):
        searched.append(len(train))
        return split.propose(train, scores)

    kinds = action_kinds()
    monkeypatch.setattr(together, "train_on_batches", counted)
    monkeypatch.setattr(registry, "action_kinds", lambda: kinds | {SPLIT: replace(
        kinds[SPLIT], propose=search)})  # fmt: skip
    lin = da.collect(da.build_model("linear", noisy), noisy)
    issues = da.label_issues(lin)

    def learner(some, f):
        models = [da.build_model("mlp:width=32", some, seed=2 * f + s) for s in range(2)]
        return Networks(models, Recipe(steps=250), seed=f)

    parts = fifths(
        lin, noisy, np.arange(500.0), 5, noise=issues.noise[0].transition,
        judge=lambda sub, some: (da.label_issues(sub), issues.ridge), learner=learner,
    )  # fmt: skip
    table = compare_actions(parts, budget=60.0)
    tried = {act.kind for act in table.actions}
    assert len(searched) == 1 and tried >= {RELABEL, REMOVE, DROP} and SPLIT not in tried
    # The samples as they are, and all actions but a few that are ended at the first look.
    assert 20 <= sum(trained) <= 10 * likely_fits()


def test_blocks_are_trained_where_two_rules_are_mixed():
    rng = np.random.default_rng(0)
    x, rules = rng.normal(size=(1400, 5)), rng.normal(size=(2, 4))
    which = (x[:, 0] > 0).astype(int)
    y = ((x[:, 1:] * rules[which]).sum(1) > 0).astype(int)
    whole, _ = da.load((x, y), val_fraction=0)
    part = part_of(whole.subset(np.arange(600)), whole.subset(np.arange(600, 1400)))
    table = compare_actions([part], budget=60.0)
    assert table.best.kind == SPLIT and table.best.how == "retrained"
    assert table.best.gain > 0.02 and table.best.control < 0.02


@pytest.mark.parametrize(
    ("rule", "best"), [("either or", TREES), ("a line", LOGISTIC), ("a number", RIDGE)]
)
def test_tables_are_retrained_with_what_predicts_them_best(rule, best):
    """The oracle: scikit-learn's own models, fitted by hand on each held-out part."""
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=(300, 4)), 300
    number, line = x @ np.arange(4.0), x.sum(1) + rng.normal(size=n) > 0
    y = {"either or": x[:, 0] * x[:, 1] > 0, "a line": line, "a number": number}[rule]
    is_number = y is number
    samples, _ = da.load((x, y if is_number else y.astype(int)), val_fraction=0)
    parts, scores = [], {best: [], TREES: []}
    for f in range(3):
        held = np.arange(n) % 3 == f
        part = part_of(samples.subset(~held), samples.subset(held), is_alike=False)
        nothing = DummyRegressor() if is_number else DummyClassifier()
        parts.append(replace(part, learner=Estimators(nothing, 2, seed=7 + 2 * f)))
        for name in scores:
            for seed in (7 + 2 * f, 8 + 2 * f):
                model = by_hand(name, is_number, seed).fit(part.train.x, part.train.y)
                scores[name].append(model.score(part.held_out.x, part.held_out.y))
    chosen = best_learner(Chosen("", parts))
    assert chosen.name == best == max(scores, key=lambda name: np.mean(scores[name]))
    given = [
        p.scoring_rule.scores(b).mean() for p, b in zip(chosen.parts, chosen.base, strict=True)
    ]
    assert np.mean(given) == pytest.approx(np.mean(scores[best]), abs=2e-3)

    assert best_learner(Chosen("", parts), budget=1e-3).name == ""
    assert "--budget" in best_learner(Chosen("", parts), budget=1e-3).note
    shown = [replace(part, train=replace(part.train, kind="text")) for part in parts]
    assert best_learner(Chosen("", shown)) == Chosen("", shown)


def by_hand(name, is_number, seed):
    if name == TREES:
        if is_number:
            return HistGradientBoostingRegressor()
        return HistGradientBoostingClassifier(early_stopping=True, random_state=seed)
    line = RidgeCV(np.logspace(-3, 4, 15)) if is_number else LogisticRegression(C=0.1)
    return make_pipeline(StandardScaler(), line)


def test_a_model_that_draws_nothing_is_fitted_once_and_its_samples_alone_vary(monkeypatch):
    only(monkeypatch, REWEIGHT)
    train, _ = one_way(300, 0, wrong=0.4)
    parts = []
    for seed in (1, 2, 3):
        part = part_of(train, one_way(200, seed)[0], is_alike=False)
        parts.append(replace(part, learner=table_learner(LOGISTIC, train, repeats=4)))
    fitted, fit = [], TableClassifier.fit

    def counted(self, X, y, sample_weight=None):
        fitted.append(sample_weight is None)
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(TableClassifier, "fit", counted)
    table = compare_actions(parts, budget=1e9)
    rows = {row.kind: row for row in table.actions}
    assert table.n_seeds == 4 and fitted[:6] == [True] * 3 + [False] * 3
    weights = proposals(train, parts[0].issues, parts[0].information)[0][-1].weights
    model = fit(TableClassifier(LOGISTIC), train.x, train.y)
    other = fit(TableClassifier(LOGISTIC), train.x, train.y, sample_weight=weights)
    each = []
    for part in parts:
        right = [one.predict(part.held_out.x) == part.held_out.y for one in (other, model)]
        each.append(right[0].astype(float) - right[1])
    d, m = np.concatenate(each), 600
    row, error = rows[REWEIGHT], np.sqrt((((d**2).sum() + 1) / (m + 2) - d.mean() ** 2) / m)
    assert row.gain == pytest.approx(d.mean())
    assert len(fitted) == 6 + 3 * (row.advice == "do it")  # once a part, and a control of advice
    assert row.high - row.gain == pytest.approx(1.964 * error, rel=2e-3)  # they differ by no more


@pytest.mark.parametrize("counts", [(60, 1), (50, 0), (30, 30, 2)])
@pytest.mark.parametrize("name", [TREES, LOGISTIC])
def test_models_of_tables_learn_from_single_members_and_from_one_class(name, counts):
    y = np.repeat(np.arange(len(counts)), counts)
    x = np.random.default_rng(0).normal(size=(len(y), 3)) + 5 * y[:, None]
    model = TableClassifier(name, 0).fit(x, y)
    assert (model.predict(x[:30]) == 0).mean() > 0.9
    assert model.predict_proba(x).shape == (len(y), len(np.unique(y)))


def test_trees_with_weights_see_codes_of_equal_shares():
    x = np.random.default_rng(0).normal(size=(2550, 2))
    model = TableClassifier(TREES, 0).fit(x, x[:, 0] > 0, sample_weight=np.ones(len(x)))
    for column, code in zip(x.T, model._prepare(x).T, strict=True):
        assert np.abs(np.bincount(code.astype(int), minlength=255) - 10).max() <= 1
        assert (np.diff(code[column.argsort()]) >= 0).all()
    assert (model.predict(x) == (x[:, 0] > 0)).mean() > 0.99


def test_an_estimator_without_weights_says_so(monkeypatch):
    only(monkeypatch, RELABEL, REWEIGHT, DROP)
    train, _ = one_way(120, 0, wrong=0.3)
    part = part_of(train, train)
    actions, left_out = proposals(train, part.issues, part.information, takes_weights=False)
    assert not any(act.is_weighted for act in actions)
    assert any("takes none" in reason for reason in left_out)
    assert {act.kind for act in actions} >= {RELABEL, DROP}


def test_more_samples_gain_what_they_then_do():
    many, _ = one_way(1600, 5)
    held_out, _ = one_way(1500, 6)
    train = many.subset(np.arange(200))
    learner = Estimators(LogisticRegression(C=0.05), 4)
    row = gain_of_more(learner, train, scoring_rule(held_out, train.y, None))
    accuracy = []
    for n in (200, 400):
        predicted = learner.outputs(many, held_out, np.tile(np.arange(n), (4, 1)))
        accuracy.append((predicted.argmax(2) == held_out.y).mean())
    assert row.how == "expected" and row.cost == -200
    assert row.low <= accuracy[1] - accuracy[0] <= row.high
    rule = scoring_rule(held_out, train.y, None)
    assert gain_of_more(learner, train.subset(np.arange(20)), rule) is None


def test_the_class_of_which_more_is_wanted_is_the_scarce_one():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 12)) * 1.2
    y = np.repeat([0, 1, 2], [150, 150, 16])
    train, _ = da.load((centers[y] + rng.normal(size=(len(y), 12)), y), val_fraction=0)
    y_val = np.repeat([0, 1, 2], 200)
    held_out, _ = da.load((centers[y_val] + rng.normal(size=(600, 12)), y_val), val_fraction=0)
    part = part_of(train, held_out)
    closed = screen(part.lin, train, part.penalty, part.scoring_rule, 0)
    name, cost, ids = find_costliest_group(closed, train, 0)
    assert name == "class 2" and (ids == train.ids[train.y == 2]).all() and cost > 0
    gone = np.random.default_rng(1).random(len(train)) < 0.1  # fitted anew, without these
    anew = closed.scores(replace(as_it_is(train), weights=(~gone).astype(float)), train).mean()
    assert closed.score_without(gone, train, closed.inverse()) == pytest.approx(anew, abs=1e-9)


def test_the_region_of_which_more_is_wanted_is_the_one_with_few_samples():
    rng = np.random.default_rng(0)
    sets = []
    for n, far in ((420, 20), (400, 200)):  # in the region other columns tell the target
        x, inside = rng.normal(size=(n, 12)), np.arange(n) < far
        y = np.where(inside, x[:, 6:].sum(1), x[:, :6].sum(1)) + rng.normal(size=n)
        x[inside, :6], x[~inside, 6:] = 0, 0
        sets.append((da.load((x, y), val_fraction=0)[0], inside))
    (train, inside), (held_out, _) = sets
    part = part_of(train, held_out, is_alike=False)
    closed = screen(part.lin, train, part.penalty, part.scoring_rule, 0)
    region = WeakGroup("x7 is not 0", inside, Interval(0.5, 0.1, 0.0))
    name, cost, ids = find_costliest_group(closed, train, 0, [region])
    assert name == "samples where x7 is not 0" and (ids == train.ids[inside]).all()
    assert cost > 0.02


@pytest.mark.parametrize(
    ("score", "gain", "low", "high", "advice"),
    [(0.7, 0.04, -0.01, 0.15, "try it"), (0.96, 0.016, -0.004, 0.04, "try it"),
     (0.99, 0.004, -0.001, 0.01, "leave it"), (1.02, 0.0, 0.0, 0.0, "leave it")],
)  # fmt: skip
def test_a_review_is_expected_to_gain_a_part_of_what_it_corrects(score, gain, low, high, advice):
    """Of 60 labels 12 are worth a look, half of them wrong: a tenth of all, or the error left."""
    samples = row_samples().subset(np.arange(60))
    doubtful = np.arange(60) < 12
    issues = issues_of(samples, np.where(doubtful, 0.0, -9.0), probability=doubtful / 2)
    row = expected_review_gain(issues, score)
    assert (row.kind, row.how, row.changed, row.advice) == ("review", "expected", 12, advice)
    assert np.allclose([row.gain, row.low, row.high], [gain, low, high])
    for nothing in (
        replace(issues, worth_a_look=doubtful & False),
        replace(issues, class_names=()),
    ):
        assert expected_review_gain(nothing, score) is None
