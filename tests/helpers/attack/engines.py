"""An index on processes or Ray, whose workers die or which is killed: the same bits as in here."""

import importlib.util
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import nn

import datassay as da
from datassay.collect.engine.processes import Processes
from datassay.errors import DatassayError
from datassay.score.index import segment
from helpers.attack.attempt import Attempt, attempt
from helpers.attack.case import Case, empty, refused

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not know where it is
ENGINES = ("processes", "processes", *("ray",) * bool(importlib.util.find_spec("ray")))
X = torch.randn(96, 5, generator=torch.Generator().manual_seed(0)).numpy()
Y = (X[:, 0] > 0).astype(int)


class Fragile(nn.Linear):
    """Ends its process once, where a file says so that names another."""

    mark = ""  # its path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mark = Path(self.mark)
        if mark.is_file() and mark.read_text() != str(os.getpid()):
            mark.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


def made(folder: Path, engine: str, size: int) -> None:
    """The index, and the answer that it gives."""
    segment.MOST_SAMPLES = size
    torch.manual_seed(0)
    network, half = Fragile(5, 2), len(X) // 2
    network.mark = str(folder.parent / "mark")
    by: Any = Processes(2) if engine == "processes" else engine  # two, on any machine
    index = da.index(network, (X[:half], Y[:half]), folder / "ix", engine=by)
    if len(index) == half:
        index.append((X[half:], Y[half:]), engine=by)
    np.save(folder / "answer.npy", index.query((X[:7] + 0.5, Y[:7]), top=None).effect)


def case(draw: random.Random, folder: Path) -> Case:
    """One index; what it answers is what the index answers that was made in one process."""
    engine, size = draw.choice(ENGINES), draw.choice([8, 16, 24])
    how = draw.choice(["", "worker", "killed"])
    pause = draw.uniform(0.5, 8 if engine == "ray" else 2)
    plain = folder.parent / f"plain-{size}"
    if not (plain / "answer.npy").exists():
        ended = attempt(lambda: made(empty(plain), "in_process", size), folder)
        assert ended.status == 0, ended.err

    def work() -> None:
        if how == "worker":
            (folder.parent / "mark").write_text(str(os.getpid()))
        try:
            made(folder, engine, size)
        except DatassayError as error:
            raise refused(error) from error

    def judge(ended: Attempt) -> str | None:
        if ended.status:  # what is there is continued
            again = attempt(lambda: made(folder, "in_process", size), folder)
            if again.status:
                return f"the next call ended with {again.status}: {again.err[-300:]}"
        same = (np.load(folder / "answer.npy") == np.load(plain / "answer.npy")).all()
        return None if same else f"silent: another answer of {engine}"

    def killed(pid: int) -> None:
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)  # it may have ended, and is not waited for yet

    # Ray begins a piece again elsewhere; joblib says that a worker ended.
    mark = folder.parent / "mark"
    mark.unlink(missing_ok=True)
    must = None if how == "killed" else how == "worker" and engine == "processes"
    return Case(
        f"{engine} {how} {size}", work, judge, frozenset({-signal.SIGKILL}), patience=3.0,
        before=_without_stdout if engine == "ray" else lambda: None,
        during=killed if how == "killed" else lambda pid: None, refused=must,
    )  # fmt: skip


def _without_stdout() -> None:
    """Where Ray says in colours that a worker died."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
