"""Products of gradients over the rows that both have, and the warning about large effects."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import datassay as da
from datassay.errors import SettingError
from datassay.score.influence.first_order import TRUSTED, _join, _multiply, too_far
from datassay.score.influence.segments import tracin_settings
from helpers.findings import make_findings

N_ROWS, COLUMNS = 7, 3
ROWS = st.one_of(st.none(), st.sets(st.integers(0, N_ROWS - 1), min_size=1).map(sorted))


def of_rows(rows, n, seed):
    """Values of some rows, which rows, and the same with 0 in all others."""
    places = list(range(N_ROWS)) if rows is None else rows
    values = torch.randn(n, len(places), COLUMNS, generator=torch.Generator().manual_seed(seed))
    whole = torch.zeros(n, N_ROWS, COLUMNS)
    whole[:, places] = values
    return values.flatten(1), None if rows is None else torch.tensor(rows), whole.flatten(1)


@settings(deadline=None)
@given(chosen=st.lists(ROWS, min_size=1, max_size=3))
def test_batches_of_some_rows_are_joined_as_if_the_others_were_zero(chosen):
    pieces = [of_rows(rows, 2 + i, i) for i, rows in enumerate(chosen)]
    joined, rows = _join([piece[:2] for piece in pieces], (N_ROWS, COLUMNS))
    whole = torch.cat([piece[2] for piece in pieces])
    places = list(range(N_ROWS)) if rows is None else rows.tolist()
    torch.testing.assert_close(joined, whole.view(-1, N_ROWS, COLUMNS)[:, places].flatten(1))
    assert (rows is None) == all(one is None for one in chosen)
    assert set(places) == {r for one in chosen for r in (range(N_ROWS) if one is None else one)}


@settings(deadline=None)
@given(ours=ROWS, theirs=ROWS)
def test_products_are_those_of_all_rows_the_missing_ones_zero(ours, theirs):
    coords, rows, whole = of_rows(ours, 4, 0)
    matrix, q_rows, q_whole = of_rows(theirs, 5, 1)
    products = _multiply(coords, rows, matrix, q_rows, COLUMNS)
    torch.testing.assert_close(products, whole @ q_whole.T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", ["raising_effect", "lowering_effect"])
def test_an_effect_on_either_side_can_reach_too_far(side):
    attribution = make_findings().attribution
    none = np.zeros_like(attribution.top.raising_effect)
    top = replace(attribution.top, raising_effect=none, lowering_effect=none)
    for effect, n_warnings in ((TRUSTED, 0), (1.1 * TRUSTED, 1)):
        effects = none.copy()
        effects[-1, -1] = effect if side == "raising_effect" else -effect
        large = replace(attribution, top=replace(top, **{side: effects}))
        assert len(too_far(large)) == n_warnings
        assert not too_far(replace(large, measure="custom"))


class Branches(torch.nn.Module):
    """One layer for batches that begin above 0, another for the others, and one for all or none."""

    def __init__(self, has_head):
        super().__init__()
        torch.manual_seed(0)
        self.above, self.below = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        self.head = torch.nn.Linear(2, 2) if has_head else torch.nn.Identity()

    def forward(self, x):
        return self.head(torch.tanh(self.above(x) if float(x[0, 0]) > 0 else self.below(x)))


def test_queries_of_a_layer_that_no_training_sample_uses_feel_no_removal():
    x = np.abs(np.random.default_rng(0).normal(size=(12, 3))).astype(np.float32)
    train, queries = (x, np.arange(12) % 2), (-x[:4], np.arange(4) % 2)
    apart = da.influence(Branches(False), train, queries, measure="margin")
    assert not apart.effect.any() and apart.self_influence.min() > 0
    both = da.influence(Branches(True), train, queries, measure="margin")
    head = ["head.weight", "head.bias"]
    alone = da.influence(Branches(True), train, queries, measure="margin", parameters=head)
    np.testing.assert_allclose(both.effect, alone.effect, rtol=1e-4, atol=1e-7)
    assert alone.effect.all() and (both.self_influence > alone.self_influence).all()


def test_no_checkpoints_are_refused():
    with pytest.raises(SettingError, match="checkpoints must hold at least 1 network; got none"):
        tracin_settings(torch.nn.Linear(2, 2), checkpoints=[])
