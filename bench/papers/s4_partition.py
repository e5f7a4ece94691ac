"""S4's Figure 1, which it leaves unbuilt: divide mixed data into blocks, train on each, route.

blocks: the adjusted Rand index of SD-2 and SD-3 beside two oracles, at the true K; count: K chosen
in ten draws; routing: test accuracy on routable mixtures beside the true blocks and one model;
real: the same on MNIST + Fashion-MNIST + USPS with clashing labels, from pixels, from features of a
LeNet-5 trained on the clashing labels themselves, and from those of S1's CNN of EMNIST letters;
neither network knows the source; ceiling: the true blocks and one model there, five draws.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from bench.networks import taken, trained_on_all
from bench.papers import s1_table1, s4_tasks
from bench.stats import mean_half
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import adjusted_rand_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.act import (
    agreement,
    choose_gate,
    fold_numbers,
    oracle_agreement,
    validation_score,
)
from datassay.collect import output_geometry
from datassay.data import SampleSet, letter_labels, routable_mixture, sd_mixture
from datassay.estimators import PartitionedRegressor
from datassay.models import build_model
from datassay.train import Recipe, split_head

Lines = Iterator[tuple[str, dict]]
MIXES = ((500, 500), (700, 300), (700, 700, 700), (700, 150, 150))
DRAWS = 10
# Accuracy hardly moves after this many steps, and a thousand for each image model take an hour.
STEPS = 200
REAL_DRAWS = 5


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


def blocks(options: Options) -> Lines:
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
        yield f"SD-{len(sizes)} {'/'.join(map(str, sizes))}", {
            "draws": 3, "rand_index": found, "oracle_models_of_true_blocks": fitted,
            "oracle_true_functions": rules, "starts": starts, "seconds": min(seconds),
            "share_of_true_functions": np.mean(found) / np.mean(rules),
            "share_of_models_of_true_blocks": np.mean(found) / np.mean(fitted),
        }  # fmt: skip


def count(options: Options) -> Lines:
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
        yield f"K of {'/'.join(map(str, sizes))}", {
            "draws": DRAWS, "chosen": chosen, "right": sum(k == len(sizes) for k in chosen),
            "seconds_a_draw": (time.perf_counter() - start) / DRAWS,
        }  # fmt: skip


def classifier() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=STEPS))


def routed(train: SampleSet, test: SampleSet, n_blocks: int | None, seed: int) -> dict:
    """Test score of ours, of the true blocks with the same models and router, and of one model."""
    x, x_test = (s.x.reshape(len(s), -1).astype(float) for s in (train, test))
    kind = da.PartitionedClassifier if train.is_classification else PartitionedRegressor
    start = time.perf_counter()
    ours = kind(model_of(train), classifier(), n_blocks=n_blocks, random_state=seed)
    ours.fit(x, train.y)
    seconds = time.perf_counter() - start
    return (
        {"ours": ours.score(x_test, test.y)}
        | rivals(train, test)
        | {
            "rand_index": adjusted_rand_score(train.source, ours.block_),
            "blocks": ours.n_blocks_,
            "informative": bool(ours.router_is_informative_),
            "seconds": seconds,
        }
    )


def model_of(train: SampleSet) -> object:
    return classifier() if train.is_classification else make_pipeline(StandardScaler(), Ridge())


def rivals(train: SampleSet, test: SampleSet) -> dict[str, float]:
    """Test score of the true blocks, a model each and the same router, and of one model."""
    assert train.source is not None
    x, x_test = (s.x.reshape(len(s), -1).astype(float) for s in (train, test))
    experts = [
        model_of(train).fit(x[train.source == s], train.y[train.source == s])
        for s in np.unique(train.source)
    ]
    weights = classifier().fit(x, train.source).predict_proba(x_test)
    if train.is_classification:
        found = sum(
            w[:, None] * _all_classes(e, x_test, train.n_classes)
            for w, e in zip(weights.T, experts, strict=True)
        )
        oracle = float((np.argmax(found, 1) == test.y).mean())
    else:
        each = np.stack([e.predict(x_test) for e in experts], 1)
        oracle = r2_score(test.y, (weights * each).sum(1))
    return {
        "true_blocks": oracle,
        "one_model": model_of(train).fit(x, train.y).score(x_test, test.y),
    }


def _all_classes(expert: object, x: np.ndarray, n_classes: int) -> np.ndarray:
    found = np.zeros((len(x), n_classes))
    found[:, expert.classes_] = expert.predict_proba(x)
    return found


def reported(name: str, cases: list[dict], **more: object) -> tuple[str, dict]:
    columns = {key: [case[key] for case in cases] for key in cases[0]}
    ours, true, one = (np.mean(columns[k]) for k in ("ours", "true_blocks", "one_model"))
    ahead = {"behind_true_blocks": true - ours, "ahead_of_one_model": ours - one}
    return name, {**columns, **ahead, **more}


def routing(options: Options) -> Lines:
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
        yield reported(f"routable {'/'.join(map(str, sizes))} {task}", cases)
    cases = [
        routed(sd_mixture((500, 500), seed=s), sd_mixture((2000, 2000), seed=s + 1000), None, s)
        for s in range(2)
    ]
    yield reported("SD-2 500/500, where no router can work", cases)


def letters(samples: SampleSet) -> torch.Tensor:
    """What the first dense layer of S1's network of EMNIST letters gives, [n, 256]."""
    network = s1_table1.network("pretrained", 0)[:-1]
    x = (torch.as_tensor(samples.x).float().reshape(-1, 28, 28) - 0.456) / 0.224
    with torch.no_grad():
        return network(x)


def views(seed: int) -> tuple[dict[str, tuple[SampleSet, SampleSet]], float]:
    """A draw's pixels, its features by two networks, and the accuracy of the first of these."""
    train, test = s4_tasks.real_mixture(500, seed)
    lenet = build_model("lenet5", train, seed=seed)
    trained = trained_on_all([lenet], train, Recipe(), seed)
    lenet = taken(trained, lenet)
    seen = {
        "features of LeNet-5": split_head(lenet, train).features,
        "features of letters": letters,
    }
    found = {"pixels": (train, test)}
    for name, features in seen.items():
        rows = [replace(s, x=features(s).double().numpy()) for s in (train, test)]
        found[name] = (rows[0], rows[1])
    return found, float(validation_score(trained, test)[0])


def ceiling(options: Options) -> Lines:
    """What the true sources gain over one model from each view: more no partition can ask for."""
    cases: dict[str, list[dict]] = {}
    for seed in range(REAL_DRAWS):
        seen, own = views(seed)
        for name, (train, test) in seen.items():
            cases.setdefault(name, []).append(rivals(train, test) | {"network_itself": own})
    for name, found in cases.items():
        columns = {key: [case[key] for case in found] for key in found[0]}
        gain = np.subtract(columns["true_blocks"], columns["one_model"])
        yield f"ceiling of MNIST + Fashion-MNIST + USPS, {name}", {
            "n": 1500, "gain_of_true_blocks": mean_half(gain), **columns,
        }  # fmt: skip


def real(options: Options) -> Lines:
    """Ours from each view of the first draw."""
    seen, own = views(0)
    for name, (train, test) in seen.items():
        found = [routed(train, test, 3, 0) | {"network_itself": own}]
        yield reported(f"MNIST + Fashion-MNIST + USPS, {name}", found, n=1500)


def rows(lines: dict[str, dict]) -> list[Row]:
    routed = lines["s4_partition/routable 500/500 classification"]
    values = [sum(x) / len(x) for x in (routed[k] for k in ("one_model", "ours", "true_blocks"))]
    return [
        Row(
            "Two clashing blocks that the inputs tell apart: accuracy of one model, of found "
            "blocks and router (true blocks)",
            "{:.3f}, {:.3f} ({:.3f})".format(*values),
        )
    ]


warnings.simplefilter("ignore", ConvergenceWarning)
TASK = Task(
    measure="S4 Fig. 1: blocks and a router",
    cases={
        "blocks": Case(blocks),
        "count": Case(count),
        "routing": Case(routing),
        "ceiling": Case(ceiling),
        "real": Case(real),
    },
    lines="s4_partition/",
    rows=rows,
)
