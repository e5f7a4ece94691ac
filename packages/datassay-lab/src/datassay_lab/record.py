"""Record of one experiment: run it, keep it in its folder, read it back."""

import hashlib
import inspect
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datassay.progress import Progress, silent
from datassay.report import standard_json, write_pages
from datassay_lab.checks import Agreement
from datassay_lab.experiment import Experiment

# Entry of the summary: digest of the others and of the figures.
SEAL = "seal"
# Arrays up to this size are in the summary too; all arrays are in result.npz.
MOST_SHOWN = 12
FILES = ("result.npz", "figures.json", "summary.json")


class KeptPlot(NamedTuple):
    """A figure as it is stored: as a Plot, its figure as plotly's JSON."""

    title: str
    text: str
    figure: str
    wide: bool


@dataclass(frozen=True, slots=True)
class Record:
    """Outcome of one experiment."""

    name: str  # name of the experiment
    parameters: dict[str, Any]  # all parameters, as used
    # the number that decides whether it holds; None where it could not run
    agreement: Agreement | None = None
    seconds: float = 0.0  # run time
    digest: str = ""  # hash of code, parameters and versions; equal digests give equal results
    # numbers, texts and small arrays of the result
    values: dict[str, Any] = field(default_factory=dict)
    plots: tuple[KeptPlot, ...] = ()  # its figures
    problem: str = ""  # why it could not run, or ""

    @property
    def holds(self) -> bool:
        """Whether the statement holds in this run."""
        return self.agreement is not None and self.agreement.holds


def run_experiment(
    experiment: Experiment,
    parameters: Mapping[str, Any],
    out: Path,
    progress: Progress = silent,
    *,
    overwrite: bool = False,
) -> Record:
    """Run one experiment and write its result to a folder of its name."""
    # parameters: those that differ from the defaults. out: DIR; writes DIR/NAME/summary.json,
    # figures.json and result.npz (all arrays of the result): all files or none. overwrite:
    # whether files that we did not write, or that were changed, may be replaced.
    started = time.perf_counter()
    result = experiment.run(**parameters, progress=progress)
    seconds = time.perf_counter() - started
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    arrays: dict[str, Any] = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
    record = Record(
        name=experiment.name,
        parameters={**experiment.defaults, **parameters},
        agreement=result.agreement,
        seconds=seconds,
        digest=digest(experiment, parameters),
        values={n: v for n, v in values.items() if n not in arrays or v.size <= MOST_SHOWN},
        plots=tuple(
            KeptPlot(p.title, p.text, str(p.figure.to_json()), p.wide)
            for p in experiment.plots(result)
        ),
    )
    figures = [{**p._asdict(), "figure": json.loads(p.figure)} for p in record.plots]
    content = json.loads(standard_json(summary(record)))
    parts = (
        lambda to: np.savez(to, **arrays),
        json.dumps(figures, allow_nan=False),
        standard_json(content | {SEAL: _seal(content, figures)}),
    )
    write_pages(dict(zip(FILES, parts, strict=True)), out / experiment.name, overwrite=overwrite)
    return record


def load_record(experiment: Experiment, parameters: Mapping[str, Any], out: Path) -> Record | None:
    """Return the record of an earlier run; None if there is none that is whole and current."""
    # parameters: those that differ from the defaults.
    try:
        stored = json.loads((out / experiment.name / "summary.json").read_text("utf-8"))
        figures = json.loads((out / experiment.name / "figures.json").read_text("utf-8"))
        seal, a = stored.pop(SEAL), stored["agreement"]
        if stored["digest"] != digest(experiment, parameters) or seal != _seal(stored, figures):
            return None
        return Record(
            name=experiment.name,
            parameters=stored["parameters"],
            # JSON has no NaN.
            agreement=Agreement(**a | {"value": math.nan if a["value"] is None else a["value"]}),
            seconds=stored["seconds"],
            digest=stored["digest"],
            values=stored["result"],
            plots=tuple(KeptPlot(**d | {"figure": json.dumps(d["figure"])}) for d in figures),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # missing or unreadable: run again


def summary(record: Record) -> dict[str, Any]:
    """Return the content of summary.json: names and plain values, with `holds` and `agreement`."""
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
    """Return a hash of everything that a kept result depends on."""
    # parameters: those that differ from the defaults.
    source = _sources(Path(inspect.getfile(inspect.unwrap(experiment.run))).parent)
    all_parameters = sorted({**experiment.defaults, **parameters}.items())
    versions = [version(name) for name in ("datassay", "numpy", "scipy", "torch")]
    return hashlib.sha256(source + repr((all_parameters, versions)).encode()).hexdigest()


@cache
def _sources(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))


def _seal(content: dict[str, Any], figures: list[dict[str, Any]]) -> str:
    """Return a digest of both files' values, so that a changed byte is never shown as a result."""
    return hashlib.sha256(json.dumps([content, figures], sort_keys=True).encode()).hexdigest()
