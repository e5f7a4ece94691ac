"""Who is asked which labels are wrong: ours and the rivals, each as its own documents advise.

A contender takes a cell (a SampleSet with noisy y) and a seed, and sees no true label. Rivals share
five-fold class probabilities, which count in the seconds of each of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch import nn

from datassay.collect import collect
from datassay.commands import RunSettings
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import held_out_probabilities, label_issues

FOLDS = 5
# Rows and classes of a table that trees judge beside the network, as in `datassay run`.
FEWEST_ROWS, MOST_TREES = 1000, 20
# Inverse penalties of the logistic regression, the strongest penalty first.
STRENGTHS = {"text": np.logspace(-2, 3, 11), "row": np.logspace(-5, 2, 15)}
NEIGHBOURS = (10, 20, 50)
# A head of one hidden layer by SGD with momentum. Chosen for the rivals on seed 7 of four cells:
# at 0.02, or after 20 epochs, they have learnt the wrong labels by heart.
WIDTH, EPOCHS, BATCH, RATE = 256, 10, 64, 0.005
SAMPLES_SEEN = 40_000  # at least, where 10 epochs of a small set are few updates


@dataclass(frozen=True)
class Verdict:
    """What a contender says of each label.

    Attributes:
        score: [n], higher: more likely wrong.
        flagged: [n] bool, by the contender's own cut; None where it has none.
        probability: [n], that the label is wrong; None of those that do not say.
        seconds: of processor time, all that this contender needs.
    """

    score: np.ndarray
    flagged: np.ndarray | None
    probability: np.ndarray | None
    seconds: float


@dataclass(frozen=True)
class Probabilities:
    """Five-fold class probabilities, [n, k], and the seconds that they took."""

    values: np.ndarray
    seconds: float


def ours(cell: SampleSet, seed: int) -> Verdict:
    """The library, asked as `datassay run` asks it."""
    start = time.process_time()
    lin = collect(build_model(RunSettings().model, cell, seed=seed), cell, seed=seed)
    with_trees = cell.kind == "row" and len(cell) >= FEWEST_ROWS and cell.n_classes <= MOST_TREES
    probabilities = held_out_probabilities(cell, seed=seed) if with_trees else None
    found = label_issues(lin, pred_probs=probabilities)
    probability = getattr(found, "probability", None)
    return Verdict(found.score, found.is_issue, probability, time.process_time() - start)


def rivals(cell: SampleSet, seed: int) -> dict[str, Verdict]:
    """All others, by name."""
    x = cell.x.reshape(len(cell), -1).astype(np.float32)
    verdicts = {}
    for model, probabilities in _models(cell).items():
        found = probabilities(cell, x, seed)
        for name, verdict in confident_learning(cell.y, found).items():
            verdicts[f"{model}, {name}"] = verdict
    return verdicts | {
        "neighbours": neighbours(cell, x),
        "final loss": final_loss(cell, x, seed),
        "area under the margin": area_under_margin(cell, x, seed),
    }


def _models(cell: SampleSet) -> dict[str, Callable[..., Probabilities]]:
    """What cleanlab is given: always logistic regression; trees for tables, a head for pixels."""
    models: dict[str, Callable[..., Probabilities]] = {"logistic": logistic}
    if cell.kind == "row" and cell.x.shape[1] <= 200:
        models["trees"] = trees
    if cell.kind == "image":
        models["head"] = trained_head
    return models


# Confident learning. ------------------------------------------------------------------------


def confident_learning(y: np.ndarray, given: Probabilities) -> dict[str, Verdict]:
    """Its scores: its default, which is plain self-confidence, and the adjusted margin."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    start = time.process_time()
    flagged = find_label_issues(y, given.values, n_jobs=1)
    default = get_label_quality_scores(y, given.values)
    margin = get_label_quality_scores(
        y, given.values, method="normalized_margin", adjust_pred_probs=True
    )
    seconds = given.seconds + time.process_time() - start
    return {
        "self-confidence": Verdict(-default, flagged, None, seconds),
        "adjusted margin": Verdict(-margin, flagged, None, seconds),
    }


def folds(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Kept and held-out rows; a class with fewer samples than folds is spread as it can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        split = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        return list(split.split(np.zeros(len(y)), y))


def logistic(cell: SampleSet, x: np.ndarray, seed: int) -> Probabilities:
    """Logistic regression, its penalty tuned by the held-out log loss of the given labels.

    The penalty falls along a path, each fit starting from the last; it ends once two more steps
    have lowered the loss no further. Columns are standardised in each fold, words are not.
    """
    start = time.process_time()
    text = cell.kind == "text"
    fits = []
    for kept, held in folds(cell.y, seed):
        scale = StandardScaler(with_mean=not text, with_std=not text).fit(x[kept])
        model = LogisticRegression(warm_start=True, max_iter=200)
        fits.append((model, scale.transform(x[kept]), kept, scale.transform(x[held]), held))
    best, lowest, worse = np.empty(0), np.inf, 0
    for strength in STRENGTHS["text" if text else "row"]:
        values = np.zeros((len(x), cell.n_classes))
        for model, inside, kept, outside, held in fits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.set_params(C=strength).fit(inside, cell.y[kept])
            values[np.ix_(held, model.classes_)] = model.predict_proba(outside)
        values /= values.sum(1, keepdims=True)  # float32 sums to 1 only nearly
        loss = _log_loss(cell.y, values)
        best, lowest, worse = (values, loss, 0) if loss < lowest else (best, lowest, worse + 1)
        if worse == 2:
            break
    return Probabilities(best, time.process_time() - start)


def trees(cell: SampleSet, x: np.ndarray, seed: int) -> Probabilities:
    """Histogram gradient boosting at scikit-learn's defaults, stopped early."""
    start = time.process_time()
    values = np.zeros((len(x), cell.n_classes))
    for kept, held in folds(cell.y, seed):
        model = HistGradientBoostingClassifier(early_stopping=True, random_state=seed)
        model.fit(x[kept], cell.y[kept])
        values[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
    return Probabilities(values, time.process_time() - start)


def trained_head(cell: SampleSet, x: np.ndarray, seed: int) -> Probabilities:
    """The head, one a fold, after the number of epochs with the lowest held-out log loss."""
    start = time.process_time()
    y, parts = torch.as_tensor(cell.y), []
    for f, (kept, held) in enumerate(folds(cell.y, seed)):
        epochs = _training(x, y, cell.n_classes, FOLDS * seed + f, cell.kind, kept, 3)
        parts.append((held, [outputs[held].softmax(1).double() for outputs in epochs]))
    best, lowest = np.empty(0), np.inf
    for epoch in range(len(parts[0][1])):
        values = torch.empty(len(cell), cell.n_classes, dtype=torch.float64)
        for held, outputs in parts:
            values[held] = outputs[epoch]
        loss = _log_loss(cell.y, values.numpy())
        best, lowest = (values.numpy(), loss) if loss < lowest else (best, lowest)
    return Probabilities(best, time.process_time() - start)


def _log_loss(y: np.ndarray, values: np.ndarray) -> float:
    return -float(np.log(values[np.arange(len(y)), y].clip(min=1e-15)).mean())


# Neighbours. --------------------------------------------------------------------------------


def neighbours(cell: SampleSet, x: np.ndarray) -> Verdict:
    """The share of the nearest samples with another label.

    How many (10, 20, 50) and by which distance (Euclidean, cosine) is chosen by how often their
    vote is the given label; of large sets by the first 4000 samples. The cut: another label has
    most votes.
    """
    start = time.process_time()
    y, classes = torch.as_tensor(cell.y), cell.n_classes
    rows = torch.as_tensor(StandardScaler().fit_transform(x) if cell.kind == "row" else x)
    choices = {}
    for name, points in (("euclidean", rows), ("cosine", nn.functional.normalize(rows))):
        votes = _votes(points[:4000], points, y, classes)
        agree = [(vote.argmax(1) == y[:4000]).double().mean().item() for vote in votes]
        best = int(np.argmax(agree))
        choices[name] = (agree[best], best, points)
    _, best, points = max(choices.values(), key=lambda choice: choice[0])
    votes = _votes(points, points, y, classes)[best]
    own = votes.gather(1, y[:, None])[:, 0]
    score = (1 - own / NEIGHBOURS[best]).double().numpy()
    flagged = (votes.max(1).values > own).numpy()
    return Verdict(score, flagged, None, time.process_time() - start)


def _votes(queries, points, y, classes: int) -> list[torch.Tensor]:
    """For each number of neighbours the votes for each class, [m, k]; row i is point i itself."""
    squares, found = (points**2).sum(1), []
    for start in range(0, len(queries), 1000):
        some = queries[start : start + 1000]
        distance = squares - 2 * some @ points.T
        mine = torch.arange(len(some))
        distance[mine, start + mine] = torch.inf
        found.append(distance.topk(max(NEIGHBOURS), largest=False).indices)
    votes = nn.functional.one_hot(y, classes)[torch.cat(found)]  # [m, 50, k]
    return [votes[:, :count].sum(1) for count in NEIGHBOURS]


# A trained head. ----------------------------------------------------------------------------


def final_loss(cell: SampleSet, x: np.ndarray, seed: int) -> Verdict:
    """The loss of each sample once a head has been trained on all of them."""
    start = time.process_time()
    outputs = torch.as_tensor(trained_outputs(cell, x, seed))
    loss = nn.functional.cross_entropy(outputs, torch.as_tensor(cell.y), reduction="none")
    return Verdict(loss.double().numpy(), None, None, time.process_time() - start)


def trained_outputs(cell: SampleSet, x: np.ndarray, seed: int) -> np.ndarray:
    """Outputs [n, k] of a head once it has been trained on all samples."""
    epochs = _training(x, torch.as_tensor(cell.y), cell.n_classes, seed, cell.kind)
    return list(epochs)[-1].numpy()


def area_under_margin(cell: SampleSet, x: np.ndarray, seed: int) -> Verdict:
    """Pleiss et al. (2020): the margin of the given label, averaged over the epochs of training.

    Two trainings; in each n/(k + 1) other samples are given a class of their own, and who lies
    below the 99th percentile of their margins is flagged. A sample is judged where it keeps its
    label, by the mean over both where it does so twice.
    """
    start = time.process_time()
    n, k = len(cell), cell.n_classes
    order = torch.as_tensor(np.random.default_rng((seed, 4)).permutation(n))
    each = n // (k + 1)
    margins, cuts = torch.full((2, n), torch.nan, dtype=torch.float64), []
    for run in range(2):
        y = torch.as_tensor(cell.y).clone()
        fake = order[run * each : (run + 1) * each]
        y[fake] = k
        epochs = [_margin(o, y) for o in _training(x, y, k + 1, seed + 100 * run, cell.kind)]
        area = torch.stack(epochs).double().mean(0)
        cuts.append(torch.quantile(area[fake], 0.99))
        margins[run] = area - cuts[-1]
        margins[run, fake] = torch.nan
    lead = margins.nanmean(0).numpy()
    return Verdict(-lead, lead < 0, None, time.process_time() - start)


def _margin(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    own = outputs.gather(1, y[:, None])[:, 0]
    return own - outputs.scatter(1, y[:, None], -torch.inf).max(1).values


def _training(
    x: np.ndarray, y: torch.Tensor, classes: int, seed: int, kind: str, kept=None, longer: int = 1
):
    """Outputs [n, k] of all samples after each epoch on those kept (default: all)."""
    mean, deviation = (x.mean(0), x.std(0)) if kind == "row" else (x.mean(), x.std())
    rows = torch.as_tensor((x - mean) / np.where(deviation > 0, deviation, 1)).float()
    kept = torch.arange(len(x)) if kept is None else torch.as_tensor(kept)
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(rows.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))
    step = torch.optim.SGD(head.parameters(), RATE, momentum=0.9, weight_decay=1e-4)
    for _ in range(longer * max(EPOCHS, SAMPLES_SEEN // len(x))):
        for some in kept[torch.randperm(len(kept))].split(BATCH):
            step.zero_grad()
            nn.functional.cross_entropy(head(rows[some]), y[some]).backward()
            step.step()
        with torch.no_grad():
            yield torch.cat([head(part) for part in rows.split(4096)])
