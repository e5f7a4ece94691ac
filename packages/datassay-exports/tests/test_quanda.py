"""Our effects as quanda's explainer, where quanda is installed."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import datassay as da


@pytest.mark.filterwarnings("ignore::Warning")
def test_explanations_are_effects_with_queries_first(adapter):
    influence = adapter("quanda", "quanda.explainers").Influence
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))
    model = nn.Linear(4, 3)
    train, queries = TensorDataset(x[:50], y[:50]), TensorDataset(x[50:], y[50:])
    index = da.index(model, train, temperature=1.0)
    effect, own = (
        index.query(queries, top=None, measure="margin").effect,
        50 * index.self_influence(),
    )
    plain, loss, relative = (
        influence(model, train, temperature=1.0, **more)
        for more in ({}, {"measure": "loss"}, {"relative": True})
    )
    np.testing.assert_allclose(plain.explain(x[50:], y[50:]), effect.T, rtol=1e-6)
    np.testing.assert_allclose(plain.self_influence(), own, rtol=1e-6)
    losses = index.query(queries, top=None, measure="loss").effect
    np.testing.assert_allclose(loss.explain(x[50:], y[50:].tolist()), -losses.T, rtol=1e-6)
    np.testing.assert_allclose(relative.explain(x[50:], y[50:]), effect.T / own**0.5, rtol=1e-6)
