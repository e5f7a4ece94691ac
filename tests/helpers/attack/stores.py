"""Stores that were damaged, mixed up or planted: the same scores again, or one line."""

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from helpers.attack.attempt import Attempt, attempt, command
from helpers.attack.case import Case, damaged, empty

PLAIN = [
    *("run", "iris", "--model", "mlp:width=8", "--projection", "20", "--outputs", "joint"),
    *("--curve-seeds", "1", "--noise", "0.1"),
]


def case(draw: random.Random, folder: Path) -> Case:
    """A run whose store was finished, and then damaged."""
    stored = _finished(folder.parent / "finished")
    shutil.copytree(stored / "store", folder / "store", symlinks=True)
    victim = folder / "mine.txt"
    victim.write_text("a file of the user")
    files = sorted(f for f in (folder / "store").rglob("*") if f.is_file())
    damage = draw.choice([*[_damaged] * 8, _empty, _remove, _swap, *PLANTS])
    file = draw.choice(files)
    damage(draw, folder, file)
    arguments = [*PLAIN, "--store", "store"]
    if draw.random() < 0.1:
        arguments[3] = "mlp:width=9"

    def judge(ended: Attempt) -> str | None:
        if victim.read_text() != "a file of the user":
            return "lost: a file of the user"
        if arguments[3] != PLAIN[3]:
            return None if ended.status == 2 else "a store of another model was taken"
        return None if ended.status else different(stored / "report", folder / "report")

    name = f"{damage.__name__.strip('_')} {file.relative_to(folder)}"
    return Case(name, command(arguments), judge)


def different(one: Path, other: Path) -> str | None:
    """The first table or figure in which two folders of results differ; None: the same bits."""
    if unlike := different_tables(one, other):
        return unlike
    a, b = (_figures(json.loads((f / "summary.json").read_text())) for f in (one, other))
    return None if a == b else "silent: summary.json differs"


def different_tables(one: Path, other: Path) -> str | None:
    """The first table in which two folders of results differ."""
    for file in sorted(one.glob("*.parquet")):
        if not (other / file.name).exists():
            return f"lost: {file.name}"
        a, b = (pq.read_table(folder / file.name) for folder in (one, other))
        if repr(a.to_pydict()) != repr(b.to_pydict()):
            return f"silent: {file.name} differs"
    return None


def _figures(values: object) -> object:
    if isinstance(values, dict):
        return {k: _figures(v) for k, v in values.items() if k.lower() not in CHANGING}
    return [_figures(v) for v in values] if isinstance(values, list) else values


CHANGING = ("seconds", "command", "store", "date")


def _finished(folder: Path) -> Path:
    """A finished run of `PLAIN`, made once."""
    if not (folder / "report" / "index.html").exists():
        ended = attempt(command([*PLAIN, "--store", "store"]), empty(folder))
        assert ended.status == 0, ended.err
    return folder


def _damaged(draw, folder, file):
    file.write_bytes(damaged(draw, file.read_bytes())[1])


def _empty(draw, folder, file):
    file.write_bytes(b"")


def _remove(draw, folder, file):
    file.unlink()


def _swap(draw, folder, file):
    others = [f for f in file.parent.rglob("*") if f.is_file()]
    others += [f for f in (folder / "store").rglob(file.name) if f.is_file()]
    other = draw.choice(others)
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _remove_folder(draw, folder, file):
    shutil.rmtree(file.parent)


def _link(draw, folder, file):
    """The file is a link to one of the user's."""
    file.unlink()
    file.symlink_to(folder / "mine.txt")


def _planted_part(draw, folder, file):
    """A partial file whose name can be guessed is a link to one of the user's."""
    for name in (f".{file.name}.part", f"{file.name}.part", f".{file.name}.partial"):
        (file.parent / name).symlink_to(folder / "mine.txt")
    file.unlink()


def _foreign(draw, folder, file):
    """A file that is not ours, where ours are."""
    (file.parent / draw.choice(["notes.txt", "x.partial", "x.part", "zarr.json.bak"])).touch()


def _other_json(draw, folder, file):
    texts = ["[]", "null", "1", '""', "{}", "[" * 100_000, '{"run": NaN}', '{"a": 1, "a": 2}']
    texts += ["\xff"]
    file = draw.choice(sorted((folder / "store").rglob("*.json")))
    file.write_bytes(draw.choice(texts).encode("latin-1"))


def _as_folder(draw, folder, file):
    file.unlink()
    file.mkdir()


def _as_pipe(draw, folder, file):
    file.unlink()
    os.mkfifo(file)


def _not_readable(draw, folder, file):
    file.unlink()
    file.symlink_to(draw.choice(["/dev/zero", "nowhere", "/proc/self/mem"]))


PLANTS = (
    *(_remove_folder, _link, _planted_part, _foreign, _other_json, _as_folder, _as_pipe),
    _not_readable,
)
