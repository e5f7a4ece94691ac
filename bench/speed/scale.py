"""All of Fashion-MNIST from files to page: seconds per stage, peak memory, growth of time with n.

n = 7500 to 60 000 (10 outputs, 10 000 validation images), each in a fresh process, then the
exponent is fitted. Settings can be given: `--set sizes=7500,15000 products=float64 projection=400
model=cnn`. What `run` does beyond the scores is left out: retrained networks and effects on single
predictions, which "auto" leaves out at these sizes. OMP_NUM_THREADS=2 on two idle cores.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from bench.run import fresh
from bench.stats import Stages

from datassay.commands import RunSettings, run, write_results
from datassay.data import SampleSet, load

SIZES = (7500, 15_000, 30_000, 60_000)
DEFAULTS = {"model": "mlp", "projection": 1787, "outputs": "averaged", "products": "auto"}


def samples(n: int) -> tuple[SampleSet, SampleSet]:
    """The first n of a fixed shuffle of the training images, and all test images."""
    train, val = load(folder("fashion_mnist"))
    order = np.random.default_rng(0).permutation(len(train))[:n]
    return train.subset(np.sort(order)), val


def whole(n: int, given: dict, work: Path) -> dict[str, object]:
    """One run from files to page; what it took."""
    started, stages = time.perf_counter(), Stages()
    train, val = samples(n)
    stages("load")
    findings = run(train, val, RunSettings(curve_seeds=0, **given), stages)
    stages("findings")
    page = write_results(findings, work / f"out {n}")
    stages("page")
    return {
        "n": n, "m": len(val), "k": 10, "form": findings.facts["Jacobian"],
        "scores": findings.facts["Scores"], "influence": findings.facts.get("Influence", ""),
        "seconds": time.perf_counter() - started,
        "stages": {name: round(s, 2) for name, s in stages.seconds.items()},
        "page_megabytes": page.stat().st_size / 1e6,
    }  # fmt: skip


def growing(options: Options) -> Iterator[tuple[str, dict]]:
    given = {name: options.value(name, default) for name, default in DEFAULTS.items()}
    sizes, seconds = options.value("sizes", SIZES), []
    for n in sizes:
        figures, peak = fresh(whole, n, given, options.work)
        seconds.append(figures["seconds"])
        yield f"fashion {given['model']}", {**figures, "peak_mib": peak}
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        yield "exponent", {"sizes": sizes, "seconds": seconds, "exponent": exponent, **given}


def rows(lines: dict[str, dict]) -> Row:
    largest = lines["scale/fashion mlp n=60000"]
    return Row(
        "All of Fashion-MNIST, 60 000 x 10 outputs, 4096 features: information, label issues "
        "and influence of every sample, files to page (time grows with n to the power)",
        f"{largest['seconds']:.0f} s, {largest['peak_mib'] / 1024:.1f} GiB "
        f"({lines['scale/exponent']['exponent']:.2f})",
    )


TASK = Task("all of Fashion-MNIST", {"sizes": Case(growing)}, lines="scale/", rows=rows)
