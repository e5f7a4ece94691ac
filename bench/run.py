"""Asking: contenders in forks of a worker with their problem made, other cases one after the other.

A contender has one thread: its seconds are processor time and its memory is its own. One that fails
or is not installed leaves a line that says so.
"""

import multiprocessing
import os
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from bench.frame import Contender, Options, Task, chosen, task_named
from bench.record import Cell, append, read, record
from bench.stats import cost_of, memory

LIMIT = 1800  # seconds that one contender may take of one problem


@dataclass(frozen=True)
class Job:
    """One case and seed, and who is asked; goes to a worker by its names."""

    truth: str
    case: str
    seed: int
    contenders: tuple[str, ...]


def jobs(
    truths: Sequence[str],
    size: str,
    base: int,
    *,
    cases: Sequence[str] = ("*",),
    contenders: str = "*",
    kind: str = "*",
    repeats: int | None = None,
) -> list[Job]:
    """What is to be asked, those of one truth side by side; patterns, and seeds a cell."""
    results = []
    for truth in truths:
        task = task_named(truth)
        for case in chosen(task, cases):
            if task.cases[case].quick == (size == "quick"):
                who = tuple(
                    name
                    for name, contender in task.contenders.items()
                    if fnmatch(name, contenders)
                    and fnmatch(contender.kind, kind)
                    and fnmatch(case, contender.cases)
                )
                seeds = range(base, base + (repeats or task.repeats))
                results += [Job(truth, case, seed, who) for seed in seeds]
    return results


def ask(size: str, names: Sequence[str], args: Namespace) -> list[Cell]:
    """Ask everybody; who has answered in --work is not asked again."""
    todo = jobs(
        names, size, args.seed, cases=args.cases, contenders=args.contenders,
        kind=args.kind, repeats=args.repeats,
    )  # fmt: skip
    log = None if args.work is None else args.work / f"{size}.jsonl"
    lines = [] if log is None else read(log)
    done = {(x["truth"], x["case"], x["seed"], x["contender"]): x for x in lines}
    missing = [replace(job, contenders=who) for job in todo if (who := _unanswered(job, done))]
    started = time.perf_counter()
    for count, (job, answers) in enumerate(_asked(missing, args.workers), 1):
        names_ = {"truth": job.truth, "case": job.case, "seed": job.seed}
        for line in answers:
            done[job.truth, job.case, job.seed, line["contender"]] = names_ | line
            if log is not None:
                append(log, names_ | line)
        wrong = [
            f"{x['contender']} ({x.get('failed') or x['left_out']})"
            for x in answers
            if "figures" not in x
        ]
        minutes = (time.perf_counter() - started) / 60
        where = f"{job.truth}, {job.case}, seed {job.seed}"
        print(f"{minutes:5.1f} min  {count}/{len(missing)}  {where}"
              + (f"; without {', '.join(wrong)}" if wrong else ""), flush=True)  # fmt: skip
    return _gathered(todo, done)


def _unanswered(job: Job, done: dict[tuple, dict]) -> tuple[str, ...]:
    where = job.truth, job.case, job.seed
    return tuple(c for c in job.contenders if "figures" not in done.get((*where, c), {}))


def _gathered(todo: Sequence[Job], done: dict[tuple, dict]) -> list[Cell]:
    """Lines of seeds as cells, in the order of the list."""
    results: dict[tuple, Cell] = {}
    for job in todo:
        task = task_named(job.truth)
        for name in job.contenders:
            line = done.get((job.truth, job.case, job.seed, name))
            if line is None:
                continue
            cell = Cell(job.truth, job.case, name, task.contenders[name].kind)
            cell = results.setdefault(cell.key, cell)
            if "figures" not in line:
                cell.missing = line.get("failed") or line["left_out"]
                continue
            for figure, value in line["figures"].items():
                cell.figures.setdefault(figure, []).append(value)
            cell.seconds.append(line["seconds"])
            cell.mib.append(line["mib"])
    return list(results.values())


def _asked(todo: Sequence[Job], workers: int) -> Iterator[tuple[Job, list[dict]]]:
    """Lines of each job as it ends: contender, figures, seconds, MiB, or what went wrong."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        running = {pool.submit(lines_of, job): job for job in todo}
        for done in as_completed(running):
            yield running[done], done.result()


def lines_of(job: Job) -> list[dict]:
    """Make the problem once; ask every contender in a fork of this process."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    task = task_named(job.truth)
    start = time.process_time()
    try:
        problem = task.cases[job.case].make(job.seed)
    except (ImportError, FileNotFoundError, KeyError) as error:  # a package or data, not here
        return [{"contender": name, "left_out": _told(error)} for name in job.contenders]
    making = time.process_time() - start
    results = []
    for name in job.contenders:
        contender = task.contenders[name]
        if contender.needs and find_spec(contender.needs) is None:
            line: dict = {"left_out": f"{contender.needs} is not installed"}
        else:
            line = in_a_process("fork", _answer, task, contender, problem, job.seed, limit=LIMIT)
        results.append({"contender": name, "making": making, **line})
    return results


def in_a_process(how: str, target: Callable[..., None], *args: Any, limit: float | None) -> dict:
    """What a process of its own ("fork" or "spawn") sends: figures, or what failed."""
    context = multiprocessing.get_context(how)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(there, *args))
    process.start()
    there.close()
    line: dict = {"failed": "it died"}
    if not here.poll(limit):
        process.kill()
        line = {"failed": f"no answer within {limit} s"}
    else:
        try:
            line = here.recv()
        except EOFError:
            pass
    process.join()
    return line


def _answer(pipe: Connection, task: Task, contender: Contender, problem: Any, seed: int) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # baselines print
    os.dup2(devnull, 2)
    assert task.judge is not None
    try:
        answer, seconds, mib = cost_of(partial(contender.ask, problem, seed))
        figures = {k: float(v) for k, v in task.judge(problem, answer, seed).items()}
        pipe.send({"figures": figures, "seconds": seconds, "mib": mib})
    except Exception as error:  # noqa: BLE001  a baseline may raise anything; the line says what
        pipe.send({"failed": _told(error), "where": traceback.format_exc()[-1500:]})
    pipe.close()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:200]}"


# Without contenders. ------------------------------------------------------------------------


def measure(name: str, patterns: Sequence[str], options: Options, keep: bool) -> bool:
    """Measure the cases one after the other and record their lines; whether all ended well."""
    task, well = task_named(name), True
    for case in chosen(task, patterns):
        print(f"{name}, {case}", flush=True)
        try:
            for line, figures in lines_from(name, case, options):
                record(task.lines + line, keep=keep, **figures)
        except (ImportError, FileNotFoundError, RuntimeError) as error:
            print(f"left out: {name}, {case}: {_told(error)}", flush=True)
            well = False
    return well


def lines_from(name: str, case: str, options: Options) -> Iterator[tuple[str, dict]]:
    """Name and figures of each line of a case, with its seconds; its peak in its own process."""
    if not task_named(name).cases[case].fresh:
        yield from _timed(name, case, options)
        return
    lines, peak = fresh(_together, name, case, options)
    yield from ((line, {"peak_mib": peak, **figures}) for line, figures in lines)


def _together(name: str, case: str, options: Options) -> list[tuple[str, dict]]:
    return list(_timed(name, case, options))


def _timed(name: str, case: str, options: Options) -> Iterator[tuple[str, dict]]:
    start = time.perf_counter()
    result = task_named(name).cases[case].make(options)
    for line, figures in [(case, result)] if isinstance(result, dict) else result or ():
        yield line, {"seconds": time.perf_counter() - start, **figures}
        start = time.perf_counter()


def fresh(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a function gives in a new process, and the most memory that this one held, in MiB."""
    answer = in_a_process("spawn", _called, function, args, limit=None)
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer["result"], answer["peak_mib"]


def _called(pipe: Connection, function: Callable[..., Any], args: tuple) -> None:
    try:
        pipe.send({"result": function(*args), "peak_mib": memory("VmHWM")})
    except Exception as error:  # noqa: BLE001  the parent says what
        pipe.send({"failed": _told(error), "where": traceback.format_exc()[-1500:]})
    pipe.close()
