"""What the library claims, on data it brings along: each against the plain way to the same figure.

A case does the same work twice, ours and the rival's in turns, and compares the two answers: a
ratio of times says nothing where the results differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from datassay.act.remove.rivals import auroc
from datassay.act.weigh.weights import sample_weights
from datassay.collect.collection import collect
from datassay.collect.linearization import Linearization
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.models.build import build_model
from datassay.polynomial.fit import fit_polynomial
from datassay.polynomial.monomials import local_monomials
from datassay.score.compare.retraining_check import retraining_check
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.train.retrain import retrain

TURNS = 3
FEW = 3  # of the removals that the rival is timed on
DESCENT: dict[str, Any] = {"lr": 0.05, "steps": 300}
N_POINTS, N_COLUMNS, N_NEIGHBORS, RATIO = 20_000, 64, 20, 40


@dataclass(frozen=True, slots=True)
class Measured:
    """One claim, measured.

    Attributes:
        what: our work, with its size.
        rival: what it was compared with.
        seconds: ours.
        rival_seconds: the rival's; where it did a part of the work, times the whole over the part.
        figure: what the answers were compared by; differences are shares of the largest value.
        value: ours, or how far both agree.
        rival_value: the rival's; None where `value` says how far both agree.
    """

    what: str
    rival: str
    seconds: float
    rival_seconds: float
    figure: str
    value: float
    rival_value: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the rival's seconds are ours."""
        return self.rival_seconds / self.seconds


def removals(seed: int) -> Measured:
    """All leave-one-outs in closed form, against one decomposition without each sample."""
    train, val = load("breast_cancer", seed=seed)
    lin = collect(build_model("mlp:width=256", train, seed=seed), train, val)
    flow_time = leave_one_out(lin).run.time
    ours, theirs = in_turns(
        lambda: leave_one_out(replace(lin)),  # a new one, so that its kernel is decomposed again
        lambda: [without_one(lin, flow_time, i) for i in range(FEW)],
    )
    whole = trained(lin.kernel, lin.val_kernel, lin.targets - lin.outputs, flow_time)
    change = np.array([float((whole - part).square().sum()) for part in theirs.answer])
    apart = np.abs(ours.answer.prediction_change[:FEW] - change).max() / change.max()
    return Measured(
        f"{len(train)} leave-one-outs, MLP(256)",
        "a decomposition of the kernel without each sample",
        ours.seconds,
        theirs.seconds * len(train) / FEW,
        "largest difference",
        float(apart),
    )


def without_one(lin: Linearization, flow_time: float, i: int) -> torch.Tensor:
    """f₋ᵢ − f₀ on the validation inputs by brute force: the kernel without row and column i."""
    assert lin.kernel is not None and lin.val_kernel is not None
    keep = torch.arange(len(lin.kernel)) != i
    residual = (lin.targets - lin.outputs)[keep]
    return trained(lin.kernel[keep][:, keep], lin.val_kernel[:, keep], residual, flow_time)


def trained(kernel, val_kernel, residual, flow_time: float) -> torch.Tensor:
    """F − f₀ on the validation inputs: Θ_val Q (1 − e^{−ητℓ})/ℓ Qᵀ (y − f₀)."""
    values, q = torch.linalg.eigh(kernel)
    values = values.clamp_min(torch.finfo(values.dtype).tiny)
    gain = -torch.expm1(-flow_time * values) / values
    return val_kernel @ (q @ (gain[:, None] * (q.T @ residual.to(q.dtype))))


def retraining(seed: int) -> Measured:
    """Networks without one sample each, side by side, against one after the other."""
    train, _ = load("wine", seed=seed)
    model, some = build_model("mlp:width=32,depth=2", train, seed=seed), range(40)
    ours, theirs = in_turns(
        lambda: retrain(model, train, loss="mse", removed=some, **DESCENT),
        lambda: [descend(model, train, i) for i in range(FEW)],
    )
    real = np.stack([output.numpy() for output in theirs.answer])
    apart = np.abs(ours.answer.outputs_without[:FEW] - real).max() / np.abs(real).max()
    return Measured(
        f"{len(some)} networks of 2 x 32 units retrained, {DESCENT['steps']} updates",
        "a loop in PyTorch",
        ours.seconds,
        theirs.seconds * len(some) / FEW,
        "largest difference",
        float(apart),
    )


def descend(model: nn.Module, train: SampleSet, left_out: int) -> torch.Tensor:
    """What `retrain` does, for one network and as one would write it."""
    net = deepcopy(model)
    x, keep = torch.as_tensor(train.x).float(), np.arange(len(train)) != left_out
    y = nn.functional.one_hot(torch.as_tensor(train.y)[keep], train.n_classes).float()
    inputs, optimizer = x[keep], torch.optim.SGD(net.parameters(), lr=DESCENT["lr"])
    for _ in range(DESCENT["steps"]):
        optimizer.zero_grad()
        (0.5 * (net(inputs) - y).square().sum(1)).mean().backward()
        optimizer.step()
    with torch.no_grad():
        return net(x)


def fidelity(seed: int) -> Measured:
    """Scores of the linearised network, against networks really retrained without samples."""
    train, val = load("breast_cancer", seed=seed)
    model = build_model("mlp:width=256", train, seed=seed)
    some = np.random.default_rng(seed).choice(len(train), 20, replace=False)
    recipe = {**DESCENT, "reduction": "mean"}
    ours, theirs = in_turns(
        lambda: leave_one_out(collect(model, train, val), dynamics="descent", **recipe),
        lambda: retrain(model, train, val, loss="mse", removed=some, **recipe),
        turns=1,
    )
    return Measured(
        f"what each of {len(train)} removals changes, linearised MLP(256), kernel included",
        f"really retraining without each, measured on {len(some)}",
        ours.seconds,
        theirs.seconds * len(train) / (len(some) + 1),
        "Pearson correlation",
        retraining_check(ours.answer, theirs.answer).pearson,
    )


def labels(seed: int) -> Measured:
    """Wrong labels found without training, against cross-validated logistic regression."""
    train, _ = load("digits", seed=seed)
    noisy = add_label_noise(train, 0.3, kind="pair", seed=seed)
    wrong = noisy.y != noisy.true_y
    model = build_model("mlp", noisy, seed=seed)
    ours, theirs = in_turns(
        lambda: label_issues(collect(model, noisy)).score,
        lambda: cross_validated_margin(noisy),
        turns=1,
    )
    return Measured(
        f"{int(wrong.sum())} wrong labels of {len(noisy):,} digits, class pairs",
        "5-fold logistic regression",
        ours.seconds,
        theirs.seconds,
        "AUROC",
        auroc(wrong, ours.answer),
        auroc(wrong, theirs.answer),
    )


def cross_validated_margin(samples: SampleSet) -> np.ndarray:
    """Minus the margin of the given label, from folds that did not hold the sample."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    x = samples.x.reshape(len(samples), -1)
    p = np.asarray(cross_val_predict(model, x, samples.y, method="predict_proba"))
    given = p[np.arange(len(samples)), samples.y]
    p[np.arange(len(samples)), samples.y] = -1
    return p.max(1) - given


def weights(seed: int) -> Measured:
    """Weights by local variance with exact neighbours, against scikit-learn's brute force."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(N_POINTS, N_COLUMNS))
    y = (x @ draw.normal(size=(N_COLUMNS, 10))).argmax(1)
    ours, theirs = in_turns(
        lambda: sample_weights(x, y, N_NEIGHBORS, RATIO, search="exact").weight,
        lambda: brute_weights(x, y, N_NEIGHBORS, RATIO),
    )
    return Measured(
        f"weights of {N_POINTS:,} samples x {N_COLUMNS} columns, {N_NEIGHBORS} neighbours",
        "scikit-learn's brute force",
        ours.seconds,
        theirs.seconds,
        "largest difference",
        float(np.abs(ours.answer - theirs.answer).max() / theirs.answer.max()),
    )


def brute_weights(x: np.ndarray, y: np.ndarray, n_neighbors: int, ratio: float) -> np.ndarray:
    """The same weights from scikit-learn's brute force, written as one would."""
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute", n_jobs=-1).fit(x)
    neighbors = search.kneighbors(x, return_distance=False)
    variance = np.eye(int(y.max()) + 1)[y][neighbors].var(1).sum(1)
    weight = 1 + (ratio - 1) * variance / variance.max()
    return weight / weight.sum()


def polynomial(seed: int) -> Measured:
    """A local polynomial of degree 2 with its ridge by leave-one-out, against RidgeCV."""
    train, val = load("digits", seed=seed)
    x, x_val = (part.x.reshape(len(part), -1).astype(float) for part in (train, val))
    terms, one_hot = local_monomials((8, 8)), np.eye(10)[train.y]
    features, val_features = terms.features(x), terms.features(x_val)
    ours, theirs = in_turns(
        lambda: fit_polynomial(x, one_hot, terms),
        lambda: RidgeCV(np.logspace(-2, 4, 13)).fit(features, one_hot),
    )
    right = ours.answer.polynomial.outputs(x_val).argmax(1) == val.y
    rival_right = theirs.answer.predict(val_features).argmax(1) == val.y
    return Measured(
        f"polynomial of {terms.n_features:,} features on {len(train):,} digits, ridge chosen",
        "scikit-learn's RidgeCV, 13 ridges",
        ours.seconds,
        theirs.seconds,
        "accuracy",
        float(right.mean()),
        float(rival_right.mean()),
    )


CASES: dict[str, Callable[[int], Measured]] = {
    "leave-one-out": removals,
    "retraining": retraining,
    "fidelity": fidelity,
    "labels": labels,
    "weights": weights,
    "polynomial": polynomial,
}


@dataclass(frozen=True, slots=True)
class Timed:
    """What a call gave, and its seconds.

    Attributes:
        answer: of the last turn.
        seconds: of the quickest.
    """

    answer: Any
    seconds: float


def in_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], turns: int = TURNS
) -> tuple[Timed, Timed]:
    """Time two calls one after the other, again and again, so that a busy machine slows both."""
    seconds: list[list[float]] = []
    answers: list[Any] = []
    for _ in range(turns):
        answers, took = [], []
        for call in (ours, theirs):
            start = time.perf_counter()
            answers.append(call())
            took.append(time.perf_counter() - start)
        seconds.append(took)
    best = np.min(seconds, axis=0)
    return Timed(answers[0], float(best[0])), Timed(answers[1], float(best[1]))
