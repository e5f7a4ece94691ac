"""A run that is finished: what its folder holds, and its samples read again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.commands.inputs import DataInputs, NoiseInputs, load_sets, with_noise
from datassay.data.back.origin import Origin, source_digest
from datassay.data.source import reading
from datassay.data.synthetic.builtin import BUILTINS
from datassay.errors import DataError
from datassay.store.folders import heal

if TYPE_CHECKING:
    from datassay.data.samples import SampleSet

SCORES, SUMMARY = "scores.parquet", "summary.json"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What `datassay run` or `datassay score` left.

    Attributes:
        folder: of its files.
        summary: of summary.json.
        scores: one row a training sample.
        inputs: which samples were read; None of a run of arrays.
        noise: what was spoiled on purpose.
        digest: of the data as they were read.
    """

    folder: Path
    summary: dict[str, Any]
    scores: pa.Table
    inputs: DataInputs | None
    noise: NoiseInputs
    digest: str


def origin_of(inputs: DataInputs, noise: NoiseInputs) -> Origin:
    """Where a run's samples come from, to be written beside its results."""
    data = str(inputs.data if inputs.data_option is None else inputs.data_option)
    where = data if data in BUILTINS else str(Path(data).expanduser().resolve())
    read = asdict(replace(inputs, data=where, data_option=None))
    return Origin({**read, **asdict(noise)}, source_digest(where), noise.noise)


def finished_run(folder: str | Path) -> FinishedRun:
    """What a folder of results holds.

    Args:
        folder: that `--out` named.

    Returns:
        Summary, scores and how its samples were read.

    Raises:
        DataError: the folder does not hold a run's files, or they are damaged.
    """
    folder = Path(folder)
    for name in (SCORES, SUMMARY):
        if not (folder / name).is_file():
            raise DataError(
                f"{folder} must hold {name}, which datassay run and datassay score write; it does "
                "not. Name the folder that --out named."
            )
    heal(folder)  # a killed run may have left new tables beside older ones
    with reading(folder / SUMMARY):
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    with reading(folder / SCORES), pq.ParquetFile(folder / SCORES) as file:
        scores = file.read()
    origin = summary.get("origin") if isinstance(summary, dict) else None
    if not isinstance(origin, dict):
        return FinishedRun(folder, summary, scores, None, NoiseInputs(), "")
    given = origin["inputs"]
    return FinishedRun(
        folder, summary, scores, _read(DataInputs, given), _read(NoiseInputs, given),
        origin["digest"],
    )  # fmt: skip


def _read(cls: type, given: dict[str, Any]) -> Any:
    names = {f.name for f in fields(cls)}
    own = {name: value for name, value in given.items() if name in names}
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in own.items()})


def sets_of(
    run: FinishedRun, data: str | None = None, encode: Any = None
) -> tuple[SampleSet, SampleSet | None]:
    """The samples of a run, read again as it read them.

    Args:
        run: finished.
        data: where they are now; None: where the run found them.
        encode: as for `load`.

    Returns:
        (train, val), train with the labels that the run saw.

    Raises:
        DataError: the data are gone or others than the run's, told by their digest.
    """
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
    """The `encode` of who only looks: texts and images of files get a number each as x.

    Args:
        train: as read.
        val: as read; None where nothing is held out.

    Returns:
        Both sets; those that hold numbers as they are.
    """
    return _numbered(train), None if val is None else _numbered(val)


def _numbered(samples: SampleSet) -> SampleSet:
    if samples.images is None and samples.texts is None:
        return samples
    return replace(samples, x=np.arange(len(samples), dtype=np.float32)[:, None], feature_names=())
