"""Short rows: the cosine kernel of a linearisation, from a kernel or from features."""

import numpy as np
import pytest
import torch

from datassay.act.remove import unit_rows as module
from datassay.act.remove.unit_rows import unit_rows
from helpers.linearizations import linearization, random_jacobians


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize(("b", "c"), [(1, 1), (1, 3), (3, 1)])
def test_products_are_the_cosine_kernel(dual, b, c):
    phi, r, _ = random_jacobians(40, b, c, 20, 5, seed=0)
    rows = unit_rows(linearization(phi, r, dual=dual), seed=0).double()
    flat = phi.reshape(40, -1).double()
    kernel = flat @ flat.T
    length = kernel.diagonal().sqrt()
    expected = kernel / length / length[:, None]
    torch.testing.assert_close(rows @ rows.T, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dual", [True, False])
def test_leading_directions_are_enough(dual, monkeypatch):
    """60 columns seen as 20: what is left out is small, as the spectrum says."""
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    phi, r, _ = random_jacobians(300, 1, 1, 60, 5, seed=0, decay=2.0)
    rows = unit_rows(linearization(phi, r, dual=dual), seed=0).double()
    flat = phi.reshape(300, -1).double()
    flat = flat / flat.norm(dim=1, keepdim=True)
    assert rows.shape == (300, 20)
    assert float((rows @ rows.T - flat @ flat.T).abs().max()) < 0.02


def test_a_sample_without_features_has_a_row_of_zeros():
    phi, r, _ = random_jacobians(10, 1, 1, 5, 5, seed=0)
    phi[3] = 0
    rows = unit_rows(linearization(phi, r, dual=False), seed=0)
    assert np.isfinite(rows.numpy()).all() and float(rows[3].abs().max()) == 0
