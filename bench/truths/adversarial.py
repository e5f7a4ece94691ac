"""Adversarial samples: a tenth of the inputs moved so that a trained network errs; who finds them.

The step is the fast gradient sign method's against another network than any contender has. AUROC of
a score against which inputs were moved.
"""

from functools import partial

from bench import data, detectors
from bench.data import Given
from bench.frame import Case, Task
from bench.networks import trained

from datassay.data import SampleSet, add_adversarial
from datassay.models import build_model
from datassay.train import Recipe

SHARE = 0.1
# name → columns' largest change, in their standard deviations
STEPS = {"digits": 0.5, "synthetic": 0.7, "breast_cancer": 0.7}


def attacked(samples: SampleSet, epsilon: float, seed: int) -> Given:
    """By a network of its own."""
    start = build_model("mlp:width=64", samples, seed=5000 + seed)
    network = trained(start, samples, Recipe(steps=400), seed)
    result = add_adversarial(samples, network, SHARE, epsilon=epsilon, seed=seed)
    return Given(result.samples, result.replaced)


def small(name: str, n: int, seed: int) -> Given:
    return attacked(data.split(name, n, seed)[0], STEPS[name], seed)


def unseen(name: str, seed: int) -> Given:
    return attacked(data.unseen(name, 800, seed), 0.7, seed)


def pictures(name: str, seed: int) -> Given:
    drawn = data.small_images(name, 3000, seed)
    return attacked(drawn, 0.1 * float(drawn.x.max()), seed)


TASK = Task(
    measure="adversarial inputs found: AUROC",
    cases={
        "digits": Case(partial(small, "digits", 800), quick=True),
        "synthetic": Case(partial(small, "synthetic", 800), quick=True),
        "breast_cancer": Case(partial(small, "breast_cancer", 450), quick=True),
        **{
            name: Case(partial(unseen, name)) for name in ("iris", "20 columns", "boston", "emnist")
        },
        "MNIST": Case(partial(pictures, "mnist")),
        "Fashion-MNIST": Case(partial(pictures, "fashion_mnist")),
    },
    contenders=detectors.finders(),
    judge=detectors.judge,
)
