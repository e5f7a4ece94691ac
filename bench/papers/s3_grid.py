"""S3 Figs 2.5 to 2.10: sample complexity of every size, its laws, and what a plain loop would take.

Sizes that --work holds are not computed again; interrupt and repeat it at will. After each size the
plain loop trains one student at each power of two among its N, so that both times were taken on the
same machine in the same minutes. `--set sizes=inputs`, or `width`, takes one axis alone.
"""

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task

from datassay.collect import ResultStore
from datassay.complexity import (
    ComplexityTable,
    Law,
    SampleComplexity,
    Search,
    StudentRecipe,
    Teachers,
    complexity_table,
    draw_networks,
    fit_joint_law,
    fit_laws,
)

INPUTS = (5, 10, 15, 20, 25, 30, 35, 40)  # at width 5
WIDTHS = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 113, 160, 226, 320)  # at 5 inputs
SIZES = [*dict.fromkeys([(5, m) for m in WIDTHS] + [(d, 5) for d in INPUTS])]
GRID = [(d, m) for d in (4, 8, 12, 16) for m in (2, 5, 10, 20)]  # eq. 2.14 away from its axes
# "adam" is METHODS' reading; "printed" is eq. 2.7 to the letter: plain descent on the sum over the
# samples, outputs divided by m. "descent" divides by √m as eq. 2.1 does; "units" measures the
# error by what eq. 2.6 takes for the variance of the outputs.
RECIPES = {
    "adam": StudentRecipe(),
    "printed": StudentRecipe(optimizer="sgd", reduction="sum", divisor="width"),
    "descent": StudentRecipe(optimizer="sgd", reduction="sum"),
    "adam units": StudentRecipe(variance="units"),
    "descent units": StudentRecipe(optimizer="sgd", reduction="sum", variance="units"),
    "grid": StudentRecipe(),
}
TIMES = ("wall", "processor", "sequential", "sequential_students")
NAMES = {"inputs": "d", "width": "m"}


def search(case: str) -> Search:
    """S3's settings (10 teachers, 100 students, depth 4, R² 0.95, probability 0.5), or fewer."""
    students = 100 if case == "adam" else 30  # the other readings only have to show their shape
    return Search(recipe=RECIPES[case], n_students=students, max_samples=2048)


# The plain loop. ----------------------------------------------------------------------------


def train_one(teachers: Teachers, teacher: int, n: int, recipe: StudentRecipe) -> float:
    """Seconds of one thread that one student's epochs took, by autograd and torch.optim."""
    rng = teachers.stream(teacher, n)
    x = torch.as_tensor(rng.standard_normal((2 * n, teachers.n_inputs)))[:n].float()
    y = (x @ torch.as_tensor(teachers.weights(teacher)).float()).relu().sum(1) / teachers.width**0.5
    start = draw_networks(rng, 1, teachers.n_inputs, teachers.width)[0]
    w = torch.as_tensor(start).float().requires_grad_()
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.SGD
    optimizer = kind([w], lr=recipe.lr)
    began = time.thread_time()
    for _ in range(recipe.epochs):
        optimizer.zero_grad()
        error = (x @ w).relu().sum(1) / teachers.width**0.5 - y
        loss = error.square().mean() if recipe.reduction == "mean" else error.square().sum()
        (loss / teachers.width if recipe.divisor == "width" else loss).backward()
        optimizer.step()
    return time.thread_time() - began


def sequential_seconds(result: SampleComplexity) -> tuple[float, int]:
    """What all trials of one size would take, from one student at each power of two among its N.

    An N between two powers is charged what the lower one takes, which favours this loop. Seconds of
    one thread for all students, and how many students were trained to tell.
    """
    given = result.search
    teachers = Teachers(result.n_inputs, result.width, given.seed)
    powers = 2 ** np.floor(np.log2(result.trial_samples)).astype(int)
    seconds = {n: train_one(teachers, 0, n, given.recipe) for n in np.unique(powers).tolist()}
    each = np.array([seconds[n] for n in powers.tolist()])
    return float(each.sum()) * given.n_students, len(seconds)


# The grid and its laws. ---------------------------------------------------------------------


def grid(case: str, options: Options) -> tuple[ComplexityTable, dict[str, np.ndarray]]:
    """The table of all sizes, and by name of TIMES the seconds that each took."""
    torch.set_num_threads(1)
    settings, folder = search(case), options.work / case.replace(" ", "-")
    times, axis = ResultStore(folder / "seconds", settings.manifest()), options.value("sizes", "")
    wanted = {"inputs": 1, "width": 0}.get(axis)
    sizes = [size for size in SIZES if wanted is None or size[wanted] == 5]
    sizes = GRID if case == "grid" else sizes
    for d, m in sizes:
        name = f"inputs-{d}-width-{m}"
        if name in times:
            continue
        kept = (folder / "sizes" / f"{name}.npz").exists()  # stopped before its time was: unknown
        wall, processor = time.perf_counter(), time.process_time()
        one = complexity_table([(d, m)], settings, store=folder / "sizes").sizes[0]
        spent = time.perf_counter() - wall, time.process_time() - processor
        figures = (*((np.nan, np.nan) if kept else spent), *sequential_seconds(one))
        times.put(name, {k: np.array(v) for k, v in zip(TIMES, figures, strict=True)})
        print(case, d, m, one.median, one.n_opt, [round(f, 2) for f in figures], flush=True)
    pieces = [times.get(f"inputs-{d}-width-{m}") for d, m in sizes]
    table = complexity_table(sizes, settings, store=folder / "sizes")
    return table, {k: np.array([float(p[k]) for p in pieces]) for k in TIMES}


def figures_of(law: Law) -> dict[str, object]:
    return {"formula": law.formula, "r_squared": law.r_squared,
            "r_squared_interval": law.r_squared_interval,
            **{f"{k}_interval": v for k, v in law.interval.items()}}  # fmt: skip


def laws_along(table: ComplexityTable, vary: str) -> dict[str, object]:
    """The laws of one figure, with bisection (10 teachers) and without (the first teacher)."""
    size, other = (table.n_inputs, table.width)[:: 1 if vary == "inputs" else -1]
    rows = np.flatnonzero(other == 5)
    rows = rows[np.argsort(size[rows])]
    size, n_opt, t = size[rows], table.n_opt[rows], NAMES[vary]
    laws = fit_laws(size, n_opt, name=t)
    doubled = fit_laws(size, table.n_doubled[rows, :1], name=t, n_resamples=1)
    medians = np.array([table.sizes[i].median for i in rows])
    return {
        "sizes": size, "median": medians, "least": n_opt.min(1),
        "most_recovered": np.where(np.isfinite(n_opt), n_opt, 0).max(1),
        "not_recovered": np.isinf(n_opt).sum(1),
        "laws": [{"kind": law.kind, **figures_of(law)} for law in laws],
        "doubled_first_teacher": table.n_doubled[rows, 0],
        "laws_without_bisection": [
            {"kind": law.kind, "formula": law.formula, "r_squared": law.r_squared}
            for law in doubled
        ],
    }  # fmt: skip


def times_of(case: str, table: ComplexityTable, times: dict[str, np.ndarray]) -> dict[str, object]:
    """The grid's time against the plain loop's, measured size by size in the same run."""
    timed = np.isfinite(times["processor"])
    times = {name: values[timed] for name, values in times.items()}
    ratio, sums = times["sequential"] / times["processor"], {k: v.sum() for k, v in times.items()}
    joint = fit_joint_law(table.n_inputs, np.maximum(table.width, 2), table.n_opt)
    return {
        "sizes": [list(s) for s in zip(table.n_inputs.tolist(), table.width.tolist(), strict=True)],
        "sizes_timed": int(timed.sum()), "processor_seconds": sums["processor"],
        "wall_seconds": sums["wall"], "sequential_processor_seconds": sums["sequential"],
        "times_faster": sums["sequential"] / sums["processor"], "least_times_faster": ratio.min(),
        "most_times_faster": ratio.max(), "sequential_students_timed": sums["sequential_students"],
        "students_trained": sum(len(s.trial_samples) for s in table.sizes)
        * search(case).n_students,
        "joint_law": figures_of(joint),
    }  # fmt: skip


def measured(case: str, options: Options) -> Iterator[tuple[str, dict]]:
    table, times = grid(case, options)
    yield f"s3_grid/{case}", times_of(case, table, times)
    for vary in NAMES:
        if ((table.width if vary == "inputs" else table.n_inputs) == 5).sum() >= 4:
            yield f"s3_complexity/{case} against {vary}", laws_along(table, vary)


def rows(lines: dict[str, dict]) -> Row:
    grid = lines["papers/s3_grid/adam"]
    inputs, width = (lines[f"papers/s3_complexity/adam against {name}"] for name in NAMES)
    best, linear = inputs["laws"][0], next(x for x in inputs["laws"] if x["kind"] == "linear")
    most = int(np.argmax(width["median"]))
    return Row(
        f"Samples N that recover a teacher network: {grid['sizes_timed']} sizes, 10 teachers x "
        "100 students, one thread (against one student after the other); best law in the d inputs "
        "(a line); from the hardest to the largest width m, where S3 has N grow as log m",
        f"{grid['processor_seconds']:.0f} s ({grid['times_faster']:.0f} times faster); "
        f"{best['formula']}, R² {best['r_squared']:.3f} ({linear['r_squared']:.3f}); N falls from "
        f"{width['median'][most]:.0f} at m = {width['sizes'][most]} to {width['median'][-1]:.0f} "
        f"at m = {width['sizes'][-1]}",
    )


TASK = Task(
    measure="S3 chapter 2: sample complexity",
    cases={case: Case(partial(measured, case)) for case in RECIPES},
    lines="papers/",
    rows=rows,
)
