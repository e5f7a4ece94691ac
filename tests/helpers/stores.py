"""What a store must keep."""

import numpy as np

from datassay.store.features import FeatureStore, Layout

LAYOUT = Layout(
    {"train": 7, "val": 4},
    {"outputs": ((2,), np.dtype("float64")), "rows": ((2, 3), np.dtype("float32"))},
    chunk=3,
)


RUN = {"weights": "a" * 64, "seed": 0}


N_CHUNKS = 5


def values(number, seed=0):
    chunk = LAYOUT.chunks[number]
    rng = np.random.default_rng(100 * seed + number)
    return {
        name: rng.normal(size=(len(chunk), *tail)).astype(dtype)
        for name, (tail, dtype) in LAYOUT.arrays.items()
    }


def opened(location, run=RUN, layout=LAYOUT):
    return FeatureStore(location, run, layout, {"threads": 1})


def full(location, seed=0, run=RUN):
    store = opened(location, run)
    for number in range(N_CHUNKS):
        store.put(number, values(number, seed))
    return store


def check_all_there(store, seed=0):
    assert store.survey().complete == tuple(range(N_CHUNKS))
    for number in range(N_CHUNKS):
        for name, expected in values(number, seed).items():
            result = store.get(number, name)
            assert result.dtype == expected.dtype and np.array_equal(result, expected)
