"""An index of 60 000 images or 100 000 texts: built, killed, asked, appended to, compared.

    python bench/index.py --work DIR                      # all cases; half an hour
    python bench/index.py --work DIR --cases cnn

"cnn" (three convolutions with batch norm, 6046 weights) and "lenet" (61 706 weights) learn
Fashion-MNIST in --work first; "texts" is a small GPT. Each is built in a process of its own, built
again by processes that are killed ten times, and asked all 10 000 test images; a tenth is appended
and compared with building anew. What its effects are compared with is `influence` itself, on 400
samples and 100 queries. Settings are the defaults, chosen on the networks of `attribution.py`.
Needs DATASSAY_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from index_cases import CASES, Case
from record import peak_mib, record
from scipy.stats import spearmanr

import datassay as da

KILLS, N_COMPARED, N_QUERIES = 10, 400, 100


def build(case: Case, place: Path) -> dict[str, float]:
    """Build in this process; what it took."""
    before, started = peak_mib(), time.perf_counter()
    da.index(case.model, case.train, place)
    return {"seconds": time.perf_counter() - started, "mib": peak_mib() - before}


def child(args: argparse.Namespace, name: str, place: Path) -> subprocess.Popen:
    """A process that builds."""
    command = [sys.executable, __file__, "--work", args.work, "--cases", name, "--build", place]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def killed(args: argparse.Namespace, name: str, place: Path, seconds: float) -> int:
    """Build by processes killed at times drawn at random; how many were."""
    rng, kills = np.random.default_rng(0), 0
    while kills < KILLS:
        process = child(args, name, place)
        try:
            process.wait(rng.uniform(0.3, 1.0) * (3 + seconds / 3))
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    child(args, name, place).wait()
    return kills


def bits(folder: Path) -> str:
    """SHA-256 over every file of a folder."""
    sha = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        sha.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return sha.hexdigest()


def size(folder: Path) -> int:
    """Bytes of every file of a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def compared(case: Case, place: Path) -> dict[str, float]:
    """Rank correlation with the effects of `influence`, over samples, by query."""
    n = len(case.train)
    positions = np.sort(np.random.default_rng(1).permutation(n)[:N_COMPARED])
    some = case.few(N_QUERIES)
    exact = da.influence(case.model, case.train, some, removed=positions, measure=case.measure)
    ours = da.open_index(place, case.model).query(some, top=len(case.train), measure=case.measure)
    effect = np.empty((n, len(ours.outcome)))
    at = np.arange(len(ours.outcome))[:, None]
    effect[ours.top.raising, at] = ours.top.raising_effect
    each = [
        spearmanr(a, b)[0]
        for a, b in zip(exact.effect.T, effect[positions].T, strict=True)  # pyright: ignore
    ]
    half = 1.96 * np.std(each, ddof=1) / len(each) ** 0.5
    return {"rank_correlation": round(float(np.mean(each)), 4), "half_width": round(half, 4)}


def asked(case: Case, place: Path) -> dict[str, float]:
    """Seconds of all queries together and of one alone, the index open."""
    ix = da.open_index(place, case.model)
    ix.query(case.few(2), measure=case.measure)  # the network is prepared, rows are read
    started = time.perf_counter()
    ix.query(case.queries, measure=case.measure)
    together = time.perf_counter() - started
    one = []
    for _ in range(10):
        started = time.perf_counter()
        ix.query(case.few(1), measure=case.measure)
        one.append(time.perf_counter() - started)
    m = len(case.queries)
    return {
        "queries": m,
        "queries_seconds": round(together, 2),
        "ms_a_query": round(1000 * together / m, 3),
        "ms_one_alone": round(1000 * float(np.median(one)), 1),
    }


def appended(case: Case, folder: Path, anew: float) -> dict[str, float]:
    """A tenth appended at once, and in two goes; against building anew."""
    n = len(case.train)
    first, second = case.part(0, n - n // 10), case.part(n - n // 10, n)
    da.index(case.model, first, folder / "once")
    shutil.copytree(folder / "once", folder / "twice")
    ix = da.open_index(folder / "once", case.model)
    ix.query(case.few(1), measure=case.measure)
    started = time.perf_counter()
    ix.append(second)
    seconds = time.perf_counter() - started
    other = da.open_index(folder / "twice", case.model)
    other.append(case.part(n - n // 10, n - n // 20)).append(case.part(n - n // 20, n))
    a, b = (i.query(case.few(50), top=n, measure=case.measure) for i in (ix, other))
    apart = np.abs(np.sort(a.top.raising_effect) - np.sort(b.top.raising_effect)).max()
    return {
        "append_seconds": round(seconds, 2),
        "anew_over_append": round(anew / seconds, 1),
        "append_apart": float(apart / np.abs(a.top.raising_effect).max()),
    }


def measured(name: str, args: argparse.Namespace) -> None:
    """All of one case."""
    case = CASES[name](args.work)
    folder = args.work / f"index_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    process = child(args, name, folder / "once")
    seconds, mib = (float(v) for v in process.communicate()[0].split()[-2:])
    ix = da.open_index(folder / "once", case.model)
    figures: dict[str, object] = {
        "n": len(ix),
        "parameters": sum(p.numel() for p in case.model.parameters()),
        "build_seconds": round(seconds, 1),
        "build_mib": round(mib),
        "width": ix.width,
        "share": round(ix.share, 4),
        "bytes_a_sample": round(ix.bytes_per_sample),
        "bytes_on_disk": size(folder / "once"),
        "own_rank_correlation": ix.rank_correlation,
    }
    figures |= compared(case, folder / "once") | asked(case, folder / "once")
    if case.kill:
        kills = killed(args, name, folder / "often", seconds)
        figures |= {"kills": kills, "same": bits(folder / "once") == bits(folder / "often")}
    figures |= appended(case, folder / "more", seconds)
    record(f"index/{name}", **figures, peak_mib=peak_mib())


def main() -> None:
    """Measure the cases named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore
    parser.add_argument("--work", type=Path, required=True, help="where things are kept")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.build:
        took = build(CASES[args.cases[0]](args.work), args.build)
        print(took["seconds"], took["mib"])
        return
    for name in args.cases:
        measured(name, args)


if __name__ == "__main__":
    main()
