"""Labels against shuffled ones: by definition, in other units, and on planted cases."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from torch import nn

from datassay.collect.curvature.output_geometry import SharedFeatures
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import sd_mixture
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.networks import mlp
from datassay.score.variance.shuffled import FEW, SHUFFLES, ShuffledLabels, shuffled_labels
from datassay.train.convex import fit_convex
from helpers.geometries import draw, geometry, off_diagonal, pair_matrix, sample_loss

SETTINGS = {"ridge": 0.05, "damping": 0.02, "seed": 3}


def samples(x, y, k):
    return SampleSet(x, y, np.arange(len(x)), tuple(map(str, range(k))))


def linear(one):
    return nn.Linear(one.x.shape[1], one.n_classes or 1).double()


def test_the_figures_are_their_definition():
    """Mean losses and V of each fit, all derivatives by autograd."""
    x, targets = draw(30, 4, 3, "cross_entropy", seed=1)
    result = shuffled_labels(
        nn.Linear(3, 3).double(), samples(x.numpy()[:, :-1], targets.numpy().argmax(1), 3),
        **SETTINGS,
    )  # fmt: skip
    rng, losses, variances = np.random.default_rng(3), [], []
    for shuffled in (False, *[True] * SHUFFLES):
        y = targets[rng.permutation(30)] if shuffled else targets
        weights = fit_convex(SharedFeatures(x, 3), y, "cross_entropy", 0.05).weights[0]
        fit = geometry(30, 4, 3, seed=1)
        fit = type(fit)(fit.features, fit.outputs, y, fit.loss, weights)
        rows = fit.features.rows(slice(None))
        loss = [sample_loss(weights, *one, fit.loss) for one in zip(rows, y, strict=True)]
        losses.append(float(torch.stack(loss).mean()))
        x_pairs = off_diagonal(pair_matrix(fit, weights, slice(None), 0.05, 0.02))
        variances.append(x_pairs.var())
        if not shuffled:
            kurtosis = ((x_pairs - x_pairs.mean()) ** 4).mean() / x_pairs.var() ** 2
    assert result.p_value == (1 + np.sum(np.array(losses[1:]) <= losses[0])) / 20
    assert result.variance_share == pytest.approx(variances[0] / np.mean(variances[1:]), rel=1e-8)
    assert result.kurtosis == pytest.approx(kurtosis, rel=1e-8)


@pytest.mark.parametrize("u", [0.2, 6.0])
def test_units(u):
    """Inputs × u, penalties × u²: nothing changes."""
    x, targets = draw(30, 3, 1, "mse", seed=2)
    results = []
    for scale in (1.0, u):
        one = SampleSet(scale * x.numpy(), targets.numpy()[:, 0], np.arange(30))
        model = nn.Linear(3, 1, bias=False).double()
        penalties = {"ridge": 0.1 * scale**2, "damping": 0.05 * scale**2}
        results.append(shuffled_labels(model, one, **penalties))
    assert results[1].p_value == results[0].p_value
    assert results[1].variance_share == pytest.approx(results[0].variance_share, rel=1e-5)


def planted(case, rng):
    """Wine's measurements, standardised, and labels of a case."""
    x, y = load_wine(return_X_y=True)
    if case == "shuffled":
        y = rng.permutation(y)
    elif case:
        wrong = rng.permutation(len(y))[: round(case * len(y))]
        y[wrong] = (y[wrong] + rng.integers(1, 3, len(wrong))) % 3
    return samples((x - x.mean(0)) / x.std(0), y, 3)


@pytest.mark.parametrize(
    ("case", "is_noise", "breakers"),
    [(0, False, ""), (0.1, False, "few"), (0.3, False, "many"), ("shuffled", True, "")],
)
def test_planted_cases(case, is_noise, breakers):
    one = planted(case, np.random.default_rng(0))
    result = shuffled_labels(linear(one), one, ridge=1e-4)
    assert (result.is_noise, result.breakers) == (is_noise, breakers)


def test_an_even_mix_is_of_many_and_a_small_part_of_few():
    results = {}
    for sizes in ((200, 200), (360, 40)):
        one = sd_mixture(sizes)
        results[sizes] = shuffled_labels(linear(one), one, ridge=1e-4)
    assert [result.breakers for result in results.values()] == ["many", "few"]


def test_edges():
    assert ShuffledLabels(0.05, float("nan"), FEW + 1).breakers == ""
    assert ShuffledLabels(0.05, 0.8, FEW + 1, has_room=False).breakers == ""
    same = SampleSet(np.ones((6, 3)), np.ones(6), np.arange(6))
    assert shuffled_labels(nn.Linear(3, 1).double(), same, ridge=1e-4) is None
    one = planted(0, np.random.default_rng(0))
    with pytest.raises(SettingError, match="ridge must be positive"):
        shuffled_labels(linear(one), one, ridge=0.0)
    with pytest.raises(ModelError, match=r"only one dense layer.*Freeze"):
        shuffled_labels(mlp((13,), 3, width=4, depth=1), one, ridge=1e-4)
    with pytest.raises(DataError):
        shuffled_labels(linear(one), one.subset(np.array([0])), ridge=1e-4)
