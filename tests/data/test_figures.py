"""How samples are checked, named, and split into parts stays.

PYTHONPATH=src:tests python tests/data/test_figures.py    # writes it anew
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import datassay as da
from datassay.data.assemble import one_set
from datassay.data.source import Source, SourcePart
from datassay.data.targets import Coding
from datassay.errors import DataError, DatassayError
from helpers.figures import freeze, frozen_test

X, N = np.random.default_rng(0).normal(size=(60, 3)), 60
CODES, LONG = np.arange(N) % 3, np.arange(N) // 20
WORDS = np.array(["no", "yes", "or"])[CODES]
GROUPS = np.random.default_rng(1).integers(0, 12, N)
DAYS = np.datetime64("2024-01-01") + np.random.default_rng(2).permutation(N) // 2
NAMES = ("x", "y", "ids", "source", "trusted", "groups", "kind", "class_names", "feature_names",
         "columns")  # fmt: skip


def loaded(x=X, y=WORDS, **settings):
    """The parts of samples, or the error that they are."""
    settings = {"val_fraction": 0.2} | settings
    try:
        parts = da.load((x, y), **settings)
    except DataError as error:
        return str(error).partition(". ")[0]
    names = (*NAMES, "split_off", "warnings", "label_type")
    return [part and {name: getattr(part, name) for name in names} for part in parts]


def of_arguments():
    """Arguments of odd kinds, one at a time."""
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    whole = np.arange(3 * N).reshape(N, 3)
    each = [
        {}, {"val_fraction": 0}, {"val_fraction": 0.97}, {"val_fraction": 0.02}, {"seed": 3},
        {"groups": GROUPS}, {"groups": GROUPS, "seed": 2, "val_fraction": 0.4}, {"groups": LONG},
        {"groups": CODES, "val_fraction": 0.4}, {"groups": np.zeros(N)},
        {"groups": np.zeros(N, int)}, {"groups": np.arange(N) // 58, "val_fraction": 0.95},
        {"time": DAYS}, {"time": np.arange(N)[::-1]}, {"time": np.ones(N), "val_fraction": 0.3},
        {"time": DAYS, "val_fraction": 0.99}, {"time": DAYS, "val_fraction": 0.001},
        {"ids": np.arange(N)[::-1]}, {"ids": np.arange(N).astype(np.uint64)}, {"ids": DAYS},
        {"ids": np.arange(N) + np.uint64(2**63)}, {"ids": [f"r{i}" for i in range(N)]},
        {"ids": np.zeros(N)}, {"ids": np.zeros((N, 1), int)}, {"source": CODES}, {"source": WORDS},
        {"trusted": CODES == 1}, {"trusted": CODES == 3}, {"trusted": CODES > -1},
        {"trusted": np.where(CODES == 1, "Yes", "no")}, {"trusted": WORDS}, {"trusted": 1.0 * LONG},
        {"trusted": np.minimum(LONG, 1.0)}, {"held_out": [3, "7", 59]}, {"held_out": [3, 60, 99]},
        {"y": X[:, 0]}, {"y": X[:, :2]}, {"y": LONG}, {"y": LONG, "task": "regression"},
        {"y": X[:, 0], "groups": GROUPS}, {"y": 1e9 + X[:, 0]}, {"y": np.arange(N)},
        {"y": np.where(np.arange(N) == 5, "one", WORDS)}, {"y": np.append(WORDS[1:], "one")},
        {"y": [f"k{i}" for i in range(N)]}, {"y": [f"k{i // 2}" for i in range(N)]},
        {"x": whole}, {"x": whole + 2**24 - 3 * N}, {"x": whole + 2**24 - 3 * N + 2},
        {"x": -whole - 2**24}, {"x": X.astype(np.float16)}, {"x": X.astype(np.float32)},
        {"x": 1e9 + 1e-4 * X}, {"x": X[:, 0]}, {"x": np.ones((N, 3))}, {"x": X[:, :0]},
        {"x": X.astype(str)}, {"x": X.astype(complex)}, {"x": X.reshape(N, 3, 1)}, {"x": frame},
        {"x": np.repeat(X, 4, 1).reshape(N, 3, 2, 2)}, {"x": X.reshape(N, 1, 3, 1)},
        {"x": np.repeat(X, 4, 1).reshape(N, 2, 2, 3)}, {"x": np.repeat(X, 8, 1)[:, None, None]},
        {"x": np.repeat(X, 8, 1).reshape(N, 2, 4, 3)},
        {"x": np.repeat(X, 8, 1).reshape(N, 2, 6, 2)},
        {"x": X[:1], "y": WORDS[:1]}, {"x": X[:2], "y": WORDS[:2]},
        {"x": X[[0, 0]], "y": WORDS[:2], "val_fraction": 0}, {"x": X[:3], "y": X[:3, 0]},
        {"x": X[:3], "y": X[:3, 0], "val_fraction": 0.34}, {"x": X[:6], "y": WORDS[:6]},
        {"x": whole[:, :0]},
    ]  # fmt: skip
    return [loaded(**settings) for settings in each]


def of_outputs():
    """Samples whose labels are coded by how many outputs a network has."""
    sets = []
    for n_outputs in (1, 2, 3, 5):
        for x, y in product((X, X.reshape(N, 3, 1)), (CODES, LONG == 1, X[:, 0], WORDS)):
            coding = Coding(lambda _, k=n_outputs: (k, k), is_own=True, is_training=True)
            try:
                one = one_set(Source("data", SourcePart(x, y)), None, coding)
                sets.append((one.y, one.class_names, one.warnings))
            except DatassayError as error:
                sets.append(str(error).partition(". ")[0])
    return sets


CASES = {
    "outputs": of_outputs,
    "arguments": of_arguments,
}


def test_inputs_that_are_refused_reach_no_network():
    coding = Coding(lambda *_: pytest.fail("asked"), is_own=True, is_training=True)
    for x in (X[:, 0], X.astype(str), X[:, 0].astype(str)):
        with pytest.raises(DataError, match="x must"):
            one_set(Source("data", SourcePart(x, CODES)), None, coding)


test_how_samples_are_split_stays = frozen_test("splits.json", CASES)

if __name__ == "__main__":
    freeze("splits.json", CASES)
