"""Rows in another order, named by ids, give the same files but for that order."""

import csv
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.command_line import succeed, summary

DRAW = np.random.default_rng(4)
N = 80
TRUTH = np.arange(N) % 2
LABELS = np.where(np.isin(np.arange(N), DRAW.choice(N, 5, replace=False)), 1 - TRUTH, TRUTH)
X = DRAW.normal(size=(N, 4)) + 2.5 * TRUTH[:, None]
IDS = np.array([f"k{i:02}" for i in DRAW.permutation(N)])
ORDER = DRAW.permutation(N)
# How long it took, and digests of the file; of pairs, which of the two stands first.
OF_THE_RUN = {"Seconds", "Data SHA-256", "origin", "pairs"}


def write_table(rows, *columns):
    names = [f"{'no' if LABELS[i] else 'yes'}" for i in rows]
    lines = [",".join([IDS[i], f"g{i % 8}", *map("{:.4f}".format, X[i]), name])
             for i, name in zip(rows, names, strict=True)]  # fmt: skip
    with open("t.csv", "w") as file:
        file.write("\n".join(["key,who,a,b,c,d,y", *lines, ""]))
    return ["t.csv", "--ids", "key", "--target", "y", *columns]


def write_arrays(rows, x, y):
    np.savez("t.npz", x=x[rows], y=y[rows], ids=IDS[rows])
    return ["t.npz"]


KINDS = {
    "table": write_table,
    "groups": lambda rows: write_table(rows, "--groups", "who"),
    "arrays": lambda rows: write_arrays(rows, X, LABELS),
    "held out": lambda rows: [*write_table(rows), "--val-fraction", "0.25"],
    "images": lambda rows: write_arrays(
        rows, np.repeat(np.repeat(X.reshape(N, 2, 2), 3, 1), 3, 2), LABELS
    ),
    "two targets": lambda rows: write_arrays(rows, X, np.stack([X.sum(1), X[:, 0] - X[:, 1]], 1)),
}


def close(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            close(one[name], other[name]) for name in one if name not in OF_THE_RUN
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float):
        return bool(np.isclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True))
    if isinstance(one, str) and isinstance(other, str):  # which names ids in the order of the rows
        return sorted(re.findall(r"\w+", one)) == sorted(re.findall(r"\w+", other))
    return one == other


SLOWLY = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "groups"]


@pytest.mark.parametrize("kind", ["groups", *SLOWLY])
def test_rows_in_another_order_change_no_file_but_by_that_order(tmp_path, monkeypatch, kind):
    found = []
    for name, rows in (("one", np.arange(N)), ("other", ORDER)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        words = KINDS[kind](rows)
        succeed("score", *words, "--model", "linear", "--out", "out")
        by_id = {row["id"]: row for row in pq.read_table("out/scores.parquet").to_pylist()}
        with open("out/suspects.csv", newline="") as file:
            suspects = list(csv.DictReader(file))
        told = summary()
        pairs = [{pair["id_a"], pair["id_b"]} for pair in told["pairs"]]
        found.append((by_id, {row["id"]: row for row in suspects}, told | {"which": pairs}))
    (scores, suspects, told), (other_scores, other_suspects, other_told) = found
    assert scores.keys() == other_scores.keys() and len(scores) >= 60 - N % 2
    different = {
        column
        for name, row in scores.items()
        for column, value in row.items()
        if not close(value, other_scores[name][column])
    }
    assert not different
    assert suspects.keys() == other_suspects.keys()
    assert [n for n in told if n not in OF_THE_RUN and not close(told[n], other_told[n])] == []
