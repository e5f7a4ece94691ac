"""Data with and without the faults that conditions are about."""

import numpy as np
import pyarrow as pa
from pyarrow import csv

from datassay.commands.run.gate.conditions import FAILED, INCONCLUSIVE, PASSED

N = 500
# Fault → the condition on it.
TABLE = {"wrong": "wrong > 2 %", "leak": "leak", "duplicates": "duplicates > 1 %"}
ARRAYS = {
    "duplicates-across-split": "duplicates-across-split",
    "outliers": "outliers > 2 %",
    "drift": "drift",
}


def drawn_faults(seed, index, kinds):
    """Fault → whether set `index` of ten has it: each is in five of them."""
    orders = (np.random.default_rng([seed, k]).permutation(10) for k in range(len(kinds)))
    return {kind: bool(order[index] % 2) for kind, order in zip(kinds, orders, strict=True)}


def classes(rng, n):
    """Inputs of two classes, and their labels: few lie near the boundary."""
    x = rng.normal(size=(n, 6))
    y = (x[:, :4].sum(1) > 0).astype(int)  # by four columns: two that tell it would be a leak
    x[:, :4] += 0.5 * (2 * y - 1)[:, None]
    return x, y


def write_table(path, seed, faults):
    """Write a table with these faults, as TABLE has them."""
    rng = np.random.default_rng(seed)
    x, y = classes(rng, N)
    if faults["duplicates"]:
        copied = rng.choice(N, 20, replace=False)
        x, y = np.concatenate([x, x[copied]]), np.concatenate([y, y[copied]])
    if faults["wrong"]:
        flipped = rng.choice(len(y), len(y) // 10, replace=False)
        y[flipped] = 1 - y[flipped]
    labels = np.array(["no", "yes"])[y]
    columns = {f"x{j}": column for j, column in enumerate(x.T)}
    if faults["leak"]:
        columns["code"] = np.array(["A7", "B2"])[y]
    csv.write_csv(pa.table({**columns, "y": labels}), path)


def write_arrays(path, seed, faults):
    """Write training and validation arrays with these faults, as ARRAYS has them."""
    rng = np.random.default_rng(seed)
    x, y = classes(rng, N + 150)
    (x, x_val), (y, y_val) = np.split(x, [N]), np.split(y, [N])
    if faults["outliers"]:
        x[rng.choice(N, 25, replace=False), 3:] += rng.choice([-1, 1], (25, 3)) * 9
    if faults["drift"]:
        x_val[:, 5] += 1
    if faults["duplicates-across-split"]:
        x_val[:10], y_val[:10] = x[:10], y[:10]
    np.savez(path, x=x, y=y, x_val=x_val, y_val=y_val)


def expected(name, faults):
    """The outcome of a condition; labels that a leak agrees with cannot be judged."""
    if name == "wrong" and faults["leak"]:
        return INCONCLUSIVE
    return FAILED if faults[name] else PASSED
