"""Wrong labels: who finds them. AUROC of a score against the labels that are really wrong.

With files: human noise, weak labels, tables, images (`noise.py`). Clean labels and tables as they
are shipped are asked what is flagged, of all and of the rarest class; the fewer the better. Lines
"real_noise/..." of results.jsonl are of these cases, and of one contender more: cleanlab on the
five-fold probabilities of a trained head.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors, noise
from bench.baselines import cleanlab, pydvl
from bench.data import Given
from bench.frame import Case, Contender, Row, Task

from datassay.act import auroc
from datassay.data import SampleSet

QUICK = {
    "digits, uniform 10 %": ("digits", 700, noise.UNIFORM(0.1)),
    "digits, pair 30 %": ("digits", 700, noise.PAIR(0.3)),
    "wine, uniform 20 %": ("wine", 150, noise.UNIFORM(0.2)),
    "breast_cancer, one-way 30 %": ("breast_cancer", 450, noise.one_way(0.3)),
    "synthetic, uniform 20 %": ("synthetic", 600, noise.UNIFORM(0.2)),
}
MODELS = {"logistic": detectors.logistic, "trees": detectors.trees}


@dataclass(frozen=True)
class Flags:
    """A score [n] and what is flagged [n] by the contender's own cut."""

    score: np.ndarray
    flagged: np.ndarray


def hidden(noisy: SampleSet) -> Given:
    """Without the truth."""
    return Given(replace(noisy, true_y=None), noisy.y != noisy.true_y)


def small(name: str, n: int, spoil, seed: int) -> Given:
    return hidden(spoil(data.split(name, n, seed)[0], seed))


def large(draw, seed: int) -> Given:
    return hidden(draw(seed))


def ours(task: Given, seed: int) -> Flags:
    result = detectors.as_run_asks(task.given, seed)[1]
    return Flags(result.score, result.is_issue)


def confident(model: str, name: str, task: Given, seed: int) -> Flags:
    """Cleanlab's score and cut of a model's five-fold probabilities."""
    y, result = task.given.y, MODELS[model](task.given, seed)
    return Flags(cleanlab.score(y, result, name), cleanlab.flagged(y, result))


def shapley(task: Given, seed: int) -> np.ndarray:
    """Minus the values of pyDVL's nearest-neighbour Shapley, five neighbours, of the set itself."""
    return -pydvl.neighbour_shapley(task.given, task.given)


def judge(task: Given, answer: np.ndarray | Flags, seed: int) -> dict[str, float]:
    score = answer.score if isinstance(answer, Flags) else answer
    if task.marked.any():
        return {"AUROC": auroc(task.marked, score)}
    if not isinstance(answer, Flags):
        return {}
    y = task.given.y
    rarest = y == np.bincount(y, minlength=task.given.n_classes).argmin()
    shares = answer.flagged.mean(), answer.flagged[rarest].mean()
    return {"left alone": 1 - shares[0], "left alone of the rarest class": 1 - shares[1]}


def rows(lines: dict[str, dict]) -> list[Row]:
    start = "real_noise/"
    cases = {name.removeprefix(start): x for name, x in lines.items() if name.startswith(start)}
    results = [_row(name, line) for name, line in cases.items() if "best_rival" in line]
    for ending, share, what in (
        (" clean", "flagged", "Clean labels: % flagged"),
        (" as shipped", "rarest_flagged", "Tables as shipped: % of the rarest class flagged"),
    ):
        shares = [
            f"{name.removesuffix(ending)} {100 * line['contenders']['ours'][share]:.1f}"
            for name, line in cases.items()
            if name.endswith(ending)
        ]
        results.append(Row(what, ", ".join(shares)))
    return results


def _row(name: str, line: dict) -> Row:
    best = line["best_rival"]
    baseline, own = (line["contenders"][who] for who in (best, "ours"))
    half = own.get("auroc_half_interval")
    seconds = [f", {x['seconds']:.0f} s" if line["n"] > 4000 else "" for x in (own, baseline)]
    return Row(
        f"Wrong labels, {name}, n = {line['n']}: AUROC (best baseline)",
        f"{own['auroc']:.4f}{f' ± {half:.4f}' if half else ''}{seconds[0]} "
        f"({best} {baseline['auroc']:.4f}{seconds[1]})",
    )


TASK = Task(
    measure="wrong labels found: AUROC",
    cases={
        **{name: Case(partial(small, *how), quick=True) for name, how in QUICK.items()},
        **{name: Case(partial(large, draw)) for name, draw in noise.CASES.items()
           if not name.startswith("fresh")},
    },
    contenders={
        "label issues": Contender(ours, "ours"),
        "information": Contender(partial(detectors.given, detectors.information), "ours"),
        **{
            name: Contender(partial(detectors.given, of), "trivial")
            for name, of in detectors.TRIVIAL.items()
        },
        "area under the margin": Contender(partial(detectors.given, detectors.area_under_margin)),
        **{
            f"cleanlab, {model}, {name}": Contender(
                partial(confident, model, name), needs="cleanlab"
            )
            for model in MODELS
            for name in cleanlab.SCORES
        },
        "pyDVL, neighbour Shapley": Contender(shapley, needs="pydvl"),
    },
    judge=judge,
    # Settings of ours: digits and 2000 samples of both MNISTs; of the baselines: four cells.
    chosen_on={
        "digits": (200, 201), "mnist": (200, 201), "fashion": (200, 201),
        "wine": (7,), "census": (7,), "breast_cancer": (7,),
    },
    rows=rows,
)  # fmt: skip
