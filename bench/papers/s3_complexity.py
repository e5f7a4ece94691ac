"""S3 Figs 2.5, 2.6, 2.8-2.10: laws of the sample complexity, from the sizes that a store holds.

`s3_grid.py` fills the store; this takes minutes off nobody: it fits, records and draws.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from figure import curves
from record import record
from s3_grid import CASES, SIZES, grid, search

from datassay.collect import ResultStore
from datassay.complexity import ComplexityTable, Law, fit_joint_law, fit_laws

NAMES = {"inputs": "d", "width": "m"}


def held(case: str, store: Path) -> list[tuple[int, int]]:
    """The sizes that the store has."""
    folder = store / case.replace(" ", "-") / "seconds"
    times = ResultStore(folder, search(case).manifest())
    return [(d, m) for d, m in SIZES if f"inputs-{d}-width-{m}" in times]


def along(table: ComplexityTable, vary: str) -> tuple[np.ndarray, np.ndarray]:
    """The sizes and rows of the table that vary one of d and m, the other at 5."""
    size, other = (
        (table.n_inputs, table.width) if vary == "inputs" else (table.width, table.n_inputs)
    )
    rows = np.flatnonzero(other == 5)
    rows = rows[np.argsort(size[rows])]
    return size[rows], rows


def figures_of(law: Law) -> dict[str, object]:
    """What is recorded of a law."""
    return {
        "formula": law.formula,
        "r_squared": law.r_squared,
        "r_squared_interval": law.r_squared_interval,
        **{f"{k}_interval": v for k, v in law.interval.items()},
    }


def fit_and_draw(case: str, table: ComplexityTable, vary: str) -> None:
    """The laws of one figure, with bisection (10 teachers) and without (the first teacher)."""
    size, rows = along(table, vary)
    n_opt, t = table.n_opt[rows], NAMES[vary]
    if len(size) < 4:
        return
    laws = fit_laws(size, n_opt, name=t)
    doubled = fit_laws(size, table.n_doubled[rows, :1], name=t, n_resamples=1)
    medians = np.array([table.sizes[i].median for i in rows])
    record(
        f"papers/s3_complexity/{case} against {vary}",
        sizes=size,
        median=medians,
        least=n_opt.min(1),
        most_recovered=np.where(np.isfinite(n_opt), n_opt, 0).max(1),
        not_recovered=np.isinf(n_opt).sum(1),
        laws=[{"kind": law.kind, **figures_of(law)} for law in laws],
        doubled_first_teacher=table.n_doubled[rows, 0],
        laws_without_bisection=[
            {"kind": law.kind, "formula": law.formula, "r_squared": law.r_squared}
            for law in doubled
        ],
    )
    law = next(law for law in laws if law.kind == ("linear" if vary == "inputs" else "log"))
    x = size.astype(float) if vary == "inputs" else np.log(size)
    finite = np.where(np.isfinite(n_opt), n_opt, np.nan)
    curves(
        f"s3_complexity_{case.replace(' ', '_')}_{vary}",
        f"Samples to recover a teacher: {law.formula}, R² {law.r_squared:.3f}",
        {
            "median of 10 teachers": (x, medians),
            "law": (x, law.n_samples(size)),
            "least": (x, np.nanmin(finite, 1)),
            "most recovered": (x, np.nanmax(finite, 1)),
        },
        x_title=t if vary == "inputs" else "log m",
        y_title="samples N",
    )


def record_times(case: str, table: ComplexityTable, times: dict[str, np.ndarray]) -> None:
    """The grid's time against the plain loop's, measured size by size in the same run."""
    timed = np.isfinite(times["processor"])
    times = {name: values[timed] for name, values in times.items()}
    ratio = times["sequential"] / times["processor"]
    joint = fit_joint_law(table.n_inputs, np.maximum(table.width, 2), table.n_opt)
    record(
        f"papers/s3_grid/{case}",
        sizes=[list(s) for s in zip(table.n_inputs.tolist(), table.width.tolist(), strict=True)],
        sizes_timed=int(timed.sum()),
        processor_seconds=times["processor"].sum(),
        wall_seconds=times["wall"].sum(),
        sequential_processor_seconds=times["sequential"].sum(),
        times_faster=times["sequential"].sum() / times["processor"].sum(),
        least_times_faster=ratio.min(),
        most_times_faster=ratio.max(),
        sequential_students_timed=times["sequential_students"].sum(),
        students_trained=sum(len(s.trial_samples) for s in table.sizes) * search(case).n_students,
        joint_law=figures_of(joint),
        note="one thread beside other work; sequential: one student at each power of two, scaled",
    )


def main() -> None:
    """Fit, record and draw every case that the store holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--store", type=Path, required=True)
    arguments = parser.parse_args()
    for case in arguments.cases:
        sizes = held(case, arguments.store)
        if len(sizes) < 4:
            continue
        table, times = grid(case, arguments.store, sizes)
        record_times(case, table, times)
        fit_and_draw(case, table, "inputs")
        fit_and_draw(case, table, "width")


if __name__ == "__main__":
    main()
