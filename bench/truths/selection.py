"""Selection: which part of a training set to keep. Accuracy of networks that learn from it alone.

Each contender sees the given labels, of which none or a tenth are wrong, and says what to keep at
five rates. Networks that scored nothing learn from each part, by the same number of updates, and
are judged on right-labelled samples. What several contenders share is made with the task: networks
trained on all samples for the baselines, the linearisation and the label scores for ours.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from bench import data
from bench.frame import Case, Contender, Row, Task
from bench.truths import selection_baselines as baselines
from jaxtyping import Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier

import datassay as da
from datassay.data import SampleSet, add_label_noise
from datassay.models import build_model
from datassay.train import Recipe, TrainedNetworks, train_networks

RATES = (0.5, 0.3, 0.2, 0.1, 0.05)
NETWORK, UPDATES, JUDGES = "mlp:width=128", 400, 3
NOISE = 0.1
TEST = {"digits": 360, "mnist": 5000, "fashion": 5000, "cifar": 2000}
FOLDERS = {"mnist": "mnist", "fashion": "fashion_mnist"}
# Of each case: seeds. Settings of ours (ridge, pool, rules, columns), and the keep rate at which
# prototypes turn, were chosen on the first; a test keeps the two apart.
CHOSEN_ON = {
    "digits": range(100, 103), "digits, wrong labels": range(100, 103),
    "mnist 4000": range(100, 101), "mnist 4000, wrong labels": range(100, 101),
    "spam": range(100, 102), "spam, wrong labels": range(100, 102),
}  # fmt: skip
TABLES = ("hpc", "churn", "leaf")
TREES = ("hpc", "churn", "credit", "attrition")
REPORTED_ON = (
    {
        f"{name}{noise}": range(5)
        for name in ("digits", "mnist", "fashion", "cifar", *TABLES)
        for noise in ("", ", wrong labels")
    }
    | {"small digits, wrong labels": range(5)}
    | {f"{name}{noise}, trees": range(3) for name in TREES for noise in ("", ", wrong labels")}
)


@dataclass(frozen=True, eq=False)
class Given:
    """Samples with the labels that are given, and what is judged on."""

    train: SampleSet  # the truth about its labels is left out
    test: SampleSet  # right-labelled samples
    seed: int  # of everything drawn
    trees: Any = None  # an estimator that is to learn, not networks

    @cached_property
    def dynamics(self) -> baselines.Dynamics:
        """Predictions of networks on the samples while they learned."""
        return baselines.dynamics(self.train, NETWORK, self.seed)

    @cached_property
    def lin(self):
        """The linearisation of a network that has learned nothing."""
        model = build_model(NETWORK, self.train, seed=500_000 + self.seed)
        return da.collect(model, self.train)

    @cached_property
    def issues(self):
        """The library's label scores."""
        return da.label_issues(self.lin)

    def train_on(self, parts, networks: int, stream: int) -> TrainedNetworks:
        """Networks that learn from each part, `networks` a part; other streams, other starts."""
        start = 10**6 * stream + 1000 * self.seed
        models = [
            build_model(NETWORK, self.train, seed=start + s) for _ in parts for s in range(networks)
        ]
        subsets = torch.as_tensor(np.repeat(np.stack(parts), networks, 0))
        recipe = Recipe(steps=UPDATES)
        return train_networks(models, self.train, subsets, recipe, seed=start)

    def right(self, networks: TrainedNetworks, x, y) -> Float[np.ndarray, " s"]:
        """Accuracy of each network."""
        outputs = networks.outputs(x)
        predicted = outputs[..., 0] > 0 if outputs.shape[2] == 1 else outputs.argmax(2)
        return (predicted == torch.as_tensor(y)).double().mean(1).numpy()


def made(name: str, n: int, is_noisy: bool, trees: bool, seed: int) -> Given:
    whole, n_test = _samples(name, n, seed)
    order = np.random.default_rng((seed, 9)).permutation(len(whole))
    train, test = (whole.subset(np.sort(part)) for part in (order[n_test:], order[:n_test]))
    if is_noisy:
        train = add_label_noise(train, NOISE, seed=seed)
    train = SampleSet(
        train.x, train.y, train.ids, train.class_names, train.kind, name=train.name
    )  # fmt: skip
    task = Given(train, test, seed, HistGradientBoostingClassifier() if trees else None)
    _ = task.dynamics, task.lin, task.issues
    return task


def _samples(name: str, n: int, seed: int) -> tuple[SampleSet, int]:
    """All samples of a case, and how many of them are to judge."""
    if name == "digits":
        return data.built_in(name, seed), TEST[name]
    if name == "small digits":
        both = data.split("digits", n, seed)
        x, y = (np.concatenate([getattr(part, a) for part in both]) for a in ("x", "y"))
        return data.sample_set(x, y, name), len(both[1])
    if name in FOLDERS:
        return data.images(FOLDERS[name], n + TEST[name], seed), TEST[name]
    if name == "cifar":
        return _photographs(n + TEST[name], seed), TEST[name]
    table = data.table(name, seed)
    return table, len(table) // 4


def _photographs(n: int, seed: int) -> SampleSet:
    """CIFAR-10 as frozen features. Of seven classes 1000 are held, of cats, deer and dogs 5000."""
    held, rng = data.cifar_features(), np.random.default_rng((seed, 1))
    positions = [rng.permutation(np.flatnonzero(held["y"] == c)) for c in range(10)]
    few = np.concatenate([position[:1000] for position in positions])
    more = rng.permutation(np.concatenate([index[1000:] for index in positions]))
    some = np.concatenate([few, more])[:n]
    return data.sample_set(data.scaled(held["features"][some]), held["y"][some], "cifar")


def at_all_rates(select):
    """A contender that answers with what to keep at each rate."""

    def ask(task: Given, seed: int) -> dict[float, Int[np.ndarray, " kept"]]:
        return {rate: select(task, round(rate * len(task.train))) for rate in RATES}

    return ask


def judge(task: Given, answer: dict[float, np.ndarray], seed: int) -> dict[str, float]:
    """Mean accuracy of three networks at each rate."""
    figures = {}
    for rate, kept in answer.items():
        if len(np.unique(kept)) != round(rate * len(task.train)):
            raise ValueError(f"{len(np.unique(kept))} samples are kept, not {rate:.0%}")
        if task.trees is not None:
            fit = task.trees.fit(task.train.x[kept], task.train.y[kept])
            figures[f"{rate:.0%}"] = float(fit.score(task.test.x, task.test.y))
            continue
        networks = task.train_on([kept], JUDGES, stream=1)
        figures[f"{rate:.0%}"] = float(task.right(networks, task.test.x, task.test.y).mean())
    return figures


def ours(task: Given, kept: int, rule: str = "auto", suspects: bool = True) -> np.ndarray:
    """The library's, likely label errors dropped first or not."""
    issues = task.issues if suspects else None
    fraction = kept / len(task.train)
    return da.summarize(task.lin, fraction, rule=rule, issues=issues, seed=task.seed).keep


def _cases() -> dict[str, Case]:
    sizes = dict.fromkeys(TABLES + TREES, 0) | {"digits": 0, "small digits": 500}
    sizes |= dict.fromkeys(("mnist", "fashion", "cifar"), 10_000)
    cases = {}
    for case in REPORTED_ON:
        name, _, noise = case.partition(", ")
        make = partial(made, name, sizes[name], "wrong labels" in noise, "trees" in noise)
        cases[case] = Case(make, quick=name == "small digits")
    return cases


def _contenders() -> dict[str, Contender]:
    trivial = {
        "random": baselines.at_random,
        "easiest": baselines.highest(lambda task: task.dynamics.final_margin),
        "hardest": baselines.highest(lambda task: -task.dynamics.final_margin),
        "class-mean distance": baselines.highest(lambda task: -baselines.class_distance(task)),
    }
    papers = {
        "EL2N": baselines.highest(lambda task: task.dynamics.el2n),
        "forgetting": baselines.highest(lambda task: task.dynamics.forgetting),
        "area under the margin, hardest": baselines.highest(lambda task: -task.dynamics.aum),
        "coverage-centric": baselines.coverage_centric,
        "k-centre": baselines.k_centre,
        "prototypes": baselines.prototypes,
        "moderate": baselines.moderate,
    }
    # S1's order, the default until now: ours once, a baseline here.
    papers["information"] = partial(ours, rule="information", suspects=False)
    papers["suspects, then information"] = partial(ours, rule="information")
    kinds = (("trivial", trivial), ("baseline", papers), ("ours", {"summarize": ours}))
    return {
        name: Contender(at_all_rates(select), kind)
        for kind, group in kinds
        for name, select in group.items()
    }


def rows(lines: dict[str, dict]) -> list[Row]:
    results = []
    for words, case in (("", "digits"), (", 10 % wrong labels", "digits, wrong labels")):
        line = lines[f"selection/{case}"]
        scores, lead = line["accuracy"], line["lead_over_best_other"]
        parts = [
            f"{rate} {scores['summarize'][rate]:.3f} ({lead[rate][0]} "
            f"{scores[lead[rate][0]][rate]:.3f}, random {scores['random'][rate]:.3f})"
            for rate in ("50%", "20%", "5%")
        ]
        what = f"Accuracy of networks that learn from a part of digits{words}: "
        what += "ours (best of 13 others, random)"
        results.append(Row(what, "; ".join(parts)))
    return results


TASK = Task(
    measure="accuracy of networks that learn from what is kept",
    cases=_cases(),
    contenders=_contenders(),
    judge=judge,
    repeats=len(REPORTED_ON["digits"]),
    chosen_on=CHOSEN_ON,
    rows=rows,
)
