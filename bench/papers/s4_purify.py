"""Purification (S4 Figs 4, 6, 8): accuracy and V against samples removed, and where rules stop.

One trace to 45 % removed a case and ranking; every stopping rule is then read off the same trace.
"validation" sees 200 further samples of the same mixture. Loss ranking stands with influence.
Five draws, or `--repeats`.

"orders": what cross-fitting, the default, and S4's adjoint order gain a logistic regression on
problems of `truths/purification`. "shuffled": what `shuffled_labels` calls sets of 100 and 400 with
labels at random, wrong ones or an even mix of two rules: noise, a rule broken by few or by many, or
a rule.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench.data import even_draw, split
from bench.frame import Case, Options, Row, Task
from bench.stats import interval
from bench.truths import purification

from datassay.act import held_out_stop, held_out_threshold, inflection_stop, purify, validation_stop
from datassay.data import SampleSet, add_label_noise, sd_mixture
from datassay.models import linear, n_outputs
from datassay.score import shuffled_labels

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


def orders(options: Options) -> dict[str, object]:
    draws, few = range(options.repeats or 5), purification.digits
    problems = {"SD-2, 350 + 150": purification.letters} | {
        f"240 digits, {share:.0%} wrong": partial(few, share) for share in (0.3, 0.4)
    }
    gains = {}
    for name, make in problems.items():
        for order in ("auto", "adjoint"):
            each = [
                purification.judge(task, purification.purified(order, task, seed), seed)["gain"]
                for seed in draws
                for task in [make(seed)]
            ]
            gains[f"{name}, {order}"] = interval(each)
    return {"draws": len(draws), **gains}


def shuffled(options: Options) -> dict[str, object]:
    counts: dict[str, Counter[str]] = {}
    for seed in range(options.repeats or 5):
        for n in (100, 400):
            for name in ("breast_cancer", "function 1"):
                own = name == "function 1"
                clean = sd_mixture((n,), seed=seed) if own else split(name, n, seed)[0]
                at_random = np.random.default_rng(seed).permutation(clean.y)
                sets = {"at random": replace(clean, y=at_random, true_y=None), "0 % wrong": clean}
                for share in (0.03, 0.1, 0.3, 0.5):
                    noisy = add_label_noise(clean, share, seed=seed)
                    sets[f"{100 * share:.0f} % wrong"] = replace(noisy, true_y=None)
                if own:
                    sets["even mix"] = sd_mixture((n // 2, n // 2), seed=seed)
                for kind, one in sets.items():
                    model = linear(one.input_shape, n_outputs(one))
                    result = shuffled_labels(model, one, ridge=1e-4)
                    verdict = "noise" if result.is_noise else result.breakers or "rule"
                    counts.setdefault(f"{n}, {kind}", Counter())[verdict] += 1
    return {kind: dict(count) for kind, count in counts.items()}


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
    cases={
        **{name: Case(partial(measured, name)) for name in SETS},
        "orders": Case(orders),
        "shuffled": Case(shuffled),
    },
    lines="papers/s4_purify/",
    rows=rows,
)
