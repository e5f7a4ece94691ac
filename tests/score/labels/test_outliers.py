"""Outliers of a regression whose residuals grow with its output, as a skewed target's do."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score

import datassay as da
from datassay.score.label_issues import label_issues
from datassay.score.labels.outliers import (
    AT_LIMIT,
    LIMIT_SHARE,
    _fit_mixture,
    _flag_limit,
    _scales,
    least_share,
    outliers,
)
from helpers.linearizations import linearization


def skewed(n=2000, seed=0):
    """Log-normal targets, held-out outputs that miss each by about 15 %, and 1 % gross errors."""
    rng = np.random.default_rng(seed)
    output = np.exp(rng.normal(8, 1, n))
    target = output * np.exp(rng.normal(0, 0.15, n))
    wrong = rng.permutation(n) < n // 100
    target[wrong] *= np.where(rng.random(wrong.sum()) < 0.5, 3, 1 / 3)
    return torch.from_numpy(target)[:, None], torch.from_numpy(output)[:, None], wrong


def test_gross_errors_in_a_skewed_target_are_found():
    target, output, wrong = skewed()
    plain = (target - output).abs()[:, 0].numpy()
    result = outliers(target, output)
    assert roc_auc_score(wrong, plain) < 0.92  # sizes alone point at the largest targets
    assert roc_auc_score(wrong, result.score.numpy()) > 0.99
    flagged = (result.probability > 0.5).numpy()
    assert wrong[flagged].mean() >= 0.8 and flagged.any()


@pytest.mark.parametrize("of", ["one sign", "both signs"])
@pytest.mark.parametrize("unit", [1e-9, 40.0])
def test_scores_have_no_unit(unit, of):
    target, output, _ = skewed(300)
    if of == "both signs":
        target[:9] *= -1
    one, other = outliers(target, output), outliers(unit * target, unit * output)
    torch.testing.assert_close(one.score, other.score)
    torch.testing.assert_close(one.probability, other.probability)
    assert one.most == other.most > 0


def test_equal_residuals_everywhere_are_left_as_they_are():
    rng = np.random.default_rng(1)
    output = torch.from_numpy(rng.random(400))[:, None]
    residual = torch.from_numpy(rng.standard_normal(400))[:, None]
    centred = (residual - residual.median()).abs()[:, 0]
    expected = centred / (1.4826 * centred.median()) - 3.5
    torch.testing.assert_close(outliers(output + residual, output).score, expected)


@pytest.mark.parametrize(("factor", "is_skewed"), [(1 / 12, True), (-1.0, True), (3.0, False)])
def test_a_scale_is_chosen_on_which_wrong_units_show(factor, is_skewed):
    """Of log-normal targets a twelfth lies among the others; symmetric ones stay as they are."""
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.normal(size=(400, 4)))
    y = x.sum(1, keepdim=True) / 2 + 0.2 * torch.from_numpy(rng.normal(size=(400, 1)))
    y = 20 * y.exp() if is_skewed else y + 20
    wrong = rng.random(400) < 0.03
    y[wrong] *= factor
    lin = linearization(torch.cat([x, 0 * y + 3], 1)[:, None], y[:, None], dual=False)
    issues = label_issues(lin)
    assert roc_auc_score(wrong, issues.score) > 0.99
    assert wrong[issues.is_issue].mean() > 0.7 and issues.is_issue[wrong].mean() > 0.8
    expected = torch.from_numpy(issues.suggested_label[wrong]) * factor
    assert ((expected / y[wrong, 0]).log().abs() < 1).double().mean() > 0.8


def test_targets_thrice_what_is_expected_are_worth_a_look_and_a_wrong_unit_is_wrong():
    """On a scale of logarithms both stray; only the twelvefold are probably wrong."""
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.normal(size=(600, 4)))
    noise = 0.25 * torch.from_numpy(rng.normal(size=(600, 1)))
    y = 20 * (x.sum(1, keepdim=True) / 2 + noise).exp()
    wrong, stray = np.arange(600) < 18, (np.arange(600) >= 18) & (np.arange(600) < 36)
    y[wrong] *= 12
    y[stray] *= 3
    lin = linearization(torch.cat([x, 0 * y + 3], 1)[:, None], y[:, None], dual=False)
    issues = label_issues(lin)
    assert issues.is_issue[wrong].mean() > 0.8 and issues.is_issue[stray].mean() < 0.2
    assert issues.worth_a_look[stray].mean() > 0.5


@pytest.mark.parametrize("nu", [2.0, 8.0])
@pytest.mark.parametrize("share", [0.0, 0.05])
def test_the_mixture_is_fitted_by_its_greatest_likelihood(nu, share):
    rng = np.random.default_rng(0)
    z = np.r_[1.7 * rng.standard_t(4, 400), rng.uniform(-60, 60, 30)]
    anywhere = torch.full((430,), -np.log(120.0), dtype=torch.float64)
    likelihood, wrong, *_ = _fit_mixture(torch.from_numpy(z), anywhere, nu, share, anywhere < 0)

    def lost(parameters):
        scale, lot = np.exp(parameters[0]), expit(parameters[1]) if share else 0.0
        return -np.log((1 - lot) * stats.t.pdf(z, nu, scale=scale) + lot / 120).sum()

    best = minimize(lost, [0.0, -2.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    assert likelihood == pytest.approx(-best.fun, abs=1e-3)
    assert float(wrong.mean()) == pytest.approx(expit(best.x[1]) if share else 0.0, abs=1e-3)


@pytest.mark.parametrize("shape", ["uniform", "two peaks", "ends", "normal"])
def test_right_targets_that_nothing_predicts_are_not_called_wrong(shape):
    rng = np.random.default_rng(0)
    y = {
        "uniform": rng.uniform(0, 100, 500), "normal": rng.normal(size=500),
        "two peaks": rng.choice([20.0, 80.0], 500) + 4 * rng.normal(size=500),
        "ends": 100 * rng.beta(0.4, 0.4, 500),
    }[shape]  # fmt: skip
    output = np.full((500, 1), y.mean()) + 0.02 * y.std() * rng.normal(size=(500, 1))
    assert not outliers(torch.from_numpy(y)[:, None], torch.from_numpy(output)).probability.any()


@pytest.mark.parametrize(("end", "is_wrong"), [(0.0, False), (-999.0, True)])
def test_a_value_that_many_share_is_a_limit_unless_it_lies_apart(end, is_wrong):
    rng = np.random.default_rng(0)
    output = rng.uniform(100, 900, (400, 1))
    y = np.abs(output + 30 * rng.normal(size=(400, 1)))
    y[:8], y[8:60] = end, rng.uniform(5, 900, (52, 1))  # and others of which nothing is known
    output[:8] = 600.0
    probability = outliers(torch.from_numpy(y), torch.from_numpy(output)).probability
    assert ((probability[:8] > 0.5) == is_wrong).all() and (probability[8:60] > 0.5).any()


@pytest.mark.parametrize("is_natural", [False, True])
def test_targets_with_the_other_sign_are_wrong_unless_the_others_reach_across_zero(is_natural):
    rng = np.random.default_rng(0)
    output = rng.uniform(1, 3, (600, 1)) + (not is_natural)
    if is_natural:
        y = output + 1.1 * (1 - rng.exponential(size=(600, 1)))
    else:
        y = np.abs(output + 0.6 * rng.standard_t(3, (600, 1)))
        y[:18] *= -1
    turned = outliers(torch.from_numpy(y), torch.from_numpy(output)).probability[y[:, 0] < 0]
    share = float((turned > 0.5).double().mean())
    assert len(turned) > 10 and (share < 0.2 if is_natural else share > 0.9)


HILLS = """2.5 650 16.083 6 2500 48.35 6 900 33.65 7.5 800 45.6 8 3070 62.267 8 2866 73.217 16 7500
204.617 6 800 36.367 5 800 29.75 6 650 39.75 28 2100 192.667 5 2000 43.05 9.5 2200 65 6 500 44.133
4.5 1500 26.933 10 3000 72.25 14 2200 98.417 3 350 78.65 4.5 1000 17.417 5.5 600 32.567 3 300 15.95
3.5 1500 27.9 6 2200 47.633 2 900 17.933 3 600 18.683 4 2000 26.217 6 800 34.433 5 950 28.567 6.5
1750 50.5 5 500 20.95 10 4400 85.583 6 600 32.383 18 5200 170.25 4.5 850 28.1 20 5000 159.833"""


def test_the_hill_race_that_took_an_hour_longer_is_found():
    """Record times of 35 Scottish races by distance and climb (Atkinson 1986): Knock Hill's."""
    rows = np.array(HILLS.split(), float).reshape(35, 3)
    samples, _ = da.load((rows[:, :2], rows[:, 2]), val_fraction=0)
    issues = label_issues(da.collect(da.build_model("mlp", samples), samples))
    assert np.flatnonzero(issues.is_issue).tolist() == [17]
    assert issues.suggested_label[17] == pytest.approx(18.65, abs=6)


def test_suggested_targets_lie_where_right_ones_were_observed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.exp(2 * x[:, 0] + 0.1 * rng.normal(size=200))
    x[:3, 0], y[3:8] = [6.0, 7.0, -8.0], 50 * y[3:8]
    samples, _ = da.load((x, y), val_fraction=0)
    issues = label_issues(da.collect(da.build_model("mlp", samples), samples))
    right = y[~issues.is_issue]
    assert issues.is_issue.any() and issues.suggested_label.max() <= right.max()
    assert issues.suggested_label.min() >= right.min()


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["lognormal", "uniform", "two peaks", "exponential"])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_targets_that_nothing_predicts_are_not_wrong(draw, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 4))
    y = {
        "lognormal": lambda: np.exp(rng.normal(size=400)),
        "uniform": lambda: rng.random(400),
        "two peaks": lambda: rng.choice([-2, 2], 400) + 0.3 * rng.normal(size=400),
        "exponential": lambda: rng.exponential(size=400),
    }[draw]()
    samples, _ = da.load((x, y), val_fraction=0)
    issues = label_issues(da.collect(da.build_model("linear", samples), samples))
    assert not issues.is_issue.any()


@pytest.mark.parametrize("n", [100, 600, 2000])
def test_a_limit_is_what_enough_targets_share_no_farther_than_the_others_reach(n):
    fewest = int(np.ceil(max(AT_LIMIT, LIMIT_SHARE * n)))
    for n_equal in (fewest - 1, fewest):
        others = np.linspace(10, 30, n - n_equal)  # whose middle half is 10 wide
        for distance in (9.9, 10.0, 10.1):
            for end, sign in ((10.0, -1), (30.0, 1)):
                y = np.r_[others, np.full(n_equal, end + sign * distance)]
                flags = _flag_limit(torch.from_numpy(y)).numpy()
                assert not flags[: n - n_equal].any()
                assert (flags[n - n_equal :] == (n_equal == fewest and distance <= 10)).all()


def test_the_least_share_is_what_is_surely_wrong_less_two_standard_errors():
    rng = np.random.default_rng(0)
    for p in (rng.random(200), np.full(7, 0.95), np.full(50, 0.2), np.zeros(3), np.ones(10)):
        sure = np.minimum(p, 0.9)[p > 0.9]
        expected = max(0.0, sure.sum() - 2 * (sure * (1 - sure)).sum() ** 0.5) / len(p)
        assert least_share(torch.from_numpy(p)) == pytest.approx(expected, abs=1e-12)


def test_where_most_residuals_are_zero_no_scale_is_fitted():
    output, few = torch.arange(200.0).double(), torch.zeros(200).double()
    few[::3] = 5.0
    assert (_scales(few, output) == 1).all() and (_scales(output[:5], output[:5]) == 1).all()
