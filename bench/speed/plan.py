"""Does `--plan` hold? What twenty drawn jobs were to take, and what they took.

A seed draws the command (run, score, index, explain), the data (tables of classes and of amounts,
images, texts), their size and the network. Each job is planned and then done by the command line,
each in a process of its own on one thread. Both are processor time, which other programs on the
machine do not alter, from the program's start to its end; a line holds both, their ratio (planned /
taken), the same of the peak of memory, and what planning took. `--seed 100` draws others; `--set
only=3,7` does some of them again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import commands
from bench.frame import Case, Options, Row, Task
from safetensors.torch import save_file

from datassay.data import load
from datassay.models import build_model

JOBS = 20
COMMANDS = {"run": 0.35, "score": 0.25, "index": 0.2, "explain": 0.2}
KINDS = {"table": 0.35, "amounts": 0.2, "images": 0.3, "texts": 0.15}
SECONDS = re.compile(r"About ([\d.e+]+) s")
PEAK = re.compile(r"(?:peak ([\d.]+) GB|([\d.]+) GB besides the program)")


@dataclass(frozen=True)
class Job:
    """One command line, and what it is about in words."""

    words: tuple[str, ...]
    what: str


def draw_job(seed: int, folder: Path) -> Job:
    """Draw a command line by the seed, and write the files that it reads."""
    rng = np.random.default_rng(seed)

    def between(low: float, high: float) -> int:
        return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))

    command = str(rng.choice(list(COMMANDS), p=list(COMMANDS.values())))
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    model = f"mlp:width={between(16, 200)}"
    file = folder / (f"{seed}.npz" if kind == "images" else f"{seed}.csv")
    if kind == "images":
        sizes = between(150, 6000), between(8, 28), between(2, 10)
        commands.images(file, seed, *sizes)
        model = str(rng.choice(["cnn", model]))
    elif kind == "texts":
        sizes = between(150, 1500), between(5, 60), between(2, 5)
        commands.texts(file, seed, *sizes)
    else:
        k = 1 if kind == "amounts" else between(2, 12)
        sizes = between(150, 15_000), between(3, 120), k
        commands.table(file, seed, *sizes, words=sizes[1] // 4)
    words = [command, str(file)]
    if kind != "images":
        words += ["--target", "target"]
    if command in ("index", "explain") or model == "cnn":
        words += ["--model", model]
    if command in ("index", "explain"):
        words += ["--weights", str(_weights(model, file, seed))]
    return Job(tuple(words), f"{command}, {kind} {' x '.join(map(str, sizes))}, {model}")


def _weights(model: str, file: Path, seed: int) -> Path:
    train, _ = load(file, target=None if file.suffix == ".npz" else "target")
    path = file.with_suffix(".safetensors")
    save_file(build_model(model, train, seed=seed).state_dict(), path)
    return path


def compare(seed: int, folder: Path) -> dict[str, object]:
    """Plan a drawn job, do it, and say how both differ."""
    job = draw_job(seed, folder)
    words = [*job.words, "--out", f"out{seed}"]
    text, planning, program = commands.call([*words, "--plan"], folder)
    text = " ".join(text.split())
    seconds, peak = SECONDS.search(text), PEAK.search(text)
    assert seconds is not None and peak is not None, text
    planned = float(seconds[1])
    planned_bytes = 1e9 * float(peak[1] or peak[2]) + (0 if peak[1] else program)
    _, taken, held = commands.call(words, folder)
    return {
        "job": job.what, "seconds_planned": planned, "seconds": taken,
        "seconds_ratio": planned / taken, "planning_seconds": planning,
        "peak_megabytes_planned": planned_bytes / 1e6, "peak_megabytes": held / 1e6,
        "peak_ratio": planned_bytes / held,
    }  # fmt: skip


def compare_all(options: Options) -> Iterator[tuple[str, dict]]:
    """Compare the drawn jobs, or those named."""
    for number in options.value("only", tuple(range(JOBS))):
        yield f"drawn {options.seed + number}", compare(options.seed + number, options.work)


def rows(lines: dict[str, dict]) -> list[Row]:
    plans = [line for name, line in lines.items() if name.startswith("plan/drawn")]
    if not plans:
        return []
    parts = []
    for key in ("seconds_ratio", "peak_ratio"):
        ratios = [line[key] for line in plans]
        n_within = sum(0.5 <= ratio <= 2 for ratio in ratios)
        parts.append(f"{n_within} of {len(plans)} ({min(ratios):.2f} to {max(ratios):.2f})")
    return [Row("Planned within twice of what was taken: seconds; peak memory", "; ".join(parts))]


TASK = Task(
    measure="planned against measured seconds and memory",
    cases={"drawn": Case(compare_all)},
    lines="plan/",
    rows=rows,
)
