"""Run several experiments in turn; finished ones are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datassay.data import check_seed
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.report import check_writable, heal
from datassay_lab.catalog import experiment, experiments
from datassay_lab.experiment import Experiment
from datassay_lab.parameters import parsed
from datassay_lab.record import FILES, Record, kept, not_run, run_experiment

ALL = "all"


def chosen(
    names: Sequence[str], settings: Sequence[str], seed: int
) -> list[tuple[Experiment, dict[str, Any]]]:
    """Select experiments, in the order of the course.

    Args:
        names: names of experiments, or "all".
        settings: "name=value" each; only for a single experiment.
        seed: random seed of all experiments.

    Returns:
        (experiment, parameters that differ from the defaults).

    Raises:
        SettingError: a name, parameter or value is unknown, or settings are given for several
            experiments.
        DataError: the seed is invalid.
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
    overwrite: bool = False,
    progress: Progress = silent,
) -> Iterator[Record]:
    """Run experiments; reuse kept results.

    Args:
        asked: from `chosen`.
        out: folder; each experiment writes its result to a folder of its name when it ends.
        fresh: if True, run again what is kept.
        overwrite: whether files that we did not write, or that were changed, may be replaced.
        progress: called by the experiments, with "name: step".

    Yields:
        The record of each. Among several experiments, one that lacks a library or data says so in
        its record and the others run.

    Raises:
        SettingError: a parameter is out of range, a single experiment lacks a library, or a file
            in the way is not ours.
    """
    for place, (e, parameters) in enumerate(asked):
        if len(asked) > 1:
            progress("experiments", place, len(asked))
        heal(out / e.name)
        record = None if fresh else kept(e, parameters, out)
        if record is None:
            # A record's files are checked before the experiment, not after it.
            check_writable(out / e.name, FILES, overwrite=overwrite)
            record = _run_one(e, parameters, out, len(asked) == 1, overwrite, progress)
        yield record


def _run_one(
    e: Experiment,
    parameters: dict[str, Any],
    out: Path,
    alone: bool,
    overwrite: bool,
    progress: Progress,
) -> Record:
    def report(step: str, done: int, total: int) -> None:
        progress(f"{e.name}: {step}", done, total)

    try:
        return run_experiment(e, parameters, out, report, overwrite=overwrite)
    except SettingError as error:
        if alone:
            raise
        return not_run(e, error)
