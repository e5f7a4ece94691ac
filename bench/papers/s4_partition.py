"""S4's Figure 1, which it leaves unbuilt: divide mixed data into blocks, train on each, route.

Test accuracy on routable mixtures compared with the true blocks and one model, and where no router
can work. Blocks of SD-2 and SD-3 compared with what can be known: `truths/mixture.py`.
"""

import time
import warnings
from collections.abc import Iterator

import numpy as np
from bench.frame import Case, Options, Row, Task
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import adjusted_rand_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.data import SampleSet, routable_mixture, sd_mixture
from datassay.estimators import PartitionedRegressor

Lines = Iterator[tuple[str, dict]]
# Accuracy hardly moves after this many steps, and a thousand for each image model take an hour.
STEPS = 200


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
        | baselines(train, test)
        | {
            "rand_index": adjusted_rand_score(train.source, ours.block_),
            "blocks": ours.n_blocks_,
            "informative": bool(ours.router_is_informative_),
            "seconds": seconds,
        }
    )


def model_of(train: SampleSet) -> object:
    return classifier() if train.is_classification else make_pipeline(StandardScaler(), Ridge())


def baselines(train: SampleSet, test: SampleSet) -> dict[str, float]:
    """Test score of the true blocks, a model each and the same router, and of one model."""
    assert train.source is not None
    x, x_test = (s.x.reshape(len(s), -1).astype(float) for s in (train, test))
    experts = [
        model_of(train).fit(x[train.source == s], train.y[train.source == s])
        for s in np.unique(train.source)
    ]
    weights = classifier().fit(x, train.source).predict_proba(x_test)
    if train.is_classification:
        result = sum(
            w[:, None] * _all_classes(e, x_test, train.n_classes)
            for w, e in zip(weights.T, experts, strict=True)
        )
        oracle = float((np.argmax(result, 1) == test.y).mean())
    else:
        each = np.stack([e.predict(x_test) for e in experts], 1)
        oracle = r2_score(test.y, (weights * each).sum(1))
    return {
        "true_blocks": oracle,
        "one_model": model_of(train).fit(x, train.y).score(x_test, test.y),
    }


def _all_classes(expert: object, x: np.ndarray, n_classes: int) -> np.ndarray:
    result = np.zeros((len(x), n_classes))
    result[:, expert.classes_] = expert.predict_proba(x)
    return result


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


def rows(lines: dict[str, dict]) -> Row:
    routed = lines["s4_partition/routable 500/500 classification"]
    values = [sum(x) / len(x) for x in (routed[k] for k in ("one_model", "ours", "true_blocks"))]
    return Row(
        "Two clashing blocks that the inputs tell apart: accuracy of one model, of found "
        "blocks and router (true blocks)",
        "{:.3f}, {:.3f} ({:.3f})".format(*values),
    )


warnings.simplefilter("ignore", ConvergenceWarning)
TASK = Task(
    measure="S4 Fig. 1: blocks and a router",
    cases={
        "routing": Case(routing),
    },
    lines="s4_partition/",
    rows=rows,
)
