"""Killed between any two writes, an index or what is appended is finished by the same call."""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn
from zarr.storage import _local

import datassay as da
from datassay.errors import DatassayError
from datassay.score.index import segment

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR


@pytest.fixture(scope="module")
def asked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    x = torch.randn(36, 3)
    whole = da.SampleSet(x.numpy(), (x[:, 0] > 0).long().numpy(), np.arange(36), ("a", "b"))
    return model, whole.subset(np.arange(24)), whole.subset(np.arange(24, 36))


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def ended(work, folder, last):
    """How a child ends that is killed before its change number `last`; how many it made."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        number = 0

        def audit(event, args):
            nonlocal number
            writes = event == "open" and args[2] & WRITES
            if (writes or event in CHANGES) and str(folder) in str(args[0]):
                number += 1
                if number == last:
                    os.kill(os.getpid(), signal.SIGKILL)

        signal.alarm(120)
        sys.addaudithook(audit)
        try:
            work()
            os.write(writer, str(number).encode())
        finally:
            os._exit(0)
    os.close(writer)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(reader) as answer:
        return status, int(answer.read() or 0)


@pytest.mark.parametrize("what", ["index", "append"])
def test_whatever_a_kill_left_the_same_call_finishes(asked, tmp_path, monkeypatch, what):
    model, train, new = asked
    monkeypatch.setattr(segment, "MOST_SAMPLES", 8)
    whole = tmp_path / "whole"
    if what == "append":
        da.index(model, train, tmp_path / "before", bytes_per_sample=4)
        shutil.copytree(tmp_path / "before", whole)

    def work(folder):
        if what == "index":
            return da.index(model, train, folder, bytes_per_sample=4)
        return da.open_index(folder, model).append(new)

    status, n = ended(lambda: work(whole), whole, 0)
    assert status == 0 and n > 20
    for last in np.linspace(1, n, 5).astype(int):
        folder = tmp_path / str(last)
        if what == "append":
            shutil.copytree(tmp_path / "before", folder)
        assert ended(lambda folder=folder: work(folder), folder, last)[0] == -signal.SIGKILL
        with suppress(DatassayError):  # what reads it meanwhile is refused, or sees what is whole
            seen = len(da.open_index(folder, model))
            assert seen == len(train) or (what == "append" and seen == len(train) + len(new))
            if seen > len(train):
                continue
        work(folder)
        assert contents(folder) == contents(whole), last


def test_a_disk_that_was_full_once_is_gone_on_from(asked, tmp_path, monkeypatch):
    model, train, new = asked
    monkeypatch.setattr(segment, "MOST_SAMPLES", 8)
    da.index(model, train, tmp_path / "whole", bytes_per_sample=4).append(new)
    plain = _local._put

    for last in (3, 9):
        number, folder = 0, tmp_path / str(last)

        def full(*args, last=last, **given):
            nonlocal number
            number += 1
            if number == last:
                raise OSError(28, "No space left on device")
            return plain(*args, **given)

        monkeypatch.setattr(_local, "_put", full)
        with pytest.raises(DatassayError, match="No space left"):
            da.index(model, train, folder, bytes_per_sample=4)
        index, number = da.index(model, train, folder, bytes_per_sample=4), 0
        with pytest.raises(DatassayError, match="No space left"):
            index.append(new)
        index.append(new)
        assert contents(folder) == contents(tmp_path / "whole")


def test_a_clock_that_went_back_changes_no_index(asked, tmp_path, monkeypatch):
    model, train, new = asked
    da.index(model, train, tmp_path / "whole", bytes_per_sample=4).append(new)
    da.index(model, train, tmp_path / "index", bytes_per_sample=4)
    for path in (tmp_path / "index").rglob("*"):
        os.utime(path, (4e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    da.index(model, train, tmp_path / "index", bytes_per_sample=4).append(new)
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


def test_two_at_once_give_the_bits_of_one(asked, tmp_path):
    model, train, _ = asked
    da.index(model, train, tmp_path / "one", bytes_per_sample=4)
    children = []
    for _ in range(2):
        if not (child := os.fork()):
            signal.alarm(120)
            da.index(model, train, tmp_path / "both", bytes_per_sample=4)
            os._exit(0)
        children.append(child)
    assert not any(os.waitpid(child, 0)[1] for child in children)
    da.index(model, train, tmp_path / "both", bytes_per_sample=4)
    assert contents(tmp_path / "both") == contents(tmp_path / "one")
