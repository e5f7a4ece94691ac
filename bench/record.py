"""What is recorded: lines of results.jsonl, and cells of quick.jsonl and full.jsonl."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from bench.stats import interval

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
LIBRARIES = ("datassay", "torch", "numpy", "scipy", "scikit-learn")
# What lines of earlier versions hold, by field, and its name today.
EARLIER = {("truth", "acts"): "actions", ("kind", "rival"): "baseline",
           ("bench", "acts/eight data sets"): "actions/eight data sets"}  # fmt: skip
PACKAGES = ("cleanlab", "captum", "dattri", "kronfluence", "traker", "pyDVL")


def record(bench: str, *, keep: bool = True, **figures: object) -> None:
    """Append one line and print it: what, on what, how long, how much, how wrong.

    Args:
        bench: the line's name.
        keep: whether it is recorded, or only printed.
        figures: sizes, seconds, peak_mib, error and whatever else was measured.
    """
    plain = {name: _plain(value) for name, value in figures.items()}
    if keep:
        line = {
            "bench": bench, "commit": commit(), "date": time.strftime("%Y-%m-%d"),
            "machine": machine_name(), "threads": torch.get_num_threads(),
            "python": platform.python_version(), "versions": versions(LIBRARIES), **plain,
        }  # fmt: skip
        append(RESULTS, line)
    print(bench, plain, flush=True)


def machine_name() -> str:
    """Architecture, processor and number of cores."""
    processor = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return f"{platform.machine()}, {processor or 'unknown processor'}, {os.cpu_count()} cores"


def latest() -> dict[str, dict]:
    """The newest line of every name; sizes of one measurement are kept apart."""
    newest = {}
    for line in read(RESULTS):
        sized = line["bench"].startswith(("speed/l", "retraining/", "scale/fashion"))
        newest[line["bench"] + (f" n={line['n']}" if sized else "")] = line
    return newest


def read(file: Path) -> list[dict]:
    """The lines of a file, under the names of today; none where there is none."""
    lines = map(json.loads, file.read_text("utf-8").splitlines()) if file.exists() else ()
    return [{k: EARLIER.get((k, v), v) if isinstance(v, str) else v for k, v in line.items()}
            for line in lines]  # fmt: skip


def append(file: Path, line: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")


def commit() -> str:
    """The checked-out commit, and whether src differs from it."""
    git = ["git", "-C", str(HERE)]
    head, changed = (
        subprocess.run([*git, *words.split()], capture_output=True, text=True, check=True).stdout
        for words in ("rev-parse --short HEAD", "status --porcelain -- ../src")
    )
    return head.strip() + ("+changes" if changed else "")


def versions(names: Sequence[str] = (*LIBRARIES, *PACKAGES)) -> dict[str, str]:
    results = {}
    for name in names:
        try:
            results[name] = version(name)
        except PackageNotFoundError:
            continue
    return results


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


# Cells. -------------------------------------------------------------------------------------


@dataclass
class Cell:
    """One case and contender."""

    truth: str
    case: str
    contender: str
    kind: str
    figures: dict[str, list[float]] = field(default_factory=dict)  # name → one value per seed
    seconds: list[float] = field(default_factory=list)  # of processor time, one per seed
    # the most memory held beyond the problem, one per seed
    mib: list[float] = field(default_factory=list)
    missing: str = ""  # why it is left out or failed; empty where it answered

    @property
    def key(self) -> tuple[str, str, str]:
        """Truth, case, contender."""
        return self.truth, self.case, self.contender


def keep(results: Sequence[Cell], size: str, seed: int) -> None:
    """Write the cells into the recorded file, each in the place of its last record."""
    file = HERE / f"{size}.jsonl"
    lines = {(x["truth"], x["case"], x["contender"]): x for x in read(file)}
    stamp = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "seed": seed}
    for cell in results:
        lines[cell.key] = {
            "truth": cell.truth, "case": cell.case, "contender": cell.contender, "kind": cell.kind,
            "interval": {k: _short(interval(v)) for k, v in cell.figures.items()},
            "figures": {k: _short(v) for k, v in cell.figures.items()},
            "seconds": _short(cell.seconds), "mib": _short(cell.mib), "missing": cell.missing,
            **stamp, "versions": versions(),
        }  # fmt: skip
    text = "".join(json.dumps(x, ensure_ascii=False) + "\n" for _, x in sorted(lines.items()))
    file.write_text(text, encoding="utf-8")


def kept(size: str) -> list[Cell]:
    names = Cell.__dataclass_fields__
    lines = read(HERE / f"{size}.jsonl")
    return [Cell(**{k: v for k, v in line.items() if k in names}) for line in lines]


def _short(values: Sequence[float]) -> list[float | None]:
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in values]
