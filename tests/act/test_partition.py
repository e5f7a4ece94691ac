"""Blocks of mixed data: recovered, counted, compared with the truth; and refusals."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

import datassay as da
from datassay.act.partition.agreement import agreement, oracle_agreement
from datassay.act.partition.influence_blocks import influence_blocks, reassigned
from datassay.act.partition.routing import fit_experts
from datassay.collect.curvature.output_geometry import output_geometry
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import routable_mixture, sd_mixture
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.build import build_model


def linear(samples, n_outputs=None):
    k = n_outputs or samples.n_classes or 1
    return nn.Linear(samples.x.shape[1], k).double()


@pytest.fixture(scope="module")
def mixed():
    return sd_mixture((400, 250), seed=5)


@pytest.fixture(scope="module")
def found(mixed):
    return da.partition(linear(mixed), mixed, max_blocks=3, restarts=3, gate="off")


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
    from datassay.collect.curvature.output_geometry import with_weights
    from datassay.train.convex import fit_convex

    part = mixed.subset(found.block == 1)
    at = output_geometry(linear(part), part)
    weights = fit_convex(at.features, at.targets, at.loss, 1e-4).weights[0]
    model = with_weights(linear(part), weights)
    moments = da.influence_moments(model, part, ridge=1e-4, damping=0.01)
    assert found.variance[1] == pytest.approx(moments.variance, rel=1e-6)


def test_a_pure_set_stays_whole():
    pure = sd_mixture((300,), seed=1)
    assert da.partition(linear(pure), pure, max_blocks=2, restarts=2, gate="off").n_blocks == 1


def test_blocks_that_lie_apart_are_found_by_the_gate():
    samples = routable_mixture((150, 150), task="regression", n_features=5, seed=2)
    found = da.partition(linear(samples), samples, loss="mse", max_blocks=3, restarts=2)
    assert found.is_gated and found.n_blocks == 2
    assert agreement(found, samples) > 0.9


def test_a_majority_is_the_first_block_of_the_influence_start():
    samples = sd_mixture((500, 120), seed=3)
    at = output_geometry(linear(samples), samples)
    block = influence_blocks(at, 2, ridge=1e-4, damping=0.01)
    pure = samples.source[(block == 0).numpy()] == "function 1"
    assert pure.mean() > 0.87 > 500 / 620
    hard = reassigned(at, block, 1e-4)
    assert set(hard.responsibility.unique().tolist()) <= {0.0, 1.0}
    assert hard.mixing[0] > 0.6


def test_binary_with_one_output():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((240, 4))
    y = (x[:, 0] * np.where(np.arange(240) < 120, 1, -1) > 0).astype(np.int64)
    source = np.repeat(["a", "b"], 120)
    samples = SampleSet(x, y, np.arange(240), ("no", "yes"), source=source)
    found = da.partition(linear(samples, 1), samples, n_blocks=2, restarts=2, gate="off")
    assert found.n_blocks == 2 and np.isfinite(found.responsibility).all()


def test_refusals(mixed):
    with pytest.raises(DataError, match=r"needs at least 20 samples; got 19\. Add samples"):
        da.partition(linear(mixed), mixed.subset(np.arange(19)))
    with pytest.raises(SettingError, match=r"20 samples a block; 40 blocks of 650 samples"):
        da.partition(linear(mixed), mixed, n_blocks=40)
    with pytest.raises(SettingError, match="n_blocks must be at least 1; got 0"):
        da.partition(linear(mixed), mixed, n_blocks=0)
    with pytest.raises(ModelError, match="only one dense layer"):
        da.partition(nn.Sequential(nn.Linear(40, 3), nn.ReLU(), nn.Linear(3, 4)), mixed)
    with pytest.raises(SettingError, match="gate must be"):
        da.partition(linear(mixed), mixed, gate="maybe")
    with pytest.raises(SettingError, match="held_out must lie"):
        da.partition(linear(mixed), mixed, held_out=0.8)
    with pytest.raises(DataError, match="at least 2 classes"):
        da.partition(linear(mixed), mixed.subset(mixed.y == 0))
    same = SampleSet(np.ones((50, 3)), np.arange(50) % 2, np.arange(50), ("a", "b"))
    with pytest.raises(DataError, match="inputs must differ"):
        da.partition(linear(same), same)
    without = SampleSet(mixed.x, mixed.y, mixed.ids, mixed.class_names)
    with pytest.raises(DataError, match="must have a source"):
        oracle_agreement(linear(mixed), without)


def test_the_global_stream_stays_where_it_was():
    mixed = sd_mixture((40, 25), seed=5)
    model = build_model("logistic", mixed)
    before = torch.get_rng_state()
    da.partition(model, mixed, n_blocks=2, restarts=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_results_repeat():
    samples = routable_mixture((60, 60), task="regression", n_features=5)
    kind = {"loss": "mse", "n_blocks": 2, "restarts": 2, "gate": "off", "seed": 3}
    one = da.partition(linear(samples), samples, **kind)
    two = da.partition(linear(samples), samples, **kind)
    np.testing.assert_array_equal(one.responsibility, two.responsibility)


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
    assert np.mean([found.gain > 0 for found in lots]) > 0.25
    assert np.mean([found.router is not None for found in lots]) < 0.15
    assert all((f.router is not None) == (f.gain > 2 * f.gain_error) for f in lots)
    assert routed(0, True).router is not None
