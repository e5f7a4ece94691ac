"""Stores with one thing wrong in their files: right bits, a word and a repair, or one line.

`attack(folder, count, seed)` makes a store of features and one of results, damages `count` times a
random file of one of them in a random way, opens it, and compares every value with what was kept.
"""

import logging
import random
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from datassay.errors import DatassayError
from datassay.store.features import DamagedChunk
from datassay.store.results import ResultStore
from helpers.stores import N_CHUNKS, full, opened, values

MANIFEST = {"holds": "results", "lr": 0.1, "layers": [3, 2]}
PIECES = {
    "all": {"outputs": np.linspace(-1, 1, 12).reshape(4, 3), "done": np.array(7)},
    "without-3": {
        "outputs": np.arange(6.0),
        "held_out": np.float32([1, 2, 3]),
        "name": np.array("ä"),
    },
}
SAME, MENDED, REFUSED = "right, without a word", "said and computed again", "refused in one line"
ANYTHING = (Exception,)
WRONG, TRACEBACK = "OTHER VALUES WITHOUT A WORD", "TRACEBACK"


@dataclass
class Outcome:
    """Counts of what happened, and what should not have."""

    counts: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self):
        return "; ".join(f"{n:,} {what}" for what, n in sorted(self.counts.items()))


class _Said(logging.Handler):
    """Whether a warning was given."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def attack(folder: Path, count: int, seed: int = 0) -> Outcome:
    random_ = random.Random(seed)
    stores = {"features": _check_features, "results": _check_results}
    full(folder / "features")
    results = ResultStore(folder / "results", MANIFEST)
    for name, arrays in PIECES.items():
        results.put(name, arrays)
    files = {name: _files(folder / name) for name in stores}
    outcome, predicted, log = Outcome(), _Said(), logging.getLogger("datassay.store")
    before = log.propagate
    log.addHandler(predicted)
    log.propagate = False
    try:
        for number in range(count):
            name = random_.choice(list(stores))
            what = _damage(folder / name, files[name], random_)
            predicted.lines.clear()
            happened = _happened(stores[name], folder / name, predicted)
            outcome.counts[happened] += 1
            if happened in {WRONG} or happened.startswith(TRACEBACK):
                outcome.failures.append(f"{seed}/{number}: {name}: {what}: {happened}")
            _restore(folder / name, files[name])
    finally:
        log.removeHandler(predicted)
        log.propagate = before
    return outcome


def _happened(check, folder, predicted):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            corrected = check(folder)
    except DatassayError as error:
        return (
            REFUSED if "\n" not in str(error) and len(str(error)) < 1000 else f"{TRACEBACK}: long"
        )
    except AssertionError:
        return WRONG
    except ANYTHING as error:
        return f"{TRACEBACK}: {type(error).__name__}: {error}"
    return MENDED if corrected or predicted.lines else SAME


def _check_features(folder):
    store = opened(folder)
    complete = set(store.survey().complete)
    for number in range(N_CHUNKS):
        if number in complete:
            _equal({name: store.get(number, name) for name in values(number)}, values(number))
        else:
            try:
                store.get(number, "rows")
            except DamagedChunk:
                pass
            store.put(number, values(number))
    again = opened(folder)
    assert again.survey().complete == tuple(range(N_CHUNKS))
    for number in range(N_CHUNKS):
        _equal({name: again.get(number, name) for name in values(number)}, values(number))
    return len(complete) < N_CHUNKS


def _check_results(folder):
    store, corrected = ResultStore(folder, MANIFEST), False
    for name, arrays in PIECES.items():
        if name in store:
            _equal(store.get(name), arrays)
        else:
            corrected = True
            store.put(name, arrays)
    again = ResultStore(folder, MANIFEST)
    for name, arrays in PIECES.items():
        _equal(again.get(name), arrays)
    return corrected


def _equal(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
        assert found[name].shape == array.shape


def _files(folder):
    return {f.relative_to(folder): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def _restore(folder, files):
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.relative_to(folder) not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def _bits(content, index, to, random_):
    for _ in range(1 + to % 20):
        content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    return content


# (content, position, byte, random) → content; and how often of 100.
DAMAGES = {
    "bit": (60, lambda c, at, to, _: c[:at] + bytes([c[at] ^ 1 << to % 8]) + c[at + 1 :]),
    "byte": (12, lambda c, at, to, _: c[:at] + bytes([to]) + c[at + 1 :]),
    "bits": (6, _bits),
    "truncate": (5, lambda c, at, *_: c[:at]),
    "append": (4, lambda c, at, to, r: c + r.randbytes(1 + to)),
    "zeros": (3, lambda c, at, to, _: c[:at] + bytes(len(c[at : at + to])) + c[at + to :]),
    "insert": (2, lambda c, at, to, r: c[:at] + r.randbytes(1 + to % 9) + c[at:]),
    "delete": (3, None),
    "swap": (3, None),
    "copy": (2, None),
}


def _damage(folder, files, random_):
    """Damage one file, or two; says what was done."""
    name, other = random_.choice(list(files)), random_.choice(list(files))
    (kind,) = random_.choices(list(DAMAGES), [often for often, _ in DAMAGES.values()])
    index, to = random_.randrange(len(files[name])), random_.randrange(256)
    change, path = DAMAGES[kind][1], folder / name
    if kind == "delete":
        path.unlink()
    elif change is None:
        path.write_bytes(files[other])
        if kind == "swap":
            (folder / other).write_bytes(files[name])
    else:
        path.write_bytes(change(bytearray(files[name]), index, to, random_))
    return f"{kind} of {name} at {index} by {to}, other {other}"


if __name__ == "__main__":  # python tests/helpers/damaged_stores.py COUNT SEED
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        found = attack(Path(place), int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write("\n".join([str(found), *found.failures, ""]))
