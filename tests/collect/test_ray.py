"""A Ray cluster of two nodes: the same bits as in this process, whoever dies meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason='needs pip install "datassay[ray]"')

# In a process of its own: a cluster starts threads, and warns, as this test run must not.
SCRIPT = """
import os, signal, sys
from pathlib import Path
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
import numpy as np, ray, torch
from ray.cluster_utils import Cluster
torch.set_num_threads(1)
from datassay.collect.engine.processes import engine_named
from datassay.collect.engine.base import IN_PROCESS
from datassay.errors import ModelError, SettingError
import helpers.engines as t

folder = Path(sys.argv[1])
def threads(number):
    torch.set_num_threads(number)
    engine_named("ray")

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
by = engine_named("ray", address=None)
for sizes in t.SMALL:
    setattr(*sizes)

def dies_once(shared, piece):
    mark = folder / f"died-{piece}"
    if piece in {1, 4} and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.full((3,), shared * piece)

expected = t.collected("in_process")
t.has_several_pieces(expected)
t.same_bits(t.collected(by), expected)
t.same_bits(t.collected(by, store=folder / "store", memory=1e5), expected)
assert [int(v[0]) for v in by.map(dies_once, 2.0, range(6))] == [0, 2, 4, 6, 8, 10]
for mark in folder.glob("died-*"):
    mark.unlink()
total = by.sum(dies_once, 1.0, range(6), lambda piece: None)
assert total.tolist() == [15.0] * 3 and total.add_(1).tolist() == [16.0] * 3
assert len(list(folder.glob("died-*"))) == 2
model, train, val = t.problem()
with torch.no_grad():
    model[-1].weight[0, 0] = float("nan")
try:
    t.collect(model, train, val, projection=9, engine=by)
    raise AssertionError
except ModelError as error:
    assert "samples s0, s1" in str(error), error
for wrong in (lambda: engine_named("ray", workers=2), lambda: threads(3)):
    try:
        wrong()
        raise AssertionError
    except SettingError as error:
        print(error)
ray.shutdown()
cluster.shutdown()
print("all is well")
sys.stdout.flush()
os._exit(0)  # nothing of what ends with the process counts
"""


@pytest.mark.slow
def test_a_cluster_of_two_nodes_gives_the_same_bits_though_workers_die(tmp_path):
    here = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([here, *sys.path]), "OMP_NUM_THREADS": "1"},
        timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    message = done.stdout
    assert "all is well" in message
    assert "workers belongs to a Ray that starts here; got 2" in message
    assert "a node must have a core for each of a piece's 3 threads" in message
