"""Runs that are ended at a random moment: old results or new ones, and the same bits afterwards."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

from datassay.store.folders import read_digests, sha256
from helpers.attack.attempt import Attempt, attempt, command
from helpers.attack.case import Case, empty
from helpers.attack.stores import PLAIN, different

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


def case(draw: random.Random, folder: Path) -> Case:
    """A run in a folder of earlier results, ended once or twice; then it is left alone."""
    first, second, seconds = _two_runs(folder.parent / "two")
    shutil.copytree(first / "report", folder / "report")
    which = draw.choice(SIGNALS)
    late = draw.random() < 0.5
    # Half of them while results are written, which takes a few hundredths of a second.
    pause = draw.uniform(0, 0.08) if late else draw.uniform(0, 0.9) * seconds
    again = which != signal.SIGKILL and draw.random() < 0.3
    work = command([*PLAIN, "--seed", "1", "--store", "store"])

    def during(pid: int) -> None:
        while late and _lives(pid) and not _is_writing(folder):
            time.sleep(0.001)
        time.sleep(pause)
        for k in range(1 + again):
            time.sleep(0.002 * k)
            os.kill(pid, which)  # it may have ended, and is not waited for yet

    def judge(ended: Attempt) -> str | None:
        if which != signal.SIGKILL:
            if left := _litter(folder):
                return f"left behind: {left}"
            ends = (different(f / "report", folder / "report") for f in (first, second))
            if all(ends) and not _is_page_of_scores(folder / "report"):
                return "lost: neither the old results nor the new ones"
        healed = attempt(work, folder)
        if healed.status != 0:
            return f"the next run ended with {healed.status}: {healed.err[-300:]}"
        if left := _litter(folder):
            return f"left behind after the next run: {left}"
        return different(second / "report", folder / "report")

    since = "writing began" if late else "the start"
    name = f"{which.name}{' twice' * again} {pause:.3f} s after {since}"
    killed = frozenset({-signal.SIGKILL})
    return Case(name, work, judge, killed, during=during)


def _is_writing(folder: Path) -> bool:
    try:
        return any(folder.glob("report/.datassay-*/new/*.parquet"))
    except FileNotFoundError:  # the folder that it looked into was just removed
        return False


def _lives(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _two_runs(folder: Path) -> tuple[Path, Path, float]:
    """Finished runs with seeds 0 and 1, made once, and the seconds of one."""
    seconds = folder / "seconds.txt"
    if not seconds.exists():
        empty(folder)
        for seed in "01":
            (folder / seed).mkdir()
            ended = attempt(command([*PLAIN, "--seed", seed, "--store", "store"]), folder / seed)
            assert ended.status == 0, ended.err
        seconds.write_text(str(ended.seconds))
    return folder / "0", folder / "1", float(seconds.read_text())


def _is_page_of_scores(report: Path) -> bool:
    """Whether all files are those that the second run wrote before it compared actions."""
    summary = json.loads((report / "summary.json").read_text())
    whole = all(sha256(report / name) == digest for name, digest in read_digests(report).items())
    return whole and bool(summary["pending"])


def _litter(folder: Path) -> str | None:
    """A file or folder that is neither a result nor a part of a store."""
    for file in folder.rglob("*"):
        if file.name == ".datassay.json":  # the names and digests of what we wrote
            continue
        if file.name.startswith(".") or file.suffix in {".part", ".partial"}:
            return str(file.relative_to(folder))
    return None
