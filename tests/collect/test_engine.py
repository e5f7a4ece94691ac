"""Who computes the pieces does not matter: the same bits, the same errors, one tree of sums."""

import operator
import os
import signal
import sys
import threading
import time

import joblib
import numpy as np
import pytest
import torch

from datassay.collect.collection import collect
from datassay.collect.engine.base import IN_PROCESS, Engine, tree_sum
from datassay.collect.engine.parcel import LARGE, compute, pack, parcel, unpack
from datassay.collect.engine.processes import engine_named
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.score.linear.eigenbasis import eigenbasis
from datassay.store.features import DamagedChunk, FeatureStore
from helpers.collecting import network
from helpers.engines import SMALL, collected, has_several_pieces, problem, same_bits


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    for sizes in SMALL:
        monkeypatch.setattr(*sizes)


@pytest.fixture(scope="module")
def processes():
    return engine_named("processes", workers=2)


@pytest.mark.slow
def test_processes_give_the_same_bits_write_into_a_store_and_read_from_it(
    processes, tmp_path, monkeypatch
):
    expected = collected("in_process")
    has_several_pieces(expected)
    lin = collected(processes)
    assert lin.engine is processes and lin.subset(np.arange(9)).engine is processes
    assert type(unpack(pack(processes))) is Engine
    same_bits(lin, expected)

    def put(*_):
        raise AssertionError("the workers write, not this process")

    monkeypatch.setattr(FeatureStore, "put", put)
    lin = collected(processes, store=tmp_path, memory=1e5)
    assert lin.form.products.in_store
    same_bits(lin, expected)
    next(f for f in tmp_path.glob("train_jacobian.projected/c/1/**/*") if f.is_file()).unlink()
    again = eigenbasis(lin).sent
    with pytest.raises(DamagedChunk, match=r"chunk 1: jacobian\.projected is not what was"):
        list(processes.map(read, again, [slice(0, 70), slice(70, 150)]))


def read(basis, part):
    return basis.rows[part]


class Scaled(torch.nn.Module):
    """Of no file that a worker could import, and counts its calls in a buffer."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.network, self.factor = network(), factor
        self.register_buffer("calls", torch.zeros(2 * LARGE))

    def forward(self, x):
        return self.factor * self.network(x)


@pytest.mark.slow
def test_networks_of_a_script_travel_with_their_code(processes):
    _, train, val = problem()
    expected = collect(Scaled(2.0), train, val, projection=9)
    lin = collect(Scaled(2.0), train, val, projection=9, engine=processes)
    assert torch.equal(lin.outputs, expected.outputs)


OWN = """
from torch import nn
import datassay_sibling

class Net(nn.Sequential):
    pass

def net():
    return Net(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3 + datassay_sibling.NONE))
"""


@pytest.mark.slow
def test_workers_run_modules_of_the_current_folder_only_where_they_are_named(tmp_path, monkeypatch):
    """joblib's workers begin with the current folder on their search path."""
    joblib.externals.loky.get_reusable_executor().shutdown()
    for name in ("random", "json", "heapq", "numpy", "torch"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')"
        )
    (tmp_path / "datassay_engine_net.py").write_text(OWN)
    (tmp_path / "datassay_sibling.py").write_text("NONE = 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    _, train, val = problem()
    model = build_model("datassay_engine_net:net", train)
    by = engine_named("processes", workers=2)
    lin = collect(model, train, val, projection=9, engine=by)
    assert torch.equal(lin.outputs, collect(model, train, val, projection=9).outputs)
    assert not (tmp_path / "ran").exists() and "PYTHONSAFEPATH" not in os.environ


def fails(_, piece):
    time.sleep(0.2 if piece == 1 else 0)
    if piece == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    if piece:
        raise ModelError(f"piece {piece} is wrong.")
    return piece


@pytest.mark.slow
def test_failures_of_workers(processes):
    """The first error in order is told, not the first in time; and a worker that dies."""
    with pytest.raises(ModelError, match="piece 1 is wrong"):
        list(processes.map(fails, None, range(4)))
    with pytest.raises(SettingError, match="worker processes must live until the last piece"):
        list(processes.map(fails, None, [0, 0, 9, 0]))
    assert list(processes.map(operator.add, 1, [1, 2])) == [2, 3]
    model, *_ = problem()
    model.lock = threading.Lock()
    with pytest.raises(SettingError, match="one that workers can be sent; that raised TypeError"):
        list(processes.map(operator.add, model, [1, 2]))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_the_tree_is_fixed_and_holds_few_sums(n):
    assert tree_sum(map(str, range(5)), lambda a, b: f"({a}{b})") == "(((01)(23))4)"
    values = [torch.randn(3, generator=torch.Generator().manual_seed(i)) for i in range(n)]
    result = IN_PROCESS.sum(lambda shared, i: values[i].clone(), None, range(n), lambda i: None)
    torch.testing.assert_close(result, torch.stack(values).sum(0))


def test_parcels_leave_large_arrays_out_and_keep_their_layout():
    large = torch.arange(LARGE, dtype=torch.float32)
    columns, network = torch.randn(300, 200).double().T, Scaled()
    value = {"large": large, "columns": columns, "small": np.arange(3), "network": network}
    arrays = pack(value)
    assert len(arrays) == 3 and arrays[1].nbytes == 4 * LARGE
    for array in arrays:
        array.flags.writeable = False  # as they come from Ray
    result = unpack(arrays)
    assert torch.equal(result["large"], large) and result["large"].data_ptr() == large.data_ptr()
    assert result["columns"].stride() == columns.stride()
    result["network"].calls += 1  # its own, whoever sent it
    assert float(network.calls.max()) == 0


def test_pieces_run_with_the_threads_of_who_sent_them_on_machines_of_one_kind(monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        of, arrays = parcel(threads, None)
        torch.set_num_threads(2)
        assert unpack(compute(of, 0, arrays)) == 1
    finally:
        torch.set_num_threads(before)
    of, arrays = parcel(threads, None)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "ABACUS")
    with pytest.raises(SettingError, match=r"workers must be machines of one kind.*ABACUS"):
        compute(of, 0, arrays)


def threads(*_):
    return torch.get_num_threads()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("spark", {}, r"engine must be one of in_process, .*got 'spark'"),
        ("processes", {"address": "here:1"}, "address belongs to engine 'ray'"),
        ("in_process", {"workers": 2}, "workers must be at least 1, for engine 'processes' or"),
        ("processes", {"workers": 0}, "workers must be at least 1"),
        ("ray", {}, r"run pip install ray"),
    ],
)
def test_engines_are_named(name, settings, message, monkeypatch):
    assert engine_named("in_process") is IN_PROCESS
    monkeypatch.setitem(sys.modules, "ray", None)  # not installed
    monkeypatch.delitem(sys.modules, "datassay.collect.engine.ray_cluster", raising=False)
    with pytest.raises(SettingError, match=message):
        engine_named(name, **settings)
