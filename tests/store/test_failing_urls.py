"""A URL whose requests fail now and then: one line, the same call goes on, no value is wrong."""

import re
from contextlib import suppress

import fsspec
import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from torch import nn

import datassay as da
from datassay.errors import DatassayError
from helpers.stores import check_all_there, full, opened

SAID = "503 Slow Down|do(es)? not read"
# What a request to an object store is, in fsspec's words.
REQUESTS = ("cat_file", "pipe_file", "info", "find")


@pytest.fixture
def requests(monkeypatch):
    """A function that makes a request fail by its number from now on, 0 for none; gives a count."""
    state = {"number": 0, "failing": 0}

    def answer(plain, *args, **given):
        state["number"] += 1
        if state["number"] == state["failing"]:
            raise OSError("503 Slow Down")
        return plain(*args, **given)

    def fail(failing):
        before = state["number"]
        state.update(number=0, failing=failing)
        return before

    for name in REQUESTS:
        plain = getattr(MemoryFileSystem, name)
        monkeypatch.setattr(
            MemoryFileSystem,
            name,
            lambda *args, _plain=plain, **given: answer(_plain, *args, **given),
        )
    yield fail
    fsspec.filesystem("memory").store.clear()


def attempt(work):
    """What an error says, in one line; "" where there is none."""
    try:
        work()
    except DatassayError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def test_a_store_goes_on_where_a_request_failed(requests):
    requests(0)
    full("memory://counted")
    number_of_requests = requests(0)
    assert number_of_requests > 10  # of older versions of Zarr fewer
    for failing in range(1, number_of_requests + 1, 8):
        place = f"memory://{failing}/store"
        requests(failing)
        said = attempt(lambda place=place: full(place))
        assert not said or re.search(SAID, said), said
        requests(0)
        check_all_there(full(place))
        requests(failing)
        with suppress(DatassayError):
            seen = opened(place).survey()  # what does not read now is computed again
            assert not seen.missing and len(seen.damaged) <= 1
        requests(0)
        check_all_there(opened(place))


@pytest.mark.slow
def test_an_index_goes_on_where_a_request_failed(requests):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    x = torch.randn(20, 3)
    train = da.SampleSet(x.numpy(), (x[:, 0] > 0).long().numpy(), np.arange(20), ("a", "b"))
    old, new, queries = (train.subset(np.arange(*rows)) for rows in ((0, 12), (12, 20), (0, 3)))

    def made(place):
        index = da.index(model, old, place, bytes_per_sample=4)
        if len(index) == len(old):
            index.append(new)
        return da.open_index(place, model).query(queries, top=None).effect

    requests(0)
    expected = made("memory://counted/index")
    number_of_requests = requests(0)
    assert number_of_requests > 60
    for failing in range(1, number_of_requests + 1, 12):
        place = f"memory://{failing}/index"
        requests(failing)
        said = attempt(lambda place=place: made(place))
        assert not said or re.search(SAID, said), said
        requests(0)
        np.testing.assert_array_equal(made(place), expected)
