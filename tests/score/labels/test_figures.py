"""What is said of drawn labels and targets stays.

PYTHONPATH=src:tests python tests/score/labels/test_figures.py    # writes it anew
"""

from functools import partial

import numpy as np
import torch

from datassay.score.label_issues import label_issues
from datassay.score.labels.noise import explain
from datassay.score.labels.outliers import _fit_mixture, outliers
from datassay.score.labels.ridge import judge_steps
from datassay.score.registry import Sizes
from helpers.figures import freeze, frozen_test
from helpers.linearizations import form, linearization


def of_labels(
    seed, k, n=150, noise="auto", flips=(), rate=0.0, judges=(0.4,), has_sources=False, trusted=0.0
):
    """Diagnosis of labels of k classes: (true, given, rate) flips, and others at a rate."""
    draw = np.random.default_rng(seed)
    true, source = draw.integers(k, size=n), draw.integers(4, size=n)
    outputs = [
        torch.as_tensor(np.eye(k)[true] + hard * draw.normal(size=(n, k))) for hard in judges
    ]
    y = np.where(draw.random(n) < rate, (true + draw.integers(1, k, n)) % k, true)
    for of, given, part in flips:
        y = np.where((true == of) & (draw.random(n) < part), given, y)
    if has_sources:
        y = np.where((source == 1) & (draw.random(n) < 0.6), (true + 1) % k, y)
    columns = {"who": source.astype(str), "batch": (source % 2).astype(str)} if has_sources else {}
    is_trusted = torch.as_tensor((y == true) & (draw.random(n) < trusted))
    labels = torch.as_tensor(y)
    return explain(
        outputs, lambda p: [f + p / 5 for f in outputs], labels, noise, is_trusted, columns
    )


def of_targets(seed, *, n=90, factor=1.0, share=0.06, is_bent=False, k=1, spread=0.3, **settings):
    """Issues of targets of four features, of which a share is so many times what it should be."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = x[:, :k] + x[:, 3:] / 2 + spread * rng.standard_t(4, (n, k))
    y = 20 * np.exp(y) if is_bent else y + 3
    y[rng.random(n) < share] *= factor
    rows = torch.as_tensor(np.column_stack([x, np.full(n, 3.0)]))
    return label_issues(
        linearization(rows[:, None], torch.as_tensor(y)[:, None], dual=False), **settings
    )


def of_several(seed, n=60, **settings):
    """Issues of three labels a sample, some of them wrong."""
    rng = np.random.default_rng(seed)
    x = torch.as_tensor(rng.normal(size=(n, 5)))
    y = (x[:, :3] + 0.2 * torch.as_tensor(rng.normal(size=(n, 3))) > 0).double()
    y[torch.as_tensor(rng.random((n, 3)) < 0.06)] -= 1
    return label_issues(linearization(x[:, None], y.abs()[:, None], dual=True), **settings)


def of_classes(seed, n=60, k=3, **settings):
    """Issues of classes by a linearisation."""
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    x = torch.as_tensor(np.eye(k)[true] + 0.4 * rng.normal(size=(n, k)))
    labels = np.where(rng.random(n) < 0.1, (true + 1) % k, true)
    if settings.get("pred_probs"):
        settings["pred_probs"] = rng.dirichlet(np.ones(k), n) / 2 + np.eye(k)[true] / 2
    if settings.get("groups"):
        settings["groups"] = rng.integers(12, size=n)
    y = torch.as_tensor(np.eye(k)[labels])
    return label_issues(linearization(x[:, None], y[:, None], dual=True, labels=labels), **settings)


def of_plan():
    """Steps of a plan, of forms of every kind: bytes, and operations by kind."""
    sizes = [(True, 1, 0), (True, 3, 3), (False, 1, 5), (False, 2, 101), (False, 2, 0)]
    forms = [(form("kernel" if dual else "features", "joint", n * b, 40, 4), n, k)
             for n in (100, 20_000) for dual, b, k in sizes]  # fmt: skip
    return [judge_steps(Sizes(form=one, train=n, val=9, classes=k)) for one, n, k in forms]


def of_zeros():
    """Outliers of held-out outputs of which some are 0, among targets of which few are negative."""
    rng = np.random.default_rng(0)
    y, output = rng.gamma(4, 1, (80, 1)) + 2, rng.gamma(4, 1, (80, 1)) + 2
    y[:6], output[3:9] = -y[:6], 0.0
    return outliers(torch.as_tensor(y), torch.as_tensor(output))


FLAT = torch.linspace(-50, 50, 80).double()
CASES = {
    "one rate": partial(of_labels, 0, 3, rate=0.15),
    "classes apart": partial(of_labels, 1, 2, rate=0.1, judges=(0.15,)),
    "hard": partial(of_labels, 2, 3, judges=(0.8,)),
    "nothing": partial(of_labels, 3, 3, judges=(30.0,)),
    "one way": partial(of_labels, 4, 2, n=400, flips=[(0, 1, 0.35)]),
    "one way, doubted": partial(of_labels, 5, 2, n=300, flips=[(0, 1, 0.12)]),
    "one way, clear": partial(of_labels, 6, 3, n=300, flips=[(0, 1, 0.6)], judges=(0.3, 0.5)),
    "pairs": partial(of_labels, 7, 6, n=300, flips=[(1, 3, 0.4)]),
    "by class": partial(of_labels, 8, 3, noise="class", rate=0.1),
    "uniform": partial(of_labels, 9, 3, noise="uniform", flips=[(0, 1, 0.3)], judges=(0.3, 0.6)),
    "trusted": partial(of_labels, 10, 3, rate=0.2, trusted=0.3),
    "a few trusted": partial(of_labels, 11, 2, rate=0.2, trusted=0.1),
    "sources": partial(of_labels, 12, 3, n=300, has_sources=True, trusted=0.1),
    "targets": partial(of_targets, 0, factor=4.0),
    "targets of a unit": partial(of_targets, 1, factor=10.0, is_bent=True, share=0.1),
    "targets of a clear unit": partial(of_targets, 8, factor=10.0, share=0.1, spread=0.1),
    "targets of a sign": partial(of_targets, 2, factor=-1.0, is_bent=True),
    "targets of many": partial(of_targets, 3, factor=-3.0, n=60, k=2),
    "targets that nothing tells": partial(of_targets, 4, factor=5.0, spread=3.0),
    "targets well told": partial(of_targets, 5, factor=1.5, spread=0.05, share=0.15),
    "targets grouped": partial(of_targets, 6, factor=4.0, n=60, groups=np.arange(60) // 6),
    "few targets": partial(of_targets, 7, factor=4.0, n=40, trusted=np.arange(40) < 20),
    "several labels": partial(of_several, 0),
    "outputs of 0": of_zeros,
    "a mixture of many": lambda: _fit_mixture(FLAT, 0 * FLAT - 4.7, 3.0, 0.05, FLAT > -45)[:3],
    "a plan": of_plan,
    "doubted": partial(of_labels, 13, 3, n=120, flips=[(0, 1, 0.15)], judges=(0.45,)),
    "classes": partial(of_classes, 1),
    "classes by two": partial(of_classes, 2, pred_probs=True),
    "classes of groups": partial(of_classes, 3, groups=True),
}
test_what_is_said_stays = frozen_test("labels.json", CASES)

if __name__ == "__main__":
    freeze("labels.json", CASES)
