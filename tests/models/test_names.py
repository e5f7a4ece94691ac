"""What a network's name stands for: the encoder that it asks for, and the head behind."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.data.samples import Encoding
from datassay.errors import ModelError
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, asked_encoder, full_name
from datassay.models.reference import is_reference

ROWS, _ = da.load((np.random.default_rng(0).normal(size=(30, 4)), np.tile(["a", "b", "c"], 10)))
EMBEDDED = replace(ROWS, encoding=Encoding("lite0", 4))
WORDS = replace(ROWS, encoding=Encoding("", 4))


@pytest.mark.parametrize(
    ("name", "encoder", "on_rows", "on_embeddings"),
    [
        ("auto", "auto", "mlp", "features:lite0+mlp"),
        ("features:lite0", "lite0", "features:lite0+mlp", "features:lite0+mlp"),
        ("features:lite0+linear", "lite0", "features:lite0+linear", "features:lite0+linear"),
        ("features:hf:a/b+c", "hf:a/b+c", "features:hf:a/b+c+mlp", "features:hf:a/b+c+mlp"),
        ("mlp:width=8", "", "mlp:width=8", "mlp:width=8"),
        ("mine:build", "", "mine:build", "mine:build"),
    ],
)
def test_names(name, encoder, on_rows, on_embeddings):
    assert asked_encoder(name) == encoder
    assert full_name(name, ROWS) == full_name(name, WORDS) == on_rows
    assert full_name(name, EMBEDDED) == on_embeddings
    assert full_name(full_name(name, EMBEDDED), EMBEDDED) == on_embeddings
    assert is_reference(name) == (name == "mine:build")


def test_the_head_is_a_network_on_embeddings():
    x = torch.as_tensor(EMBEDDED.x).float()
    for name, plain in (
        ("features:lite0", "mlp"),
        ("auto", "mlp"),
        ("features:lite0+mlp:width=8,depth=2", "mlp:width=8,depth=2"),
    ):
        head, same = (da.build_model(n, EMBEDDED, seed=3) for n in (name, plain))
        assert torch.equal(head(x), same(x))
    blocks = linear_or_named("auto", EMBEDDED, 0)
    assert torch.equal(blocks(x), da.build_model(BLOCK_HEAD, EMBEDDED)(x))


def test_other_samples_are_refused():
    with pytest.raises(ModelError, match=r"embeddings by lite0; x holds no embeddings. Load .*"):
        da.build_model("features:lite0", ROWS)
    with pytest.raises(ModelError, match="embeddings by minilm; x holds embeddings by lite0"):
        da.build_model("features:minilm", EMBEDDED)
    with pytest.raises(ModelError, match="cnn takes images"):
        da.build_model("features:lite0+cnn", EMBEDDED)
