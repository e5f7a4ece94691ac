"""Purification against known mixtures: what is removed, when it stops, what it never does."""

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import sd_mixture
from datassay.errors import DataError, SettingError
from datassay.methods.purify.loop import purify
from datassay.methods.purify.stopping import (
    held_out_stop,
    held_out_threshold,
    inflection_stop,
    validation_stop,
)
from datassay.models.networks import linear, mlp
from datassay.score.label_issues import label_issues
from datassay.train.fitter import best_temperature, fitter
from datassay.train.recipe import Recipe


def foreign(samples):
    return samples.source != "function 1"


def regression(n=120, n_wrong=0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=n)
    y[:n_wrong] += rng.choice([-3.0, 3.0], n_wrong)
    return SampleSet(x, y, np.arange(n))


@pytest.fixture(scope="module")
def mixed():
    return sd_mixture((320, 80), seed=0)


@pytest.fixture(scope="module")
def found(mixed):
    test = sd_mixture((1000,), seed=9)
    return purify(linear((40,), 4), mixed, test=test, order="adjoint", step=8, beyond=2)


def test_it_removes_what_is_foreign_and_stops_near_the_peak(mixed, found):
    wrong = foreign(mixed)
    assert wrong[found.removed].mean() > 0.75 > wrong.mean()
    assert wrong[found.keep].mean() < 0.5 * wrong.mean()
    test = found.trace.test
    assert test[found.steps] > test[0] + 0.08
    assert test[found.steps] > test.max() - 0.02


def test_result_is_consistent(mixed, found):
    trace = found.trace
    assert sorted([*found.keep, *found.removed]) == list(range(len(mixed)))
    assert found.rule == "held_out" and found.order == "adjoint"
    assert trace.removed[found.steps] == len(found.removed)
    assert trace.variance[found.steps] < trace.variance[0]
    assert np.isnan(trace.surprise[0]) and np.isfinite(trace.surprise[1:]).all()
    assert np.isnan(trace.validation).all()
    assert len(trace.removed) == found.steps + 4  # the step undone and two beyond
    table = found.to_table()
    assert table["removed"].to_numpy().sum() == len(found.removed)
    first = np.array(table["id"])[np.array(table["step"]) == 1]
    assert set(first) == set(mixed.ids[found.removed[: trace.removed[1]]])


def test_model_is_the_fit_to_what_is_kept(mixed, found):
    x = torch.as_tensor(mixed.x[found.keep]).float()
    weight = found.model[1].weight.detach().clone().requires_grad_()
    bias = found.model[1].bias.detach().clone().requires_grad_()
    y = torch.as_tensor(mixed.y[found.keep])
    loss = nn.functional.cross_entropy(x @ weight.T + bias, y)
    loss = loss + 0.5e-4 * (weight.square().sum() + bias.square().sum())
    slopes = torch.autograd.grad(loss, (weight, bias))
    assert max(float(s.abs().max()) for s in slopes) < 1e-6


def test_nothing_is_removed_from_a_pure_set():
    pure = sd_mixture((400,), seed=3)
    purification = purify(linear((40,), 4), pure, order="fixed")
    assert len(purification.removed) == 0 and purification.steps == 0
    assert list(purification.keep) == list(range(400))


def test_validation_decides_where_it_is_given(mixed):
    val = sd_mixture((300,), seed=7)
    purification = purify(linear((40,), 4), mixed, val, order="fixed", step=10, max_fraction=0.3)
    assert purification.rule == "validation"
    assert len(purification.trace.removed) == 13  # it looks at every step up to max_fraction
    smooth = np.convolve(purification.trace.validation, np.ones(3) / 3, mode="valid")
    assert smooth[purification.steps - 1] == smooth.max()


def test_baselines_and_inflection_run_under_the_same_rule(mixed):
    wrong = foreign(mixed)
    loss = purify(linear((40,), 4), mixed, order="loss", stop="none", step=10, max_fraction=0.1)
    random = purify(
        linear((40,), 4), mixed, order="random", stop="inflection", step=5, max_fraction=0.1
    )
    assert len(loss.removed) == 40 and wrong[loss.removed].mean() > 0.7
    assert random.rule == "inflection" and np.isnan(random.threshold)


def test_limits_are_kept(mixed):
    settings = {"order": "fixed", "stop": "none", "max_fraction": 0.9, "min_per_class": 60}
    purification = purify(linear((40,), 4), mixed, step=40, **settings)
    before, after = np.bincount(mixed.y), np.bincount(mixed.y[purification.keep], minlength=4)
    assert (after >= np.minimum(before, 60)).all()
    assert len(purification.removed) == np.maximum(before - 60, 0).sum()  # all that may go has gone
    reported = purify(linear((40,), 4), mixed, order="fixed", max_fraction=0.05)
    assert len(reported.removed) == 20
    assert "went on to its limit of 20 samples" in reported.warnings[0]


def test_auto_order_follows_the_number_of_samples_a_weight():
    settings = {"stop": "none", "max_fraction": 0.1}
    assert purify(linear((3,), 1), regression(15), **settings).order == "fixed"
    assert purify(linear((3,), 1), regression(), **settings).order == "adjoint"


def test_regression_outliers_go_and_normal_residuals_stay():
    purification = purify(linear((3,), 1), regression(n_wrong=12), ridge=1e-3)
    assert set(purification.removed) >= set(range(12)) and len(purification.removed) <= 15
    assert len(purify(linear((3,), 1), regression(), ridge=1e-3).removed) == 0


class TiedAndOffset(nn.Module):
    """One weight under two names, and a buffer that a state dict leaves out."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.second.weight = self.first.weight
        self.register_buffer("offset", torch.ones(4), persistent=False)

    def forward(self, x):
        hidden = self.first(x + self.offset).relu()
        return self.head(self.second(hidden))


def test_tied_weights_and_unsaved_buffers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    mixed = SampleSet(x, (x[:, 0] > 0).astype(np.int64), np.arange(60), ("a", "b"))
    recipe = Recipe(steps=20)
    purification = purify(
        TiedAndOffset(), mixed, step=6, max_fraction=0.1, stop="none", recipe=recipe
    )
    assert purification.model.first.weight is purification.model.second.weight
    assert len(purification.removed) == 6


def noisy_pair():
    """Two clouds and a small network; 40 of 240 labels are wrong."""
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 2
    x = (rng.normal(size=(240, 2)) + np.where(truth, 3, -3)[:, None]).astype(np.float32)
    y = truth.copy()
    flipped = rng.choice(240, 40, replace=False)
    y[flipped] = 1 - y[flipped]
    samples = SampleSet(x, y, np.arange(240), class_names=("left", "right"))
    torch.manual_seed(0)
    return samples, flipped, mlp((2,), 1, width=8)


def test_networks_are_trained_anew_each_step():
    samples, flipped, model = noisy_pair()
    before = {name: w.clone() for name, w in model.state_dict().items()}
    recipe = Recipe(lr=0.02, steps=120)
    how = {"order": "fixed", "stop": "none", "max_fraction": 0.1, "step": 8}
    purification = purify(model, samples, recipe=recipe, **how)
    again = purify(model, samples, recipe=recipe, **how)
    assert np.isin(purification.removed, flipped).mean() > 0.5  # of 0.17 in all
    assert list(purification.removed) == list(again.removed)
    assert all((before[name] == w).all() for name, w in model.state_dict().items())
    assert any((before[name] != w).any() for name, w in purification.model.state_dict().items())


def test_networks_that_classify_lose_the_suspects_of_label_issues():
    samples, flipped, model = noisy_pair()
    purification = purify(model, samples, recipe=Recipe(steps=20))
    issues = label_issues(collect(model, samples))
    assert (purification.order, purification.rule) == ("label_issues", "suspects")
    assert list(purification.removed) == list(np.argsort(-issues.score)[: issues.to_try.sum()])
    assert np.isin(purification.removed, flipped).mean() > 0.9
    assert purification.steps == len(purification.trace.removed) - 1
    few = purify(model, samples, recipe=Recipe(steps=20), max_fraction=0.05)
    assert list(few.removed) == list(purification.removed[:12])


def test_a_networks_surprise_is_that_of_its_calibrated_outputs():
    samples, _, model = noisy_pair()
    recipe = Recipe(lr=0.02, steps=120)
    purification = purify(model, samples, recipe=recipe, stop="none", max_fraction=0.05, step=12)
    fit = fitter(model, samples, loss="cross_entropy", ridge=0.0, recipe=recipe)
    fitted = fit.fit(torch.as_tensor(purification.keep))
    logits = fitted.geometry.outputs[purification.removed, 0] / fitted.temperature
    wanted = torch.as_tensor(samples.y[purification.removed]).to(logits)
    expected = nn.functional.binary_cross_entropy_with_logits(logits, wanted)
    assert abs(fitted.temperature - 1) > 0.1
    assert purification.trace.surprise[1] == pytest.approx(float(expected), rel=1e-6)


def test_temperature_undoes_what_logits_were_multiplied_by():
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=g)
    drawn = torch.multinomial(logits.softmax(1), 1, generator=g)[:, 0]
    targets = nn.functional.one_hot(drawn, 3).float()
    for factor in (0.5, 3.0):
        assert best_temperature(factor * logits, targets) == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "best"}, "order must be one of auto, cross_fit.*got 'best'"),
        ({"stop": "late"}, "stop must be one of auto, held_out.*got 'late'"),
        ({"order": "loss", "stop": "suspects"}, "stop='suspects' belongs to order=.*'loss'"),
        (
            {"order": "cross_fit", "loss": "mse"},
            "order='cross_fit' needs classes and a linear model",
        ),
        ({"stop": "validation"}, "stop='validation' needs a validation set"),
        ({"max_fraction": 1.0}, r"max_fraction must lie in \(0, 1\); got 1.0"),
        ({"threshold": float("nan")}, "threshold must be a finite number of nats.*got nan"),
        ({"step": 0}, "step must be at least 1; got 0"),
        ({"min_per_class": 0}, "min_per_class must be at least 1; got 0"),
        ({"beyond": -1}, "beyond must be at least 0; got -1"),
        ({"damping": -1.0}, "damping must be a number of at least 0"),
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"loss": "hinge"}, "loss must be cross_entropy or mse"),
    ],
)
def test_bad_settings(mixed, settings, message):
    with pytest.raises(SettingError, match=message):
        purify(linear((40,), 4), mixed, **settings)


def test_bad_samples(mixed):
    same = SampleSet(np.ones((9, 2)), np.arange(9) % 2, np.arange(9), ("a", "b"))
    with pytest.raises(DataError, match="inputs must differ; all 9 samples are the same"):
        purify(linear((2,), 2), same)
    with pytest.raises(DataError, match="at least 2 classes"):
        purify(linear((40,), 4), mixed.subset(mixed.y == 0))


# Stopping rules on traces whose right answer is plain.


def test_threshold_is_half_the_chance_of_a_blind_guess():
    assert np.exp(-held_out_threshold(4)) == pytest.approx(0.5 / 4)
    assert held_out_threshold(4) == pytest.approx(2.0, abs=0.1)  # METHODS §4
    assert np.exp(-held_out_threshold(10, is_convex=False)) == pytest.approx(0.25 / 10)
    z = np.sqrt(2 * held_out_threshold(0) - np.log(2 * np.pi))
    assert z == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("surprise", "steps"),
    [
        ([5.0, 4.8, 5.2, 4.9, 5.1], None),
        # Means of three: ..., (5.1, 1.0, 0.9) = 2.33, (1.0, 0.9, 1.1) = 1.0 at step 8, undone.
        ([5.0, 4.8, 5.2, 4.9, 5.1, 1.0, 0.9, 1.1], 7),
        ([2.5, 1.2, 1.0, 0.9], 0),  # a pure set
        ([2.5, 1.2], None),  # not yet judged
        ([5.0, 5.0, 5.0, 0.1, 5.0, 5.0], None),  # one noisy batch
    ],
)
def test_held_out_rule_stops_where_three_batches_are_familiar(surprise, steps):
    assert held_out_stop(np.array(surprise), 2.0) == steps


def test_inflection_is_where_the_fall_slows_down():
    variance = np.concatenate([np.exp(-0.5 * np.arange(10)), np.full(10, np.exp(-4.5))])
    assert inflection_stop(variance) == pytest.approx(9, abs=1)
    assert inflection_stop(np.ones(4)) == 0


def test_validation_takes_the_earliest_best_of_a_mean_over_three():
    score = np.array([0.5, 0.6, 0.95, 0.6, 0.8, 0.82, 0.8, 0.8])
    assert validation_stop(score) == 5
    assert validation_stop(np.full(6, 0.9)) == 0
