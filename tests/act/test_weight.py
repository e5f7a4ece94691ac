"""Weights by local variance and published baselines, against formulas and published numbers."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

from datassay.act.weigh.baseline_weights import (
    active_bias_weights,
    balanced_variance_weights,
    batched_active_bias,
    class_balanced_weights,
    self_paced_weights,
)
from datassay.act.weigh.weights import SampleWeights, local_variance_weights, sample_weights
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.models.networks import mlp
from datassay.score.neighbors.local_variance import local_variance
from datassay.train.history import PredictionHistory
from datassay.train.recipe import Recipe
from datassay.train.training import train_networks

MOONS = make_moons(300, noise=0.2, random_state=0)


def test_paper_double_moon():
    """S0's published code (REFERENCE, S0): k 20, m 100, population variance."""
    variance = local_variance(*MOONS, 20).variance * 19 / 20
    assert (variance == 0).sum() == 213
    assert variance.max() == pytest.approx(0.495, abs=1e-12)  # .2475 a column
    unnormalised = 1 + 99 * variance / variance.max()
    assert unnormalised.sum() == pytest.approx(3851, abs=0.5)
    weight = local_variance_weights(*MOONS, 20, 100)
    np.testing.assert_allclose(weight, unnormalised / unnormalised.sum(), rtol=1e-12)


def test_weights_do_not_depend_on_units_or_order():
    x, y = MOONS
    weight = local_variance_weights(x, 1.0 * y, 9)
    np.testing.assert_allclose(local_variance_weights(7 * x, 3.0 * y + 2, 9), weight, rtol=1e-9)
    assert np.ptp(local_variance_weights(x, y, max_ratio=1)) == 0
    heaviest = local_variance_weights(x, y, max_ratio=40)
    assert heaviest.max() / heaviest.min() == pytest.approx(40)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_allclose(local_variance_weights(x[order], 1.0 * y[order], 9), weight[order])


def test_tensors_and_lists_are_taken():
    x, y = MOONS
    expected = local_variance_weights(x, y)
    for given in ((torch.tensor(x), torch.tensor(y)), (x.tolist(), y.tolist())):
        np.testing.assert_array_equal(local_variance_weights(*given), expected)


@pytest.mark.parametrize("y", [np.zeros(30, int), np.full(30, 0.1), np.ones((30, 2))])
def test_constant_targets_weigh_the_same(y):
    x = np.random.default_rng(0).normal(size=(30, 2))
    assert local_variance_weights(x, y, 4).tolist() == [1 / 30] * 30


def test_density_divides_and_says_what_it_clipped():
    x, y = MOONS
    variance = local_variance(x, y, 20)
    log = -2 * np.log(variance.neighbors.distance[:, -1])
    log -= np.median(log)
    limit = np.log(1.5)
    value = variance.variance / np.exp(np.clip(log, -limit, limit))
    expected = 1 + 39 * value / value.max()
    weighed = sample_weights(x, y, 20, 40, density=True, density_clip=1.5)
    np.testing.assert_allclose(weighed.weight, expected / expected.sum(), rtol=1e-10)
    assert weighed.details["density_clipped"] == (np.abs(log) > limit).sum() > 0


def test_densities_of_images_are_extreme_and_most_are_clipped():
    """S0 §4.2, for which it left the density out; of digits, in powers of ten."""
    from sklearn.datasets import load_digits
    from sklearn.mixture import GaussianMixture
    from sklearn.neighbors import NearestNeighbors

    x, y = load_digits(return_X_y=True)
    mixture = GaussianMixture(10, random_state=0).fit(x).score_samples(x)
    radius = NearestNeighbors(n_neighbors=21).fit(x).kneighbors(x)[0][:, -1]
    assert np.ptp(mixture) / np.log(10) > 70
    assert 64 * np.ptp(np.log10(radius)) > 28
    weighed = sample_weights(x, y, 20, 40, density=True)
    assert weighed.details["density_clipped"] > 0.8 * len(x)


def test_density_of_repeats():
    """Places of 30 equal samples are infinitely dense, some or most of all samples."""
    for alone in (10, 90):
        x = np.r_[np.repeat([-1.0, -2.0], 30), np.linspace(0, 9, alone)][:, None]
        weights = sample_weights(x, np.arange(len(x)) % 2, 8, density=True)
        assert np.isfinite(weights.weight).all() and weights.weight.sum() == pytest.approx(1)
        assert weights.details["density_clipped"] >= min(60, alone)


def test_table_and_details():
    x, y = MOONS
    weights = sample_weights(x, y, ids=np.arange(300) + 7)
    assert isinstance(weights, SampleWeights) and weights.method == "local_variance"
    table = weights.to_table()
    assert table.column_names == ["id", "sample_weight"] and table["id"][0].as_py() == 7
    assert weights.details["constant"] == 213 and weights.details["recall"] == 1.0
    np.testing.assert_array_equal(weights.weight, local_variance_weights(x, y))


G = np.random.default_rng(0)
NONE = PredictionHistory(3)


def visited(n=12, k=3, visits=5):
    """A history, and the probabilities [visits, n] that it saw, in shuffled batches of four."""
    y = torch.arange(n) % k
    history, seen = PredictionHistory(n), []
    for _ in range(visits):
        outputs = torch.tensor(G.normal(size=(n, k)))
        seen.append(outputs.softmax(1)[torch.arange(n), y].numpy())
        for some in torch.tensor(G.permutation(n)).split(4):
            history.record(some, outputs[some], y[some])
    return history, np.stack(seen)


def test_history_equals_all_probabilities_at_once():
    history, p = visited()
    np.testing.assert_allclose(history.mean[0], p.mean(0), rtol=1e-12)
    np.testing.assert_allclose(history.variance()[0], p.var(0), rtol=1e-10)
    assert (history.visits == 5).all() and len(history) == 12


@pytest.mark.parametrize("smoothing", [None, 0.0, 0.2])
def test_active_bias_formula(smoothing):
    history, p = visited()
    deviation = np.sqrt(p.var(0) + p.var(0) ** 2 / 4)
    weight = deviation + (deviation.mean() if smoothing is None else smoothing)
    result = active_bias_weights(history, smoothing)
    np.testing.assert_allclose(result, weight / weight.sum(), rtol=1e-10)
    if smoothing is None:
        assert result.min() * 12 >= 0.5


def test_warm_up_is_uniform_and_late_samples_weigh_the_mean():
    history = PredictionHistory(3)
    assert active_bias_weights(history).tolist() == [1 / 3] * 3
    for logit in (0.0, 1.0, 3.0):
        history.record(torch.tensor([0]), torch.tensor([[0.0, logit]]), torch.tensor([1]))
        history.record(torch.tensor([1]), torch.tensor([[0.0, -logit / 9]]), torch.tensor([1]))
    result = active_bias_weights(history)
    assert result[0] > result[2] > result[1] and result[2] == pytest.approx(result[:2].mean())
    assert active_bias_weights(history, min_visits=4).tolist() == [1 / 3] * 3


def test_binary_logits_and_labels_of_all_samples():
    y = torch.tensor([1, 0, 1, 1])
    a, b = PredictionHistory(4), PredictionHistory(4)
    logits = torch.tensor([0.3, -2.0])
    a.record(torch.tensor([2, 1]), logits, y)
    b.record(torch.tensor([2, 1]), torch.stack([0 * logits, logits], 1), torch.tensor([1, 0]))
    expected = [0, torch.sigmoid(torch.tensor(2.0)), torch.sigmoid(torch.tensor(0.3)), 0]
    np.testing.assert_allclose(a.mean[0], expected, rtol=1e-6)
    assert torch.equal(a.mean, b.mean)


def test_networks_trained_together_each_have_their_history():
    """Recorded and weighted in our loop, against each network alone."""
    x, y = G.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 3
    samples = SampleSet(x=x, y=y, ids=np.arange(40), class_names=("a", "b", "c"))
    models: list[nn.Module] = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(mlp((5,), 3, width=6))

    def trained(models):
        history = PredictionHistory(40, len(models))
        networks = train_networks(
            models,
            samples,
            torch.arange(40).expand(len(models), -1),
            Recipe(steps=20, lr=0.02, batch_size=8),
            sample_weight=lambda index: 40 * batched_active_bias(history).gather(1, index),
            observe=lambda position, outputs: history.record(position, outputs, torch.as_tensor(y)),
        )
        return history, networks.state

    (both, state), (alone, first) = trained(models), trained(models[:1])
    assert (both.visits == 4).all() and active_bias_weights(both).shape == (2, 40)
    np.testing.assert_allclose(both.mean[0], alone.mean[0], rtol=1e-4)
    torch.testing.assert_close(state["1.weight"][:1], first["1.weight"], rtol=1e-3, atol=1e-5)


def test_class_balanced_local_variance():
    y = np.repeat([0, 1], [90, 10])
    variance = np.random.default_rng(0).random(100) + 0.1
    balanced, weight = class_balanced_weights(y, 1), balanced_variance_weights(y, variance, 1)
    mean = np.where(y == 0, variance[:90].mean(), variance[90:].mean())
    expected = balanced * np.sqrt(variance / mean)
    np.testing.assert_allclose(weight, expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(balanced_variance_weights(y, 1e8 * variance, 1), weight, rtol=1e-12)
    with pytest.raises(DataError, match=r"variance_weight must be \[n\] positive numbers, 100"):
        balanced_variance_weights(y, 0 * variance)


def test_class_balanced():
    y = np.array(["a"] * 90 + ["b"] * 10)
    for beta in (0.9, 0.9999):
        weight = class_balanced_weights(y, beta)
        ratio = (1 - beta**90) / (1 - beta**10)  # eq. (2) and (4)
        assert weight[-1] / weight[0] == pytest.approx(ratio, rel=1e-9)
        assert weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(class_balanced_weights(y, 0), 0.01)
    assert class_balanced_weights(y, 1)[-1] == pytest.approx(0.05)
    assert class_balanced_weights(y, 1 - 1e-15)[-1] == pytest.approx(0.05, rel=1e-6)


def test_self_paced():
    losses = np.array([0.1, 0.5, 0.2, 2.0])
    np.testing.assert_allclose(self_paced_weights(losses), [0.5, 0, 0.5, 0])
    np.testing.assert_allclose(self_paced_weights(losses, 1.0), 0.25)
    np.testing.assert_allclose(self_paced_weights(7 * losses, 0.75), [1 / 3, 1 / 3, 1 / 3, 0])
    soft = self_paced_weights(losses, threshold=1.0, is_soft=True)
    np.testing.assert_allclose(soft, np.array([0.9, 0.5, 0.8, 0]) / 2.2)
    np.testing.assert_allclose(self_paced_weights(np.zeros(4), is_soft=True), 0.25)


def weigh(**settings):
    return sample_weights(*MOONS, **settings)


TWO = np.zeros((2, 3))


def recorded(positions=(0, 1), outputs=TWO, y=(0, 1)):
    PredictionHistory(4).record(*map(torch.tensor, (positions, outputs, y)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: weigh(max_ratio=0.5),
            SettingError,
            "max_ratio must be a number of at least 1; got 0.5",
        ),
        (lambda: weigh(max_ratio=np.nan), SettingError, "max_ratio.*got nan"),
        (lambda: weigh(density_clip=0.9), SettingError, "density_clip must be.*got 0.9"),
        (
            lambda: weigh(n_neighbors=300),
            SettingError,
            "n_neighbors must be at least 2.*300; got 300",
        ),
        (
            lambda: weigh(ids=np.arange(5)),
            DataError,
            r"ids must name every sample, 300; got shape \[5\]",
        ),
        (lambda: class_balanced_weights(np.arange(3), 1.5), SettingError, "beta.*got 1.5"),
        (lambda: class_balanced_weights(np.ones(3)), DataError, r"y must be \[n\] classes"),
        (lambda: self_paced_weights(np.array([np.nan])), DataError, "1 of them negative or NaN"),
        (lambda: self_paced_weights(np.ones(3), 0.0), SettingError, "fraction.*got 0.0"),
        (lambda: self_paced_weights(np.ones(3), threshold=0.5), SettingError, "smallest loss, 1"),
        (lambda: active_bias_weights(NONE, -1.0), SettingError, "got -1.0"),
        (lambda: active_bias_weights(NONE, min_visits=1), SettingError, "min_visits.*got 1"),
        (lambda: PredictionHistory(0), SettingError, "n_samples must be at least 1; got 0"),
        (lambda: recorded([0, 4]), DataError, r"positions must lie in 0..3; got \[0, 4\]"),
        (lambda: recorded(outputs=np.zeros((3, 3))), DataError, "of the same batch of 1 network"),
        (lambda: recorded(y=[0, 1, 2]), DataError, r"the batch's labels, \[2\], or all, \[4\]"),
        (lambda: recorded(y=[0, 3]), DataError, r"y must lie in 0..2; got \[0, 3\]"),
        (lambda: recorded(outputs=np.nan * TWO), DataError, "outputs must be finite"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
