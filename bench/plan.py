"""Does the plan hold? Planned and measured seconds and peak memory of runs in fresh processes.

`python plan.py` takes every case, `python plan.py digits "features 15000"` those whose names are
given. A case is planned in one process and run, from samples to page, in another; a line in
results.jsonl holds predicted and measured seconds and bytes of each step and in all, and their
ratios (predicted / measured). `python plan.py fit` reads the last line of each case and prints what
the steps' seconds would have to be multiplied by: the geometric mean over the cases, a step.

Set OMP_NUM_THREADS=2 on two idle cores; DATASSAY_DATA names the folder that holds fashion_mnist.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import RESULTS, record
from scale import samples

# Name → training samples of Fashion-MNIST (None: digits), validation samples, settings of the run.
CASES = {
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
    "multiply features": "decompose",
    "decompose": "decompose",
    "leave each sample out": "leave one out",
    "judge the labels": "label issues",
    "multiply weighted": "label issues",
    "judge the labels again": "label issues",
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
        if step == "decompose" and self._current not in ("collect", "decompose"):
            step = "label issues"  # of the kernel averaged for them, where that of the run is joint
        # A report of nothing done says that what came before has ended.
        self.lap(self._current if done == 0 else step)

    def lap(self, step: str) -> None:
        """The time since the last report, and the peak since then, belong to this step."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self.bytes[step] = max(self.bytes.get(step, 0.0), peak_since())
        self._current, self._last = step, now


def peak_since() -> float:
    """Most bytes this process has held since the last call; Linux."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what is held now
            return float(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def case_of(name: str, folder: str):
    from datassay.commands import RunSettings
    from datassay.data import load

    n, m, given = CASES[name]
    train, val = load("digits") if n is None else samples(n, 0.0)
    if m is not None:
        val = val.subset(np.arange(m))
    store = f"{folder}/{given['store']}" if "store" in given else None
    return train, val, RunSettings(**{**given, "store": store})


def planned(name: str, folder: str) -> dict[str, object]:
    """What the plan says of a case."""
    from datassay.commands import plan

    found = plan(*case_of(name, folder))
    seconds: dict[str, float] = {}
    held: dict[str, float] = {}
    for step in found.steps:
        into = WITHIN.get(step.name, step.name)
        seconds[into] = seconds.get(into, 0.0) + step.seconds
        held[into] = max(held.get(into, 0.0), step.bytes)
    peak = found.peak_bytes
    return {"form": found.form.summary, "seconds": seconds, "bytes": held, "peak": peak}


def measured(name: str, folder: str) -> dict[str, object]:
    """What the run takes, from samples to page."""
    from datassay.commands import run, write_results

    train, val, settings = case_of(name, folder)
    steps = Steps()
    steps.lap("program")
    steps.seconds.clear()
    found = run(train, val, settings, steps)
    steps.lap("page")
    write_results(found, Path(folder) / "out")
    steps.lap("page")
    held = steps.bytes
    return {"seconds": steps.seconds, "bytes": held, "peak": max(held.values())}


def compared(name: str) -> None:
    """Plan a case, run it, record both."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (fresh(what, name, folder) for what in ("planned", "measured"))
    totals = [sum(of["seconds"].values()) for of in (ours, theirs)]
    steps = {
        step: [round(v, 2) for v in (ours["seconds"].get(step, 0.0), seconds)]
        for step, seconds in theirs["seconds"].items()
    }
    held = {
        step: [round(v / 1e6) for v in (ours["bytes"].get(step, 0.0), most)]
        for step, most in theirs["bytes"].items()
    }
    record(
        f"plan/{name}",
        form=ours["form"],
        seconds_planned=totals[0],
        seconds=totals[1],
        seconds_ratio=totals[0] / totals[1],
        peak_megabytes_planned=ours["peak"] / 1e6,
        peak_megabytes=theirs["peak"] / 1e6,
        peak_ratio=ours["peak"] / theirs["peak"],
        step_seconds=steps,
        step_megabytes=held,
    )


def fresh(what: str, name: str, folder: str) -> dict:
    command = [sys.executable, __file__, what, name, folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def fit() -> None:
    """What to multiply each step's planned seconds by, from the last line of each case."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    last = {line["bench"]: line for line in lines if line["bench"].startswith("plan/")}
    ratios: dict[str, dict[str, float]] = {}
    for name, line in last.items():
        for step, (ours, theirs) in line["step_seconds"].items():
            if ours and theirs:
                ratios.setdefault(step, {})[name] = theirs / ours
    for step, each in ratios.items():
        mean = float(np.exp(np.mean(np.log(list(each.values())))))
        print(
            f"{step}: x {mean:.2f}", {n.removeprefix("plan/"): round(r, 2) for n, r in each.items()}
        )


if __name__ == "__main__":
    if sys.argv[1:2] in (["planned"], ["measured"]):
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:4])))
    elif sys.argv[1:2] == ["fit"]:
        fit()
    else:
        for name in sys.argv[1:] or CASES:
            compared(name)
