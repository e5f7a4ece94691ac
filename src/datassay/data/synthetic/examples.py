"""Small data sets with faults planted on purpose, and the truth about each of their samples."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Shaped
from pyarrow import csv

from datassay.data.settings import Loading, check_seed
from datassay.errors import DataError
from datassay.results import result

WRONG = 0.08  # share of the labels
COPIES = 20  # of each kind
PAIRS = {4: 9, 3: 8}  # digits that are taken for another
PEOPLE = 2_000
MESSAGES = 800
CLEAR = 0.9
INCOMES = ("below 50k", "50k or more")
CODES = np.array([["B10", "B12", "B14"], ["K20", "K22", "K26"]])  # a row an income
SCHOOLS = ("primary", "secondary", "vocational", "bachelor", "master", "doctorate")
CITIES = ("Lyon", "Turin", "Ghent", "Porto", "Graz", "Leeds")
MISSING = {"education": 0.03, "hours": 0.04, "city": 0.02}
AT_RANDOM = "wrong at random"
NEAR = "near copy"
EXACT = "exact copy"


@result
class Example:
    """A data set with planted faults, and the truth about each sample.

    Attributes:
        file: name of its data file.
        write: writes the data to a path.
        truth: one row per sample: `id`, `true_label`, `fault` (empty: none) and `original`, the id
            that a copy repeats.
    """

    file: str
    write: Callable[[Path], object]
    truth: pa.Table


@result
class _Plan:
    """Which row of the clean data each of n samples is, and what is wrong with it."""

    row: Int[np.ndarray, " n"]  # of the clean data
    fault: Shaped[np.ndarray, " n"]  # in words; empty: none
    original: Int[np.ndarray, " n"]  # position of what it copies; -1: it is no copy

    def draw_free(self, n: int, rng: np.random.Generator, among: Any = True) -> np.ndarray:
        """Draw positions of n samples, among some, that have no fault and no copy."""
        has_copy = np.isin(np.arange(len(self.row)), self.original)
        return rng.choice(np.flatnonzero((self.fault == "") & ~has_copy & among), n, replace=False)


def example(name: str, *, seed: int = Loading.seed) -> Example:
    """Return the example of that name, the same bytes for the same seed.

    Args:
        name: "digits": scikit-learn's images, with a validation part whose labels are right;
            "people": a made-up table; "texts": made-up messages of customers.
        seed: of everything that is drawn, 0 ≤ seed < 2^32.

    Returns:
        The data, 8 % of their labels wrong, and the truth.

    Raises:
        DataError: there is none of that name, or a bad seed.
    """
    check_seed(seed)
    if name not in EXAMPLES:
        raise DataError(f"the example must be {', '.join(EXAMPLES)}; got {name[:60]!r}.")
    return EXAMPLES[name](np.random.default_rng(seed))


def _digits(rng: np.random.Generator) -> Example:
    """Return scikit-learn's digits, with wrong labels and near-duplicates planted."""
    from sklearn.datasets import load_digits  # slow to import

    bunch: Any = load_digits()
    images = bunch.images  # [n, 8, 8], levels 0..16
    digit = bunch.target
    val, train = np.split(rng.permutation(len(digit)), [len(digit) // 5])
    plan = _draw_plan(rng, len(train), [NEAR] * COPIES)
    true_labels = digit[train][plan.row]
    x = images[train][plan.row]
    labels = true_labels.copy()
    n = len(true_labels)
    for source, target in PAIRS.items():
        rows = plan.draw_free(round(WRONG * n / 2 / len(PAIRS)), rng, true_labels == source)
        labels[rows] = target
        plan.fault[rows] = f"taken for {target}"
    rows = plan.draw_free(round(WRONG * n / 2), rng)
    labels[rows] = (true_labels[rows] + rng.integers(1, 10, len(rows))) % 10
    plan.fault[rows] = AT_RANDOM
    # A copy is brighter or darker by one level in some pixels.
    noise = rng.choice([-1, 0, 1], x.shape, p=[0.1, 0.8, 0.1])
    x = np.where((plan.original >= 0)[:, None, None], (x + noise).clip(0, 16), x)
    names = np.arange(10).astype(str)
    truth = _tabulate_truth("d", plan, names[true_labels])
    x, x_val = ((levels / 16).astype(np.float32)[:, None] for levels in (x, images[val]))
    arrays = {
        "x": x, "y": labels, "ids": np.array(truth["id"].to_pylist()),
        "x_val": x_val, "y_val": digit[val], "class_names": names,
    }  # fmt: skip
    return Example("digits.npz", lambda path: np.savez_compressed(path, **arrays), truth)


def _people(rng: np.random.Generator) -> Example:
    """Return a made-up table of people, with wrong labels and copies planted."""
    n = PEOPLE - 2 * COPIES
    plan = _draw_plan(rng, n, [EXACT] * COPIES + [NEAR] * COPIES)
    age = rng.integers(19, 67, n)
    city = rng.integers(len(CITIES), size=n)
    school = rng.choice(len(SCHOOLS), n, p=[0.08, 0.3, 0.22, 0.22, 0.14, 0.04])
    hours = rng.normal(37, 8, n).round().clip(8, 70)
    years = rng.beta(1, 3, n) * (age - 18)
    wage = 0.9 * school + 0.05 * age + 0.08 * hours + 0.06 * years + 0.4 * (city % 3)
    wage += rng.normal(0, 0.2, n)
    true_labels = (wage > np.quantile(wage, 0.6)).astype(int)[plan.row]
    labels = true_labels.copy()
    rows = plan.draw_free(round(WRONG * PEOPLE), rng)
    labels[rows] = 1 - true_labels[rows]
    plan.fault[rows] = AT_RANDOM
    joined = np.datetime64("2016-01-04") + rng.integers(0, 3200, n)
    columns = {
        "age": age, "education": np.array(SCHOOLS)[school], "hours": hours.astype(int),
        "years_in_job": years.round(1), "city": np.array(CITIES)[city], "joined": joined,
        "account_code": rng.integers(3, size=n),
    }  # fmt: skip
    columns = {name: column[plan.row] for name, column in columns.items()}
    columns["joined"] = columns["joined"] + (plan.fault == NEAR)  # a day later
    # A code that was given once the income was known.
    columns["account_code"] = CODES[labels, columns["account_code"]]
    is_missing = {name: (rng.random(n) < share)[plan.row] for name, share in MISSING.items()}
    truth = _tabulate_truth("p", plan, np.array(INCOMES)[true_labels])
    table = pa.table({
        "person": truth["id"],
        **{name: pa.array(c, mask=is_missing.get(name)) for name, c in columns.items()},
        "income": np.array(INCOMES)[labels],
    })
    return Example("people.csv", lambda path: csv.write_csv(table, path), truth)


def _texts(rng: np.random.Generator) -> Example:
    """Return made-up messages of customers, with wrong labels planted."""
    words = json.loads(Path(__file__).with_name("sentences.json").read_text(encoding="utf-8"))
    topics = list(words["topics"])
    topic_of = {}
    while len(topic_of) < MESSAGES:
        topic, last_topic = rng.choice(topics, 2)
        # Some messages end with another topic, which makes them hard to tell.
        closing = words["closing"]
        if rng.random() >= CLEAR:
            closing = words["topics"][last_topic]
        sentence_parts = words["opening"], words["topics"][topic], words["detail"], closing
        topic_of.setdefault("{} {} {}. {}".format(*map(rng.choice, sentence_parts)), topic)
    true_labels = np.array([topics.index(topic) for topic in topic_of.values()])
    plan = _draw_plan(rng, MESSAGES, [])
    labels = true_labels.copy()
    rows = plan.draw_free(round(WRONG * MESSAGES), rng)
    labels[rows] = (true_labels[rows] + rng.integers(1, len(topics), len(rows))) % len(topics)
    plan.fault[rows] = AT_RANDOM
    truth = _tabulate_truth("t", plan, np.array(topics)[true_labels])
    table = pa.table({
        "id": truth["id"],
        "message": list(topic_of),
        "topic": np.array(topics)[labels],
    })
    return Example("texts.csv", lambda path: csv.write_csv(table, path), truth)


EXAMPLES: dict[str, Callable[[np.random.Generator], Example]] = {
    "digits": _digits,
    "people": _people,
    "texts": _texts,
}


def _draw_plan(rng: np.random.Generator, n: int, copies: list[str]) -> _Plan:
    """Return which row each example sample shows, its planted fault, and what it copies."""
    copied = rng.choice(n, len(copies), replace=False)
    order = rng.permutation(n + len(copies))
    positions = np.argsort(order)
    original = np.concatenate([np.full(n, -1), positions[copied]])[order]
    fault = np.array([""] * n + copies, object)[order]
    return _Plan(np.concatenate([np.arange(n), copied])[order], fault, original)


def _tabulate_truth(prefix: str, plan: _Plan, true_labels: np.ndarray) -> pa.Table:
    """Return the table of each sample's id, true label, planted fault, and original's id."""
    ids = [f"{prefix}{i:04d}" for i in range(len(true_labels))]
    original = [ids[i] if i >= 0 else "" for i in plan.original]
    columns = {"id": ids, "true_label": true_labels, "fault": plan.fault, "original": original}
    return pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
