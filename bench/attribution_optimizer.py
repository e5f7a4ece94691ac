"""Attribution along runs of AdamW: does its metric predict retraining better than descent's?

    PYTHONPATH=rivals python bench/attribution_optimizer.py --work truth [--cases mlp_adam bert]

Cases of `attribution_cases.py` that AdamW trained. Beside the default: "segments" that read the
run's folders as a Trainer writes them, of the last checkpoint alone and of all six; and the same as
gradient descent, t times the geometric mean of Adam's step sizes. LDS with 95 % intervals of a
bootstrap over halves, the gain over the default likewise and paired; and how large the effects of
halves are beside the truth's. All settings are left as they come; they were looked at on other
seeds of mlp_adam. Also how far two runs part that differ by rounding (weights moved by 1e-6 of
themselves before the first step); with --models 0 that alone. One line a case goes to
results.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from attribution_cases import CASES, Cell, cell, fitted, margins
from record import record
from scipy.stats import rankdata
from torch import nn

import datassay as da

DEFAULT = ("mlp_adam", "bert_lora", "bert", "cnn")
RESAMPLES, ROUNDING = 200, 1e-6
Contender = Callable[[str, Cell, int], np.ndarray]


def default(name: str, found: Cell, number: int) -> np.ndarray:
    """The library as it comes."""
    return _effects(found, number)


def last(name: str, found: Cell, number: int) -> np.ndarray:
    """Adam's run by its last checkpoint."""
    return _of_run(found, number, [found.checkpoints[number][-1].folder])


def all_six(name: str, found: Cell, number: int) -> np.ndarray:
    """Adam's run by all of its checkpoints."""
    return _of_run(found, number, [one.folder for one in found.checkpoints[number]])


def descent(name: str, found: Cell, number: int) -> np.ndarray:
    """The last checkpoint as gradient descent of matched length."""
    one = found.checkpoints[number][-1]
    state = torch.load(one.folder / "optimizer.pt", weights_only=True)
    moments = torch.cat([held["exp_avg_sq"].flatten() for held in state["state"].values()])
    freed = moments[moments > 0].double() / (1 - 0.999**one.step)  # others never had a gradient
    recipe = CASES[name].recipe
    lr = recipe.lr * (0.5 if recipe.cosine else 1.0) * float((-freed.log() / 2).mean().exp())
    given = {"checkpoints": [one.model], "steps": [one.step], "lr": lr}
    return _effects(found, number, method="segments", **given)


def _of_run(found: Cell, number: int, folders: list[Path]) -> np.ndarray:
    return _effects(found, number, method="segments", checkpoints=folders, lr="trainer")


def _effects(found: Cell, number: int, **settings) -> np.ndarray:
    task, model = found.task, found.models[number]
    train, queries = task.given("train"), task.given("queries")
    effect = da.influence(model, train, queries, measure="margin", **settings).effect
    assert effect is not None
    return effect


CONTENDERS: dict[str, Contender] = {
    "default": default,
    "descent, last checkpoint": descent,
    "Adam, last checkpoint": last,
    "Adam, six checkpoints": all_six,
}
# Six decompositions of blocks of thousands of weights take minutes a network.
SLOW = {(case, "Adam, six checkpoints") for case in ("bert", "cnn")}


def sums(effect: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """[S, m], of each half's effects."""
    return np.stack([effect[half].sum(0) for half in halves])


def score(predicted: np.ndarray, truth: np.ndarray, rows: np.ndarray) -> float:
    """LDS of some halves: mean over queries of Spearman's correlation."""
    ranks = [rankdata(values[rows], axis=0) for values in (predicted, truth)]
    a, b = (r - r.mean(0) for r in ranks)
    norms = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    return float(np.mean((a * b).sum(0) / np.maximum(norms, 1e-30)))


def compared(found: Cell, effects: dict[str, list[np.ndarray]]) -> dict[str, dict]:
    """Scores, intervals and gains over the first contender."""
    truth, rng = found.truth.mean(0), np.random.default_rng(0)
    n = len(truth)
    draws = [np.arange(n), *rng.integers(n, size=(RESAMPLES, n))]
    by_name = {}
    for name, each in effects.items():
        predicted = [sums(effect, found.halves) for effect in each]
        by_name[name] = (
            predicted,
            np.array([np.mean([score(p, truth, rows) for p in predicted]) for rows in draws]),
        )
    first = next(iter(by_name.values()))[1]
    return {
        name: {
            "lds": _interval(scores),
            "gain": _interval(scores - first),
            "size": round(
                float(np.mean([p.std(0).mean() for p in predicted]) / truth.std(0).mean()), 3
            ),
        }
        for name, (predicted, scores) in by_name.items()
    }


def _interval(values: np.ndarray) -> list[float]:
    """The value, and its 95 % interval."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return [round(float(v), 4) for v in (values[0], low, high)]


def parting(name: str, found: Cell) -> dict[str, float]:
    """How far a twin of the first network parts by rounding, and what halves change."""
    case, n = CASES[name], len(found.task.train["labels"])

    def build(seed: int) -> nn.Module:
        model = found.task.build(seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + ROUNDING * torch.randn(weight.shape, generator=generator))
        return model

    twin = fitted(replace(found.task, build=build), case.recipe, np.arange(n), 0)
    apart = [margins(found.task, one, found.task.queries) for one in (found.models[0], twin)]
    moved = np.sqrt(np.square(found.truth.mean(0).std(0)).mean())
    return {
        "twins_part": round(float(np.sqrt(np.square(apart[0] - apart[1]).mean())), 4),
        "halves_move": round(float(moved), 4),
        "one_sample_moves": round(float(moved) * 2 / np.sqrt(n), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="truths, made where missing")
    parser.add_argument("--cases", nargs="+", default=DEFAULT)
    parser.add_argument("--models", type=int, default=3)
    args = parser.parse_args()
    for name in args.cases:
        found = cell(name, args.work)
        if not args.models:
            record(f"attribution_optimizer/rounding, {name}", **parting(name, found))
            continue
        effects, seconds = {}, {}
        for who, contender in CONTENDERS.items():
            if (name, who) in SLOW:
                continue
            start = time.process_time()
            each = [contender(name, found, i) for i in range(min(args.models, len(found.models)))]
            effects[who] = each
            seconds[who] = round((time.process_time() - start) / len(each), 1)
            print(name, who, seconds[who], flush=True)
        record(
            f"attribution_optimizer/{name}",
            n=len(found.task.train["labels"]),
            models=len(effects["default"]),
            seconds=seconds,
            contenders=compared(found, effects),
            rounding=parting(name, found),
        )


if __name__ == "__main__":
    main()
