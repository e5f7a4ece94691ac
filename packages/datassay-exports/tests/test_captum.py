"""Our effects as captum's data influence, where captum is installed."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import datassay as da


@pytest.mark.slow
def test_scores_are_what_each_sample_takes_off_the_loss(adapter):
    influence = adapter("captum", "captum.influence").Influence
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))
    model, train = nn.Linear(4, 3), TensorDataset(x[:50], y[:50])
    ours = influence(model, train)
    index = da.index(model, train)
    losses = index.query(TensorDataset(x[50:], y[50:]), top=None, measure="loss").effect
    scores = ours.influence((x[50:], y[50:]))
    np.testing.assert_allclose(scores, -losses.T, rtol=1e-6)
    np.testing.assert_allclose(ours.self_influence(), 50 * index.self_influence(), rtol=1e-6)
    for proponents, sign in ((True, -1), (False, 1)):
        best = ours.influence((x[50:], y[50:]), k=7, proponents=proponents)
        order = np.argsort(sign * scores.numpy(), axis=1)[:, :7]
        np.testing.assert_array_equal(best.indices, order)
        np.testing.assert_array_equal(best.influence_scores, np.take_along_axis(scores, order, 1))
