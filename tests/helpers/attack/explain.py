"""`datassay explain`, with an index or without: effects of a linear network by definition."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from helpers.attack.attempt import Attempt, command
from helpers.attack.case import Case, write_csv

INDEX = ["index", "made.csv", "--bytes-per-sample", "9999",
         "--out", "ix"]  # fmt: skip
# What is odd, and whether that must be refused.
ODD = {
    "": False, "columns": False, "one class": False, "two": False, "split": False, "own": False,
    "new class": True, "same ids": True, "nan": True, "shape": True, "index": False,
    "index shuffled": False, "index fewer": False, "index more": False, "index weights": True,
    "index labels": True, "index rows": True, "index gone": None,
}  # fmt: skip
NAMES = ("no", "so", "yes")
IDS = ("r{}", "{:03d}", "é {}", "{}.0", "-{}", "<b>{}", "9007199254740{:03d}", "1e{}")


def softmax(outputs: np.ndarray) -> np.ndarray:
    powers = np.exp(outputs - outputs.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def effects(weights, x, y, queries, asked, measure, damping, whole=False, mean=None):
    """[n, m] of a linear network at weights [k, d + 1], and [n] self-influence: the definition.

    The mean weights of several networks decide which class is predicted.
    """
    x, q = (np.column_stack([v, np.ones(len(v))]) for v in (x, queries))
    (n, k), outputs = (len(x), len(weights)), q @ weights.T
    if k == 1:
        pulls = [x @ weights.T - y[:, None]] * 2
        curved = np.ones((n, 1, 1))
        towards = np.ones_like(outputs) if measure == "output" else outputs - asked[:, None]
    else:
        soft = 1.0 if whole else 2.0  # temperature
        p = softmax(x @ weights.T / soft)
        pulls = [p - np.eye(k)[y], softmax(x @ weights.T) - np.eye(k)[y]]
        curved = (p[:, :, None] * np.eye(k) - p[:, :, None] * p[:, None]) / soft
        given = np.eye(k)[asked]
        others = softmax(np.where(given > 0, -np.inf, outputs))
        towards = {"margin": given - others, "loss": softmax(outputs) - given,
                   "output": np.eye(k)[(q @ (weights if mean is None else mean).T).argmax(1)],
        }[measure]  # fmt: skip
    slope, own, wanted = (
        np.einsum("ni,nj->nij", a, b).reshape(len(b), -1)
        for a, b in ((pulls[0], x), (pulls[1], x), (towards, q))
    )
    hessian = np.einsum("nij,na,nb->iajb", curved, x, x).reshape(slope.shape[1], -1) / n
    share = 1.0 if whole else np.trace(hessian) / len(hessian)
    inverse = np.linalg.inv(hessian + damping * share * np.eye(len(hessian)))
    return -slope @ inverse @ wanted.T / n, np.einsum("ni,ij,nj->n", own, inverse, own) / n


def case(draw: random.Random, folder: Path) -> Case:
    """A table, a network and queries; one thing is odd."""
    numbers, odd = np.random.default_rng(draw.randrange(2**32)), draw.choice([*ODD])
    k = draw.choice([2, 3] if "class" in odd else [1, 2, 3])
    n, m, d = draw.randint(12, 40), draw.randint(1, 6), draw.randint(1, 4)
    x = numbers.normal(size=(n + m, d)).round(4)
    y = numbers.permutation(np.arange(n + m) % k) if k > 1 else numbers.normal(size=n + m).round(4)
    y[:k] = np.arange(k) if k > 1 else y[:k]
    y[n:] = k - 1 if odd == "one class" else y[n:]
    name = draw.choice(IDS)
    ids, labels = [name.format(i) for i in range(n + m)], _labels(y, k)
    mixed = draw.sample(range(d), d) if odd == "columns" else [*range(d)]
    # Rows of what effects are of, of the table that is named, and of the queries.
    every, asked = [*range(n)], [*range(n, n + m)]
    others = {"index shuffled": draw.sample(every, n), "index fewer": draw.sample(every, n // 2)}
    base, shown = every[: n - 3 * (odd == "index more")], others.get(odd, every)
    data = {
        "same ids": ([*ids[: n - 1], *ids[:1]], x, labels), "index rows": (ids, x[n - 1 :: -1],
        labels), "index labels": (ids, x, _labels((y + 1) % k if k > 1 else -3 - y, k)),
    }.get(odd, (ids, x, labels))  # fmt: skip
    _write(folder / "data.csv", *data, shown, [*range(d)])
    _write(folder / "made.csv", ids, x, labels, base, [*range(d)])
    last = ["perhaps"] if odd == "new class" else labels[-1:]
    _write(folder / "new.csv", ids, x, [*labels[:-1], *last], asked, mixed)
    (folder / "mine.py").write_text(f"from torch import nn\ndef net(): return nn.Linear({d}, {k})")
    weights = [numbers.normal(size=(k, d + 1)).astype("f4") for _ in range(1 + (odd == "two"))]
    for number, one in enumerate(weights):
        one = one * np.nan if odd == "nan" else one[:, odd == "shape" :]
        state = {"weight": torch.tensor(one[:, :-1]), "bias": torch.tensor(one[:, -1])}
        torch.save(state, folder / f"w{number}.pt")
        state["weight"] += 0.01
        torch.save(state, folder / f"other{number}.pt")
    whole, indexed = odd in {"", "columns"} and draw.random() < 0.3, odd.startswith("index")
    measure = draw.choice(["output"] if whole else ["margin", "loss", "output"][k == 1 :])
    damping, top = draw.choice(["auto", 0.3, 2.0]), draw.choice([1, 3, 100])
    arguments = _arguments(odd, k, len(weights), measure, damping, top, whole)

    def work() -> None:
        if indexed:
            with suppress(SystemExit):
                command(INDEX + arguments[0])()
        if odd == "index gone":
            draw.choice(sorted(f for f in (folder / "ix").rglob("*") if f.is_file())).unlink()
        command(arguments[1])()

    def of(rows: list[int], queries: list[int]) -> tuple[np.ndarray, np.ndarray]:
        share = (0.01 if whole else 1000 / len(rows)) if damping == "auto" else damping
        parts = [effects(one.astype(float), x[rows], y[rows], x[queries], y[queries], measure,
                         share, whole, np.mean(weights, 0)) for one in weights]  # fmt: skip
        return np.mean([p[0] for p in parts], 0), np.mean([p[1] for p in parts], 0)

    def judge(ended: Attempt) -> str | None:
        return None if ended.status else _judged(folder / "out", ids, base, odd, asked, top, of)

    return Case(f"{odd} {k} {measure} {damping} {whole}", work, judge, refused=ODD[odd])


def _labels(y: np.ndarray, k: int) -> list[str]:
    return [NAMES[value] if k > 1 else str(value) for value in y]


def _write(path: Path, ids, x, labels, rows, order) -> None:
    head = ["key", *(f"c{j}" for j in order), "label"]
    write_csv(path, [head, *([ids[i], *map(str, x[i, order]), labels[i]] for i in rows)])


def _arguments(odd, k, n_weights, measure, damping, top, whole) -> tuple[list[str], list[str]]:
    """Of the index, and of the command."""
    common = ["--target", "label", "--ids", "key", "--model", "mine:net"]
    held_out = ["--val-fraction", "0.25" if odd == "split" else "0"]
    common += ["--task", "regression"] if k == 1 else []
    line = ["explain", "data.csv", *common, "--measure", measure, "--top", str(top), "--out", "out"]
    for number in range(n_weights):
        line += ["--weights", f"w{number}.pt"]
    line += ["--index", "ix"] if odd.startswith("index") else ["--damping", str(damping)]
    line += ["--curvature", "whole"] if whole else []
    line += held_out if odd in {"own", "split"} else ["--queries", "new.csv"]
    made = "other0.pt" if odd == "index weights" else "w0.pt"
    return [*common, *held_out, "--weights", made, "--damping", str(damping)], line


def _judged(out: Path, ids, base, odd, asked, top, of: Callable) -> str | None:
    """Whether each figure in the files is that of its id."""
    row = {name: i for i, name in enumerate(ids)}
    samples = pq.read_table(out / "samples.parquet").to_pydict()
    rows = [row[str(name)] for name in samples["id"]]
    own, split = odd == "own", sorted({*base} - {*rows})
    if sorted(rows + split * (odd == "split")) != base or bool(split) != (odd == "split"):
        return "silent: other samples"
    queries = rows if own else split or asked
    effect, alone = of(rows, queries)
    total = effect.sum(1)
    if own:
        np.fill_diagonal(effect, 0)
    near = 2e-3 * np.abs(effect).max()
    if not np.allclose(samples["self_influence"], alone, 2e-3, 1e-6 + 1e-3 * alone.max()):
        return "silent: another self-influence"
    if not np.allclose(samples["total"], total, 0, near * len(queries)):
        return "silent: another total"
    table = pq.read_table(out / "effects.parquet").to_pylist()
    for j, query in enumerate(queries):
        for sign, direction in ((1, "raises"), (-1, "lowers")):
            lines = [r for r in table if r["query"] == j and r["direction"] == direction]
            if any(str(r["query_id"]) != ids[query] for r in lines):
                return "silent: another query"
            wrong = [abs(r["effect"] - effect[rows.index(row[str(r["id"])]), j]) for r in lines]
            best = np.sort(np.maximum(sign * effect[:, j], 0))[::-1][:top]
            told = np.zeros(len(best))
            told[: len(lines)] = [sign * r["effect"] for r in lines]
            if max(wrong, default=0) > near or not np.allclose(told, best, 0, near):
                return f"silent: other effects on {ids[query]}"
    return None
