"""`datassay bench`: what the library claims, each against the plain way to the same figure.

A case does the same work twice, ours and the rival's in turns, and compares the two answers: a
ratio of times says nothing where the results differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
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
from datassay.collect.curvature.output_loss import margins
from datassay.collect.linearization import Linearization
from datassay.commands.bench.command import ClaimSettings
from datassay.commands.frame import Findings, table
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.data.settings import check_seed
from datassay.machine import machine_name, matrix_rate
from datassay.models.build import build_model
from datassay.polynomial.fit import fit_polynomial
from datassay.polynomial.monomials import local_monomials
from datassay.progress import Progress, silent
from datassay.report.page import Page, Section, Text
from datassay.report.tables import standard_json
from datassay.report.wording import count, number
from datassay.results import result
from datassay.rules import require
from datassay.score.compare.retraining_check import retraining_check
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.train.learner import rows_of
from datassay.train.retrain import retrain

FILES = {"bench.parquet": "every case", "summary.json": "the figures above"}
COLUMNS = ("case", "ours, s", "plain, s", "times as fast", "answers")
LIBRARIES = ("datassay", "torch", "numpy", "scipy", "scikit-learn")
TURNS = 3
FEW = 3  # of the removals that the rival is timed on
DESCENT: dict[str, Any] = {"lr": 0.05, "steps": 300}
N_POINTS, N_COLUMNS, N_NEIGHBORS, RATIO = 20_000, 64, 20, 40


@dataclass(frozen=True, slots=True)
class Measured:
    """One claim, measured."""

    what: str  # our work, with its size
    rival: str  # what it was compared with
    seconds: float
    rival_seconds: float  # where it did a part of the work, times the whole over the part
    figure: str  # what answers were compared by; differences are shares of the largest value
    value: float  # ours, or how far both agree
    rival_value: float | None = None  # None where `value` says how far both agree

    @property
    def ratio(self) -> float:
        """How many times the rival's seconds are ours."""
        return self.rival_seconds / self.seconds


@result
class BenchFindings(Findings):
    """What was measured, in the order the cases ran; the facts say on what."""

    cases: dict[str, Measured]


def in_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], turns: int = TURNS, part: float = 1
) -> tuple[Any, Any, tuple[float, float]]:
    """Two calls one after the other, again and again, so that a busy machine slows both.

    Returns:
        The answers of the last turn, and the seconds of the quickest; the rival's over `part`, of
        the work that it did.
    """
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
    return answers[0], answers[1], (float(best[0]), float(best[1]) / part)


def _apart(ours: np.ndarray, theirs: np.ndarray) -> tuple[str, float]:
    return "largest difference", float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def removals(seed: int) -> Measured:
    """All leave-one-outs in closed form, against one decomposition without each sample."""
    train, val = load("breast_cancer", seed=seed)
    lin = collect(build_model("mlp:width=256", train, seed=seed), train, val)
    flow_time = leave_one_out(lin).run.time
    ours, theirs, seconds = in_turns(
        lambda: leave_one_out(replace(lin)),  # a new one, so that its kernel is decomposed again
        lambda: [without_one(lin, flow_time, i) for i in range(FEW)],
        part=FEW / len(train),
    )
    whole = trained(lin.kernel, lin.val_kernel, lin.targets - lin.outputs, flow_time)
    change = np.array([float((whole - part).square().sum()) for part in theirs])
    rival = "a decomposition of the kernel without each sample"
    apart = _apart(ours.prediction_change[:FEW], change)
    return Measured(f"{len(train)} leave-one-outs, MLP(256)", rival, *seconds, *apart)


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
    ours, theirs, seconds = in_turns(
        lambda: retrain(model, train, loss="mse", removed=some, **DESCENT),
        lambda: [descend(model, train, i) for i in range(FEW)],
        part=FEW / len(some),
    )
    apart = _apart(ours.outputs_without[:FEW], np.stack([output.numpy() for output in theirs]))
    what = f"{len(some)} networks of 2 x 32 units retrained, {DESCENT['steps']} updates"
    return Measured(what, "a loop in PyTorch", *seconds, *apart)


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
    ours, theirs, seconds = in_turns(
        lambda: leave_one_out(collect(model, train, val), dynamics="descent", **recipe),
        lambda: retrain(model, train, val, loss="mse", removed=some, **recipe),
        turns=1,
        part=(len(some) + 1) / len(train),
    )
    return Measured(
        f"what each of {len(train)} removals changes, linearised MLP(256), kernel included",
        f"really retraining without each, measured on {len(some)}",
        *seconds,
        "Pearson correlation",
        retraining_check(ours, theirs).pearson,
    )


def labels(seed: int) -> Measured:
    """Wrong labels found without training, against cross-validated logistic regression."""
    train, _ = load("digits", seed=seed)
    noisy = add_label_noise(train, 0.3, kind="pair", seed=seed)
    wrong = noisy.y != noisy.true_y
    model = build_model("mlp", noisy, seed=seed)
    ours, theirs, seconds = in_turns(
        lambda: label_issues(collect(model, noisy)).score,
        lambda: cross_validated_margin(noisy),
        turns=1,
    )
    return Measured(
        f"{int(wrong.sum())} wrong labels of {len(noisy):,} digits, class pairs",
        "5-fold logistic regression",
        *seconds,
        "AUROC",
        auroc(wrong, ours),
        auroc(wrong, theirs),
    )


def cross_validated_margin(samples: SampleSet) -> np.ndarray:
    """Minus the margin of the given label, from folds that did not hold the sample."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    x = rows_of(samples, None)
    chance = cross_val_predict(model, x, samples.y, method="predict_proba")
    return -margins(np.asarray(chance), samples)


def weights(seed: int) -> Measured:
    """Weights by local variance with exact neighbours, against scikit-learn's brute force."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(N_POINTS, N_COLUMNS))
    y = (x @ draw.normal(size=(N_COLUMNS, 10))).argmax(1)
    ours, theirs, seconds = in_turns(
        lambda: sample_weights(x, y, N_NEIGHBORS, RATIO, search="exact").weight,
        lambda: brute_weights(x, y, N_NEIGHBORS, RATIO),
    )
    what = f"weights of {N_POINTS:,} samples x {N_COLUMNS} columns, {N_NEIGHBORS} neighbours"
    return Measured(what, "scikit-learn's brute force", *seconds, *_apart(ours, theirs))


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
    x, x_val = rows_of(train), rows_of(val)
    terms, one_hot = local_monomials((8, 8)), np.eye(10)[train.y]
    features, val_features = terms.features(x), terms.features(x_val)
    ours, theirs, seconds = in_turns(
        lambda: fit_polynomial(x, one_hot, terms),
        lambda: RidgeCV(np.logspace(-2, 4, 13)).fit(features, one_hot),
    )
    right = ours.polynomial.outputs(x_val).argmax(1) == val.y
    rival_right = theirs.predict(val_features).argmax(1) == val.y
    return Measured(
        f"polynomial of {terms.n_features:,} features on {len(train):,} digits, ridge chosen",
        "scikit-learn's RidgeCV, 13 ridges",
        *seconds,
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


def run(settings: ClaimSettings, progress: Progress = silent) -> BenchFindings:
    """Measure cases one after the other."""
    check_seed(settings.seed)
    unknown = [name for name in settings.case if name not in CASES]
    rule, got = f"be one of {', '.join(CASES)}", ", ".join(map(repr, unknown))
    require(not unknown, "a case", rule, got)
    chosen, cases = list(dict.fromkeys(settings.case or CASES)), {}
    for done, name in enumerate(chosen):
        progress("measure", done, len(chosen))
        cases[name] = CASES[name](settings.seed)
    progress("measure", len(chosen), len(chosen))
    rates = {name: matrix_rate(getattr(torch, name)) for name in ("float32", "float64")}
    facts = {
        "Machine": machine_name(),
        "Threads": str(torch.get_num_threads()),
        "Matrix products": ", ".join(f"{rate / 1e9:.0f} GF/s {k}" for k, rate in rates.items()),
        "Versions": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "Seed": str(settings.seed),
        "Command": settings.command,
    }
    return BenchFindings(cases, facts=facts)


def page(findings: BenchFindings) -> Page:
    """Seconds beside the rival's, and how the answers compare."""
    rows = []
    for name, one in findings.cases.items():
        answers = f"{one.figure} {number(one.value)}"
        if one.rival_value is not None:
            answers += f" against {number(one.rival_value)}"
        rows.append((name, *map(number, (one.seconds, one.rival_seconds, one.ratio)), answers))
    cases = tuple(f"{name}: {m.what}, against {m.rival}" for name, m in findings.cases.items())
    facts = (f"{name}: {value}" for name, value in findings.facts.items() if name != "Command")
    blocks = (table("Cases", COLUMNS, rows, in_terminal=True), *map(Text, cases))
    return Page(
        brand="datassay bench · what the library claims, measured here",
        title="The library against the plain way",
        lead=f"{count(len(rows), 'case')}, each done twice and the answers compared",
        facts=findings.facts,
        sections=(Section("cases", "Cases", "Cases", blocks),),
        files=FILES,
        answer=(*cases, *facts),
    )


def files(findings: BenchFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    rows = [{"case": k, **asdict(m), "ratio": m.ratio} for k, m in findings.cases.items()]
    summary = standard_json({**page.head, "cases": rows})
    return {"bench.parquet": pa.Table.from_pylist(rows), "summary.json": summary}
