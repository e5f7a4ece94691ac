"""The attack: hostile files, options, networks, stores, ...: cases drawn by a seed.

    python bench/attack.py --cases 1300 --seed 3 --work attack    # hours; the same again goes on
    python bench/attack.py --kinds tables --cases 20 --seed 5     # minutes
    python bench/attack.py --cases 0 --damages 20000 --rounds 50  # stores alone

Every case runs in a forked process. It fails where a user's file is changed, a score differs
without a word, a traceback is shown, or nothing ends within a minute. Counts go to results.jsonl,
failures to the terminal and to cases.jsonl in --work; the case of a line there is drawn again by
`--kinds KIND --seed SEED --only NUMBER`.
"""

import argparse
import importlib
import json
import os
import pkgutil
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

# Before torch is imported: children are forked, and threads do not survive that.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from record import record

import datassay
from helpers import concurrent_stores, damaged_stores
from helpers.attack.attempt import LIMIT
from helpers.attack.case import empty, tried

# Kind → its share of all cases.
KINDS = {
    "tables": 0.3,
    "files": 0.25,
    "options": 0.15,
    "networks": 0.1,
    "stores": 0.08,
    "disks": 0.04,
    "stops": 0.03,
    "payloads": 0.05,
}
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


def done(log: Path, seed: int) -> dict[tuple[str, int], dict[str, Any]]:
    """The earlier cases of this seed."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    cases = (case for case in map(json.loads, lines) if case["seed"] == seed)
    return {(case["kind"], case["number"]): case for case in cases}


def main() -> None:
    """Draw and run what is missing; end with 1 where a case failed."""
    parser = argparse.ArgumentParser(description="The attack on every way in and out.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--cases", type=int, default=130, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, by its number")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds a case may take")
    parser.add_argument("--work", type=Path, help="keeps what is done (default: nothing)")
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    parser.add_argument("--damages", type=int, default=0, help="of files of a store, in process")
    parser.add_argument("--rounds", type=int, default=0, help="of 4 processes on one new store")
    args = parser.parse_args()
    import_everything()
    with tempfile.TemporaryDirectory(prefix="attack-") as temporary:
        work = (args.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        failed = attack(args, work) if args.cases else 0
        failed += damaged(args, work) if args.damages else 0
        failed += written_at_once(args, work) if args.rounds else 0
    sys.exit(bool(failed))


def damaged(args: argparse.Namespace, work: Path) -> int:
    """Flip, cut, swap and delete files of two stores; how often that read otherwise, unsaid."""
    outcome = damaged_stores.attack(empty(work / "damaged"), args.damages, args.seed)
    print(*outcome.failures, sep="\n", flush=True)
    if not args.no_record:
        figures = {"damages": args.damages, "failed": len(outcome.failures)}
        record("attack/stores", seed=args.seed, **figures, ended=dict(outcome.counts))
    return len(outcome.failures)


def written_at_once(args: argparse.Namespace, work: Path) -> int:
    """Let four processes make one new store at once, so many times."""
    script = [concurrent_stores.__file__, str(empty(work / "writers")), str(args.rounds)]
    ended = subprocess.run(
        [sys.executable, *script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    counts = json.loads(ended.stdout)
    failed = sum(n for what, n in counts.items() if what not in {"right bits", "one line"})
    if not args.no_record:
        record("attack/writers", rounds=args.rounds, failed=failed, ended=counts)
    return failed


def attack(args: argparse.Namespace, work: Path) -> int:
    """Run the cases; the number of those that failed."""
    log, ran = work / "cases.jsonl", []
    earlier = done(log, args.seed)
    share = sum(KINDS[kind] for kind in args.kinds)
    for kind in args.kinds:
        draw = importlib.import_module(f"helpers.attack.{kind}").case
        number = round(args.cases * KINDS[kind] / share)
        for k in [args.only] if args.only is not None else range(number):
            line = earlier.get((kind, k))
            if line is None:
                line = one(draw, kind, k, args, work)
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            ran.append(line)
    counts = Counter(line["kind"] for line in ran)
    failed = Counter(line["wrong"].split(":")[0] for line in ran if line["wrong"])
    if not args.no_record:
        figures = {"cases": len(ran), "failed": dict(failed), "kinds": dict(counts)}
        seconds = [line["seconds"] for line in ran]
        record("attack", seed=args.seed, **figures, seconds=sum(seconds), slowest=max(seconds))
    print(f"{len(ran)} cases, {failed.total()} failed {dict(failed)}", flush=True)
    return failed.total()


def one(draw, kind: str, number: int, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Draw and run one case."""
    folder = empty(work / kind / "case")
    case = draw(random.Random(f"{kind} {args.seed} {number}"), folder)
    ended, wrong = tried(case, folder, args.limit)
    if wrong:
        print(f"{kind} {number}: {case.name}: {wrong}\n    {ended.err[-600:]!r}", flush=True)
    line = {"kind": kind, "seed": args.seed, "number": number, "case": case.name, "wrong": wrong}
    return line | {"status": ended.status, "seconds": round(ended.seconds, 2)}


if __name__ == "__main__":
    main()
