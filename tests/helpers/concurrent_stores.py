"""Processes that open one new store at the same moment: each gives the right bits, or one line.

    python tests/helpers/concurrent_stores.py FOLDER ROUNDS [KILL]

prints one JSON line of counts. With KILL each round ends one process at a random moment, by SIGTERM
or SIGKILL; then one more run must give the right bits and leave nothing but a store's own files.
"""

import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from datassay.collect import choose_form
from datassay.collect.collection import collect
from datassay.errors import DatassayError
from datassay.train.retrain import retrain
from helpers.collecting import classes, network

# What work imports on the way: children that are forked must find it.
for late in ("torch._dynamo", "zarr", "datassay.collect.resume"):
    importlib.import_module(late)

AT_ONCE = 4
ANYTHING = (BaseException,)
UNFINISHED = re.compile(r".*\.(part|partial)")


def work(folder: Path, result: Path) -> None:
    choose_form.WORKING_BYTES = 2**13
    train, val = classes(17), classes(6, seed=1, first=50)
    lin = collect(network(), train, val, projection=9, store=folder / "features")
    kept = retrain(network(), train, lr=0.1, steps=3, removed=[1, 4], store=folder / "without")
    np.savez(
        result,
        **{"features": lin.features.numpy(), "outputs": lin.outputs.numpy()},
        **{"retrained": kept.outputs_without, "weights": kept.weight_change},
    )


def child(folder: Path, result: Path, start: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        time.sleep(max(0.0, start - time.time()))
        work(folder, result)
    except DatassayError as error:
        result.with_suffix(".line").write_text(str(error))
    except ANYTHING:
        result.with_suffix(".traceback").write_text(traceback.format_exc())
    finally:
        os._exit(0)


def outcome(result: Path, expected: dict) -> str:
    if result.with_suffix(".traceback").exists():
        return result.with_suffix(".traceback").read_text()
    if result.with_suffix(".line").exists():
        line = result.with_suffix(".line").read_text()
        return "one line" if "\n" not in line else line
    if not result.exists():
        return "ended"
    samples = np.load(result)
    same = all(np.array_equal(samples[name], array) for name, array in expected.items())
    return "right bits" if same else "OTHER BITS"


def round_of(folder: Path, kill: bool, expected: dict) -> list[str]:
    start = time.time() + 0.02
    results = [folder / f"result-{i}.npz" for i in range(AT_ONCE)]
    pids = [child(folder, result, start) for result in results]
    if kill:
        time.sleep(random.uniform(0, 0.5))
        os.kill(pids[0], random.choice([signal.SIGTERM, signal.SIGKILL]))
    for pid in pids:
        os.waitpid(pid, 0)
    if kill:  # the next run removes what the ended one left
        results.append(folder / "result-last.npz")
        os.waitpid(child(folder, results[-1], 0.0), 0)
    left = [f.name for f in folder.rglob("*") if UNFINISHED.fullmatch(f.name)]
    return [outcome(r, expected) for r in results] + [f"LEFT {name}" for name in left]


def main(folder: Path, rounds: int, kill: bool) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    os.waitpid(child(folder / "alone", folder / "expected.npz", 0.0), 0)
    expected = dict(np.load(folder / "expected.npz"))
    counts: Counter[str] = Counter()
    for number in range(rounds):
        path = folder / str(number)
        path.mkdir()
        counts.update(round_of(path, kill, expected))
        shutil.rmtree(path)
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3)
