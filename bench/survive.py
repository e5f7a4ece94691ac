"""`datassay run --store`, killed at random moments until it is done, and damaged in every way.

One process imports everything and forks; a child runs the real command line and is ended by
SIGKILL. "Same bits" compares the scores, the attribution and the summary's figures with those of a
run that nobody disturbed. Damage is done to a finished store; the same command then either tells
the chunk by its number and mends it to the same bits, or refuses and names the difference.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow.parquet as pq
import torch
import torch._dynamo  # noqa: F401  (what torch.func imports in its first call)
import zarr  # noqa: F401
from record import record

from datassay.collect import choose_form
from datassay.commands import app, run, write_results  # noqa: F401  (a child starts where work does)

TABLES = ("scores.parquet", "attribution.parquet")
CHANGING = ("seconds", "command", "store", "date")


def command(folder: Path, *more: str) -> list[str]:
    """The run; its chunks are made small, so that there are many to lose."""
    options = ["--model", "mlp:width=64", "--projection", "100", "--outputs", "joint"]
    options += ["--curve-seeds", "1", "--noise", "0.1", "--top", "3"]
    return ["run", "breast_cancer", *options, "--out", str(folder / "report"), *more]


def child(arguments: list[str], told: Path) -> int:
    """Fork, run the command, and give the child's process id; what it prints goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with told.open("w") as out, redirect_stdout(io.StringIO()), redirect_stderr(out):
            os.dup2(out.fileno(), 2)
            code = app(arguments, standalone_mode=False) or 0
    except BaseException as error:  # noqa: BLE001  (typer leaves through exceptions)
        code = getattr(error, "exit_code", 1)
        with told.open("a") as out:
            out.write(f"\n{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def finish(arguments: list[str], told: Path) -> tuple[int, float]:
    """Exit status and seconds of one run that is left alone."""
    start = time.perf_counter()
    status = os.waitpid(child(arguments, told), 0)[1]
    return os.waitstatus_to_exitcode(status), time.perf_counter() - start


def result(folder: Path) -> dict[str, object]:
    """All numbers that a run wrote."""
    found = {name: pq.read_table(folder / "report" / name).to_pydict() for name in TABLES}
    summary = json.loads((folder / "report" / "summary.json").read_text())
    return found | {"summary": _kept(summary)}


def _kept(values: object) -> object:
    if isinstance(values, dict):
        return {k: _kept(v) for k, v in values.items() if k.lower() not in CHANGING}
    return [_kept(v) for v in values] if isinstance(values, list) else values


def chunks_done(store: Path) -> int:
    return sum(f.is_file() for f in (store / "features" / "digests").glob("c/**/*"))


def pieces(store: Path) -> int:
    """Chunks and retrainings that are kept."""
    return chunks_done(store) + len(list(store.glob("retrained/*.npz")))


def moment(pid: int, store: Path, seconds: float, draw: random.Random) -> int | None:
    """Wait for a random moment of a run; its status if it ended before.

    A third of the moments lie in the first tenth of a run. The others come after one more piece of
    work was kept, mostly at once, or within the first quarter where none is: kills would otherwise
    hit nothing but the start, which every attempt repeats.
    """
    early, before, start = draw.random() < 1 / 3, pieces(store), time.perf_counter()
    end = start + draw.random() * seconds / 10 if early else None
    latest = start + draw.random() * seconds / 4
    while end is None or time.perf_counter() < end:
        if end is None and (pieces(store) > before or time.perf_counter() > latest):
            end = time.perf_counter() + draw.random() ** 4 * seconds / 40
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def kills(folder: Path, seconds: float, least: int, seed: int) -> dict[str, object]:
    """Kill at random moments at least so often, then leave the run alone; how often, and where."""
    draw, store, kept = random.Random(seed), folder / "store", []
    arguments = command(folder, "--store", str(store))
    status = None
    while len(kept) < least and status is None:
        pid = child(arguments, folder / "told.txt")
        status = moment(pid, store, seconds, draw)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            kept.append(pieces(store))
    if status is None:
        status, _ = finish(arguments, folder / "told.txt")
    return {"kills": len(kept), "status": status, "pieces_kept_at_kill": kept}


def chunk(store: Path, array: str, number: int) -> Path:
    (found,) = (
        f for f in (store / "features" / array / "c" / str(number)).rglob("*") if f.is_file()
    )
    return found


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def swap(one: Path, other: Path) -> None:
    content = one.read_bytes()
    shutil.copy(other, one)
    other.write_bytes(content)


FEATURES, OUTPUTS = "train_jacobian.projected", "train_outputs"


def damages(other: Path) -> dict[str, tuple]:
    """Name → (what is done to the store, options of the next run, what it must tell)."""
    mended = "1 damaged; 2: "

    def cut(store: Path) -> None:
        file = chunk(store, FEATURES, 2)
        file.write_bytes(file.read_bytes()[:1000])

    def foreign(store: Path) -> None:
        for array in (FEATURES, OUTPUTS, "digests"):
            shutil.copy(chunk(other, array, 2), chunk(store, array, 2))

    def manifest(store: Path) -> None:
        file = store / "features" / "zarr.json"
        file.write_text(file.read_text()[:-50])

    def piece(store: Path) -> None:
        file = min(store.glob("retrained/scores-*.npz"))
        file.write_bytes(file.read_bytes()[:100])

    def nothing(store: Path) -> None:
        pass

    tell_metadata = f"the metadata of {FEATURES} were missing or damaged"
    metadata = Path("features") / FEATURES / "zarr.json"
    return {
        "flipped byte, features": (lambda s: flip(chunk(s, FEATURES, 2)), [], mended),
        "flipped byte, outputs": (lambda s: flip(chunk(s, OUTPUTS, 2)), [], mended),
        "truncated chunk": (cut, [], mended),
        "empty chunk": (lambda s: chunk(s, FEATURES, 2).write_bytes(b""), [], mended),
        "deleted chunk": (lambda s: chunk(s, FEATURES, 2).unlink(), [], mended),
        "chunk of another run": (foreign, [], mended),
        "swapped chunks": (
            lambda s: swap(chunk(s, FEATURES, 2), chunk(s, FEATURES, 3)),
            [],
            "2 damaged; 2: ",
        ),
        "deleted metadata": (lambda s: (s / metadata).unlink(), [], tell_metadata),
        "corrupted metadata": (lambda s: (s / metadata).write_text("{"), [], tell_metadata),
        "corrupted manifest": (manifest, [], "zarr.json is damaged"),
        "truncated retrained scores": (piece, [], "is damaged"),
        "other weights": (nothing, ["--model", "mlp:width=65"], "differs in: model, "),
        "other data": (nothing, ["--noise", "0.2"], "differs in: training samples."),
        "other seed": (nothing, ["--seed", "1"], "seed (0 there, 1 here)"),
        "other projection": (
            nothing,
            ["--projection", "50"],
            "projection (100 there, 50 here)",
        ),
    }


def damaged(folder: Path, whole: Path, name: str, case: tuple, calm: dict) -> dict[str, object]:
    """One damage: what was told, and whether the bits are the same or the run was refused."""
    act, options, must_tell = case
    store = shutil.copytree(whole, folder / "store")
    act(store)
    status, _ = finish(command(folder, "--store", str(store), *options), folder / "told.txt")
    told = " ".join((folder / "told.txt").read_text().split())
    same = status == 0 and result(folder) == calm
    shutil.rmtree(store)
    shutil.rmtree(folder / "report", ignore_errors=True)
    outcome = "mended" if same else "refused" if status == 2 else "WRONG"
    return {"damage": name, "outcome": outcome, "told": must_tell in told}


def full_disk(folder: Path, megabytes: int, calm: dict) -> list[dict[str, object]]:
    """A file system of its own that fills, then grows; then one that is only to be read."""
    disk = folder / "disk"
    disk.mkdir()
    tmpfs = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)]
    if subprocess.run(tmpfs, check=False, capture_output=True).returncode:
        return [{"damage": "full disk", "outcome": "NOT TESTED: mounting is not allowed"}]
    arguments = command(folder, "--store", str(disk / "store"))
    try:
        found = [_told(folder, arguments, "full disk", "No space left on device")]
        kept = chunks_done(disk / "store")
        _remount(disk, "ro")
        found.append(_told(folder, arguments, "read-only folder", "Read-only file system"))
        _remount(disk, f"rw,size={20 * megabytes}m")
        status, _ = finish(arguments, folder / "told.txt")
        same = status == 0 and result(folder) == calm
        found[0] |= {"chunks_kept": kept, "then": "same bits" if same else "WRONG"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    return found


def _remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def _told(folder: Path, arguments: list[str], name: str, must_tell: str) -> dict[str, object]:
    status, _ = finish(arguments, folder / "told.txt")
    told = " ".join((folder / "told.txt").read_text().split())
    outcome = "refused" if status == 2 else "WRONG"
    return {"damage": name, "outcome": outcome, "told": must_tell in told}


def undisturbed(folder: Path) -> tuple[dict, dict[str, float]]:
    """What a run without a store gives, and the seconds without, with, and with all found."""
    seconds = {}
    with_store = command(folder, "--store", str(folder / "store"))
    ways = {"without store": command(folder), "with": with_store, "all found": with_store}
    expected: dict = {}
    for name, arguments in ways.items():
        status, seconds[name] = finish(arguments, folder / "told.txt")
        expected = expected or result(folder)
        assert status == 0 and result(folder) == expected, name
    return expected, seconds


def all_kills(root: Path, least: int, seed: int) -> None:
    calm, killed = folders(root, "calm", "killed")
    expected, seconds = undisturbed(calm)
    survived = kills(killed, seconds["with"], least, seed)
    same, store = result(killed) == expected, calm / "store"
    sizes = {"pieces": pieces(store), "chunks": chunks_done(store)}
    record("survive/kills", **survived, same_bits=same, **sizes, seconds=seconds)
    assert same and survived["kills"] >= least


def all_damages(root: Path) -> None:
    calm, other, hurt = folders(root, "calm", "other", "damaged")
    expected, _ = undisturbed(calm)
    other_run = command(other, "--store", str(other / "store"), "--seed", "1")
    finish(other_run, other / "told.txt")
    cases = damages(other / "store")
    found = [damaged(hurt, calm / "store", name, case, expected) for name, case in cases.items()]
    found += full_disk(hurt, 1, expected)
    reported = [f for f in found if f.get("told") and f["outcome"] in {"mended", "refused"}]
    record("survive/damage", kinds=len(found), reported=len(reported), cases=found)
    assert len(reported) == len(found), [f for f in found if f not in reported]


def folders(root: Path, *names: str) -> list[Path]:
    for name in names:
        (root / name).mkdir()
    return [root / name for name in names]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=25)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=["kills", "damage"])
    given = options.parse_args()
    choose_form.WORKING_BYTES = 2**18
    torch.set_num_threads(1)
    if given.only != "damage":
        with tempfile.TemporaryDirectory() as root:
            all_kills(Path(root), given.kills, given.seed)
    if given.only != "kills":
        with tempfile.TemporaryDirectory() as root:
            all_damages(Path(root))


if __name__ == "__main__":
    sys.exit(main())
