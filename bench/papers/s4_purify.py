"""Purification (S4 Figs 4, 6, 8): accuracy and V against samples removed, and where rules stop.

One trace to 45 % removed a case and ranking; every stopping rule is then read off the same trace.
"validation" sees 200 further samples of the same mixture. Loss ranking stands beside influence.

    python papers/s4_purify.py [sd2 sd3 sd2_light pure digits digits_pure] [--draws 5]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s4_tasks
from figure import curves
from record import record

from datassay.act import (
    held_out_stop,
    held_out_threshold,
    inflection_stop,
    mean_interval,
    purify,
    validation_stop,
)
from datassay.data import SampleSet, sd_mixture
from datassay.models import linear, n_outputs

Draw = Callable[[int], tuple[SampleSet, SampleSet, SampleSet | None]]


@dataclass(frozen=True)
class Case:
    """A training set as the paper has it, and fresh draws of the same kind."""

    name: str
    figure: int | None
    own: Callable[[], tuple[SampleSet, SampleSet]] | None  # the paper's files
    fresh: Draw
    ridge: float
    orders: tuple[str, ...]
    asked: tuple[float, float] | None = None  # peak on fresh draws, on the paper's files


def mixture(*sizes: int) -> Draw:
    return lambda seed: (
        sd_mixture(sizes, seed=seed),
        sd_mixture((2000,), seed=1000 + seed),
        sd_mixture(tuple(round(200 * s / sum(sizes)) for s in sizes), seed=2000 + seed),
    )


def digits(wrong: float) -> Draw:
    def draw(seed: int) -> tuple[SampleSet, SampleSet, None]:
        return *s4_tasks.digits_4_8(seed, 600, wrong), None

    return draw


CASES = [
    Case(
        "sd2", 6, lambda: s4_tasks.paper_sd("2spec"), mixture(700, 300), 1e-4,
        ("auto", "fixed", "loss"), (0.89, 0.86),
    ),
    Case(
        "sd3", 8, lambda: s4_tasks.paper_sd("3spec"), mixture(700, 150, 150), 1e-4,
        ("auto", "fixed", "loss"), (0.88, 0.854),
    ),
    Case("sd2_light", None, None, mixture(900, 100), 1e-4, ("auto", "loss")),
    Case(
        "pure", None, lambda: s4_tasks.paper_sd("pure"), mixture(1000), 1e-4, ("auto", "loss"),
    ),
    Case(
        "digits", 4, s4_tasks.paper_digits, digits(0.3), 1e-2,
        ("auto", "loss"), (0.957, 0.957),
    ),
    Case("digits_pure", None, None, digits(0.0), 1e-2, ("auto", "loss")),
]  # fmt: skip


def wrong(samples: SampleSet) -> np.ndarray | None:
    """Which samples are foreign, where it is known."""
    if samples.true_y is not None:
        return samples.true_y != samples.y
    return None if samples.source is None else samples.source != "function 1"


def traced(case: Case, order: str, train: SampleSet, test: SampleSet, val: SampleSet | None):
    """A full trace, and what every rule makes of it."""
    start = time.perf_counter()
    most = 0.1 if "pure" in case.name else 0.45
    model = linear(train.input_shape, n_outputs(train))
    found = purify(
        model, train, val, test=test, order=order, stop="none", ridge=case.ridge, max_fraction=most
    )
    trace = found.trace
    told = held_out_stop(trace.surprise[1:], held_out_threshold(train.n_classes))
    stops = {
        "held_out": len(trace.test) - 1 if told is None else told,
        "inflection": inflection_stop(trace.variance),
    }
    if val is not None:
        stops["validation"] = validation_stop(trace.validation)
    figures = {
        "order": found.order,
        "start": trace.test[0],
        "peak": trace.test.max(),
        "peak_removed": trace.removed[trace.test.argmax()],
        **{f"accuracy_{rule}": trace.test[s] for rule, s in stops.items()},
        **{f"removed_{rule}": trace.removed[s] for rule, s in stops.items()},
        "variance_start": trace.variance[0],
        "seconds": time.perf_counter() - start,
    }
    foreign = wrong(train)
    if foreign is not None and stops["held_out"]:
        figures["precision"] = foreign[found.removed[: trace.removed[stops["held_out"]]]].mean()
    return figures, trace


def interval(values: list[float]) -> list[float]:
    """Mean and its 95 % t interval."""
    mean, half = mean_interval(np.array(values))
    return [mean, mean - half, mean + half]


def own_files(case: Case) -> None:
    assert case.own is not None
    train, test = case.own()
    lines, variances = {}, {}
    for order in case.orders:
        figures, trace = traced(case, order, train, test, None)
        record(
            f"papers/s4_purify/{case.name}, the paper's files, {order}",
            n=len(train),
            ridge=case.ridge,
            damping=0.01,
            asked=case.asked and case.asked[1],
            **figures,
        )
        lines[f"{figures['order']}"] = (trace.removed, trace.test)
        variances[f"{figures['order']}"] = (trace.removed, trace.variance / trace.variance[0])
    if case.figure is None:
        return
    theirs = s4_tasks.published(case.figure)
    removed = theirs["size"][0] - theirs["size"]
    shown = removed <= 0.45 * len(train)
    lines["published"] = (removed[shown], theirs["TestAcc"][shown])
    variances["published"] = (removed[shown], (theirs["potential"] / theirs["potential"][0])[shown])
    title = f"S4 Fig. {case.figure}, the paper's own files"
    curves(f"s4_purify_{case.name}", title, lines, x_title="samples removed",
           y_title="test accuracy")  # fmt: skip
    curves(f"s4_purify_{case.name}_variance", title, variances, x_title="samples removed",
           y_title="V[X] / V[X] at the start")  # fmt: skip


def fresh_draws(case: Case, n_draws: int) -> None:
    for order in case.orders:
        rows = [traced(case, order, *case.fresh(seed))[0] for seed in range(n_draws)]
        names = [k for k in rows[0] if k not in {"order", "seconds"} and all(k in r for r in rows)]
        gap = [row["peak"] - row["accuracy_held_out"] for row in rows]
        record(
            f"papers/s4_purify/{case.name}, fresh draws, {order}",
            draws=n_draws,
            order=rows[0]["order"],
            ridge=case.ridge,
            asked=case.asked and case.asked[0],
            **{name: interval([row[name] for row in rows]) for name in names},
            worst_gap_to_peak=max(gap),
            most_removed=max(row["removed_held_out"] for row in rows),
            seconds=sum(row["seconds"] for row in rows),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=[case.name for case in CASES])
    parser.add_argument("--draws", type=int, default=5)
    settings = parser.parse_args()
    for case in (c for c in CASES if c.name in settings.cases):
        if case.own is not None:
            own_files(case)
        fresh_draws(case, settings.draws)


if __name__ == "__main__":
    main()
