"""S3 Figs 2.8, 2.10: the sample complexity of every size, and what the plain loop would take.

`python papers/s3_grid.py CASE --store FOLDER` computes the sizes that the folder does not hold yet;
interrupt and repeat it at will. After each size the plain loop trains one student at each power of
two among its N, so that both times were taken on the same machine in the same minutes.
`s3_complexity.py` fits the laws and draws the figures from the same folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from s3_sequential import sequential_seconds

from datassay.collect import ResultStore
from datassay.complexity import ComplexityTable, Search, StudentRecipe, complexity_table

INPUTS = (5, 10, 15, 20, 25, 30, 35, 40)  # at width 5
WIDTHS = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 113, 160, 226, 320)  # at 5 inputs
SIZES = [*dict.fromkeys([(5, m) for m in WIDTHS] + [(d, 5) for d in INPUTS])]
# "adam" is METHODS' reading; "printed" is eq. 2.7 to the letter: plain descent on the sum over the
# samples, outputs divided by m. "descent" divides by √m as eq. 2.1 does; "units" measures the
# error by what eq. 2.6 takes for the variance of the outputs.
CASES = {
    "adam": StudentRecipe(),
    "printed": StudentRecipe(optimizer="sgd", reduction="sum", divisor="width"),
    "descent": StudentRecipe(optimizer="sgd", reduction="sum"),
    "adam units": StudentRecipe(variance="units"),
    "descent units": StudentRecipe(optimizer="sgd", reduction="sum", variance="units"),
}
TIMES = ("wall", "processor", "sequential", "sequential_students")


def search(case: str) -> Search:
    """S3's settings (10 teachers, 100 students, depth 4, R² 0.95, probability 0.5), or fewer."""
    students = 100 if case == "adam" else 30  # the other readings only have to show their shape
    return Search(recipe=CASES[case], n_students=students, max_samples=2048)


def grid(
    case: str, store: Path, sizes: list[tuple[int, int]]
) -> tuple[ComplexityTable, dict[str, np.ndarray]]:
    """The table of these sizes, and the seconds that each took.

    Args:
        case: a key of CASES.
        store: the folder of all cases.
        sizes: (d, m).

    Returns:
        The table, and by name of TIMES one value a size.
    """
    settings, folder = search(case), store / case.replace(" ", "-")
    times = ResultStore(folder / "seconds", settings.manifest())
    for d, m in sizes:
        name = f"inputs-{d}-width-{m}"
        if name in times:
            continue
        kept = (folder / "sizes" / f"{name}.npz").exists()  # stopped before its time was: unknown
        wall, processor = time.perf_counter(), time.process_time()
        one = complexity_table([(d, m)], settings, store=folder / "sizes").sizes[0]
        spent = time.perf_counter() - wall, time.process_time() - processor
        spent = (np.nan, np.nan) if kept else spent
        figures = (*spent, *sequential_seconds(one))
        times.put(name, {k: np.array(v) for k, v in zip(TIMES, figures, strict=True)})
        print(case, d, m, one.median, one.n_opt, [round(f, 2) for f in figures], flush=True)
    table = complexity_table(sizes, settings, store=folder / "sizes")
    pieces = [times.get(f"inputs-{d}-width-{m}") for d, m in sizes]
    return table, {k: np.array([float(p[k]) for p in pieces]) for k in TIMES}


def main() -> None:
    """Compute the missing sizes of the named cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", choices=list(CASES), default=["adam"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--vary", choices=["both", "inputs", "width"], default="both")
    parser.add_argument("--most-width", type=int, default=max(WIDTHS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kept = {"both": (1, 1), "inputs": (0, 1), "width": (1, 0)}[arguments.vary]
    sizes = [(d, m) for d, m in SIZES if (d == 5 and kept[0]) or (m == 5 and kept[1])]
    sizes = [(d, m) for d, m in sizes if m <= arguments.most_width]
    for case in arguments.cases:
        grid(case, arguments.store, sizes)


if __name__ == "__main__":
    sys.exit(main())
