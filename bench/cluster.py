"""The same scores by every engine: bits, deaths survived, and what handing the work over costs.

`python cluster.py nodes` scores Fashion-MNIST in this process, then on a Ray cluster of two nodes
of this machine whose workers, and then whose second node, are ended by SIGKILL while they compute.
`python cluster.py overhead` times every engine in a fresh process, in turn, with as many threads
a piece. Sizes and settings can be given: n=15000 m=2500 projection=1000 outputs=averaged.

Needs the extra `ray`; DATASSAY_DATA names the folder that holds fashion_mnist.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
from record import peak_mib, record
from scale import Stages

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "SPT_NOENV": "1"}
DEFAULTS = {"n": 15_000, "m": 5000, "projection": 1000, "model": "mlp", "outputs": "averaged"}
NODES = {"n": 4500, "m": 2500, "projection": 300}
# Of the progress reports that follow a result, those after which a worker is killed.
KILL_EVERY, WORKER_KILLS = 5, 8
# Chunks and panels are made small, so that there are many to lose.
SMALL_CHUNKS, SMALL_PANELS = 2**25, 2**23


def problem(given: dict):
    from datassay.data import load
    from datassay.models import build_model

    train, val = load(Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist")
    draw = np.random.default_rng(0)
    keep = np.sort(draw.permutation(len(train))[: given["n"]])
    asked = np.sort(draw.permutation(len(val))[: given["m"]])
    train, val = train.subset(keep), val.subset(asked)
    return build_model(given["model"], train, seed=0), train, val


def scores(given: dict, sets: tuple, engine, progress) -> tuple[str, dict[str, str]]:
    """The form, and a digest of every score's bytes."""
    import datassay as da
    from datassay.score import linear_influence

    settings = {"projection": given["projection"], "outputs": given["outputs"]}
    lin = da.collect(*sets, engine=engine, progress=progress, **settings)
    loo = da.leave_one_out(lin, progress=progress)
    issues = da.label_issues(lin, progress=progress)
    influence = linear_influence(lin, ridge=issues.ridge, progress=progress)
    information = da.sample_information(lin, loo=loo)
    found = {
        "information": (information.information,),
        "leave one out": (loo.held_out, loo.weight_change),
        "label issues": (issues.score, issues.held_out, issues.probability),
        "influence": (influence.mean, influence.variance, influence.kurtosis, influence.own),
    }
    digests = {k: hashlib.sha256(b"".join(a.tobytes() for a in v)) for k, v in found.items()}
    return lin.form.summary, {k: d.hexdigest() for k, d in digests.items()}


def case(engine: str, given: dict) -> dict[str, object]:
    """One engine, in this fresh process: what it took and what it gave."""
    import torch  # noqa: F401  (what every command has loaded before it computes)

    from datassay.collect import engine_named

    sets = problem(given)
    started = time.perf_counter()
    by = engine_named(engine)
    ready, stages = time.perf_counter(), Stages()
    summary, digests = scores(given, sets, by, stages)
    seconds = {"start": ready - started, "work": time.perf_counter() - ready}
    return {
        "form": summary,
        "digests": digests,
        "seconds": seconds,
        "stages": {name: round(s, 2) for name, s in stages.seconds.items()},
        "peak_mib": peak_mib(),
    }


def overhead(given: dict, repeats: int, engines: list[str]) -> None:
    found: dict[str, list] = {name: [] for name in engines}
    for _ in range(repeats):
        for name in engines:
            command = [sys.executable, __file__, "case", json.dumps([name, given])]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, found[name][-1]["seconds"], found[name][-1]["stages"], flush=True)
    calm = found["in_process"]
    least = {k: min(r["seconds"]["work"] for r in runs) for k, runs in found.items()}
    start = {k: min(r["seconds"]["start"] for r in runs) for k, runs in found.items()}
    same = all(r["digests"] == calm[0]["digests"] for runs in found.values() for r in runs)
    record(
        "cluster/overhead",
        **given,
        form=calm[0]["form"],
        seconds=least,
        seconds_to_start=start,
        overhead={k: s / least["in_process"] - 1 for k, s in least.items()},
        stages={k: runs[-1]["stages"] for k, runs in found.items()},
        peak_mib={k: max(r["peak_mib"] for r in runs) for k, runs in found.items()},
        same_bits=same,
    )
    assert same


class Killer:
    """A progress callback that ends workers, and then a node, in the middle of their work."""

    def __init__(self, cluster, second):
        self._cluster, self._second, self._reports = cluster, second, 0
        self.workers: list[str] = []
        self.nodes: list[str] = []

    def __call__(self, step: str, done: int, total: int) -> None:
        """Kill after some reports, where anything runs to be killed."""
        self._reports += 1
        if self._reports % KILL_EVERY or done == total:
            return
        if len(self.workers) < WORKER_KILLS and (pid := running_worker()):
            os.kill(pid, signal.SIGKILL)
            self.workers.append(step)
        if not self.nodes and len(self.workers) >= WORKER_KILLS // 2:
            self._cluster.remove_node(self._second, allow_graceful=False)
            self.nodes.append(step)


def running_worker() -> int | None:
    """A worker of this process's cluster that computes a piece at this moment."""
    for entry in Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if title.startswith(b"ray::_compute") and os.getpid() in ancestors(int(entry.name)):
                return int(entry.name)
        except OSError:
            continue
    return None


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def nodes(given: dict) -> None:
    import ray
    from ray.cluster_utils import Cluster

    from datassay.collect import choose_form, engine_named
    from datassay.progress import silent

    panels = import_module("datassay.score.linear.panels")  # to make its chunks small
    choose_form.WORKING_BYTES, panels.PANEL_BYTES = SMALL_CHUNKS, SMALL_PANELS
    sets = problem(given)
    started = time.perf_counter()
    summary, calm = scores(given, sets, "in_process", silent)
    seconds = {"in_process": time.perf_counter() - started}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        by, killer = engine_named("ray"), Killer(cluster, second)
        started = time.perf_counter()
        undisturbed = scores(given, sets, by, silent)[1]
        seconds["two nodes"] = time.perf_counter() - started
        started = time.perf_counter()
        disturbed = scores(given, sets, by, killer)[1]
        seconds["two nodes, killed"] = time.perf_counter() - started
    finally:
        ray.shutdown()
        cluster.shutdown()
    record(
        "cluster/nodes",
        **given,
        form=summary,
        nodes=2,
        seconds=seconds,
        worker_kills=len(killer.workers),
        node_kills=len(killer.nodes),
        killed_during=killer.workers + [f"node: {step}" for step in killer.nodes],
        same_bits={k: undisturbed[k] == disturbed[k] == calm[k] for k in calm},
    )
    assert undisturbed == disturbed == calm and killer.workers and killer.nodes


def main(arguments: list[str]) -> None:
    told = dict(a.split("=", 1) for a in arguments if "=" in a)
    repeats, engines = int(told.pop("repeats", 2)), told.pop("engines", "in_process,processes,ray")
    told = {k: int(v) if v.isdecimal() else v for k, v in told.items()}
    if "nodes" in arguments:
        nodes(DEFAULTS | NODES | told)
    if "overhead" in arguments:
        overhead(DEFAULTS | told, repeats, engines.split(","))


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(*json.loads(sys.argv[2])), default=float))
    else:
        main(sys.argv[1:])
