"""The job of `datassay lab`: run experiments in turn; finished ones are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datassay.commands import seed_facts
from datassay.data import check_seed
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.report import check_writable, heal
from datassay_lab.catalog import experiment, experiments
from datassay_lab.command import LabSettings
from datassay_lab.experiment import Experiment
from datassay_lab.record import FILES, Record, load_record, run_experiment

ALL = "all"


@dataclass(frozen=True, slots=True)
class LabFindings:
    """Experiments that were run."""

    records: tuple[Record, ...]  # in the order of the course
    facts: dict[str, str]  # what was run, name to value, in the order to show


def run(settings: LabSettings, progress: Progress = silent) -> LabFindings:
    """Run experiments; finished ones are kept in `settings.out` and reused."""
    selection = chosen(settings.names, settings.parameters, settings.seed)
    options = {"fresh": settings.fresh, "overwrite": settings.overwrite}
    records = tuple(run_lab(selection, settings.out, **options, progress=progress))
    facts = {
        "Experiments": f"{len(records):,}",
        "Seconds": f"{sum(r.seconds for r in records):.1f}",
        **seed_facts(", ".join(sorted({str(r.parameters["seed"]) for r in records}))),
        "Command": settings.command,
    }
    return LabFindings(records, facts)


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
    has_all = ALL in names
    if settings and (has_all or len(names) > 1):
        raise SettingError(
            "set changes one experiment's parameters; name that one alone, or leave out --set."
        )
    given_names = [experiment(name).name for name in names if name != ALL]
    selected = [e for _, e in experiments() if has_all or e.name in given_names]
    return [(e, {"seed": seed, **e.parse(settings)}) for e in selected]


def run_lab(
    asked: Sequence[tuple[Experiment, dict[str, Any]]],
    out: Path,
    *,
    fresh: bool = False,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Iterator[Record]:
    """Run experiments; reuse stored results.

    Args:
        asked: from `chosen`.
        out: folder; each experiment writes its result to a folder of its name when it ends.
        fresh: if True, run again what is stored.
        overwrite: whether files that we did not write, or that were changed, may be replaced.
        progress: called by the experiments, with "name: step".

    Yields:
        The record of each. Among several experiments, one that cannot run says so in its record
        and the others run.

    Raises:
        SettingError: a parameter is out of range, a single experiment cannot run, or a file in the
            way is not ours.
    """
    for index, (e, parameters) in enumerate(asked):
        if len(asked) > 1:
            progress("experiments", index, len(asked))
        heal(out / e.name)
        record = None if fresh else load_record(e, parameters, out)
        if record is None:
            # A record's files are checked before the experiment, not after it.
            check_writable(out / e.name, FILES, overwrite=overwrite)
            try:

                def report(step: str, done: int, total: int, name: str = e.name) -> None:
                    progress(f"{name}: {step}", done, total)

                record = run_experiment(e, parameters, out, report, overwrite=overwrite)
            except SettingError as error:
                if len(asked) == 1:
                    raise
                record = Record(e.name, e.defaults, problem=str(error))
        yield record
