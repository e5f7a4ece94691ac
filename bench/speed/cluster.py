"""The same scores by every engine: bits, deaths survived, and what handing the work over costs.

"nodes" scores Fashion-MNIST in this process, then on a Ray cluster of two nodes of this machine
whose workers, and then whose second node, are ended by SIGKILL while they compute. "overhead" times
every engine in a fresh process, in turn, with as many threads a piece. Sizes and settings can be
given: `--set n=15000 m=2500 projection=1000 outputs=averaged`. Needs the extra `ray`.
"""

import hashlib
import os
import signal
import time
from importlib import import_module
from pathlib import Path

import numpy as np
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from bench.run import fresh
from bench.stats import Stages

import datassay as da
from datassay.collect import choose_form, engine_named
from datassay.data import load
from datassay.models import build_model
from datassay.progress import silent
from datassay.score import linear_influence

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "SPT_NOENV": "1"}
DEFAULTS = {"n": 15_000, "m": 5000, "projection": 1000, "model": "mlp", "outputs": "averaged"}
NODES = {"n": 4500, "m": 2500, "projection": 300}
ENGINES = ("in_process", "processes", "ray")
# Of the progress reports that follow a result, those after which a worker is killed.
KILL_EVERY, WORKER_KILLS = 5, 8
# Chunks and panels are made small, so that there are many to lose.
SMALL_CHUNKS, SMALL_PANELS = 2**25, 2**23


def problem(given: dict):
    train, val = load(folder("fashion_mnist"))
    draw = np.random.default_rng(0)
    keep = np.sort(draw.permutation(len(train))[: given["n"]])
    wanted = np.sort(draw.permutation(len(val))[: given["m"]])
    train, val = train.subset(keep), val.subset(wanted)
    return build_model(given["model"], train, seed=0), train, val


def scores(given: dict, sets: tuple, engine, progress) -> tuple[str, dict[str, str]]:
    """The form, and a digest of every score's bytes."""
    settings = {"projection": given["projection"], "outputs": given["outputs"]}
    lin = da.collect(*sets, engine=engine, progress=progress, **settings)
    loo = da.leave_one_out(lin, progress=progress)
    issues = da.label_issues(lin, progress=progress)
    influence = linear_influence(lin, ridge=issues.ridge, progress=progress)
    results = {
        "information": (da.sample_information(lin, loo=loo).information,),
        "leave one out": (loo.held_out, loo.weight_change),
        "label issues": (issues.score, issues.held_out, issues.probability),
        "influence": (influence.mean, influence.variance, influence.kurtosis, influence.own),
    }
    digests = {k: hashlib.sha256(b"".join(a.tobytes() for a in v)) for k, v in results.items()}
    return lin.form.summary, {k: d.hexdigest() for k, d in digests.items()}


def by_engine(engine: str, given: dict) -> dict:
    """One engine, in this fresh process: what it took and what it gave."""
    sets, started = problem(given), time.perf_counter()
    by = engine_named(engine)
    ready, stages = time.perf_counter(), Stages()
    form, digests = scores(given, sets, by, stages)
    work = time.perf_counter() - ready
    return {"form": form, "digests": digests, "start": ready - started, "work": work,
            "stages": {name: round(s, 2) for name, s in stages.seconds.items()}}  # fmt: skip


def overhead(options: Options) -> dict[str, object]:
    given = {name: options.value(name, default) for name, default in DEFAULTS.items()}
    engines = options.value("engines", ENGINES)
    results: dict[str, list[dict]] = {name: [] for name in engines}
    for _ in range(options.repeats or 2):
        for name in engines:
            result, peak = fresh(by_engine, name, given)
            results[name].append({**result, "peak": peak})
    calm = results["in_process"][0]
    same = all(r["digests"] == calm["digests"] for runs in results.values() for r in runs)
    assert same
    seconds = {k: min(r["work"] for r in runs) for k, runs in results.items()}
    return {
        **given, "form": calm["form"], "seconds": seconds,
        "seconds_to_start": {k: min(r["start"] for r in runs) for k, runs in results.items()},
        "overhead": {k: s / seconds["in_process"] - 1 for k, s in seconds.items()},
        "stages": {k: runs[-1]["stages"] for k, runs in results.items()},
        "peak_mib": {k: max(r["peak"] for r in runs) for k, runs in results.items()},
        "same_bits": same,
    }  # fmt: skip


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
    results = []
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        results.append(pid)
    return results


def nodes(options: Options) -> dict[str, object]:
    import ray
    from ray.cluster_utils import Cluster

    defaults = DEFAULTS | NODES
    given = {name: options.value(name, default) for name, default in defaults.items()}
    panels = import_module("datassay.score.linear.panels")  # to make its chunks small
    choose_form.WORKING_BYTES, panels.PANEL_BYTES = SMALL_CHUNKS, SMALL_PANELS
    sets, results, seconds = problem(given), {}, {}

    def timed(name: str, engine, progress) -> None:
        started = time.perf_counter()
        results[name] = scores(given, sets, engine, progress)
        seconds[name] = time.perf_counter() - started

    timed("in_process", "in_process", silent)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        by, killer = engine_named("ray"), Killer(cluster, second)
        timed("two nodes", by, silent)
        timed("two nodes, killed", by, killer)
    finally:
        ray.shutdown()
        cluster.shutdown()
    (form, calm), digests = results["in_process"], [d for _, d in results.values()]
    assert all(d == calm for d in digests) and killer.workers and killer.nodes
    return {
        **given, "form": form, "nodes": 2, "seconds": seconds,
        "worker_kills": len(killer.workers), "node_kills": len(killer.nodes),
        "killed_during": killer.workers + [f"node: {step}" for step in killer.nodes],
        "same_bits": {k: all(d[k] == calm[k] for d in digests) for k in calm},
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    nodes, overhead = lines["cluster/nodes"], lines["cluster/overhead"]["overhead"]
    return Row(
        f"Two Ray nodes, {nodes['worker_kills']} workers and {nodes['node_kills']} node "
        "killed; time compared with this process alone: local processes, Ray",
        f"{'bit-identical' if all(nodes['same_bits'].values()) else 'differs'}; "
        f"{overhead['processes']:+.0%}, {overhead['ray']:+.0%}",
    )


TASK = Task(
    measure="scores by every engine",
    cases={"nodes": Case(nodes), "overhead": Case(overhead)},
    lines="cluster/",
    rows=rows,
)
