"""Data values judged by OpenDataVal's own experiments, against its evaluators.

By its protocol a fifth of the labels of training and validation samples is changed, or normal noise
of one deviation is added to a fifth of the rows. "found": of the faulty samples, the mean share
among the least valuable twentieth, tenth, ... of all. "F1": of its own split of the values in two.
"removal", "addition": accuracy on clean samples, the mean over shares of up to half, of logistic
regression where the most valuable samples are taken out (random less this), and where these alone
are kept (this less random); with wrong labels. Evaluators that train models train 300.

Beside a CPU build of torch: `pip install --no-deps --target peers opendataval` and what it imports.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from bench import data
from bench.frame import Case, Contender, Task
from bench.peers.quanda import without_torchvision_kernels
from bench.truths.removal import RANDOM_ORDERS

FITS, SHARE, VALIDATION, TEST = 300, 0.2, 100, 300
STEP, HALF = 0.05, 0.5
KINDS = {"ours": "ours", "random": "trivial"}


@dataclass(frozen=True)
class Fetched:
    """Its fetcher, the seed, and whether removal is asked for."""

    fetcher: Any
    model: Any
    labels: bool


def made(name: str, n: int, noise: str, seed: int) -> Fetched:
    without_torchvision_kernels()
    from opendataval.dataloader import DataFetcher
    from opendataval.model import ModelFactory

    train, rest = data.split(name, n, seed)
    k = train.n_classes
    mean, spread = (f(data.rows(train), axis=0) for f in (np.mean, np.std))
    parts = []
    others = np.split(np.arange(min(len(rest), VALIDATION + TEST)), [VALIDATION])
    for part in (train, *map(rest.subset, others)):
        scaled = (data.rows(part) - mean) / np.where(spread > 0, spread, 1)
        parts += [scaled.astype(np.float32), np.eye(k)[part.y]]
    fetcher = DataFetcher.from_data_splits(*parts, one_hot=True, random_state=seed)
    fetcher = fetcher.noisify(noise, noise_rate=SHARE)
    model = ModelFactory("sklogreg", fetcher, max_iter=200)
    return Fetched(fetcher, model, noise == "mix_labels")


def evaluators() -> dict[str, Callable[[int], Any]]:
    def theirs(name: str, **more: Any) -> Callable[[int], Any]:
        def make(seed: int) -> Any:
            from opendataval import dataval

            return getattr(dataval, name)(random_state=seed, **more)

        return make

    def shapley(name: str) -> Callable[[int], Any]:
        def make(seed: int) -> Any:
            from opendataval import dataval
            from opendataval.dataval.margcontrib import MonteCarloSampler

            return getattr(dataval, name)(MonteCarloSampler(FITS // 100, random_state=seed))

        return make

    def ours(semivalue: str) -> Callable[[int], Any]:
        def make(seed: int) -> Any:
            from datassay_exports import opendataval

            return opendataval.Values(semivalue, random_state=seed)

        return make

    return {
        "ours": ours("beta"),
        "ours, Shapley": ours("shapley"),
        "ours, out of bag": ours("out_of_bag"),
        "random": theirs("RandomEvaluator"),
        "KNNShapley": theirs("KNNShapley"),
        "LAVA": theirs("LavaEvaluator"),
        "Data-OOB": theirs("DataOob", num_models=FITS),
        "AME": theirs("AME", num_models=FITS),
        "Banzhaf": theirs("DataBanzhaf", num_models=FITS),
        "subsampled influence": theirs("InfluenceSubsample", num_models=FITS),
        "DVRL": theirs("DVRL", rl_epochs=FITS),
    }


def answer(name: str, task: Fetched, seed: int) -> np.ndarray:
    evaluator = evaluators()[name](seed).train(task.fetcher, task.model)
    return np.asarray(evaluator.data_values).ravel()


@dataclass(frozen=True)
class Told:
    """Values, under the name by which its experiments read them."""

    data_values: np.ndarray
    pred_model: Any = None


def judge(task: Fetched, values: np.ndarray, seed: int) -> dict[str, float]:
    from opendataval.experiment import exper_methods as experiments

    told = Told(values, task.model)
    found = experiments.discover_corrupted_sample(told, task.fetcher, percentile=STEP)
    f1 = experiments.noisy_detection(told, task.fetcher)["kmeans_f1"]
    figures = {"found": float(np.mean(found["corrupt_found"])), "F1": float(f1)}
    if task.labels:
        chance = [
            both(Told(np.random.default_rng((seed, r)).random(len(values)), task.model), task)
            for r in range(RANDOM_ORDERS)
        ]
        base, (removed, kept) = np.mean(chance, 0), both(told, task)
        figures |= {"removal": float(base[0] - removed), "addition": float(kept - base[1])}
    return figures


def both(told: Told, task: Fetched) -> tuple[float, float]:
    """Mean accuracy with the most valuable up to a half removed, and with these alone."""
    from opendataval.experiment.exper_methods import remove_high_low
    from opendataval.metrics import accuracy

    curves = remove_high_low(told, task.fetcher, task.model, percentile=STEP,
                             metric=accuracy)  # fmt: skip
    least, most = (np.array(curves[f"remove_{which}_influential_first_accuracy"])
                   for which in ("least", "most"))  # fmt: skip
    half = round(HALF / STEP)
    return float(most[1 : half + 1].mean()), float(least[half : 2 * half].mean())


SETS = (("digits", 500), ("breast_cancer", 250), ("synthetic", 400))
TASK = Task(
    measure="OpenDataVal's experiments",
    cases={
        f"{name}, {words}": Case(partial(made, name, n, noise))
        for words, noise in (("wrong labels", "mix_labels"), ("noisy inputs", "add_gauss_noise"))
        for name, n in SETS
    },
    contenders={
        name: Contender(partial(answer, name), KINDS.get(name.split(",")[0], "baseline"),
                        needs="opendataval")
        for name in evaluators()
    },
    judge=judge,
    repeats=5,
)  # fmt: skip
