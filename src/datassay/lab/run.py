"""Several experiments one after the other; what is finished stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datassay.data.settings import check_seed
from datassay.errors import SettingError
from datassay.lab.catalog import experiment, experiments
from datassay.lab.experiment import Experiment
from datassay.lab.parameters import parsed
from datassay.lab.record import Record, kept, not_run, run_experiment
from datassay.progress import Progress, silent

ALL = "all"


def chosen(
    names: Sequence[str], settings: Sequence[str], seed: int
) -> list[tuple[Experiment, dict[str, Any]]]:
    """The experiments that were asked for, in the order of the course.

    Args:
        names: of experiments, or "all".
        settings: "name=value" each; only for a single experiment.
        seed: of all of them.

    Returns:
        (experiment, parameters that differ from the defaults).

    Raises:
        SettingError: an unknown name, parameter or value; settings for several experiments.
        DataError: the seed cannot be used.
    """
    check_seed(seed)
    everything = ALL in names
    if settings and (everything or len(names) > 1):
        raise SettingError(
            "set changes one experiment's parameters; name that one alone, or leave out --set."
        )
    for name in names:
        if name != ALL:
            experiment(name)
    given = [e for _, e in experiments() if everything or e.name in names]
    return [(e, {"seed": seed, **parsed(e, settings)}) for e in given]


def run_lab(
    asked: Sequence[tuple[Experiment, dict[str, Any]]],
    out: Path,
    *,
    fresh: bool = False,
    progress: Progress = silent,
) -> Iterator[Record]:
    """Run experiments, reusing what the folder holds.

    Args:
        asked: of `chosen`.
        out: folder; each experiment keeps its result in a folder of its name as soon as it ends.
        fresh: run again what is there.
        progress: called by the experiments, under "name: step".

    Yields:
        The record of each. Where several are asked for, one that lacks a library or data is told
        in its record and the others go on.

    Raises:
        SettingError: a parameter is out of its range, or a single experiment lacks a library.
    """
    for place, (e, parameters) in enumerate(asked):
        if len(asked) > 1:
            progress("experiments", place, len(asked))
        record = None if fresh else kept(e, parameters, out)
        if record is None:
            record = _run_one(e, parameters, out, len(asked) == 1, progress)
        yield record


def lab_facts(records: Sequence[Record], command: str) -> dict[str, str]:
    """What the page's head says.

    Args:
        records: of the experiments.
        command: as typed.

    Returns:
        Name → value.
    """
    seeds = sorted({str(r.parameters["seed"]) for r in records})
    return {
        "Experiments": f"{len(records):,}",
        "Seconds": f"{sum(r.seconds for r in records):.0f}",
        "Seed": ", ".join(seeds),
        "Version": version("datassay"),
        "Command": command,
    }


def _run_one(
    e: Experiment, parameters: dict[str, Any], out: Path, alone: bool, progress: Progress
) -> Record:
    def report(step: str, done: int, total: int) -> None:
        progress(f"{e.name}: {step}", done, total)

    try:
        return run_experiment(e, parameters, out, report)
    except SettingError as error:
        if alone:
            raise
        return not_run(e, error)
