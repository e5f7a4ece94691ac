"""What columns are read as, what is said of them, and what becomes of them stays.

PYTHONPATH=src:tests python tests/data/tables/test_figures.py    # writes it anew
"""

import itertools
from functools import partial

import numpy as np
import pyarrow as pa

import datassay as da
from datassay.data.tables.columns import read_column
from datassay.data.tables.leaks import find_leaks
from datassay.data.tables.preparation import _count_features
from datassay.data.tables.read import Choices
from helpers.figures import freeze, frozen_test

N = 20
FORMS = [
    "{},5", "{}.234,5", "{}'234.50", "{},234", "{}.234", "{} 234,5", "{}%", "$ {}.50", "{}.5k",
    "00{}", "{} km", "{}.5 km/h", "<{}.1", "({}.5)", "{}.5-", "{}e3", " {} ", "+{}", "{}/4",
    "{}h 30m", "{}st", "A{}",
    "17B{}", "4{} doors", "{}.500 m", "€{}.000", "{}.5 ± 0.1", "−{},5", "about {}.5", "{}.1.2",
    "1,2{},000", "{}5'11\"",
    "1{}:30", "1{}:30:15", "2024-01-1{}", "1{}/02/2024", "1{}.3.24", "0{}/13/2024", "1{}-Mar-2024",
    "Mai 1{}, 1999",
    "2024-0{}", "0{}/2024", "2024-01-1{}T10:30:05Z", "2024-01-1{} 09:30 PM",
    "2024-01-1{} 12:00 AM+02:00", "June 200{}",
    *(f"{{}}.5 {power}" for power in ["Tsd", "thousand", "mn", "Mio", "mill", "million", "bn"]),
    "{}.5M", "{}.5B", "{}.5 Mrd.", "{}.5 billion", "two words {}",
    "a sentence of words {}", "日本語{}", "x",
]  # fmt: skip
STRAYS = ["?", "n.a.", "2023-05-06"]


def written(form, n_stray=0, stray="?", n=N, n_distinct=9):
    """Words of one form, of so many digits, the last of them others."""
    words = [form.format(1 + 7 * i % n_distinct) for i in range(n)]
    return pa.chunked_array([words[: n - n_stray] + [stray] * n_stray], pa.string())


def reads(columns, name="c", **choices):
    """What each of some columns is read as."""
    return [read_column(values, name, Choices(**choices)) for values in columns]


def of_types():
    """Columns of Arrow's types, some values missing."""
    whole = pa.array([None, *range(5, 24)])
    zoned = pa.array([10**15 * i // 7 for i in range(N)], pa.timestamp("us", "Europe/Berlin"))
    parts = [[float(i), 2.0, i / 7] for i in range(N)]
    nan, long = float("nan"), [2**60 + i for i in range(N)]
    arrays = [
        whole, whole.cast(pa.float32()), whole.cast(pa.decimal128(25, 2)), zoned,
        whole.cast(pa.duration("ms")), whole.cast(pa.int32()).cast(pa.time32("s")),
        zoned.cast(pa.date32()), pa.array([True, False] * 10), pa.array([None, True] * 10),
        pa.array([0.5] * N), pa.array([*range(N)]), pa.array([*range(1, N), 24]),
        pa.array([*range(1, N), 26]), pa.array([*range(3, N + 3)]), pa.nulls(N, pa.int64()),
        pa.array([*"ab" * 10]).dictionary_encode(), pa.array([1.0, 2.0] * 10).dictionary_encode(),
        pa.array([1.0, nan] * 10), pa.array([1.0, float("inf")] * 10), pa.array(long),
        pa.array([1e9 + i / 8 for i in range(N)]), pa.array([2.0**127 * i for i in range(N)]),
        pa.array(parts), pa.array([[1.0]] * 19 + [[1.0, 2.0]]), pa.array([None, [1.0]] * 10),
        pa.array([[]] * N, pa.list_(pa.float64())), pa.array([[1.0, nan]] * N),
        pa.array([[1e9 + i / 8, 1.0] for i in range(N)]), pa.array([{"a": 1}] * N),
        pa.array([b"x"] * N),
    ]  # fmt: skip
    return [pa.chunked_array([array]) for array in arrays]


def of_words():
    """Words near the bounds between categories, texts and names of rows."""
    lists = [
        [f"w{i % k}" for i in range(n)] for n in (9, 10, 20) for k in (1, n // 2, n - 2, n - 1, n)
    ]
    lists += [[f"{'b ' * w}w{i % k}" for i in range(N)] for w in (1, 2, 3) for k in (1, 9, 10, 11)]
    lists += [["y" * n, *"ab" * 9, "é"] for n in (199, 200, 201)] + [
        ["k" * 64 + str(i) for i in range(N)]
    ]
    lists += [["ab", None] * 10, [None] * 5 + [f"v{i}" for i in range(15)]]
    return [pa.chunked_array([words], pa.string()) for words in lists]


def of_ids():
    """Numbers whose names say that they may be ids."""
    draw = np.random.default_rng(0)
    numbers = [draw.choice(10**6, n) for n in (19, 20)] + [np.arange(20) // 2, np.arange(20) // 3]
    numbers += [k * np.arange(n) // 4 for n in (199, 200) for k in (4, 5, 6, 8, 9)]
    columns = [pa.chunked_array([values]) for values in numbers]
    return [read for name in ("customerId", "paid") for read in reads(columns, name)]


def of_table(seed):
    """A table's features as they become, of the same rows again and of others."""
    rng, n = np.random.default_rng(seed), 80
    names, day = np.array([f"k{i}" for i in range(60)]), np.datetime64("2024-01-29T06", "us")
    table = {
        "u": rng.normal(size=n), "gap": [None if i % 7 == 2 else i * 1.5 for i in range(n)],
        "flag": [i % 3 == 0 for i in range(n)],
        "maybe": [None if i % 9 == 1 else i % 3 == 0 for i in range(n)],
        "when": [None if i % 8 == 5 else day + 86400 * 10**6 * i for i in range(n)],
        "day": np.datetime64("2023-05-06") + np.arange(n) % 5,
        "vector": [[float(i), i / 3] for i in range(n)],
        "few": [None if i % 5 == 3 else "abc"[i % 3] for i in range(n)],
        "many": names[np.minimum(rng.geometric(0.04, n) - 1, 50 + seed)],
        "y": rng.choice(["no", "yes"], n),
    }  # fmt: skip
    frame = pa.table(table)
    samples, _ = da.load(frame, target="y", seed=seed)
    others = frame.slice(40).set_column(8, "many", pa.array(["new"] * 40))
    again = samples.preparation.transform(others)
    return samples.columns, samples.feature_names, samples.x, again, samples.warnings


def of_leaks(seed, target):
    """Leaks among columns of which some tell a target, the more or less."""
    rng, n = np.random.default_rng(seed), 240
    codes = rng.choice(3, n, p=[0.2, 0.3, 0.5])
    y, tell = np.array(["low", "mid", "high"])[codes], codes
    if target != "class":
        y = tell = np.exp(codes + rng.normal(size=n))
        y -= {"quantity from 0": y.min(), "quantity around 0": 1.0}.get(target, 0.0)
    rank, parts = tell.argsort(kind="stable").argsort(), rng.uniform(0.2, 0.8, n)
    words = np.array([*"abcdefgh"])
    columns = {
        **{f"off {e}": np.where(rng.random(n) < e, rng.permutation(tell), tell)
           for e in (0.005, 0.02, 0.04, 0.1)},
        **{f"near {s}": tell + s * rng.uniform(0, 1, n) for s in (0.3, 0.6, 0.8, 0.95)},
        "gaps": np.where(rng.random(n) < 0.4, np.nan, tell), "rank": rank, "steps": rank // 12,
        "codes": words[rank * 7 // n],
        "text": [f"so {code} {word}" for code, word in zip(codes, words[rank % 8], strict=True)],
    }  # fmt: skip
    some = {"p": parts * tell, "q": (1 - parts) * tell, "r": rng.normal(size=n)}
    some |= {"b": (codes + 1) % 2, "s": codes // 2}
    off = np.where(rng.random(n) < 0.04, rng.permutation(codes), codes)
    columns["loose text"] = [f"{code} then {i}" for i, code in enumerate(off)]

    def read(columns):
        arrays = {name: pa.chunked_array([np.asarray(v)]) for name, v in columns.items()}
        return [c for name, v in arrays.items() for c in reads([v], name, keep=(name,))]

    alone = [find_leaks([column], y, None) for column in read(columns | some)]
    pairs = [read(some), read(some)[:3]]
    for off in () if target == "class" else (0.008, 0.0115, 0.02):
        step = np.quantile(np.abs(y - np.median(y)), 0.85)
        pairs.append(read(some | {"p": some["p"] + off * step * rng.uniform(-1, 1, n)}))
    none = [find_leaks(pairs[0], few, None) for few in (y[:49], np.stack([y, y], 1))]
    return alone, [find_leaks(pair, y, None) for pair in pairs], none


CASES = {
    "forms": lambda: reads(map(written, FORMS)),
    "forms of many": lambda: reads(written(form, n=60, n_distinct=55) for form in FORMS[:25]),
    "forms with a comma": lambda: reads(map(written, FORMS[:20]), decimal=","),
    "forms as times": lambda: reads(map(written, FORMS[30:]), time="c"),
    "forms as targets": lambda: reads(map(written, FORMS), target="c"),
    "forms as quantities": lambda: reads(map(written, FORMS[:30]), target="c", task="regression"),
    "forms as classes": lambda: reads(
        (written(f, n=60, n_distinct=d) for f in FORMS[:12] for d in (19, 20, 21)), target="c"
    ),
    "dates in two ways": lambda: reads(
        pa.chunked_array([written(form, n=12).chunk(0), written(other, n=8).chunk(0)])
        for form, other in itertools.pairwise(FORMS[34:48])
    ),
    "strays": lambda: reads(
        written(form, k, stray) for form in ("{},5", "{}", "{} km", "2024-01-1{}", "1{}:30")
        for stray in STRAYS for k in (2, 3, 10, 11)
    ),
    "types": lambda: reads(of_types()),
    "types as targets": lambda: reads(of_types(), target="c"),
    "types as categories": lambda: reads(of_types()[:18], categorical=("c",)),
    "types kept": lambda: reads(of_types(), keep=("c",)),
    "widths": lambda: [_count_features(read) for read in reads(of_types()) if not read.problem],
    "words": lambda: reads(of_words()),
    "words in several ways of writing": lambda: reads(
        pa.chunked_array([["1,5", "2,5", "3,5", "4,5"] * 4 + ["1'000.5"] * k + ["x"] * (4 - k)])
        for k in (1, 2, 4)
    ),
    "words as texts": lambda: reads(of_words()[-2:], text=("c",)),
    "ids": of_ids,
    "a table": partial(of_table, 0),
    "a table of many categories": partial(of_table, 9),
    "leaks of classes": partial(of_leaks, 0, "class"),
    "leaks of a quantity": partial(of_leaks, 1, "quantity"),
    "leaks of a quantity from 0": partial(of_leaks, 2, "quantity from 0"),
    "leaks of a quantity around 0": partial(of_leaks, 1, "quantity around 0"),
}  # fmt: skip
test_what_columns_are_read_as_stays = frozen_test("tables.json", CASES)

if __name__ == "__main__":
    freeze("tables.json", CASES)
