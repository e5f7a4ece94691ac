"""Mislabelled samples (S1 Figs 2b, 8 and App. A.5): who finds them, on the same noisy labels.

Ours: label_issues and, as the paper has it, functional sample information alone. Rivals: the final
training loss of the same network, averaged over five of them, and confident learning (cleanlab)
on five-fold cross-validated probabilities of logistic regression and of the same network; its
better figure counts. No method sees a clean label, and no test or validation label is used. More
kinds of noise, human ones among them: `real_noise.py`.

    python papers/s1_label_errors.py [case ...]     cases: those of CASES; all by default
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
import torch
from figure import histogram
from record import record
from resnet20 import features
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.act import auroc, task_recipe, train_all
from datassay.data import SampleSet
from datassay.errors import SettingError
from datassay.train import sample_losses, train_networks

NETWORKS = 5
FOLDS = 5
# S1 App. A.3 and A.5: t = 2000 steps at 1e-3 of the mean loss.
PAPER_RUN = {"lr": 1e-3, "steps": 2000, "reduction": "mean", "dynamics": "descent"}


def idx(name: str, size: int, **settings) -> Callable[[int], SampleSet]:
    return lambda seed: tasks.draw(tasks.idx_images, (size,), seed, name, **settings)[0]


def pets(seed: int) -> SampleSet:
    """1000 photographs halved to 32 x 32, in colour."""
    return tasks.halved(tasks.draw(tasks.cats_dogs, (1000,), seed, names=("cat", "dog"))[0])


def known_pets(seed: int) -> SampleSet:
    """The same photographs as features of a network that knew other cats and dogs by name."""
    return features(pets(seed))


def judged(name: str, images: Callable[[], tuple[np.ndarray, ...]]) -> Callable[[int], SampleSet]:
    """Errors of a test set: those that three of five workers did not label as given.

    The workers were shown what confident learning suspected, so the rivals choose the questions.
    """

    def sample(seed: int) -> SampleSet:
        x, y = images()[:2]
        file = tasks.folder() / "label_noise" / f"cleanlab_{name}_mturk.json"
        answers = json.loads(file.read_text(encoding="utf-8"))
        shown = np.array([a["id"] for a in answers])
        others = np.setdiff1d(np.arange(len(y)), shown)
        rest = np.random.default_rng(seed).choice(others, 3000 - len(shown), replace=False)
        truth = y.copy()
        for a in answers:
            if a["mturk"]["given"] < 3:
                truth[a["id"]] = a["our_guessed_label"]
        some = np.sort(np.concatenate([shown, rest]))
        names = tuple(map(str, range(10)))
        return SampleSet(
            x[some], y[some], some, names, "image", true_y=truth[some], name=f"{name} test"
        )

    return sample


# case → its part of S1 Fig. 8
FIGURES = {
    "4 vs 9 10% uniform": "8a",
    "cats vs dogs 10% uniform": "8b",
    "cats vs dogs features 10% uniform": "8b_features",
}
# name → (samples, network, kind and rate of the noise or None where people made it, seeds)
CASES: dict[str, tuple] = {
    "4 vs 9 30% pair": (idx("mnist", 1000, classes=(4, 9)), "mlp:width=1024", ("pair", 0.3), 3),
    "4 vs 9 10% uniform": (
        idx("mnist", 1000, classes=(4, 9)),
        "mlp:width=1024",
        ("uniform", 0.1),
        3,
    ),
    "cats vs dogs 30% pair": (pets, "cnn", ("pair", 0.3), 3),
    "cats vs dogs 10% uniform": (pets, "cnn", ("uniform", 0.1), 3),
    "cats vs dogs features 30% pair": (known_pets, "mlp:width=1024", ("pair", 0.3), 3),
    "cats vs dogs features 10% uniform": (known_pets, "mlp:width=1024", ("uniform", 0.1), 3),
    "mnist test errors": (
        judged("mnist", lambda: tasks.idx_images("mnist", "test")),
        "mlp",
        None,
        2,
    ),
    "cifar10 test errors": (judged("cifar10", lambda: tasks.cifar10("test")), "mlp", None, 2),
}


def information(noisy: SampleSet, lin) -> np.ndarray:
    """F-SI about the training inputs, in the paper's setting where it is stable."""
    try:
        return da.sample_information(lin, **PAPER_RUN).information
    except SettingError:  # the step size is unstable for this network
        return da.sample_information(lin).information


def final_loss(noisy: SampleSet, network: str, seed: int) -> np.ndarray:
    models = [da.build_model(network, noisy, seed=10 * seed + s) for s in range(NETWORKS)]
    trained = train_all(models, noisy, task_recipe(noisy), seed)
    outputs = trained.outputs(torch.as_tensor(noisy.x).float())
    return sample_losses(outputs, noisy, task_recipe(noisy)).mean(0).numpy()


def logistic_probabilities(noisy: SampleSet, seed: int) -> np.ndarray:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100, C=0.01))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    rows = noisy.x.reshape(len(noisy), -1)
    return cross_val_predict(model, rows, noisy.y, cv=folds, method="predict_proba")


def network_probabilities(noisy: SampleSet, network: str, seed: int) -> np.ndarray:
    """One network a fold, all folds trained in one batched program."""
    n, held = len(noisy), np.empty(len(noisy), dtype=int)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for f, (_, out) in enumerate(folds.split(noisy.x, noisy.y)):
        held[out] = f
    size = min(int((held != f).sum()) for f in range(FOLDS))
    subsets = np.stack([np.flatnonzero(held != f)[:size] for f in range(FOLDS)])
    models = [da.build_model(network, noisy, seed=10 * seed + f) for f in range(FOLDS)]
    trained = train_networks(models, noisy, torch.as_tensor(subsets), task_recipe(noisy), seed=seed)
    outputs = trained.outputs(torch.as_tensor(noisy.x).float())[held, torch.arange(n)]
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    return outputs.softmax(1).double().numpy()


def confident(noisy: SampleSet, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cleanlab's label quality (negated) and the samples it flags."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    flags = find_label_issues(noisy.y, probabilities, n_jobs=1)
    return -get_label_quality_scores(noisy.y, probabilities), flags


def hits(flags: np.ndarray, wrong: np.ndarray) -> tuple[float, float]:
    found = (flags & wrong).sum()
    return float(found / max(1, flags.sum())), float(found / wrong.sum())


def measure(
    samples: SampleSet, network: str, noise, seed: int
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """Figures, and the information and the truth to draw."""
    noisy = samples
    if noise is not None:
        noisy = da.add_label_noise(samples, noise[1], kind=noise[0], seed=seed)
    wrong = noisy.y != noisy.true_y
    start = time.perf_counter()
    lin = da.collect(da.build_model(network, noisy, seed=seed), noisy)
    issues = da.label_issues(lin)
    seconds = time.perf_counter() - start
    fsi = information(noisy, lin)
    logistic = confident(noisy, logistic_probabilities(noisy, seed))
    deep = confident(noisy, network_probabilities(noisy, network, seed))
    best = max((logistic, deep), key=lambda found: auroc(wrong, found[0]))
    ours, theirs = hits(issues.is_issue, wrong), hits(best[1], wrong)
    figures = {
        "share_wrong": float(wrong.mean()),
        "auroc": auroc(wrong, issues.score),
        "precision": ours[0],
        "recall": ours[1],
        "auroc_information": auroc(wrong, fsi),
        "information_ratio": float(fsi[wrong].mean() / fsi[~wrong].mean()),
        "auroc_final_loss": auroc(wrong, final_loss(noisy, network, seed)),
        "auroc_confident_logistic": auroc(wrong, logistic[0]),
        "auroc_confident_network": auroc(wrong, deep[0]),
        "confident_precision": theirs[0],
        "confident_recall": theirs[1],
        "seconds": seconds,
    }
    return figures, fsi, wrong


def main() -> None:
    for case in sys.argv[1:] or CASES:
        sample, network, noise, seeds = CASES[case]
        found = [measure(sample(seed), network, noise, seed) for seed in range(seeds)]
        rows = [figures for figures, _, _ in found]
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        n = len(sample(0))
        lowest = min(row["auroc"] for row in rows)
        best_rival = [
            max(v for k, v in row.items() if k.startswith(("auroc_final", "auroc_conf")))
            for row in rows
        ]
        leads = [row["auroc"] - rival for row, rival in zip(rows, best_rival, strict=True)]
        record(
            f"s1_label_errors/{case}",
            n=n,
            model=network,
            seeds=seeds,
            **means,
            auroc_lowest_seed=lowest,
            lead_over_best_rival_lowest_seed=min(leads),
        )
        if case in FIGURES:
            _, fsi, wrong = found[0]
            histogram(
                f"s1_label_errors_{FIGURES[case]}",
                f"S1 Fig. 8: {case} noise",
                {"correct": fsi[~wrong], "mislabelled": fsi[wrong]},
                x_title="functional sample information, nats",
            )


if __name__ == "__main__":
    main()
