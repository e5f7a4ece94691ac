"""The frame of the suite: truths × cases × contenders, each cell asked for a few seeds.

A truth says what counts; its cases make tasks from a seed; its contenders answer a task without
seeing the truth; `judge` gives the answer's figures. All contenders of a case meet the same seeds,
so differences are paired. A contender runs in a process of its own, with one thread: its seconds
are processor time and its memory is its own. One that fails or is not installed leaves a line that
says so.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

TRUTHS = (
    "leave_one_out",
    "datamodelling",
    "labels",
    "removal",
    "selection",
    "purification",
    "subclass",
    "adversarial",
    "mixture",
    "weights",
    "acts",
)
LIMIT = 1800  # seconds that one contender may take of one task


@dataclass(frozen=True)
class Case:
    """Where a contender is asked.

    Attributes:
        make: seed → task; data, noise and networks are drawn by the seed.
        quick: whether it needs no files and seconds alone.
    """

    make: Callable[[int], Any]
    quick: bool = False


@dataclass(frozen=True)
class Contender:
    """Who is asked.

    Attributes:
        ask: (task, seed) → answer, as the truth's `judge` takes it.
        kind: "ours", "trivial", "rival" or "bound": what nobody can pass.
        needs: a package without which it is left out.
    """

    ask: Callable[[Any, int], Any]
    kind: str = "rival"
    needs: str = ""


@dataclass(frozen=True)
class Truth:
    """What counts.

    Attributes:
        measure: in words; higher is better.
        cases: by name.
        contenders: by name.
        judge: (task, answer, seed) → figure → value; NaN where there is none.
        repeats: seeds a cell.
        chosen_on: case → seeds on which a setting of a contender was chosen; never reported.
    """

    measure: str
    cases: Mapping[str, Case]
    contenders: Mapping[str, Contender]
    judge: Callable[[Any, Any, int], dict[str, float]]
    repeats: int = 5
    chosen_on: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One case and seed, and who is asked; goes to a worker by its names."""

    truth: str
    case: str
    seed: int
    contenders: tuple[str, ...]


def truth_named(name: str) -> Truth:
    """A truth of the list, from `truths/NAME.py`."""
    return import_module(f"truths.{name}").TRUTH


def jobs(
    truths: Sequence[str],
    size: str,
    base: int,
    *,
    cases: str = "*",
    contenders: str = "*",
    kind: str = "*",
    repeats: int | None = None,
) -> list[Job]:
    """What is to be asked, those of one truth side by side; patterns, and seeds a cell."""
    found = []
    for name in truths:
        truth = truth_named(name)
        who = tuple(
            c
            for c, contender in truth.contenders.items()
            if fnmatch(c, contenders) and fnmatch(contender.kind, kind)
        )
        chosen = [c for c, case in truth.cases.items() if case.quick == (size == "quick")]
        for case in (c for c in chosen if fnmatch(c, cases)):
            found += [Job(name, case, base + r, who) for r in range(repeats or truth.repeats)]
    return found


def asked(todo: Sequence[Job], workers: int) -> Iterator[tuple[Job, list[dict]]]:
    """Lines of each job as it ends: contender, figures, seconds, MiB, or what went wrong."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        running = {pool.submit(lines_of, job): job for job in todo}
        for done in as_completed(running):
            yield running[done], done.result()


def lines_of(job: Job) -> list[dict]:
    """Make the task once; ask every contender in a fork of this process."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    truth = truth_named(job.truth)
    start = time.process_time()
    try:
        task = truth.cases[job.case].make(job.seed)
    except (
        ImportError,
        FileNotFoundError,
        KeyError,
    ) as error:  # a package or data that is not here
        return [{"contender": name, "left_out": _said(error)} for name in job.contenders]
    making = time.process_time() - start
    found = []
    for name in job.contenders:
        contender = truth.contenders[name]
        if contender.needs and find_spec(contender.needs) is None:
            line: dict = {"left_out": f"{contender.needs} is not installed"}
        else:
            line = _in_a_fork(truth, contender, task, job.seed)
        found.append({"contender": name, "making": making, **line})
    return found


def _in_a_fork(truth: Truth, contender: Contender, task: Any, seed: int) -> dict:
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=_answer, args=(there, truth, contender, task, seed))
    process.start()
    there.close()
    line: dict = {"failed": "it died"}
    if not here.poll(LIMIT):
        process.kill()
        line = {"failed": f"no answer within {LIMIT} s"}
    else:
        try:
            line = here.recv()
        except EOFError:
            pass
    process.join()
    return line


def _answer(pipe: Any, truth: Truth, contender: Contender, task: Any, seed: int) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # rivals print
    os.dup2(devnull, 2)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    start = time.process_time()
    try:
        answer = contender.ask(task, seed)
        seconds, mib = time.process_time() - start, memory("VmHWM") - before
        figures = {k: float(v) for k, v in truth.judge(task, answer, seed).items()}
        pipe.send({"figures": figures, "seconds": seconds, "mib": mib})
    except Exception as error:  # noqa: BLE001  a rival may raise anything; the line says what
        pipe.send({"failed": _said(error), "where": traceback.format_exc()[-1500:]})
    pipe.close()


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:200]}"


def memory(which: str) -> float:
    """A line of the kernel's account of this process, in MiB; Linux only."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(f"{which}:")[2].split()[0]) / 1024


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and the ends of its 95 % interval, by Student's t; without ends for one value."""
    some = np.asarray(values, float)
    some = some[np.isfinite(some)]
    if len(some) == 0:
        return np.nan, np.nan, np.nan
    mean = float(some.mean())
    if len(some) == 1:
        return mean, np.nan, np.nan
    half = float(student.ppf(0.975, len(some) - 1) * some.std(ddof=1) / np.sqrt(len(some)))
    return mean, mean - half, mean + half
