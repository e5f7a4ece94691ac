"""The mixture against its definition, and what it recovers."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import adjusted_rand_score

from datassay.act.partition.block_count import fold_numbers, held_out_log_likelihood
from datassay.act.partition.mixture import MixtureProblem, fit_mixture, log_densities
from datassay.collect.curvature.output_geometry import SharedFeatures
from datassay.data.synthetic.mixtures import routable_mixture
from datassay.errors import SettingError
from datassay.train.convex import fit_convex


def arrays(task="classification", sizes=(150, 150), overlap=0.05, seed=0):
    samples = routable_mixture(
        sizes, n_classes=3, n_features=6, overlap=overlap, task=task, seed=seed
    )
    x = torch.from_numpy(samples.x)
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)
    y = torch.from_numpy(samples.y)
    if task == "classification":
        return SharedFeatures(x, 3), torch.eye(3).double()[y], x, samples.source
    return SharedFeatures(x, 1), y[:, None], x, samples.source


def densities(mixture, features, targets, loss):
    """p_k(y_i | x_i), [K, n], one output after another."""
    outputs = features.outputs(mixture.weights)
    if loss == "cross_entropy":
        return (outputs.softmax(-1) * targets).sum(-1)
    normal = torch.distributions.Normal(outputs[..., 0], mixture.noise[:, None].sqrt())
    return normal.log_prob(targets[:, 0]).exp()


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("is_gated", [False, True])
def test_responsibilities_and_likelihood_are_bayes_rule(task, is_gated):
    features, targets, x, _ = arrays(task)
    loss = "cross_entropy" if task == "classification" else "mse"
    found = fit_mixture(features, targets, loss, 2, gate_inputs=x if is_gated else None, restarts=2)
    prior = (x @ found.gate.T).softmax(1).T if is_gated else found.mixing[:, None]
    joint = prior * densities(found, features, targets, loss)
    torch.testing.assert_close(found.responsibility, (joint / joint.sum(0)).T)
    assert found.log_likelihood == pytest.approx(float(joint.sum(0).log().mean()))
    torch.testing.assert_close(
        found.joint(features, targets, loss, x if is_gated else None).exp(), joint.T
    )


def test_densities_of_targets_are_those_of_the_normal_law():
    g = torch.Generator().manual_seed(0)
    outputs, targets = (torch.randn(*shape, generator=g).double() for shape in ((2, 5, 3), (5, 3)))
    noise = torch.tensor([0.4, 2.0]).double()
    expected = norm.logpdf(targets, outputs, noise.sqrt()[:, None, None]).sum(2)
    np.testing.assert_allclose(log_densities(outputs, targets, "mse", noise), expected, rtol=1e-12)


def test_it_rests_where_each_model_is_the_fit_under_its_responsibilities():
    features, targets, _, _ = arrays("regression")
    found = fit_mixture(features, targets, "mse", 2, restarts=2)
    assert found.converged
    mass = found.responsibility.T + 1 / len(targets)
    again = fit_convex(features, targets, "mse", 1e-4, sample_weight=mass).weights
    torch.testing.assert_close(again, found.weights, atol=2e-3, rtol=0)
    torch.testing.assert_close(mass.sum(1) / mass.sum(), found.mixing, atol=2e-3, rtol=0)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_gate_recovers_blocks_that_lie_apart(task):
    features, targets, x, source = arrays(task, sizes=(250, 250), seed=1)
    loss = "cross_entropy" if task == "classification" else "mse"
    found = fit_mixture(features, targets, loss, 2, gate_inputs=x, restarts=24)
    assert adjusted_rand_score(source, found.responsibility.argmax(1)) > 0.9


def test_one_block_is_the_plain_fit():
    features, targets, _, _ = arrays()
    found = fit_mixture(features, targets, "cross_entropy", 1, restarts=1)
    plain = fit_convex(features, targets, "cross_entropy", 1e-4).weights
    torch.testing.assert_close(found.weights, plain, atol=1e-2, rtol=0)
    assert found.responsibility.eq(1).all()


def test_a_fitted_start_is_not_forgotten():
    features, targets, x, source = arrays(sizes=(250, 250))
    truth = torch.eye(2).double()[np.unique(source, return_inverse=True)[1]]
    found = fit_mixture(
        features, targets, "cross_entropy", 2, gate_inputs=x, restarts=0, starts=[truth]
    )
    assert adjusted_rand_score(source, found.responsibility.argmax(1)) > 0.9


def test_units_of_a_regression():
    features, targets, _, _ = arrays("regression")
    one = fit_mixture(features, targets, "mse", 2, restarts=2)
    ten = fit_mixture(features, 10 * targets, "mse", 2, restarts=2)
    torch.testing.assert_close(ten.noise, 100 * one.noise, rtol=1e-6, atol=0)
    torch.testing.assert_close(ten.responsibility, one.responsibility, rtol=1e-5, atol=1e-8)


def test_held_out_samples_leave_no_trace_in_the_weights():
    features, targets, _, _ = arrays("regression")
    folds = fold_numbers(targets, "mse", 3, 0)
    start = torch.ones(len(targets), 1).double()
    found = held_out_log_likelihood(MixtureProblem(features, targets, "mse", 1e-4), start, folds)
    keep, out = (folds != 0).nonzero()[:, 0], (folds == 0).nonzero()[:, 0]
    alone = fit_mixture(features.subset(keep), targets[keep], "mse", 1, restarts=1)
    other = alone.joint(features.subset(out), targets[out], "mse").logsumexp(1)
    torch.testing.assert_close(found[out], other, rtol=1e-6, atol=1e-6)


def test_folds_are_even_in_every_class():
    _, targets, _, _ = arrays()
    folds = fold_numbers(targets, "cross_entropy", 5, 0)
    for c in range(3):
        sizes = np.bincount(folds[targets[:, c] == 1], minlength=5)
        assert sizes.max() - sizes.min() <= 1


def test_nothing_to_start_from():
    features, targets, _, _ = arrays()
    with pytest.raises(SettingError, match="n_blocks must be at least 1, and restarts"):
        fit_mixture(features, targets, "cross_entropy", 2, restarts=0)
