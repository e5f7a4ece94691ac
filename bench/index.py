"""An index of 60 000 images or 100 000 texts: built, killed, asked, appended to, compared.

    python bench/index.py --work DIR                      # all cases; an hour
    python bench/index.py --work DIR --cases cnn

"cnn" (three convolutions with batch norm, 6046 weights) and "lenet" (61 706 weights) learn
Fashion-MNIST in --work first; "texts" is a small GPT. Each is built in a process of its own and
asked 10 000 queries; "cnn" is also built by processes that are killed ten times, and a tenth is
appended to it. Its effects are compared with those of all coordinates: `rank_correlation` of the
index itself, 64 queries and 256 samples. "lds" asks an index of the networks of `attribution.py`
(in the same --work) how well it predicts retraining, beside `influence`. Settings are the defaults,
chosen on those networks. Needs DATASSAY_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from attribution_cases import cell, lds
from index_cases import CASES, Case
from record import peak_mib, record

import datassay as da
from datassay.score import index_plan

KILLS = 10
LDS = ("mlp", "cnn", "bert", "gpt")


def build(case: Case, place: Path) -> dict[str, object]:
    """Build in this process; what it took."""
    plan = index_plan(case.model, case.train)
    before, used = peak_mib(), time.process_time()
    started = last = time.perf_counter()
    stages: dict[str, float] = {}

    def note(step: str, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        stages[step] = stages.get(step, 0.0) + now - last
        last = now

    da.index(case.model, case.train, place, progress=note)
    seconds = time.perf_counter() - started
    return {
        "build_seconds": round(seconds, 1),
        "planned_seconds": round(plan.seconds, 1),
        "build_processor_seconds": round(time.process_time() - used, 1),
        "build_mib": round(peak_mib() - before),
        "planned_bytes": round(plan.row_bytes + plan.curvature_bytes),
        "planned_query_seconds": round(plan.query_seconds(len(case.queries)), 1),
        "stages": {step: round(v, 2) for step, v in stages.items()},
    }


def child(args: argparse.Namespace, name: str, place: Path) -> subprocess.Popen:
    """A process that builds."""
    command = [sys.executable, __file__, "--work", args.work, "--cases", name, "--build", place]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def killed(args: argparse.Namespace, name: str, place: Path) -> int:
    """Build by processes killed at times drawn at random; how many were."""
    rng, kills = np.random.default_rng(0), 0
    while kills < KILLS:
        process = child(args, name, place)
        try:
            process.wait(rng.uniform(6, 20))
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


def asked(case: Case, place: Path) -> dict[str, float]:
    """Seconds of all queries together and of one alone, the index open."""
    ix = da.open_index(place, case.model)
    ix.query(case.few(2), measure=case.measure)  # the network is prepared, rows are read
    started, used = time.perf_counter(), time.process_time()
    ix.query(case.queries, measure=case.measure)
    together = time.perf_counter() - started
    processor = time.process_time() - used
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
        "processor_ms_a_query": round(1000 * processor / m, 3),
        "ms_one_alone": round(1000 * float(np.median(one)), 1),
    }


def appended(case: Case, work: Path, anew: float) -> dict[str, float]:
    """A tenth appended at once, and in two goes; processor time against building anew."""
    n, folder = len(case.train), work / "more"
    shutil.rmtree(folder, ignore_errors=True)
    first, second = case.part(0, n - n // 10), case.part(n - n // 10, n)
    da.index(case.model, first, folder / "once")
    shutil.copytree(folder / "once", folder / "twice")
    ix = da.open_index(folder / "once", case.model)
    ix.query(case.few(1), measure=case.measure)
    started = time.process_time()
    ix.append(second)
    seconds = time.process_time() - started
    other = da.open_index(folder / "twice", case.model)
    other.append(case.part(n - n // 10, n - n // 20)).append(case.part(n - n // 20, n))
    a, b = (i.query(case.few(50), top=n, measure=case.measure) for i in (ix, other))
    apart = np.abs(np.sort(a.top.raising_effect) - np.sort(b.top.raising_effect)).max()
    return {
        "append_processor_seconds": round(seconds, 2),
        "anew_over_append": round(anew / seconds, 1),
        "append_apart": float(apart / np.abs(a.top.raising_effect).max()),
    }


def measured(name: str, args: argparse.Namespace) -> None:
    """All of one case."""
    case = CASES[name](args.work)
    folder = args.work / f"index_{name}"
    if not args.again:
        shutil.rmtree(folder, ignore_errors=True)
        took = json.loads(child(args, name, folder / "once").communicate()[0].splitlines()[-1])
        (folder / "took.json").write_text(json.dumps(took))
    took = json.loads((folder / "took.json").read_text())
    ix = da.open_index(folder / "once", case.model)
    figures: dict[str, object] = {
        "n": len(ix),
        "parameters": sum(p.numel() for p in case.model.parameters()),
        **took,
        "width": ix.width,
        "share": round(ix.share, 4),
        "bytes_a_sample": round(ix.bytes_per_sample),
        "bytes_on_disk": size(folder / "once"),
        "rank_correlation": ix.rank_correlation,
    }
    figures |= asked(case, folder / "once")
    record(f"index/{name}", **figures, peak_mib=peak_mib())
    if case.kill and not args.again:
        shutil.rmtree(folder / "often", ignore_errors=True)
        kills = killed(args, name, folder / "often")
        same = bits(folder / "once") == bits(folder / "often")
        record(f"index/{name}, killed", n=len(ix), kills=kills, same_bits=same)
        record(f"index/{name}, append", **appended(case, folder, took["build_processor_seconds"]))


def predicts(name: str, args: argparse.Namespace) -> None:
    """Linear datamodelling score of an index and of `influence`, one network."""
    found = cell(name, args.work, 1)
    train, queries = found.task.given("train"), found.task.given("queries")
    truth, scores = found.truth.mean(0), {}
    for width in (512, 2048):
        shutil.rmtree(args.work / "index_lds", ignore_errors=True)
        ix = da.index(found.models[0], train, args.work / "index_lds", width=width)
        effect = ix.query(queries, top=None, measure=found.task.measure).effect
        scores[f"width_{width}"] = {
            "lds": round(lds(effect, found.halves, truth), 4),  # pyright: ignore[reportArgumentType]
            "rank_correlation": round((ix.rank_correlation or {})["mean"], 3),
        }
    whole = da.influence(found.models[0], train, queries, measure=found.task.measure).effect
    scores["influence"] = {"lds": round(lds(whole, found.halves, truth), 4)}  # pyright: ignore[reportArgumentType]
    record(f"index/lds, {name}", **scores)


def main() -> None:
    """Measure the cases named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore
    parser.add_argument("--work", type=Path, required=True, help="where things are kept")
    parser.add_argument("--cases", nargs="+", default=[*CASES, "lds"])
    parser.add_argument("--again", action="store_true", help="only ask what is built")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.build:
        print(json.dumps(build(CASES[args.cases[0]](args.work), args.build)))
        return
    for name in args.cases:
        if name.startswith("lds"):
            for one in LDS if name == "lds" else (name.removeprefix("lds_"),):
                predicts(one, args)
        else:
            measured(name, args)


if __name__ == "__main__":
    main()
