"""Label issues: held-out outputs by the definition, the score's sign, units, refusals, a figure."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from datassay.act.remove.rivals import auroc
from datassay.collect.collection import collect
from datassay.collect.form import ProductSettings
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.score.label_issues import MARGIN, RIDGES, label_issues
from datassay.score.linear.eigenbasis import eigenbasis
from helpers.linearizations import linearization, random_jacobians


def class_problem(n=24, k=3, seed=0, p=6):
    """Jacobians that carry the class, one-hot targets, three labels wrong."""
    phi, _, _ = random_jacobians(n, 1, k, p, 2, seed)
    labels = np.arange(n) % k
    phi[:, 0, :k] += 6 * torch.nn.functional.one_hot(torch.as_tensor(labels), k)
    given = labels.copy()
    given[:3] = (given[:3] + 1) % k
    targets = torch.nn.functional.one_hot(torch.as_tensor(given), k).double()
    return phi, given, labels, targets[:, None]


def ridge_without(phi, targets, i, weight, ridge):
    """f₋ᵢ(x_i) of weighted ridge regression, by deleting the sample and solving."""
    keep = [j for j in range(len(phi)) if j != i]
    x, y, w = phi[keep].flatten(0, 1), targets[keep].flatten(0, 1), weight[keep]
    w = w.repeat_interleave(phi.shape[1])[:, None]
    gram = x.T @ (w * x) + ridge * torch.eye(x.shape[1]).double()
    return (phi[i] @ torch.linalg.solve(gram, x.T @ (w * y))).flatten()


@pytest.mark.parametrize(("dual", "p"), [(True, 40), (False, 6)], ids=["dual", "primal"])
@pytest.mark.parametrize("rounds", [0, 1])
def test_held_out_outputs_are_those_of_the_fit_without_the_sample(dual, p, rounds):
    phi, given, _, targets = class_problem(p=p)
    lin = linearization(phi, targets, dual=dual, labels=given)
    issues = label_issues(lin, rounds=rounds)
    weight = torch.as_tensor(issues.weight)
    expected = torch.stack([
        ridge_without(phi, targets, i, weight, issues.ridge) for i in range(len(phi))
    ])
    np.testing.assert_allclose(issues.held_out, expected, rtol=1e-8, atol=1e-10)


def test_the_primal_form_serves_sets_too_large_for_a_kernel(monkeypatch):
    """Joint outputs, b = 3 rows a sample, without the [n, n] kernel."""
    phi, _, _ = random_jacobians(20, 3, 1, 9, 2, seed=3)
    labels = np.arange(20) % 3
    targets = torch.nn.functional.one_hot(torch.as_tensor(labels), 3).double()[..., None]
    lin = linearization(phi, targets, dual=False, labels=labels)
    monkeypatch.setattr(import_module("datassay.score.label_issues"), "LARGEST_KERNEL", 10)
    issues = label_issues(lin)
    weight = torch.as_tensor(issues.weight)
    expected = torch.stack([
        ridge_without(phi, targets, i, weight, issues.ridge) for i in range(20)
    ])
    np.testing.assert_allclose(issues.held_out, expected, rtol=1e-8, atol=1e-10)


def test_the_ridge_has_the_least_leave_one_out_error():
    phi, given, _, targets = class_problem()
    lin = linearization(phi, targets, dual=True, labels=given)
    issues = label_issues(lin, rounds=0)
    largest = float(torch.linalg.eigvalsh(lin.kernel)[-1])
    ones = torch.ones(len(phi))

    def error(ridge):
        held = [ridge_without(phi, targets, i, ones, ridge) for i in range(len(phi))]
        return float((torch.stack(held) - targets[:, 0]).square().mean())

    errors = [error(float(r) * largest) for r in RIDGES]
    assert issues.ridge == pytest.approx(float(RIDGES[int(np.argmin(errors))]) * largest)


def test_penalties_stay_above_the_rounding_of_float32_products():
    """Labels fitted without error want the least penalty, but 1e-8 λ_max is lost in float32."""
    phi, _, _ = random_jacobians(40, 1, 1, 4, 2, seed=2)
    phi = torch.cat([phi, phi + 1e-6 * phi.flip(2)], 2)  # nearly singular
    targets = phi[..., :2].sum(2, keepdim=True)
    for products, least in (("float64", 1e-8), ("float32", 1e-6), ("bfloat16", 1e-6)):
        lin = linearization(phi, targets, dual=False, labels=np.arange(40) % 2)
        lin = replace(lin, form=replace(lin.form, products=ProductSettings(products)))
        issues = label_issues(lin)
        assert issues.ridge >= 0.99 * least * eigenbasis(lin).largest
        assert np.isfinite(issues.score).all()


def test_score_sign_and_suggestion():
    phi, given, true, targets = class_problem()
    issues = label_issues(linearization(phi, targets, dual=True, labels=given))
    wrong = given != true
    assert issues.score[wrong].min() > issues.score[~wrong].max()
    assert (issues.suggested_label[wrong] == true[wrong]).all()
    assert np.array_equal(issues.is_issue, issues.score > 0)
    assert (issues.weight[wrong] < issues.weight[~wrong].min()).all()
    table = issues.to_table()
    assert table.column_names == ["id", "label_issue_score", "suggested_label", "is_issue"]


def test_one_output_means_two_classes():
    """f and (1 − f, f) give the same scores."""
    phi, _, _ = random_jacobians(30, 1, 1, 5, 2, seed=4)
    labels = (phi[:, 0, 0] > 0).long()
    one = label_issues(
        linearization(phi, labels.double()[:, None, None], dual=True, labels=labels.numpy())
    )
    both = torch.nn.functional.one_hot(labels).double()[:, None]
    # An intercept makes the two columns complementary: f₀ + f₁ = 1 for every fit.
    two = label_issues(linearization(phi, both, dual=True, labels=labels.numpy()))
    assert one.held_out.shape == (30, 1) and two.held_out.shape == (30, 2)
    np.testing.assert_allclose(
        one.score, np.where(labels, 1, -1) * (1 - 2 * one.held_out[:, 0]) - MARGIN
    )


def test_the_margin_moves_scores_alike_and_fits_stay():
    phi, given, _, targets = class_problem()
    lin = linearization(phi, targets, dual=True, labels=given)
    by_margin = {m: label_issues(lin, margin=m) for m in (0.0, 0.25, 0.9)}
    for margin, result in by_margin.items():
        others = np.where(np.eye(3, dtype=bool)[given], -np.inf, result.held_out).max(1)
        lead = others - result.held_out[np.arange(24), given]
        np.testing.assert_allclose(result.score, lead - margin)
        np.testing.assert_array_equal(result.held_out, by_margin[0.0].held_out)
    assert np.array_equal(label_issues(lin).score, by_margin[MARGIN].score)


@pytest.mark.parametrize("temperature", [0.1, 0.4])
def test_suspects_weigh_less_by_the_logistic_curve_of_their_lead(temperature):
    phi, given, _, targets = class_problem()
    lin = linearization(phi, targets, dual=True, labels=given)
    held_out = label_issues(lin, rounds=0).held_out
    others = held_out.copy()
    others[np.arange(len(given)), given] = -np.inf
    lead = others.max(1) - held_out[np.arange(len(given)), given]
    expected = 1 / (1 + np.exp(lead / temperature))
    assert (expected < 1e-3).any() == (temperature == 0.1)  # what the floor holds
    issues = label_issues(lin, temperature=temperature)
    np.testing.assert_allclose(issues.weight, np.maximum(expected, 1e-3), rtol=1e-9)


def test_outputs_of_the_start_are_used_only_where_they_help():
    phi, given, true, targets = class_problem(seed=5)
    good = torch.nn.functional.one_hot(torch.as_tensor(true), 3).double()
    noise = torch.randn(24, 3, generator=torch.Generator().manual_seed(0)).double()
    plain = label_issues(linearization(phi, targets, dual=True, labels=given), rounds=0)
    for f0, helps in ((good, True), (noise, False)):
        lin = linearization(phi, targets, dual=True, labels=given)
        lin = replace(lin, outputs=f0)
        issues = label_issues(lin, rounds=0)
        error = np.square(issues.held_out - targets[:, 0].numpy()).mean()
        base = np.square(plain.held_out - targets[:, 0].numpy()).mean()
        assert (error < base) == helps
        if not helps:
            np.testing.assert_allclose(issues.held_out, plain.held_out)


def test_units_scaling_the_features_changes_nothing():
    phi, given, _, targets = class_problem()
    a = label_issues(linearization(phi, targets, dual=True, labels=given))
    b = label_issues(linearization(7 * phi, targets, dual=True, labels=given))
    np.testing.assert_allclose(b.score, a.score, rtol=1e-9)
    assert b.ridge == pytest.approx(49 * a.ridge)


def test_regression_scores_outliers():
    phi, _, _ = random_jacobians(60, 1, 1, 5, 2, seed=6)
    g = torch.Generator().manual_seed(0)
    y = phi @ torch.ones(5, 1).double() + 0.1 * torch.randn(60, 1, 1, generator=g)
    y[7] += 5
    issues = label_issues(linearization(phi, y, dual=False))
    assert issues.score.argmax() == 7 and issues.is_issue[7] and issues.is_issue.sum() <= 3
    assert issues.suggested_label[7] == pytest.approx(float(y[7, 0, 0]) - 5, abs=0.5)
    assert (issues.weight == 1).all()
    residual = y[:, 0, 0].numpy() - issues.held_out[:, 0]
    away = np.abs(residual - np.quantile(residual, 0.5, method="lower"))  # as torch's median
    scaled = away / (1.4826 * np.quantile(away, 0.5, method="lower"))
    np.testing.assert_allclose(issues.score, scaled - 3.5, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 4, 5, 6])
def test_rounding_is_no_outlier(seed):
    """Held-out residuals of equal samples differ by rounding alone, and most of them by nothing."""
    phi, y, _ = random_jacobians(1, 1, 1, 3, 2, seed=seed)
    phi, y = phi.expand(9, 1, 3), 1e3 * y.repeat(9, 1, 1)
    issues = label_issues(linearization(phi, y, dual=True))
    assert issues.score.max() < 0
    y[4] += 1
    issues = label_issues(linearization(phi, y, dual=True))
    assert issues.suspects.tolist() == [4] and issues.score[4] < 1e15


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("is_class", [True, False])
def test_a_kernel_of_zeros_is_refused(dual, is_class):
    """As of a network whose units are all dead: the ridges are fractions of λ_max = 0."""
    phi, given, _, targets = class_problem()
    lin = linearization(0 * phi, targets, dual=dual, labels=given if is_class else None)
    with pytest.raises(ModelError, match=r"must depend on the weights.*0 for all 24"):
        label_issues(lin)


def test_two_residuals_say_nothing_of_outliers():
    phi, y, _ = random_jacobians(2, 1, 1, 6, 1, seed=0)
    issues = label_issues(linearization(phi, y, dual=True))
    # Lower median: one deviates by 0, the other by the gap, half of it on average.
    assert np.allclose(np.sort(issues.score), [-3.5, 2 / 1.2533 - 3.5])
    assert not issues.is_issue.any()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rounds": -1}, "rounds must be at least 0; got -1"),
        ({"temperature": 0.0}, "temperature must be positive; got 0.0"),
        ({"margin": -0.1}, "margin must be finite and at least 0; got -0.1"),
        ({"margin": float("nan")}, "margin must be finite and at least 0; got nan"),
    ],
)
def test_bad_settings(setting, message):
    phi, given, _, targets = class_problem()
    with pytest.raises(SettingError, match=message):
        label_issues(linearization(phi, targets, dual=True, labels=given), **setting)


@pytest.mark.parametrize(
    ("kind", "rate", "before", "after"),
    [
        ("uniform", 0.1, 0.99, 0.99),
        ("pair", 0.3, 0.96, 0.99),
    ],
)
def test_digits_reach_the_published_figures(kind, rate, before, after):
    """METHODS §2: AUROC 0.998 at 10 % uniform noise; 0.965 → 0.994 at 30 % class pairs."""
    train, _ = load("digits")
    noisy = add_label_noise(train, rate, kind=kind)
    lin = collect(build_model("mlp", noisy), noisy)
    wrong = noisy.y != noisy.true_y
    assert auroc(wrong, label_issues(lin, rounds=0).score) >= before
    issues = label_issues(lin)
    assert auroc(wrong, issues.score) >= after
    hits = (issues.is_issue & wrong).sum()
    assert hits / issues.is_issue.sum() >= 0.9 and hits / wrong.sum() >= 0.8


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_too_few_samples_make_no_suspects(n):
    x = np.random.default_rng(0).normal(size=(n, 3))
    samples, _ = load((x, np.arange(n) % 2, x, np.arange(n) % 2))
    issues = label_issues(collect(build_model("mlp:width=8", samples, seed=0), samples))
    assert (issues.score > 0).any()
    assert issues.is_issue.any() == (n >= 6)
