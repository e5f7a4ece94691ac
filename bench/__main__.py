"""The suite: every score and action against the truth, and what it costs; a task per file.

    python -m bench                          # quick: minutes, no files needed
    python -m bench labels selection         # some tasks; those in front of `list` have quick cases
    python -m bench speed/memory --cases "digits*"    # one that measures by itself
    python -m bench full --work DIR          # real data; hours; goes on where it stopped
    python -m bench full labels --work DIR --cases "census*"
    python -m bench check                    # ours, two seeds a cell: fails where a figure has left
                                             # its recorded interval
    python -m bench check --seed 1000 --kind all     # all, other seeds: intervals must meet
    python -m bench table                    # docs from what is recorded
    python -m bench list                     # tasks, cases, contenders

--record keeps cells in bench/quick.jsonl or full.jsonl, and lines in bench/results.jsonl. Needs
DATASSAY_DATA where real data are read, and the baselines: pip install 'datassay[bench]'. One that
is not installed is left out and named.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench.frame import TRUTHS, Options, every_task

FEW = 2  # seeds a cell that `check` asks
MODES = ("quick", "full", "check", "table", "list")


def main() -> int:
    args = _parser().parse_args()
    mode = args.what[0] if args.what and args.what[0] in MODES else ""
    names = args.what[bool(mode) :]
    if unknown := set(names) - set(every_task()):
        raise SystemExit(
            f"No task {', '.join(sorted(unknown))}; `python -m bench list` names them."
        )
    from bench import table, verdicts

    if mode == "table":
        table.write()
        return 0
    if mode == "list":
        print(*verdicts.listed(), sep="\n")
        return 0
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = os.environ.get(variable, "1") if names else "1"
    if args.work is not None:
        args.work = args.work.resolve()
        os.environ["BENCH_WORK"] = str(args.work / "data")
    wanted = [name for name in names or TRUTHS if name in TRUTHS]
    status = _meet(mode, wanted, args) if wanted else 0
    measured = [name for name in names if name not in TRUTHS]
    return status or _measure(measured, args)


def _meet(mode: str, names: list[str], args: argparse.Namespace) -> int:
    from bench import record, run, verdicts

    size = "full" if mode == "full" else "quick"
    if size == "full" and args.work is None:
        raise SystemExit("full takes hours: give --work, so that the same command goes on.")
    if mode == "check":
        args.kind = args.kind or "ours"
        args.repeats = args.repeats or (None if args.seed else FEW)
    args.kind = "*" if args.kind in {None, "all"} else args.kind
    result = run.ask(size, names, args)
    print(*verdicts.verdicts(result), sep="\n")
    if args.record:
        record.keep(result, size, args.seed)
    if mode == "check":
        removed = verdicts.departed(result, record.kept(size), args.seed)
        print(*removed, sep="\n")
        return int(bool(removed))
    return 0


def _measure(names: list[str], args: argparse.Namespace) -> int:
    from bench import run

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        values = dict(pair.split("=", 1) for pair in args.set)
        options = Options(args.work or Path(folder), args.seed, args.repeats, values)
        options.work.mkdir(parents=True, exist_ok=True)
        ended = [run.measure(name, args.cases, options, args.record) for name in names]
    return int(not all(ended))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("what", nargs="*", help=f"{', '.join(MODES)}, or nothing; then tasks")
    parser.add_argument("--cases", nargs="+", default=["*"], help="patterns of their names")
    parser.add_argument("--contenders", default="*", help="a pattern of their names")
    kinds = ("ours", "trivial", "baseline", "bound", "all")
    parser.add_argument("--kind", choices=kinds, help="only these contenders")
    parser.add_argument("--repeats", type=int, help="seeds a cell (default: as the task has it)")
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, help="keeps what is done; the same again goes on")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="see the task")
    parser.add_argument("--record", action="store_true", help="keep what was found")
    return parser


if __name__ == "__main__":
    sys.exit(main())
