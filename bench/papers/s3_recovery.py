"""S3 Figs 2.2-2.4 and 2.7: recovery R² (Algorithm 3) and probability of recovery on grids."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from figure import curves
from record import record

from datassay.complexity import StudentRecipe, recovery_r2

TEACHERS, STUDENTS = 5, 10
# Figure, what runs along the axis with its values, what each line is with its values, what is
# fixed: S3's captions name m = 30 and N = 200 for Fig. 2.2 and nothing for the others.
GRIDS = (
    ("2_2a", "d", (2, 5, 10, 20, 30, 40), "N", (50, 100, 200, 400), {"m": 30}),
    ("2_2b", "d", (2, 5, 10, 20, 30, 40), "m", (2, 5, 15, 50), {"N": 200}),
    ("2_3a", "m", (2, 3, 5, 8, 15, 30, 60), "N", (25, 50, 100, 200), {"d": 10}),
    ("2_3b", "m", (2, 3, 5, 8, 15, 30, 60), "d", (5, 10, 20, 30), {"N": 200}),
    ("2_4a", "N", (12, 25, 50, 100, 200, 400), "d", (5, 10, 20, 30), {"m": 5}),
    ("2_4b", "N", (12, 25, 50, 100, 200, 400), "m", (2, 5, 15, 50), {"d": 5}),
)
Measured = dict[tuple[int, int, int], tuple[float, float, float]]


def measure(done: Measured, d: int, m: int, n: int) -> tuple[float, float, float]:
    """Mean R², median R² and share of recovered students of one (d, m, N), computed once."""
    if (d, m, n) not in done:
        r2 = recovery_r2(d, m, n, n_teachers=TEACHERS, n_students=STUDENTS)
        done[d, m, n] = float(r2.mean()), float(np.median(r2)), float((r2 > 0.95).mean())
    return done[d, m, n]


def draw(name: str, title: str, x: np.ndarray, lines: dict[str, list[float]], axis: str) -> None:
    """One panel; R² below −0.2 would squeeze the rest: cut off there, in the picture only."""
    shown = {k: (x, np.maximum(v, -0.2)) for k, v in lines.items()}
    curves(f"s3_recovery_{name}", title, shown, x_title=axis, y_title="")


def losses() -> None:
    """Algorithm 1 with plain descent on the mean (2.2), the sum, and the sum divided by m (2.7)."""
    descent = StudentRecipe(optimizer="sgd")
    readings = {
        "mean (2.2)": descent,
        "sum": replace(descent, reduction="sum"),
        "sum, divisor m (2.7)": replace(descent, reduction="sum", divisor="width"),
        "adam": StudentRecipe(),
    }
    samples = (24, 48, 96, 192, 384)
    found = {}
    for name, recipe in readings.items():
        few = {"n_teachers": TEACHERS, "n_students": STUDENTS, "recipe": recipe}
        r2 = [recovery_r2(5, 5, n, **few) for n in samples]
        found[name] = {
            "mean_r2": [float(r.mean()) for r in r2],
            "recovered": [float((r > 0.95).mean()) for r in r2],
        }
    record("papers/s3_recovery/losses", inputs=5, width=5, samples=samples, **found)


def main() -> None:
    """Every panel, one line each in the results."""
    torch.set_num_threads(1)
    losses()
    if "losses" in sys.argv[1:]:
        return
    done: Measured = {}
    for figure, axis, xs, line, values, fixed in GRIDS:
        began = time.process_time()
        rows = {
            f"{line} = {v}": [measure(done, **_sizes({axis: x, line: v, **fixed})) for x in xs]
            for v in values
        }
        mean_r2, median_r2, probability = (
            {name: [r[k] for r in v] for name, v in rows.items()} for k in range(3)
        )
        record(
            f"papers/s3_recovery/Fig. {figure.replace('_', '.')}",
            axis=axis,
            values=xs,
            fixed=fixed,
            mean_r2=mean_r2,
            median_r2=median_r2,
            probability=probability,
            teachers=TEACHERS,
            students=STUDENTS,
            processor_seconds=time.process_time() - began,
        )
        where = ", ".join(f"{k} = {v}" for k, v in fixed.items())
        draw(figure, f"Mean recovery R², {where}", np.array(xs, float), mean_r2, axis)
        if figure.startswith("2_4"):
            name = figure.replace("2_4", "2_7")
            draw(name, f"Probability of recovery, {where}", np.array(xs, float), probability, axis)


def _sizes(by_letter: dict[str, int]) -> dict[str, int]:
    return {"d": by_letter["d"], "m": by_letter["m"], "n": by_letter["N"]}


if __name__ == "__main__":
    main()
