"""How often the intervals of extrapolated learning curves hold, on data that is really there.

A "user" owns a small random part of a data set and extrapolates its learning curve; the truth is
the mean error on the large test part of fits to more samples than the user has. Two tests a curve:
the score at twice, four and eight times the user's samples (digits: 1.5, 2.1 and 3.25 times), and
the same read along the other axis: the samples needed for the score that those sizes really reach.
Eight users per set and model, or `--repeats`; fits are stored in --work.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from bench.data import idx_rows, kept
from bench.frame import Case, Options, Row, Task
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from datassay.complexity import (
    AccuracyCurve,
    Estimators,
    Learner,
    Networks,
    accuracy_curve,
    extrapolate,
    forecast,
    nested_order,
)
from datassay.data import SampleSet
from datassay.models import build_model

SETS = ("digits", "mnist", "fashion_mnist")
MODELS = ("mlp:width=64", "logistic", "knn", "forest")
USERS, REPEATS, TRUTH_REPEATS = 8, 8, 6


def parts(name: str) -> tuple[SampleSet, SampleSet]:
    """All samples that users draw from, and the large test part."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(99).permutation(len(x))
        x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
        pairs = ((x[:1300], y[:1300]), (x[1300:], y[1300:]))
    else:
        pairs = (idx_rows(name), idx_rows(name, "test"))
    first, second = (SampleSet(x, y, np.arange(len(x)), tuple("0123456789")) for x, y in pairs)
    return first, second


def owned(name: str, model: str) -> tuple[int, int, list[int]]:
    """Training and validation samples of a user, and the sizes to predict."""
    if name == "digits":
        return 400, 200, [600, 850, 1300]
    n = 2000 if model.startswith("mlp") else 1000  # 2000 took too long with the others
    return n, 1000, [2 * n, 4 * n, 8 * n]


def learner(model: str, train: SampleSet, repeats: int, seed: int) -> Learner:
    if model == "forest":
        return Estimators(RandomForestClassifier(50), repeats, seed)
    if model == "knn":
        return Estimators(KNeighborsClassifier(1), repeats, seed)
    models = [build_model(model, train, seed=seed * 100 + r) for r in range(repeats)]
    return Networks(models, seed=seed)


def truth(name: str, model: str, full: SampleSet, test: SampleSet) -> dict[str, np.ndarray]:
    sizes = owned(name, model)[2]
    fits = learner(model, full, TRUTH_REPEATS, 1000)
    orders = [nested_order(full, np.random.default_rng([7, r])) for r in range(TRUTH_REPEATS)]
    error = [fits.errors(full, test, np.stack([o[:n] for o in orders])).mean(1) for n in sizes]
    return {"sizes": np.array(sizes), "err": np.array(error)}


def curve_of(name: str, model: str, full: SampleSet, test: SampleSet, user: int) -> dict:
    n, n_val, _ = owned(name, model)
    rng = np.random.default_rng([user, 5])
    train = full.subset(rng.permutation(len(full))[:n])
    val = test.subset(rng.permutation(len(test))[:n_val])
    sizes = np.unique(np.geomspace(max(n // 64, 20), n, 8).round().astype(int)).tolist()
    curve = accuracy_curve(learner(model, train, REPEATS, user), train, val, sizes=sizes, seed=user)
    errors = curve.errors.astype(np.float32)
    return {"sizes": curve.sizes, "errors": errors, "start": np.array(curve.start)}


def judged(results: dict[str, np.ndarray], true: dict[str, np.ndarray], user: int) -> dict:
    """Whether 90 % and 95 % intervals hold, how far the median is off, how wide they are."""
    errors, start = results["errors"].astype(np.float64), float(results["start"])
    curve = AccuracyCurve(results["sizes"], errors, start, "accuracy")
    sizes, error, line = true["sizes"].astype(float), true["err"].mean(1), {}
    for level in (0.9, 0.95):
        ahead = extrapolate(curve, level=level, seed=user)
        low, median, high = ahead.score(sizes)
        line[f"holds_{level}"] = (low <= 1 - error) & (1 - error <= high)
        needed = [ahead.needed(float(1 - e)) for e in error]
        inside = [one.low <= n <= one.high for one, n in zip(needed, sizes, strict=True)]
        line[f"needed_holds_{level}"] = np.array(inside)
        line[f"log_width_{level}"] = np.log((1 - low) / np.maximum(1 - high, 1e-4))
        line["log_off"] = np.log((1 - median) / error)
        line["no_upper_end"] = np.array([np.isinf(one.high) for one in needed])
    check = forecast(curve, seed=user)
    assert check is not None
    return line | {"own_forecast_holds": np.array([check.holds])}


def summary(lines: list[dict]) -> dict[str, object]:
    mean = {k: np.mean([line[k] for line in lines], 0).tolist() for k in lines[0]}
    off = np.abs([line["log_off"] for line in lines])
    return {"curves": len(lines), **mean, "abs_log_off": off.mean(0).tolist()}


def of_users(name: str, model: str, options: Options) -> tuple[list[dict], np.ndarray]:
    """What each user's curve was worth, and how many times the user's samples were asked for."""
    stem = options.work / f"{name}-{model.partition(':')[0]}"
    full, test = parts(name)
    true = kept(stem.with_name(f"{stem.name}--1.npz"), lambda: truth(name, model, full, test))
    lines = []
    for user in range(options.repeats or USERS):
        make = partial(curve_of, name, model, full, test, user)
        lines.append(judged(kept(stem.with_name(f"{stem.name}-{user}.npz"), make), true, user))
    return lines, true["sizes"] / owned(name, model)[0]


def one(name: str, model: str, options: Options) -> dict[str, object]:
    lines, times = of_users(name, model, options)
    return {"times_the_samples": times, **summary(lines)}


def every(options: Options) -> Iterator[tuple[str, dict]]:
    pairs = [(name, model) for model in MODELS for name in SETS]
    yield "all", summary([line for pair in pairs for line in of_users(*pair, options)[0]])


def rows(lines: dict[str, dict]) -> Row:
    curves = lines["learning_curves/all"]
    holds = ", ".join(f"{100 * share:.0f}" for share in curves["holds_0.9"])
    apart = ", ".join(f"{np.exp(w):.1f}" for w in curves["log_width_0.9"])
    return Row(
        f"{curves['curves']} learning curves of digits, MNIST and Fashion-MNIST, extrapolated: "
        "share in % whose 90 % interval held at about 2, 4 and 8 times the samples; ends of "
        "the error's interval apart by a factor",
        f"{holds}; {apart}",
    )


TASK = Task(
    measure="intervals of extrapolated learning curves that hold",
    cases={
        **{f"{name} {model}": Case(partial(one, name, model)) for model in MODELS for name in SETS},
        "all": Case(every),
    },
    lines="learning_curves/",
    rows=rows,
)
