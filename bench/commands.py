"""Drawn data in files, and what the command line takes of them: processor time and memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

# A plan's pilots read the processor's clock, as the time that is taken is the processor's.
PROGRAM = (
    "import runpy, sys, time; time.perf_counter = time.process_time; "
    "sys.argv[0] = 'datassay'; runpy.run_module('datassay', run_name='__main__')"
)
WORDS = [f"{a}{b}" for a in ("ba", "ke", "lo", "mi", "su") for b in ("n", "rt", "sha", "v", "zel")]


def call(words: list[str], folder: Path) -> tuple[str, float, float]:
    """What a command prints; its processor seconds and peak bytes, in a process of one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], cwd=folder, env=environment,
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, process.returncode, usage = os.wait4(process.pid, 0)
        log.seek(0)
        text = log.read()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: {text[-500:]}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def table(file: Path, seed: int, n: int, columns: int, k: int, *, words: int = 0) -> None:
    """Write normal numbers, columns of words, and a target: one of k classes, an amount of k 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, columns))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])
    for j in range(words):
        frame[f"c{j}"] = np.array(WORDS)[rng.integers(0, 2 + 3 * j % 20, n)]
    outputs = x[:, :3] @ rng.normal(size=(min(3, columns), k)) + rng.gumbel(size=(n, k))
    y = outputs[:, 0] if k == 1 else np.array([f"class {j}" for j in outputs.argmax(1)])
    frame.assign(target=y).to_csv(file, index=False)


def images(file: Path, seed: int, n: int, side: int, k: int) -> None:
    """Write pictures of k classes with noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    x = rng.normal(size=(k, 1, side, side))[y] + rng.normal(size=(n, 1, side, side))
    np.savez(file, x=x.astype("float32"), y=y)


def texts(file: Path, seed: int, n: int, length: int, k: int) -> None:
    """Write sentences of `length` words, which hang on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    odds = rng.dirichlet(np.ones(len(WORDS)), k)
    lines = [" ".join(rng.choice(WORDS, length, p=odds[label])) for label in y]
    pd.DataFrame({"text": lines, "target": [f"class {j}" for j in y]}).to_csv(file, index=False)
