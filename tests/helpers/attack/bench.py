"""`datassay bench` of a linear network that starts at 0: trained again on its halves, here."""

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from helpers.attack.attempt import Attempt, attempt, command
from helpers.attack.case import Case
from helpers.attack.explain import effects, softmax

NETWORK = """
from torch import nn
def net():
    linear = nn.Linear({d}, {k})
    nn.init.zeros_(linear.weight), nn.init.zeros_(linear.bias)
    return linear
"""
ODD = {"": False, "killed": None, "lr nan": True, "lr inf": True, "halves 3": True, "width": True,
       "new class": True, "nan": True, "fewer labels": True, "one query": False}  # fmt: skip


def case(draw: random.Random, folder: Path) -> Case:
    """Arrays with held-out queries, and whether the correlations are those of networks here."""
    numbers, odd = np.random.default_rng(draw.randrange(2**32)), draw.choice(["", "killed", *ODD])
    n, m, k, d = draw.randint(24, 60), draw.randint(4, 20), draw.choice([2, 3]), draw.randint(1, 4)
    y = numbers.permutation(np.arange(n + m) % k)
    x = (numbers.normal(size=(n + m, d)) + y[:, None]).astype("f4")
    seed, steps, decay = draw.randrange(99), draw.randint(3, 20), draw.choice([0.0, 0.01])
    queries, asked = x[n:], y[n:]
    queries = queries[:, 1:] if odd == "width" else queries[:1] if odd == "one query" else queries
    asked, last = asked[: len(queries)], n + len(queries)
    asked = asked + 9 * (np.arange(m) == 1) if odd == "new class" else asked
    if odd == "nan":
        queries[1, 0] = np.nan
    given = y[: n - (odd == "fewer labels")]
    np.savez(folder / "data.npz", x=x[:n], y=given, x_val=queries, y_val=asked)
    (folder / "mine.py").write_text(NETWORK.format(d=d, k=k))
    options = {"lr": 0.3, "halves": 20, "steps": steps, "weight-decay": decay, "seed": seed}
    if " " in odd and odd.split()[0] in options:
        options |= [odd.split()]
    arguments = ["bench", "data.npz", "--model", "mine:net", "--optimizer", "sgd", "--store",
                 "kept", "--batch-size", "none", "--out", "out"]  # fmt: skip
    for name, value in options.items():
        arguments += [f"--{name}", str(value)]
    pause = draw.uniform(0.1, 2)

    def judge(ended: Attempt) -> str | None:
        if odd == "killed":
            ended = attempt(command([*arguments, "--overwrite"]), folder)
            if ended.status:
                return f"the next run ended with {ended.status}: {ended.err[-300:]}"
        return None if ended.status else _judged(folder / "out", x[:last], y[:last], n, k, options)

    def killed(pid: int) -> None:
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)  # it may have ended, and is not waited for yet

    return Case(
        f"{odd} {n} {m} {k}", command(arguments), judge, frozenset({-signal.SIGKILL}),
        during=killed if odd == "killed" else lambda pid: None, refused=ODD[odd],
    )  # fmt: skip


def _trained(x: np.ndarray, y: np.ndarray, k: int, options: dict) -> np.ndarray:
    """Weights [k, d + 1] after gradient descent from 0 on all samples at once."""
    x, weights = np.column_stack([x, np.ones(len(x))]), np.zeros((k, x.shape[1] + 1))
    for _ in range(options["steps"]):
        slope = (softmax(x @ weights.T) - np.eye(k)[y]).T @ x / len(x)
        weights -= options["lr"] * (slope + options["weight-decay"] * weights)
    return weights


def _outcome(weights: np.ndarray, x: np.ndarray, y: np.ndarray, *, margin: bool) -> np.ndarray:
    chance = softmax(x @ weights[:, :-1].T + weights[:, -1])[np.arange(len(x)), y]
    return np.log(chance) - np.log1p(-chance) if margin else -np.log(chance)


def _judged(out: Path, x, y, n: int, k: int, options: dict) -> str | None:
    x = x.astype(float)
    queries, asked, member, outcomes = x[n:], y[n:], [], []
    for half in range(options["halves"]):
        order = np.random.default_rng((options["seed"], half)).permutation(n)[: n // 2]
        weights = _trained(x[order], y[order], k, options)
        member.append(np.isin(np.arange(n), order).astype(float))
        outcomes.append(_outcome(weights, queries, asked, margin=True))
    weights = _trained(x[:n], y[:n], k, options)
    middle = [v - x[:n].mean(0) for v in (x[:n], queries)]
    one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in middle)
    alike = np.where(y[:n, None] == asked, 1.0, -1 / (k - 1)) * (one @ other.T)
    loss = -_outcome(weights, x[:n], y[:n], margin=False)[:, None] * np.ones(len(queries))
    by_definition, _ = effects(weights, x[:n], y[:n], queries, asked, "margin", 1000 / n)
    table = pq.read_table(out / "bench.parquet").to_pylist()
    told = {r["score"]: r["correlation"] for r in table if r["question"] == "a prediction"}
    wanted = {"loss alone": loss, "similar and alike": alike, "influence": by_definition}
    for name, effect in wanted.items():
        sums, real = np.array(member) @ effect, np.array(outcomes)
        right = np.mean([spearmanr(a, b).statistic for a, b in zip(sums.T, real.T, strict=True)])
        if abs(right - told[name]) > 0.02:
            return f"silent: {name} correlates by {right:.3f}, not {told[name]:.3f}"
    summary = json.loads((out / "summary.json").read_text())
    fit = (softmax(queries @ weights[:, :-1].T + weights[:, -1]).argmax(1) == asked).mean()
    told_fit = float(summary["facts"]["Fit"].split()[0])
    if abs(summary["ceiling"]["value"] - 1) > 0.02 or abs(told_fit - 100 * fit) > 0.06:
        return f"silent: another ceiling or fit than {100 * fit:.1f} %"
    return None
