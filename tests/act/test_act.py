"""Decisions: keep-sets, removal curves, and how well a score finds what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import nn

from datassay.act.remove import rules as keep_rules
from datassay.act.remove.auroc import auroc
from datassay.act.remove.growth import unit_rows
from datassay.act.remove.removal_curve import RANDOM, removal_curve
from datassay.act.remove.summarize import summarize, suspects_first
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.score.compare.retraining_check import baselines
from datassay.score.label_issues import LabelIssues
from datassay.score.sample_information import sample_information
from datassay.train.folds import make_splits, validation_score
from datassay.train.recipe import Recipe
from datassay.train.training import train_networks, with_loss
from helpers.linearizations import linearization, random_jacobians


def lin_of(n=40, seed=0):
    phi, r, val = random_jacobians(n, 1, 1, 60, 10, seed, decay=0.5)
    return linearization(phi, r, val, dual=True)


def test_summarize_once_keeps_the_most_informative():
    lin = lin_of()
    kept_set = summarize(lin, 0.25, rule="information")
    information = sample_information(lin).information
    assert set(kept_set.keep) == set(np.argsort(-information)[:10])
    assert list(kept_set.removed_first) == list(np.argsort(information, kind="stable"))
    assert np.array_equal(kept_set.kept_ids, lin.ids[kept_set.keep])
    assert kept_set.to_table().num_rows == 10


def test_summarize_iteratively_scores_again_after_each_step():
    """S1 Fig. 2c: remove 5 % of what remains, recompute."""
    lin = lin_of()
    keep = np.arange(40)
    while len(keep) > 20:
        information = sample_information(lin.subset(keep)).information
        size = min(max(1, round(0.05 * len(keep))), len(keep) - 20)
        keep = np.delete(keep, np.argsort(information, kind="stable")[:size])
    assert np.array_equal(summarize(lin, 0.5, iterative=True).keep, keep)


def test_one_of_two_twins_stays_when_scores_are_recomputed():
    """Twins inform little beside each other; once one is removed the other informs again."""
    phi, r, val = random_jacobians(20, 1, 1, 60, 10, seed=1)
    phi[1], r[1] = phi[0], r[0]
    lin = linearization(phi, r, val, dual=True)
    once = summarize(lin, 0.9, rule="information", dynamics="converged", weight_decay=1e-6)
    step = summarize(lin, 0.9, iterative=True, dynamics="converged", weight_decay=1e-6)
    assert not {0, 1} & set(once.keep)
    assert len({0, 1} & set(step.keep)) == 1


@pytest.mark.parametrize(
    ("fraction", "given", "message"),
    [
        (0.0, {}, r"fraction must lie in \(0, 1\]; got 0.0"),
        (1.2, {}, r"fraction must lie in \(0, 1\]; got 1.2"),
        (0.01, {}, "fraction must keep at least 2 samples; 0.01 of 40 is 0"),
        (0.5, {"step": 1.0}, r"step must lie in \(0, 1\); got 1.0"),
        (0.5, {"rule": "best"}, "rule must be one of auto, fit, .*; got 'best'"),
        (0.5, {"rule": "fit", "iterative": True}, "iterative must be False with rule 'fit'"),
    ],
)
def test_summarize_refuses(fraction, given, message):
    with pytest.raises(SettingError, match=message):
        summarize(lin_of(), fraction, **given)


def blobs(n, seed):
    g = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = g.normal(size=(n, 2)).astype("float32") + 3 * np.eye(3, 2, dtype="float32")[y]
    return SampleSet(x=x, y=y.astype("int64"), ids=np.arange(n), class_names=("a", "b", "c"))


def test_removal_curve_trains_on_what_each_ranking_keeps():
    """Removing all of one class first must cost its whole share; the reverse order must not."""
    train, val = blobs(90, 0), blobs(60, 1)
    models = [build_model("linear", train, seed=s) for s in range(2)]
    by_class = np.argsort(train.y, kind="stable")
    rankings, recipe = {"a first": by_class, "spread": np.arange(90)}, Recipe(lr=0.05, steps=200)
    curve = removal_curve(models, train, val, rankings, fractions=[1 / 3], recipe=recipe)
    assert curve.rankings == ("a first", "spread", RANDOM)
    assert list(curve.fractions) == [0.0, 1 / 3] and curve.score.shape == (3, 2, 2)
    assert np.array_equal(curve.score[0, 0], curve.score[1, 0])  # nothing removed: one training
    assert curve.at("a first", 1 / 3).mean() < curve.at("spread", 1 / 3).mean() - 0.2
    assert curve.metric == "accuracy"
    for row in curve.to_table().to_pylist():
        assert row["score"] == curve.at(row["ranking"], row["fraction_removed"])[row["seed"]]
    assert len(curve.to_table()) == 12


def test_without_a_validation_part_each_network_is_judged_on_another_fifth():
    samples = blobs(52, 0)
    y = np.append(samples.y[:-1], 3)  # the last class has a single sample
    samples = replace(samples, y=y, ids=np.arange(100, 152), class_names=("a", "b", "c", "d"))
    parts = make_splits(samples, None, 6, seed=1)
    held = np.stack([queries.ids - 100 for queries in parts.queries])
    assert held.shape == (6, 10) and len(np.unique(held[:5])) == 50  # each judged once by five
    assert not set(held[5]) <= set(held[0]) and 51 not in held
    for rest, part in zip(parts.train_idx, held, strict=True):
        assert np.array_equal(np.sort([*rest, *part]), np.arange(52))
        assert np.abs(np.bincount(y[part], minlength=4)[:3] - 10 / 3).max() <= 1
    shuffled = np.random.default_rng(0).permutation(52)
    again = make_splits(samples.subset(shuffled), None, 6, seed=1)
    for one, other in zip(parts.queries, again.queries, strict=True):
        assert set(one.ids) == set(other.ids)  # the order of the rows is no matter
    order = parts.order(np.arange(52)[::-1], 2)
    assert np.array_equal(order, parts.train_idx[2][::-1])


def test_removal_curve_without_a_validation_part():
    train = blobs(90, 0)
    models = [build_model("linear", train, seed=s) for s in range(2)]
    by_class, recipe = np.argsort(train.y, kind="stable"), Recipe(lr=0.05, steps=200)
    curve = removal_curve(
        models, train, None, {"class a first": by_class}, fractions=[1 / 3], recipe=recipe
    )
    assert curve.score[:, 0].min() > 0.7
    assert curve.at("class a first", 1 / 3).mean() < curve.at(RANDOM, 1 / 3).mean() - 0.2
    # Each network is judged on the samples that it never saw.
    parts = make_splits(train, None, 2)
    for s, queries in enumerate(parts.queries):
        subsets = torch.as_tensor(parts.train_idx)
        networks = train_networks(models, train, subsets, with_loss(recipe, train))
        assert curve.score[0, 0, s] == validation_score(networks, queries)[s]


def test_removal_curve_is_deterministic_and_refuses():
    train, val = blobs(30, 0), blobs(30, 1)
    models = [build_model("linear", train)]
    run = {"rankings": {}, "fractions": [0.5], "recipe": Recipe(steps=5)}
    a, b = (removal_curve(models, train, val, **run) for _ in range(2))
    assert np.array_equal(a.score, b.score)
    low, one = {"low": np.arange(len(train)) // 2}, [nn.Linear(train.x.shape[1], 1)]
    for choice, kind, message in (
        ((models, {}, [1.0]), SettingError, "fractions must lie in"),
        (([], {}, [0.5]), SettingError, "models must hold one network per seed"),
        ((models, low, [0.5]), SettingError, r"'low' is none. Of scores pass scores.argsort\(\)"),
        ((one, {}, [0.5]), ModelError, "must have 3 outputs, one per class; got 1"),
    ):
        with pytest.raises(kind, match=message):
            removal_curve(choice[0], train, val, choice[1], fractions=choice[2])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(n=st.integers(4, 60), levels=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_auroc_with_ties(n, levels, seed):
    g = np.random.default_rng(seed)
    wrong = np.arange(n) < g.integers(1, n)
    score = g.integers(levels, size=n).astype(float)
    assert auroc(wrong, score) == pytest.approx(roc_auc_score(wrong, score))


def test_baselines_average_over_networks():
    outputs = np.array([[[3.0, 1.0, 0.0]], [[1.0, 2.0, 0.0]]])
    first, classes = np.arange(1), {"is_classification": True}
    result = baselines(outputs, np.array([[0.5], [1.5]]), np.array([0]), first, **classes)
    assert result.loss[0] == 1.0 and result.margin[0] == pytest.approx((2 - 1) / 2)
    two = np.full((1, 2, 1), 2.0)
    logit = baselines(two, np.ones((1, 2)), np.array([1, 0]), np.arange(2), **classes)
    assert list(logit.margin) == [2.0, -2.0]
    target = baselines(two[:, :1], np.ones((1, 1)), np.array([5.0]), first, is_classification=False)
    assert target.margin[0] == -3.0


def suspected(suspect, ids):
    n, none = len(suspect), np.zeros(len(suspect), int)
    return LabelIssues(
        score=np.where(suspect, 1.0 + np.arange(n) / n, -1.0), probability=suspect.astype(float),
        suggested_label=none, is_issue=suspect, worth_a_look=suspect, share_wrong=(0.0, 1.0),
        posterior=None, noise=(), given_label=none,
        held_out=np.zeros((n, 1)), ridge=1.0, ids=ids,
    )  # fmt: skip


def test_suspects_first():
    information = np.array([3.0, 1.0, 2.0, 0.0, 4.0])
    issues = suspected(np.array([False, True, False, False, True]), np.arange(5))
    assert suspects_first(information, issues).tolist() == [4, 1, 3, 2, 0]


@pytest.mark.parametrize("rule", ["auto", "fit", "information"])
def test_summarize_drops_suspects_before_anything_else(rule):
    lin = lin_of()
    suspect = np.isin(np.arange(40), np.argsort(-sample_information(lin).information)[:5])
    issues = suspected(suspect, lin.ids)
    kept_set = summarize(lin, 0.5, rule=rule, issues=issues)
    assert list(kept_set.removed[:5]) == list(np.argsort(-issues.score)[:5])
    assert len(kept_set.keep) == 20 and not suspect[kept_set.keep].any()
    assert list(kept_set.added_first[-5:]) == list(kept_set.removed[4::-1])  # worst last of all
    assert sorted(kept_set.added_first[:20]) == list(kept_set.keep)
    few = summarize(lin, 0.95, rule=rule, issues=issues)
    assert list(few.removed) == list(np.argsort(-issues.score)[:2])


def test_a_candidate_has_its_own_row_target_class_and_chance(monkeypatch):
    """Suspects that went before shift no sample against its chance to be right."""
    lin, seen = lin_of(60), []
    suspect = np.isin(np.arange(60), [3, 4, 17, 40])
    chance = np.where(suspect, 0.9, np.linspace(0, 0.4, 60))
    issues = replace(suspected(suspect, lin.ids), probability=chance)
    lin = replace(lin, labels=np.arange(60) // 9 % 2, class_names=("a", "b"))
    rule = keep_rules.RULES["random"]
    monkeypatch.setitem(keep_rules.RULES, "random", lambda *a: (seen.append(a[0]), rule(*a))[1])
    summarize(lin, 0.5, rule="random", issues=issues)
    stay, rows = np.flatnonzero(~suspect), unit_rows(lin, 0)
    (candidates,) = seen
    torch.testing.assert_close(candidates.rows, rows[stay])
    np.testing.assert_array_equal(candidates.groups, lin.labels[stay])
    np.testing.assert_array_equal(candidates.targets.argmax(1).numpy(), lin.labels[stay])
    np.testing.assert_allclose(candidates.weight, 1 - issues.probability[stay])


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("rule", "iterative"),
    [("information", False), ("information", True), ("fit", False), ("margin", False),
     ("boundary", False), ("random", False)],
)  # fmt: skip
def test_no_class_loses_more_than_a_tenth_of_its_share(drop, rule, iterative):
    lin = lin_of(200)
    information = sample_information(lin).information
    labels = np.zeros(200, int)
    labels[np.argsort(information)[:20]] = 1  # the rare class informs least, and is suspected
    issues = suspected(labels == 1, lin.ids) if drop else None
    of_two = replace(lin, labels=labels, class_names=("a", "b"))
    kept_set = summarize(of_two, 0.5, rule=rule, iterative=iterative, issues=issues)
    assert len(kept_set.keep) == 100
    # 0.9 * 0.5 * 20; rules that keep what adds most share the rest out in proportion.
    assert labels[kept_set.keep].sum() == (9 if drop or rule == "information" else 10)
    assert sorted(np.r_[kept_set.keep, kept_set.removed]) == list(range(200))
    few = summarize(of_two, 0.02, rule=rule, issues=issues)
    assert labels[few.keep].sum() == 1
