"""One experiment that was run: what its page shows and what its folder keeps."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from datassay.errors import SettingError
from datassay.lab.experiment import Agreement, Experiment, Plot
from datassay.lab.parameters import defaults
from datassay.progress import Progress, silent
from datassay.report.tables import standard_json
from datassay.report.write import write_files

# Arrays up to this size stand in the summary too; all of them are in result.npz.
MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class KeptPlot:
    """One figure as it is kept.

    Attributes:
        title: above it.
        text: what it shows, for who cannot see it.
        figure: plotly's JSON.
        wide: across the page.
    """

    title: str
    text: str
    figure: str
    wide: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What came out of one experiment.

    Attributes:
        name: of the experiment.
        parameters: all of them, as used.
        agreement: the number that judges it; None where it could not run.
        seconds: it took.
        digest: of the code, the parameters and the version: equal ones give equal results.
        values: numbers and texts of the result, and its small arrays.
        plots: its figures.
        problem: why it could not run, or "".
    """

    name: str
    parameters: dict[str, Any]
    agreement: Agreement | None
    seconds: float
    digest: str
    values: dict[str, Any]
    plots: tuple[KeptPlot, ...]
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the statement held in this run."""
        return self.agreement is not None and self.agreement.holds


def run_experiment(
    experiment: Experiment,
    parameters: Mapping[str, Any],
    out: Path,
    progress: Progress = silent,
) -> Record:
    """Run one experiment and keep its result in a folder of its name.

    Args:
        experiment: any.
        parameters: those that differ from the defaults.
        out: DIR; the files go to DIR/NAME: summary.json, figures.json, result.npz (every array of
            the result), all of them or none.
        progress: called by the experiment.

    Returns:
        What came out.

    Raises:
        SettingError: a parameter is out of its range, a library is missing, or the folder cannot
            be written.

    Cost: the experiment's own.
    """
    started = time.perf_counter()
    result = experiment.run(**parameters, progress=progress)
    seconds = time.perf_counter() - started
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    arrays: dict[str, Any] = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
    shown = {n: v for n, v in values.items() if n not in arrays or arrays[n].size <= MOST_SHOWN}
    record = Record(
        name=experiment.name,
        parameters={**defaults(experiment), **parameters},
        agreement=result.agreement,
        seconds=seconds,
        digest=digest(experiment, parameters),
        values=shown,
        plots=tuple(_kept_plot(p) for p in experiment.plots(result)),
    )
    writers = {
        "result.npz": lambda to: np.savez(to, **arrays),
        "figures.json": partial(_write_figures, record.plots),
        "summary.json": lambda to: to.write_text(standard_json(summary(record)), "utf-8"),
    }
    write_files(writers, out / experiment.name)
    return record


def kept(experiment: Experiment, parameters: Mapping[str, Any], out: Path) -> Record | None:
    """What an earlier run of the same experiment left in the folder.

    Args:
        experiment: any.
        parameters: those that differ from the defaults.
        out: as given to `run_experiment`.

    Returns:
        Its record; None where there is none, or one of other code, parameters or version.
    """
    try:
        stored = json.loads((out / experiment.name / "summary.json").read_text("utf-8"))
        drawn = json.loads((out / experiment.name / "figures.json").read_text("utf-8"))
        if stored["digest"] != digest(experiment, parameters):
            return None
        return Record(
            name=experiment.name,
            parameters=stored["parameters"],
            agreement=_agreement(stored["agreement"]),
            seconds=stored["seconds"],
            digest=stored["digest"],
            values=stored["result"],
            plots=tuple(KeptPlot(**{**d, "figure": json.dumps(d["figure"])}) for d in drawn),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not ours: it is run again


def not_run(experiment: Experiment, error: SettingError) -> Record:
    """The record of an experiment that this machine cannot run.

    Args:
        experiment: any.
        error: why.

    Returns:
        A record without result.
    """
    return Record(experiment.name, defaults(experiment), None, 0.0, "", {}, (), str(error))


def summary(record: Record) -> dict[str, Any]:
    """A record in figures.

    Args:
        record: any.

    Returns:
        Names and plain values; `holds` and `agreement` among them.
    """
    return {
        "name": record.name,
        "holds": record.holds,
        "agreement": None if record.agreement is None else asdict(record.agreement),
        "parameters": record.parameters,
        "seconds": round(record.seconds, 2),
        "result": record.values,
        "problem": record.problem or None,
        "version": version("datassay"),
        "digest": record.digest,
    }


def digest(experiment: Experiment, parameters: Mapping[str, Any]) -> str:
    """What a kept result depends on, as one text.

    Args:
        experiment: any.
        parameters: those that differ from the defaults.

    Returns:
        SHA-256 of the files beside the experiment's, its parameters, and the versions of what
        computes it.
    """
    source = _sources(Path(inspect.getfile(experiment.run)).parent)
    used = sorted({**defaults(experiment), **parameters}.items())
    versions = [version(name) for name in ("datassay", "numpy", "scipy", "torch")]
    return hashlib.sha256(source + repr((used, versions)).encode()).hexdigest()


@cache
def _sources(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))


def _agreement(stored: dict[str, Any]) -> Agreement:
    value = math.nan if stored["value"] is None else stored["value"]  # JSON has no NaN
    return Agreement(**{**stored, "value": value})


def _kept_plot(plot: Plot) -> KeptPlot:
    return KeptPlot(plot.title, plot.text, str(plot.figure.to_json()), plot.wide)


def _write_figures(plots: tuple[KeptPlot, ...], to: Path) -> None:
    drawn = [{**asdict(p), "figure": json.loads(p.figure)} for p in plots]
    to.write_text(json.dumps(drawn), "utf-8")
