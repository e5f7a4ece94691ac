"""Blocks of mixed data, and the mixture behind them against its definition."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import adjusted_rand_score
from torch import nn

import datassay as da
from datassay.collect.curvature.output_geometry import SharedFeatures, output_geometry, with_weights
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import routable_mixture, sd_mixture
from datassay.errors import DataError, ModelError, SettingError
from datassay.methods.partition.block_count import held_out_joint, influence_blocks, reassign_blocks
from datassay.methods.partition.blocks import Partition, agreement, oracle_agreement
from datassay.methods.partition.mixture import (
    MAX_ITERATIONS,
    MixtureProblem,
    fit_mixture,
    log_densities,
)
from datassay.methods.partition.routing import fit_experts
from datassay.train.convex import fit_convex
from datassay.train.folds import fold_numbers


def linear(samples, n_outputs=None):
    k = n_outputs or samples.n_classes or 1
    return nn.Linear(samples.x.shape[1], k).double()


@pytest.fixture(scope="module")
def mixed():
    return sd_mixture((400, 250), seed=5)


@pytest.fixture(scope="module")
def found(mixed):
    return da.partition(linear(mixed), mixed, max_blocks=3, restarts=2, gate="off")


def test_two_functions_of_the_same_inputs_are_told_apart(mixed, found):
    assert found.n_blocks == 2
    truth = oracle_agreement(linear(mixed), mixed)
    assert agreement(found, mixed) >= 0.75 * truth > 0.3
    assert not found.is_gated


def test_result_is_consistent(mixed, found):
    assert found.sizes.sum() == len(mixed)
    np.testing.assert_allclose(found.responsibility.sum(1), 1)
    np.testing.assert_array_equal(found.responsibility.argmax(1), found.block)
    share = found.sizes / len(mixed)
    assert found.entropy == pytest.approx(-(share * np.log(share)).sum())
    assert (found.variance < found.variance_together / 4).all()
    table = found.to_table()
    assert table.column_names == ["id", "block", "responsibility"]
    assert table["id"].to_pylist() == mixed.ids.tolist()


def test_variance_is_that_of_a_block_under_its_own_model(mixed, found):
    part = mixed.subset(found.block == 1)
    index = output_geometry(linear(part), part)
    weights = fit_convex(index.features, index.targets, index.loss, 1e-4).weights[0]
    model = with_weights(linear(part), weights)
    moments = da.influence_moments(model, part, ridge=1e-4, damping=0.01)
    assert found.variance[1] == pytest.approx(moments.variance, rel=1e-6)


def test_a_pure_set_stays_whole():
    pure = sd_mixture((300,), seed=1)
    assert da.partition(linear(pure), pure, max_blocks=2, restarts=2, gate="off").n_blocks == 1


def test_blocks_that_lie_apart_are_found_by_the_gate():
    samples = routable_mixture((150, 150), task="regression", n_features=5, seed=2)
    division = da.partition(linear(samples), samples, loss="mse", max_blocks=3, restarts=2)
    assert division.is_gated and division.n_blocks == 2
    assert agreement(division, samples) > 0.9


def test_a_majority_is_the_first_block_of_the_influence_start():
    samples = sd_mixture((500, 120), seed=3)
    index = output_geometry(linear(samples), samples)
    block = influence_blocks(index, 2, ridge=1e-4, damping=0.01)
    pure = samples.source[(block == 0).numpy()] == "function 1"
    assert pure.mean() > 0.87 > 500 / 620
    hard = reassign_blocks(index, block, 1e-4)
    assert set(hard.responsibility.unique().tolist()) <= {0.0, 1.0}
    assert hard.mixing[0] > 0.6


def test_hard_blocks_are_kept_where_models_without_a_fold_predict_it_better():
    samples = sd_mixture((60, 40, 30), seed=6)
    division = da.partition(linear(samples), samples, n_blocks=3, restarts=1, gate="off")
    index = output_geometry(linear(samples), samples)
    out = fold_numbers(index.targets, index.loss, 5, 0) == 0
    without = reassign_blocks(index.subset(~out), torch.tensor(division.block)[~out], 1e-4)
    rest = index.subset(out)
    likelihood = without.joint(rest.features, rest.targets, index.loss).logsumexp(1).mean()
    assert division.is_hard and likelihood > division.held_out[3] + 0.05


def test_binary_with_one_output():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((240, 4))
    y = (x[:, 0] * np.where(np.arange(240) < 120, 1, -1) > 0).astype(np.int64)
    source = np.repeat(["a", "b"], 120)
    samples = SampleSet(x, y, np.arange(240), ("no", "yes"), source=source)
    division = da.partition(linear(samples, 1), samples, n_blocks=2, restarts=2, gate="off")
    assert division.n_blocks == 2 and np.isfinite(division.responsibility).all()


SAME = SampleSet(np.ones((50, 3)), np.arange(50) % 2, np.arange(50), ("a", "b"))
DEEP = nn.Sequential(nn.Linear(40, 3), nn.ReLU(), nn.Linear(3, 4))


def test_refusals(mixed):
    for model, samples, given, error, message in (
        (None, mixed.subset(np.arange(19)), {}, DataError, r"at least 20 samples; got 19\. Add"),
        (None, mixed, {"n_blocks": 40}, SettingError, "20 samples a block; 40 blocks of 650 sam"),
        (None, mixed, {"n_blocks": 0}, SettingError, "n_blocks must be at least 1; got 0"),
        (DEEP, mixed, {}, ModelError, "only one dense layer"),
        (None, mixed, {"gate": "maybe"}, SettingError, "gate must be"),
        (None, mixed, {"held_out": 0.8}, SettingError, "held_out must lie"),
        (None, mixed.subset(mixed.y == 0), {}, DataError, "at least 2 classes"),
        (None, SAME, {}, DataError, "inputs must differ"),
    ):
        with pytest.raises(error, match=message):
            da.partition(model or linear(samples), samples, **given)
    without = SampleSet(mixed.x, mixed.y, mixed.ids, mixed.class_names)
    with pytest.raises(DataError, match="must have a source"):
        oracle_agreement(linear(mixed), without)


def test_results_repeat_and_the_global_stream_stays_where_it_was():
    samples = routable_mixture((60, 60), task="regression", n_features=5)
    model, before = linear(samples), torch.get_rng_state()
    kind = {"loss": "mse", "n_blocks": 2, "restarts": 2, "gate": "off", "seed": 3}
    one, two = (da.partition(model, samples, **kind) for _ in range(2))
    np.testing.assert_array_equal(one.responsibility, two.responsibility)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_router_stays_only_where_it_beats_the_largest_block_by_two_errors():
    """Blocks drawn by lot: their gain is above 0 now and then, above two errors hardly ever."""

    def routed(seed, informative):
        rng = np.random.default_rng(seed)
        x, block = rng.normal(size=(120, 6)), rng.integers(0, 2, 120)
        x[:, 0] += 3 * block * informative
        y = rng.normal(size=120)
        models = LinearRegression(), LogisticRegression()
        return fit_experts(x, y, block, np.eye(2)[block], *models, seed=0)

    lots = [routed(seed, False) for seed in range(40)]
    assert np.mean([result.gain > 0 for result in lots]) > 0.25
    assert np.mean([outcome.router is not None for outcome in lots]) < 0.15
    assert all((f.router is not None) == (f.gain > 2 * f.gain_error) for f in lots)
    assert routed(0, True).router is not None


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
    gate = x if is_gated else None
    result = fit_mixture(MixtureProblem(features, targets, loss, gate_inputs=gate), 2, restarts=2)
    prior = (x @ result.gate.T).softmax(1).T if is_gated else result.mixing[:, None]
    joint = prior * densities(result, features, targets, loss)
    torch.testing.assert_close(result.responsibility, (joint / joint.sum(0)).T)
    assert result.log_likelihood == pytest.approx(float(joint.sum(0).log().mean()))
    torch.testing.assert_close(result.joint(features, targets, loss, gate).exp(), joint.T)


def test_densities_of_targets_are_those_of_the_normal_law():
    g = torch.Generator().manual_seed(0)
    outputs, targets = (torch.randn(*shape, generator=g).double() for shape in ((2, 5, 3), (5, 3)))
    noise = torch.tensor([0.4, 2.0]).double()
    expected = norm.logpdf(targets, outputs, noise.sqrt()[:, None, None]).sum(2)
    np.testing.assert_allclose(log_densities(outputs, targets, "mse", noise), expected, rtol=1e-12)


def test_it_rests_where_each_model_is_the_fit_under_its_responsibilities():
    features, targets, _, _ = arrays("regression")
    result = fit_mixture(MixtureProblem(features, targets, "mse"), 2, restarts=2)
    assert result.converged
    mass = result.responsibility.T + 1 / len(targets)
    again = fit_convex(features, targets, "mse", 1e-4, sample_weight=mass).weights
    torch.testing.assert_close(again, result.weights, atol=2e-3, rtol=0)
    torch.testing.assert_close(mass.sum(1) / mass.sum(), result.mixing, atol=2e-3, rtol=0)


def test_one_block_is_the_plain_fit():
    features, targets, _, _ = arrays()
    result = fit_mixture(MixtureProblem(features, targets, "cross_entropy"), 1, restarts=1)
    plain = fit_convex(features, targets, "cross_entropy", 1e-4).weights
    torch.testing.assert_close(result.weights, plain, atol=1e-2, rtol=0)
    assert result.responsibility.eq(1).all()


def test_a_fitted_start_is_not_forgotten():
    features, targets, x, source = arrays(sizes=(250, 250))
    truth = torch.eye(2).double()[np.unique(source, return_inverse=True)[1]]
    problem = MixtureProblem(features, targets, "cross_entropy", gate_inputs=x)
    result = fit_mixture(problem, 2, restarts=0, starts=[truth])
    assert adjusted_rand_score(source, result.responsibility.argmax(1)) > 0.9


def test_units_of_a_regression():
    features, targets, _, _ = arrays("regression")
    one = fit_mixture(MixtureProblem(features, targets, "mse"), 2, restarts=2)
    ten = fit_mixture(MixtureProblem(features, 10 * targets, "mse"), 2, restarts=2)
    torch.testing.assert_close(ten.noise, 100 * one.noise, rtol=1e-6, atol=0)
    torch.testing.assert_close(ten.responsibility, one.responsibility, rtol=1e-5, atol=1e-8)


def test_held_out_samples_leave_no_trace_in_the_weights():
    features, targets, _, _ = arrays("regression")
    folds = fold_numbers(targets, "mse", 3, 0)
    start = torch.ones(len(targets), 1).double()
    problem = MixtureProblem(features, targets, "mse")
    result = held_out_joint(problem, start, folds, MAX_ITERATIONS).logsumexp(0)
    keep, out = (folds != 0).nonzero()[:, 0], (folds == 0).nonzero()[:, 0]
    alone = fit_mixture(MixtureProblem(features.subset(keep), targets[keep], "mse"), 1, restarts=1)
    other = alone.joint(features.subset(out), targets[out], "mse").logsumexp(1)
    torch.testing.assert_close(result[out], other, rtol=1e-6, atol=1e-6)


def test_folds_are_even_in_every_class():
    _, targets, _, _ = arrays()
    folds = fold_numbers(targets, "cross_entropy", 5, 0)
    for c in range(3):
        sizes = np.bincount(folds[targets[:, c] == 1], minlength=5)
        assert sizes.max() - sizes.min() <= 1


def test_a_sample_stands_in_the_table_with_its_own_block():
    ids, block = np.array(["c", "a", "b"]), np.array([1, 0, 0])
    share = np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]])
    made = object.__new__(Partition)
    for name, value in {"ids": ids, "block": block, "responsibility": share}.items():
        object.__setattr__(made, name, value)
    assert made.to_table().to_pylist() == [
        {"id": "c", "block": 1, "responsibility": 0.8},
        {"id": "a", "block": 0, "responsibility": 0.9},
        {"id": "b", "block": 0, "responsibility": 0.6},
    ]
