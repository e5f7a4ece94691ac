"""Parts of an index: how many samples a chunk holds, and how a folder is removed."""

import errno
from math import ceil
from types import SimpleNamespace

import pytest

from datassay.errors import DataError
from datassay.score.index import segment


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
