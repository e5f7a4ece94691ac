"""Samples that a program gives: a name or path, or data in memory, which can be kept in a file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.data.load import load
from datassay.data.samples import SampleSet

if TYPE_CHECKING:
    from datassay.data.back.origin import Origin

ROLES = ("target", "ids", "source")
COLUMNS = ("drop", "keep", "categorical", "text")


@dataclass(frozen=True)
class Given:
    """Samples as they were given.

    Attributes:
        data: what `load` takes, or (train, val) as it gives them.
        val: held-out samples of their own; None: none.
        reading: the other arguments of `load`.
    """

    data: Any
    val: Any
    reading: dict[str, Any]

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

    def origin(self) -> Origin:
        """How samples of a name or path are read again."""
        return _origin(self.data, self.val, self.reading)

    def kept(self, folder: Path, out: Path) -> tuple[Path, Origin]:
        """Write data from memory to a file.

        Args:
            folder: where it is made.
            out: where it will be.

        Returns:
            The file, and how the samples are read again from `out`.
        """
        from datassay.data.back.origin import keep

        roles = {name: self.reading.get(name) for name in ROLES}
        data, val = self.data, self.val
        if all(isinstance(part, tuple) and len(part) == 2 for part in (data, val)):
            data, val = (*data, *val), None
        file, found = keep(data, folder, **roles)
        origin = _origin(file, val, {**self.reading, **dict.fromkeys(ROLES), **found})
        inputs = {**origin.inputs, "data": str(out.resolve() / file.name)}
        return file, replace(origin, inputs=inputs)


def _origin(data: Any, val: Any, reading: dict[str, Any]) -> Origin:
    """As the command line would read it; held-out samples of their own are not read again."""
    from datassay.commands.finished import origin_of

    columns = {name: _line(reading[name]) for name in COLUMNS if name in reading}
    alone = {} if val is None else {"val_fraction": 0.0}
    inputs = DataInputs(data=str(data), **{**reading, **columns, **alone})
    return origin_of(inputs, NoiseInputs())


def _line(names: Any) -> str | None:
    """Names of columns between commas, quoted where they hold one."""
    if names is None:
        return None
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([names] if isinstance(names, str) else names)
    return line.getvalue()
