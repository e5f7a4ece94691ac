"""Does the plan hold? Planned and measured seconds and peak memory of runs in fresh processes.

A case is planned in one process and run, from samples to page, in another; a line of results.jsonl
holds predicted and measured seconds and bytes of each step and in all, and their ratios (predicted
/ measured). Case "fit" reads the last line of each and gives what the steps' seconds would have to
be multiplied by: the geometric mean over the cases, a step. OMP_NUM_THREADS=2 on two idle cores.
"""

import time
from functools import partial
from pathlib import Path

import numpy as np
from bench.frame import Case, Options, Row, Task
from bench.record import latest
from bench.run import fresh
from bench.speed.scale import samples
from bench.stats import memory, new_peak

from datassay.commands import RunSettings, plan, run, write_results
from datassay.data import load

# Name → training samples of Fashion-MNIST (None: digits), validation samples, settings of the run.
PLANNED = {
    "digits": (None, None, {}),
    "joint kernel 400": (400, 500, {"curve_seeds": 0, "outputs": "joint", "projection": None}),
    "kernel 2000": (2000, 1000, {"curve_seeds": 1}),
    "kernel 2000, store": (2000, 1000, {"curve_seeds": 0, "store": "kept"}),
    "kernel 6000": (6000, 1000, {"curve_seeds": 0}),
    "features 15000": (15_000, 10_000, {"curve_seeds": 0}),
    "features 15000, store": (15_000, 10_000, {"curve_seeds": 0, "store": "kept"}),
    "features 30000": (30_000, 10_000, {"curve_seeds": 0}),
    "features 30000, store, 1.5 GB": (
        30_000, 10_000, {"curve_seeds": 0, "store": "kept", "memory": 1.5e9, "projection": 1787},
    ),
    "features 15000, cnn": (15_000, 10_000, {"curve_seeds": 0, "model": "cnn"}),
}  # fmt: skip
# What reports progress → the step of the plan; other reports are of retraining.
STEPS = {
    "collect Jacobians": "collect",
    "multiply features": "eigendecomposition",
    "eigendecomposition": "eigendecomposition",
    "leave each sample out": "leave one out",
    "estimate label noise": "label issues",
    "multiply weighted": "label issues",
    "estimate label noise again": "label issues",
    "influence on others": "influence",
}
# Steps of the plan that the run does in one go with an earlier one.
WITHIN = {"store": "collect", "attribution": "leave one out"}


class Steps:
    """A progress callback that notes each step's seconds and the most memory it held."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, float] = {}
        self._current, self._last = "program", time.perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Note a report: the time since the last one went to the step that reports now."""
        step = STEPS.get(what, "retrain")
        if step == "eigendecomposition" and self._current not in ("collect", "eigendecomposition"):
            step = "label issues"  # of the kernel averaged for them, where that of the run is joint
        # A report of nothing done says that what came before has ended.
        self.lap(self._current if done == 0 else step)

    def lap(self, step: str) -> None:
        """The time since the last report, and the peak since then, belong to this step."""
        now, held = time.perf_counter(), memory("VmHWM") * 2**20
        new_peak()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self.bytes[step] = max(self.bytes.get(step, 0.0), held)
        self._current, self._last = step, now


def of(name: str, work: Path):
    n, m, given = PLANNED[name]
    train, val = load("digits") if n is None else samples(n)
    if m is not None:
        val = val.subset(np.arange(m))
    store = str(work / "kept") if "store" in given else None
    return train, val, RunSettings(**{**given, "store": store})


def planned(name: str, work: Path) -> dict:
    result, seconds, held = plan(*of(name, work)), {}, {}
    for step in result.steps:
        into = WITHIN.get(step.name, step.name)
        seconds[into] = seconds.get(into, 0.0) + step.seconds
        held[into] = max(held.get(into, 0.0), step.bytes)
    form = result.form.summary
    return {"form": form, "seconds": seconds, "bytes": held, "peak": result.peak_bytes}


def taken(name: str, work: Path) -> dict:
    train, val, settings = of(name, work)
    steps = Steps()
    steps.lap("program")
    steps.seconds.clear()
    findings = run(train, val, settings, steps)
    steps.lap("page")
    write_results(findings, work / "out")
    steps.lap("page")
    return {"seconds": steps.seconds, "bytes": steps.bytes, "peak": max(steps.bytes.values())}


def compared(name: str, options: Options) -> dict[str, object]:
    ours, theirs = (fresh(what, name, options.work)[0] for what in (planned, taken))
    totals = [sum(result["seconds"].values()) for result in (ours, theirs)]

    def pairs(key: str, unit: float, digits: int | None) -> dict[str, list[float]]:
        return {
            step: [round(v / unit, digits) for v in (ours[key].get(step, 0.0), value)]
            for step, value in theirs[key].items()
        }

    return {
        "form": ours["form"], "seconds_planned": totals[0], "seconds": totals[1],
        "seconds_ratio": totals[0] / totals[1], "peak_megabytes_planned": ours["peak"] / 1e6,
        "peak_megabytes": theirs["peak"] / 1e6, "peak_ratio": ours["peak"] / theirs["peak"],
        "step_seconds": pairs("seconds", 1, 2), "step_megabytes": pairs("bytes", 1e6, None),
    }  # fmt: skip


def fit(options: Options) -> None:
    """What to multiply each step's planned seconds by, from the last line of each case."""
    ratios: dict[str, dict[str, float]] = {}
    for name, line in latest().items():
        for step, (ours, theirs) in line.get("step_seconds", {}).items():
            if ours and theirs:
                ratios.setdefault(step, {})[name.removeprefix("plan/")] = round(theirs / ours, 2)
    for step, each in ratios.items():
        print(f"{step}: x {np.exp(np.mean(np.log(list(each.values())))):.2f}", each)


def rows(lines: dict[str, dict]) -> Row:
    plans = [line for name, line in lines.items() if name.startswith("plan/")]
    ends = [
        f"{min(ratios):.2f} to {max(ratios):.2f}"
        for ratios in ([x[f"{what}_ratio"] for x in plans] for what in ("seconds", "peak"))
    ]
    what = f"Planned against measured, {len(plans)} cases: seconds, peak memory"
    return Row(what, ", ".join(ends))


TASK = Task(
    measure="planned against measured seconds and memory",
    cases={**{name: Case(partial(compared, name)) for name in PLANNED}, "fit": Case(fit)},
    lines="plan/",
    rows=rows,
)
