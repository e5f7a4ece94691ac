"""Findings of small runs, hostile texts among them."""

from dataclasses import replace

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, load_wine

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.commands.run.findings import Findings
from datassay.data.samples import SampleSet
from datassay.score.compare.aggregate import aggregate
from datassay.score.compare.retraining_check import Baselines
from datassay.score.effects import Attribution, TopEffects
from datassay.score.label_issues import LabelIssues
from datassay.score.labels.noise import LabelNoise
from datassay.score.learning_curve import LearningCurve
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.linear.training_run import Dynamics
from datassay.score.sample_information import SampleInformation

EVIL = "<script>alert(1)</script>"


DIGITS = ("zero", EVIL, "two", "three", "four", "five", "six", "seven", "eight", "nine")


def digit_samples(n=500, noise=0.1, seed=0):
    """Digits with some wrong labels, the truth kept, and a class name that wants to run."""
    data = load_digits()
    rng = np.random.default_rng(seed)
    pick = rng.permutation(len(data.target))[:n]
    truth = data.target[pick].astype(np.int64)
    y = truth.copy()
    wrong = rng.random(n) < noise
    y[wrong] = (y[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    x = data.images[pick].astype(np.float32)[:, None] / 16
    return SampleSet(x, y, pick, DIGITS, "image", true_y=truth, name="digits & <friends>")


def text_samples(n=90):
    texts = np.array([f"<b>Report {i}</b> & so on, " + "word " * (i % 80) for i in range(n)])
    y = (np.arange(n) % 3).astype(np.int64)
    ids = np.array([f"doc-{i}" for i in range(n)])
    return SampleSet(
        np.ones((n, 4)), y, ids, ("a", "b<i>", 'c" onload="x'), "text", texts=texts, name="texts"
    )


def row_samples():
    data = load_wine()
    names = tuple(str(f) for f in data.feature_names)
    y = data.target.astype(np.int64)
    return SampleSet(
        data.data, y, np.arange(len(y)), ("A", "B", "C"), "row", feature_names=names, name="wine"
    )


def regression_samples():
    data = load_diabetes()
    return SampleSet(data.data, data.target.astype(float), np.arange(442), name="diabetes")


def simulated_issues(samples, rng):
    n = len(samples)
    score = rng.normal(-4, 1.2, n)
    suggested = samples.y.copy()
    if samples.true_y is not None:
        wrong = samples.y != samples.true_y
        score[wrong] = rng.normal(4, 1.5, wrong.sum())
        suggested[wrong] = samples.true_y[wrong]
    return issues_of(samples, score, suggested)


def issues_of(samples, score, suggested=None, noise=None, probability=None):
    """Label issues with these log odds; wrong labels one of twenty, spread evenly."""
    n, k, score = len(samples), max(1, samples.n_classes), np.asarray(score, float)
    classes = samples.is_classification
    if noise is None and classes:
        noise = (LabelNoise("uniform", even_noise(k), -0.002),)
    return LabelIssues(
        score=score, probability=1 / (1 + np.exp(-score)) if probability is None else probability,
        suggested_label=samples.y if suggested is None else suggested, is_issue=score > 0,
        worth_a_look=score > -3,
        share_wrong=(float((score > 3).mean()), float((score > -3).mean())),
        posterior=np.full((n, k), 1 / k) if classes else None, noise=noise or (),
        held_out=np.zeros((n, k)), ridge=0.1, ids=samples.ids, given_label=samples.y,
        class_names=samples.class_names,
    )  # fmt: skip


def simulated_removals(ids, prediction_change, weight_change):
    """Leave-one-outs with the given changes."""
    n = len(ids)
    return LeaveOneOut(
        prediction_change=prediction_change, weight_change=weight_change, held_out=np.zeros((n, 1)),
        outputs=np.zeros((n, 1)), n_queries=n, on_training_inputs=True,
        run=Dynamics("flow", 0.1, 2000, 0.0), reduction="sum", largest_eigenvalue=5.0, rank=n,
        ids=ids,
    )  # fmt: skip


def even_noise(k, rate=0.05):
    """Any other class as often as any."""
    transition = np.full((k, k), rate / max(1, k - 1))
    np.fill_diagonal(transition, 1 - rate)
    return transition


def noisy_pair(k, rate=0.31):
    """The first class is given as the second in this share of cases; no other is wrong."""
    transition = np.eye(k)
    transition[0, :2] = 1 - rate, rate
    return LabelNoise("class", transition, 0.07)


def simulated_learning_curve(rng):
    eigenvalues = 40 * np.arange(1, 1001) ** -1.4
    energy = eigenvalues * rng.chisquare(1, 1000)
    steps = np.geomspace(1, 1e5, 60)
    bands = {"modes 1-10": slice(0, 10), "modes 11-100": slice(10, 100)}
    bands["modes 101-1000"] = slice(100, 1000)
    left = energy * np.exp(-2e-3 * np.outer(steps, eigenvalues)) ** 2  # [t, p]
    residual = np.stack([left[:, b].sum(1) / energy[b].sum() for b in bands.values()])
    total = left.sum(1) / energy.sum()
    return LearningCurve(eigenvalues, energy, steps, tuple(bands), residual, total, lr=2e-3)


def simulated_removal_curve(rng, metric="accuracy"):
    fractions = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])
    loss = {
        "lowest information first": [0, 0, 0.002, 0.004, 0.05, 0.15],
        "highest information first": [0, 0.02, 0.06, 0.2, 0.4, 0.6],
        "random": [0, 0.003, 0.008, 0.02, 0.06, 0.16],
        "lowest loss first": [0, 0.001, 0.004, 0.01, 0.07, 0.2],
        "highest margin first": [0, 0.001, 0.005, 0.012, 0.08, 0.22],
    }
    mean = 0.95 - np.array(list(loss.values()))
    score = mean[:, :, None] + rng.normal(0, 0.004, (*mean.shape, 5))
    return RemovalCurve(fractions, tuple(loss), score, metric)


def simulated_attribution(samples, rng, top=5):
    """Effects of the samples on each other, and outputs that are mostly right."""
    n = len(samples)
    effect = rng.normal(0, 0.01, (n, n))
    order = np.argsort(-effect, axis=0)
    raising, lowering = order[:top].T, order[::-1][:top].T
    columns = np.arange(n)[:, None]
    best = TopEffects(raising, effect[raising, columns], lowering, effect[lowering, columns])
    if samples.is_classification:
        outputs = np.eye(samples.n_classes)[samples.y] + rng.normal(0, 0.3, (n, samples.n_classes))
    else:
        outputs = samples.y.reshape(n, -1) + rng.normal(0, 30, (n, 1))
    values = outputs.max(1)
    attribution = Attribution(
        None, best, *effect.sum(1)[None], *np.ones((2, n)), values, "output", "flow", samples.ids
    )
    return attribution, outputs


def simulated_groups(samples, information):
    labels = {"source": samples.source}
    if samples.is_classification:
        labels = {"class": np.array(samples.class_names)[samples.y], **labels}
    return {by: aggregate(information, who) for by, who in labels.items() if who is not None}


def with_sources(samples):
    """The same samples from two places, one of which wants to be markup."""
    return replace(samples, source=np.where(np.arange(len(samples)) % 3, "here", EVIL))


def make_findings(samples=None, seed=0, **changes):
    """A run with heavy-tailed scores, as real ones have."""
    samples = digit_samples() if samples is None else samples
    rng, n = np.random.default_rng(seed), len(samples)
    issues = simulated_issues(samples, rng)
    information = np.exp(rng.normal(-7, 1.3, n) + 1.5 * (issues.score > 0))
    if samples.is_classification:
        information = information * np.where(samples.y == min(8, samples.n_classes - 1), 4, 1)
    attribution, outputs = simulated_attribution(samples, np.random.default_rng(seed + 1))
    result = Findings(
        samples=samples,
        validation=samples,
        information=SampleInformation(information, samples.ids, "functional", 1.0),
        leave_one_out=simulated_removals(samples.ids, 2 * n * information, information**0.9),
        issues=issues,
        learning_curve=simulated_learning_curve(rng),
        attribution=attribution,
        query_outputs=outputs,
        groups=simulated_groups(samples, information),
        baselines=Baselines(rng.exponential(0.1, n), rng.normal(3, 1, n), samples.ids),
        removal_curve=simulated_removal_curve(rng, "accuracy" if samples.n_classes else "R²"),
        facts={
            "data": f"{samples.name}: {n} training and {n} validation samples",
            "model": "mlp, width 256, depth 3 (150,282 parameters)",
            "dynamics": "gradient flow, 2,000 steps",
            "learning rate × λ_max": "0.50",
            "kernel": "primal, 2,400 features",
            "precision": "float32",
            "seconds": "12.4",
            "version": "0.1.0",
            "seed": "0",
            "command": "datassay run digits --noise 0.1 --out <report>",
        },
        warnings=("The validation part was split off: 20 % & stratified.",),
    )
    return replace(result, **changes)
