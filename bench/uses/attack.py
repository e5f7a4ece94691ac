"""The attack: hostile files, options, networks, stores, ...: cases drawn by a seed.

    python -m bench uses/attack --set n=1000 --seed 3 --work DIR     # the same again goes on
    python -m bench uses/attack --cases tables --set n=20 --seed 5   # minutes

Every case runs in a forked process. It fails where a user's file is changed, a score differs
without a word, a traceback is shown, or nothing ends within a minute. Failures go to the terminal
and to cases.jsonl in --work; one of a line there is drawn again by `--cases KIND --seed SEED --set
only=NUMBER`. What all seeds in one --work drew is recorded. "store files" damages 20 000 files of
stores in process, "writers" lets four processes make one new store at once, 50 times. tests/attack
runs a part.
"""

import importlib
import json
import os
import pkgutil
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

# Before torch is imported: children are forked, and threads do not survive that.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

from bench.frame import HERE, Case, Options, Row, Task
from bench.record import append, read

import datassay

sys.path.insert(0, str(HERE.parent / "tests"))

# Kind → its share of all cases.
KINDS = {
    "tables": 0.22, "servers": 0.09, "options": 0.04, "networks": 0.03, "payloads": 0.02,
    "explain": 0.03,
}  # fmt: skip
# Packages that a child would otherwise import anew in each case.
HEAVY = ("torch._dynamo", "torch.func", "sklearn.linear_model", "sklearn.neighbors",
         "sklearn.feature_extraction.text", "plotly.offline", "plotly.graph_objects", "jinja2",
         "scipy.stats", "zarr", "pyarrow.csv", "pyarrow.parquet", "PIL.Image")  # fmt: skip
OPTIONAL = ("ray", "skorch", "transformers", "__main__")


def import_everything() -> None:
    """All of datassay that needs no optional package, and what it imports late."""
    for name in HEAVY:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(datassay.__path__, "datassay."):
        if not any(word in module.name for word in OPTIONAL):
            importlib.import_module(module.name)


def attacked(kinds: dict[str, float], options: Options) -> Iterator[tuple[str, dict]]:
    """Draw and run what is missing; a line of the counts."""
    import_everything()
    log, ran, share = options.work / "cases.jsonl", [], sum(kinds.values())
    earlier = {(x["kind"], x["seed"], x["number"]): x for x in read(log)}
    only = options.value("only", -1)
    for kind, part in kinds.items():
        number = round(options.value("n", 130) * part / share)
        for k in range(number) if only < 0 else [only]:
            line = earlier.get((kind, options.seed, k))
            if line is None:
                line = one(kind, k, options)
                append(log, line)
            ran.append(line)
    failed = Counter(line["wrong"].split(":")[0] for line in ran if line["wrong"])
    print(f"{len(ran)} cases, {failed.total()} failed {dict(failed)}", flush=True)
    every = read(log)  # of other seeds too
    seconds = [line["seconds"] for line in every]
    wrong = Counter(line["wrong"].split(":")[0] for line in every if line["wrong"])
    yield "attack", {
        "seeds": sorted({line["seed"] for line in every}), "cases": len(every), "failed":
        dict(wrong), "kinds": dict(Counter(line["kind"] for line in every)),
        "seconds": sum(seconds), "slowest": max(seconds),
    }  # fmt: skip
    if failed:
        raise RuntimeError(f"{failed.total()} cases failed")


def one(kind: str, number: int, options: Options) -> dict:
    from helpers.attack.attempt import LIMIT
    from helpers.attack.case import empty, tried

    draw = importlib.import_module(f"helpers.attack.{kind}").case
    folder = empty(options.work / kind / "case")
    case = draw(random.Random(f"{kind} {options.seed} {number}"), folder)
    ended, wrong = tried(case, folder, options.value("limit", float(LIMIT)))
    if wrong:
        print(f"{kind} {number}: {case.name}: {wrong}\n    {ended.err[-600:]!r}", flush=True)
    line = {"kind": kind, "seed": options.seed, "number": number, "case": case.name}
    return line | {"wrong": wrong, "status": ended.status, "seconds": round(ended.seconds, 2)}


def damaged(options: Options) -> Iterator[tuple[str, dict]]:
    """Flip, cut, swap and delete files of two stores; how often that read otherwise, unsaid."""
    from helpers import damaged_stores
    from helpers.attack.case import empty

    n = options.value("n", 20_000)
    outcome = damaged_stores.attack(empty(options.work / "damaged"), n, options.seed)
    print(*outcome.failures, sep="\n", flush=True)
    counts = {"damages": n, "failed": len(outcome.failures), "ended": dict(outcome.counts)}
    yield "attack/stores", {"seed": options.seed, **counts}


def written_at_once(options: Options) -> Iterator[tuple[str, dict]]:
    """Let four processes make one new store at once, so many times."""
    from helpers import concurrent_stores
    from helpers.attack.case import empty

    rounds = options.value("n", 50)
    script = [concurrent_stores.__file__, str(empty(options.work / "writers")), str(rounds)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, *script], env=os.environ | path, capture_output=True, check=True, text=True
    )
    counts = json.loads(ended.stdout)
    failed = sum(n for what, n in counts.items() if what not in {"right bits", "one line"})
    yield "attack/writers", {"rounds": rounds, "failed": failed, "ended": counts}


def rows(lines: dict[str, dict]) -> Row:
    attack, damage, writers = (
        lines[name] for name in ("attack", "attack/stores", "attack/writers")
    )
    # As recorded; files, disks and texts are since tried where they are tested.
    return Row(
        f"{attack['cases']} hostile files, options, networks, stores, texts, disks, pages; "
        f"{damage['damages']} damages to stores; {writers['rounds']} rounds of 4 first runs on "
        "one store: data lost, other scores without a word, tracebacks or hangs",
        f"{sum(attack['failed'].values())}; {damage['failed']}; {writers['failed']}",
    )


TASK = Task(
    measure="hostile cases that fail",
    cases={
        "all kinds": Case(partial(attacked, KINDS)),
        **{kind: Case(partial(attacked, {kind: 1.0})) for kind in KINDS},
        "store files": Case(damaged),
        "writers": Case(written_at_once),
    },
    rows=rows,
)
