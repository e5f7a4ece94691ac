"""Mixture recovery: samples that obey different rules are distinguished. Adjusted Rand index.

The number of rules is given to everybody. The bound assigns by models of the true parts.
"""

from dataclasses import replace

import numpy as np
from bench.data import sample_set
from bench.frame import Case, Contender, Task
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from torch import nn

import datassay as da
from datassay.act import oracle_agreement
from datassay.data import SampleSet, sd_mixture


def two_rules(seed: int) -> SampleSet:
    """Two linear rules for four classes, mixed; no column says which holds."""
    rng = np.random.default_rng((seed, 17))
    rules, x = rng.normal(size=(2, 10, 4)), rng.normal(size=(800, 10))
    which = rng.integers(0, 2, 800)
    y = np.einsum("nd,ndk->nk", x, rules[which]).argmax(1)
    return replace(sample_set(x, y, "two rules"), source=np.array(["a", "b"])[which])


def two_lines(seed: int) -> SampleSet:
    rng = np.random.default_rng((seed, 18))
    x, which = rng.normal(size=(600, 6)), rng.integers(0, 2, 600)
    y = (x * rng.normal(size=(2, 6))[which]).sum(1) + 0.2 * rng.normal(size=600)
    return SampleSet(
        x.astype(np.float32), y.astype(np.float32)[:, None], np.arange(600),
        source=np.array(["a", "b"])[which], name="two lines",
    )  # fmt: skip


def rules(samples: SampleSet) -> int:
    return len(np.unique(samples.source))


def head(samples: SampleSet) -> nn.Linear:
    return nn.Linear(samples.x.shape[1], samples.n_classes or samples.y.shape[1])


def ours(samples: SampleSet, seed: int) -> np.ndarray:
    blind = replace(samples, source=None)
    return da.partition(head(samples), blind, n_blocks=rules(samples), seed=seed).block


def seen(samples: SampleSet) -> np.ndarray:
    """Inputs and targets side by side, standardised."""
    y = np.eye(samples.n_classes)[samples.y] if samples.n_classes else np.asarray(samples.y)
    rows = np.concatenate([samples.x.reshape(len(samples), -1), y.reshape(len(samples), -1)], 1)
    scale = rows.std(0)
    return (rows - rows.mean(0)) / np.where(scale > 0, scale, 1)


def k_means(samples: SampleSet, seed: int) -> np.ndarray:
    return KMeans(rules(samples), n_init=10, random_state=seed).fit_predict(seen(samples))


def gaussians(samples: SampleSet, seed: int) -> np.ndarray:
    model = GaussianMixture(rules(samples), n_init=5, reg_covar=1e-3, random_state=seed)
    return model.fit_predict(seen(samples))


def at_random(samples: SampleSet, seed: int) -> np.ndarray:
    return np.random.default_rng((seed, 19)).integers(0, rules(samples), len(samples))


def by_loss(samples: SampleSet, seed: int) -> np.ndarray:
    """Those that one model of all samples gets wrong, or fits worse than the median."""
    x = samples.x.reshape(len(samples), -1)
    if samples.n_classes:
        model = LogisticRegression(max_iter=1000).fit(x, samples.y)
        return (model.predict(x) != samples.y).astype(int)
    rows = np.c_[x, np.ones(len(x))]
    residual = np.abs(samples.y - rows @ np.linalg.lstsq(rows, samples.y, rcond=None)[0]).sum(1)
    return (residual > np.median(residual)).astype(int)


def judge(samples: SampleSet, answer: np.ndarray | float, seed: int) -> dict[str, float]:
    if np.ndim(answer) == 0:
        return {"adjusted Rand": float(answer)}
    return {"adjusted Rand": float(adjusted_rand_score(samples.source, answer))}


def oracle(samples: SampleSet, seed: int) -> float:
    return oracle_agreement(head(samples), samples, seed=seed)


TASK = Task(
    measure="samples of mixed rules distinguished: adjusted Rand index",
    cases={
        "letters, 350 and 150": Case(lambda seed: sd_mixture((350, 150), seed=seed), quick=True),
        "two linear rules": Case(two_rules, quick=True),
        "two regressions": Case(two_lines, quick=True),
        "letters, 1000 and 1000": Case(lambda seed: sd_mixture((1000, 1000), seed=seed)),
        "letters, three rules": Case(lambda seed: sd_mixture((1000, 700, 700), seed=seed)),
    },
    contenders={
        "partition": Contender(ours, "ours"),
        "random": Contender(at_random, "trivial"),
        "misfits of one model": Contender(by_loss, "trivial"),
        "k-means": Contender(k_means),
        "Gaussian mixture": Contender(gaussians),
        "assigned by models of the true parts": Contender(oracle, "bound"),
    },
    judge=judge,
)
