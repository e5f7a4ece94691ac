"""Influence functions: against retraining, against each other, and what they refuse."""

import copy
import inspect
import sys

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect.curvature.hessian import hessian, loss_at, loss_gradients
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.models.networks import mlp
from datassay.score.influence.methods import influence
from datassay.score.influence.whole.solvers import lissa
from datassay.train.recipe import Recipe
from datassay.train.retrain import retrain
from datassay.train.training import train_networks

CURVATURE = sys.modules[loss_at.__module__]  # `datassay.collect` is the function
DECAY = 0.02


def samples(n=40, k=2, m_seed=0, shift=1.0):
    rng = np.random.default_rng(m_seed)
    y = np.arange(n) % k
    x = rng.normal(size=(n, 3)) + shift * np.eye(3)[y]
    names = tuple("abc"[:k])
    return SampleSet(x=x, y=y, ids=np.arange(100, 100 + n), class_names=names)


def objective(model, x, y, kept):
    """Return the mean loss over `kept` + DECAY/2 ‖w‖²."""
    out = model(x)
    if out.shape[1] == 1:
        call = nn.functional.binary_cross_entropy_with_logits
        losses = call(out[:, 0], y.double(), reduction="none")
    else:
        losses = nn.functional.cross_entropy(out, y, reduction="none")
    squares = sum(p.square().sum() for p in model.parameters())
    return losses[kept].mean() + DECAY / 2 * squares


def fitted(train, kept=None, outputs=1):
    """(Multinomial) logistic regression on `kept`, converged by Newton-like steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, outputs)).double()
    x, y = torch.tensor(train.x), torch.tensor(train.y)
    kept = np.arange(len(train)) if kept is None else kept
    exactly = {"tolerance_grad": 1e-13, "tolerance_change": 0, "line_search_fn": "strong_wolfe"}
    solver = torch.optim.LBFGS(model.parameters(), max_iter=300, **exactly)

    def closure():
        solver.zero_grad()
        value = objective(model, x, y, kept)
        value.backward()
        return value

    solver.step(closure)
    return model


def tanh_network(width=4, outputs=3):
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, outputs)).double()


def retrained(train, val, outputs, removed):
    """f(x_j) − f₋ᵢ(x_j), [s, m, k], and ‖w − w₋ᵢ‖², [s]."""
    full = fitted(train, outputs=outputs)
    x = torch.tensor(val.x)
    changes, weights = [], []
    for i in removed:
        without = fitted(train, np.delete(np.arange(len(train)), i), outputs)
        pairs = zip(full.parameters(), without.parameters(), strict=True)
        with torch.no_grad():
            changes.append(full(x) - without(x))
            weights.append(sum(float((a - b).square().sum()) for a, b in pairs))
    return torch.stack(changes).numpy(), np.array(weights)


def run(model, train, val=None, **settings):
    given = {"method": "exact", "damping": 0.0, "weight_decay": DECAY, **settings}
    return influence(model, train, val, **given)


def test_retraining_agrees_to_first_order():
    """The relative error of the effect halves when n doubles: what is left is second order."""
    errors = {}
    for n in (40, 160):
        train, val = samples(n), samples(20, m_seed=1)
        result = run(fitted(train), train, val)
        change, weights = retrained(train, val, 1, range(8))
        errors[n] = np.abs(result.effect[:8] - change[..., 0]).max() / np.abs(change).max()
        np.testing.assert_allclose(
            result.prediction_change[:8], np.square(change).sum((1, 2)), rtol=20 / n
        )
        np.testing.assert_allclose(result.weight_change[:8], weights, rtol=20 / n)
    assert errors[160] < 0.05
    assert 2.5 < errors[40] / errors[160] < 6.5  # 4 in the limit


def test_three_classes_and_every_outcome():
    train, val = samples(120, 3), samples(9, 3, m_seed=1)
    model = fitted(train, outputs=3)
    change, _ = retrained(train, val, 3, range(6))
    with torch.no_grad():
        f = model(torch.tensor(val.x)).numpy()
    rows, label, predicted = np.arange(9), np.asarray(val.y), f.argmax(1)

    def margin(out):
        others = np.where(np.arange(3) == label[:, None], -np.inf, out)
        return out[..., rows, label] - np.log(np.exp(others).sum(-1))

    def loss(out):
        return np.log(np.exp(out).sum(-1)) - out[..., rows, label]

    def output(out):
        return out[..., rows, predicted]

    for measure in (margin, loss, output):
        result = run(model, train, val, measure=measure.__name__)
        truth = measure(f) - measure(f - change)
        assert np.abs(result.effect[:6] - truth).max() < 0.1 * np.abs(truth).max()
        np.testing.assert_allclose(result.outcome, measure(f), rtol=1e-10)
        np.testing.assert_allclose(result.total, result.effect.sum(1), rtol=1e-12)


def by_formula(model, train, damping):
    """Δ_i by the definition, with a Hessian of finite differences of the mean gradient."""
    gradients = loss_gradients(loss_at(model, train, "cross_entropy"), 0, len(train))
    flat, step = nn.utils.parameters_to_vector(model.parameters()).detach(), 1e-5

    def slope(vector):
        moved = copy.deepcopy(model)
        nn.utils.vector_to_parameters(vector, moved.parameters())
        return loss_gradients(loss_at(moved, train, "cross_entropy"), 0, len(train)).mean(0)

    eye = torch.eye(len(flat)).double()
    rows = [(slope(flat + step * e) - slope(flat - step * e)) / (2 * step) for e in eye]
    leaving = gradients - gradients.mean(0)  # with its share of the weight decay
    return -torch.linalg.solve(torch.stack(rows) + damping * eye, leaving.T).T / len(train)


def test_exact_is_the_formula():
    train = samples(15)
    torch.manual_seed(0)
    model = tanh_network(outputs=1)
    moves = by_formula(model, train, 0.7)
    effects = influence(model, train, method="exact", damping=0.5, weight_decay=0.2)
    np.testing.assert_allclose(effects.weight_change, moves.square().sum(1), rtol=1e-6)
    assert effects.method == "exact, damping 0.5" and effects.warnings == ()
    assert effects.ids.tolist() == train.ids.tolist()
    again = influence(model, train, train, method="exact", damping=0.5, weight_decay=0.2)
    np.testing.assert_array_equal(effects.effect, again.effect)  # queries, without val


@pytest.mark.parametrize(
    ("method", "settings"),
    [("cg", {"tolerance": 1e-12}), ("lissa", {"depth": 120, "scale": 1.0, "batch_size": None})],
)
def test_solvers_agree_with_exact(method, settings):
    train, val = samples(30, 3), samples(7, 3, m_seed=1)
    model = fitted(train, outputs=3)
    exact = run(model, train, val, damping=0.2)
    result = run(model, train, val, method=method, damping=0.2, **settings)
    np.testing.assert_allclose(result.effect, exact.effect, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(result.weight_change, exact.weight_change, rtol=1e-8)
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("cg", {}),
        ("exact", {}),
        ("tracin", {}),
        ("lissa", {"depth": 10, "scale": 2.0, "batch_size": 8}),
    ],
)
def test_chunks_of_samples_do_not_matter(monkeypatch, method, settings):
    train, val = samples(30), samples(7, m_seed=1)
    model = fitted(train)
    whole, seen = run(model, train, val, method=method, **settings), []
    monkeypatch.setattr(CURVATURE, "VECTOR_VALUES", 7 * 4)
    settings["progress"] = lambda *done: seen.append(done)
    parts = run(model, train, val, method=method, **settings)
    np.testing.assert_allclose(parts.effect, whole.effect, rtol=1e-9, atol=1e-14)
    assert seen[-1] == ("remove samples", 30, 30)
    if method == "lissa":
        other = run(model, train, val, method=method, seed=1, **settings).effect
        assert np.abs(parts.effect - other).max() > 0


def test_s1_settings_are_damped_gradients():
    """S1's 0.01 times its scale of 1000 is damping 10 here: u = (H + 10)⁻¹ ∇ℓ, by their loop."""
    train = samples(20)
    model = fitted(train)
    mean_loss = loss_at(model, train, "cross_entropy")
    whole, gradients = hessian(mean_loss), loss_gradients(mean_loss, 0, 20)
    v = gradients.clone()
    for _ in range(100):
        v = gradients + (1 - 0.01) * v - v @ whole / 1000
    theirs = (v / 1000).square().sum(1) / 20**2
    kind = {"method": "lissa", "damping": 10.0, "batch_size": None}
    effects = influence(model, train, **kind, depth=100)
    np.testing.assert_allclose(effects.weight_change, theirs.numpy(), rtol=1e-10)
    own = inspect.signature(lissa).parameters
    assert (own["depth"].default, own["scale"].default) == (1000, 1000.0)


def test_tracin_is_a_sum_of_products_of_gradients():
    train, val = samples(12, 3), samples(5, 3, m_seed=1)
    torch.manual_seed(0)
    models, rates = [tanh_network() for _ in "ab"], (0.1, 0.3)
    given = {"method": "tracin", "lr": rates, "checkpoints": models, "precision": "float64"}
    effects = influence(models[1], train, val, **given)
    predicted = models[1](torch.tensor(val.x)).argmax(1)
    expected = torch.zeros(12, 5).double()
    for model, rate in zip(models, rates, strict=True):
        gradients = loss_gradients(loss_at(model, train, "cross_entropy"), 0, 12)
        for j in range(5):
            out = model(torch.tensor(val.x[j : j + 1]))[0, predicted[j]]
            slopes = torch.autograd.grad(out, list(model.parameters()))
            expected[:, j] -= rate * gradients @ torch.cat([g.flatten() for g in slopes])
    np.testing.assert_allclose(effects.effect, expected.numpy(), rtol=1e-9, atol=1e-12)
    assert effects.method == "tracin"


class Tenfold(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 10 * self.inner(x)


@pytest.mark.parametrize("method", ["exact", "cg"])
def test_units(method):
    """Outputs and targets × 10 (H and ∇ℓ × 100): with damping × 100 effects × 10, moves the same.

    Every sample twice: one of the two has half the effect.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    train, ten = (SampleSet(x=x, y=t * y, ids=np.arange(20)) for t in (1, 10))
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    given = {"loss": "mse", "method": method} | ({"tolerance": 1e-12} if method == "cg" else {})
    before = influence(model, train, damping=0.3, **given)
    after = influence(Tenfold(model), ten, damping=30.0, **given)
    np.testing.assert_allclose(after.effect, 10 * before.effect, rtol=1e-8)
    np.testing.assert_allclose(after.weight_change, before.weight_change, rtol=1e-8)
    twice = SampleSet(x=np.tile(x, (2, 1)), y=np.tile(y, 2), ids=np.arange(40))
    half = influence(model, twice, train, damping=0.3, **given)
    np.testing.assert_allclose(half.effect[:20], before.effect / 2, rtol=1e-8)


def test_s1_table_1_small():
    """S1 Table 1, MLP with weight decay: Pearson .990 (predictions) and .978 (weights).

    Theirs is MNIST 4 vs 9 and a width of 1024; here 100 of scikit-learn's digits, a width of 32 and
    16 retrained networks. The weights need a minimum: after a seventh of this training, .68.
    """
    train, val = (four_or_nine(part) for part in load("digits", val_fraction=0.5))
    train, removed = train.subset(np.arange(100)), np.arange(16)
    torch.manual_seed(0)
    model = mlp(train.input_shape, 1, width=32)
    recipe = Recipe("sgd", 0.2, 1000, None, "mse", 0.02)
    networks = train_networks([model], train, torch.arange(100)[None], recipe)
    after = copy.deepcopy(model)
    after.load_state_dict({name: t[0] for name, t in networks.state.items()})
    run = {"lr": 0.2, "steps": 1000, "weight_decay": 0.02, "loss": "mse"}
    truth = retrain(model, train, val, removed=removed, **run)
    effects = influence(after, train, val, loss="mse", method="cg", weight_decay=0.02)
    for name, least in (("prediction_change", 0.98), ("weight_change", 0.96)):
        ours, theirs = getattr(effects, name)[removed], getattr(truth, name)
        assert np.corrcoef(ours, theirs)[0, 1] > least


def four_or_nine(part):
    keep = np.isin(part.y, (4, 9))
    y = (part.y[keep] == 9).astype("int64")
    return SampleSet(x=part.x[keep], y=y, ids=part.ids[keep], class_names=("4", "9"))


def test_solvers_say_when_they_did_not_converge():
    train = samples(30)
    model = fitted(train)
    (note,) = run(model, train, method="cg", iterations=2, tolerance=1e-9).warnings
    assert "did not converge for 30 of 30 samples: after 2 iterations" in note
    (note,) = run(model, train, method="lissa", depth=5).warnings
    assert "curvature below 2e+02 is not inverted" in note


@pytest.mark.parametrize("method", ["exact", "cg"])
def test_an_indefinite_or_singular_hessian_is_refused(method):
    torch.manual_seed(3)
    with pytest.raises(SettingError, match=r"positive definite.* Raise damping above"):
        influence(tanh_network(outputs=1), samples(12), method=method, damping=0.0)
    # Softmax: adding a constant to every output changes no loss.
    with pytest.raises(SettingError, match="positive definite"):
        influence(fitted(samples(30, 3), outputs=3), samples(30, 3), method="exact", damping=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "method must be one of 'auto', 'gauss_newton', 'exact', 'cg', 'liss"),
        ({"depth": 5}, "method 'exact' takes no settings of its own; got depth"),
        ({"method": "cg", "depth": 5}, "'cg' takes tolerance, iterations; got depth"),
        ({"method": "cg", "tolerance": 0.0}, "tolerance must be positive"),
        ({"method": "cg", "iterations": 0}, "iterations must be at least 1"),
        ({"method": "lissa", "depth": 0}, "depth must be positive"),
        ({"method": "lissa", "scale": -1.0}, "scale must be positive"),
        ({"method": "lissa", "scale": 0.01}, r"diverged within 20 recursions at scale 0\.01"),
        ({"method": "lissa", "batch_size": 0}, "batch_size must be positive"),
        ({"method": "lissa", "repeats": 0}, "repeats must be positive"),
        ({"method": "tracin", "lr": 0.0}, "lr must be positive"),
        ({"method": "tracin", "lr": [0.1, 0.2]}, "one per checkpoint; got 2 for 1"),
        ({"method": "tracin", "checkpoints": []}, "checkpoints must hold at least 1"),
        ({"damping": float("inf")}, "damping must be at least 0 and finite; got inf"),
        ({"loss": "hinge"}, "loss must be cross_entropy or mse"),
    ],
)
def test_bad_settings(settings, message):
    train = samples(10)
    with pytest.raises(SettingError, match=message):
        run(fitted(train), train, **settings)


def test_bad_models_and_data(monkeypatch):
    train = samples(10)
    model = fitted(train)
    with pytest.raises(SettingError, match="a network or a list of them"):
        run([], train)
    with pytest.raises(DataError, match="same classes"):
        run(model, train, samples(9, 3))
    monkeypatch.setattr(CURVATURE, "VECTOR_VALUES", 40)
    with pytest.raises(SettingError, match="architecture"):
        run([model, tanh_network(9, 1)], train, damping=5.0)


@pytest.mark.parametrize("method", ["exact", "cg", "tracin", "gauss_newton"])
def test_some_samples_alone_give_their_rows(method):
    train, val = samples(20, 3), samples(6, 3, m_seed=1)
    given = {"method": method, "damping": 0.2, "precision": "float64"}
    given |= {"tracin": {"lr": 0.1}, "gauss_newton": {"curvature": "whole"}}.get(method, {})
    every, some = (
        influence(fitted(train, outputs=3), train, val, removed=part, **given)
        for part in (None, [7, 2])
    )
    np.testing.assert_allclose(some.effect, every.effect[[7, 2]], rtol=1e-6, atol=1e-9)
    assert some.ids.tolist() == every.ids[[7, 2]].tolist()


def test_a_projection_of_the_jacobian_keeps_large_effects():
    train, val = samples(60, 3), samples(20, 3, m_seed=1)
    torch.manual_seed(0)
    model, given = tanh_network(32), {"measure": "margin", "projection": 64}
    whole = influence(model, train, val, measure="margin", curvature="whole").effect
    drawn = [influence(model, train, val, seed=s, **given).effect for s in (0, 1)]
    assert not np.allclose(*drawn)
    for effect in drawn:
        assert np.corrcoef(effect.ravel(), whole.ravel())[0, 1] > 0.8
    both = influence([model, model], train, val, **given).effect
    np.testing.assert_allclose(both, np.mean(drawn, 0))  # each model draws its own


def test_the_leverage_says_when_it_reaches_too_far():
    """Random weights are far from a minimum; a trained model with its decay is not."""
    train, val = samples(20, 3), samples(6, 3, m_seed=1)
    torch.manual_seed(0)
    model = tanh_network(8)
    far = influence(model, train, val, response="leave_one_out", damping=1e-5)
    assert "further than a linear model of the network can be trusted" in far.warnings[0]
    near = run(fitted(train, outputs=3), train, val, method="auto", response="leave_one_out")
    assert near.warnings == ()
    first = influence(model, train, val, damping=1e-5)
    assert "read them as an order, not as sizes" in first.warnings[0]
    assert np.abs(near.self_influence).min() > 0


def test_criteria_of_torch_are_the_losses_they_are_or_told_apart():
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3), np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    data = (x, np.arange(20) % 3)
    by_name, by_torch = (
        influence(model, data, method="exact", loss=loss).effect
        for loss in ("cross_entropy", nn.CrossEntropyLoss())
    )
    np.testing.assert_array_equal(by_name, by_torch)
    with pytest.raises(SettingError, match="loss must be cross_entropy or mse"):
        smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
        influence(model, data, method="exact", loss=smooth)
    with pytest.raises(SettingError, match="half the squared error"):
        influence(nn.Linear(4, 1), (x, x[:, 0]), method="exact", loss=nn.MSELoss())


def test_effects_on_a_loss_are_its_slope_times_the_change_of_the_outputs():
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    data, new = (x, x[:, 0] * 2), (x[:5] + 1, x[:5, 1])
    of = {m: influence(model, data, new, method="exact", measure=m) for m in ("output", "loss")}
    residual = of["output"].outcome - new[1]
    np.testing.assert_allclose(of["loss"].effect, of["output"].effect * residual, rtol=1e-9)
