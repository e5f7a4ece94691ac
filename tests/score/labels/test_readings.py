"""Which explanations of the labels are believed: noise, hardness, or that nothing predicts them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import mannwhitneyu

from datassay.score.labels import maps
from datassay.score.labels.likelihood import fit_noise, uniform_transition
from datassay.score.labels.noise import _log_odds_in_order, explain, flag_wrong
from datassay.score.labels.readings import (
    RATES,
    _vary_rate,
    find_unpredicted_classes,
    weigh_readings,
)


def explained(outputs, labels):
    judges = [torch.as_tensor(outputs).double()]
    return explain(judges, lambda _: judges, torch.as_tensor(labels))


def biased(seed, n=300, k=5):
    """Return true and given labels, and outputs that lean towards the common classes."""
    draw = np.random.default_rng(seed)
    true = draw.choice(k, n, p=[0.3, 0.35, 0.15, 0.12, 0.08])
    leaning = np.eye(k) + draw.random((k, k)) * (np.arange(k) < 2)
    outputs = np.eye(k)[true] @ leaning + 0.4 * draw.normal(size=(n, k))
    labels = np.where((true == 0) & (draw.random(n) < 0.4), 1, true)
    return true, labels, outputs


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (0.8, 0.1, 0.1), (0.1,) * 10])
@pytest.mark.parametrize("seed", range(5))
def test_labels_drawn_by_lot_give_no_list_and_no_least_share(shares, seed):
    draw, k = np.random.default_rng(seed), len(shares)
    y = draw.choice(k, 400, p=shares)
    outcome = explained(draw.normal(size=(400, k)), y)
    assert not outcome.is_predicted and not flag_wrong(outcome.log_odds).any()
    assert outcome.share[0] == 0 and outcome.n_look == 0


@pytest.mark.parametrize("rate", [0.03, 0.06, 0.1])
@pytest.mark.parametrize("n", [300, 1200])
def test_wrong_labels_of_classes_far_apart_are_listed(n, rate):
    """Outputs are nearly equally sure everywhere, so that hardness explains the labels as well."""
    draw = np.random.default_rng(0)
    true = draw.integers(2, size=n)
    wrong, x = draw.random(n) < rate, 2 * true - 1 + 0.2 * draw.normal(size=n)
    outcome = explained(np.column_stack([-x, x]), np.where(wrong, 1 - true, true))
    found = flag_wrong(outcome.log_odds).numpy()
    assert (found & wrong).sum() >= 0.9 * wrong.sum() and not (found & ~wrong).any()
    assert outcome.share[0] <= wrong.mean() <= outcome.share[1]


@pytest.mark.parametrize("n", [200, 800])
def test_classes_that_look_alike_are_hard_and_not_wrong(n):
    """Of four classes one is told from all; the outputs of the others differ little."""
    draw = np.random.default_rng(1)
    y = draw.integers(4, size=n)
    outputs = np.eye(4)[y] * np.where(y == 0, 3.0, 0.7)[:, None] + 0.5 * draw.normal(size=(n, 4))
    outcome = explained(outputs, y)
    assert outcome.is_predicted and not flag_wrong(outcome.log_odds).any()
    assert outcome.share[0] == 0 and outcome.noise.kind == "uniform"


def test_the_belief_is_the_mean_over_explanations():
    """Each weighs exp(log L), one rate as the mean over its fit and eight fixed rates.

    Those whose classes lie apart have the prior of crisp classes and few wrong labels.
    """
    draw = np.random.default_rng(2)
    x = draw.normal(size=300)
    y = torch.as_tensor((x + 0.3 * draw.normal(size=300) > 0).astype(int))
    judges, trusted = [torch.as_tensor(np.column_stack([-x, x]))], torch.zeros(300, dtype=bool)
    hard, even = (fit_noise(judges, y, form) for form in ("none", "one rate"))
    belief = weigh_readings(judges, y, trusted, hard, [])
    assert belief.p_noiseless == 1 and belief.least_share == 0 and not belief.p_wrong.any()
    belief = weigh_readings(judges, y, trusted, hard, [even])
    noises = [torch.tensor([[1 - r, r], [r, 1 - r]]).double() for r in RATES]
    fits = [even, *(fit_noise(judges, y, "none", start) for start in noises)]
    gains = [fit.log_likelihood - hard.log_likelihood + _log_prior(fit, hard, y) for fit in fits]
    assert any(_log_prior(fit, hard, y) for fit in fits)
    weights = np.append(1, np.exp(gains) / len(fits)) / (1 + np.exp(gains).mean())
    p_right = [fit.log_posterior.exp()[torch.arange(300), y] for fit in fits]
    expected = sum(w * (1 - p) for w, p in zip(weights[1:], p_right, strict=True))
    assert belief.p_noiseless == pytest.approx(weights[0])
    assert torch.allclose(belief.p_wrong, expected, atol=1e-9)


def _log_prior(fit, hard, y):
    p = fit.log_p.exp()
    if p.max(1).values.mean() <= 0.9:
        return 0.0
    fewer_nats = (p * fit.log_p).sum() - (hard.log_p.exp() * hard.log_p).sum()
    share = 1 - fit.log_posterior.exp()[torch.arange(len(y)), y].mean()
    return float(0.13 * fewer_nats - 1.5 * len(y) * share * min(share, 0.2))


@given(seed=st.integers(0, 999), n=st.integers(1, 40))
def test_probabilities_keep_their_values_and_those_below_half_take_the_order(seed, n):
    draw = np.random.default_rng(seed)
    p, odds = torch.as_tensor(draw.random(n)), torch.as_tensor(5 * draw.normal(size=n))
    ordered, high = _log_odds_in_order(p, odds), p > 0.5
    assert torch.allclose(torch.sigmoid(ordered).sort().values, p.sort().values, atol=2e-3)
    assert torch.allclose(torch.sigmoid(ordered)[high], p[high], atol=2e-3)
    assert (ordered[~high].argsort() == odds[~high].argsort()).all()


@pytest.mark.parametrize("seed", range(2))
def test_wrong_labels_of_one_region_are_listed_where_one_estimator_tells_the_classes(seed):
    """Another estimator has learned the region, and explains the labels as if it were hard."""
    draw = np.random.default_rng(seed)
    true, area = draw.integers(2, size=4000), draw.random(4000) < 0.08
    wrong = area & (draw.random(4000) < 0.4)
    labels = np.where(wrong, 1 - true, true)
    simple = (2 * true - 1) * (2 + draw.gamma(2, 1, 4000))
    rate = np.where(area, 0.4, 0.03)
    of_region = (2 * true - 1) * np.log((1 - rate) / rate) + draw.normal(size=4000)
    judges = [torch.as_tensor(np.column_stack([-f, f]) / 2) for f in (of_region, simple)]
    outcome = explain(judges, lambda _: judges, torch.as_tensor(labels))
    flagged = flag_wrong(outcome.log_odds).numpy()
    assert (flagged & wrong).sum() >= 0.9 * wrong.sum() and (flagged & ~wrong).sum() <= 3
    alone = explain(judges[:1], lambda _: judges[:1], torch.as_tensor(labels))
    assert not flag_wrong(alone.log_odds).any()


def test_a_rate_that_varies_explains_labels_as_the_sum_over_true_classes():
    draw = np.random.default_rng(3)
    truth, given = (torch.as_tensor(draw.dirichlet([1.0] * 4, 30)) for _ in range(2))
    labels = torch.as_tensor(draw.integers(4, size=30))
    trusted = torch.as_tensor(draw.random(30) < 0.2)
    expected = []
    for p, q, label, is_known in zip(truth, given, labels, trusted, strict=True):
        rate = 0.0 if is_known else min(0.5, float(1 - q[p.argmax()]))
        expected.append([
            p[c] * (1 - rate if c == label else rate * q[label] / (1 - q[c])) for c in range(4)
        ])
    joint = torch.tensor(expected)
    log_likelihood, wrong = _vary_rate(truth, given, labels, trusted)
    assert log_likelihood == pytest.approx(float(joint.sum(1).log().sum()))
    right = joint.gather(1, labels[:, None])[:, 0]
    assert torch.allclose(wrong, 1 - right / joint.sum(1)) and not wrong[trusted].any()


@pytest.mark.parametrize("seed", range(2))
def test_one_way_noise_of_two_classes_is_listed_and_told_in_both_readings(seed):
    """Two in five of class 0 are given as 1: its probabilities end at 0.6, as of no hardness."""
    draw = np.random.default_rng(seed)
    true = draw.integers(2, size=600)
    f = (2 * true - 1) * 2.0 + draw.normal(size=600)
    wrong = (true == 0) & (draw.random(600) < 0.4)
    outcome = explained(np.column_stack([-f, f]) / 2, np.where(wrong, 1, true))
    flagged = flag_wrong(outcome.log_odds).numpy()
    assert flagged.sum() > 0.4 * wrong.sum() and wrong[flagged].mean() >= 0.85
    true_class, given_class, share, n_wrong = outcome.reading
    assert (true_class, given_class) == (0, 1) and share == pytest.approx(0.4, abs=0.08)
    assert n_wrong == pytest.approx(wrong.sum(), rel=0.2)
    assert outcome.noise.kind == "class" and outcome.noise.transition[0, 1] > 0.3


@pytest.mark.parametrize("seed", range(8))
def test_hard_samples_of_two_classes_are_no_one_way_noise(seed):
    """Calibrated outputs of uneven classes: at most 1 % of the labels listed, no reading named.

    Of 40 seeds 16 of 24,000 labels are.
    """
    draw = np.random.default_rng(seed)
    f = draw.normal(size=600) * draw.uniform(1, 4) + draw.normal()
    y = (draw.random(600) < 1 / (1 + np.exp(-f))).astype(int)
    outcome = explained(np.column_stack([-f, f]) / 2, y)
    assert outcome.reading is None and flag_wrong(outcome.log_odds).sum() <= 6


@pytest.mark.parametrize("step", [1, 2])
def test_a_map_of_classes_is_the_best_penalised_one(step, monkeypatch):
    monkeypatch.setattr(maps, "MAP_VALUES", 60 * 9 / step)  # every step-th row counts
    rng = np.random.default_rng(4)
    outputs = torch.as_tensor(rng.normal(size=(60, 3)))
    labels = (outputs + torch.as_tensor(rng.normal(size=(60, 3)))).argmax(1)
    labels = torch.where(labels == 2, outputs[:, :2].argmin(1), labels)  # which maps tell apart
    plain = fit_noise([outputs], labels, "none")
    mapped, price = maps.map_classes(plain, labels, torch.zeros(60, dtype=bool))
    logits = (plain.log_p - plain.log_p.mean(1, keepdim=True)).numpy()

    def log_p_of(v):
        return log_softmax(logits @ (np.eye(3) + v[:9].reshape(3, 3)).T + v[9:], 1)

    def log_prior(v):
        return -(v[:9] @ v[:9] / maps.MAP_VARIANCE + v[9:] @ v[9:] / maps.SHIFT_VARIANCE) / 2

    def loss(v):
        p = np.exp(log_p_of(v)) @ plain.transition.numpy()
        return -log_prior(v) - step * np.log(p)[np.arange(0, 60, step), labels[::step]].sum()

    best = minimize(loss, np.zeros(12), options={"gtol": 1e-7})
    assert price == pytest.approx(18 * maps.MAP_COST - log_prior(best.x), abs=0.02)
    np.testing.assert_allclose(mapped.log_p, log_p_of(best.x), atol=1e-2)
    given = (mapped.log_p.exp() @ plain.transition).gather(1, labels[:, None]).log().sum()
    assert mapped.log_likelihood == pytest.approx(float(given))


@pytest.mark.parametrize("seed", range(3))
def test_noise_and_biased_predictions_are_explained_together(seed):
    """Two in five of class 0 are given as 1, and predictions lean towards the common classes.

    A map without noise explains that better than noise without a map: nothing was listed.
    """
    true, labels, outputs = biased(seed)
    outcome = explained(outputs, labels)
    flagged, wrong = flag_wrong(outcome.log_odds).numpy(), labels != true
    assert flagged.sum() > 0.3 * wrong.sum() and wrong[flagged].mean() >= 0.85


def test_integrated_rates_are_a_lower_bound_of_the_evidence():
    draw = np.random.default_rng(0)
    y = torch.as_tensor(draw.integers(3, size=12))
    outputs = torch.as_tensor(2 * np.eye(3)[y] + draw.normal(size=(12, 3)))
    fit, trusted = fit_noise([outputs], y, "by class"), torch.arange(12) < 3
    bound = maps.integrate_rates(fit, y, trusted)
    p_right = fit.log_posterior.exp()[torch.arange(12), y]
    rows = 10 * uniform_transition(3, float(1 - p_right[~trusted].mean()))
    p = fit.log_p.exp()
    transitions = torch.stack([torch.as_tensor(draw.dirichlet(r, 20_000)) for r in rows], 1)
    chances = torch.einsum("nc,tcn->tn", p, transitions[:, :, y])
    chances[:, trusted] = p[torch.arange(12), y][trusted]
    evidence = float(chances.log().sum(1).exp().mean().log())
    assert evidence - 0.3 < bound.log_likelihood - bound.cost < evidence + 0.01
    assert torch.equal(bound.log_posterior[trusted].argmax(1), y[trusted])


def test_the_rank_test_of_a_class_is_scipys():
    draw = np.random.default_rng(5)
    labels = torch.as_tensor(np.r_[draw.integers(3, size=80), [3, 3, 3]])
    log_p = torch.as_tensor(draw.normal(size=(83, 4)).round(1))
    log_p[labels == 1, 1] += 1
    is_unpredicted = find_unpredicted_classes(log_p, labels)
    for c in range(4):
        groups = log_p[labels == c, c], log_p[labels != c, c]
        test = {"alternative": "greater", "method": "asymptotic", "use_continuity": False}
        assert is_unpredicted[c] == (mannwhitneyu(*groups, **test).pvalue > 0.05), c
    assert not is_unpredicted[1] and is_unpredicted.any()


@pytest.mark.parametrize(("is_told", "n_listed"), [(False, 0), (True, 1)])
def test_labels_of_a_class_that_nothing_predicts_are_not_called_wrong(is_told, n_listed):
    """A class of five, drawn by lot, or told by its inputs but for one that is wrong."""
    draw = np.random.default_rng(2)
    n = 600
    true = draw.integers(3, size=n)
    given = np.where(draw.random(n) < 0.04, (true + 1) % 3, true)
    given[:5] = 3
    f = np.eye(4)[true] + 0.15 * draw.normal(size=(n, 4))
    if is_told:
        f[1:5] = np.eye(4)[3] + 0.15 * draw.normal(size=(4, 4))
    diagnosis = explained(f, given)
    is_listed = flag_wrong(diagnosis.log_odds).numpy()
    assert is_listed[:5].sum() == n_listed
    assert is_listed[given != true][5:].mean() > 0.8
