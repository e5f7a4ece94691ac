"""S4's Figure 1, which it leaves unbuilt: divide mixed data into blocks, train on each, route.

    python papers/s4_partition.py [blocks | count | routing | real ...]

blocks: the adjusted Rand index of SD-2 and SD-3 beside two oracles, at the true K; count: K chosen
in ten draws; routing: test accuracy on routable mixtures beside the true blocks and one model;
real: the same on MNIST + Fashion-MNIST + USPS with clashing labels.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s4_tasks
import torch
from record import record
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import adjusted_rand_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.act import agreement, choose_gate, fold_numbers, oracle_agreement
from datassay.collect import output_geometry
from datassay.data import SampleSet, letter_labels, routable_mixture, sd_mixture
from datassay.estimators import PartitionedRegressor

MIXES = ((500, 500), (700, 300), (700, 700, 700), (700, 150, 150))
DRAWS = 10
# Accuracy hardly moves after this many steps, and a thousand for each image model take an hour.
STEPS = 200


def linear(samples: SampleSet) -> torch.nn.Module:
    """A linear model of one-hot letters, which need no scaling."""
    return torch.nn.Linear(samples.x.shape[1], samples.n_classes).double()


def true_functions(samples: SampleSet) -> float:
    """The index when the rules themselves assign, the commonest one where several agree."""
    assert samples.source is not None
    letters = samples.x.reshape(len(samples), 10, 4).argmax(2)
    names, sizes = np.unique(samples.source, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    agrees = [letter_labels(letters, int(names[k].split()[1]) - 1) == samples.y for k in order]
    return float(adjusted_rand_score(samples.source, np.argmax(agrees, axis=0)))


def blocks() -> None:
    for sizes in MIXES:
        found, fitted, rules, seconds, starts = [], [], [], [], []
        for seed in range(3):
            samples = sd_mixture(sizes, seed=seed)
            start = time.perf_counter()
            blocks = da.partition(linear(samples), samples, n_blocks=len(sizes), gate="off")
            seconds.append(time.perf_counter() - start)
            found.append(agreement(blocks, samples))
            fitted.append(oracle_agreement(linear(samples), samples))
            rules.append(true_functions(samples))
            starts.append(blocks.start + " hard" * blocks.is_hard)
        record(
            f"s4_partition/SD-{len(sizes)} {'/'.join(map(str, sizes))}",
            draws=3,
            rand_index=found,
            oracle_models_of_true_blocks=fitted,
            oracle_true_functions=rules,
            share_of_true_functions=np.mean(found) / np.mean(rules),
            share_of_models_of_true_blocks=np.mean(found) / np.mean(fitted),
            starts=starts,
            seconds=min(seconds),
        )


def count() -> None:
    """K as `partition` chooses it, without the influence start and V that come after."""
    for sizes in ((1000,), (500, 500), (700, 700, 700)):
        start = time.perf_counter()
        chosen = []
        for seed in range(DRAWS):
            samples = sd_mixture(sizes, seed=seed)
            at = output_geometry(linear(samples), samples)
            folds = fold_numbers(at.targets, at.loss, 5, 0)
            _, choice = choose_gate(
                at, (1, 2, 3, 4), folds, ridge=1e-4, gate="off", seed=0, restarts=8
            )
            chosen.append(choice.best)
            print(sizes, seed, choice.best, flush=True)
        record(
            f"s4_partition/K of {'/'.join(map(str, sizes))}",
            draws=DRAWS,
            chosen=chosen,
            right=sum(k == len(sizes) for k in chosen),
            seconds_a_draw=(time.perf_counter() - start) / DRAWS,
        )


def classifier() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=STEPS))


def routed(train: SampleSet, test: SampleSet, n_blocks: int | None, seed: int) -> dict:
    """Test score of ours, of the true blocks with the same models and router, and of one model."""
    assert train.source is not None
    x, x_test = (s.x.reshape(len(s), -1).astype(float) for s in (train, test))
    is_class = train.is_classification
    model = classifier if is_class else lambda: make_pipeline(StandardScaler(), Ridge())
    kind = da.PartitionedClassifier if is_class else PartitionedRegressor
    start = time.perf_counter()
    ours = kind(model(), classifier(), n_blocks=n_blocks, random_state=seed).fit(x, train.y)
    seconds = time.perf_counter() - start
    one = model().fit(x, train.y)
    names = np.unique(train.source)
    experts = [model().fit(x[train.source == s], train.y[train.source == s]) for s in names]
    weights = classifier().fit(x, train.source).predict_proba(x_test)
    if is_class:
        found = sum(
            w[:, None] * _all_classes(e, x_test, train.n_classes)
            for w, e in zip(weights.T, experts, strict=True)
        )
        oracle = float((np.argmax(found, 1) == test.y).mean())
    else:
        each = np.stack([e.predict(x_test) for e in experts], 1)
        oracle = r2_score(test.y, (weights * each).sum(1))
    return {
        "ours": ours.score(x_test, test.y),
        "true_blocks": oracle,
        "one_model": one.score(x_test, test.y),
        "rand_index": adjusted_rand_score(train.source, ours.block_),
        "blocks": ours.n_blocks_,
        "informative": bool(ours.router_is_informative_),
        "seconds": seconds,
    }


def _all_classes(expert: object, x: np.ndarray, n_classes: int) -> np.ndarray:
    found = np.zeros((len(x), n_classes))
    found[:, expert.classes_] = expert.predict_proba(x)
    return found


def report(name: str, cases: list[dict], **more: object) -> None:
    columns = {key: [case[key] for case in cases] for key in cases[0]}
    ours, true, one = (np.mean(columns[k]) for k in ("ours", "true_blocks", "one_model"))
    record(
        f"s4_partition/{name}",
        **columns,
        behind_true_blocks=true - ours,
        ahead_of_one_model=ours - one,
        **more,
    )


def routing() -> None:
    for sizes, task in (
        ((500, 500), "classification"),
        ((400, 400, 400), "classification"),
        ((300, 300, 300), "regression"),
    ):
        cases = []
        for seed in range(3):
            train = routable_mixture(sizes, task=task, seed=seed)
            test = routable_mixture([4 * s for s in sizes], task=task, seed=seed + 1000)
            cases.append(routed(train, test, None, seed))
        report(f"routable {'/'.join(map(str, sizes))} {task}", cases)
    cases = [
        routed(sd_mixture((500, 500), seed=s), sd_mixture((2000, 2000), seed=s + 1000), None, s)
        for s in range(2)
    ]
    report("SD-2 500/500, where no router can work", cases)


def real() -> None:
    for seed in range(2):
        train, test = s4_tasks.real_mixture(500, seed)
        report(f"MNIST + Fashion-MNIST + USPS, seed {seed}", [routed(train, test, 3, seed)])


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    cases = {"blocks": blocks, "count": count, "routing": routing, "real": real}
    for name in sys.argv[1:] or cases:
        cases[name]()


if __name__ == "__main__":
    main()
