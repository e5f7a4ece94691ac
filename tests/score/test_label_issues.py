"""Label issues: held-out outputs by the definition, the score's sign, units, refusals, a figure."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from datassay.act.remove.auroc import auroc
from datassay.collect.collection import collect
from datassay.collect.form import ProductSettings
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.build import build_model
from datassay.progress import silent
from datassay.score.label_issues import label_issues
from datassay.score.labels.judges import held_out_probabilities
from datassay.score.labels.ridge import RIDGES, ridge_fit
from datassay.score.linear.eigenbasis import eigenbasis
from helpers.linearizations import linearization, random_jacobians


def one_hot(labels, k):
    return torch.nn.functional.one_hot(torch.as_tensor(labels), k).double()


def class_problem(n=24, k=3, seed=0, p=6):
    """Jacobians that carry the class, one-hot targets, three labels wrong."""
    phi, _, _ = random_jacobians(n, 1, k, p, 2, seed)
    labels = np.arange(n) % k
    phi[:, 0, :k] += 6 * one_hot(labels, k)
    given = labels.copy()
    given[:3] = (given[:3] + 1) % k
    return phi, given, labels, one_hot(given, k)[:, None]


def judged(x, y, network="mlp", **settings):
    """Issues of arrays, by a network's linearisation."""
    samples, _ = load((x, y, x[:2], y[:2]))
    return label_issues(collect(build_model(network, samples, seed=0), samples), **settings)


def ridge_without(phi, targets, i, ridge):
    """f₋ᵢ(x_i) of ridge regression, by deleting the sample and solving."""
    keep = [j for j in range(len(phi)) if j != i]
    x, y = phi[keep].flatten(0, 1), targets[keep].flatten(0, 1)
    gram = x.T @ x + ridge * torch.eye(x.shape[1]).double()
    return (phi[i] @ torch.linalg.solve(gram, x.T @ y)).flatten()


@pytest.mark.parametrize(("dual", "p"), [(True, 40), (False, 6)], ids=["dual", "primal"])
def test_held_out_outputs_are_those_of_the_fit_without_the_sample(monkeypatch, dual, p):
    monkeypatch.setattr(import_module("datassay.score.labels.ridge"), "LARGEST_KERNEL", 30)
    phi, given, _, targets = class_problem(p=p)
    lin = linearization(phi, targets, dual=dual, labels=given)
    issues = label_issues(lin)
    # The second fit, to soft targets, takes no new decomposition.
    soft = torch.rand(targets.shape, generator=torch.Generator().manual_seed(1)).double()
    again = ridge_fit(lin, silent).held_out_of(soft[:, 0], silent)
    for result, fitted in ((issues.held_out, targets), (again, soft)):
        expected = [ridge_without(phi, fitted, i, issues.ridge) for i in range(len(phi))]
        np.testing.assert_allclose(result, torch.stack(expected), rtol=1e-8, atol=1e-10)
    tenfold = label_issues(linearization(7 * phi, targets, dual=dual, labels=given))
    np.testing.assert_allclose(tenfold.score, issues.score, rtol=1e-7)
    assert tenfold.ridge == pytest.approx(49 * issues.ridge)


def test_the_ridge_has_the_least_leave_one_out_error(monkeypatch):
    phi, given, _, targets = class_problem()
    lin = linearization(phi, targets, dual=True, labels=given)
    issues = label_issues(lin)
    largest = float(torch.linalg.eigvalsh(lin.kernel)[-1])

    def error(ridge):
        held = [ridge_without(phi, targets, i, ridge) for i in range(len(phi))]
        return float((torch.stack(held) - targets[:, 0]).square().mean())

    errors = [error(float(r) * largest) for r in RIDGES]
    tried = []
    module = import_module("datassay.score.labels.ridge")
    leave_out = module._leave_out
    monkeypatch.setattr(
        module,
        "_leave_out",
        lambda basis, target, shifts, *rest: (
            tried.append(shifts / basis.largest) or leave_out(basis, target, shifts, *rest)
        ),
    )
    ridge_fit(lin, silent)  # one a decade, then all between its neighbours
    best = 4 * min(range(9), key=lambda q: errors[4 * q])
    around = [i for i in range(max(0, best - 3), min(33, best + 4)) if i != best]
    for shifts, idx in zip(tried, (range(0, 33, 4), around), strict=True):
        torch.testing.assert_close(shifts, RIDGES[list(idx)])
    assert issues.ridge == pytest.approx(float(RIDGES[int(np.argmin(errors))]) * largest)


@pytest.mark.parametrize(
    ("products", "least"), [("float64", 1e-8), ("float32", 1e-6), ("bfloat16", 1e-6)]
)
def test_penalties_stay_above_the_rounding_of_products(products, least):
    """Labels fitted without error want the least penalty, but 1e-8 λ_max is lost in float32."""
    phi, _, _ = random_jacobians(40, 1, 1, 4, 2, seed=2)
    phi = torch.cat([phi, phi + 1e-6 * phi.flip(2)], 2)  # nearly singular
    targets = phi[..., :2].sum(2, keepdim=True)
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
    assert np.array_equal(issues.worth_a_look, wrong) and issues.share_wrong[1] >= wrong.mean()
    by_fits, n = 1 / (1 + np.exp(-issues.score)), len(issues.score)
    np.testing.assert_allclose(issues.probability, by_fits * n / (n + 5), rtol=1e-9)
    np.testing.assert_allclose(issues.posterior.sum(1), 1)
    assert issues.expected_precision(3) == pytest.approx(np.sort(issues.probability)[-3:].mean())
    with pytest.raises(SettingError, match=r"top must lie in 0 ... 24; got 25"):
        issues.expected_precision(25)
    assert issues.to_table().column_names == [
        "id", "given_label", "suggested_label", "is_issue", "worth_a_look",
        "label_issue_score", "wrong_probability",
    ]  # fmt: skip


def test_one_output_means_two_classes():
    phi, _, _ = random_jacobians(30, 1, 1, 5, 2, seed=4)
    labels = (phi[:, 0, 0] > 0).long()
    for targets, outputs in ((labels[:, None].double(), 1), (one_hot(labels, 2), 2)):
        issues = label_issues(
            linearization(phi, targets[:, None, :], dual=True, labels=labels.numpy())
        )
        assert issues.held_out.shape == (30, outputs)
        assert issues.posterior.shape == (30, 2) and issues.noise[0].transition.shape == (2, 2)


def test_outputs_of_the_start_are_used_only_where_they_help():
    phi, given, true, targets = class_problem(seed=5)
    lin = linearization(phi, targets, dual=True, labels=given)
    noise = torch.randn(24, 3, generator=torch.Generator().manual_seed(0)).double()
    plain, helped, same = (
        label_issues(replace(lin, outputs=f0)).held_out
        for f0 in (lin.outputs, one_hot(true, 3), noise)
    )
    error = [np.square(out - targets[:, 0].numpy()).mean() for out in (plain, helped)]
    assert error[1] < error[0]
    np.testing.assert_allclose(same, plain)


def test_regression_scores_outliers():
    phi, _, _ = random_jacobians(60, 1, 1, 5, 2, seed=6)
    g = torch.Generator().manual_seed(0)
    y = phi @ torch.ones(5, 1).double() + 0.1 * torch.randn(60, 1, 1, generator=g)
    y[7] += 5
    issues = label_issues(linearization(phi, y, dual=False))
    assert issues.score.argmax() == 7 and issues.suspects.tolist() == [7]
    assert issues.expected_precision() > 0.95
    assert issues.suggested_label[7] == pytest.approx(float(y[7, 0, 0]) - 5, abs=0.5)
    rows, mended = phi[:, 0], y[:, 0, 0].clone()
    mended[7] = float(issues.held_out[7, 0])  # a suspect counts as what is expected of it

    def left_out(ridge):
        weights = [
            torch.linalg.solve(
                rows[rest].T @ rows[rest] + ridge * torch.eye(5).double(),
                rows[rest].T @ mended[rest],
            )
            for rest in (torch.arange(60) != i for i in range(60))
        ]
        return (rows * torch.stack(weights)).sum(1)

    # A wrong target asks for a larger penalty than the others do.
    each = [left_out(factor * issues.ridge) for factor in (0.1, 1, 10)]
    best = min(each, key=lambda output: float((mended - output).square().mean()))
    residual = (y[:, 0, 0] - best).numpy()
    away = np.abs(residual - np.quantile(residual, 0.5, method="lower"))  # as torch's median
    scaled = away / (1.4826 * np.quantile(away, 0.5, method="lower"))
    np.testing.assert_allclose(issues.score, scaled - 3.5, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 4, 5, 6])
def test_rounding_is_no_outlier(seed):
    """Held-out residuals of equal samples differ by rounding alone, and most of them by nothing."""
    phi, y, _ = random_jacobians(1, 1, 1, 3, 2, seed=seed)
    phi, y = phi.expand(9, 1, 3), 1e3 * y.repeat(9, 1, 1)
    assert label_issues(linearization(phi, y, dual=True)).score.max() < 0
    y[4] += 1
    issues = label_issues(linearization(phi, y, dual=True))
    assert issues.suspects.tolist() == [4] and issues.score[4] < 1e15
    phi, y, _ = random_jacobians(2, 1, 1, 6, 1, seed=0)
    two = label_issues(linearization(phi, y, dual=True))
    # Lower median: one deviates by 0, the other by the gap, half of it on average.
    assert np.allclose(np.sort(two.score), [-3.5, 2 / 1.2533 - 3.5]) and not two.is_issue.any()


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("is_class", [True, False])
def test_a_kernel_of_zeros_is_refused(dual, is_class):
    """As of a network whose units are all dead: the ridges are fractions of λ_max = 0."""
    phi, given, _, targets = class_problem()
    lin = linearization(0 * phi, targets, dual=dual, labels=given if is_class else None)
    with pytest.raises(ModelError, match=r"must depend on the weights.*0 for all 24"):
        label_issues(lin)


def test_bad_settings():
    phi, given, _, targets = class_problem()
    lin = linearization(phi, targets, dual=True, labels=given)
    with pytest.raises(SettingError, match=r"noise must be one of auto, uniform, class; got 'pair"):
        label_issues(lin, noise="pairs")
    for known in (np.ones(len(phi), bool), np.zeros(3, bool), np.zeros(len(phi))):
        with pytest.raises(SettingError, match=r"trusted must be \[\d+\] bool with a False"):
            label_issues(lin, trusted=known)
    of_numbers = linearization(phi, targets[:, :, :1] + 0.5, dual=True)
    with pytest.raises(SettingError, match=r"these targets are numbers, and got 'class'"):
        label_issues(of_numbers, noise="class")
    x, _, several = several_labels(40)
    several[5, 1] = 0.5
    with pytest.raises(DataError, match=r"must each be 0 or 1; of 120 values 1 are neither.*row 5"):
        judged(x, several)


@pytest.mark.parametrize(
    ("kind", "rate", "found", "least"),
    [("uniform", 0.1, "uniform", 0.998), ("pair", 0.3, "class", 0.998)],
)
@pytest.mark.slow
def test_digits_reach_the_measured_figures(kind, rate, found, least):
    """bench/truths/labels.py: AUROC 1.000 at 10 % uniform noise and at 30 % class pairs."""
    train, _ = load("digits")
    noisy = add_label_noise(train, rate, kind=kind)
    issues = label_issues(collect(build_model("mlp", noisy), noisy))
    wrong = noisy.y != noisy.true_y
    assert auroc(wrong, issues.score) >= least
    (noise,) = issues.noise
    assert noise.kind == found
    low, high = issues.share_wrong
    assert low <= wrong.mean() <= high and high - low <= 0.2
    assert 1 - noise.transition.diagonal().mean() == pytest.approx(rate, abs=0.03)
    precision = (issues.is_issue & wrong).sum() / issues.is_issue.sum()
    assert precision >= 0.95 and (issues.is_issue & wrong).sum() / wrong.sum() >= 0.9
    assert issues.expected_precision() == pytest.approx(precision, abs=0.05)
    assert issues.expected_precision(int(wrong.sum())) == pytest.approx(precision, abs=0.05)


@pytest.mark.parametrize("name", [pytest.param("digits", marks=pytest.mark.slow), "wine"])
def test_next_to_none_of_clean_labels_is_a_suspect(name):
    train, _ = load(name)
    issues = label_issues(collect(build_model("mlp", train), train))
    assert issues.is_issue.mean() <= 0.005
    assert issues.noise[0].kind == "uniform"


def test_labels_that_flip_one_way():
    """30 % of one class are given as the other: margins rank this near chance."""
    g = np.random.default_rng(0)
    x = g.normal(size=(900, 4))
    true = (x @ [2.0, -1.0, 1.0, 0.5] + 0.3 * g.logistic(size=900) > 0).astype(int)
    given = np.where((true == 1) & (g.random(900) < 0.3), 0, true)
    issues = judged(x, given)
    (noise,) = issues.noise
    assert noise.kind == "class" and noise.gain > 0
    np.testing.assert_allclose(noise.transition, [[1, 0], [0.3, 0.7]], atol=0.06)
    assert auroc(given != true, issues.score) >= 0.98
    # Told that the noise is even, it sees no more than which labels are doubtful.
    even = judged(x, given, noise="uniform")
    assert even.noise[0].kind == "uniform"
    assert auroc(given != true, even.score) < auroc(given != true, issues.score)


@pytest.mark.parametrize("wrong", [[], [7]])
def test_a_close_fit_of_a_regression_has_no_suspects(wrong):
    x = np.random.default_rng(0).uniform(-2, 2, (300, 2))
    y = np.sin(x[:, 0]) + x[:, 1] ** 2
    y[wrong] += 3
    issues = judged(x, y)
    assert issues.suspects.tolist() == wrong and issues.noise == () and issues.posterior is None


def several_labels(n=400):
    g = np.random.default_rng(0)
    x = g.normal(size=(n, 6))
    true = (x[:, :3] + 0.2 * g.normal(size=(n, 3)) > 0).astype(float)
    return x, true, np.abs(true - (g.random(true.shape) < 0.05))


def test_several_labels_are_judged_one_by_one():
    x, true, given = several_labels()
    issues, wrong = judged(x, given), true != given
    assert len(issues.noise) == 3 and issues.posterior.shape == (400, 3)
    doubt = np.where(given == 1, 1 - issues.posterior, issues.posterior)
    assert auroc(wrong.ravel(), doubt.ravel()) >= 0.97
    assert auroc(wrong.any(1), issues.score) >= 0.95
    corrected, flagged = issues.suggested_label[issues.is_issue], issues.is_issue
    assert (corrected == true[flagged]).mean() > (given == true)[flagged].mean()
    # The probability that at least one label is wrong.
    assert issues.expected_precision() == pytest.approx(wrong.any(1)[flagged].mean(), abs=0.1)


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_too_few_samples_make_no_suspects(n):
    x = np.random.default_rng(0).normal(size=(n, 3))
    issues = judged(x, np.arange(n) % 2, "mlp:width=8")
    assert np.isfinite(issues.score).all()
    assert not issues.worth_a_look.any() and issues.probability.max() < 0.6
    assert not issues.is_predicted and issues.share_wrong[0] == 0


def test_a_second_judge_is_heard_where_it_explains_more():
    """Of an exclusive or, a linear fit sees nothing and trees see all."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(800, 4)).astype(np.float32)
    truth = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64)
    wrong = draw.random(800) < 0.1
    noisy = SampleSet(x, truth ^ wrong, np.arange(800), ("no", "yes"))
    lin = collect(build_model("linear", noisy), noisy)
    alone = label_issues(lin)
    both = label_issues(lin, pred_probs=held_out_probabilities(noisy))
    assert alone.weights == () and both.weights[1] > 0
    assert auroc(wrong, alone.score) < 0.6 and auroc(wrong, both.score) > 0.95
    unsure = np.full((800, 2), 0.5)
    heard = label_issues(lin, pred_probs=[unsure])
    assert abs(heard.weights[1]) < 1e-6
    np.testing.assert_allclose(heard.score, alone.score, atol=1e-6)
