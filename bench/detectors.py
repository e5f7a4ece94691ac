"""Scores of a sample, [n], higher: more likely wrong, rare or hard; and who flags wrong labels."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from torch import nn

import datassay as da
from bench.data import Given, rows
from bench.frame import Contender
from datassay.act import auroc
from datassay.collect import Linearization
from datassay.commands import RunSettings
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import LabelIssues, further_judges, odd_inputs, source_columns

FOLDS = 5
# Inverse penalties of the logistic regression, the strongest penalty first.
STRENGTHS = {"text": np.logspace(-2, 3, 11), "row": np.logspace(-5, 2, 15)}
NEIGHBOURS = (10, 20, 50)
# A head of one hidden layer by SGD with momentum. Chosen for the baselines on seed 7 of four cells:
# at 0.02, or after 20 epochs, they have learnt the wrong labels by heart.
WIDTH, EPOCHS, BATCH, RATE = 256, 10, 64, 0.005
SAMPLES_SEEN = 40_000  # at least, where 10 epochs of a small set are few updates


# Ours. --------------------------------------------------------------------------------------


def as_run_asks(samples: SampleSet, seed: int) -> tuple[Linearization, LabelIssues]:
    """The library's label issues, asked as `datassay run` asks."""
    lin = da.collect(build_model(RunSettings().model, samples, seed=seed), samples, seed=seed)
    given = [*further_judges(samples, seed).values()]
    return lin, da.label_issues(lin, pred_probs=given, sources=source_columns(samples))


def linearised(samples: SampleSet, seed: int) -> Linearization:
    """The linearisation that `datassay score` makes."""
    return da.collect(build_model("mlp:width=256", samples, seed=seed), samples, seed=seed)


def information(samples: SampleSet, seed: int) -> np.ndarray:
    return da.sample_information(linearised(samples, seed)).information


def issues(samples: SampleSet, seed: int) -> np.ndarray:
    return da.label_issues(linearised(samples, seed)).score


def adversarial(samples: SampleSet, seed: int) -> np.ndarray:
    """The column that a run writes."""
    return odd_inputs(samples, label_score=issues(samples, seed)).adversarial


def rare_group(samples: SampleSet, seed: int) -> np.ndarray:
    return odd_inputs(samples, information=information(samples, seed)).rare_group


# Five-fold class probabilities, [n, k], for confident learning. -----------------------------


def folds(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Kept and held-out rows; a class with fewer samples than folds is spread as it can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        split = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        return list(split.split(np.zeros(len(y)), y))


def logistic(samples: SampleSet, seed: int) -> np.ndarray:
    """Logistic regression, its penalty tuned by the held-out log loss of the given labels.

    The penalty falls along a path, each fit starting from the last; it ends once two more steps
    have lowered the loss no further. Columns are standardised in each fold, words are not.
    """
    x, y, text, fits = rows(samples), samples.y, samples.kind == "text", []
    for kept, held in folds(y, seed):
        scale = StandardScaler(with_mean=not text, with_std=not text).fit(x[kept])
        model = LogisticRegression(warm_start=True, max_iter=200)
        fits.append((model, scale.transform(x[kept]), kept, scale.transform(x[held]), held))
    best, lowest, worse = np.empty(0), np.inf, 0
    for strength in STRENGTHS["text" if text else "row"]:
        values = np.zeros((len(x), samples.n_classes))
        for model, inside, kept, outside, held in fits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.set_params(C=strength).fit(inside, y[kept])
            values[np.ix_(held, model.classes_)] = model.predict_proba(outside)
        values /= values.sum(1, keepdims=True)  # float32 sums to 1 only nearly
        loss = -float(np.log(values[np.arange(len(y)), y].clip(min=1e-15)).mean())
        best, lowest, worse = (values, loss, 0) if loss < lowest else (best, lowest, worse + 1)
        if worse == 2:
            break
    return best


def trees(samples: SampleSet, seed: int) -> np.ndarray:
    """Histogram gradient boosting at scikit-learn's defaults, stopped early."""
    x, values = rows(samples), np.zeros((len(samples), samples.n_classes))
    for kept, held in folds(samples.y, seed):
        model = HistGradientBoostingClassifier(early_stopping=True, random_state=seed)
        model.fit(x[kept], samples.y[kept])
        values[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
    return values


# Neighbours and classes. --------------------------------------------------------------------


def neighbours(samples: SampleSet, seed: int) -> np.ndarray:
    """The share of the nearest samples with another label.

    How many (10, 20, 50) and by which distance (Euclidean, cosine) is chosen by how often their
    vote is the given label; of large sets by the first 4000 samples.
    """
    x, y, classes = rows(samples), torch.as_tensor(samples.y), samples.n_classes
    given = torch.as_tensor(StandardScaler().fit_transform(x) if samples.kind == "row" else x)
    choices = []
    for points in (given, nn.functional.normalize(given)):
        votes = _votes(points[:4000], points, y, classes)
        agree = [(vote.argmax(1) == y[:4000]).double().mean().item() for vote in votes]
        choices.append((max(agree), int(np.argmax(agree)), points))
    _, best, points = max(choices, key=lambda choice: choice[0])
    own = _votes(points, points, y, classes)[best].gather(1, y[:, None])[:, 0]
    return (1 - own / NEIGHBOURS[best]).double().numpy()


def _votes(queries, points, y, classes: int) -> list[torch.Tensor]:
    """For each number of neighbours the votes for each class, [m, k]; row i is point i itself."""
    squares, results = (points**2).sum(1), []
    for start in range(0, len(queries), 1000):
        some = queries[start : start + 1000]
        distance = squares - 2 * some @ points.T
        mine = torch.arange(len(some))
        distance[mine, start + mine] = torch.inf
        results.append(distance.topk(max(NEIGHBOURS), largest=False).indices)
    votes = nn.functional.one_hot(y, classes)[torch.cat(results)]  # [m, 50, k]
    return [votes[:, :count].sum(1) for count in NEIGHBOURS]


def class_mean(samples: SampleSet, seed: int) -> np.ndarray:
    """The distance from the mean of its class."""
    x, y = rows(samples), samples.y
    means = np.stack([
        x[y == c].mean(0) if (y == c).any() else x.mean(0) for c in range(samples.n_classes or 1)
    ])
    return np.linalg.norm(x - means[y], axis=1)


def isolation_forest(samples: SampleSet, seed: int) -> np.ndarray:
    """scikit-learn's defaults; it sees no label."""
    return -IsolationForest(random_state=seed).fit(rows(samples)).score_samples(rows(samples))


def local_outlier_factor(samples: SampleSet, seed: int) -> np.ndarray:
    """scikit-learn's defaults, within each class."""
    x, result = rows(samples), np.zeros(len(samples))
    for c in np.unique(samples.y):
        own = samples.y == c
        if own.sum() > 2:
            factor = LocalOutlierFactor(min(20, int(own.sum()) - 1)).fit(x[own])
            result[own] = -factor.negative_outlier_factor_
    return result


def at_random(samples: SampleSet, seed: int) -> np.ndarray:
    return np.random.default_rng((seed, 12)).random(len(samples))


# A trained head. ----------------------------------------------------------------------------


def final_loss(samples: SampleSet, seed: int) -> np.ndarray:
    """The loss of each sample once a head has been trained on all of them."""
    y = torch.as_tensor(samples.y)
    outputs = _outputs(samples, seed)
    return nn.functional.cross_entropy(outputs, y, reduction="none").double().numpy()


def margin(samples: SampleSet, seed: int) -> np.ndarray:
    """Minus the head's lead of the given label over the best other."""
    return -_lead(_outputs(samples, seed), torch.as_tensor(samples.y)).numpy()


def area_under_margin(samples: SampleSet, seed: int) -> np.ndarray:
    """Pleiss et al. (2020): the margin of the given label, averaged over the epochs of training.

    Two trainings; in each n/(k + 1) other samples are given a class of their own. A sample is
    judged where it keeps its label, less the 99th percentile of the margins of the others, by the
    mean over both where it does so twice.
    """
    n, k = len(samples), samples.n_classes
    order = torch.as_tensor(np.random.default_rng((seed, 4)).permutation(n))
    each = n // (k + 1)
    margins = torch.full((2, n), torch.nan, dtype=torch.float64)
    for run in range(2):
        y = torch.as_tensor(samples.y).clone()
        fake = order[run * each : (run + 1) * each]
        y[fake] = k
        epochs = [_lead(o, y) for o in _training(samples, y, k + 1, seed + 100 * run)]
        area = torch.stack(epochs).double().mean(0)
        margins[run] = area - torch.quantile(area[fake], 0.99)
        margins[run, fake] = torch.nan
    return -margins.nanmean(0).numpy()


def _lead(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    own = outputs.gather(1, y[:, None])[:, 0]
    return own - outputs.scatter(1, y[:, None], -torch.inf).max(1).values


def _outputs(samples: SampleSet, seed: int) -> torch.Tensor:
    """[n, k] of a head once it has been trained on all samples."""
    return list(_training(samples, torch.as_tensor(samples.y), samples.n_classes, seed))[-1]


def _training(
    samples: SampleSet, y: torch.Tensor, classes: int, seed: int
) -> Iterator[torch.Tensor]:
    """Outputs [n, k] of all samples after each epoch."""
    x = rows(samples)
    mean, deviation = (x.mean(0), x.std(0)) if samples.kind == "row" else (x.mean(), x.std())
    given = torch.as_tensor((x - mean) / np.where(deviation > 0, deviation, 1)).float()
    everyone = torch.arange(len(x))
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(given.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))
    step = torch.optim.SGD(head.parameters(), RATE, momentum=0.9, weight_decay=1e-4)
    for _ in range(max(EPOCHS, SAMPLES_SEEN // len(x))):
        for some in everyone[torch.randperm(len(everyone))].split(BATCH):
            step.zero_grad()
            nn.functional.cross_entropy(head(given[some]), y[some]).backward()
            step.step()
        with torch.no_grad():
            yield torch.cat([head(part) for part in given.split(4096)])


# Contenders. --------------------------------------------------------------------------------


TRIVIAL = {
    "random": at_random,
    "final loss": final_loss,
    "margin": margin,
    "class-mean distance": class_mean,
    "neighbours": neighbours,
}


def given(of: Callable, problem: Any, seed: int) -> np.ndarray:
    """A score of the samples that a contender is given."""
    return of(problem.given, seed)


def judge(task: Given, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"AUROC": auroc(task.marked, answer)}


def finders() -> dict[str, Contender]:
    """Who ranks samples that nobody labelled as odd."""
    kinds: dict[str, dict[str, Callable]] = {
        "ours": {
            "information": information,
            "label issues": issues,
            "adversarial score": adversarial,
            "rare-group score": rare_group,
        },
        "trivial": TRIVIAL,
        "baseline": {
            "area under the margin": area_under_margin,
            "isolation forest": isolation_forest,
            "local outlier factor": local_outlier_factor,
        },
    }
    return {
        name: Contender(partial(given, of), kind)
        for kind, group in kinds.items()
        for name, of in group.items()
    }
