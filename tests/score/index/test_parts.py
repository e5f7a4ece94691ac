"""Parts of an index by brute force: which coordinates, how many at once, what is held and said."""

import errno
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.collect.gradients.blocks import Block
from datassay.errors import DataError, ModelError
from datassay.score.index import search, segment
from datassay.score.index.encoding import encoding
from datassay.score.index.opened import Index
from datassay.score.influence.block_basis import BlockBasis
from helpers.counted import counted


@settings(deadline=None)
@given(st.integers(0, 999), st.sampled_from([0.2, 0.5, 0.9, 1.0]), st.integers(1, 15))
def test_the_fewest_coordinates_that_hold_the_share_are_kept(seed, share, most):
    rng = np.random.default_rng(seed)
    values = [rng.choice([0.0, 0.5, 1.0, 2.0, 4.0], size=n) for n in (4, 6, 3)]
    values[0][0] = 3.0
    bases = {
        str(n): BlockBasis(Block(str(n), (1, len(v)), ("a",)), None, None, None,
                           torch.as_tensor(v)[None], damping=1.0)
        for n, v in enumerate(values)
    }  # fmt: skip
    energy = np.concatenate([(v / (v + 1)) ** 2 for v in values])
    order = np.argsort(-energy, kind="stable")
    enough = [w for w in range(1, 14) if energy[order[:w]].sum() >= share * energy.sum() - 1e-15]
    n_kept = min(enough[0] if share < 1 else 13, most)
    kept = encoding(bases, share, most)
    starts = np.cumsum([0, *map(len, values)])
    found = np.concatenate([kept.coordinates[str(n)].numpy() + starts[n] for n in range(3)])
    assert found.tolist() == sorted(order[:n_kept]) and kept.width == n_kept
    assert kept.share == pytest.approx(energy[order[:n_kept]].sum() / energy.sum())
    for basis in bases.values():
        basis.eigenvalues.zero_()
    with pytest.raises(ModelError, match="every training sample's is 0"):
        encoding(bases, share, most)


@pytest.mark.parametrize("n", [1, 7, 1023, 1024, 1025, 2049, 100_000])
@pytest.mark.parametrize("row_bytes", [0, 1, 2**14, 2**14 + 1, 2**23, 2**24 + 1, 2**26])
def test_chunks_are_as_few_and_as_equal_as_can_be(n, row_bytes):
    limit = max(1, min(1024, 2**24 // max(row_bytes, 1)))
    size = segment.samples_of_chunk(n, row_bytes)
    n_chunks = ceil(n / min(limit, n))
    assert 1 <= size <= limit and size == ceil(n / n_chunks)


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


def stored(n, width, seed, size=5):
    """A segment of so many rows in chunks, and what was asked to be held."""
    rows = torch.randn(n, width, generator=torch.Generator().manual_seed(seed))
    chunks = [range(i, min(i + size, n)) for i in range(0, n, size)]
    held, part = [], object.__new__(segment.Segment)
    layout = SimpleNamespace(arrays={segment.ROWS: ((width,), np.dtype(np.float32))})
    part.n, part.store = n, SimpleNamespace(chunks=chunks, layout=layout)
    part.rows = lambda chunk, hold: held.append(hold) or rows[chunk.start : chunk.stop]
    return rows, held, part


def test_rows_are_held_where_a_quarter_of_the_memory_takes_them(monkeypatch):
    (first, held, one), (second, others, other) = stored(12, 3, 0), stored(7, 3, 1)
    for spare, holds in ((0, False), (1, True)):
        monkeypatch.setattr(search, "available_memory", lambda s=spare: 4 * 4 * 19 * 3 + s)
        parts, steps = counted(lambda progress: list(search.blocks([one, other], progress, "a")))
        assert [start for start, _ in parts] == [0, 5, 10, 12, 17] and steps == {"a": (5, 19)}
        assert torch.cat([rows for _, rows in parts]).equal(torch.cat([first, second]))
        assert {*held, *others} == {holds}
        held.clear(), others.clear()


@pytest.mark.parametrize("top", [1, 4, 7, 60])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("m", [8, 9])
def test_a_quarter_more_are_compared_again_where_many_are_compared_quickly(
    fast, m, top, monkeypatch
):
    monkeypatch.setattr(search, "FEW", 9)
    monkeypatch.setattr(search, "has_bfloat16", lambda: fast)
    rows, _, part = stored(40, 3, 2)
    asked, again = [], []

    class Noted(search._Best):
        def __init__(self, m, keep, *, largest):
            asked.append((keep, largest))
            super().__init__(m, keep, largest=largest)

        def recompute(self, start, rows, scaled):
            again.append(start)
            super().recompute(start, rows, scaled)

    monkeypatch.setattr(search, "_Best", Noted)
    queries = torch.randn(m, 3, generator=torch.Generator().manual_seed(3))
    found, total = search.largest([part], queries, 0.1, top, lambda *_: None)
    n_kept = min(top, 40)
    n_asked = min(40, n_kept + n_kept // 4 + 1) if fast and m >= 9 else n_kept
    assert asked == [(n_asked, True), (n_asked, False)] and bool(again) == (fast and m >= 9)
    effect = -0.1 * (rows.double() @ queries.double().T)
    np.testing.assert_allclose(total, effect.sum(1), atol=1e-6)
    best = effect.sort(0, descending=True).values
    np.testing.assert_allclose(found.raising_effect, best[:n_kept].T, atol=1e-6)
    np.testing.assert_allclose(found.lowering_effect, best.flip(0)[:n_kept].T, atol=1e-6)


@pytest.mark.parametrize(("high", "appended", "n_told"), [
    (None, 0.1, 0), (None, 0.11, 1), (0.9, 0.0, 0), (0.89, 0.0, 1), (0.89, 0.5, 2),
])  # fmt: skip
def test_narrow_rows_and_an_old_curvature_are_told_beyond_their_bounds(high, appended, n_told):
    agreement = None if high is None else {"mean": 0.5, "high": high}
    index = SimpleNamespace(rank_correlation=agreement, appended=appended, width=9)
    told = Index.warnings.fget(index)
    assert len(told) == n_told and (high != 0.89 or "rank correlation of 0.50" in told[0])
