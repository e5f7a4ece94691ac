"""Who wins and by how much, what has left its interval, and the tables of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.frame import TRUTHS, Row, every_task, file_of, task_named
from bench.record import Cell
from bench.stats import interval

# Figures that repeat alike, such as an AUROC of 1, have an interval of no width; processors differ.
LEAST_HALF = 0.01
VERDICTS = ("win", "tie", "loss", "one seed")


@dataclass(frozen=True)
class Comparison:
    """Ours compared with the best other in one case and figure."""

    truth: str
    case: str
    figure: str
    ours: tuple[str, float]  # the best of ours by name, and its mean
    baseline: tuple[str, float]  # the best of the others by name, bounds left out, and its mean
    lead: tuple[float, float, float]  # mean paired lead of ours and the ends of its 95 % interval
    verdict: str  # "win", "tie" (the interval holds 0), "loss", or "one seed": no interval


def comparisons(results: Sequence[Cell]) -> list[Comparison]:
    """A place a case and figure that ours and a baseline have answered."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in results:
        for figure in cell.figures:
            groups.setdefault((cell.truth, cell.case, figure), []).append(cell)
    given = []
    for (truth, case, figure), some in groups.items():
        full = max(len(c.figures[figure]) for c in some)
        some = [c for c in some if len(c.figures[figure]) == full and _finite(c.figures[figure])]
        ours = [c for c in some if c.kind == "ours"]
        others = [c for c in some if c.kind in {"trivial", "baseline"}]
        if not ours or not others:
            continue
        own, best = (max(part, key=lambda c: np.mean(c.figures[figure])) for part in (ours, others))
        lead = interval(np.subtract(own.figures[figure], best.figures[figure]))
        verdict = "tie" if lead[1] <= 0 <= lead[2] else "win" if lead[0] > 0 else "loss"
        verdict = verdict if np.isfinite(lead[1]) else "one seed"
        means = [(c.contender, float(np.mean(c.figures[figure]))) for c in (own, best)]
        given.append(Comparison(truth, case, figure, means[0], means[1], lead, verdict))
    return given


def numbered(verdict: str, count: int) -> str:
    if verdict == VERDICTS[-1]:
        return f"{count} with one seed"
    return f"{count} {verdict}{'' if count == 1 else 'es' if verdict == 'loss' else 's'}"


def _finite(values: Sequence[float | None]) -> bool:
    return all(v is not None and np.isfinite(v) for v in values)


def verdicts(results: Sequence[Cell]) -> Iterator[str]:
    """The table in the terminal, then how often ours wins."""
    given = comparisons(results)
    for p in given:
        lead = f"{p.lead[0]:+.4f} [{p.lead[1]:+.4f}, {p.lead[2]:+.4f}]"
        yield (f"{p.verdict:6} {p.truth}, {p.case}, {p.figure}: {p.ours[0]} {p.ours[1]:.4f}, "
               f"{p.baseline[0]} {p.baseline[1]:.4f}, lead {lead}")  # fmt: skip
    for cell in results:
        if cell.missing:
            yield f"missing {', '.join(cell.key)}: {cell.missing}"
        if not all(_finite(values) for values in cell.figures.values()):
            yield f"not compared: {', '.join(cell.key)}: a figure is not finite"
    counts = {v: sum(p.verdict == v for p in given) for v in VERDICTS}
    yield ", ".join(numbered(name, count) for name, count in counts.items())


# What has changed. --------------------------------------------------------------------------


def departed(results: Sequence[Cell], recorded: Sequence[Cell], seed: int) -> list[str]:
    """What has left its recorded interval, and ours that gave no answer.

    With the recorded seeds the mean must lie within half an interval of the recorded mean of the
    same seeds; with others the two intervals must meet.
    """
    before, removed = {cell.key: cell for cell in recorded}, []
    for cell in results:
        name = ", ".join(cell.key)
        if cell.missing and cell.kind == "ours":
            removed.append(f"no answer: {name}: {cell.missing}")
        if cell.key not in before:
            removed.append(f"not recorded: {name}")
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
                removed.append(
                    f"left its interval: {name}, {figure}: {np.mean(values):.4f}, "
                    f"recorded {mean:.4f} ± {half:.4f}"
                )
    return removed


def _wide(values: Sequence[float]) -> tuple[float, float]:
    mean, _, high = interval(values)
    return mean, max(high - mean, LEAST_HALF)


# The tables. --------------------------------------------------------------------------------


def rows(results: Sequence[Cell], size: str) -> list[Row]:
    """A row per truth for the documentation: how often ours wins or ties, and by how much."""
    command = "python -m bench" if size == "quick" else "python -m bench full"
    given, shown = comparisons(results), []
    for name in TRUTHS:
        own = [p for p in given if p.truth == name]
        if not own:
            continue
        counts = {v: sum(p.verdict == v for p in own) for v in VERDICTS}
        means = [np.mean([p.ours[1] for p in own]), np.mean([p.baseline[1] for p in own])]
        counted = ", ".join(numbered(v, n) for v, n in counts.items() if n or v != VERDICTS[-1])
        measure = task_named(name).measure
        what = f"{measure[0].upper()}{measure[1:]}; {len(own)} figures"
        measured = f"{counted}; mean {means[0]:.3f} (best others {means[1]:.3f})"
        shown.append(Row(what, measured, bench=command))
    return shown


def details(results: Sequence[Cell]) -> Iterator[str]:
    """Markdown: every case and figure, best of ours, best baseline, bound, and paired lead."""
    yield "| truth, case | ours | best other | bound | lead, 95 % interval | |"
    yield "|---|---|---|---|---|---|"
    for p in comparisons(results):
        bound = [
            c.figures[p.figure] for c in results
            if (c.truth, c.case, c.kind) == (p.truth, p.case, "bound") and p.figure in c.figures
        ]  # fmt: skip
        limit = f"{np.mean(bound):.3f}" if bound else ""
        what = f"{p.truth.replace('_', ' ')}: {p.case}, {p.figure}"
        ends = f" [{p.lead[1]:+.3f}, {p.lead[2]:+.3f}]" if np.isfinite(p.lead[1]) else ""
        both = " | ".join(f"{name} {value:.3f}" for name, value in (p.ours, p.baseline))
        yield f"| {what} | {both} | {limit} | {p.lead[0]:+.3f}{ends} | {p.verdict} |"


def listed() -> Iterator[str]:
    for name in every_task():
        task = task_named(name)
        yield f"{name}: {task.measure} (bench/{file_of(name)})"
        quick = [c for c, case in task.cases.items() if case.quick]
        kinds = {"quick": quick, "cases": [c for c in task.cases if c not in quick]}
        for kind, names in (kinds | {"contenders": list(task.contenders)}).items():
            if names:
                yield f"  {kind}: {'; '.join(names)}"
