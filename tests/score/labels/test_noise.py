"""Noise and calibration: the maximum by another route, the count by its definition, two ends."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from datassay.score.labels import likelihood
from datassay.score.labels.forms import can_pay
from datassay.score.labels.likelihood import COMMON_COUNT, fit_noise
from datassay.score.labels.noise import (
    CONTRADICTED,
    TRUSTED,
    WEAK,
    _log_odds_in_order,
    _narrow_by_trusted,
    _scale_log_odds,
    confident_count,
    explain,
    flag_wrong,
)

SOFT = np.random.default_rng(0)


def drawn(n=600, k=3, rate=0.2, seed=0, spread=0.25):
    """Outputs of a judge, true labels drawn from softmax(4 f), and given ones, wrong at a rate."""
    draw = np.random.default_rng(seed)
    true = draw.integers(k, size=n)
    f = np.eye(k)[true] + spread * draw.normal(size=(n, k))
    wrong = draw.random(n) < rate
    given = np.where(wrong, (true + draw.integers(1, k, n)) % k, true)
    return torch.as_tensor(f), torch.as_tensor(given), torch.as_tensor(true)


def penalised(f, y, parameters, k):
    """−log-likelihood under one rate, and the priors, written out."""
    a, b, logit = parameters[0], parameters[1 : k + 1], parameters[-1]
    rate = 1 / (1 + np.exp(-logit))
    z = a * f + b
    p = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
    chance = p[np.arange(len(y)), y]
    likelihood = np.log(chance * (1 - rate) + (1 - chance) * rate / (k - 1)).sum()
    return -likelihood - 5 * np.log(1 - rate) + (b**2).sum() / 18 + 5e-7 * len(y) * (a**2)


def test_one_rate_is_the_likeliest():
    f, y, _ = drawn(spread=0.4)
    fit = fit_noise([f], y, "one rate")
    best = minimize(
        lambda v: penalised(f.numpy(), y.numpy(), v, 3), np.r_[4.0, np.zeros(3), -1.0],
        method="BFGS", options={"gtol": 1e-7},
    ).x  # fmt: skip
    rate = 1 - fit.transition[0, 0].item()
    assert rate == pytest.approx(1 / (1 + np.exp(-best[-1])), abs=5e-3)
    assert rate == pytest.approx(0.2, abs=0.04)
    assert fit.weights[0].item() == pytest.approx(best[0], rel=0.05)


def test_log_odds_are_scaled_to_the_least_cross_entropy():
    rng = np.random.default_rng(0)
    for scale, shift in ((1.0, 0.0), (0.2, -3.0), (4.0, 2.0)):
        odds = torch.as_tensor(3 + 7 * rng.normal(size=200))
        aim = torch.as_tensor(rng.random(200)) ** 0.2 * torch.sigmoid(
            scale * (odds - 3) / 7 + shift
        )
        scaled = _scale_log_odds(odds, aim).numpy()
        z = ((odds - odds.mean()) / odds.std(correction=0)).numpy()
        slope, start = np.polyfit(z, scaled, 1)
        np.testing.assert_allclose(scaled, slope * z + start, atol=1e-9)
        best = minimize(
            lambda v, z=z, p=aim: np.logaddexp(0, v[0] * z + v[1]).sum()
            - p.numpy() @ (v[0] * z + v[1]) + WEAK * (v @ v) / 2,
            np.zeros(2), options={"gtol": 1e-8},
        ).x  # fmt: skip
        np.testing.assert_allclose([slope, start], best, atol=1e-5)
    falling = _scale_log_odds(odds, 1 - torch.sigmoid(odds))
    assert (falling.diff()[odds.diff() > 0] >= 0).all()  # their order stays
    same = _scale_log_odds(torch.ones(3), torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64))
    assert same.sigmoid().tolist() == pytest.approx([0.1, 0.5, 0.9])


def test_suspects_keep_their_probability_and_others_the_order_of_their_log_odds():
    odds = torch.linspace(-19, 19, 39, dtype=torch.float64)
    same = _log_odds_in_order(torch.full((39,), 0.2, dtype=torch.float64), odds)
    assert (same.diff() > 1e-6).all() and (same.sigmoid() - 0.2).abs().max() < 1e-3
    p = torch.as_tensor(np.random.default_rng(0).random(39))
    ordered, suspect = _log_odds_in_order(p, odds), p > 0.5
    torch.testing.assert_close(ordered.sigmoid()[suspect], p[suspect], atol=1e-3, rtol=0)
    assert (ordered[~suspect].diff() > 0).all() and (ordered[~suspect] < 0).all()
    expected = p[~suspect].sort().values
    torch.testing.assert_close(ordered.sigmoid()[~suspect], expected, atol=1e-3, rtol=0)


def test_noise_by_class_is_found_and_rows_are_shrunk_to_the_one_rate():
    f, _, true = drawn(n=3000)
    flip = torch.as_tensor(np.random.default_rng(1).random(3000) < 0.3)
    y = torch.where((true == 1) & flip, 2, true)
    t = fit_noise([f], y, "by class").transition
    assert t[1, 2] == pytest.approx(0.3, abs=0.03) and t[1, 0] < 0.02 and t[0, 1:].max() < 0.02
    few = fit_noise([f[:9]], y[:9], "by class").transition
    spread = (few - few.mean(0)).abs().max()
    assert COMMON_COUNT > 3 and spread < 1 and torch.allclose(few.sum(1), torch.ones(3).double())


def test_a_judge_that_says_nothing_is_not_heard_and_changes_nothing():
    f, y, _ = drawn()
    against = -f + 0.1 * torch.as_tensor(SOFT.normal(size=f.shape))
    alone, both = fit_noise([f], y, "none"), fit_noise([f, against - f], y, "none")
    assert both.weights[1] == 0 and torch.allclose(both.log_p, alone.log_p, atol=1e-6)


def test_rows_in_another_order_give_the_same():
    f, y, _ = drawn()
    order = torch.as_tensor(np.random.default_rng(3).permutation(len(y)))
    for form in ("none", "one rate", "by class"):
        one, other = fit_noise([f], y, form), fit_noise([f[order]], y[order], form)
        assert torch.allclose(one.log_posterior[order], other.log_posterior, atol=1e-8)


def test_the_confident_count_by_its_definition():
    draw = np.random.default_rng(0)
    p, y = draw.dirichlet(np.ones(4), 200), draw.integers(4, size=200)
    least = [p[y == c, c].mean() for c in range(4)]
    joint = np.zeros((4, 4))
    for row, given in zip(p, y, strict=True):
        above = [c for c in range(4) if row[c] >= least[c]]
        if above:
            joint[given, max(above, key=lambda c: row[c])] += 1
    joint = joint / joint.sum(1, keepdims=True) * np.bincount(y)[:, None]
    expected = joint.sum() - np.trace(joint)
    assert confident_count(torch.as_tensor(p), torch.as_tensor(y)) == pytest.approx(expected)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_the_share_lies_between_both_ends_and_those_to_look_at_hold_the_wrong(rate):
    f, y, true = drawn(n=2000, rate=rate, seed=2)
    found = explain([f], lambda _: [f], y)
    low, high = found.share
    wrong = (y != true).numpy()
    assert low <= wrong.mean() <= high and high - low < 0.12
    top = np.argsort(-found.log_odds.numpy())[: found.n_look]
    assert wrong[top].sum() >= 0.9 * wrong.sum() and found.n_look <= wrong.sum() + 0.05 * 2000


def test_noise_that_looks_like_hard_samples_is_said_to_be_possible():
    """Labels wrong near the border: no rate explains them, and yet they may be wrong."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=4000)
    true = (x > 0).astype(int)
    wrong = draw.random(4000) < 0.5 * np.exp(-np.abs(x) / 0.3)
    y = torch.as_tensor(np.where(wrong, 1 - true, true))
    f = torch.as_tensor(np.column_stack([-x, x]))
    found = explain([f], lambda _: [f], y)
    assert found.noise.kind == "uniform" and found.share[0] < 0.02
    assert found.share[1] >= wrong.mean() and found.n_look >= 0.25 * wrong.sum()
    # Nothing is for noise or against: a part of what is contradicted counts as wrong, none surely.
    chance = torch.sigmoid(found.log_odds)
    contradicted = 1 - fit_noise([f], y, "none").log_p.exp().gather(1, y[:, None]).mean()
    by_noise = torch.sigmoid(found.by_noise).mean()
    part = (1 - CONTRADICTED) * by_noise + CONTRADICTED * contradicted
    assert 0.6 * part < chance.mean() < part
    listed = flag_wrong(found.log_odds).numpy()  # far from the boundary no sample is hard
    assert listed.sum() < 0.05 * wrong.sum() and wrong[listed].all()
    assert float(by_noise) < 0.25 * wrong.mean() < chance.mean()
    order = torch.argsort(found.by_noise)
    assert (found.log_odds[order].diff() >= 0).all()  # both readings have one order


def test_probably_wrong_are_labels_of_a_large_probability():
    odds = torch.linspace(-4, 4, 95)
    expected = torch.sigmoid(odds) * 95 / 100 > 0.8
    assert torch.equal(flag_wrong(odds), expected) and 0 < expected.sum() < 95


def test_a_pair_of_many_classes_is_named_where_a_whole_transition_cannot_be_paid():
    """Of ten classes one in three of class 4 is given as 7: 44.5 nats are too dear, 5 are not."""
    f, _, true = drawn(n=1000, k=10)
    flip = torch.as_tensor(np.random.default_rng(1).random(1000) < 0.33)
    y = torch.where((true == 4) & flip, 7, true)
    pairs, dense = (fit_noise([f], y, form) for form in ("pairs", "by class"))
    assert pairs.cost == pytest.approx(np.log(90) + 0.5) and dense.cost == 44.5
    others = pairs.transition[~torch.eye(10, dtype=torch.bool)]
    assert pairs.transition[4, 7] == pytest.approx(0.33, abs=0.08)
    assert (others.sort().values[:-1] < 0.005).all()
    found = explain([f], lambda _: [f], y)
    assert found.noise.kind == "class" and found.noise.transition[4, 7] > 0.2
    flagged = flag_wrong(found.log_odds)
    assert flagged.sum() >= 0.8 * (y != true).sum() and (y != true)[flagged].double().mean() > 0.85


def test_no_pair_is_named_where_one_rate_explains_all():
    f, y, _ = drawn(n=1000, k=6, rate=0.2)
    pairs, even = (fit_noise([f], y, form) for form in ("pairs", "one rate"))
    assert pairs.cost == 0.0
    torch.testing.assert_close(pairs.transition, even.transition, atol=2e-3, rtol=0)


def test_between_noise_of_a_class_and_of_a_region_the_order_is_that_of_both():
    """Of two classes, where the gain is for the first but not enough: the mean, written out."""
    draw = np.random.default_rng(5)
    x = draw.normal(size=600) + 0.5
    true = (x + 0.5 * draw.normal(size=600) > 0).astype(int)
    y = torch.as_tensor(np.where((true == 1) & (draw.random(600) < 0.12), 0, true))
    f = torch.as_tensor(np.column_stack([-x, x]))
    found = explain([f], lambda _: [f], y)
    hard, even, by_class = (fit_noise([f], y, form) for form in ("none", "one rate", "by class"))
    nats = by_class.log_likelihood - even.log_likelihood - 0.5
    assert 2 < nats < 15
    # The noise is told, since one rate and hardness explain the labels less well.
    assert found.noise.kind == "class" and found.reading[:2] == (1, 0)
    assert found.reading[2] == pytest.approx(0.12, abs=0.06)
    part = (nats - 2) / (15 - 2)  # ENOUGH of 600 samples are 15 nats
    again = [fit_noise([f], y, one.form, one.transition) for one in (even, by_class)]
    first = torch.log_softmax((even.log_posterior + again[0].log_posterior) / 2, 1)
    second = torch.log_softmax((hard.log_p + again[1].log_posterior) / 2, 1)
    expected = torch.log_softmax((1 - part) * first + part * second, 1)
    assert torch.allclose(found.posterior, expected)
    wrong = (y != torch.as_tensor(true)).numpy()
    alone = first.gather(1, 1 - y[:, None])[:, 0] - first.gather(1, y[:, None])[:, 0]
    ranks = [np.argsort(np.argsort(one.numpy())) for one in (found.log_odds, alone)]
    assert ranks[0][wrong].mean() > ranks[1][wrong].mean()
    for n in (40, 80):  # so few cannot be in between
        some = explain([f[:n]], lambda _, n=n: [f[:n]], y[:n])
        even = fit_noise([f[:n]], y[:n], "one rate")
        again = fit_noise([f[:n]], y[:n], "one rate", even.transition)
        both = torch.log_softmax((even.log_posterior + again.log_posterior) / 2, 1)
        assert some.noise.kind == "uniform" and torch.allclose(some.posterior, both)


def test_labels_known_to_be_right_tell_hard_samples_from_wrong_labels():
    """Half of the disagreement is hardness; a fifth of the labels is known to be right."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=3000)
    true = (x + 0.7 * draw.normal(size=3000) > 0).astype(int)
    trusted = torch.as_tensor(draw.random(3000) < 0.2)
    wrong = (draw.random(3000) < 0.1) & ~trusted.numpy()
    y = torch.as_tensor(np.where(wrong, 1 - true, true))
    f = torch.as_tensor(np.column_stack([-x, x]))
    alone, told = (explain([f], lambda _: [f], y, "uniform", known) for known in (None, trusted))
    assert (told.log_odds[trusted] == TRUSTED).all()
    assert (torch.argmax(told.posterior[trusted], 1) == y[trusted]).all()
    assert told.share[0] <= wrong.mean() <= told.share[1]
    assert told.share[1] - told.share[0] < 0.6 * (alone.share[1] - alone.share[0])
    # Its transition is that of the others: those known to be right do not dilute it.
    rate = 1 - told.noise.transition[0, 0]
    assert rate == pytest.approx(wrong[~trusted.numpy()].mean(), abs=0.03)


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_trusted_labels_narrow_the_share_by_rogan_and_gladen(k):
    """Of the rate of contradiction e = s (1 - c / (k - 1)) + (1 - s) c, at both ends of e and c."""
    rng = np.random.default_rng(k)
    for _ in range(300):
        low, high = np.sort(rng.random(2))
        error, contradicted = rng.random(2) * rng.choice([0.2, 1.0], 2)
        n, n_trusted = rng.integers(20, 400, 2).tolist()
        off = 1.96 * np.sqrt(error * (1 - error) / n)
        off_trusted = 1.96 * np.sqrt(contradicted * (1 - contradicted) / n_trusted)
        ends = []
        for e, c in ((error - off, contradicted + off_trusted),
                     (error + off, max(0.0, contradicted - off_trusted))):  # fmt: skip
            slope = 1 - c - (c / (k - 1) if k > 1 else c)
            ends.append((e - c) / slope if slope > 0 else (0.0 if not ends else 1.0))
        if ends[1] <= 0:
            expected = low, min(1.0, max(high, contradicted + off_trusted))
        else:
            expected = sorted((max(low, ends[0]), min(high, ends[1])))
        narrowed = _narrow_by_trusted((low, high), error, contradicted, n, n_trusted, k)
        assert narrowed == pytest.approx(tuple(expected))


def test_predictions_that_learned_the_wrong_rule_leave_the_upper_end_high():
    """A column repeats the given labels, so that only labels known to be right contradict it."""
    draw = np.random.default_rng(1)
    true = draw.integers(2, size=1000)
    wrong = draw.random(1000) < 0.2
    given, trusted = np.where(wrong, 1 - true, true), draw.random(1000) < 0.2
    f = torch.as_tensor(3.0 * np.eye(2)[given])
    y = torch.as_tensor(np.where(trusted, true, given))
    found = explain([f], lambda _: [f], y, "uniform", torch.as_tensor(trusted))
    assert found.share[1] > 0.1


def test_noise_by_class_is_not_tried_where_its_parameters_cost_more_than_there_is_to_gain():
    f, y, _ = drawn(n=200, k=40)
    outcome = explain([f], lambda _: [f], y, "auto", None)
    assert outcome.noise.gain < 0.01 and outcome.noise.kind == "uniform"
    assert not can_pay("by class", "auto", 40, 700.0) and can_pay("by class", "auto", 40, 800.0)


@pytest.mark.parametrize("form", ["none", "one rate"])
def test_without_intercepts_the_likelihood_is_the_highest_that_weights_alone_reach(
    form, monkeypatch
):
    f, y, _ = drawn(spread=0.4)
    monkeypatch.setattr(likelihood, "MOST_INTERCEPTS", 2)
    fit = fit_noise([f], y, form)
    p = torch.softmax(fit.weights * f, 1)
    torch.testing.assert_close(fit.log_p.exp(), p)
    for scale in (0.97, 1.03):
        log_p = torch.log_softmax(scale * fit.weights * f, 1)
        given = (log_p.exp() @ fit.transition).gather(1, y[:, None]).log().sum()
        assert float(given) < fit.log_likelihood


def test_labels_of_another_group_stand_before_those_that_look_alike():
    """As reviews of one star among those of five: one and two stars cannot be told apart."""
    rng = np.random.default_rng(0)
    stars = rng.integers(0, 4, 600)
    is_wrong = rng.random(600) < 0.03
    labels = np.where(is_wrong, 3 - stars, stars)
    halves = 0.5 + rng.normal(0, 0.06, 600)[:, None] * np.array([1, -1])
    outputs = rng.normal(0, 0.03, (600, 4))
    for group in (0, 1):
        outputs[stars // 2 == group, 2 * group : 2 * group + 2] += halves[stars // 2 == group]
    outputs = torch.from_numpy(outputs)
    found = explain([outputs], lambda _: [outputs], torch.from_numpy(labels))
    ranks = np.argsort(np.argsort(-found.log_odds.numpy()))
    assert ranks[is_wrong].max() < 1.4 * is_wrong.sum()
