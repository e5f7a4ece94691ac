"""Purification (S4 Figs 4, 6, 8): accuracy and V against samples removed, and where rules stop.

One trace to 45 % removed a case and ranking; every stopping rule is then read off the same trace.
"validation" sees 200 further samples of the same mixture. Loss ranking stands with influence.
Five draws, or `--repeats`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from bench.data import even_draw
from bench.frame import Case, Options, Row, Task
from bench.stats import interval

from datassay.act import held_out_stop, held_out_threshold, inflection_stop, purify, validation_stop
from datassay.data import SampleSet, add_label_noise, sd_mixture
from datassay.models import linear, n_outputs

Draw = Callable[[int], tuple[SampleSet, SampleSet, SampleSet | None]]


@dataclass(frozen=True)
class Mixed:
    """Fresh draws of a training set as the paper has it."""

    fresh: Draw
    ridge: float
    orders: tuple[str, ...]
    asked: float | None = None  # peak
    influence: str = "adjoint"  # S4's order; lines call it "auto"


def mixture(*sizes: int) -> Draw:
    return lambda seed: (
        sd_mixture(sizes, seed=seed),
        sd_mixture((2000,), seed=1000 + seed),
        sd_mixture(tuple(round(200 * s / sum(sizes)) for s in sizes), seed=2000 + seed),
    )


def digits(wrong: float) -> Draw:
    """As paper_digits, drawn from MNIST's two parts, half of each digit, the truth kept."""

    def drawn(seed: int) -> tuple[SampleSet, SampleSet, None]:
        how = (600, seed, (4, 8), "MNIST 4 vs 8")
        train, test = (even_draw("mnist", part, *how) for part in ("train", "test"))
        return add_label_noise(train, wrong, seed=seed), test, None

    return drawn


THREE, TWO = ("auto", "fixed", "loss"), ("auto", "loss")
SETS = {
    "sd2": Mixed(mixture(700, 300), 1e-4, THREE, 0.89),
    "sd3": Mixed(mixture(700, 150, 150), 1e-4, THREE, 0.88),
    "sd2_light": Mixed(mixture(900, 100), 1e-4, TWO),
    "pure": Mixed(mixture(1000), 1e-4, TWO),
    "digits": Mixed(digits(0.3), 1e-2, TWO, 0.957, "fixed"),
    "digits_pure": Mixed(digits(0.0), 1e-2, TWO, influence="fixed"),
}


def foreign(samples: SampleSet) -> np.ndarray | None:
    """Which samples are foreign, where it is known."""
    if samples.true_y is not None:
        return samples.true_y != samples.y
    return None if samples.source is None else samples.source != "function 1"


def traced(name: str, order: str, train: SampleSet, test: SampleSet, val: SampleSet | None):
    """A full trace, and what every rule makes of it."""
    start, most = time.perf_counter(), 0.1 if "pure" in name else 0.45
    model = linear(train.input_shape, n_outputs(train))
    own = SETS[name].influence if order == "auto" else order
    how = {"order": own, "stop": "none", "ridge": SETS[name].ridge, "max_fraction": most}
    purification = purify(model, train, val, test=test, **how)
    trace = purification.trace
    reported = held_out_stop(trace.surprise[1:], held_out_threshold(train.n_classes))
    stops = {
        "held_out": len(trace.test) - 1 if reported is None else reported,
        "inflection": inflection_stop(trace.variance),
    }
    if val is not None:
        stops["validation"] = validation_stop(trace.validation)
    figures = {
        "order": purification.order, "start": trace.test[0], "peak": trace.test.max(),
        "peak_removed": trace.removed[trace.test.argmax()],
        **{f"accuracy_{rule}": trace.test[s] for rule, s in stops.items()},
        **{f"removed_{rule}": trace.removed[s] for rule, s in stops.items()},
        "variance_start": trace.variance[0], "seconds": time.perf_counter() - start,
    }  # fmt: skip
    wrong = foreign(train)
    if wrong is not None and stops["held_out"]:
        figures["precision"] = wrong[
            purification.removed[: trace.removed[stops["held_out"]]]
        ].mean()
    return figures, trace


def measured(name: str, options: Options) -> Iterator[tuple[str, dict]]:
    case, draws = SETS[name], options.repeats or 5
    for order in case.orders:
        results = [traced(name, order, *case.fresh(seed))[0] for seed in range(draws)]
        names = [k for k in results[0] if all(k in r for r in results)]
        names = [k for k in names if k not in {"order", "seconds"}]
        yield f"{name}, fresh draws, {order}", {
            "draws": draws, "order": results[0]["order"], "ridge": case.ridge,
            "asked": case.asked, **{k: interval([row[k] for row in results]) for k in names},
            "worst_gap_to_peak": max(row["peak"] - row["accuracy_held_out"] for row in results),
            "most_removed": max(row["removed_held_out"] for row in results),
            "seconds": sum(row["seconds"] for row in results),
        }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    ours, loss = (lines[f"papers/s4_purify/sd2, fresh draws, {order}"] for order in TWO)
    values = [ours["start"], ours["accuracy_held_out"], loss["accuracy_held_out"], ours["peak"]]
    return Row(
        "SD-2, 30 % of the samples from another function: accuracy before, after purification "
        "stopped without a clean set (loss ranking, best step)",
        "{:.3f}, {:.3f} ({:.3f}, {:.3f})".format(*(value[0] for value in values)),
    )


TASK = Task(
    measure="S4 Figs 4, 6, 8: purification",
    cases={name: Case(partial(measured, name)) for name in SETS},
    lines="papers/s4_purify/",
    rows=rows,
)
