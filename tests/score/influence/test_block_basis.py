"""Curvature by blocks: exact ones against the definition, factored ones where they are exact."""

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect.gradients.blocks import Block
from datassay.collect.layers import Factors, matrix
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.influence.block_basis import block_bases
from datassay.score.influence.exact_blocks import Penalty
from datassay.score.influence.trained_network import trained_network
from datassay.score.linear import panels
from helpers.by_block import gauss_newton

N, DAMPING, DECAY = 30, 0.1, 0.02
RELATIVE = Penalty(DAMPING, 0.0)
# Engine's order of a layer's weights: a row's own, then its bias.
NAMES = {"0": ["0.weight", "0.bias"], "2": ["2.weight", "2.bias"]}


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x = torch.randn(N, 4).double()
    samples = SampleSet(x.numpy(), np.arange(N) % 3, np.arange(N), ("a", "b", "c"))
    given = {"parameters": None, "precision": "float64", "device": None}
    result = trained_network(model, samples, loss="auto", progress=lambda *_: None, **given)
    return model, x, result


def in_our_order(hessian, block):
    """[weight, bias] → the block's rows with the bias as their last column."""
    rows, columns = block.shape
    position = torch.cat([
        torch.arange(rows * (columns - 1)).view(rows, -1),
        rows * (columns - 1) + torch.arange(rows)[:, None],
    ], 1).flatten()  # fmt: skip
    return hessian[position][:, position]


@pytest.mark.parametrize("panel", [4, 512])
def test_exact_blocks_are_the_definition(panel, monkeypatch):
    monkeypatch.setattr(
        panels, "SYMMETRIC_ROWS", panel
    )  # rows of a block that are computed together
    model, x, result = network()
    given = {"is_exact": lambda b: True, "dtype": torch.float64}
    roots = lambda: result.roots(0, "fit")  # noqa: E731
    penalties = dict.fromkeys(NAMES, Penalty(DAMPING, DECAY))
    bases = block_bases(result.per_sample.blocks, roots, N, penalties, **given)
    assert list(bases) == list(NAMES)
    (_, gradients), *_ = result.loss_gradients()
    for name, basis in bases.items():
        block = basis.block
        hessian = in_our_order(gauss_newton(model, x, torch.arange(N) % 3, NAMES[name]), block)
        penalty = DAMPING * hessian.diagonal().mean() + DECAY
        inverse = torch.linalg.inv(hessian + penalty * torch.eye(block.size).double())
        rows = matrix(gradients[name], block.shape[0]).flatten(1)
        coordinates, chosen = basis.coordinates(gradients[name])
        assert chosen is None
        truth = rows @ inverse @ rows.T
        ours = (coordinates * basis.inverse()) @ coordinates.T
        assert (ours - truth).abs().max() < 1e-10 * truth.abs().max()


def bases_of(block, parts, n, exact=False, penalty=RELATIVE):
    """Bases of one block, from its gradients in batches."""
    roots = lambda: [{block.name: uses} for uses in parts]  # noqa: E731
    given = {"is_exact": lambda b: exact, "dtype": torch.float64}
    return block_bases([block], roots, n, {block.name: penalty}, **given)


BLOCK = Block("layer", (3, 4), ("layer.weight",), ("layer",))


def vectors(n, size, seed):
    return torch.randn(n, size, generator=torch.Generator().manual_seed(seed)).double()


def test_factored_blocks_are_exact_where_the_factors_are_independent():
    """All pairs of an input and an output gradient: H = mean δδᵀ ⊗ mean aaᵀ."""
    left, right = vectors(6, 3, 0), vectors(7, 4, 1)
    pairs = left.repeat_interleave(7, 0)[:, None], right.repeat(6, 1)[:, None]
    uses = [Factors(*pairs)]
    rows = matrix(uses, 3).flatten(1)
    hessian = rows.T @ rows / 42
    basis = bases_of(BLOCK, [uses], 42, penalty=Penalty(DAMPING, DECAY))["layer"]
    penalty = DAMPING * hessian.diagonal().mean() + DECAY
    truth = torch.linalg.inv(hessian + penalty * torch.eye(12).double())
    coordinates, _ = basis.coordinates(uses)
    ours = (coordinates * basis.inverse()) @ coordinates.T
    torch.testing.assert_close(ours, rows @ truth @ rows.T, rtol=1e-10, atol=1e-12)


def test_factored_blocks_have_the_second_moments_in_their_basis():
    """Several places a sample and two batches: eigenvalues are the mean squares of gradients."""
    parts = [
        [Factors(vectors(15, 3, s).view(5, 3, 3), vectors(15, 4, 9 + s).view(5, 3, 4))]
        for s in (1, 2)
    ]
    basis = bases_of(BLOCK, parts, 10)["layer"]
    gradients = torch.cat([matrix(uses, 3) for uses in parts])
    for vector, name in ((basis.row_basis, "lhs"), (basis.column_basis, "rhs")):
        each = torch.cat([getattr(u, name).flatten(0, 1) for (u,) in parts])
        turned = vector.T @ each.T @ each @ vector
        assert (turned - turned.diagonal().diag()).abs().max() < 1e-10 * each.square().sum()
    eigenvalues = (basis.row_basis.T @ gradients @ basis.column_basis).square().mean(0)
    torch.testing.assert_close(basis.eigenvalues, eigenvalues, rtol=1e-10, atol=1e-12)
    assert basis.damping == pytest.approx(DAMPING * float(eigenvalues.mean()), rel=1e-10)


def test_rows_that_are_looked_up_keep_their_own():
    ids = torch.tensor([[1, 3], [3, 0], [1, 1], [5, 3]])
    uses = [Factors(ids, vectors(8, 2, 0).view(4, 2, 2))]
    block = Block("words", (6, 2), ("words.weight",), ("words",))
    basis = bases_of(block, [uses], 4)["words"]
    assert basis.row_basis is None
    truth = (matrix(uses, 6) @ basis.column_basis).square().mean(0)
    torch.testing.assert_close(basis.eigenvalues, truth, rtol=1e-10, atol=1e-12)
    coordinates, rows = basis.coordinates(uses)
    assert rows.tolist() == [0, 1, 3, 5] and coordinates.shape == (4, 4 * 2)
    assert (basis.inverse()[4:6] == 1 / basis.damping).all()  # of word 2, which nobody has


def test_a_singular_block_names_damping_and_one_without_curvature_is_left_out():
    uses = [Factors(vectors(2, 3, 0)[:, None], vectors(2, 4, 1)[:, None])]
    with pytest.raises(SettingError, match=r"damping must make every block's .* 'layer' is singul"):
        bases_of(BLOCK, [uses], 2, exact=True, penalty=Penalty(0.0, 0.0))
    flat = [Factors(uses[0].lhs * 0, uses[0].rhs)]
    assert bases_of(BLOCK, [flat], 2, exact=True) == bases_of(BLOCK, [flat], 2) == {}
