"""Gradients as factors: summed, rotated and restricted, they are the matrices they stand for."""

import pytest
import torch
from torch.nn.functional import one_hot

from datassay.collect.layers import Factors, matrix, restrict, rotate, second_moments, used_rows

B, PLACES, ROWS, COLUMNS = 3, 4, 5, 6


def uses(kind):
    torch.manual_seed(0)
    right = torch.randn(B, PLACES, COLUMNS).double()
    left = torch.randn(B, PLACES, ROWS).double()
    return {
        "dense": [Factors(left, right)],
        "one position": [Factors(left[:, :1], right[:, :1])],
        "ids": [Factors(torch.tensor([[1, 1, 3, 1], [0, 3, 3, 0], [1, 0, 3, 3]]), right)],
        "whole": [left.mT @ right],
    }[kind]


def formed(found):
    """By definition, a sample and a position at a time."""
    total = torch.zeros(B, ROWS, COLUMNS).double()
    for use in found:
        if not isinstance(use, Factors):
            total += use
            continue
        left = one_hot(use.lhs, ROWS).double() if use.is_sparse else use.lhs
        for b in range(B):
            for t in range(left.shape[1]):
                total[b] += left[b, t].outer(use.rhs[b, t])
    return total


KINDS = ["dense", "one position", "ids", "whole"]


@pytest.mark.parametrize("kind", KINDS)
def test_matrix(kind):
    both = uses(kind) + uses("dense")
    torch.testing.assert_close(matrix(both, ROWS), formed(both), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sides", ["left", "right", "both", "none"])
def test_rotated(kind, sides):
    result = uses(kind)
    left = torch.linalg.qr(torch.randn(ROWS, ROWS).double())[0]
    right = torch.linalg.qr(torch.randn(COLUMNS, COLUMNS).double())[0]
    left = left if sides in {"left", "both"} and kind != "ids" else None  # ids stay rows
    right = right if sides in {"right", "both"} else None
    truth = formed(result)
    truth = truth if left is None else left.T @ truth
    truth = truth if right is None else truth @ right
    ours = matrix([rotate(use, left, right) for use in result], ROWS)
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)


def test_rows_that_are_used():
    result = uses("ids")
    rows = used_rows(result)
    assert rows.tolist() == [0, 1, 3]
    assert used_rows(result + uses("dense")) is None
    part = matrix(restrict(result, rows), len(rows))
    torch.testing.assert_close(part, formed(result)[:, rows])


@pytest.mark.parametrize("kind", ["dense", "whole"])
def test_second_moments(kind):
    result = uses(kind)
    left, right = second_moments(result, 10)
    if kind == "dense":
        a, d = result[0].lhs, result[0].rhs
        truth = torch.einsum("btr,bts->rs", a, a), torch.einsum("btc,btd->cd", d, d)
    else:
        g = result[0]
        truth = torch.einsum("brc,bsc->rs", g, g), torch.einsum("brc,brd->cd", g, g)
    torch.testing.assert_close(left, truth[0])
    torch.testing.assert_close(right, truth[1])
    # Sides that are too large, or single rows, have none.
    assert (
        second_moments(uses("dense"), ROWS)[1] is None
        and second_moments(uses("ids"), 10)[0] is None
    )
