"""A run that is finished: what its folder holds, and where its samples come from."""

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.commands.command import settings_from
from datassay.commands.inputs import COLUMNS, DataInputs, NoiseInputs, load_sets, with_noise
from datassay.data.back.origin import Origin, keep, source_digest
from datassay.data.load import load
from datassay.data.memory.frames import frame_table, row_ids
from datassay.data.samples import SampleSet
from datassay.data.source import decoding, reading, to_numpy
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.columns import read_column
from datassay.data.tables.read import ROLES, Choices
from datassay.data.tables.sources import plain_values
from datassay.errors import DataError
from datassay.optional import coalesce, map_optional, read_entry
from datassay.store.folders import heal

SCORES = "scores.parquet"
SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The files that `datassay run` or `datassay score` wrote to a folder."""

    folder: Path  # of its files
    summary: dict[str, Any]  # of summary.json
    scores: pa.Table  # one row per training sample
    inputs: DataInputs | None  # which samples were read; None of a run of arrays
    noise: NoiseInputs  # what was corrupted on purpose
    digest: str  # of the data as they were read


def with_roles(options: dict[str, Any], samples: SampleSet) -> dict[str, Any]:
    """Return options of `load` with the target and the ids that were found in a table."""
    roles = {c.read_as: c.name for c in samples.columns if c.read_as in {"target", "ids"}}
    return options | {role: name for role, name in roles.items() if options.get(role) is None}


def origin_of(inputs: DataInputs, noise: NoiseInputs, samples: SampleSet | None = None) -> Origin:
    """Return where samples come from, to be written with results, with the roles of `samples`."""
    data = str(coalesce(inputs.data_option, inputs.data))
    if data in BUILTINS:
        source = data
    else:
        source = str(Path(data).expanduser().resolve())
    # A file of trusted ids changes no sample.
    trusted = None
    if not inputs.trusted_file:
        trusted = inputs.trusted
    fields = asdict(replace(inputs, data=source, data_option=None, trusted=trusted))
    if samples is not None:
        fields = with_roles(fields, samples)
    return Origin({**fields, **asdict(noise)}, source_digest(source), noise.noise)


def read_scores(folder: Path) -> pa.Table:
    """Read the table of scores that a run wrote to its folder."""
    check_run(folder, SCORES)
    with reading(folder / SCORES), (folder / SCORES).open("rb") as file:
        return pq.ParquetFile(file).read()


def read_summary(folder: Path) -> Any:
    """Read a run's summary.json, whatever it holds."""
    with reading(folder / SUMMARY):
        return json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def check_run(folder: Path, name: str = SCORES) -> None:
    """Raise if a folder lacks a file of a run, after repairing what a killed run left."""
    with decoding(str(folder)):
        heal(folder)
    if not (folder / name).is_file():
        raise DataError(
            f"{folder} must hold {name}, which datassay run and datassay score write; it does not. "
            "Name the folder that --out named."
        )


def finished_run(folder: str | Path) -> FinishedRun:
    """Read a finished run from its folder: summary, scores, and how its data were read."""
    folder = Path(folder)
    for name in (SCORES, SUMMARY):
        check_run(folder, name)
    scores = read_scores(folder)
    summary = read_summary(folder)
    origin = read_entry(summary, "origin")
    if not isinstance(origin, dict):
        return FinishedRun(folder, summary, scores, None, NoiseInputs(), "")
    saved = origin["inputs"].items()
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in saved}
    inputs = settings_from(DataInputs, options)
    noise = settings_from(NoiseInputs, options)
    return FinishedRun(folder, summary, scores, inputs, noise, origin["digest"])


def check_columns(folder: Path, scores: pa.Table, names: Sequence[str], purpose: str = "") -> None:
    """Raise if the table of scores lacks one of the named columns; `purpose` ends the message."""
    missing = [name for name in names if name not in scores.column_names]
    if missing:
        raise DataError(
            f"{folder / SCORES} must have the columns {', '.join(names)}{purpose}; it lacks "
            f"{', '.join(missing)}. Run again."
        )


def sets_of(
    run: FinishedRun, data: str | None = None, encode: Any = None
) -> tuple[SampleSet, SampleSet | None]:
    """Load (train, val) of a run as it read them; raise if the data have changed since."""
    if run.inputs is None:
        raise DataError(
            f"{run.folder} must say where its samples are; they came from memory as SampleSets. "
            "Give datassay run, or assay, what load was given."
        )
    if data is None:
        inputs = run.inputs
    else:
        inputs = replace(run.inputs, data=data)
    source = str(inputs.data)
    if source not in BUILTINS and not os.path.exists(os.path.expanduser(source)):
        raise DataError(f"{source}, the data of {run.folder}, is not there. Name it with --data.")
    if source_digest(source) != run.digest:
        raise DataError(
            f"{source} must be the data that {run.folder} is about; it was changed since, or is "
            "another. Name the right data with --data, or run again."
        )
    train, val = load_sets(inputs, encode)
    return with_noise(train, run.noise, inputs.seed), val


def index_rows(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """Return (train, val) with row numbers as x instead of features of images and texts."""

    def with_numbers(samples: SampleSet) -> SampleSet:
        if samples.images is None and samples.texts is None:
            return samples
        x = np.arange(len(samples), dtype=np.float32)[:, None]
        return replace(samples, x=x, feature_names=())

    return with_numbers(train), map_optional(with_numbers, val)


def with_unscored(train: SampleSet, val: SampleSet | None) -> SampleSet:
    """Return train with a warning that samples held out by default get no scores."""
    if val is None or not val.split_off:
        return train
    warning = (
        f"{len(val):,} of {len(train) + len(val):,} samples are held out to judge by and get no "
        "scores; --val-fraction 0 (in Python val_fraction=0) scores all."
    )
    return replace(train, warnings=(*train.warnings, warning))


@dataclass(frozen=True)
class UserData:
    """The samples as the caller gave them."""

    data: Any  # what `load` takes, or (train, val) as it gives them
    val: Any  # held-out samples of their own; None: none
    reading: dict[str, Any]  # the other arguments of `load`

    @property
    def is_loaded(self) -> bool:
        """Whether the data are the (train, val) that `load` returns."""
        is_pair = isinstance(self.data, tuple) and len(self.data) == 2
        return is_pair and isinstance(self.data[0], SampleSet)

    @property
    def is_named(self) -> bool:
        """Whether the data are a built-in name or a path."""
        return isinstance(self.data, str | Path)

    def sets(self, encode: Any) -> tuple[SampleSet, SampleSet | None]:
        """Return training samples, and held-out ones or None; raises what `load` raises."""
        if self.is_loaded:
            return self.data
        return load(self.data, val=self.val, encode=encode, **self.reading)

    @property
    def _pandas_frame(self) -> Any:
        """The user's pandas frame; None for other data."""
        if isinstance(self.data, tuple) and self.data:
            data = self.data[0]
        else:
            data = self.data
        if not hasattr(getattr(data, "index", None), "nlevels"):
            return None
        return data

    @property
    def frame_columns(self) -> Sequence[Any]:
        """The columns of the user's pandas frame; () for other data."""
        if self._pandas_frame is None:
            return ()
        return tuple(self._pandas_frame.columns)

    def frame_index(self, ids: list[Any]) -> Any:
        """Return index labels of the rows with these ids in the user's pandas frame.

        None for other data, and where an id is not in that frame.
        """
        frame = self._pandas_frame
        table = map_optional(frame_table, frame)
        if table is None:
            return None
        table, index_ids = row_ids(table)
        frame_ids = coalesce(self.reading.get("ids"), index_ids)
        if frame_ids is None:
            frame_ids = np.arange(len(frame))
        elif isinstance(frame_ids, str):  # the name of a column
            frame_ids = plain_values(
                read_column(table[frame_ids], frame_ids, Choices(ids=frame_ids))
            )
        row_of_id = {str(i): row for row, i in enumerate(to_numpy(frame_ids, "ids").tolist())}
        rows = [row_of_id.get(str(i), -1) for i in ids]
        if -1 in rows:
            return None
        return frame.index.take(rows)

    def origin(self) -> Origin:
        """Return how samples of a name or path are read again."""
        return _describe_origin(self.data, self.val, self.reading)

    def write_data(self, folder: Path, out: Path) -> tuple[Path, Origin]:
        """Write data from memory to `folder`; return the file and how to read it from `out`."""
        roles = {name: self.reading.get(name) for name in ROLES}
        data = self.data
        val = self.val
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in (data, val)):
            data = (*data, *val)
            val = None
        file, file_roles = keep(data, folder, **roles)
        origin = _describe_origin(file, val, {**self.reading, **dict.fromkeys(ROLES), **file_roles})
        inputs = {**origin.inputs, "data": str(out.resolve() / file.name)}
        return file, replace(origin, inputs=inputs)


def _describe_origin(data: Any, val: Any, reading: dict[str, Any]) -> Origin:
    """Return the command-line inputs by which data are read again as `load` read them."""
    columns: dict[str, Any] = {}
    if val is not None:  # queries of their own: none are split off the data
        columns = {"val_fraction": 0.0}
    for name in COLUMNS:  # a command takes column names as one line of CSV
        names = reading.get(name)
        if names is not None:
            if isinstance(names, str):
                names = [names]
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(names)
            columns[name] = line.getvalue()
    inputs = DataInputs(data=str(data), **{**reading, **columns})
    return origin_of(inputs, NoiseInputs())
