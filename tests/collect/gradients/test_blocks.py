"""Which weights form a block, and which are chosen by name."""

import pytest
from torch import nn

from datassay.collect.gradients.blocks import blocks_of, chosen_parameters
from datassay.errors import ModelError, SettingError
from helpers.per_sample import Adapter


def model():
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3))


def test_a_block_is_a_layer_with_its_bias():
    net = model()
    result = blocks_of(net, chosen_parameters(net, None))
    assert [(b.name, b.shape) for b in result] == [("0", (4, 19)), ("1", (4, 2)), ("3", (3, 5))]
    assert all(b.has_bias for b in result)
    assert sum(b.size for b in result) == sum(p.numel() for p in net.parameters())


def test_tensors_that_must_be_differentiated_directly_stand_alone():
    net = model()
    result = blocks_of(net, chosen_parameters(net, None), frozenset({"0.weight", "3.bias"}))
    names = {b.name: (b.shape, bool(b.layers)) for b in result}
    assert names == {
        "0.weight": ((4, 18), False),
        "0.bias": ((4, 1), False),
        "1": ((4, 2), True),
        "3": ((3, 4), True),
        "3.bias": ((3, 1), False),
    }


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["lora_a.weight", "lora_b.weight"]),
        ("base", ["base.weight", "base.bias"]),
        ("*_a*", ["lora_a.weight"]),
        (["lora_b", "base.b?as"], ["base.bias", "lora_b.weight"]),
        ("lora_[ab].weight", ["lora_a.weight", "lora_b.weight"]),
    ],
)
def test_names(pattern, names):
    assert list(chosen_parameters(Adapter(nn.Linear(5, 3)), pattern)) == names


def test_what_is_refused():
    with pytest.raises(
        SettingError, match=r"none has 'lora_c'\. The model has base.weight, base.b"
    ):
        chosen_parameters(Adapter(nn.Linear(5, 3)), "lora_c")
    with pytest.raises(ModelError, match="every one is frozen, or there is none"):
        chosen_parameters(nn.Linear(2, 2).requires_grad_(False), None)
