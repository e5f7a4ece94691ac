"""Samples that are held out together: at the split, by judges, in actions, in intervals."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import datassay as da
from datassay.act.choose.parts import FIFTHS, fifths
from datassay.collect.collection import collect
from datassay.data.assemble import _mark_held_out
from datassay.data.samples import SampleSet
from datassay.data.splits import group_folds, time_blocks
from datassay.errors import DataError, SettingError
from datassay.models.build import build_model
from datassay.progress import silent
from datassay.score.checks import together
from datassay.score.checks.together import _measure_shared, held_together
from datassay.score.label_issues import label_issues
from datassay.score.labels.ridge import ridge_fit
from datassay.stats import paired_interval, sum_by_group
from datassay.train.folds import fold_numbers, held_out_outputs, make_splits
from datassay.train.learner import Estimators


def panel(n_groups=40, each=6, noise=0.05, seed=0, told=0.0):
    """Rows of a country are all but equal, and have its label, which they tell by `told`."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.standard_normal((n_groups, 3)), each, axis=0)
    frame = pd.DataFrame(x + noise * rng.standard_normal(x.shape), columns=list("abc"))
    frame["country"] = np.repeat([f"country {i}" for i in range(n_groups)], each)
    frame["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(
        np.tile(np.arange(each), n_groups), "D"
    )
    drawn = rng.random(n_groups) - 0.5 + told * x[::each, 0]
    frame["label"] = np.where(np.repeat(drawn < 0, each), "yes", "no")
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@pytest.mark.parametrize("has_classes", [False, True])
def test_the_folds_held_out_are_those_whose_size_comes_nearest(has_classes):
    """Every run of folds is tried: the nearest from the first fold that leaves each class."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n_folds, share = int(rng.integers(2, 7)), rng.random()
        fold = np.append(rng.permutation(n_folds), rng.integers(0, n_folds, rng.integers(1, 30)))
        y = rng.integers(0, 4, len(fold))
        nearest = []
        for first in range(n_folds):
            runs = [np.isin(fold, [(first + j) % n_folds for j in range(size)])
                    for size in range(1, n_folds)]  # fmt: skip
            nearest.append(min(runs, key=lambda run: abs(run.sum() - share * len(fold))))
        leaving = [run for run in nearest if set(y[run]) <= set(y[~run])] if has_classes else []
        expected = (leaving or nearest)[0]
        assert np.array_equal(_mark_held_out(fold, y, share, has_classes), expected)


def test_folds_of_groups_hold_as_many_of_each_class():
    classes = np.repeat(np.arange(4), 60)
    groups = np.arange(240) // 3
    for seed in range(3):
        fold = fold_numbers(torch.eye(4)[classes], "cross_entropy", 5, seed, groups).numpy()
        # One group of three more or less: older versions of scikit-learn place them less evenly.
        assert np.abs(np.bincount(5 * classes + fold) - 12).max() <= 3


def test_no_group_is_in_two_parts():
    train, val = da.load(panel(), target="label", groups="country", val_fraction=0.25)
    assert train.feature_names[:3] == ("a", "b", "c") and "country" not in str(train.feature_names)
    assert not set(train.groups) & set(val.groups) and len(train) + len(val) == 240
    assert 0.2 <= len(val) / 240 <= 0.3
    for seed in range(3):
        parts = make_splits(train, None, 2 * FIFTHS, seed)
        for rest, held in zip(parts.train_idx, parts.test_idx, strict=True):
            assert not set(train.groups[rest]) & set(train.groups[held])
        assert len({len(rest) for rest in parts.train_idx}) == 1
        assert np.array_equal(np.sort(np.concatenate(parts.test_idx[:FIFTHS])), range(len(train)))


def test_the_latest_are_held_out_and_blocks_are_of_one_time():
    frame = panel()
    train, val = da.load(frame, target="label", time="when", val_fraction=0.3)
    when = frame["when"].to_numpy()
    assert when[train.ids].max() < when[val.ids].min()
    assert len(val) == 80  # two of six days: those of one day stay together
    few = pd.DataFrame({"a": np.arange(6.0), "label": [0.0, 1.0, 0.5, 3.0, 0.2, 7.0]})
    few["when"] = [*range(5), 4]
    train, val = da.load(few, target="label", time="when", val_fraction=0.7)
    assert (train.ids.tolist(), val.ids.tolist()) == ([0, 1], [2, 3, 4, 5])  # two at least remain
    with pytest.raises(DataError, match=r"val_fraction 0\.8 by time leaves 1 of 6"):
        da.load(few, target="label", time="when", val_fraction=0.8)
    blocks = time_blocks(np.array([5, 1, 1, 1, 9, 9, 2, 7, 3, 4, 6, 8]))
    assert blocks.tolist() == ["5", "0", "0", "0", "8", "8", "2", "6", "3", "4", "5", "7"]


@pytest.mark.parametrize("sizes", [[5] * 12, [1, 2, 3, 4, 5, 6, 7, 8, 30]])
def test_networks_train_on_as_many_samples_and_on_none_of_the_groups_they_are_asked_about(sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    n = len(groups)
    samples = SampleSet(
        np.eye(n), np.arange(n) % 2, np.arange(n), ("a", "b"), groups=groups.astype(str)
    )
    splits = make_splits(samples, None, 7, 0)
    for trained, asked, queries in zip(
        splits.train_idx, splits.test_idx, splits.queries, strict=True
    ):
        assert len(set(trained)) == len(splits.train_idx[0]) and not {*groups[trained]} & {
            *groups[asked]
        }
        assert np.array_equal(queries.ids, asked) and (np.diff(trained) > 0).all()
    assert len(splits.train_idx[0]) == n - max(map(len, splits.test_idx))


def test_folds_hold_whole_groups_of_about_equal_size_in_any_order():
    groups, strata = np.repeat(np.arange(12), 5), np.tile([0, 1, 1, 1, 1], 12)
    folds = group_folds(groups, strata, 4, 0)
    assert all(len(set(folds[groups == g])) == 1 for g in range(12))
    assert np.bincount(folds).tolist() == [15] * 4
    assert group_folds(groups % 2, strata, 5, 0).max() == 1


def test_each_sample_is_judged_by_the_fit_without_its_group():
    train, _ = da.load(panel(told=0.3), target="label", groups="country", drop="when")
    lin = collect(build_model("mlp", train, seed=0), train)
    fit = ridge_fit(lin, silent, train.groups)
    kernel = fit.lin.kernel.double().reshape(240, 240)
    target = (fit.lin.targets - fit.offset).double()
    for name in np.unique(train.groups)[:5]:
        own, rest = np.flatnonzero(train.groups == name), np.flatnonzero(train.groups != name)
        system = kernel[rest][:, rest] + fit.penalty * torch.eye(len(rest), dtype=torch.float64)
        expected = kernel[own][:, rest] @ torch.linalg.solve(system, target[rest])
        np.testing.assert_allclose(fit.held_out[own], expected + fit.offset[own], atol=1e-7)
    other = torch.as_tensor(np.random.default_rng(0).normal(size=tuple(target.shape)))
    again = fit.refit(other, (0.1, 10.0))  # by the penalty that it has
    expected = kernel[own][:, rest] @ torch.linalg.solve(system, (other - fit.offset)[rest])
    np.testing.assert_allclose(again.held_out[own], expected + fit.offset[own], atol=1e-7)
    each = (label_issues(lin), label_issues(lin, groups=train.groups))
    alone, together = (((one.held_out[:, 0] > 0.5) == train.y).mean() for one in each)
    assert alone > 0.95 and 0.6 < together < 0.85  # labels of a country tell little of others
    unsure, table = each[1].by_group, each[1].to_table()["wrong_probability"].to_numpy()
    assert unsure.sum() > 12 and not (unsure & each[0].worth_a_look).any()
    assert np.array_equal(np.isnan(table), unsure) and each[0].by_group is None
    assert np.array_equal(each[1].probability, each[0].probability)


def test_groups_larger_than_the_features_are_left_out_as_exactly():
    train, _ = da.load(panel(), target="label", groups="country", drop="when")
    lin = collect(build_model("linear", train, seed=0), train)
    groups = np.repeat([0, 1, 2, 3], [2, 3, 5, 230])  # fewer and more than the modes
    fit = ridge_fit(lin, silent, groups)
    features = lin.features[:].double()
    assert lin.kernel is None and 3 < features.shape[1] < 230
    target = (fit.lin.targets - fit.offset).double()
    for one in range(4):
        own, rest = groups == one, features[groups != one]
        system = rest.T @ rest + fit.penalty * torch.eye(rest.shape[1], dtype=torch.float64)
        weights = torch.linalg.solve(system, rest.T @ target[groups != one])
        expected = features[own] @ weights + fit.offset[own]
        np.testing.assert_allclose(fit.held_out[own], expected, atol=1e-9)
    asked, penalty = np.isin(groups, [1, 3]), torch.tensor([fit.penalty], dtype=torch.float64)
    whole, some = (ridge_fit(lin, silent, groups, penalty, is_scored=one) for one in (None, asked))
    known = ~np.isnan(some.held_out.numpy()[:, 0])
    assert np.array_equal(known, asked) and whole.offset.equal(some.offset)
    np.testing.assert_allclose(some.held_out[known], whole.held_out[known], atol=1e-12)


def test_no_more_labels_are_listed_than_may_be_wrong():
    train, _ = da.load(panel(seed=4, told=0.5), target="label", groups="country", drop="when")
    lin = collect(build_model("mlp", train, seed=0), train)
    issues = label_issues(lin, groups=train.groups)
    assert 20 < issues.worth_a_look.sum() <= round(240 * issues.share_wrong[1])


def test_groups_that_tell_nothing_of_another_contradict_no_label():
    train, _ = da.load(panel(), target="label", groups="country", drop="when")
    lin = collect(build_model("mlp", train, seed=0), train)
    issues = label_issues(lin, groups=train.groups)
    assert not issues.by_group.any() and not issues.is_issue.any()


def test_an_estimator_never_saw_the_group_that_it_judges():
    seen = []

    class Noted(LogisticRegression):
        def fit(self, x, y):
            seen.append({tuple(row) for row in x})
            return super().fit(x, y)

    x = np.repeat(np.arange(20.0)[:, None], 5, axis=0)  # a group's rows are equal
    samples = SampleSet(x, np.tile([0, 1, 1, 0, 1], 20), np.arange(100), ("a", "b"), groups=x[:, 0])
    held_out_outputs(Noted(), samples, 0, silent)
    assert len(seen) == 5 and all(len(rows) == 16 for rows in seen)


def test_parts_of_actions_hold_whole_groups_though_copies_cross_them():
    train, _ = da.load(panel(), target="label", groups="country")
    lin = collect(build_model("mlp:width=32", train, seed=0), train)
    parts = fifths(
        lin, train, np.ones(240), FIFTHS, noise=None, copies=np.arange(240) // 2,
        judge=lambda sub, some: (label_issues(sub, groups=some.groups), 1.0),
        learner=lambda some, part: Estimators(LogisticRegression(), 2, 0),
    )  # fmt: skip
    for part in parts:
        assert not set(part.train.groups) & set(part.held_out.groups)
    assert sum(len(part.held_out) for part in parts) == 240


def test_a_difference_of_groups_counts_them_and_not_their_rows():
    rng = np.random.default_rng(0)
    change, groups = rng.standard_normal((4, 30)), np.repeat(np.arange(30), 10)
    rows, same = np.repeat(change, 10, axis=1), paired_interval([change[:, :15], change[:, 15:]])
    parts = sum_by_group([rows[:, :150], rows[:, 150:]], [groups[:150], groups[150:]])
    np.testing.assert_allclose(paired_interval(parts).low, same.low)
    assert paired_interval([rows[:, :150], rows[:, 150:]]).low > same.low  # rows as independent
    uneven = sum_by_group([np.array([[1.0, 2, 6]]), np.array([[3.0]])], [np.array([0, 0, 1]), None])
    assert np.concatenate([one[0] for one in uneven]).mean() == pytest.approx(3.0)


@pytest.mark.parametrize("looked", [1000, 60], ids=["whole", "by a look at some groups"])
def test_a_column_that_names_groups_is_told_with_what_a_new_one_would_score(looked, monkeypatch):
    monkeypatch.setattr(together, "SAMPLED_ROWS", looked)
    frame = panel()
    train, _ = da.load(frame, target="label", drop="when")
    lin = collect(build_model("mlp:width=32", train, seed=0), train)
    (told,) = held_together(lin, train, label_issues(lin))
    assert (told.column, told.role, told.metric) == ("country", "groups", "accuracy")
    assert told.by_rows > 0.95 and told.by_column < 0.75
    assert "for a new country." in told.warning
    assert "--groups country" in told.warning
    frame["country"] = np.random.default_rng(1).permutation(frame["country"])
    mixed, _ = da.load(frame, target="label", drop="when")
    lin = collect(build_model("mlp:width=32", mixed, seed=0), mixed)
    assert held_together(lin, mixed, label_issues(lin)) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": "country", "time": "when"}, "two ways to hold samples out together"),
        ({"groups": "nothing"}, "groups must name a column"),
        ({"groups": "same"}, "groups must part the samples; all 240 are of x"),
        ({"time": "country"}, "'country' must hold dates or numbers to be the time"),
        ({"time": "gaps"}, "'gaps' must have no missing values"),
        ({"groups": "label"}, "column 'label' cannot be target and groups at once"),
    ],
)
def test_what_cannot_be_held_out_together_is_refused(given, message):
    frame = panel().assign(same="x")
    frame["gaps"] = frame["when"].where(frame.index > 3)
    with pytest.raises(DataError, match=message):
        da.load(frame, target="label", **given)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.arange(240) // 6 * 1.0, map(str, range(40))),  # as pandas makes them of whole numbers
        (np.arange(240) // 6 + 0.5, (f"{i}.5" for i in range(40))),
        ([Decimal(i // 6) for i in range(240)], map(str, range(40))),
        (np.arange(240) % 2 == 0, ("true", "false")),
        ([date(2020, 1, 1 + i % 9) for i in range(240)], (f"2020-01-0{i}" for i in range(1, 10))),
    ],
    ids=["whole", "fractions", "decimals", "flags", "dates"],
)  # fmt: skip
def test_groups_and_sources_may_be_numbers_flags_or_dates(values, names):
    frame = panel().drop(columns="when").assign(key=np.arange(240.0), shop=values)
    train, _ = da.load(frame, target="label", ids="key", groups="shop", source="shop")
    assert set(train.groups) == set(train.source) == set(names)
    assert train.ids.tolist() == list(range(240))
    assert "shop" not in train.feature_names


def test_groups_of_arrays_and_of_a_linearisation():
    x, y = np.random.default_rng(0).standard_normal((60, 2)), np.arange(60) % 2
    train, val = da.load((x, y), groups=np.arange(60) // 3, val_fraction=0.2)
    assert not set(train.groups) & set(val.groups)
    floats, _ = da.load((x, y), groups=np.arange(60) // 3 * 1.0, val_fraction=0.2)
    assert floats.groups.tolist() == train.groups.tolist()
    flags, _ = da.load((x, y), groups=np.arange(60) < 9, val_fraction=0)
    assert {*flags.groups} == {"True", "False"}
    lin = collect(build_model("mlp:width=16", train, seed=0), train)
    with pytest.raises(SettingError, match=r"groups must be \[48\] names or numbers, two or more"):
        label_issues(lin, groups=np.zeros(len(train)))


def test_a_row_against_its_group_is_certain_and_a_group_against_others_worth_a_look():
    rng = np.random.default_rng(0)
    centre = np.where(np.arange(60) < 30, -2.0, 2.0)[:, None] + 0.5 * rng.standard_normal((60, 4))
    x = np.repeat(centre, 8, axis=0) + 0.1 * rng.standard_normal((480, 4))
    groups, truth = np.repeat(np.arange(60), 8), np.repeat(np.arange(60) >= 30, 8).astype(int)
    rows, whole = np.arange(4, 480, 48), np.flatnonzero(np.isin(groups, [7, 45]))
    given = truth.copy()
    given[rows], given[whole] = 1 - truth[rows], 1 - truth[whole]
    samples = SampleSet(x, given, np.arange(480), ("a", "b"), groups=groups)
    lin = collect(build_model("mlp:width=64", samples, seed=0), samples)
    for issues in (
        label_issues(lin, groups=groups),
        label_issues(samples, model=LogisticRegression(C=100)),
    ):
        assert issues.to_try[rows].mean() >= 0.6 and issues.worth_a_look[rows].all()
        right = np.ones(480, bool)
        right[np.concatenate([rows, whole])] = False
        assert issues.worth_a_look[whole].all() and not issues.is_issue[right].any()
        assert issues.share_wrong[0] < 26 / 480 <= issues.share_wrong[1]


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_as_many_are_held_out_as_asked(share):
    for target in ("label", "a"):
        train, val = da.load(panel(), target=target, groups="country", val_fraction=share)
        assert abs(len(val) / 240 - share) < 0.04 and not set(train.groups) & set(val.groups)


def test_a_number_of_few_rows_each_is_told_though_most_neighbours_are_others():
    """A person's rows are alike in two columns of five: more than chance, less than half."""
    frame = panel(n_groups=80, each=4, noise=0.3).drop(columns=["when"])
    frame["d"], frame["e"] = np.random.default_rng(1).standard_normal((2, len(frame)))
    frame["person"] = frame.pop("country").str.split().str[1].astype(int)
    train, val = da.load(frame, target="label", val_fraction=0.2)
    lin = collect(build_model("mlp", train, seed=0), train, val)
    (found,) = held_together(lin, train, label_issues(lin))
    assert found.column == "person" and 0.05 < found.share_alike < 0.5
    assert found.by_column < found.by_rows - 0.05


@pytest.mark.parametrize(("is_person", "is_large"), [(True, False), (False, False), (True, True)])
def test_rows_that_share_an_outcome_are_told_though_their_inputs_differ(
    is_person, is_large, monkeypatch
):
    """15 values of 40 rows: each with an outcome of its own, or one that bends with the value."""
    if is_large:  # some rows of each group, of some groups, and only trees
        monkeypatch.setattr(together, "MOST_WORK", 0)
        monkeypatch.setattr(together, "TREE_ROWS", 350)
    rng = np.random.default_rng(0)
    value = rng.permutation(np.repeat(np.arange(15), 40))
    outcome = rng.permutation(15) % 2 if is_person else np.abs(np.arange(15) - 7) > 3
    label = outcome[value] ^ (rng.random(600) < 0.1)
    frame = pd.DataFrame(rng.standard_normal((600, 3)), columns=list("abc"))
    train, _ = da.load(frame.assign(person=value, label=label.astype(int)), target="label")
    lin = collect(build_model("mlp:width=64", train, seed=0), train)
    found = held_together(lin, train, label_issues(lin))
    assert [one.column for one in found] == ["person"] * is_person
    assert all(one.by_rows > one.by_column + 0.1 and one.share_alike < 0.2 for one in found)


def test_what_others_of_a_group_tell_is_what_their_mean_tells():
    left, groups = np.random.default_rng(0).standard_normal((7, 2)), np.array([0, 1, 0, 2, 1, 0, 1])
    others = [left[(groups == groups[i]) & (np.arange(7) != i)] for i in range(7)]
    told = sum(left[i] @ rows.mean(0) for i, rows in enumerate(others) if len(rows))
    assert _measure_shared(left, groups) == pytest.approx(told / (left**2).sum())


@pytest.mark.parametrize("how", [{}, {"groups": "country"}, {"time": "when"}])
def test_the_order_of_the_rows_changes_no_split(how):
    frame, splits = panel(), []
    frame["key"] = np.random.default_rng(3).permutation(len(frame))  # ids in another order
    for seed in (0, 1):
        rows = frame.sample(frac=1, random_state=seed, ignore_index=True)
        train, val = da.load(rows, target="label", ids="key", val_fraction=0.25, **how)
        splits.append((sorted(train.ids), sorted(val.ids)))
        if "groups" in how:
            assert not set(train.groups) & set(val.groups)
        by_id = rows.set_index("key").loc[val.ids]  # each id has its own row
        assert np.array(val.class_names)[val.y].tolist() == by_id["label"].tolist()
        np.testing.assert_allclose(val.x[:, 0], by_id["a"])
    assert splits[0] == splits[1]
