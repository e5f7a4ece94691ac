"""Influence of all samples on all queries: ours as it comes, and kronfluence's EK-FAC.

Each turn of each contender has a process of its own on one thread, with the network trained and its
libraries loaded before. The least processor time of two alternated turns counts, and the most
memory beyond what was held at the start.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from bench.attribution import gpt, problems, wrong_labels
from bench.attribution.cases import Recipe, fitted
from bench.attribution.problems import Problem
from bench.attribution.speed import first
from bench.baselines import kronfluence
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from bench.run import fresh
from bench.stats import cost_of, memory

from datassay.data import load
from datassay.models import build_model

TURNS = 2
SHORT = Recipe("adamw", 0.003, 64, steps=60)


@dataclass(frozen=True)
class Size:
    """A problem, and how many of its samples and queries are asked about."""

    problem: Callable[[], Problem]
    n: int
    m: int


def images(build: Callable) -> Problem:
    """3000 images of Fashion-MNIST and 300 queries."""
    train, test = load(folder("fashion_mnist"))
    sets = (train.subset(np.arange(3000)), test.subset(np.arange(300)))
    sets = tuple(problems.standardised(samples) for samples in sets)
    return problems.of_sets(*sets, partial(build, sets[0]))


def mlp(train, seed: int):
    return build_model("mlp:width=128,depth=2", train, seed=seed).requires_grad_(True)


def cnn(train, seed: int):
    return problems.small_cnn(seed)


def model_cnn(train, seed: int):
    return build_model("cnn", train, seed=seed).requires_grad_(True)


SIZES = {
    "MLP, 2000": Size(partial(images, mlp), 2000, 100),
    "CNN, 800": Size(partial(images, cnn), 800, 100),
    "CNN, 2000": Size(partial(images, cnn), 2000, 100),
    "our CNN, 800": Size(partial(images, model_cnn), 800, 100),
    "our CNN, 2000": Size(partial(images, model_cnn), 2000, 100),
    "ResNet-20, 400": Size(lambda: wrong_labels.photographs(0)[0], 400, 10),
    "GPT, 1000": Size(gpt.reported, 1000, 100),
}


def ours(problem: Problem, model: torch.nn.Module) -> np.ndarray:
    return problems.ours(problem, model)


def peer(problem: Problem, model: torch.nn.Module) -> np.ndarray:
    if isinstance(problem, problems.Language):
        return kronfluence.language_effects(problem, model)
    return kronfluence.effects(problem, model)


CONTENDERS = {"ours": ours, "kronfluence": peer}


def problem_of(name: str) -> Problem:
    size = SIZES[name]
    problem = size.problem()
    sets, words = problem.sets, problem.texts
    if sets is not None:
        sets = (sets[0].subset(np.arange(size.n)), sets[1].subset(np.arange(size.m)))
    if words is not None:
        words = (words[0][: size.n], words[1][: size.m])
    train, queries = first(problem.train, slice(size.n)), first(problem.queries, slice(size.m))
    return replace(problem, train=train, queries=queries, sets=sets, texts=words)


def turn(name: str, who: str) -> dict[str, float]:
    torch.set_num_threads(1)
    problem = problem_of(name)
    model = fitted(problem, SHORT, np.arange(len(problem)), 0)
    warm = replace(
        problem, train=first(problem.train, slice(64)), queries=first(problem.queries, slice(2)),
        sets=problem.sets and tuple(s.subset(np.arange(min(64, len(s)))) for s in problem.sets),
    )  # fmt: skip
    CONTENDERS[who](warm, model)  # what is loaded and compiled once
    effect, seconds, mib = cost_of(partial(CONTENDERS[who], problem, model))
    assert effect.shape == (len(problem), SIZES[name].m)
    return {"seconds": seconds, "mib": mib, "whole_mib": memory("VmHWM")}


def compared(name: str, options: Options) -> dict[str, object]:
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.repeats or TURNS):
        for who in CONTENDERS:
            line, _ = fresh(turn, name, who)
            print(name, who, line, flush=True)
            best[who] = {k: min(v, best.get(who, line)[k]) for k, v in line.items()}
    by_figure = {k: {who: best[who][k] for who in best} for k in best["ours"]}
    ratios = {f"{k}_ratio": v["ours"] / v["kronfluence"] for k, v in by_figure.items()}
    return {
        "n": SIZES[name].n,
        "m": SIZES[name].m,
        **{f"{k}_of": v for k, v in by_figure.items()},
        **ratios,
    }


def rows(lines: dict[str, dict]) -> list[Row]:
    results = []
    for name in SIZES:
        if line := lines.get(f"influence_speed/{name}"):
            what = f"Influence over kronfluence's EK-FAC, {name} samples x {line['m']} queries"
            ratios = [f"{line[f'{key}_ratio']:.2f}" for key in ("seconds", "whole_mib", "mib")]
            message = "{} of the time, {} of the process's memory, {} of what it adds"
            results.append(Row(what, message.format(*ratios)))
    return results


TASK = Task(
    measure="influence over kronfluence",
    cases={name: Case(partial(compared, name)) for name in SIZES},
    lines="influence_speed/",
    rows=rows,
)
