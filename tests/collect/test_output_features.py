"""Jacobians of a dense layer kept as its inputs against the same Jacobians written out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.collect.curvature import output_geometry as module
from datassay.collect.curvature.output_geometry import DenseFeatures, SharedFeatures


def both(n, d, k, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g, dtype=torch.float64)
    jacobian = torch.stack([torch.block_diag(*[row[None]] * k) for row in x])  # I_k ⊗ xᵀ
    return SharedFeatures(x, k), DenseFeatures(jacobian), g


def products(features, values):
    """Every product, of one batch or of none."""
    return {
        "outputs": features.outputs(values["weights"]),
        "pullback": features.pullback(values["slopes"]),
        "curvature": features.curvature(values["inner"]),
    }


def draw(g, n, d, k, batch=()):
    inner = torch.randn(*batch, n, k, k, generator=g, dtype=torch.float64)
    return {
        "weights": torch.randn(*batch, k * d, generator=g, dtype=torch.float64),
        "slopes": torch.randn(*batch, n, k, generator=g, dtype=torch.float64),
        "inner": inner + inner.mT,
    }


SIZES = {
    "n": st.integers(1, 7),
    "d": st.integers(1, 4),
    "k": st.integers(1, 4),
    "seed": st.integers(0, 99),
}


@settings(max_examples=25, deadline=None)
@given(batch=st.sampled_from([(), (1,), (3,)]), **SIZES)
def test_shared_and_dense_agree(n, d, k, seed, batch):
    shared, written, g = both(n, d, k, seed)
    assert len(shared) == len(written) == n
    assert (shared.n_outputs, shared.n_parameters) == (k, k * d)
    assert (written.n_outputs, written.n_parameters) == (k, k * d)
    values = draw(g, n, d, k, batch)
    for name, found in products(shared, values).items():
        torch.testing.assert_close(found, products(written, values)[name], msg=name)


@settings(max_examples=25, deadline=None)
@given(**SIZES)
def test_products_of_each_sample_agree_with_their_definition(n, d, k, seed):
    shared, written, g = both(n, d, k, seed)
    j = written.jacobian
    slopes = torch.randn(n, k, generator=g, dtype=torch.float64)
    moves = torch.randn(n, k * d, generator=g, dtype=torch.float64)
    middle = torch.randn(k * d, k * d, generator=g, dtype=torch.float64)
    keep = torch.arange(n).flip(0)[: max(1, n - 1)]
    for features in (shared, written):
        torch.testing.assert_close(
            features.gradients(slopes), torch.einsum("nkp,nk->np", j, slopes)
        )
        torch.testing.assert_close(features.along(moves), torch.einsum("nkp,np->nk", j, moves))
        torch.testing.assert_close(features.quadratic(middle), j @ middle @ j.mT)
        torch.testing.assert_close(features.rows(slice(1, None)), j[1:])
        torch.testing.assert_close(features.subset(keep).rows(slice(None)), j[keep])


def test_curvature_against_its_definition():
    shared, written, g = both(6, 3, 2, 0)
    values = draw(g, 6, 3, 2, (2,))
    expected = torch.einsum(
        "nkp,bnkl,nlq->bpq", written.jacobian, values["inner"], written.jacobian
    )
    torch.testing.assert_close(shared.curvature(values["inner"]), expected)
    torch.testing.assert_close(written.curvature(values["inner"]), expected)


@pytest.mark.parametrize("room", [1, 40])
def test_chunks_change_nothing(monkeypatch, room):
    shared, written, g = both(9, 3, 2, 1)
    values, middle = draw(g, 9, 3, 2, (2,)), torch.eye(6).double()
    before = [f.curvature(values["inner"]) for f in (shared, written)] + [written.quadratic(middle)]
    monkeypatch.setattr(module, "CHUNK_VALUES", room)
    after = [f.curvature(values["inner"]) for f in (shared, written)] + [written.quadratic(middle)]
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b)
