"""An index that was damaged, or is opened with another network, loss or version."""

import random
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

import datassay as da
from helpers.attack.attempt import attempt
from helpers.attack.case import Case, compared, damaged, empty

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).numpy()
Y = (X[:, 0] > 0).astype(int)
NEW = (X[:5] + 0.5, Y[:5])


@cache
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def case(draw: random.Random, folder: Path) -> Case:
    """The same answer from all of its parts, or one line."""
    made = folder.parent / "made"
    if not (made / "wanted.npy").exists():
        ended = attempt(lambda: _make(made), empty(made))
        assert ended.status == 0, ended.err
    shutil.copytree(made / "ix", folder / "ix")
    how = draw.choice(["flip", "flip", "gone", "folder", "swap", "weights", "loss", "class", ""])
    name = _changed(draw, folder / "ix", how)
    wanted = np.load(made / "wanted.npy")

    def work() -> str | None:
        model, settings = network(), {}
        if how == "weights":
            model.weight.data += 1e-3
        if how == "class":
            model = nn.Linear(4, 3)
        if how == "loss":
            settings = {"loss": lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1])}
        effect = da.open_index(folder / "ix", model, **settings).query(NEW, top=None).effect
        return None if np.array_equal(effect, wanted) else "silent: another answer"

    must = {"": False, "swap": True, "weights": True, "class": True, "loss": True}
    return compared(f"{how} {name}", work, folder, must.get(how))


def _changed(draw: random.Random, index: Path, how: str) -> str:
    file = draw.choice(sorted(f for f in index.rglob("*") if f.is_file()))
    if how == "flip":
        file.write_bytes(damaged(draw, file.read_bytes())[1])
    elif how == "gone":
        file.unlink()
    elif how == "folder":
        shutil.rmtree(draw.choice(sorted(f for f in index.rglob("*") if f.is_dir())))
    elif how == "swap":
        one, other = draw.sample(sorted(index.glob("rows-*")), 2)
        one.rename(index / "aside"), other.rename(one), (index / "aside").rename(other)
    return str(file.relative_to(index))


def _make(folder: Path) -> None:
    index = da.index(network(), (X, Y), folder / "ix")
    index.append((X[:20] + 1, Y[:20])).append((X[:20] - 1, Y[:20]))
    np.save(folder / "wanted.npy", index.query(NEW, top=None).effect)
