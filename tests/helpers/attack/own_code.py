"""What a user hands over in Python: Datasets with one thing wrong, and estimators that lie."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from torch.utils import data as loading

import datassay as da
from helpers.attack.case import Case, compared

N = 24
X = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 2


class Samples(loading.Dataset):
    """Rows of X, with one thing wrong."""

    def __init__(self, wrong: str):
        self.wrong = wrong

    def __len__(self) -> int:
        if self.wrong == "length raises":
            raise RuntimeError("no length")
        return {"too short": N - 4, "too long": N + 4}.get(self.wrong, N)

    def __getitem__(self, i: int) -> tuple:
        if self.wrong == "raises" and i == 7:
            raise KeyError("row 7")
        if self.wrong == "another shape" and i == 7:
            return X[i, :2], Y[i]
        return (X[i], Y[i], 3) if self.wrong == "three" else (X[i], Y[i])


class Liar(ClassifierMixin, BaseEstimator):
    """A logistic regression that tells something else."""

    def __init__(self, lie: str = ""):
        self.lie = lie

    def fit(self, x: Any, y: Any) -> "Liar":
        self.inner_ = LogisticRegression().fit(x, y)
        classes = self.inner_.classes_
        self.classes_ = {
            "reversed": classes[::-1], "others": classes + 5, "twice": classes * 0, "one less":
            classes[:-1],
        }.get(self.lie, classes)  # fmt: skip
        return self

    def predict_proba(self, x: Any) -> np.ndarray:
        p = self.inner_.predict_proba(x)
        lies = {"reversed": p[:, ::-1], "negative": 1.5 * p - 0.5 / p.shape[1], "nan": p * np.nan,
                "half": p / 2, "short": p[:-1], "logarithms": np.log(p)}  # fmt: skip
        return lies.get(self.lie, p)

    def predict(self, x: Any) -> np.ndarray:
        return self.inner_.predict(x)


DATASETS = {"": False, "too short": None, "too long": True, "raises": True, "length raises": True,
            "another shape": True, "three": True}  # fmt: skip
LIES = {"": False, "reversed": False, "others": True, "twice": True, "one less": True,
        "negative": True, "nan": True, "half": True, "short": True, "logarithms": True}  # fmt: skip


def case(draw: random.Random, folder: Path) -> Case:
    """One of them given to a function; scores must belong to the ids."""
    name, work, must = draw.choice([_dataset, _estimator])(draw)
    return compared(name, work, folder, must)


def _dataset(draw):
    wrong = draw.choice([*DATASETS])

    def work():
        train, _ = da.load(Samples(wrong), val_fraction=0.0)
        same = np.allclose(train.x, X[train.ids]) and (train.y == Y[train.ids].numpy()).all()
        return None if same else "silent: other samples"

    return f"Dataset {wrong}", work, DATASETS[wrong]


def _estimator(draw):
    lie, seed = draw.choice([*LIES]), draw.randrange(100)

    def work():
        random_ = np.random.default_rng(seed)
        y = np.arange(90) % 3
        x = random_.normal(size=(90, 3)) + 3 * np.eye(3)[y]
        y[:8] = (y[:8] + 1) % 3
        samples, _ = da.load((x, y), val_fraction=0.0)
        told, honest = (da.label_issues(samples, model=Liar(one)) for one in (lie, ""))
        return None if (told.score == honest.score).all() else "silent: other suspects"

    return f"estimator {lie}", work, LIES[lie]
