"""S0 Table 1 and Fig. 2: double moon, Boston Housing, Breast Cancer, with and without VBSW.

What is scored is the last epoch, and on double moon also the one of highest accuracy on the
training samples. The paper's code keeps the best epoch on the test set. More seeds than the paper's
50 of double moon: `--repeats 200 --set epochs=4000`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from bench.papers import s0_networks as networks
from bench.papers.figure import planes
from bench.papers.s0_networks import Training
from bench.stats import best_mean_error, interval
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split

from datassay.act import local_variance_weights
from datassay.estimators import LocalVarianceRegressor

RATIOS = (2, 5, 10, 20, 40, 100)


Lines = Iterator[tuple[str, dict]]


def compare(bench: str, base: np.ndarray, ours: np.ndarray, higher: bool, **more):
    """A line of both, and the paired difference with its 95 % interval (Student's t)."""
    figures = {}
    for name, found in (("baseline", base), ("vbsw", ours)):
        values = best_mean_error(found if higher else -found)
        values = values if higher else [-values[0], -values[1], values[2]]
        figures |= {f"{name}_{k}": v for k, v in zip(("best", "mean", "se"), values, strict=True)}
    mean, low, high = interval(ours - base)
    ends = {"difference": mean, "interval": [low, high]}
    return bench, {"runs": len(base), **figures, **ends, **more}


def double_moon(options: Options) -> Lines:
    """Table 8's k, m, batch and epochs; cross-entropy as the paper says; step size 0.1 for all."""
    seeds, epochs = options.repeats or 50, options.value("epochs", 10_000)
    x, y, x_test, y_test = moons()
    how = Training(units=4, optimizer="sgd", lr=0.1, epochs=epochs, batch_size=100)
    m = None
    if seeds == 50:
        score = cross_validated(x, y, how)
        yield "double moon, cross-validation", {"max_ratio": RATIOS, "accuracy": 100 * score}
        m = RATIOS[int(score.argmax())]
    ratios = sorted({10, 100, *([m] if m else [])})
    kinds = np.stack([np.ones(300), *(local_variance_weights(x, y, 20, r) for r in ratios)])
    last, kept = networks.mlps(x, y, kinds, how, range(seeds))
    for which, layers in (("last epoch", last), ("best epoch on the training samples", kept)):
        accuracy = percent_right(layers, x_test, y_test).reshape(seeds, -1)
        for column, ratio in enumerate(ratios, 1):
            name = f"double moon, m {ratio}" + ", chosen by cross-validation" * (ratio == m)
            pair = accuracy[:, 0], accuracy[:, column]
            yield compare(f"{name}, {which}", *pair, True, n_neighbors=20, **vars(how))
    if seeds == 50:
        sides = x, y, x_test, y_test
        figure_2(*sides, kinds[[0, -1]], kept, accuracy[:, [0, -1]], len(kinds))  # m = 100


def moons() -> tuple[np.ndarray, ...]:
    """The code's 300 training and 500 test samples."""
    train = make_moons(300, noise=0.2, random_state=0)
    return *train, *make_moons(500, noise=0.15, random_state=1)


def percent_right(layers, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Accuracy of each network, %."""
    return 100 * ((networks.outputs(layers, x).numpy() > 0) == y).mean(1)


def cross_validated(x: np.ndarray, y: np.ndarray, how: Training, seeds: int = 8) -> np.ndarray:
    """Of each m, the accuracy on the held-out fifths of the training samples, other seeds.

    Held-out samples have weight 0, so that all folds and ratios are one program.
    """
    folds = [test for _, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y)]
    kinds = []
    for m in RATIOS:
        for test in folds:
            kept = np.setdiff1d(np.arange(len(x)), test)
            kinds.append(np.zeros(len(x)))
            kinds[-1][kept] = local_variance_weights(x[kept], y[kept], 20, m)
    how = replace(how, epochs=4000)
    layers, _ = networks.mlps(x, y, np.stack(kinds), how, range(1000, 1000 + seeds))
    right = ((networks.outputs(layers, x).numpy() > 0) == y).reshape(seeds, len(RATIOS), 5, -1)
    return np.stack([right[:, :, f, test].mean((0, 2)) for f, test in enumerate(folds)]).mean(0)


def double_moon_as_coded(options: Options) -> Lines:
    """The code's loss and step: weights of mean 12.8 multiply it; so does a baseline's lr."""
    seeds = options.repeats or 50
    x, y, x_test, y_test = moons()
    weights = local_variance_weights(x, y, 20, 100)
    weights /= weights.min()  # from 1 to 100
    kinds = np.stack([np.ones(300), np.full(300, weights.mean()), weights])
    how = Training(4, "sgd", 0.01, 10_000, 100, "mse_of_sigmoid")
    layers, _ = networks.mlps(x, y, kinds, how, range(seeds), rescale=False)
    accuracy = percent_right(layers, x_test, y_test).reshape(seeds, 3)
    for column, factor in ((0, 1.0), (1, weights.mean())):
        name = f"double moon as coded, against a baseline of lr {0.01 * factor:.3g}"
        yield compare(name, accuracy[:, column], accuracy[:, 2], True, **vars(how))


def figure_2(x, y, x_test, y_test, weights, layers, accuracy, n_kinds: int) -> None:
    """Boundaries of the best fits, the weights as heat; [seeds, 2] accuracies."""
    grid = np.stack(np.meshgrid(np.linspace(-1.8, 2.8, 93), np.linspace(-1.5, 2, 71)), -1)
    side = networks.outputs(layers, grid.reshape(-1, 2)).numpy() > 0
    side = side.reshape(len(accuracy), n_kinds, *grid.shape[:2])
    best = accuracy.argmax(0)
    planes(
        "s0_table1_2",
        f"S0 Fig. 2: double moon, best of {len(accuracy)} fits",
        {
            "training samples": (x, y, None),
            f"baseline, {accuracy[:, 0].max():.1f} %": (x_test, y_test, side[best[0], 0]),
            "VBSW weights": (x, weights[1] / weights[1].max(), None),
            f"VBSW, {accuracy[:, 1].max():.1f} %": (x_test, y_test, side[best[1], -1]),
        },
        ((-1.8, 2.8), (-1.5, 2)),
    )


def boston() -> tuple[np.ndarray, np.ndarray]:
    """The 13 columns and the price."""
    data = np.loadtxt(folder("boston_housing", "housing.data"))
    return data[:, :13], data[:, 13]


def split(x: np.ndarray, y: np.ndarray, seed: int, stratify=None):
    """80 % to 20 %, columns divided by the training part's largest value."""
    x, x_test, y, y_test = train_test_split(
        x, y, test_size=0.2, random_state=seed, stratify=stratify
    )
    return x / x.max(0), x_test / x.max(0), y, y_test


def boston_housing(options: Options, n_splits: int = 100) -> Lines:
    """One split and 10 seeds as in the paper; then what other splits give, and the exact fit."""
    x, y = boston()
    how = Training(None, "adam", 5e-4, 50_000, 404, "mse")
    runs = [(0, seed) for seed in range(10)] + [(s, 0) for s in range(1, n_splits)]
    parts = {s: split(x, y, s) for s, _ in runs}
    problems, test = [], []
    for s, seed in runs:
        train_x, test_x, train_y, test_y = parts[s]
        for w in (np.ones(len(train_y)), local_variance_weights(train_x, train_y, 35, 8)):
            problems.append((train_x, train_y, w, seed))
            test.append((np.c_[test_x, np.ones(len(test_x))], test_y))
    theta = networks.linear_by_moments(*zip(*problems, strict=True), how)
    error = np.array([
        np.square(a @ t - target).mean() for t, (a, target) in zip(theta.numpy(), test, strict=True)
    ]).reshape(-1, 2)
    more = {"n_neighbors": 35, "max_ratio": 8, **vars(how)}
    yield compare("Boston, split 0, 10 seeds", *error[:10].T, False, **more)
    other = np.concatenate([error[:1], error[10:]])
    share = float((other[:, 1] < other[:, 0]).mean())
    yield compare(f"Boston, {n_splits} splits", *other.T, False, splits_better=share, **more)


def exact_boston(options: Options, n_splits: int = 40) -> Lines:
    """Least squares itself, and m by 5-fold cross-validation of the training part."""
    x, y = boston()
    grid = {"max_ratio": [1, 2, 8]}
    error, ratios = [], []
    for train_x, test_x, train_y, test_y in (split(x, y, s) for s in range(n_splits)):
        ours = LocalVarianceRegressor(LinearRegression(), n_neighbors=35, max_ratio=8)
        search = GridSearchCV(ours, grid, cv=5, scoring="neg_mean_squared_error")
        found = (LinearRegression(), ours, search)
        error.append([
            np.square(model.fit(train_x, train_y).predict(test_x) - test_y).mean()
            for model in found
        ])
        ratios.append(search.best_params_["max_ratio"])
    base, ours, searched = np.array(error).T
    pair = {"n_neighbors": 35, "max_ratio": 8}
    yield compare(f"Boston, least squares, {n_splits} splits", base, ours, False, **pair)
    chosen = {str(m): ratios.count(m) for m in grid["max_ratio"]}
    name = "Boston, least squares, m by cross-validation"
    yield compare(name, base, searched, False, chosen_ratios=chosen)


def breast_cancer(options: Options, n_splits: int = 5, seeds: int = 10) -> Lines:
    """Ten seeds on each of five splits; Table 8's step, m and k."""
    x, y = load_breast_cancer(return_X_y=True)
    how, accuracy = Training(30, "adam", 5e-2, 1000, 455), []
    for s in range(n_splits):
        train_x, test_x, train_y, test_y = split(x, y, s)
        kinds = np.stack([
            np.ones(len(train_y)),
            *(local_variance_weights(train_x, train_y, k, m) for k, m in ((35, 50), (10, 10))),
        ])
        layers, _ = networks.mlps(train_x, train_y, kinds, how, range(seeds))
        accuracy.append(percent_right(layers, test_x, test_y).reshape(seeds, 3))
    found = np.stack(accuracy)  # [splits, seeds, weightings]
    for column, (k, m) in ((1, (35, 50)), (2, (10, 10))):
        pair = {"n_neighbors": k, "max_ratio": m, **vars(how)}
        name = f"Breast Cancer, m {m}, k {k}"
        first = found[0, :, 0], found[0, :, column]
        yield compare(f"{name}, split 0, {seeds} seeds", *first, True, **pair)
        means = found.mean(1)  # a split is the unit: its seeds share its samples
        yield compare(f"{name}, {n_splits} splits", means[:, 0], means[:, column], True, **pair)


def rows(lines: dict[str, dict]) -> list[Row]:
    boston = lines["s0_table1: Boston, 100 splits"]
    what = "Boston Housing, linear model, 100 splits: squared error without, with these weights"
    return [Row(what, f"{boston['baseline_mean']:.1f}, {boston['vbsw_mean']:.1f}")]


TASK = Task(
    measure="S0 Table 1: small networks under weights",
    cases={
        "dm": Case(double_moon),
        "dm_loss": Case(double_moon_as_coded),
        "bh": Case(boston_housing),
        "bh_exact": Case(exact_boston),
        "bc": Case(breast_cancer),
    },
    lines="s0_table1: ",
    rows=rows,
)
