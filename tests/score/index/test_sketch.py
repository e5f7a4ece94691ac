"""Rows of few bits: what is packed comes back, and products are off by what is said."""

import numpy as np
import pytest
import torch

from datassay.score.index import search
from datassay.score.index.sketch import Sketch, hadamard, sketches

# Coordinates, numbers of a row, bits.
SIZES = [(40, 64, 32), (64, 64, 8), (64, 64, 4), (64, 64, 2), (64, 64, 1), (100, 64, 1),
         (256, 64, 1)]  # fmt: skip


def unpacked(chosen, y):
    packed, scale = chosen.pack(y)
    assert packed.shape == (len(y), chosen.n_bytes) and packed.dtype == np.uint8
    return (chosen.levels(packed).double() + chosen.offset) * torch.from_numpy(scale)[:, None]


def test_hadamards_matrix_is_orthogonal_and_of_one_size():
    for width in (8, 16, 128):
        matrix = hadamard(torch.eye(width).double())
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(width).double())
        torch.testing.assert_close(matrix.abs(), torch.full_like(matrix, width**-0.5))


def test_sizes_are_those_that_bytes_allow():
    def sizes(*given):
        return [(s.n_coordinates, s.width, s.bits) for s in sketches(*given, 0)]

    assert sizes(100, 16) == [(4, 4, 32), (16, 16, 8), (32, 32, 4), (64, 64, 2), (100, 128, 1)]
    assert [sizes(n, 64)[1][:2] for n in (1, 8, 9)] == [(1, 8), (8, 8), (9, 16)]
    for n, padded in ((64, 64), (100, 128)):
        for n_bytes in range(1, 70):  # as wide as bytes and coordinates allow, each once
            chosen = sizes(n, n_bytes)
            assert len({*chosen}) == len(chosen)
            for _, width, bits in chosen:
                assert width * bits <= 8 * n_bytes
                assert width == padded or 2 * width * bits > 8 * n_bytes
    assert sizes(1000, 1) == [(1, 1, 8), (2, 2, 4), (4, 4, 2), (8, 8, 1), (16, 8, 1), (32, 8, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_products_are_off_by_the_variance_that_is_said(size):
    draw = torch.Generator().manual_seed(0)
    errors = []
    for seed in range(40):
        chosen = Sketch(*size, seed)
        first, second = torch.randn(2, 50, chosen.n_coordinates, generator=draw).double()
        first += second / 2
        y, other = (chosen.mix(c * chosen.signs()) for c in (first, second))
        products = (unpacked(chosen, y) * other).sum(1)
        lengths = first.norm(dim=1) * second.norm(dim=1)
        errors.append((products - (first * second).sum(1)) / lengths)
    errors = torch.cat(errors)
    spread = errors.square().mean()
    assert abs(float(errors.mean())) < 4 * float(errors.std()) / len(errors) ** 0.5 + 1e-7
    if chosen.bits == 32:
        assert spread < 1e-12
    else:  # of rounding normal numbers: the largest of a row of 64 is a smaller step of 8 bits
        assert 0.3 * chosen.noise < spread < 1.15 * chosen.noise


@pytest.mark.parametrize("size", SIZES)
def test_a_rows_bits_do_not_depend_on_the_rows_beside_it(size):
    chosen = Sketch(*size, 0)
    c = torch.randn(23, chosen.n_coordinates, generator=torch.Generator().manual_seed(1))
    c[3], c[4, 1:], c[5, 2:] = 0, 0, 0  # all 0, and such that half of y is
    packed, scale = chosen.pack(chosen.mix(c))
    for at in (slice(0, 1), slice(3, 6), slice(5, 23)):
        some, some_scale = chosen.pack(chosen.mix(c[at]))
        assert (some == packed[at]).all() and (some_scale == scale[at]).all()
    assert not unpacked(chosen, chosen.mix(c[3:4])).any()
    # Rows with the same product with themselves as before.
    y = chosen.mix(c).double()
    torch.testing.assert_close(
        (unpacked(chosen, y) * y).sum(1), y.square().sum(1), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_no_number_is_none_in_products(monkeypatch, size, fast):
    monkeypatch.setattr(search, "has_int8", lambda: fast)
    chosen = Sketch(*size, 0)
    y = torch.randn(4, chosen.width, generator=torch.Generator().manual_seed(2))
    y[1, 3], y[2, 5] = torch.nan, torch.inf
    packed, scale = chosen.pack(y)
    queries, _ = search.prepare_rows(chosen, [(y, torch.zeros(4))])
    products = queries.products(
        chosen.levels(packed), torch.from_numpy(scale), slice(0, 4), is_coarse=False
    )
    is_number = torch.tensor([True, False, False, True])
    assert products.isfinite().equal(is_number[:, None] & is_number)


def test_signs_are_the_same_on_every_machine():
    signs = Sketch(12, 16, 1, 7).signs()
    assert signs.tolist() == Sketch(40, 16, 1, 7).signs()[:12].tolist()
    assert signs.tolist() == [-1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1]
    assert abs(float(Sketch(10_000, 16, 1, 0).signs().mean())) < 0.05
