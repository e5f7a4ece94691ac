"""All of Fashion-MNIST from files to page: seconds a stage, peak memory, and how time grows with n.

`python scale.py` runs n = 7500 to 60 000 (10 outputs, 10 000 validation images), each in a fresh
process, then fits the exponent. Sizes and settings can be given: `python scale.py 7500 15000
products=float64 projection=400 model=cnn`. What `run` does beyond the scores is left out: retrained
networks (`--curve-seeds 0`, as `datassay score` does) and effects on single predictions, which
"auto" leaves out at these sizes. How well wrong labels are found there: `real_noise.py`.

Set OMP_NUM_THREADS=2 on two idle cores; DATASSAY_DATA names the folder that holds fashion_mnist.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import peak_mib, record

SIZES = (7500, 15_000, 30_000, 60_000)
DEFAULTS = {"model": "mlp", "projection": "1787", "outputs": "averaged", "products": "auto"}


class Stages:
    """A progress callback that adds up the seconds between calls by the step that reported."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note a report."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now

    def lap(self, step: str) -> None:
        """The time since the last report belongs to this step."""
        self(step, 1, 1)


def samples(n: int):
    """The first n of a fixed shuffle of the training images, and all test images."""
    from datassay.data import load

    train, val = load(Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist")
    order = np.random.default_rng(0).permutation(len(train))[:n]
    return train.subset(np.sort(order)), val


def case(n: int, given: dict[str, str]) -> dict[str, object]:
    """One run from files to page; what it took."""
    started = time.perf_counter()
    stages = Stages()
    from datassay.commands import RunSettings, run, write_results

    stages.lap("import")
    train, val = samples(n)
    stages.lap("load")
    projection = None if given["projection"] == "none" else int(given["projection"])
    settings = RunSettings(curve_seeds=0, **{**given, "projection": projection})
    found = run(train, val, settings, stages)
    stages.lap("findings")
    with tempfile.TemporaryDirectory() as folder:
        page = write_results(found, Path(folder) / "out")
        size = page.stat().st_size
    stages.lap("page")
    return {
        "n": n,
        "m": len(val),
        "k": 10,
        "form": found.facts["Jacobian"],
        "scores": found.facts["Scores"],
        "influence": found.facts.get("Influence", ""),
        "seconds": time.perf_counter() - started,
        "stages": {name: round(s, 2) for name, s in stages.seconds.items()},
        "page_megabytes": size / 1e6,
        "peak_mib": peak_mib(),
    }


def fresh(n: int, given: dict[str, str]) -> dict[str, object]:
    """The case in a process of its own."""
    command = [sys.executable, __file__, "case", json.dumps([n, given])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str]) -> None:
    given = DEFAULTS | dict(a.split("=", 1) for a in arguments if "=" in a)
    sizes = [int(a) for a in arguments if a.isdecimal()] or list(SIZES)
    seconds = []
    for n in sizes:
        figures = fresh(n, given)
        seconds.append(figures["seconds"])
        record(f"scale/fashion {given['model']}", **figures)
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        record("scale/exponent", sizes=sizes, seconds=seconds, exponent=exponent, **given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(*json.loads(sys.argv[2])), default=float))
    else:
        main(sys.argv[1:])
