"""Per-sample Jacobians against torch.func.jacrev of the whole parameter dictionary."""

import copy

import pytest
import torch
from torch import nn

from datassay.collect.jacobian.blocks import ConvolutionFactors
from datassay.collect.jacobian.per_sample import (
    factored_jacobian,
    frozen_copy,
    inspect_layers,
    jacobian,
)
from helpers.jacobians import CASES, full, made, oracle
from helpers.made_of import MadeOf


# torch.func says so where it loops over the samples for want of a rule: attention, weight norm.
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("case", CASES)
def test_equals_jacrev_of_all_parameters(case):
    model, x = made(case)
    layers = inspect_layers(model, x[:1])
    outputs, blocks = jacobian(model, layers, x)
    expected_outputs, expected = oracle(model, x)
    ours = full(blocks)
    torch.testing.assert_close(outputs, expected_outputs, rtol=0, atol=1e-12)
    assert ours.keys() == expected.keys()
    for name, block in expected.items():
        torch.testing.assert_close(ours[name].detach(), block, rtol=0, atol=1e-12)
    assert layers.n_parameters == sum(b.shape[2] for b in expected.values())
    assert layers.n_outputs == outputs.shape[1]


@pytest.mark.parametrize(
    ("case", "dense"),
    [
        ("mlp", ["1", "3"]), ("cnn", ["10", "12"]), ("bare linear", [""]), ("no bias", ["0", "1"]),
        ("used twice", ["head"]), ("shared weight", []), ("tied functionally", ["out"]),
        ("unused layer", ["used"]), ("frozen weight", ["3"]), ("frozen bias", ["3"]),
        ("sequence", []), ("flattened tokens", ["head"]), ("weight norm", ["2"]), ("pruned", ["2"]),
        ("called otherwise", ["head", "middle"]),  # the model's order, not that of the calls
    ],
)  # fmt: skip
def test_a_layer_is_factored_only_where_its_jacobian_factors(case, dense):
    model, x = made(case)
    assert list(inspect_layers(model, x[:1]).dense) == dense


@pytest.mark.parametrize("case", ["mlp", "batch norm", "dropout", "frozen layer"])
def test_the_model_is_left_untouched(case):
    factory, shape = CASES[case]
    torch.manual_seed(0)
    model = factory().train()
    before = copy.deepcopy(model.state_dict())
    trains = [p.requires_grad for p in model.parameters()]
    copied = frozen_copy(model, torch.float32)
    x = torch.randn(3, *shape)
    kept = x.clone()
    jacobian(copied, inspect_layers(copied, x[:1]), x)
    for one in (model, copied):
        after = one.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert [p.requires_grad for p in one.parameters()] == trains
        assert all(p.grad is None for p in one.parameters())
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in one.modules())
    assert all(m.training for m in model.modules())
    assert torch.equal(x, kept)


def test_a_dense_layers_input_changed_in_place_afterwards():
    def doubling(double):
        def call(net, x):
            hidden = net.first(x)
            return net.second(hidden) + double(hidden)

        torch.manual_seed(0)
        return MadeOf(call, first=nn.Linear(5, 4), second=nn.Linear(4, 4)).double()

    models = doubling(lambda hidden: hidden.mul_(2)), doubling(lambda hidden: hidden * 2)
    x = torch.randn(3, 5, dtype=torch.float64)
    layers = inspect_layers(models[0], x[:1])
    assert layers.dense.keys() == {"first", "second"}
    ours, expected = full(jacobian(models[0], layers, x)[1]), oracle(models[1], x)[1]
    for name, block in expected.items():
        torch.testing.assert_close(ours[name], block, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("case", "result"),
    [
        ("cnn", {"1", "3", "5", "7"}), ("lenet5", {"1", "4"}), ("strided", {"0"}),
        ("convolution without bias", {"0"}), ("hooked convolution", {"0"}), ("groups", set()),
        ("circular", set()), ("padded to the same size", set()), ("called otherwise", set()),
        ("several images per sample", set()), ("bare convolution", set()),
    ],
)  # fmt: skip
def test_a_convolution_is_factored_only_where_patches_are_what_it_sees(case, result):
    model, x = made(case)
    layers = inspect_layers(model, x[:1])
    assert layers.convolutions.keys() == result
    _, blocks = factored_jacobian(model, layers, x)
    factors = {n for n, block in blocks.items() if isinstance(block, ConvolutionFactors)}
    assert factors == {f"{name}.weight" for name in result}
    assert list(blocks) == [*layers.direct, *layers.dense]


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), "2"),
        (nn.Sequential(nn.Linear(5, 3), nn.Softmax(1)), ""),
        # Changes what its head gave, which is then no longer the network's output.
        (MadeOf(lambda net, x: net.head(x).mul_(2), head=nn.Linear(5, 3)), ""),
    ],
)
def test_the_last_layer_costs_no_product(model, last):
    # 1000 classes took 2000 products of the identity and its weight, 35 of 50 seconds.
    x = torch.randn(6, 5)
    layers = inspect_layers(model, x[:1])
    assert layers.last_layer == last
    _, blocks = jacobian(model, layers, x)
    if last:
        gradients = blocks[last].gradients
        assert gradients.stride(0) == 0, "one identity, held once"
        assert torch.equal(gradients[0], torch.eye(3))
