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
from datassay.score.influence.trained_network import apply_temperature
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


def measured(name, y, chosen):
    """A measure by its definition, of outputs."""
    if name == "loss":
        return lambda f: losses(f, y)

    def of(f):
        own = f.gather(1, (chosen if name == "output" else y)[:, None])[:, 0]
        others = f.masked_fill(nn.functional.one_hot(y, K).bool(), -torch.inf).logsumexp(1)
        return own if name == "output" else own - others

    return of


def assert_close(ours, truth):
    truth = truth.detach().numpy()
    assert np.abs(ours - truth).max() < 1e-10 * np.abs(truth).max()


SOFT = ", temperature 2 (1 of self-influence)"
# settings, the same in the definition, which weights, and what the method's name adds
CASES = [
    ({"weight_decay": 0.02, "curvature": "blocks"}, {"weight_decay": 0.02}, 0, ", damping 0.1"),
    ({"damping": 1.0}, {"damping": 1.0}, 0, ", damping 1"),
    ({"parameters": "2."}, {}, 1, ", damping 0.1"),
    ({"temperature": 2.0}, {"temperature": 2.0}, 0, ", damping 0.1, temperature 2"),
    # Of blocks that are exact, with fewer than 1000 samples.
    ({"temperature": "auto", "damping": "auto"},
     {"temperature": 2.0, "own_temperature": 1.0, "damping": 1000 / N}, 0, SOFT),
]  # fmt: skip


@pytest.mark.parametrize("measure", ["output", "margin", "loss"])
@pytest.mark.parametrize(("settings", "definition", "first", "words"), CASES)
def test_effects_are_the_definition_by_blocks(measure, settings, definition, first, words):
    # Of values a loss has no temperature.
    model, values = network(), measure == "loss" and "temperature" not in settings
    train, queries = data(N, values=values), data(M, 1, values=values)
    function = measured(measure, queries[1], model(queries[0]).argmax(1))
    truth, own = effects(model, LAYERS[first:], train, queries, function, **definition)
    # Batches of another size than the passes, and arrays.
    loaders = (DataLoader(TensorDataset(*p), 7, shuffle=True) for p in (train, queries))
    for pair in ((arrays(train), arrays(queries)), loaders):
        findings = run(model, *pair, measure=measure, **settings)
        assert_close(findings.effect, truth)
        assert_close(findings.self_influence, own)
        assert_close(findings.outcome, function(model(queries[0])))
        np.testing.assert_allclose(findings.total, findings.effect.sum(1), rtol=1e-12)
        assert findings.method == f"gauss_newton by blocks{words}"


@pytest.mark.parametrize("temperature", [1.0, "auto"])
def test_a_tensor_without_a_layer_is_a_block(temperature):
    train, queries, soft = data(N), data(M, 1), temperature == "auto"
    findings = run(
        Scaled(), arrays(train), arrays(queries), measure="margin", temperature=temperature
    )
    blocks = [["scale"], *[[f"inner.{name}" for name in names] for names in LAYERS]]
    truth, own = effects(
        Scaled(), blocks, train, queries, measured("margin", queries[1], None),
        temperature=2.0 if soft else 1.0, own_temperature=1.0,
    )  # fmt: skip
    assert_close(findings.effect, truth)
    assert_close(findings.self_influence, own)


def of_first(model, batch):
    return model(batch[0])[:, 0]


def self_influence_loss(model, batch):
    return losses(model(batch[0]), batch[1])


several = data(N)[0], (data(N, 3)[0][:, :K] > 0).double()


@pytest.mark.parametrize(
    ("train", "settings", "words", "reported"),
    [
        (data(N), {}, SOFT, False),
        (data(N), {"temperature": 3.0}, ", temperature 3", False),
        (data(N), {"temperature": 1.0}, "", False),
        (data(N), {"loss": self_influence_loss}, "", False),
        (data(N), {"loss": self_influence_loss, "temperature": 3.0}, "", True),
        (data(N, values=True), {}, "", False),
        (data(N, values=True), {"temperature": 3.0}, "", True),
        (data(N), {"loss": nn.MSELoss()}, "", False),
        (several, {"loss": "bce"}, SOFT, False),
        (several, {"loss": nn.BCEWithLogitsLoss(), "temperature": 3.0}, ", temperature 3", False),
    ],
)
def test_a_temperature_is_named_where_it_was_applied(train, settings, words, reported):
    settings = {"temperature": "auto", "measure": "loss", "curvature": "blocks", **settings}
    findings = run(network(), arrays(train), None, **settings)
    assert findings.method == f"gauss_newton by blocks, damping 0.1{words}"
    plain = run(network(), arrays(train), None, **{**settings, "temperature": 1.0})
    changed = np.abs(findings.effect - plain.effect).max() > 1e-3 * np.abs(plain.effect).max()
    assert changed == bool(words)
    assert reported == any("was not applied" in w for w in findings.warnings)
    own = findings.self_influence != pytest.approx(plain.self_influence, rel=1e-6)
    assert own == bool(words)  # the Hessian is softened too


def test_next_tokens_are_not_softened_unless_told():
    for loss, chosen, temperature in (
        ("cross_entropy", "auto", 2), ("next_token", "auto", 1), ("next_token", 3, 3)
    ):  # fmt: skip
        assert apply_temperature(Objective(loss), chosen).temperature == temperature


@settings(max_examples=8, deadline=None)
@given(u=st.floats(0.1, 10), t=st.floats(0.1, 10))
def test_units(u, t):
    """Inputs × u beside weights / u, and losses × t, leave effects on outputs as they are."""
    model, train, queries = network(bias=False), arrays(data(N)), arrays(data(M, 1))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.div_(u)
    before = run(model, train, queries, loss=self_influence_loss, measure=of_first)
    scaled = [(u * x, y) for x, y in (train, queries)]
    after = run(other, *scaled, loss=lambda m, b: t * self_influence_loss(m, b), measure=of_first)
    # Of a custom loss the curvature is Σ ∇ℓ ∇ℓᵀ: t² against t of the gradient.
    np.testing.assert_allclose(t * after.effect, before.effect, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
def test_tokens_are_columns_of_their_own(curvature):
    given = (network(), arrays(data(N)), arrays(data(M, 1)))
    findings = run(*given, measure=lambda m, b: m(b[0]).square()[:, :2], curvature=curvature)
    assert findings.effect.shape == (N, 2 * M)
    for t in range(2):
        one = run(*given, measure=lambda m, b, t=t: m(b[0]).square()[:, t], curvature=curvature)
        np.testing.assert_allclose(findings.effect[:, t::2], one.effect, rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(findings.outcome[t::2], one.outcome)


def test_several_models_are_averaged():
    models, train, queries = [network(s) for s in range(3)], data(N), data(40, 1)
    pair = arrays(train), arrays(queries)
    both = run(models, *pair, measure="margin")
    each = [run(m, *pair, measure="margin") for m in models]
    for name in ("effect", "outcome", "self_influence", "total"):
        mean = np.mean([getattr(e, name) for e in each], 0)
        np.testing.assert_allclose(getattr(both, name), mean, rtol=1e-12, atol=1e-16)
    # The predicted class is that of their mean.
    chosen = torch.stack([m(queries[0]) for m in models]).mean(0).argmax(1)
    assert any((m(queries[0]).argmax(1) != chosen).any() for m in models)
    function = measured("output", queries[1], chosen)
    truth = [effects(m, LAYERS, train, queries, function)[0] for m in models]
    assert_close(run(models, *pair).effect, sum(truth) / 3)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(zip(*data(N), strict=True))


def test_some_samples_the_largest_effects_a_stream_and_float32():
    model, train, queries = network(), arrays(data(N)), arrays(data(M, 1))
    whole = run(model, train, queries, measure="margin", device="cpu")
    for held in (train, Stream()):
        some = run(model, held, queries, measure="margin", removed=[7, 3, 11])
        np.testing.assert_allclose(some.effect, whole.effect[[7, 3, 11]], rtol=1e-9, atol=1e-16)
        assert some.ids.tolist() == [7, 3, 11]
    few = run(model, train, queries, measure="margin", top=4)
    assert few.effect is None and few.top.raising.shape == (M, 4)
    order = np.argsort(-whole.effect, 0)[:4].T
    np.testing.assert_array_equal(few.top.raising, order)
    values = np.take_along_axis(whole.effect.T, order, 1)
    np.testing.assert_allclose(few.top.raising_effect, values, rtol=1e-12)
    single = run(model, train, queries, measure="margin", precision="float32")
    error = np.abs(single.effect - whole.effect).max() / np.abs(whole.effect).max()
    assert 1e-12 < error < 1e-4


@pytest.mark.parametrize("top", [None, 4])
@pytest.mark.parametrize("own", [False, True])
def test_queries_in_groups_give_the_same(monkeypatch, top, own):
    model, loader = network(), DataLoader(TensorDataset(*data(N)), 4)
    queries = None if own else DataLoader(TensorDataset(*data(9, 1)), 2)
    before = run(model, loader, queries, top=top)
    size = sum(p.numel() for p in model.parameters())
    monkeypatch.setattr(gradient_methods, "QUERY_VALUES", 5 * size)
    after = run(model, loader, queries, top=top)
    assert (before.effect is None) == (top is not None)
    for name in ("effect", "total", "outcome", "self_influence"):
        ours, oracle = getattr(after, name), getattr(before, name)
        if oracle is not None:
            np.testing.assert_allclose(ours, oracle, rtol=1e-10, atol=1e-16)
    np.testing.assert_array_equal(after.top.raising, before.top.raising)
    np.testing.assert_array_equal(after.top.lowering, before.top.lowering)


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
        ({"measure": lambda m, b: m(b[0]).sum()}, r"measure must give \[b\], one value per query"),
        ({"parameters": "lora_"}, "parameters must be part of a parameter's name; none has"),
        ({"damping": 0.0}, "damping must make every block's Hessian positive definite"),
        ({"top": 0}, "top must be at least 1"),
        ({"temperature": 0.0}, "finite, or 'auto'; got"),
        ({"temperature": "warm"}, "finite, or 'auto'; got"),
    ],
)
def test_what_is_refused(changes, message):
    given = {"precision": "float64", **changes}
    with pytest.raises(SettingError, match=message):
        da.influence(network(), arrays(data(N)), arrays(data(M, 1)), **given)


def test_networks_that_do_not_fit_are_refused(monkeypatch):
    other = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, K)).double()
    with pytest.raises(SettingError, match="several models must have one architecture"):
        run([network(), other], arrays(data(N)), arrays(data(M, 1)))
    with pytest.raises(ModelError, match=r"differ by 1,000,000 times their size from each alone"):
        da.influence(Centred(network().float()), TensorDataset(*data(N)), None, loss="mse")
    monkeypatch.setattr(exact_blocks, "available_memory", lambda: 1000)
    with pytest.raises(SettingError, match=r"the largest block is '0' with 25 weights\. Use curv"):
        run(network(), arrays(data(N)), arrays(data(M, 1)))


def test_a_network_that_fits_perfectly_is_no_mixture():
    """Losses next to 0 are rounding: together and alone they differ by much of themselves."""
    model = network().float()
    x = data(N)[0].float()
    train = TensorDataset(x, model(x).detach() + 1e-7 * torch.randn(N, K))
    for loss in ("mse", lambda m, batch: (m(batch[0]) - batch[1]).square().mean(1)):
        attribution = da.influence(model, train, train, loss=loss, measure="loss")
        assert np.isfinite(attribution.effect).all()


class Centred(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        f = self.inner(x)
        return f - f.mean(0) if len(f) > 1 else 0 * f


class Last(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).flatten(2).transpose(1, 2)


@pytest.mark.parametrize("loss", ["auto", nn.CrossEntropyLoss()])
def test_segmentation_and_tagging_by_place(loss):
    """Classes at the second axis, as torch has them, or at the last: each position counts."""
    torch.manual_seed(0)
    inner, x = nn.Conv2d(1, K, 1).double(), torch.randn(12, 1, 2, 2).double()
    y = torch.randint(0, K, (12, 2, 2))

    def one(m, batch):
        return nn.functional.cross_entropy(m(batch[0]), batch[1], reduction="none").sum((1, 2))

    own = run(inner, TensorDataset(x, y), None, loss=one)
    for model, labels, chosen in (
        (inner, y, loss),
        (nn.Sequential(Last(inner)), y.flatten(1), "auto"),
    ):
        findings = run(model, (x.numpy(), labels.numpy()), None, loss=chosen, measure="loss")
        np.testing.assert_allclose(findings.outcome, own.outcome, rtol=1e-12)
        assert findings.effect.shape == (12, 12)


def test_what_a_dataset_raises_as_arrays_are_read():
    class Broken(TensorDataset):
        def __getitem__(self, i):
            if i == 5:
                raise OSError("file gone")
            return super().__getitem__(i)

    with pytest.raises(DataError, match=r"item 5 raised OSError: file gone\. Correct it"):
        run(network(), Broken(*data(N)), None)
