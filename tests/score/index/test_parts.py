"""Parts of an index by brute force: how many at once, what is held and said."""

import errno
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

import datassay as da
from datassay.errors import DataError
from datassay.score.index import encoding, fidelity, search, segment
from datassay.score.index.opened import Index
from datassay.score.index.sketch import Sketch
from helpers.counted import counted


@pytest.mark.parametrize("n", [1, 7, 1023, 1024, 1025, 2049, 100_000])
@pytest.mark.parametrize("row_bytes", [0, 1, 2**14, 2**14 + 1, 2**23, 2**24 + 1, 2**26])
def test_chunks_are_as_few_and_as_equal_as_can_be(n, row_bytes):
    limit = max(1, min(1024, 2**24 // max(row_bytes, 1)))
    size = segment.samples_of_chunk(n, row_bytes)
    n_chunks = ceil(n / min(limit, n))
    assert 1 <= size <= limit and size == ceil(n / n_chunks)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.02, 0.3, 5.0])
def test_weights_are_those_of_the_least_squared_error(noise):
    """Of all that are not negative, of Σ (1 − a)² s² + ν (Σ a s)²."""
    for seed in range(4):
        s = torch.rand(30, generator=torch.Generator().manual_seed(seed)).double() ** 3
        s[3] = s[4]
        rows = np.vstack([np.diag(s), noise**0.5 * s])
        wanted, _ = nnls(rows, np.append(s, 0.0))
        np.testing.assert_allclose(encoding._weigh_coordinates(s, noise), wanted, atol=1e-7)
    assert encoding._weigh_coordinates(torch.tensor([2.0, 0.0]), noise)[1] == (noise == 0)


@pytest.mark.parametrize("n_used", [0, 1, 3, 7])
def test_rows_of_weights_that_a_batch_does_not_use_are_zeros(n_used):
    draw = torch.Generator().manual_seed(n_used)
    used = torch.randperm(7, generator=draw)[:n_used].sort().values
    dense = torch.zeros(4, 7, 3)
    dense[:, used] = torch.randn(4, n_used, 3, generator=draw)
    idx = torch.randperm(21, generator=draw)[:9].sort().values
    picked = encoding._pick(dense[:, used].flatten(1), used, idx, 3)
    assert picked.equal(dense.flatten(1)[:, idx])
    assert encoding._pick(dense.flatten(1), None, idx, 3).equal(picked)
    inverse = torch.rand(7, 3, generator=draw)
    coder = encoding.GradientEncoding({}, {"a": inverse}, {}, {}, Sketch(1, 1, 1, 0))
    length = (dense.square() * inverse).sum((1, 2)).double()
    for rows, which in ((dense[:, used], used), (dense, None)):
        found = coder._squared_norm("a", rows.flatten(1), which)
        torch.testing.assert_close(found, length, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_queries_are_whole_numbers_where_sums_of_their_products_are(bits, monkeypatch):
    monkeypatch.setattr(search, "has_int8", lambda: True)
    for width, is_whole in ((2 ** (23 - bits), True), (2 ** (24 - bits), False)):
        rows = torch.randn(2, width, generator=torch.Generator().manual_seed(bits))
        rows[1] = 0
        queries, _ = search.prepare_rows(Sketch(width, width, bits, 0), [(rows, torch.zeros(2))])
        assert (len(queries.planes) == 2) == is_whole
        if is_whole:
            upper, lower = (plane.double() for plane in queries.planes)
            back = (256 * upper + lower) * queries.unit[:, None]
            unit = rows.abs().amax(1, keepdim=True) / (127 * 256)
            assert ((back - rows).abs() <= 0.501 * unit).all() and upper.abs().max() == 127


@pytest.mark.parametrize(("n", "most", "expected"), [
    (39, 99, None), (40, 99, (10, 30)), (400, 99, (64, 256)), (400, 50, (50, 256)),
    (400, 4, (5, 256)), (300, 99, (64, 236)),
])  # fmt: skip
def test_as_many_are_compared_as_there_are_up_to_bounds(n, most, expected, monkeypatch):
    monkeypatch.setattr(fidelity, "MOST_VALUES", 6 * most + 5)  # of queries of 6 weights
    torch.manual_seed(0)
    model, x = torch.nn.Linear(5, 1), torch.randn(n, 5)
    index = da.index(model, (x, x[:, 0] + torch.randn(n)), bytes_per_sample=2**10)
    assert index.fidelity is expected or (*index.fidelity.values(),)[-2:] == expected


def test_the_mean_correlation_by_hand():
    draw = np.random.default_rng(0)
    exact, ours = draw.normal(size=(2, 30, 8))
    ours += 2 * exact
    exact[:, 6:], ours[:, 7] = 3.0, -1.0  # one constant: 0, both: 1
    each = [*(np.corrcoef(a, b)[0, 1] for a, b in zip(exact.T[:6], ours.T[:6], strict=True)), 0, 1]
    half = 1.96 * np.std(each, ddof=1) / 8**0.5
    wanted = {"mean": np.mean(each), "low": np.mean(each) - half, "queries": 8, "samples": 30}
    wanted["high"] = min(1.0, np.mean(each) + half)
    assert fidelity._summarise_correlation(exact, ours) == pytest.approx(wanted)
    assert fidelity._summarise_correlation(exact[:, :6], exact[:, :6])["high"] == 1


@pytest.mark.parametrize("code", [errno.ENOTEMPTY, errno.EACCES, None])
def test_a_folder_that_others_write_to_is_removed_until_it_is_gone(code, monkeypatch):
    asked = []

    def rm(root, *, recursive):
        asked.append(recursive)
        if len(asked) < 3:
            raise FileNotFoundError(root) if code is None else OSError(code, "busy")

    files = SimpleNamespace(exists=lambda root: len(asked) < 3, rm=rm)
    monkeypatch.setattr(segment, "file_system", lambda location: (files, location))
    if code == errno.EACCES:
        with pytest.raises(DataError):
            segment.remove_folder("ix/sums")
    else:
        segment.remove_folder("ix/sums")
        assert asked == [True] * 3


def stored(n, n_bytes, seed, size=5):
    """A segment of so many rows in chunks, and what was asked to be held."""
    rows = np.random.default_rng(seed).integers(0, 256, (n, n_bytes), np.uint8)
    chunks = [range(i, min(i + size, n)) for i in range(0, n, size)]
    held, part = [], object.__new__(segment.Segment)
    layout = SimpleNamespace(arrays={segment.ROWS: ((n_bytes,), np.dtype(np.uint8))})
    part.n, part.store = n, SimpleNamespace(chunks=chunks, layout=layout)

    def read(chunk, holds):
        held.append(holds)
        return rows[chunk.start : chunk.stop], np.ones(len(chunk), np.float32)

    part.rows = read
    return rows, held, part


def test_rows_are_held_where_a_quarter_of_the_memory_takes_them(monkeypatch):
    (first, held, one), (second, others, other) = stored(12, 3, 0), stored(7, 3, 1)
    for spare, holds in ((0, False), (1, True)):
        monkeypatch.setattr(search, "available_memory", lambda s=spare: 4 * 19 * (3 + 4) + s)
        parts, steps = counted(lambda progress: list(search.read_chunks([one, other], progress)))
        assert [start for start, _, _ in parts] == [0, 5, 10, 12, 17]
        assert steps == {"compare with the index": (5, 19)}
        assert (np.concatenate([rows for _, rows, _ in parts]) == [*first, *second]).all()
        assert {*held, *others} == {holds}
        held.clear(), others.clear()


@pytest.mark.parametrize(("high", "appended", "n_told"), [
    (None, 0.1, 0), (None, 0.11, 1), (0.9, 0.0, 0), (0.89, 0.0, 1), (0.89, 0.5, 2),
])  # fmt: skip
def test_narrow_rows_and_an_old_curvature_are_told_beyond_their_bounds(high, appended, n_told):
    agreement = None if high is None else {"mean": 0.5, "high": high}
    sketch = SimpleNamespace(n_bytes=9)
    index = SimpleNamespace(fidelity=agreement, appended=appended, sketch=sketch)
    told = Index.warnings.fget(index)
    assert len(told) == n_told and (high != 0.89 or "correlation of 0.50" in told[0])
