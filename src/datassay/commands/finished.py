"""A run that is finished: what its folder holds, and where its samples come from."""

from __future__ import annotations

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

from datassay.commands.command import read
from datassay.commands.inputs import COLUMNS, DataInputs, NoiseInputs, load_sets, with_noise
from datassay.data.back.origin import Origin, keep, source_digest
from datassay.data.load import load
from datassay.data.memory.frames import frame_table, row_ids
from datassay.data.samples import SampleSet
from datassay.data.source import reading, to_numpy
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.columns import read_column
from datassay.data.tables.read import ROLES, Choices
from datassay.data.tables.sources import plain_values
from datassay.errors import DataError
from datassay.store.folders import heal

SCORES, SUMMARY = "scores.parquet", "summary.json"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What `datassay run` or `datassay score` left."""

    folder: Path  # of its files
    summary: dict[str, Any]  # of summary.json
    scores: pa.Table  # one row per training sample
    inputs: DataInputs | None  # which samples were read; None of a run of arrays
    noise: NoiseInputs  # what was corrupted on purpose
    digest: str  # of the data as they were read


def origin_of(inputs: DataInputs, noise: NoiseInputs) -> Origin:
    """Where a run's samples come from, to be written with its results."""
    data = str(inputs.data if inputs.data_option is None else inputs.data_option)
    where = data if data in BUILTINS else str(Path(data).expanduser().resolve())
    # A file of trusted ids changes no sample.
    trusted = None if inputs.trusted_file else inputs.trusted
    read = asdict(replace(inputs, data=where, data_option=None, trusted=trusted))
    return Origin({**read, **asdict(noise)}, source_digest(where), noise.noise)


def read_scores(folder: Path) -> pa.Table:
    """The table of scores that a run left in its folder."""
    check_run(folder, SCORES)
    heal(folder)  # a killed run may have left new tables beside older ones
    with reading(folder / SCORES), (folder / SCORES).open("rb") as file:
        return pq.ParquetFile(file).read()


def read_summary(folder: Path) -> Any:
    """What a run's summary.json holds, whatever that is."""
    with reading(folder / SUMMARY):
        return json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def check_run(folder: Path, name: str = SCORES) -> None:
    """Refuse a folder that holds no run."""
    if not (folder / name).is_file():
        raise DataError(
            f"{folder} must hold {name}, which datassay run and datassay score write; it does not. "
            "Name the folder that --out named."
        )


def finished_run(folder: str | Path) -> FinishedRun:
    """What the folder of a run holds that `--out` named."""
    folder = Path(folder)
    for name in (SCORES, SUMMARY):
        check_run(folder, name)
    scores, summary = read_scores(folder), read_summary(folder)
    origin = summary.get("origin") if isinstance(summary, dict) else None
    if not isinstance(origin, dict):
        return FinishedRun(folder, summary, scores, None, NoiseInputs(), "")
    own = origin["inputs"].items()
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in own}
    inputs, noise = read(DataInputs, given), read(NoiseInputs, given)
    return FinishedRun(folder, summary, scores, inputs, noise, origin["digest"])


def check_columns(folder: Path, scores: pa.Table, names: Sequence[str], purpose: str = "") -> None:
    """Refuse scores that lack some columns."""
    if missing := [name for name in names if name not in scores.column_names]:
        raise DataError(
            f"{folder / SCORES} must have the columns {', '.join(names)}{purpose}; it lacks "
            f"{', '.join(missing)}. Run again."
        )


def sets_of(
    run: FinishedRun, data: str | None = None, encode: Any = None
) -> tuple[SampleSet, SampleSet | None]:
    """The samples of a run, read again as it read them."""
    if run.inputs is None:
        raise DataError(
            f"{run.folder} must say where its samples are; they came from memory as SampleSets. "
            "Give datassay run, or assay, what load was given."
        )
    inputs = run.inputs if data is None else replace(run.inputs, data=data)
    where = str(inputs.data)
    if where not in BUILTINS and not os.path.exists(os.path.expanduser(where)):
        raise DataError(f"{where}, the data of {run.folder}, is not there. Name it with --data.")
    if source_digest(where) != run.digest:
        raise DataError(
            f"{where} must be the data that {run.folder} is about; it was changed since, or is "
            "another. Name the right data with --data, or run again."
        )
    train, val = load_sets(inputs, encode)
    return with_noise(train, run.noise, inputs.seed), val


def unread(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """The `encode` of who only looks: texts and images of files get a number each as x."""

    def numbered(samples: SampleSet) -> SampleSet:
        if samples.images is None and samples.texts is None:
            return samples
        x = np.arange(len(samples), dtype=np.float32)[:, None]
        return replace(samples, x=x, feature_names=())

    return numbered(train), None if val is None else numbered(val)


def with_unscored(train: SampleSet, val: SampleSet | None) -> SampleSet:
    """Return the training samples with a warning of those that nobody asked to hold out."""
    if val is None or not val.split_off:
        return train
    warning = (
        f"{len(val):,} of {len(train) + len(val):,} samples are held out to judge by and get no "
        "scores; val_fraction 0 scores all."
    )
    return replace(train, warnings=(*train.warnings, warning))


@dataclass(frozen=True)
class Given:
    """Samples as they were given."""

    data: Any  # what `load` takes, or (train, val) as it gives them
    val: Any  # held-out samples of their own; None: none
    reading: dict[str, Any]  # the other arguments of `load`

    @property
    def is_loaded(self) -> bool:
        """Whether it is what `load` gives."""
        is_pair = isinstance(self.data, tuple) and len(self.data) == 2
        return is_pair and isinstance(self.data[0], SampleSet)

    @property
    def is_named(self) -> bool:
        """Whether it is a built-in name or a path."""
        return isinstance(self.data, str | Path)

    def sets(self, encode: Any) -> tuple[SampleSet, SampleSet | None]:
        """Training samples, and held-out ones or None; raises what `load` raises."""
        if self.is_loaded:
            return self.data
        return load(self.data, val=self.val, encode=encode, **self.reading)

    @property
    def _frame(self) -> Any:
        """The user's own frame of pandas; None of other data."""
        data = self.data[0] if isinstance(self.data, tuple) and self.data else self.data
        return data if hasattr(getattr(data, "index", None), "nlevels") else None

    @property
    def frame_columns(self) -> Sequence[Any]:
        """The columns of the user's own frame of pandas; none of other data."""
        return () if self._frame is None else tuple(self._frame.columns)

    def frame_index(self, ids: list[Any]) -> Any:
        """Return labels of the rows with these ids in the user's own frame, of their own type.

        None of other data, and where ids are none of that frame's.
        """
        if (frame := self._frame) is None or (table := frame_table(frame)) is None:
            return None
        table, labelled = row_ids(table)
        names = labelled if self.reading.get("ids") is None else self.reading["ids"]
        if names is None:
            names = np.arange(len(frame))
        elif isinstance(names, str):
            names = plain_values(read_column(table[names], names, Choices(ids=names)))
        place = {str(each): row for row, each in enumerate(to_numpy(names, "ids").tolist())}
        rows = [place.get(str(each), -1) for each in ids]
        return None if -1 in rows else frame.index.take(rows)

    def origin(self) -> Origin:
        """How samples of a name or path are read again."""
        return _origin(self.data, self.val, self.reading)

    def kept(self, folder: Path, out: Path) -> tuple[Path, Origin]:
        """Write data from memory to a file."""
        roles = {name: self.reading.get(name) for name in ROLES}
        data, val = self.data, self.val
        if all(isinstance(part, tuple) and len(part) == 2 for part in (data, val)):
            data, val = (*data, *val), None
        file, result = keep(data, folder, **roles)
        origin = _origin(file, val, {**self.reading, **dict.fromkeys(ROLES), **result})
        inputs = {**origin.inputs, "data": str(out.resolve() / file.name)}
        return file, replace(origin, inputs=inputs)


def _origin(data: Any, val: Any, reading: dict[str, Any]) -> Origin:
    """As the command line would read it; held-out samples of their own are not read again."""
    columns: dict[str, Any] = {} if val is None else {"val_fraction": 0.0}
    for name in COLUMNS:  # names between commas, quoted where they hold one
        if (names := reading.get(name)) is not None:
            line = io.StringIO()
            row = [names] if isinstance(names, str) else names
            csv.writer(line, lineterminator="").writerow(row)
            columns[name] = line.getvalue()
    inputs = DataInputs(data=str(data), **{**reading, **columns})
    return origin_of(inputs, NoiseInputs())
