"""Influence from gradients alone: against the definition by blocks, in its units, and its parts."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import datassay as da
from datassay.collect.gradients.objective import Objective
from datassay.errors import DataError, ModelError, SettingError
from datassay.score.influence import exact_blocks, gradient_methods
from datassay.score.influence.trained_network import softened
from helpers.by_block import effects, losses

N, M, K = 24, 5, 3
LAYERS = [["0.weight", "0.bias"], ["2.weight", "2.bias"]]


def network(seed=0, bias=True):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5, bias=bias), nn.Tanh(), nn.Linear(5, K, bias=bias)).double()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.ones(4).double() * 0.7), network()

    def forward(self, x):
        return self.inner(x * self.scale)


def data(n, seed=0, values=False):
    torch.manual_seed(100 + seed)
    x = torch.randn(n, 4).double()
    return (x, torch.randn(n, K).double()) if values else (x, torch.arange(n) % K)


def arrays(pair):
    return tuple(t.numpy() for t in pair)


def run(model, train, queries, **kwargs):
    plain = {"precision": "float64", "temperature": 1.0, "damping": 0.1}
    return da.influence(model, train, queries, **{**plain, **kwargs})


def margin(y):
    def of(f):
        given = f.gather(1, y[:, None])[:, 0]
        mask = torch.nn.functional.one_hot(y, K).bool()
        return given - f.masked_fill(mask, -torch.inf).logsumexp(1)

    return of


def output(model, x):
    chosen = model(x).argmax(1)
    return lambda f: f.gather(1, chosen[:, None])[:, 0]


def assert_close(ours, truth):
    truth = truth.detach().numpy()
    assert np.abs(ours - truth).max() < 1e-10 * np.abs(truth).max()


@pytest.mark.parametrize("measure", ["output", "margin", "loss"])
@pytest.mark.parametrize("how", ["arrays", "loader"])
def test_effects_are_the_definition_by_blocks(measure, how):
    model, train, queries = network(), data(N), data(M, 1)
    function = {
        "output": output(model, queries[0]),
        "margin": margin(queries[1]),
        "loss": lambda f: losses(f, queries[1]),
    }[measure]
    truth, own = effects(model, LAYERS, train, queries, function, weight_decay=0.02)
    if how == "arrays":
        pair = arrays(train), arrays(queries)
    else:  # batches of another size than the passes
        pair = tuple(DataLoader(TensorDataset(*p), 7, shuffle=True) for p in (train, queries))
    found = run(model, *pair, measure=measure, weight_decay=0.02, curvature="blocks")
    assert_close(found.effect, truth)
    assert_close(found.self_influence, own)
    assert_close(found.outcome, function(model(queries[0])))
    np.testing.assert_allclose(found.total, found.effect.sum(1), rtol=1e-12)
    assert found.method == "gauss_newton by blocks, damping 0.1"


@pytest.mark.parametrize("damping", [0.01, 1.0])
def test_values_and_another_damping(damping):
    model, train, queries = network(), data(N, values=True), data(M, 1, values=True)
    truth, _ = effects(
        model, LAYERS, train, queries, lambda f: losses(f, queries[1]), damping=damping
    )
    found = run(model, arrays(train), arrays(queries), measure="loss", damping=damping)
    assert_close(found.effect, truth)


@pytest.mark.parametrize(
    ("given", "own_temperature", "words"),
    [
        ({}, 1.0, "temperature 2 (1 of self-influence)"),
        ({"temperature": 2.0}, 2.0, "temperature 2"),
    ],
)
def test_a_temperature_softens_the_training_loss_and_self_influence_has_its_own(
    given, own_temperature, words
):
    model, train, queries = network(), data(N), data(M, 1)
    loss = lambda f: losses(f, queries[1])  # noqa: E731
    damping = 1000 / N  # of blocks that are exact, with fewer than 1000 samples
    truth, own = effects(
        model, LAYERS, train, queries, loss,
        damping=damping, temperature=2.0, own_temperature=own_temperature,
    )  # fmt: skip
    found = da.influence(  # otherwise the defaults
        model, arrays(train), arrays(queries), measure="loss", precision="float64", **given
    )
    assert_close(found.effect, truth)
    assert_close(found.self_influence, own)
    assert found.method == f"gauss_newton by blocks, {words}"


def test_a_tensor_without_a_layer_has_the_temperature_of_self_influence_too():
    train, queries = data(N), data(M, 1)
    found, hot = (
        run(Scaled(), arrays(train), arrays(queries), **given)
        for given in ({"temperature": "auto"}, {"temperature": 2.0})
    )
    blocks = [["scale"], *[[f"inner.{name}" for name in names] for names in LAYERS]]
    _, own = effects(
        Scaled(), blocks, train, queries, margin(queries[1]), temperature=2.0, own_temperature=1.0
    )
    assert_close(found.self_influence, own)
    np.testing.assert_array_equal(found.effect, hot.effect)


def own_loss(model, batch):
    return losses(model(batch[0]), batch[1])


several = data(N)[0], (data(N, 3)[0][:, :K] > 0).double()


@pytest.mark.parametrize(
    ("train", "settings", "words", "told"),
    [
        (data(N), {}, ", temperature 2 (1 of self-influence)", False),
        (data(N), {"temperature": 3.0}, ", temperature 3", False),
        (data(N), {"temperature": 1.0}, "", False),
        (data(N), {"loss": own_loss}, "", False),
        (data(N), {"loss": own_loss, "temperature": 3.0}, "", True),
        (data(N, values=True), {}, "", False),
        (data(N, values=True), {"temperature": 3.0}, "", True),
        (data(N), {"loss": nn.MSELoss()}, "", False),
        (several, {"loss": "bce"}, ", temperature 2 (1 of self-influence)", False),
        (several, {"loss": nn.BCEWithLogitsLoss(), "temperature": 3.0}, ", temperature 3", False),
    ],
)
def test_a_temperature_is_named_where_it_was_applied(train, settings, words, told):
    settings = {"temperature": "auto", "measure": "loss", "curvature": "blocks", **settings}
    found = run(network(), arrays(train), None, **settings)
    assert found.method == f"gauss_newton by blocks, damping 0.1{words}"
    plain = run(network(), arrays(train), None, **{**settings, "temperature": 1.0})
    changed = np.abs(found.effect - plain.effect).max() > 1e-3 * np.abs(plain.effect).max()
    assert changed == bool(words)
    assert told == any("was not applied" in w for w in found.warnings)
    own = found.self_influence != pytest.approx(plain.self_influence, rel=1e-6)
    assert own == bool(words)  # the Hessian is softened too


def test_a_temperature_is_positive():
    for wrong in (0.0, "warm"):
        with pytest.raises(SettingError, match="finite, or 'auto'; got"):
            run(network(), arrays(data(N)), None, temperature=wrong)


def test_next_tokens_are_not_softened_unless_told():
    assert softened(Objective("cross_entropy"), "auto").temperature == 2
    assert softened(Objective("next_token"), "auto").temperature == 1
    assert softened(Objective("next_token"), 3).temperature == 3


def test_some_weights_alone():
    model, train, queries = network(), data(N), data(M, 1)
    truth, _ = effects(model, LAYERS[1:], train, queries, margin(queries[1]))
    found = run(model, arrays(train), arrays(queries), measure="margin", parameters="2.")
    assert_close(found.effect, truth)


def test_a_tensor_without_a_layer_is_a_block():
    model, train, queries = Scaled(), data(N), data(M, 1)
    blocks = [["scale"], *[[f"inner.{name}" for name in names] for names in LAYERS]]
    truth, _ = effects(model, blocks, train, queries, margin(queries[1]))
    found = run(model, arrays(train), arrays(queries), measure="margin", curvature="blocks")
    assert_close(found.effect, truth)


@settings(max_examples=8, deadline=None)
@given(u=st.floats(0.1, 10), t=st.floats(0.1, 10))
def test_units(u, t):
    """Inputs × u beside weights / u, and losses × t, leave effects on outputs as they are."""
    model, train, queries = network(bias=False), data(N), data(M, 1)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.div_(u)

    def loss(m, b):
        return losses(m(b[0]), b[1])

    before = run(model, arrays(train), arrays(queries), loss=loss, measure=of_first)
    after = run(
        other,
        (u * train[0].numpy(), train[1].numpy()),
        (u * queries[0].numpy(), queries[1].numpy()),
        loss=lambda m, b: t * loss(m, b),
        measure=of_first,
    )
    # Of a custom loss the curvature is Σ ∇ℓ ∇ℓᵀ: t² against t of the gradient.
    np.testing.assert_allclose(t * after.effect, before.effect, rtol=1e-8, atol=1e-14)


def of_first(model, batch):
    return model(batch[0])[:, 0]


def test_units_of_a_criterion_and_of_copies():
    """nn.MSELoss is 2/k of ours: the same effects. Each sample twice: half the effect of one."""
    model, train, queries = network(), data(N, values=True), arrays(data(M, 1, values=True))
    ours = run(model, arrays(train), queries, measure=of_first)
    theirs = run(model, arrays(train), queries, measure=of_first, loss=nn.MSELoss())
    np.testing.assert_allclose(theirs.effect, ours.effect, rtol=1e-10, atol=1e-14)
    double = tuple(np.concatenate([a, a]) for a in arrays(train))
    both = run(model, double, queries, measure=of_first)
    np.testing.assert_allclose(both.effect[:N], ours.effect / 2, rtol=1e-9, atol=1e-14)


def test_units_of_steps():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    one = run(model, train, queries, method="tracin")
    ten = run(model, train, queries, method="tracin", lr=10.0)
    np.testing.assert_allclose(ten.effect, 10 * one.effect, rtol=1e-12)
    twice = run(model, train, queries, method="tracin", checkpoints=[model, model], lr=[2.0, 3.0])
    np.testing.assert_allclose(twice.effect, 5 * one.effect, rtol=1e-12)


@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
def test_tokens_are_columns_of_their_own(curvature):
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))

    def each(m, b):
        return m(b[0]).square()[:, :2]

    def alone(t):
        return lambda m, b: m(b[0]).square()[:, t]

    found = run(model, train, queries, measure=each, curvature=curvature)
    assert found.effect.shape == (N, 2 * M)
    for t in range(2):
        one = run(model, train, queries, measure=alone(t), curvature=curvature)
        np.testing.assert_allclose(found.effect[:, t::2], one.effect, rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(found.outcome[t::2], one.outcome)


def test_several_models_are_averaged():
    models, train, queries = [network(s) for s in range(3)], arrays(data(N)), arrays(data(M, 1))
    both = run(models, train, queries, measure="margin")
    each = [run(m, train, queries, measure="margin") for m in models]
    for name in ("effect", "outcome", "self_influence", "total"):
        mean = np.mean([getattr(e, name) for e in each], 0)
        np.testing.assert_allclose(getattr(both, name), mean, rtol=1e-12, atol=1e-16)


def test_the_predicted_class_of_several_models_is_that_of_their_mean():
    models, train, queries = [network(s) for s in range(3)], data(N), data(40, 1)
    x = queries[0]
    chosen = torch.stack([m(x) for m in models]).mean(0).argmax(1)
    assert any((m(x).argmax(1) != chosen).any() for m in models)
    found = run(models, arrays(train), arrays(queries))
    each = [
        effects(m, LAYERS, train, queries, lambda f: f.gather(1, chosen[:, None])[:, 0])[0]
        for m in models
    ]
    assert_close(found.effect, sum(each) / 3)


def test_some_samples_and_the_largest_effects():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    whole = run(model, train, queries, measure="margin")
    some = run(model, train, queries, measure="margin", removed=[7, 3, 11])
    np.testing.assert_allclose(some.effect, whole.effect[[7, 3, 11]], rtol=1e-10, atol=1e-16)
    assert some.ids.tolist() == [7, 3, 11]
    few = run(model, train, queries, measure="margin", top=4)
    assert few.effect is None and few.top.raising.shape == (M, 4)
    order = np.argsort(-whole.effect, 0)[:4].T
    np.testing.assert_array_equal(few.top.raising, order)
    np.testing.assert_allclose(
        few.top.raising_effect, np.take_along_axis(whole.effect.T, order, 1), rtol=1e-12
    )


@pytest.mark.parametrize("top", [None, 4])
@pytest.mark.parametrize("own", [False, True])
def test_queries_in_groups_give_the_same(monkeypatch, top, own):
    model, train = network(), data(N)
    loader = DataLoader(TensorDataset(*train), 4)
    queries = None if own else DataLoader(TensorDataset(*data(9, 1)), 2)
    before = run(model, loader, queries, top=top)
    size = sum(p.numel() for p in model.parameters())
    monkeypatch.setattr(gradient_methods, "QUERY_VALUES", 5 * size)
    after = run(model, loader, queries, top=top)
    assert (before.effect is None) == (top is not None)
    for name in ("effect", "total", "outcome", "self_influence"):
        if getattr(before, name) is not None:
            np.testing.assert_allclose(
                getattr(after, name), getattr(before, name), rtol=1e-10, atol=1e-16
            )
    np.testing.assert_array_equal(after.top.raising, before.top.raising)
    np.testing.assert_array_equal(after.top.lowering, before.top.lowering)


def test_batches_of_another_size_give_the_same():
    model, train, queries = network(), data(N), arrays(data(M, 1))
    found = [
        run(model, DataLoader(TensorDataset(*train), size), list(zip(*data(M, 1), strict=True)))
        for size in (1, 5, N)
    ]
    whole = run(model, arrays(train), queries)
    for one in found:
        np.testing.assert_allclose(one.effect, whole.effect, rtol=1e-9, atol=1e-15)


def test_smoothing_and_a_function_of_the_same_loss_have_the_same_gradients():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def loss(m, b):
        return nn.functional.cross_entropy(m(b[0]), b[1], reduction="none", label_smoothing=0.1)

    both = [
        run(model, train, queries, loss=one, measure="loss", method="tracin")
        for one in (criterion, loss)
    ]
    np.testing.assert_allclose(both[0].effect, both[1].effect, rtol=1e-12)


def test_float32_is_close():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    exact = run(model, train, queries, measure="margin")
    single = run(model, train, queries, measure="margin", precision="float32")
    error = np.abs(single.effect - exact.effect).max() / np.abs(exact.effect).max()
    assert 1e-12 < error < 1e-4


def test_device_is_passed_on():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    given = run(model, train, queries, device="cpu")
    np.testing.assert_array_equal(given.effect, run(model, train, queries).effect)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"curvature": "diagonal"}, "curvature must be one of 'auto', 'blocks', 'ekfac', 'whole'"),
        ({"response": "second"}, "response must be one of 'first_order', 'leave_one_out'"),
        ({"precision": "half"}, "precision must be one of 'float32', 'float64'; got 'half'"),
        ({"damping": -1.0}, "damping must be at least 0 and finite; got -1.0"),
        ({"damping": "little"}, "damping must be 'auto' or a number; got 'little'"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0 and finite"),
        ({"measure": "accuracy"}, "measure must be 'output', 'margin', 'loss' or a function"),
        ({"measure": lambda m, b: m(b[0]).sum()}, r"measure must give \[b\], one value a query"),
        ({"parameters": "lora_"}, "parameters must be part of a parameter's name; none has"),
        ({"damping": 0.0}, "damping must make every block's Hessian positive definite"),
        ({"top": 0}, "top must be at least 1"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        run_any(network(), arrays(data(N)), arrays(data(M, 1)), **changes)


def run_any(model, train, queries, **changes):
    return da.influence(model, train, queries, **{"precision": "float64", **changes})


def test_a_curvature_that_does_not_fit_names_the_largest_block(monkeypatch):
    monkeypatch.setattr(exact_blocks, "available_memory", lambda: 1000)
    with pytest.raises(SettingError, match=r"the largest block is '0' with 25 weights\. Use curv"):
        run(network(), arrays(data(N)), arrays(data(M, 1)))


def test_models_of_different_sizes_are_refused():
    other = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, K)).double()
    with pytest.raises(SettingError, match="several models must have one architecture"):
        run([network(), other], arrays(data(N)), arrays(data(M, 1)))


def test_a_stream_has_positions_too():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(*data(N), strict=True))

    found = run(network(), Stream(), arrays(data(M, 1)))
    np.testing.assert_allclose(
        found.effect, run(network(), arrays(data(N)), arrays(data(M, 1))).effect, rtol=1e-9
    )
    part = run(network(), Stream(), arrays(data(M, 1)), removed=[1, 20])
    np.testing.assert_allclose(part.effect, found.effect[[1, 20]], rtol=1e-9)


def test_a_network_that_fits_perfectly_is_no_mixture():
    """Losses next to 0 are rounding: together and alone they differ by much of themselves."""
    model = network().float()
    x = data(N)[0].float()
    train = TensorDataset(x, model(x).detach() + 1e-7 * torch.randn(N, K))
    for loss in ("mse", lambda m, batch: (m(batch[0]) - batch[1]).square().mean(1)):
        found = da.influence(model, train, train, loss=loss, measure="loss")
        assert np.isfinite(found.effect).all()


class Centred(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        f = self.inner(x)
        return f - f.mean(0) if len(f) > 1 else 0 * f


def test_how_far_a_mixture_is_off_is_readable():
    with pytest.raises(ModelError, match=r"differ by 1,000,000 times their size from each alone"):
        da.influence(Centred(network().float()), TensorDataset(*data(N)), None, loss="mse")


@pytest.mark.parametrize("loss", ["auto", nn.CrossEntropyLoss()])
def test_segmentation_and_tagging_by_place(loss):
    """Classes at the second axis, as torch has them, or at the last: each place counts."""
    torch.manual_seed(0)
    inner, x = nn.Conv2d(1, K, 1).double(), torch.randn(12, 1, 2, 2).double()
    y = torch.randint(0, K, (12, 2, 2))
    one = lambda m, batch: nn.functional.cross_entropy(m(batch[0]), batch[1], reduction="none")  # noqa: E731
    total = run(inner, (x.numpy(), y.numpy()), None, loss=loss, measure="loss")
    own = run(inner, TensorDataset(x, y), None, loss=lambda m, b: one(m, b).sum((1, 2)))
    np.testing.assert_allclose(total.outcome, own.outcome, rtol=1e-12)
    assert total.effect.shape == (12, 12)
    last = nn.Sequential(Last(inner))
    found = run(last, (x.numpy(), y.flatten(1).numpy()), None, loss="auto", measure="loss")
    np.testing.assert_allclose(found.outcome, own.outcome, rtol=1e-12)


class Last(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).flatten(2).transpose(1, 2)


def test_several_targets_are_measured_by_their_loss():
    x, y = data(N, values=True)
    found = run(network(), (x.numpy(), y.numpy()), None)
    assert found.measure == "loss"
    labels = (y > 0).double()
    both = run(network(), TensorDataset(x, labels), None)
    assert both.measure == "loss"
    truth = run(network(), TensorDataset(x, labels), None, loss="bce", measure="loss")
    np.testing.assert_array_equal(both.effect, truth.effect)


def test_what_a_dataset_raises_as_arrays_are_read():
    class Broken(TensorDataset):
        def __getitem__(self, i):
            if i == 5:
                raise OSError("file gone")
            return super().__getitem__(i)

    with pytest.raises(DataError, match=r"item 5 raised OSError: file gone\. Mend it"):
        run(network(), Broken(*data(N)), None)
