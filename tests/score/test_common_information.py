"""Common information of several samples and groups, against trainings on every subset."""

from itertools import combinations

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay.score.information.common import common_information, nearest_sets
from datassay.score.information.groups import group_information
from datassay.score.information.pairs import pair_information
from helpers.linearizations import close, linearization, random_jacobians, weights

SETS = [[0, 3, 7], [[1, 2], 5, [8, 9, 10]], [4, 6], [0, 1, 2, 3]]


def flat(parts):
    return [i for part in parts for i in np.atleast_1d(part)]


def by_definition(phi, r, val, parts, kind, eta, steps, penalty):
    """Four figures in nats at σ = 1, each network trained anew."""
    n, everyone = len(r), flat(parts)

    def predictions(members):
        keep = [i for i in range(n) if i not in everyone or i in members]
        w = weights(phi[keep].flatten(0, 1), r[keep].flatten(0, 1), kind, eta, steps, penalty)
        return (val.flatten(0, 1) @ w).reshape(len(val), -1)

    none, all_of = predictions([]), predictions(everyone)
    each = torch.stack([(predictions(flat([part])) - none).square().sum(1) / 2 for part in parts])
    interaction = 0.0
    for k in range(1, len(parts) + 1):
        for union in combinations(range(len(parts)), k):
            rest = flat([part for i, part in enumerate(parts) if i not in union])
            change = all_of - predictions(rest)
            interaction += (-1) ** (k + 1) * float(change.square().sum(1).mean()) / 2
    jointly = float((all_of - none).square().sum(1).mean()) / 2
    return float(each.amin(0).mean()), float(each.amax(0).mean()), jointly, interaction


@pytest.mark.parametrize(("n", "b", "c"), [(24, 1, 1), (16, 3, 1), (200, 1, 2)])
@pytest.mark.parametrize(("dual", "p"), [(True, 40), (False, 9)])
@pytest.mark.parametrize(("kind", "penalty"), [("flow", 0.2), ("converged", 0.5)])
def test_each_figure_is_its_definition(kind, penalty, dual, p, n, b, c):
    phi, r, val = random_jacobians(n, b, c, p, 7, seed=n, decay=0.3)
    lin = linearization(phi, r, val, dual=dual)
    run = {"lr": 1e-3, "steps": 300, "weight_decay": penalty, "dynamics": kind}
    result = common_information(lin, SETS, **run)
    oracle = [by_definition(phi, r, val, s, kind, 1e-3, 300, penalty) for s in SETS]
    for ours, theirs in zip(
        (result.common, result.any_one, result.jointly, result.interaction),
        np.transpose(oracle),
        strict=True,
    ):
        assert np.abs(ours - theirs).max() <= 1e-8 * np.abs(result.jointly).max()
    whole = group_information(lin, [np.array(flat(s)) for s in SETS], **run).information
    assert close(result.jointly, whole)
    pair = pair_information(lin, np.array([[4, 6]]), **run).interaction
    assert result.interaction[2] == pytest.approx(pair[0], abs=1e-10 * whole.max())
    assert (result.common <= result.any_one).all()
    np.testing.assert_allclose(result.synergy, result.jointly - result.any_one)


def test_copies_have_everything_in_common_and_strangers_nothing():
    """At no penalty two more copies change nothing; what is orthogonal meets at no query."""
    phi, r, val = random_jacobians(12, 1, 1, 40, 6, seed=3)
    phi[1], r[1] = phi[0], r[0]
    phi[2], r[2] = phi[0], r[0]
    phi[3:] = 0
    for i in range(3, 12):
        phi[i, 0, i] = 1.0
    val = torch.cat([phi[:1], phi[3:6]])
    lin = linearization(phi, r, val, dual=True)
    result = common_information(lin, [[0, 1, 2], [3, 4, 5]], dynamics="converged")
    assert result.common[0] == pytest.approx(result.jointly[0]) == result.any_one[0]
    assert abs(result.common[1]) < 0.05 * result.jointly[1]


def test_the_most_alike_come_first():
    phi, r, val = random_jacobians(20, 1, 1, 6, 5, seed=6)
    phi[7], phi[13] = 2 * phi[4], phi[4]
    phi[9] = 0  # without gradient: in no set
    lin = linearization(phi, r, val, dual=False)
    sets = nearest_sets(lin, 3, most=30)
    assert sets[0].tolist() == [4, 7, 13] and 9 not in sets
    assert len({tuple(one) for one in sets.tolist()}) == len(sets) > 5
    assert nearest_sets(lin, 3, most=2).tolist() == sets[:2].tolist()
    assert nearest_sets(linearization(phi[:2], r[:2], val, dual=False), 3).shape == (0, 3)
    with pytest.raises(SettingError, match="size must be from 2 to 8; got 9"):
        nearest_sets(lin, 9)


@pytest.mark.parametrize("t", [0.1, 7.0])
def test_units(t):
    """Targets and σ × t: the same nats."""
    phi, r, val = random_jacobians(15, 1, 1, 6, 5, seed=4)
    a, b = (
        common_information(linearization(phi, s * r, val, dual=False), SETS, sigma=s * 0.3)
        for s in (1.0, t)
    )
    for name in ("common", "any_one", "jointly", "interaction"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-7)
    assert a.to_table().column_names[:2] == ["size", "common"]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "sets must hold at least one set"),
        ([[1]], "a set must have 2 to 8 parts; got 1"),
        ([list(range(9))], "a set must have 2 to 8 parts; got 9"),
        ([[1, [1, 2]]], "share no sample"),
        ([[1, 30]], "positions must be from 0 to 14"),
        ([[list(range(10)), list(range(10, 15))]], "must leave at least one sample"),
    ],
)
def test_wrong_sets(sets, message):
    phi, r, val = random_jacobians(15, 1, 1, 6, 5, seed=4)
    with pytest.raises(SettingError, match=message):
        common_information(linearization(phi, r, val, dual=False), sets)
