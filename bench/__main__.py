"""The suite: every score and act against the truth, beside its rivals and the trivial answers.

    python -m bench                                   # quick: minutes, no files needed
    python -m bench --truths labels selection         # some of it
    python -m bench full --work DIR --scripts         # real data; hours; goes on where it stopped
    python -m bench check                             # ours, two seeds a cell: fails where a figure
                                                      # has left its recorded interval
    python -m bench check --seed 1000 --kind all      # all, other seeds: intervals must meet
    python -m bench table                             # README and docs from what is recorded
    python -m bench list                              # truths, cases, contenders

Records cells in bench/quick.jsonl or bench/full.jsonl with --record. Needs DATASSAY_DATA for full,
and the rivals: pip install 'datassay[bench]'. One that is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import os

import scripts
import suite
import table
from cells import TRUTHS

FEW = 2  # seeds a cell that `check` asks


def main() -> int:
    args = _parser().parse_args()
    if args.what == "table":
        table.write()
        return 0
    if args.what == "list":
        print(*suite.listed(), sep="\n")
        return 0
    size = "full" if args.what == "full" else "quick"
    if args.what == "check":
        args.kind = args.kind or "ours"
        args.repeats = args.repeats or (None if args.seed else FEW)
    args.kind = "*" if args.kind in {None, "all"} else args.kind
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # workers inherit it; a contender has one thread
    if size == "full" and args.work is None:
        raise SystemExit("full takes hours: give --work, so that the same command goes on.")
    if args.work is not None:
        os.environ["BENCH_WORK"] = str((args.work / "data").resolve())
    found = suite.run(size, args)
    print(*suite.verdicts(found), sep="\n")
    if args.record:
        suite.keep(found, size, args.seed)
    if size == "full" and args.scripts:
        scripts.run_scripts(args.work.resolve())
    if args.what == "check":
        gone = suite.departed(found, suite.kept(size), args.seed)
        print(*gone, sep="\n")
        return int(bool(gone))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    whats = ("quick", "full", "check", "table", "list")
    parser.add_argument("what", nargs="?", choices=whats, default="quick")
    parser.add_argument("--truths", nargs="+", choices=TRUTHS, default=list(TRUTHS))
    parser.add_argument("--cases", default="*", help="a pattern of their names")
    parser.add_argument("--contenders", default="*", help="a pattern of their names")
    parser.add_argument(
        "--kind", choices=("ours", "trivial", "rival", "bound", "all"), help="only these"
    )
    parser.add_argument("--repeats", type=int, help="seeds a cell (default: as the truth has it)")
    parser.add_argument("--seed", type=int, default=0, help="the first of each cell's seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, help="keeps lines; the same again goes on")
    parser.add_argument("--scripts", action="store_true", help="of full: the other scripts too")
    parser.add_argument(
        "--record", action="store_true", help="into bench/quick.jsonl or full.jsonl"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
