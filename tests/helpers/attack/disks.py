"""Full disks, closed streams, folders of other users, and files that are not ours."""

import ctypes
import os
import random
import resource
import signal
from pathlib import Path

from helpers.attack.attempt import Attempt, command, executed
from helpers.attack.case import Case, contents, lost, table, write_csv

RESULTS = {
    "score": ["index.html", "scores.parquet", "summary.json"],
    "partition": ["index.html", "summary.json"],
    "polynomial": ["index.html", "summary.json"],
}
PLAIN = {
    "score": ["score", "data.csv", "--model", "linear"],
    "partition": ["partition", "data.csv"],
    "polynomial": ["polynomial", "data.csv"],
}


def case(draw: random.Random, folder: Path) -> Case:
    """A command where writing is hard; the user's files stay as they are."""
    write_csv(folder / "data.csv", table(draw))
    name = draw.choice(["score", "score", "partition", "polynomial"])
    kind = draw.choice([_full, _full, _stream, _stream, _other_user, _not_ours, _not_ours, _inputs])
    arguments = [*PLAIN[name], "--out", "out"]
    before, predicted = kind(draw, folder, name, arguments)
    mine = contents(folder)

    def judge(ended: Attempt) -> str | None:
        if removed := lost(mine, folder):
            return removed
        new = [f for f in contents(folder) if f not in mine]
        whole = (folder / arguments[-1] / "index.html").exists()
        if ended.status and not whole and any(not f.startswith("store") for f in new):
            return f"half: {new[0]}"
        if not ended.status and not whole:
            return "lost: no results, and status 0"
        return None

    statuses = frozenset({1, 120, -signal.SIGPIPE}) if kind is _stream else frozenset()
    work = executed(arguments) if kind is _stream else command(arguments)
    return Case(f"{name} {predicted}", work, judge, statuses, before=before)


def _full(draw, folder, name, arguments):
    limit = draw.choice([0, 100, 10_000, 1_000_000, 3_000_000])
    store = name == "score" and draw.random() < 0.5
    if store:
        arguments[2:2] = ["--store", "store"]

    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return before, f"with files of at most {limit} bytes{' and a store' * store}"


def _stream(draw, folder, name, arguments):
    number, how = draw.choice([1, 2]), draw.choice(["full", "closed", "broken", "ascii"])

    def before() -> None:
        if how == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), number)
        elif how == "closed":
            os.close(number)
        elif how == "broken":
            reader, writer = os.pipe()
            os.dup2(writer, number)
            os.close(reader)
        else:
            os.environ["PYTHONIOENCODING"] = "ascii"

    return before, f"stream {number} {how}"


def _other_user(draw, folder, name, arguments):
    out = folder / "out"
    out.mkdir()
    which = draw.choice(["out", "data", "folder"])
    if which == "folder":
        out.rmdir()
    os.chmod(
        {"out": out, "data": folder / "data.csv", "folder": folder}[which],
        0o555 if which != "data" else 0,
    )
    return _obey_permissions, f"as another user, {which} not theirs"


def _obey_permissions() -> None:
    """Root reads and writes what it likes, but for these two capabilities."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    libc.capget(head, sets)
    for override in (1, 2):
        sets[0] &= ~(1 << override)
    libc.capset(head, sets)


def _not_ours(draw, folder, name, arguments):
    (folder / "out").mkdir()
    file = folder / "out" / draw.choice(RESULTS[name])
    how = draw.choice(["text", "empty", "link", "folder", "dangling"])
    if how in {"text", "empty"}:
        file.write_text("mine" * (how == "text"))
    elif how == "link":
        (folder / "mine.txt").write_text("mine")
        file.symlink_to(folder / "mine.txt")
    elif how == "folder":
        file.mkdir()
        (file / "mine.txt").write_text("mine")
    else:
        file.symlink_to("nowhere")
    return (lambda: None), f"with a {how} in the place of {file.name}"


def _inputs(draw, folder, name, arguments):
    """The user's table has the name of a result, and lies where the results would go."""
    (folder / "out").mkdir()
    path = (
        folder / "out" / draw.choice(["scores.parquet", "summary.json", "index.html", "data.csv"])
    )
    (folder / "data.csv").rename(path)
    if path.suffix == ".parquet":
        import pyarrow.csv
        import pyarrow.parquet as pq

        pq.write_table(pyarrow.csv.read_csv(path), path)
    how = draw.choice(["out", "./out/../out", str(folder / "out")])
    arguments[1] = os.path.join(how, path.name)
    return (lambda: None), f"reading {path.name} from the folder of the results"
