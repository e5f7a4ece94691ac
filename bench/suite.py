"""A run of the suite: what is asked, what is kept, who is first, and what has left its interval."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cells
import numpy as np
import scripts
from record import LIBRARIES, commit
from table_rows import Row

HERE = Path(__file__).parent
RIVALS = ("cleanlab", "captum", "dattri", "kronfluence", "traker", "pyDVL")
# Figures that repeat alike, such as an AUROC of 1, have an interval of no width; processors differ.
LEAST_HALF = 0.01
VERDICTS = ("first", "level", "behind", "one seed")


@dataclass
class Cell:
    """One case and contender.

    Attributes:
        figures: name → one value a seed.
        seconds: of processor time, one a seed.
        mib: the most memory held beyond the task, one a seed.
        missing: why it is left out or failed; empty where it answered.
    """

    truth: str
    case: str
    contender: str
    kind: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    missing: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Truth, case, contender."""
        return self.truth, self.case, self.contender


def run(size: str, args: argparse.Namespace) -> list[Cell]:
    """Ask everybody; who has answered in --work is not asked again."""
    todo = cells.jobs(
        args.truths, size, args.seed, cases=args.cases, contenders=args.contenders,
        kind=args.kind, repeats=args.repeats,
    )  # fmt: skip
    log = None if args.work is None else args.work / f"{size}.jsonl"
    done = _read(log)
    missing = [replace(job, contenders=who) for job in todo if (who := _unanswered(job, done))]
    started = time.perf_counter()
    for count, (job, lines) in enumerate(cells.asked(missing, args.workers), 1):
        names = {"truth": job.truth, "case": job.case, "seed": job.seed}
        for line in lines:
            done[job.truth, job.case, job.seed, line["contender"]] = names | line
            _append(log, names | line)
        wrong = [
            f"{x['contender']} ({x.get('failed') or x['left_out']})"
            for x in lines
            if "figures" not in x
        ]
        minutes = (time.perf_counter() - started) / 60
        where = f"{job.truth}, {job.case}, seed {job.seed}"
        print(f"{minutes:5.1f} min  {count}/{len(missing)}  {where}"
              + (f"; without {', '.join(wrong)}" if wrong else ""), flush=True)  # fmt: skip
    return gathered(todo, done)


def _unanswered(job: cells.Job, done: dict[tuple, dict]) -> tuple[str, ...]:
    where = job.truth, job.case, job.seed
    return tuple(c for c in job.contenders if "figures" not in done.get((*where, c), {}))


def gathered(todo: Sequence[cells.Job], done: dict[tuple, dict]) -> list[Cell]:
    """Lines of seeds as cells, in the order of the list."""
    found: dict[tuple, Cell] = {}
    for job in todo:
        truth = cells.truth_named(job.truth)
        for name in job.contenders:
            line = done.get((job.truth, job.case, job.seed, name))
            if line is None:
                continue
            cell = Cell(job.truth, job.case, name, truth.contenders[name].kind)
            cell = found.setdefault(cell.key, cell)
            if "figures" not in line:
                cell.missing = line.get("failed") or line["left_out"]
                continue
            for figure, value in line["figures"].items():
                cell.figures.setdefault(figure, []).append(value)
            cell.seconds.append(line["seconds"])
            cell.mib.append(line["mib"])
    return list(found.values())


def _read(log: Path | None) -> dict[tuple, dict]:
    if log is None or not log.exists():
        return {}
    lines = map(json.loads, log.read_text("utf-8").splitlines())
    return {(x["truth"], x["case"], x["seed"], x["contender"]): x for x in lines}


def _append(log: Path | None, line: dict) -> None:
    if log is None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# Records. -----------------------------------------------------------------------------------


def keep(found: Sequence[Cell], size: str, seed: int) -> None:
    """Write the cells into the recorded file, each in the place of its last record."""
    file = HERE / f"{size}.jsonl"
    lines = (
        {_key(x): x for x in map(json.loads, file.read_text("utf-8").splitlines())}
        if file.exists()
        else {}
    )
    stamp = {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "seed": seed,
        "versions": versions(),
    }
    for cell in found:
        mean = {name: _short(cells.interval(values)) for name, values in cell.figures.items()}
        line = {
            "truth": cell.truth, "case": cell.case, "contender": cell.contender, "kind": cell.kind,
            "interval": mean, "figures": {k: _short(v) for k, v in cell.figures.items()},
            "seconds": _short(cell.seconds), "mib": _short(cell.mib), "missing": cell.missing,
            **stamp,
        }  # fmt: skip
        lines[_key(line)] = line
    text = "".join(json.dumps(x, ensure_ascii=False) + "\n" for _, x in sorted(lines.items()))
    file.write_text(text, encoding="utf-8")


def kept(size: str) -> list[Cell]:
    """The recorded cells."""
    file = HERE / f"{size}.jsonl"
    lines = map(json.loads, file.read_text("utf-8").splitlines()) if file.exists() else []
    names = Cell.__dataclass_fields__
    return [Cell(**{k: v for k, v in line.items() if k in names}) for line in lines]


def _key(line: dict) -> tuple[str, str, str]:
    return line["truth"], line["case"], line["contender"]


def _short(values: Sequence[float]) -> list[float | None]:
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in values]


def versions() -> dict[str, str]:
    """Of what was measured and of the rivals that are here."""
    found = {}
    for name in (*LIBRARIES, *RIVALS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# Who is first. ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Ours beside the best other in one case and figure.

    Attributes:
        ours: the best of ours by name, and its mean.
        rival: the best of the others by name, bounds left out, and its mean.
        lead: mean paired lead of ours and the ends of its 95 % interval.
        verdict: "first", "level" (the interval holds 0), "behind", or "one seed": no interval.
    """

    truth: str
    case: str
    figure: str
    ours: tuple[str, float]
    rival: tuple[str, float]
    lead: tuple[float, float, float]
    verdict: str


def places(found: Sequence[Cell]) -> list[Place]:
    """A place a case and figure that ours and a rival have answered."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in found:
        for figure in cell.figures:
            groups.setdefault((cell.truth, cell.case, figure), []).append(cell)
    given = []
    for (truth, case, figure), some in groups.items():
        full = max(len(c.figures[figure]) for c in some)
        some = [c for c in some if len(c.figures[figure]) == full and _finite(c.figures[figure])]
        ours = [c for c in some if c.kind == "ours"]
        others = [c for c in some if c.kind in {"trivial", "rival"}]
        if not ours or not others:
            continue
        own, best = (max(part, key=lambda c: np.mean(c.figures[figure])) for part in (ours, others))
        lead = cells.interval(np.subtract(own.figures[figure], best.figures[figure]))
        verdict = "level" if lead[1] <= 0 <= lead[2] else "first" if lead[0] > 0 else "behind"
        verdict = verdict if np.isfinite(lead[1]) else "one seed"
        means = [(c.contender, float(np.mean(c.figures[figure]))) for c in (own, best)]
        given.append(Place(truth, case, figure, means[0], means[1], lead, verdict))
    return given


def _finite(values: Sequence[float | None]) -> bool:
    return all(v is not None and np.isfinite(v) for v in values)


def verdicts(found: Sequence[Cell]) -> Iterator[str]:
    """The table in the terminal, then who is first how often."""
    given = places(found)
    for p in given:
        lead = f"{p.lead[0]:+.4f} [{p.lead[1]:+.4f}, {p.lead[2]:+.4f}]"
        yield (f"{p.verdict:6} {p.truth}, {p.case}, {p.figure}: {p.ours[0]} {p.ours[1]:.4f}, "
               f"{p.rival[0]} {p.rival[1]:.4f}, lead {lead}")  # fmt: skip
    for cell in found:
        if cell.missing:
            yield f"missing {', '.join(cell.key)}: {cell.missing}"
        if not all(_finite(values) for values in cell.figures.values()):
            yield f"not compared: {', '.join(cell.key)}: a figure is not finite"
    counts = {v: sum(p.verdict == v for p in given) for v in VERDICTS}
    yield ", ".join(f"{name} {count}" for name, count in counts.items())


# What has changed. --------------------------------------------------------------------------


def departed(found: Sequence[Cell], recorded: Sequence[Cell], seed: int) -> list[str]:
    """What has left its recorded interval, and ours that gave no answer.

    With the recorded seeds the mean must lie within half an interval of the recorded mean of the
    same seeds; with others the two intervals must meet.
    """
    before, gone = {cell.key: cell for cell in recorded}, []
    for cell in found:
        name = ", ".join(cell.key)
        if cell.missing and cell.kind == "ours":
            gone.append(f"no answer: {name}: {cell.missing}")
        if cell.key not in before:
            gone.append(f"not recorded: {name}")
            continue
        for figure, values in cell.figures.items():
            old = before[cell.key].figures.get(figure, [])
            if not (old and values and _finite(old) and _finite(values)):
                continue
            mean, half = _wide(old)
            room = half
            if seed:
                room += _wide(values)[1]
            else:
                mean = float(np.mean(old[: len(values)]))
            if abs(np.mean(values) - mean) > room:
                gone.append(
                    f"left its interval: {name}, {figure}: {np.mean(values):.4f}, "
                    f"recorded {mean:.4f} ± {half:.4f}"
                )
    return gone


def _wide(values: Sequence[float]) -> tuple[float, float]:
    mean, _, high = cells.interval(values)
    return mean, max(high - mean, LEAST_HALF)


# The table. ---------------------------------------------------------------------------------


def rows(found: Sequence[Cell], size: str) -> list[Row]:
    """A row a truth for README and docs: how often ours is first or level, and by how much."""
    command = "python -m bench" if size == "quick" else "python -m bench full"
    given, rows_ = places(found), []
    for name in cells.TRUTHS:
        own = [p for p in given if p.truth == name]
        if not own:
            continue
        counts = {v: sum(p.verdict == v for p in own) for v in VERDICTS}
        means = [np.mean([p.ours[1] for p in own]), np.mean([p.rival[1] for p in own])]
        told = ", ".join(f"{v} {n}" for v, n in counts.items() if n or v != VERDICTS[-1])
        rows_.append(
            Row(
                f"{_capital(cells.truth_named(name).measure)}; {len(own)} figures",
                f"{told}; mean {means[0]:.3f} (best others {means[1]:.3f})",
                command,
                headline=True,
            )
        )
    return rows_


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def details(found: Sequence[Cell]) -> Iterator[str]:
    """Markdown: every case and figure, best of ours, best rival, the bound, and the paired lead."""
    yield "| truth, case | ours | best other | bound | lead, 95 % interval | |"
    yield "|---|---|---|---|---|---|"
    for p in places(found):
        bound = [
            c.figures[p.figure] for c in found
            if (c.truth, c.case, c.kind) == (p.truth, p.case, "bound") and p.figure in c.figures
        ]  # fmt: skip
        limit = f"{np.mean(bound):.3f}" if bound else ""
        what = f"{p.truth.replace('_', ' ')}: {p.case}, {p.figure}"
        ends = f" [{p.lead[1]:+.3f}, {p.lead[2]:+.3f}]" if np.isfinite(p.lead[1]) else ""
        lead = f"{p.lead[0]:+.3f}{ends}"
        both = " | ".join(f"{name} {value:.3f}" for name, value in (p.ours, p.rival))
        yield (f"| {what} | {both} | {limit} | "
               f"{lead} | {p.verdict} |")  # fmt: skip


def listed() -> Iterator[str]:
    """Truths, cases and contenders; then the scripts that `full` runs after them."""
    for name in cells.TRUTHS:
        truth = cells.truth_named(name)
        yield f"{name}: {truth.measure}"
        yield f"  quick: {', '.join(c for c, case in truth.cases.items() if case.quick)}"
        yield f"  full: {', '.join(c for c, case in truth.cases.items() if not case.quick)}"
        yield f"  contenders: {', '.join(truth.contenders)}"
    for name in scripts.SCRIPTS:
        yield f"{name}: {(HERE / name).read_text('utf-8').partition(chr(10))[0].strip(chr(34))}"
