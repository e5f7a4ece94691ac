"""Optimisers' states: the step that was made, whose each tensor is, and what is refused."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from datassay.collect.gradients.blocks import blocks_of, chosen_parameters
from datassay.errors import ModelError, SettingError
from datassay.score.influence.optimizer_state import update_of


def network(width=5):
    torch.manual_seed(0)
    layers = [nn.Linear(4, width), nn.LayerNorm(width), nn.Tanh(), nn.Linear(width, 3)]
    return nn.Sequential(*layers).double()


def trained(model, optimizer, steps=3):
    """Takes steps; the last one, [gradient, before, after] of each weight."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        x = torch.randn(8, 4, generator=generator).double()
        optimizer.zero_grad()
        cross_entropy(model(x), torch.arange(8) % 3).backward()
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        optimizer.step()
    return {n: (p.grad, before[n], p.detach()) for n, p in model.named_parameters()}


def groups(model):
    """As the Trainer makes them: what decays first."""
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) == one] for one in (1, 0))
    return [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]


FIRST = {"lr": 0.01, "betas": (0.0, 0.99)}  # no momentum: a step shows D and λ
ADAM = {
    "AdamW": lambda m: torch.optim.AdamW(m.parameters(), weight_decay=0.1, **FIRST),
    "AMSGrad": lambda m: torch.optim.AdamW(m.parameters(), amsgrad=True, **FIRST),
    "groups": lambda m: torch.optim.AdamW(groups(m), **FIRST),
    "named": lambda m: torch.optim.AdamW(reversed(list(m.named_parameters())), **FIRST),
    "a penalty": lambda m: torch.optim.Adam(m.parameters(), weight_decay=0.1, **FIRST),
    "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.01, weight_decay=0.1),
    "rates": lambda m: torch.optim.SGD([
        {"params": m[0].parameters()},
        {"params": [*m[1].parameters(), *m[3].parameters()], "lr": 0.001},
    ], lr=0.01),
}  # fmt: skip


@pytest.mark.parametrize("kind", ADAM)
def test_the_update_is_the_step_that_was_made(kind, tmp_path):
    model = network()
    optimizer = ADAM[kind](model)
    taken = trained(model, optimizer)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    result = update_of(tmp_path, model)
    for name, (gradient, before, after) in taken.items():
        step = result.step_sizes[name] * gradient + result.decay[name] * before
        torch.testing.assert_close(before - result.lr * step, after, rtol=1e-5, atol=1e-8)
    assert result.name == ("gradient descent" if kind in {"SGD", "rates"} else "Adam")


def test_momentum_adds_up_and_weights_without_a_gradient_do_not_move():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8, weight_decay=0.01)
    trained(model, optimizer)
    result = update_of(optimizer, model)
    torch.testing.assert_close(result.step_sizes["0.weight"], torch.full((5, 4), 5.0))
    torch.testing.assert_close(result.decay["0.bias"], torch.full((5,), 0.05))
    model.unused = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    trained(nn.Sequential(*model[:4]), optimizer)
    assert not update_of(optimizer, model).step_sizes["unused.weight"].any()


def test_a_state_inside_a_checkpoint_and_of_some_weights(tmp_path):
    model = network()
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    trained(model, optimizer)
    torch.save({"model": {}, "optimizer": optimizer.state_dict()}, tmp_path / "all.pt")
    result = update_of(tmp_path / "all.pt", model)
    assert set(result.step_sizes) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    first, _, last = blocks_of(model, chosen_parameters(model, "*"))
    metric = result.of_block(last, penalty=2.0)
    torch.testing.assert_close(metric.steps[:, -1], result.step_sizes["3.bias"].double())
    torch.testing.assert_close(metric.decay, 0.01 + 2 * metric.steps)
    with pytest.raises(SettingError, match=r"0\.weight is not among those that it trained"):
        result.of_block(first)


def two_groups_alike():
    """Two layers of one shape, dealt to two groups: nothing tells them apart."""
    model = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    each = [[model[1].weight], [model[0].weight, model[2].weight]]
    return torch.optim.SGD([{"params": p} for p in each], lr=0.1, momentum=0.9), network()


def state_of(make, model=None):
    model = model or network()
    optimizer = make(model)
    trained(model, optimizer)
    return optimizer.state_dict()


def not_finite():
    state = state_of(ADAM["AdamW"])
    state["state"][0]["exp_avg_sq"][0, 0] = torch.nan
    return state


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: state_of(ADAM["AdamW"], network(6)), "must be of this network's weights"),
        (lambda: state_of(ADAM["groups"], network(6)), "must be of this network's weights"),
        (lambda: two_groups_alike()[0], "must be of this network's weights"),
        (not_finite, "with finite second moments"),
        (lambda: state_of(lambda m: torch.optim.Adagrad(m.parameters())), "must be Adam, AdamW or"),
        (lambda: {"state": {}}, "must be the state of an optimiser"),
        (lambda: 3, "must be the state of an optimiser.*; got int"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(SettingError, match=message):
        update_of(given(), network())


def test_nothing_is_unpickled(tmp_path):
    torch.save({"state": network(), "param_groups": [1]}, tmp_path / "optimizer.pt")
    with pytest.raises(ModelError, match="holds more than tensors"):
        update_of(tmp_path, network())
    (tmp_path / "optimizer.pt").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="damaged"):
        update_of(tmp_path, network())
