"""A tiny language model and its tokenizer."""

import pytest
import torch

from helpers import language_models as tiny


@pytest.fixture(scope="session")
def tokenizer():
    return tiny.tokenizer()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return tiny.gpt2().double().eval()
