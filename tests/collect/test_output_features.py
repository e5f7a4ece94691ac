"""Jacobians of a dense layer kept as its inputs against the same Jacobians written out."""

from unittest.mock import patch

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


SIZES = {
    "n": st.integers(1, 7),
    "d": st.integers(1, 4),
    "k": st.integers(1, 4),
    "seed": st.integers(0, 99),
}


@settings(max_examples=25, deadline=None)
@given(batch=st.sampled_from([(), (1,), (3,)]), room=st.sampled_from([1, 40, 2**25]), **SIZES)
def test_products_of_a_batch_are_their_definition(n, d, k, seed, batch, room):
    shared, written, g = both(n, d, k, seed)
    j, inner = written.jacobian, torch.randn(*batch, n, k, k, generator=g, dtype=torch.float64)
    weights = torch.randn(*batch, k * d, generator=g, dtype=torch.float64)
    slopes = torch.randn(*batch, n, k, generator=g, dtype=torch.float64)
    inner = inner + inner.mT
    curvature = torch.einsum("nkp,...nkl,nlq->...pq", j, inner, j)
    for features in (shared, written):
        assert (len(features), features.n_outputs, features.n_parameters) == (n, k, k * d)
        outputs = torch.einsum("nkp,...p->...nk", j, weights)
        torch.testing.assert_close(features.outputs(weights), outputs)
        pulled = torch.einsum("nkp,...nk->...p", j, slopes)
        torch.testing.assert_close(features.pullback(slopes), pulled)
        with patch.object(module, "CHUNK_VALUES", room):
            torch.testing.assert_close(features.curvature(inner), curvature)
            middle = torch.eye(k * d, dtype=torch.float64)
            torch.testing.assert_close(features.quadratic(middle), j @ j.mT)


@settings(max_examples=25, deadline=None)
@given(**SIZES)
def test_products_of_each_sample_agree_with_their_definition(n, d, k, seed):
    shared, written, g = both(n, d, k, seed)
    j = written.jacobian
    slopes = torch.randn(n, k, generator=g, dtype=torch.float64)
    moves = torch.randn(n, k * d, generator=g, dtype=torch.float64)
    middle = torch.randn(k * d, k * d, generator=g, dtype=torch.float64)
    middle = middle + middle.mT
    keep = torch.arange(n).flip(0)[: max(1, n - 1)]
    for features in (shared, written):
        torch.testing.assert_close(
            features.gradients(slopes), torch.einsum("nkp,nk->np", j, slopes)
        )
        torch.testing.assert_close(features.along(moves), torch.einsum("nkp,np->nk", j, moves))
        torch.testing.assert_close(features.quadratic(middle), j @ middle @ j.mT)
        torch.testing.assert_close(features.rows(slice(1, None)), j[1:])
        torch.testing.assert_close(features.subset(keep).rows(slice(None)), j[keep])
