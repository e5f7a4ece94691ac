"""Generative models: autoencoders, variational ones, and adversarial ones."""

import numpy as np
import pytest
import torch

from datassay.data import load
from datassay_lab.generative import variational_autoencoder as bounds
from datassay_lab.generative.gan import best_value, gan, value

pytestmark = pytest.mark.slow


def test_linear_autoencoder_learns_the_principal_subspace_and_a_curved_one_loses_less(small):
    from sklearn.decomposition import PCA

    encoded = small("autoencoder")
    train, held_out = (s.x.reshape(len(s.x), -1) for s in load("digits"))
    for index, size in enumerate(encoded.bottlenecks):
        pca = PCA(int(size)).fit(train)
        back = pca.inverse_transform(pca.transform(held_out))
        expected = ((back - held_out) ** 2).sum(1).mean()
        assert encoded.lost[index, 0] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(encoded.lost[:, 1], encoded.lost[:, 0], rtol=1e-3)
    assert (encoded.lost[:, 2] < 0.8 * encoded.lost[:, 0]).all()


def test_autoencoder_codes_know_the_classes(small):
    from sklearn.neighbors import KNeighborsClassifier

    encoded = small("autoencoder")
    half = len(encoded.codes) // 2
    near = KNeighborsClassifier(5).fit(encoded.codes[:half], encoded.labels[:half])
    assert near.score(encoded.codes[half:], encoded.labels[half:]) > 0.4  # chance is 0.1


def test_gradients_go_through_the_sample_and_the_bound_rises_and_stays_below(small):
    variational = small("variational-autoencoder")
    noisy = np.linalg.norm(variational.score - variational.exact)
    assert noisy > 3 * np.linalg.norm(variational.through - variational.exact)
    assert variational.bound[-1] > variational.bound[0] + 3
    assert (variational.bound < variational.log_p).all()
    closer = variational.log_p - variational.weighted
    assert (closer < variational.log_p - variational.bound + 1e-3).all()
    assert variational.decoded.shape == variational.sampled.shape == (100, 100)


def test_kl_is_that_of_draws():
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = torch.tensor([0.7, -1.2]), torch.tensor([-0.5, 0.4])
    z = mean + (log_variance / 2).exp() * torch.randn(200_000, 2, generator=generator)
    zero = torch.zeros(2)
    ratio = bounds.log_normal(z, mean, log_variance) - bounds.log_normal(z, zero, zero)
    closed = float(bounds.kl_to_standard(mean, log_variance))
    assert float(ratio.mean()) == pytest.approx(closed, abs=0.02)
    normal = torch.distributions.Normal
    library = torch.distributions.kl_divergence(
        normal(mean, (log_variance / 2).exp()), normal(0.0, 1.0)
    )
    assert closed == pytest.approx(float(library.sum()), rel=1e-5)


def test_log_p_less_the_bound_is_the_distance_to_the_posterior():
    generator = torch.Generator().manual_seed(2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = bounds.Variational(6).double()
    x = torch.randint(0, 2, (5, 6), generator=generator).double()
    with torch.no_grad():
        log_p = bounds.evidence(model, x)
        every = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 6).double()
        assert float(bounds.evidence(model, every).exp().sum()) == pytest.approx(1, abs=1e-6)
        noise = torch.randn(40_000, 5, 2, generator=generator, dtype=torch.float64)
        bound = bounds.lower_bound(model, x, noise)
        mean, log_variance = model.encode(x)
        z = mean + (log_variance / 2).exp() * noise
        zero = torch.zeros_like(z)
        posterior = model.log_likelihood(x, z) + bounds.log_normal(z, zero, zero) - log_p
        gap = (bounds.log_normal(z, mean, log_variance) - posterior).mean(0)
        weighted = bounds.importance_bound(model, x, noise)
    np.testing.assert_allclose(log_p - bound, gap, atol=0.02)
    assert (gap > 0).all()
    np.testing.assert_allclose(weighted, log_p, atol=0.02)


def test_the_best_discriminators_value_falls_to_its_floor(small):
    adversarial = small("gan")
    assert adversarial.best[0] > -0.4
    assert (adversarial.best > -2 * np.log(2) - 1e-9).all()
    middle, share = adversarial.middles, adversarial.late
    assert share[middle < 0].sum() == pytest.approx(0.5, abs=0.1)  # both modes
    assert (share @ middle**2) == pytest.approx(1.5**2 + 0.5**2, rel=0.15)
    assert adversarial.fakes.min() >= 0


@pytest.mark.parametrize("loss", ["saturating", "non-saturating"])
def test_one_inner_step_fools_itself(loss):
    result = gan(steps=300, inner=1, digit_steps=1, loss=loss)
    assert not result.agreement.holds
    assert result.trained[-1] == pytest.approx(-2 * np.log(2), abs=0.05)  # and yet


def test_best_value_is_twice_the_jensen_shannon_divergence():
    from scipy.spatial.distance import jensenshannon

    p, q = np.random.default_rng(0).dirichlet(np.ones(7), 2)
    assert best_value(p, q) == pytest.approx(2 * jensenshannon(p, q) ** 2 - 2 * np.log(2))
    assert best_value(p, p) == pytest.approx(-2 * np.log(2))
    assert best_value(np.array([1.0, 0]), np.array([0, 1.0])) == 0


def test_value_is_minus_twice_the_cross_entropy():
    real, fake = torch.tensor([0.3, -2.0]), torch.tensor([1.0, 0.5])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.cat([real, fake]), torch.tensor([1.0, 1, 0, 0])
    )
    assert float(value(real, fake)) == pytest.approx(-2 * float(loss), rel=1e-6)


def test_a_trained_discriminator_is_the_ratio_of_densities(small):
    discriminated = small("optimal-discriminator")
    np.testing.assert_allclose(discriminated.values, discriminated.predicted, atol=0.02)
    np.testing.assert_allclose(discriminated.ratio[2], 0.5)  # equal densities
    assert discriminated.predicted[2] == pytest.approx(-2 * np.log(2))
    assert (np.abs(discriminated.printed - discriminated.predicted) > 0.5).all()

    # The ratio is the best answer at every position.
    p, q = discriminated.p[0], discriminated.q[0]
    answers = np.linspace(0.001, 0.999, 999)[:, None]
    best = answers[(p * np.log(answers) + q * np.log(1 - answers)).argmax(0), 0]
    np.testing.assert_allclose(best, discriminated.ratio[0].clip(0.001, 0.999), atol=1.1e-3)
