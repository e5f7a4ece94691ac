"""Scores from features a panel at a time: the same as from all rows at once, and bounded."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from datassay.collect.form import ProductSettings
from datassay.errors import SettingError
from datassay.score.influence.linear import linear_influence
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.score.linear import panels as panels_module
from datassay.score.linear import removal as removal_modes
from datassay.score.linear.eigenbasis import FeatureRows, eigenbasis
from datassay.score.linear.panels import (
    ONE_BY_ONE,
    SquaredLength,
    gram,
    invert_each,
    operand,
    panels,
    product,
    solve_each,
    transposed_product,
)
from helpers.linearizations import close, linearization, random_jacobians

N, P, M = 90, 24, 40
leave_one_out_module = sys.modules["datassay.score.leave_one_out"]


class Stored:
    """Features that can only be read in slices, as from a store."""

    def __init__(self, values):
        self._values, self.shape, self.most = values, values.shape, 0

    def __getitem__(self, part):
        assert isinstance(part, slice)
        result = self._values[part]
        self.most = max(self.most, len(result))
        return result


def problem(b=1, c=3, seed=0):
    phi, residual, val_phi = random_jacobians(N, b, c, P, M, seed, decay=0.7)
    labels = np.random.default_rng(seed).integers(0, b * c, N)
    residual = 0.2 * residual
    residual.view(N, -1)[torch.arange(N), torch.as_tensor(labels)] += 1
    return linearization(phi, residual, val_phi, dual=False, labels=labels)


def scores(lin):
    loo, issues = leave_one_out(lin, steps=500), label_issues(lin)
    influence = linear_influence(lin, ridge=issues.ridge, n_partners=30)
    return (
        loo.held_out, loo.prediction_change, loo.weight_change, issues.score, issues.held_out,
        influence.mean, influence.variance, influence.own,
    )  # fmt: skip


def set_panels(monkeypatch, n_bytes):
    """Panels of so many bytes; no rows of more are kept."""
    for name in ("PANEL_BYTES", "WHOLE_BYTES"):
        monkeypatch.setattr(panels_module, name, n_bytes)


@pytest.mark.parametrize(("b", "c"), [(1, 3), (2, 1)])
@pytest.mark.parametrize("rows", [7, 32])
def test_panels_give_what_all_rows_give(monkeypatch, b, c, rows):
    whole = scores(problem(b, c))
    set_panels(monkeypatch, 8 * P * b * rows)
    lin = problem(b, c)
    assert not eigenbasis(lin).rows.is_small
    for ours, oracle in zip(scores(lin), whole, strict=True):
        np.testing.assert_allclose(ours, oracle, rtol=1e-9, atol=1e-10 * np.abs(oracle).max())


@pytest.mark.parametrize("run", [
    {"steps": 500}, {"dynamics": "descent", "lr": 0.01, "steps": 40},
    {"dynamics": "converged"}, {"dynamics": "converged", "weight_decay": 0.3},
])  # fmt: skip
@pytest.mark.parametrize("with_val", [True, False])
def test_blocks_of_modes_give_what_whole_weights_give(monkeypatch, run, with_val):
    """Ten outputs, so that blocks have fewer columns than outputs, and 8 modes a block."""
    set_panels(monkeypatch, 8 * P * 16 * 20)
    for module in (panels_module, removal_modes):
        monkeypatch.setattr(module, "SYMMETRIC_ROWS", 8)
    phi, residual, val_phi = random_jacobians(N, 1, 10, P, M, 3, decay=1.5)
    lin = linearization(phi, residual, val_phi if with_val else None, dual=False)
    assert removal_modes.has_modes(eigenbasis(lin), 10)
    loo = leave_one_out(lin, **run)
    monkeypatch.setattr(leave_one_out_module, "has_modes", lambda *_: False)
    oracle = leave_one_out(lin, **run)
    for name in ("held_out", "outputs", "prediction_change", "weight_change"):
        assert close(getattr(loo, name), getattr(oracle, name)), name


def test_stored_features_give_the_same_bits_as_a_tensor(monkeypatch):
    set_panels(monkeypatch, 8 * P * 16)
    lin, stored = problem(), problem()
    features = Stored(stored.features)
    object.__setattr__(stored, "features", features)
    object.__setattr__(stored, "val_features", Stored(stored.val_features))
    for ours, oracle in zip(scores(stored), scores(lin), strict=True):
        assert np.array_equal(ours, oracle)
    # A chunk of leave_one_out may hold all of so few samples; every other panel is 16 rows.
    assert features.most <= N


def test_whole_rows_are_refused_where_they_do_not_fit(monkeypatch):
    parts = list(panels(1000, 2**18))
    assert [p.start for p in parts] == [0, *(p.stop for p in parts[:-1])]
    assert parts[-1].stop == 1000 and max(p.stop - p.start for p in parts) == 8
    set_panels(monkeypatch, 8 * P * 16)
    given = torch.eye(P).double(), 1, "float64"
    rows = FeatureRows(problem().features, *given, memory=1000.0)
    with pytest.raises(SettingError, match=r"must fit the memory twice.*90 x 24"):
        rows.read_all()
    assert rows[5:9].shape == (4, 1, P)


@pytest.mark.parametrize("size", [3, 600])
def test_squared_length_is_the_quadratic_form(size):
    g = torch.Generator().manual_seed(0)
    a = torch.randn(size, size, generator=g, dtype=torch.float64)
    w = torch.randn(size, 4, 2, generator=g, dtype=torch.float64)
    expected = torch.einsum("pgc,pq,qgc->g", w, a.T @ a, w)
    torch.testing.assert_close(SquaredLength(a.T @ a, "float64")(w), expected, rtol=1e-10, atol=0)


def test_bfloat16_products_add_up_in_float32_and_leave_torch_as_it_was():
    draw = torch.Generator().manual_seed(0)
    a, b = (
        operand(torch.randn(shape, generator=draw), "bfloat16") for shape in ((64, 900), (900, 40))
    )
    before = torch.get_float32_matmul_precision()
    result = product(a, b, "bfloat16").double()
    allowed = 1e-5 * (a.abs() @ b.abs()).double()
    assert bool(((result - a.double() @ b.double()).abs() <= allowed).all())
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("products", "error"), [("float64", 1e-14), ("float32", 3e-6), ("bfloat16", 1e-2)]
)
def test_products(products, error):
    g = torch.Generator().manual_seed(0)
    phi = torch.randn(200, 700, generator=g, dtype=torch.float64)
    weight = torch.rand(200, generator=g, dtype=torch.float64)
    expected = phi.T @ (weight[:, None] * phi)
    result = gram(phi, products, weight=weight)
    assert result.dtype == torch.float64 and torch.equal(result, result.T)
    assert float((result - expected).abs().max() / expected.abs().max()) < error
    assert operand(phi, products).dtype == (torch.float64 if error < 1e-10 else torch.float32)
    y = torch.randn(200, 3, generator=g, dtype=torch.float64)
    torch.testing.assert_close(transposed_product(phi, y), phi.T @ y)


@pytest.mark.parametrize(("products", "least"), [("float32", 0.9999), ("bfloat16", 0.98)])
def test_less_precise_products_keep_the_ranks(products, least):
    exact, less = problem(), problem()
    form = replace(less.form, products=ProductSettings(products))
    object.__setattr__(less, "form", form)
    for ours, oracle in zip(scores(less), scores(exact), strict=True):
        assert spearmanr(ours.ravel(), oracle.ravel())[0] > least


@pytest.mark.parametrize("rows", [3, ONE_BY_ONE - 1, ONE_BY_ONE, 180])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_each_of_many_systems_is_its_own(rows, batch):
    """Small ones in a batch, large ones one by one."""
    torch.manual_seed(0)
    left = torch.randn(*batch, rows, rows).double() + 3 * rows**0.5 * torch.eye(rows)
    right, unit = torch.randn(*batch, rows, 2).double(), torch.eye(rows).expand(left.shape)
    expected = np.linalg.solve(left.numpy(), right.numpy())
    np.testing.assert_allclose(solve_each(left, right), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(invert_each(left) @ left, unit, rtol=0, atol=1e-10)
