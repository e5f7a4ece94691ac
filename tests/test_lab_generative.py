"""Generative models: autoencoders, variational ones, and adversarial ones."""

import numpy as np
import pytest
import torch

from datassay.data.load import load
from datassay.errors import SettingError
from datassay.lab.autoencoder import autoencoder, autoencoder_plots


@pytest.fixture(autouse=True)
def the_global_generator_stays():
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def dashed(plots):
    return [t for plot in plots for t in plot.figure.data if t.type == "scatter" and t.line.dash]


@pytest.fixture(scope="module")
def encoded():
    return autoencoder(bottlenecks=(2, 4), steps=800, seed=1)


def test_linear_autoencoder_learns_the_principal_subspace(encoded):
    from sklearn.decomposition import PCA

    assert encoded.agreement.holds
    train, held_out = (s.x.reshape(len(s.x), -1) for s in load("digits"))
    for place, size in enumerate(encoded.bottlenecks):
        pca = PCA(int(size)).fit(train)
        back = pca.inverse_transform(pca.transform(held_out))
        expected = ((back - held_out) ** 2).sum(1).mean()
        assert encoded.lost[place, 0] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(encoded.lost[:, 1], encoded.lost[:, 0], rtol=1e-3)


def test_a_curved_autoencoder_loses_less(encoded):
    assert (encoded.lost[:, 2] < 0.8 * encoded.lost[:, 0]).all()


def test_autoencoder_would_notice_too_few_iterations():
    assert not autoencoder(bottlenecks=(2, 3), iterations=3, steps=5).agreement.holds


def test_autoencoder_codes_know_the_classes(encoded):
    from sklearn.neighbors import KNeighborsClassifier

    half = len(encoded.codes) // 2
    near = KNeighborsClassifier(5).fit(encoded.codes[:half], encoded.labels[:half])
    assert near.score(encoded.codes[half:], encoded.labels[half:]) > 0.4  # chance is 0.1
    again = autoencoder(bottlenecks=(2, 4), steps=800, seed=1)
    np.testing.assert_array_equal(encoded.codes, again.codes)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bottlenecks": (2,)}, "bottlenecks must be 2 or more"),
        ({"bottlenecks": (4, 8)}, "bottlenecks must start at 2"),
        ({"bottlenecks": (2, 40)}, "and end at 32 at most"),
        ({"iterations": 0}, "iterations must be a whole number >= 1"),
        ({"steps": 0}, "steps must"),
    ],
)
def test_autoencoder_refuses(wrong, said):
    with pytest.raises(SettingError, match=said):
        autoencoder(**wrong)


def test_autoencoder_plots(encoded):
    plots = autoencoder_plots(encoded)
    assert len(plots) == 3
    assert dashed(plots)
