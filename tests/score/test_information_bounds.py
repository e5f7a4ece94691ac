"""What information bounds, against integrals of densities and simulated networks with noise."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from datassay.errors import SettingError
from datassay.score.information.bounds import membership, membership_sigma, overfitting_bound
from datassay.score.information.weights import SteadyState
from datassay.score.sample_information import SampleInformation, sample_information
from helpers.linearizations import linearization, random_jacobians, random_linearization, trainings

RUN = {"lr": 1e-3, "steps": 300, "weight_decay": 0.5}


def best_guess(mean, scale, other_mean, other_scale):
    """½ ∫ max(p, q), the accuracy of the likelihood ratio, by quadrature."""
    ends = (min(mean, other_mean) - 12 * max(scale, other_scale),)
    ends += (max(mean, other_mean) + 12 * max(scale, other_scale),)
    densities = (norm(mean, scale).pdf, norm(other_mean, other_scale).pdf)
    points = [mean, (mean + other_mean) / 2, other_mean]
    both = quad(lambda w: max(d(w) for d in densities), *ends, points=points, limit=400,
                epsabs=1e-12, epsrel=1e-12)  # fmt: skip
    return both[0] / 2


def given(information, smoothing="isotropic", state=None):
    values = np.atleast_1d(np.asarray(information, float))
    return SampleInformation(values, np.arange(len(values)), smoothing, 1.0, state)


def test_membership_is_the_best_guess_between_two_normal_laws():
    """Along w − w₋ᵢ both are one-dimensional, and elsewhere the same."""
    phi, r, val = random_jacobians(40, 1, 1, 6, 5, seed=1)
    full, without = trainings(phi, r, "flow", *RUN.values())
    distance = (full - without).square().sum((1, 2)).sqrt()
    info = sample_information(linearization(phi, r, val, dual=False), smoothing="isotropic",
                              sigma=0.02, **RUN)  # fmt: skip
    oracle = [best_guess(0.0, 0.02, float(d), 0.02) for d in distance]
    np.testing.assert_allclose(membership(info), oracle, atol=1e-8)
    assert 0.5 < membership(info).min() < 0.6 < membership(info).max()


def test_membership_of_answers_is_at_least_the_mean_over_inputs():
    phi, r, val = random_jacobians(20, 1, 1, 6, 9, seed=2)
    full, without = trainings(phi, r, "flow", *RUN.values())
    changes = torch.einsum("mbp,npc->nm", val, full - without).abs().numpy()
    lin = linearization(phi, r, val, dual=False)
    mean = norm.cdf(changes / (2 * 0.05)).mean(1)
    bound = membership(sample_information(lin, sigma=0.05, **RUN))
    assert (bound >= mean - 1e-12).all() and (bound - mean).max() < 0.2


@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_membership_of_unequal_noise_is_a_bound(shift):
    kl = 0.5 * (shift**2 + 2.25 - 1) - np.log(1.5)
    bound = membership(given(kl, "kl"))[0]
    assert best_guess(shift, 1.5, 0.0, 1.0) <= bound < 1


def test_what_sgd_has_no_noise_for_is_seen():
    state = SteadyState(4, 0.1, np.array([0.0, 0.2]), 3, 4, (1e-9,))
    info = given([0.1, 0.1], "sgd", state)
    assert membership(info)[0] < 0.6 and membership(info)[1] == 1.0
    assert overfitting_bound(info) == np.inf


def test_sigma_for_an_accuracy():
    lin = random_linearization(30, 1, 1, 8, 5, seed=3)
    sigma = membership_sigma(sample_information(lin, sigma=0.3, **RUN), 0.6)
    again = membership(sample_information(lin, sigma=sigma, **RUN))
    assert again.max() == pytest.approx(0.6, rel=1e-12)
    assert membership_sigma(given([0.0, 0.0], "functional")) == 0.0


@pytest.mark.parametrize("t", [0.1, 7.0])
def test_units(t):
    """Targets and σ × t: the same guesses, the same bound; spread × t: the bound × t."""
    phi, r, val = random_jacobians(15, 1, 1, 6, 5, seed=4)
    infos = [
        sample_information(linearization(phi, s * r, val, dual=False), smoothing="isotropic",
                           sigma=s * 0.1, **RUN)
        for s in (1.0, t)
    ]  # fmt: skip
    np.testing.assert_allclose(membership(infos[1]), membership(infos[0]), rtol=1e-10)
    bounds = [overfitting_bound(one) for one in infos]
    assert bounds[1] == pytest.approx(bounds[0]) == np.sqrt(infos[0].information.mean() / 2)
    assert overfitting_bound(infos[0], t) == pytest.approx(2 * t * bounds[0])


@pytest.mark.parametrize(("n", "penalty", "sigma"), [(40, 1.0, 0.2), (80, 5.0, 0.1)])
def test_noisy_networks_overfit_random_labels_no_more_than_the_bound(n, penalty, sigma):
    """Mean over training sets of training minus new accuracy, which is 1/2 at random labels."""
    g, gaps, bounds = np.random.default_rng(0), [], []
    for _ in range(40):
        x, y = g.normal(size=(n, 10)) / 10**0.5, g.choice([-1.0, 1.0], n)
        rows = torch.from_numpy(x)[:, None]
        lin = linearization(rows, torch.from_numpy(y)[:, None, None], dual=False)
        run = {"dynamics": "converged", "weight_decay": penalty, "sigma": sigma}
        bounds.append(overfitting_bound(sample_information(lin, smoothing="isotropic", **run)))
        w = np.linalg.solve(x.T @ x + penalty * np.eye(10), x.T @ y)
        noisy = w + sigma * g.normal(size=(200, 10))
        gaps.append((np.sign(noisy @ x.T) == y).mean() - 0.5)
    assert 0.02 < np.mean(gaps) < np.mean(bounds) < 0.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: membership_sigma(given(0.1), 0.5), "accuracy must lie between 0.5 and 1"),
        (lambda: membership_sigma(given(0.1, "sgd")), "smoothing='sgd' has none"),
        (lambda: overfitting_bound(given(0.1), 0.0), "spread must be finite and positive"),
        (lambda: overfitting_bound(given(0.1, "functional")), "information about the weights"),
    ],
)
def test_wrong_settings(call, message):
    with pytest.raises(SettingError, match=message):
        call()
