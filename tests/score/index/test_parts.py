"""Parts of an index by brute force: how many at once, what is held and said."""

import errno
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest

from datassay.errors import DataError
from datassay.score.index import search, segment
from datassay.score.index.opened import Index
from helpers.counted import counted


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


def stored(n, n_bytes, seed, size=5):
    """A segment of so many rows in chunks, and what was asked to be held."""
    rows = np.random.default_rng(seed).integers(0, 256, (n, n_bytes), np.uint8)
    chunks = [range(i, min(i + size, n)) for i in range(0, n, size)]
    held, part = [], object.__new__(segment.Segment)
    layout = SimpleNamespace(arrays={segment.ROWS: ((n_bytes,), np.dtype(np.uint8))})
    part.n, part.store = n, SimpleNamespace(chunks=chunks, layout=layout)

    def read(chunk, hold):
        held.append(hold)
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
